//! Which operations a profile allows: the last rule that matches decides.

use super::{Expression, Node, read};

/// Operations that the evaluator knows; a name that is not here is taken for a mistake.
const OPERATIONS: &[&str] = &[
    "file-ioctl",
    "file-link",
    "file-map-executable",
    "file-read-data",
    "file-read-metadata",
    "file-read-xattr",
    "file-test-existence",
    "file-write-create",
    "file-write-data",
    "file-write-mode",
    "file-write-owner",
    "file-write-times",
    "file-write-unlink",
    "file-write-xattr",
    "ipc-posix-sem",
    "ipc-posix-shm",
    "mach-lookup",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "process-exec",
    "process-exec-interpreter",
    "process-fork",
    "process-info-pidinfo",
    "pseudo-tty",
    "signal",
    "sysctl-read",
    "sysctl-write",
];

/// What an operation is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    Path(&'a [u8]),
    /// A pseudo terminal that was made inside.
    OwnTerminal(&'a [u8]),
    /// The name of a service or of a kernel value.
    Name(&'a str),
    /// A process of the same sandbox, or not.
    Process {
        same_sandbox: bool,
    },
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Profile {
    allow_by_default: bool,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    allow: bool,
    operations: Vec<String>,
    /// Any of them; none at all means always.
    filters: Vec<Filter>,
}

#[derive(Debug)]
enum Filter {
    Literal(String),
    Subpath(String),
    Prefix(String),
    Regex(Expression),
    Name(String),
    SameSandbox,
    OwnTerminal,
    Any(Vec<Filter>),
    All(Vec<Filter>),
    Not(Box<Filter>),
}

impl Profile {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let nodes = read(text)?;
        let mut forms = nodes.iter().map(|node| match node {
            Node::List(parts) => match parts.split_first() {
                Some((Node::Symbol(head), rest)) => Ok((head.as_str(), rest)),
                _ => Err("a form without a head".to_owned()),
            },
            other => Err(format!("not a form: {other:?}")),
        });
        match forms.next() {
            Some(Ok(("version", [Node::Symbol(version)]))) if version == "1" => {}
            other => return Err(format!("the first form is not (version 1): {other:?}")),
        }
        let mut profile = Self { allow_by_default: false, rules: Vec::new() };
        for form in forms {
            let (head, rest) = form?;
            let allow = match head {
                "allow" => true,
                "deny" => false,
                other => return Err(format!("an unknown form: {other}")),
            };
            profile.add(allow, rest)?;
        }
        Ok(profile)
    }

    fn add(&mut self, allow: bool, parts: &[Node]) -> Result<(), String> {
        let mut rule = Rule { allow, operations: Vec::new(), filters: Vec::new() };
        for part in parts {
            match part {
                Node::Symbol(name) if name == "default" => {
                    if !self.rules.is_empty() {
                        return Err("the default comes after rules".to_owned());
                    }
                    self.allow_by_default = allow;
                }
                Node::Symbol(name) if rule.filters.is_empty() => {
                    if !OPERATIONS.iter().any(|known| operation_matches(name, known)) {
                        return Err(format!("an unknown operation: {name}"));
                    }
                    rule.operations.push(name.clone());
                }
                Node::List(list) if list.first() == Some(&Node::Symbol("with".to_owned())) => {}
                node => rule.filters.push(filter(node)?),
            }
        }
        if !rule.operations.is_empty() {
            self.rules.push(rule);
        }
        Ok(())
    }

    pub(crate) fn allows(&self, operation: &str, subject: Subject<'_>) -> bool {
        assert!(OPERATIONS.contains(&operation), "{operation}");
        let last = self.rules.iter().rev().find(|rule| {
            rule.operations.iter().any(|name| operation_matches(name, operation))
                && (rule.filters.is_empty() || rule.filters.iter().any(|filter| filter.matches(subject)))
        });
        last.map_or(self.allow_by_default, |rule| rule.allow)
    }

    pub(crate) fn allows_path(&self, operation: &str, path: &str) -> bool {
        self.allows(operation, Subject::Path(path.as_bytes()))
    }
}

fn operation_matches(pattern: &str, operation: &str) -> bool {
    pattern.strip_suffix('*').map_or(operation == pattern, |prefix| operation.starts_with(prefix))
}

fn filter(node: &Node) -> Result<Filter, String> {
    let Node::List(parts) = node else { return Err(format!("not a filter: {node:?}")) };
    let Some((Node::Symbol(head), rest)) = parts.split_first() else {
        return Err("a filter without a head".to_owned());
    };
    let all = || rest.iter().map(filter).collect::<Result<Vec<_>, _>>();
    match (head.as_str(), rest) {
        ("literal", [Node::Text(path)]) => Ok(Filter::Literal(path.clone())),
        ("subpath", [Node::Text(path)]) => Ok(Filter::Subpath(path.clone())),
        ("prefix", [Node::Text(path)]) => Ok(Filter::Prefix(path.clone())),
        ("regex", [Node::Text(text)]) => Ok(Filter::Regex(Expression::parse(text)?)),
        ("global-name" | "sysctl-name", [Node::Text(name)]) => Ok(Filter::Name(name.clone())),
        ("target", [Node::Symbol(name)]) if name == "same-sandbox" => Ok(Filter::SameSandbox),
        ("extension", [Node::Text(name)]) if name == "com.apple.sandbox.pty" => Ok(Filter::OwnTerminal),
        ("require-any", _) => Ok(Filter::Any(all()?)),
        ("require-all", _) => Ok(Filter::All(all()?)),
        ("require-not", [one]) => Ok(Filter::Not(Box::new(filter(one)?))),
        _ => Err(format!("an unknown filter: {node:?}")),
    }
}

impl Filter {
    fn matches(&self, subject: Subject<'_>) -> bool {
        match (self, subject) {
            (Self::Any(filters), _) => filters.iter().any(|filter| filter.matches(subject)),
            (Self::All(filters), _) => filters.iter().all(|filter| filter.matches(subject)),
            (Self::Not(filter), _) => !filter.matches(subject),
            (Self::OwnTerminal, Subject::OwnTerminal(_)) => true,
            (filter, Subject::OwnTerminal(path)) => filter.matches(Subject::Path(path)),
            (Self::Literal(want), Subject::Path(path)) => want.as_bytes() == path,
            (Self::Subpath(want), Subject::Path(path)) => {
                want == "/"
                    || path
                        .strip_prefix(want.as_bytes())
                        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            }
            (Self::Prefix(want), Subject::Path(path)) => path.starts_with(want.as_bytes()),
            (Self::Regex(expression), Subject::Path(path)) => expression.found_in(path),
            (Self::Name(want), Subject::Name(name)) => want == name,
            (Self::SameSandbox, Subject::Process { same_sandbox }) => same_sandbox,
            _ => false,
        }
    }
}

#[test]
fn the_last_match_decides() {
    let profile = Profile::parse(
        "(version 1)(deny default (with message \"x\"))(allow file-read* (subpath \"/a\"))\
         (deny file-read-data (literal \"/a/b\"))\
         (allow file-write* (require-all (prefix \"/a/\") (require-not (regex \"\\\\.k$\"))))",
    )
    .unwrap();
    assert!(profile.allows_path("file-read-data", "/a"));
    assert!(!profile.allows_path("file-read-data", "/ab"));
    assert!(!profile.allows_path("file-read-data", "/a/b"));
    assert!(profile.allows_path("file-read-metadata", "/a/b"));
    assert!(profile.allows_path("file-write-data", "/a/c"));
    assert!(!profile.allows_path("file-write-data", "/a/c.k"));
    assert!(!profile.allows("process-fork", Subject::Nothing));
    assert!(Profile::parse("(version 1)(allow default)").unwrap().allows("signal", Subject::Nothing));
    for bad in
        ["", "(version 2)", "(version 1)(allow file-raed*)", "(version 1)(allow file-read* (sub \"/\"))"]
    {
        assert!(Profile::parse(bad).is_err(), "{bad}");
    }
}
