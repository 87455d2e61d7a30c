//! From a path as it is written to a pattern: `~`, `$NAME`, relative paths.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use ringfence_model::PathPattern;

/// The caller's environment.
pub type EnvMap = BTreeMap<OsString, OsString>;

/// What paths are expanded with.
#[derive(Debug, Clone, Copy)]
pub struct Expander<'a> {
    pub home: &'a Path,
    pub project: &'a Path,
    pub env: &'a EnvMap,
}

/// A pattern, and the variables in it that have no value and stayed as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    pub pattern: PathPattern,
    pub unset: Vec<String>,
}

impl Expander<'_> {
    /// Expands `~`, `~/…` and `$NAME` (a letter or `_` first; `${NAME}` is not a variable). What comes from
    /// the home directory or a variable is taken literally, `*` and all. A variable that is unset or empty
    /// stays as written, so that a rule never turns into one for a shorter path. A relative path is the
    /// project's; a pattern that begins with `**/` holds everywhere.
    #[must_use]
    pub fn pattern(&self, text: &str) -> Expanded {
        let mut unset = Vec::new();
        let mut out = String::with_capacity(text.len() + 32);
        let mut rest = text;
        if let Some(below) = text.strip_prefix('~')
            && (below.is_empty() || below.starts_with('/'))
        {
            out.push_str(&literal(self.home.as_os_str()));
            rest = below;
        }
        while let Some(at) = rest.find(['$', '\\']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if rest.starts_with('\\') {
                // The pattern language escapes with it; whatever follows is not ours.
                let end = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            let name = variable_name(&rest[1..]);
            match self.env.get(OsStr::new(name)).filter(|value| !name.is_empty() && !value.is_empty()) {
                Some(value) => out.push_str(&literal(value)),
                None => {
                    if !name.is_empty() {
                        unset.push(name.to_owned());
                    }
                    out.push_str(&rest[..=name.len()]);
                }
            }
            rest = &rest[1 + name.len()..];
        }
        out.push_str(rest);
        Expanded { pattern: PathPattern::parse(&self.absolute(&out)), unset }
    }

    /// The plain path that `text` names, when it is not a glob.
    #[must_use]
    pub fn path(&self, text: &str) -> Option<PathBuf> {
        self.pattern(text).pattern.as_literal().map(Path::to_path_buf)
    }

    fn absolute(&self, text: &str) -> String {
        let anywhere = text == "**" || text.starts_with("**/");
        let joined = if text.starts_with('/') || anywhere {
            text.to_owned()
        } else {
            format!("{}/{text}", literal(self.project.as_os_str()))
        };
        if joined.split('/').any(|part| part == "." || part == "..") || joined.contains("//") {
            normalize(&joined)
        } else {
            joined
        }
    }
}

/// Pattern syntax that means exactly this text. What is not valid UTF-8 cannot be written in a pattern and
/// is replaced, so that the rule covers nothing rather than something else.
fn literal(text: &OsStr) -> String {
    PathPattern::literal(Path::new(text)).to_syntax().into_owned()
}

/// A path as text that [`Expander::pattern`] gives back unchanged.
pub(super) fn written(path: &Path) -> String {
    let text = literal(path.as_os_str()).replace('$', "\\$");
    if text.starts_with('~') { format!("\\{text}") } else { text }
}

fn variable_name(text: &str) -> &str {
    let named = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if named { &text[..end] } else { "" }
}

/// Removes `.`, `..` and doubled slashes by the text alone.
fn normalize(text: &str) -> String {
    let mut clean = PathBuf::new();
    for part in Path::new(text).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => clean.push(part),
        }
    }
    clean.to_string_lossy().into_owned()
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
    fn relative_paths_are_the_projects_and_dots_are_resolved() {
        for (text, want) in [
            ("secrets", "/work/p/secrets"),
            ("./a/../b", "/work/p/b"),
            ("../other", "/work/other"),
            ("../../../../etc", "/etc"),
            ("$UP/x", "/work/x"),
            ("*.pem", "/work/p/*.pem"),
            ("a/**/b", "/work/p/a/**/b"),
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
}
