//! Regular expressions over bytes: the part of them on which all engines agree.

/// A parsed expression; it is searched for anywhere unless it is anchored.
#[derive(Debug, Clone)]
pub(crate) struct Expression(Vec<Vec<Piece>>);

#[derive(Debug, Clone)]
struct Piece {
    atom: Atom,
    repeat: Repeat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Once,
    Maybe,
    Any,
    Some,
}

#[derive(Debug, Clone)]
enum Atom {
    Start,
    End,
    Dot,
    Byte(u8),
    Set(Box<[bool; 256]>),
    Group(Vec<Vec<Piece>>),
}

impl Expression {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
        let choices = parser.choices()?;
        if parser.at != parser.bytes.len() {
            return Err(format!("left over in {text:?} at {}", parser.at));
        }
        Ok(Self(choices))
    }

    pub(crate) fn found_in(&self, text: &[u8]) -> bool {
        (0..=text.len()).any(|start| choose(&self.0, text, start, &mut |_| true))
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn choices(&mut self) -> Result<Vec<Vec<Piece>>, String> {
        let mut choices = vec![Vec::new()];
        while let Some(byte) = self.peek().filter(|byte| *byte != b')') {
            self.at += 1;
            if byte == b'|' {
                choices.push(Vec::new());
                continue;
            }
            let atom = self.atom(byte)?;
            let repeat = match self.peek() {
                Some(b'*') => Repeat::Any,
                Some(b'+') => Repeat::Some,
                Some(b'?') => Repeat::Maybe,
                _ => Repeat::Once,
            };
            if repeat != Repeat::Once {
                self.at += 1;
            }
            if let Some(last) = choices.last_mut() {
                last.push(Piece { atom, repeat });
            }
        }
        Ok(choices)
    }

    fn atom(&mut self, byte: u8) -> Result<Atom, String> {
        match byte {
            b'^' => Ok(Atom::Start),
            b'$' => Ok(Atom::End),
            b'.' => Ok(Atom::Dot),
            b'(' => {
                let choices = self.choices()?;
                if self.peek() != Some(b')') {
                    return Err("a group without its end".to_owned());
                }
                self.at += 1;
                Ok(Atom::Group(choices))
            }
            b'[' => self.set(),
            b'\\' => {
                let escaped = self.peek().filter(|byte| byte.is_ascii_punctuation());
                self.at += 1;
                escaped.map(Atom::Byte).ok_or_else(|| "an escape that engines read differently".to_owned())
            }
            b'*' | b'+' | b'?' | b'{' | b'}' | b']' => Err(format!("a bare {:?}", char::from(byte))),
            byte => Ok(Atom::Byte(byte)),
        }
    }

    fn set(&mut self) -> Result<Atom, String> {
        let mut set = Box::new([false; 256]);
        let negated = self.peek() == Some(b'^');
        self.at += usize::from(negated);
        let first = self.at;
        loop {
            let low = self.peek().ok_or("a set without its end")?;
            self.at += 1;
            match low {
                b']' if self.at - 1 > first => break,
                b'\\' => return Err("a backslash in a set".to_owned()),
                b'[' if matches!(self.peek(), Some(b':' | b'.' | b'=')) => {
                    return Err("a named class in a set".to_owned());
                }
                _ => {}
            }
            let high = match (self.peek(), self.bytes.get(self.at + 1)) {
                (Some(b'-'), Some(&high)) if high != b']' => {
                    self.at += 2;
                    high
                }
                _ => low,
            };
            if high < low {
                return Err("a range from high to low".to_owned());
            }
            for byte in low..=high {
                set[usize::from(byte)] = true;
            }
        }
        if negated {
            for member in set.iter_mut() {
                *member = !*member;
            }
        }
        Ok(Atom::Set(set))
    }
}

type Next<'a> = &'a mut dyn FnMut(usize) -> bool;

fn choose(choices: &[Vec<Piece>], text: &[u8], at: usize, next: Next<'_>) -> bool {
    choices.iter().any(|pieces| sequence(pieces, text, at, next))
}

fn sequence(pieces: &[Piece], text: &[u8], at: usize, next: Next<'_>) -> bool {
    let Some((piece, rest)) = pieces.split_first() else { return next(at) };
    match piece.repeat {
        Repeat::Once => one(&piece.atom, text, at, &mut |end| sequence(rest, text, end, next)),
        Repeat::Maybe => {
            one(&piece.atom, text, at, &mut |end| sequence(rest, text, end, next))
                || sequence(rest, text, at, next)
        }
        Repeat::Any => any(&piece.atom, rest, text, at, next),
        Repeat::Some => one(&piece.atom, text, at, &mut |end| any(&piece.atom, rest, text, end, next)),
    }
}

fn any(atom: &Atom, rest: &[Piece], text: &[u8], at: usize, next: Next<'_>) -> bool {
    one(atom, text, at, &mut |end| end > at && any(atom, rest, text, end, next))
        || sequence(rest, text, at, next)
}

fn one(atom: &Atom, text: &[u8], at: usize, next: Next<'_>) -> bool {
    match atom {
        Atom::Start => at == 0 && next(at),
        Atom::End => at == text.len() && next(at),
        Atom::Dot => text.get(at).is_some_and(|byte| *byte != b'\n') && next(at + 1),
        Atom::Byte(want) => text.get(at) == Some(want) && next(at + 1),
        Atom::Set(set) => text.get(at).is_some_and(|byte| set[usize::from(*byte)]) && next(at + 1),
        Atom::Group(choices) => choose(choices, text, at, next),
    }
}

#[test]
fn expressions_match_as_everywhere() {
    for (expression, text, want) in [
        ("b", "abc", true),
        ("^b", "abc", false),
        ("^a(b|c)*d$", "abcbd", true),
        ("^a(b|c)+d$", "ad", false),
        ("^(/[^/]+)*/\\.env$", "/p/q/.env", true),
        ("^(/[^/]+)*/\\.env$", "/.env", true),
        ("^(/[^/]+)*/\\.env$", "/p/x.env", false),
        ("^[^]/x^-]$", "]", false),
        ("^[^]/x^-]$", "-", false),
        ("^[^]/x^-]$", "y", true),
        ("^[a-c]?x", "bx", true),
        ("^a.c$", "a\nc", false),
    ] {
        assert_eq!(
            Expression::parse(expression).unwrap().found_in(text.as_bytes()),
            want,
            "{expression} {text}"
        );
    }
    for bad in ["[a", "(a", "a)", "[\\]]", "\\w", "*a", "[z-a]", "a{2}", "[[:alpha:]]"] {
        assert!(Expression::parse(bad).is_err(), "{bad}");
    }
}
