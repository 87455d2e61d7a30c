//! Paths as the shell would see them: made absolute, cleaned up, with patterns kept.

use crate::value::{Seg, Val};

/// One component of a path: text and pattern characters, without slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    segs: Vec<Seg>,
}

impl Component {
    fn known(&self) -> Option<&str> {
        match self.segs.as_slice() {
            [Seg::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it is a lone `*` or `.*`, which stand for all that a directory holds.
    fn is_everything(&self) -> bool {
        match self.segs.as_slice() {
            [Seg::Star, rest @ ..] => rest.iter().all(|seg| *seg == Seg::Star),
            [Seg::Text(dot), Seg::Star] => dot == ".",
            [Seg::Text(dot), Seg::One, Seg::Star] => dot == ".",
            _ => false,
        }
    }

    /// Whether it may stand for `name`.
    pub fn matches(&self, name: &str) -> bool {
        if name.starts_with('.') && !matches!(self.segs.first(), Some(Seg::Text(_))) {
            return false;
        }
        match self.known() {
            Some(text) => text == name,
            None => segs_match(&self.segs, name),
        }
    }

    /// Whether it is `name`, or a pattern of which enough is known to say that `name` is meant.
    pub fn means(&self, name: &str) -> bool {
        match self.segs.as_slice() {
            [Seg::Text(text)] => text == name,
            [Seg::Text(text), ..] if text.len() >= 2 => segs_match(&self.segs, name),
            _ => false,
        }
    }

    fn show(&self) -> String {
        let mut val = Val::default();
        self.segs.iter().cloned().for_each(|seg| val.push(seg));
        val.lossy("…")
    }
}

/// Whether a pattern stands for `name`: the usual way, which goes back to the last star only.
fn segs_match(segs: &[Seg], name: &str) -> bool {
    enum Token {
        Char(char),
        One,
        Star,
    }
    let mut tokens = vec![];
    for seg in segs {
        match seg {
            Seg::Text(text) => tokens.extend(text.chars().map(Token::Char)),
            Seg::One => tokens.push(Token::One),
            Seg::Star | Seg::Unknown | Seg::Process => tokens.push(Token::Star),
        }
    }
    let name: Vec<char> = name.chars().collect();
    let (mut token, mut at) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while at < name.len() {
        match tokens.get(token) {
            Some(Token::Star) => {
                back = Some((token, at));
                token += 1;
            }
            Some(Token::One) => (token, at) = (token + 1, at + 1),
            Some(Token::Char(c)) if *c == name[at] => (token, at) = (token + 1, at + 1),
            _ => match &mut back {
                Some((star, from)) => {
                    *from += 1;
                    (token, at) = (*star + 1, *from);
                }
                None => return false,
            },
        }
    }
    tokens[token..].iter().all(|token| matches!(token, Token::Star))
}

/// An absolute path without `.` and `..`, which may hold patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsPath {
    parts: Vec<Component>,
    /// The value ended in a gap or held one: what is known is only the beginning.
    pub open: bool,
    /// It ended in `*`: what the directory holds is meant.
    pub contents: bool,
}

impl AbsPath {
    /// Makes a value absolute. `None` if not even its beginning is known.
    pub fn of(val: &Val, cwd: Option<&str>) -> Option<AbsPath> {
        let mut path = AbsPath { parts: vec![], open: false, contents: false };
        if !val.prefix().starts_with('/') {
            if matches!(val.segs().first(), Some(Seg::Unknown | Seg::Process)) {
                return None;
            }
            for part in cwd?.split('/') {
                path.step(part);
            }
        }
        let mut current: Vec<Seg> = vec![];
        for seg in val.segs() {
            match seg {
                Seg::Text(text) => {
                    for (index, piece) in text.split('/').enumerate() {
                        if index > 0 {
                            path.finish(&mut current);
                        }
                        if !piece.is_empty() {
                            match current.last_mut() {
                                Some(Seg::Text(last)) => last.push_str(piece),
                                _ => current.push(Seg::Text(piece.to_owned())),
                            }
                        }
                    }
                }
                Seg::Unknown | Seg::Process => {
                    path.open = true;
                    return Some(path);
                }
                seg => current.push(seg.clone()),
            }
        }
        path.finish(&mut current);
        while path.parts.last().is_some_and(Component::is_everything) {
            path.parts.pop();
            path.contents = true;
        }
        Some(path)
    }

    /// A path that is wholly known.
    pub fn literal(path: &str) -> AbsPath {
        let mut abs = AbsPath { parts: vec![], open: false, contents: false };
        path.split('/').for_each(|part| abs.step(part));
        abs
    }

    fn finish(&mut self, current: &mut Vec<Seg>) {
        let segs = std::mem::take(current);
        match segs.as_slice() {
            [] => {}
            [Seg::Text(text)] => self.step(text),
            _ => self.parts.push(Component { segs }),
        }
    }

    fn step(&mut self, part: &str) {
        match part {
            "" | "." => {}
            ".." => {
                self.parts.pop();
            }
            name => self.parts.push(Component { segs: vec![Seg::Text(name.to_owned())] }),
        }
    }

    /// The components.
    pub fn parts(&self) -> &[Component] {
        &self.parts
    }

    /// Whether it is the root directory.
    pub fn is_root(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it may be exactly the path `other`.
    pub fn matches(&self, other: &str) -> bool {
        let mut wanted = other.split('/').filter(|part| !part.is_empty());
        self.parts.iter().all(|part| wanted.next().is_some_and(|name| part.matches(name)))
            && wanted.next().is_none()
    }

    /// Whether it may lie strictly below `dir`.
    pub fn below(&self, dir: &str) -> bool {
        let mut parts = self.parts.iter();
        dir.split('/')
            .filter(|part| !part.is_empty())
            .all(|name| parts.next().is_some_and(|p| p.matches(name)))
            && parts.next().is_some()
    }

    /// Whether it may be `dir` or lie below it.
    pub fn within(&self, dir: &str) -> bool {
        self.matches(dir) || self.below(dir)
    }

    /// Whether `path` lies strictly below this one: removing this one removes it.
    pub fn above(&self, path: &str) -> bool {
        let mut names = path.split('/').filter(|part| !part.is_empty());
        self.parts.iter().all(|part| names.next().is_some_and(|name| part.matches(name)))
            && names.next().is_some()
    }

    /// What of the path comes behind `dir`, if it certainly lies there or is it.
    pub fn inside(&self, dir: &str) -> Option<AbsPath> {
        let mut parts = self.parts.iter();
        dir.split('/')
            .filter(|part| !part.is_empty())
            .all(|name| parts.next().and_then(Component::known) == Some(name))
            .then(|| AbsPath { parts: parts.cloned().collect(), ..*self })
    }

    /// The path up to the first pattern or gap.
    pub fn known_part(&self) -> String {
        let known: String =
            self.parts.iter().map_while(Component::known).flat_map(|name| ["/", name]).collect();
        if known.is_empty() { "/".to_owned() } else { known }
    }

    /// The path, if no patterns or gaps are in it.
    pub fn known(&self) -> Option<String> {
        if self.open {
            return None;
        }
        let mut out = String::new();
        for part in &self.parts {
            out.push('/');
            out.push_str(part.known()?);
        }
        if out.is_empty() {
            out.push('/');
        }
        Some(out)
    }

    /// The path, for people.
    pub fn show(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            out.push('/');
            out.push_str(&part.show());
        }
        if self.open {
            out.push_str("/…");
        }
        if self.contents {
            out.push_str("/*");
        }
        if out.is_empty() { "/".to_owned() } else { out }
    }

    /// Whether the path begins with the components of `dir`, patterns counting as in [`AbsPath::holds`].
    pub fn holds_at_root(&self, dir: &str) -> bool {
        let mut parts = self.parts.iter();
        dir.split('/')
            .filter(|part| !part.is_empty())
            .all(|name| parts.next().is_some_and(|part| part.means(name)))
    }

    /// Whether the components of `names` stand side by side somewhere in the path. A pattern counts when
    /// enough of it is known to say that the name is meant.
    pub fn holds(&self, names: &str) -> bool {
        let wanted: Vec<&str> = names.split('/').filter(|part| !part.is_empty()).collect();
        !wanted.is_empty()
            && self
                .parts
                .windows(wanted.len())
                .any(|window| window.iter().zip(&wanted).all(|(part, name)| part.means(name)))
    }
}

/// The last component of a path in text.
pub fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::of(&Val::text(text).with_globs(), Some("/home/dev/project")).unwrap()
    }

    #[test]
    fn paths_are_cleaned_up() {
        for (text, want) in [
            ("a/../b", "/home/dev/project/b"),
            ("/a//b/./c/", "/a/b/c"),
            ("../../../..", "/"),
            ("/usr/../etc", "/etc"),
            ("/*", "/*"),
            ("x/*/*", "/home/dev/project/x/*"),
            ("/e?c/a", "/e?c/a"),
        ] {
            assert_eq!(abs(text).show(), want, "{text}");
        }
    }

    #[test]
    fn patterns_match_by_component() {
        assert!(abs("/e?c").matches("/etc"));
        assert!(abs("/???").matches("/usr"));
        assert!(!abs("/??").matches("/usr"));
        assert!(abs("/us*/bin").below("/usr"));
        assert!(abs("/").above("/home/dev"));
        assert!(abs(".en?").holds(".env"));
        assert!(!abs("*").holds(".env"));
        assert!(!abs("*.json").holds("secrets.json"));
        assert!(abs("~/.ssh/id_*").holds(".ssh"));
    }
}
