//! The rules of `queries/*.scm`, loaded once.

use std::sync::OnceLock;

use tree_sitter::Query;

use super::Language;

/// What is done with what a rule matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Shell,
    Spawn,
    Program,
    Code,
    Import,
    Ask,
    Reference,
    Remove,
    RemoveReceiver,
    Open,
    Read,
    ReadReceiver,
    Write,
    WriteReceiver,
    Change,
    Link,
    Signal,
    Send,
    Environment,
    Putenv,
    Template,
    Timer,
    Variables,
    Data,
    Loader,
    Endless,
    Member,
    Worker,
    Built,
    Fork,
}

/// One rule of a file.
pub(super) struct CodeRule {
    pub(super) rule: &'static str,
    pub(super) does: Does,
    pub(super) names: Vec<String>,
    pub(super) reason: String,
}

/// The rules of one language.
pub(super) struct Rules {
    pub(super) query: Query,
    /// Of each pattern of the query.
    pub(super) rules: Vec<Vec<CodeRule>>,
}

/// The grammar of a language.
pub(super) fn language(language: Language) -> Option<tree_sitter::Language> {
    match language {
        Language::Python => Some(tree_sitter_python::LANGUAGE.into()),
        Language::JavaScript => Some(tree_sitter_javascript::LANGUAGE.into()),
        Language::Shell | Language::Other(_) | Language::Unknown => None,
    }
}

/// The rules of a language, loaded once.
pub(super) fn rules(of: Language) -> Option<&'static Rules> {
    static PYTHON: OnceLock<Option<Rules>> = OnceLock::new();
    static JAVASCRIPT: OnceLock<Option<Rules>> = OnceLock::new();
    match of {
        Language::Python => {
            PYTHON.get_or_init(|| load(of, include_str!("../../queries/python.scm"))).as_ref()
        }
        Language::JavaScript => {
            JAVASCRIPT.get_or_init(|| load(of, include_str!("../../queries/javascript.scm"))).as_ref()
        }
        Language::Shell | Language::Other(_) | Language::Unknown => None,
    }
}

fn load(of: Language, text: &str) -> Option<Rules> {
    // Most rules are about the same shape, any call with arguments. The library takes its time for each pattern, so
    // that all rules about one shape are one pattern to it.
    let mut shapes: Vec<String> = vec![];
    let mut rules: Vec<Vec<CodeRule>> = vec![];
    for pattern in text.split("\n\n").filter(|pattern| !pattern.starts_with(';')) {
        let (shape, settings) = take_settings(pattern)?;
        let setting = |key: &str| settings.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let rule = CodeRule {
            rule: rule_name(setting("rule")?)?,
            does: does(setting("does")?)?,
            names: setting("names").unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            reason: setting("reason")?.to_owned(),
        };
        if let Some(at) = shapes.iter().position(|known| *known == shape) {
            rules[at].push(rule);
        } else {
            shapes.push(shape);
            rules.push(vec![rule]);
        }
    }
    let query = Query::new(&language(of)?, &shapes.join("\n")).ok()?;
    (query.pattern_count() == rules.len()).then_some(Rules { query, rules })
}

/// A pattern without its `(#set! key "value")`, and those.
fn take_settings(pattern: &str) -> Option<(String, Vec<(&str, &str)>)> {
    let mut parts = pattern.split("(#set! ");
    let mut shape = parts.next()?.to_owned();
    let mut settings = vec![];
    for part in parts {
        let (key, rest) = part.split_once(" \"")?;
        let (value, rest) = rest.split_once("\")")?;
        settings.push((key, value));
        shape.push_str(rest);
    }
    Some((shape.split_whitespace().collect::<Vec<_>>().join(" "), settings))
}

fn does(word: &str) -> Option<Does> {
    Some(match word {
        "shell" => Does::Shell,
        "spawn" => Does::Spawn,
        "program" => Does::Program,
        "code" => Does::Code,
        "import" => Does::Import,
        "ask" => Does::Ask,
        "reference" => Does::Reference,
        "remove" => Does::Remove,
        "remove-receiver" => Does::RemoveReceiver,
        "open" => Does::Open,
        "read" => Does::Read,
        "read-receiver" => Does::ReadReceiver,
        "write" => Does::Write,
        "write-receiver" => Does::WriteReceiver,
        "change" => Does::Change,
        "link" => Does::Link,
        "signal" => Does::Signal,
        "send" => Does::Send,
        "environment" => Does::Environment,
        "putenv" => Does::Putenv,
        "template" => Does::Template,
        "timer" => Does::Timer,
        "variables" => Does::Variables,
        "data" => Does::Data,
        "loader" => Does::Loader,
        "endless" => Does::Endless,
        "member" => Does::Member,
        "worker" => Does::Worker,
        "built" => Does::Built,
        "fork" => Does::Fork,
        _ => return None,
    })
}

/// Names of rules are part of what is shown, so there is a fixed set of them.
pub(super) fn rule_name(word: &str) -> Option<&'static str> {
    const NAMES: &[&str] = &[
        "runs-shell",
        "runs-program",
        "dynamic-code",
        "dynamic-import",
        "inner-workings",
        "passed-around",
        "removes",
        "opens",
        "reads",
        "writes",
        "changes",
        "links",
        "privilege",
        "signals",
        "native-code",
        "sends-environment",
        "sets-variable",
        "code-secret",
        "loads-objects",
        "endless-processes",
        "built-name",
        "sends-data",
    ];
    NAMES.iter().find(|name| **name == word).copied()
}

/// Whether a name is meant by a pattern with up to two stars.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            let Some(rest) = name.strip_prefix(before) else { return false };
            match after.split_once('*') {
                None => rest.len() >= after.len() && rest.ends_with(after),
                Some((middle, end)) => rest.contains(middle) && rest.ends_with(end),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rule_files_load_and_every_rule_has_a_reason() {
        for language in [Language::Python, Language::JavaScript] {
            let rules = rules(language).expect("the queries parse");
            let all: Vec<&CodeRule> = rules.rules.iter().flatten().collect();
            assert!(all.len() > 20);
            assert!(rules.rules.len() < 15, "{} shapes", rules.rules.len());
            assert!(all.iter().all(|rule| rule.reason.len() > 10));
        }
    }

    #[test]
    fn names_match_by_pattern() {
        assert!(matches("os.system", "os.system"));
        assert!(matches("pathlib.*.unlink", "pathlib.Path().unlink"));
        assert!(matches("*__builtins__*", "globals().__builtins__.exec"));
        assert!(!matches("os.*", "subprocess.run"));
    }
}
