//! From a path as it is written to a pattern: `~`, `$NAME`, relative paths.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use ringfence_model::environment::holds_secret;
use ringfence_model::{PathPattern, RuleLayer};

/// The caller's environment.
pub type EnvMap = BTreeMap<OsString, OsString>;

static NO_VARIABLES: EnvMap = EnvMap::new();

/// The home and the variables by which paths are expanded.
#[derive(Debug, Clone, Copy)]
pub struct Expander<'a> {
    pub home: &'a Path,
    pub project: &'a Path,
    pub env: &'a EnvMap,
}

/// A pattern, and the variables in it that stayed as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    pub pattern: PathPattern,
    pub unset: Vec<String>,
}

impl Expander<'_> {
    /// As rules of this layer are expanded. What a repository brings along sees no variable: a rule's path is shown to
    /// whoever meets it, and that is the inside.
    #[must_use]
    pub fn of(self, layer: RuleLayer) -> Self {
        match layer {
            RuleLayer::Project => Self { env: &NO_VARIABLES, ..self },
            _ => self,
        }
    }

    /// Expands `~`, `~/…` and `$NAME` (a letter or `_` first; `${NAME}` is not a variable). Text that comes from
    /// the home directory or a variable is taken literally, `*` and all. A variable that is unset or empty
    /// stays as written, so that a rule never turns into one for a shorter path; and so does one that is named like a
    /// secret. A relative path is the project's; a pattern that begins with `**/` holds everywhere.
    #[must_use]
    pub fn pattern(&self, text: &str) -> Expanded {
        let mut unset = Vec::new();
        let mut out = Vec::with_capacity(text.len() + 32);
        let mut rest = text;
        if let Some(below) = text.strip_prefix('~')
            && (below.is_empty() || below.starts_with('/'))
        {
            push_literal(&mut out, self.home.as_os_str());
            rest = below;
        }
        while let Some(at) = rest.find(['$', '\\']) {
            out.extend_from_slice(&rest.as_bytes()[..at]);
            rest = &rest[at..];
            if rest.starts_with('\\') {
                // The pattern language escapes with it; whatever follows is not ours.
                let end = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
                out.extend_from_slice(&rest.as_bytes()[..end]);
                rest = &rest[end..];
                continue;
            }
            let name = variable_name(&rest[1..]);
            let shown = !name.is_empty() && !holds_secret(name);
            match self.env.get(OsStr::new(name)).filter(|value| shown && !value.is_empty()) {
                Some(value) => push_literal(&mut out, value),
                None => {
                    if !name.is_empty() {
                        unset.push(name.to_owned());
                    }
                    out.extend_from_slice(&rest.as_bytes()[..=name.len()]);
                }
            }
            rest = &rest[1 + name.len()..];
        }
        out.extend_from_slice(rest.as_bytes());
        Expanded { pattern: PathPattern::parse_bytes(&self.absolute(out)), unset }
    }

    /// The plain path that `text` names, when it is not a glob.
    #[must_use]
    pub fn path(&self, text: &str) -> Option<PathBuf> {
        self.pattern(text).pattern.as_literal().map(Path::to_path_buf)
    }

    fn absolute(&self, text: Vec<u8>) -> Vec<u8> {
        let anywhere = text == b"**" || text.starts_with(b"**/");
        let joined = if text.starts_with(b"/") || anywhere {
            text
        } else {
            let mut joined = Vec::with_capacity(text.len() + 64);
            push_literal(&mut joined, self.project.as_os_str());
            joined.push(b'/');
            joined.extend(text);
            joined
        };
        // What is above every directory is nothing: such a pattern stays as written, and matches nothing.
        if anywhere && joined.split(|byte| *byte == b'/').any(|part| part == b"..") {
            return joined;
        }
        let untidy = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
        if joined.split(|byte| *byte == b'/').skip(1).any(untidy) { normalize(joined) } else { joined }
    }
}

/// A path as text that [`Expander::pattern`] gives back unchanged.
pub(super) fn written(path: &Path) -> String {
    let text = PathPattern::literal(path).to_syntax().replace('$', "\\$");
    if text.starts_with('~') { format!("\\{text}") } else { text }
}

/// Adds pattern syntax that means exactly this text.
fn push_literal(out: &mut Vec<u8>, text: &OsStr) {
    for byte in text.as_bytes() {
        if matches!(byte, b'*' | b'?' | b'[' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
}

fn variable_name(text: &str) -> &str {
    let named = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if named { &text[..end] } else { "" }
}

/// Removes `.`, `..` and doubled slashes by the text alone.
fn normalize(text: Vec<u8>) -> Vec<u8> {
    let mut clean = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(&text)).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => clean.push(part),
        }
    }
    clean.into_os_string().into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> EnvMap {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn check(text: &str, want: &str) {
        let env = env(&[
            ("DATA", "/srv/data"),
            ("_X1", "one"),
            ("EMPTY", ""),
            ("STAR", "/srv/*"),
            ("HOME", "/home/u"),
            ("UP", ".."),
        ]);
        let expander = Expander { home: Path::new("/home/u"), project: Path::new("/work/p"), env: &env };
        assert_eq!(expander.pattern(text).pattern.to_string(), want, "{text}");
    }

    #[test]
    fn home_and_variables_are_expanded() {
        for (text, want) in [
            ("~", "/home/u"),
            ("~/.ssh", "/home/u/.ssh"),
            ("~/.ssh/", "/home/u/.ssh"),
            ("$DATA", "/srv/data"),
            ("$DATA/x", "/srv/data/x"),
            ("$HOME/a", "/home/u/a"),
            ("/a/$_X1/b", "/a/one/b"),
            ("$DATA/*.key", "/srv/data/*.key"),
            ("/a/~/b", "/a/~/b"),
            ("~u/x", "/work/p/~u/x"),
            ("/a/${DATA}", "/a/${DATA}"),
            ("/a/$1", "/a/$1"),
            ("/a/$", "/a/$"),
            ("/a/\\$DATA", "/a/$DATA"),
            ("\\~/x", "/work/p/~/x"),
        ] {
            check(text, want);
        }
    }

    #[test]
    fn an_unset_variable_stays_as_written_and_never_shortens_a_path() {
        for (text, want) in [
            ("$NOPE", "/work/p/$NOPE"),
            ("$NOPE/x", "/work/p/$NOPE/x"),
            ("/$NOPE", "/$NOPE"),
            ("/a/$NOPE/b", "/a/$NOPE/b"),
            ("$EMPTY", "/work/p/$EMPTY"),
            ("/$EMPTY", "/$EMPTY"),
            ("$EMPTY/etc", "/work/p/$EMPTY/etc"),
        ] {
            check(text, want);
        }
        let env = EnvMap::new();
        let expander = Expander { home: Path::new("/h"), project: Path::new("/p"), env: &env };
        assert_eq!(expander.pattern("$A/x/$B").unset, ["A", "B"]);
    }

    #[test]
    fn secrets_and_whatever_a_project_names_stay_as_written() {
        let env = env(&[("DATA", "/srv"), ("API_TOKEN", "t0p")]);
        let expander = Expander { home: Path::new("/h"), project: Path::new("/p"), env: &env };
        assert_eq!(expander.pattern("/a/$API_TOKEN").pattern.to_string(), "/a/$API_TOKEN");
        let of = |layer| expander.of(layer).pattern("$DATA/x").pattern.to_string();
        assert_eq!(of(RuleLayer::User), "/srv/x");
        assert_eq!(of(RuleLayer::Project), "/p/$DATA/x");
    }

    #[test]
    fn relative_paths_are_the_projects_and_dots_are_resolved() {
        for (text, want) in [
            ("secrets", "/work/p/secrets"),
            ("./a/../b", "/work/p/b"),
            ("../other", "/work/other"),
            ("../../../../etc", "/etc"),
            ("$UP/x", "/work/x"),
            ("*.pem", "/work/p/*.pem"),
            ("a/**/b", "/work/p/a/**/b"),
            ("**/..", "**/.."),
            ("**/../x", "**/../x"),
            ("**/.env", "**/.env"),
            ("/", "/"),
            ("/..", "/"),
            ("//a//b", "/a/b"),
        ] {
            check(text, want);
        }
    }

    #[test]
    fn what_a_variable_or_the_home_brings_in_is_taken_literally() {
        check("$STAR/x", "/srv/\\*/x");
        let env = EnvMap::new();
        let expander = Expander { home: Path::new("/home/a[b]"), project: Path::new("/p"), env: &env };
        let pattern = expander.pattern("~/*.key").pattern;
        assert!(pattern.covers(Path::new("/home/a[b]/x.key")));
        assert!(!pattern.covers(Path::new("/home/ab/x.key")));
    }

    #[test]
    fn names_that_are_not_utf8_are_covered_too() {
        let env = EnvMap::new();
        let odd = Path::new(OsStr::from_bytes(b"/p/\xff"));
        let expander = Expander { home: odd, project: odd, env: &env };
        for text in ["~/.ssh", "secrets", "~/*.key", "a/../*.key"] {
            let pattern = expander.pattern(text).pattern;
            let inside = ["x.key", ".ssh/id", "secrets/a"].map(|name| odd.join(name));
            assert_eq!(inside.iter().filter(|path| pattern.covers(path)).count(), 1, "{text}");
            assert!(!pattern.covers(Path::new("/p/x/.ssh")), "{text}");
        }
    }
}
