//! `${…}`.

use crate::arith::distrust;
use crate::error::Result;
use crate::extent::Bracket;
use crate::parser::{Parser, is_name, is_name_start};
use crate::text::{Dollar, TextMode};
use crate::word::{CmdSub, IndirectOp, Param, ParamOp, Part, PartKind, SubStyle, ValueOp, Word};

/// Letters after `@` that transform a value.
const TRANSFORMS: &[u8] = b"UuLQEPAKak";

impl Parser<'_> {
    /// Parses `${…}`.
    pub(crate) fn dollar_brace(&mut self, place: Dollar) -> Result<Part> {
        let at = self.pos;
        let start = self.look_at(1) + 1;
        let close = self.extent(Bracket::Param, start)?;
        self.enter(at)?;
        self.pos = start;
        let kind = self.within(close, |parser| match parser.peek()? {
            Some(b' ' | b'\t' | b'\n' | b'|') => parser.brace_sub(close),
            _ => {
                let kind = match parser.param(close, place)? {
                    Some(param) => PartKind::Param(Box::new(param)),
                    // Bash reads anything here and complains when it runs.
                    None => PartKind::Unsupported("this parameter expansion"),
                };
                Ok(kind)
            }
        })?;
        self.leave();
        self.pos = close + 1;
        Ok(Part { span: self.span_from(at), kind })
    }

    /// Parses `${ …; }` or `${| …; }`.
    ///
    /// Bash 5.3 finds the end with its grammar, older ones by the first `}`. What
    /// could make the two differ is refused.
    fn brace_sub(&mut self, close: usize) -> Result<PartKind> {
        let mut style = SubStyle::Brace;
        if self.look(0) == Some(b'|') {
            self.skip(1);
            style = SubStyle::BracePipe;
        }
        let inside = self.bytes(self.pos, close);
        let ended = inside.iter().rev().find(|b| !matches!(b, b' ' | b'\t'));
        if !matches!(ended, Some(b';' | b'\n' | b'&')) || inside.contains(&b'#') || inside.contains(&b'<') {
            return Ok(PartKind::Unsupported("this `${ …; }`"));
        }
        let pending = std::mem::take(&mut self.pending);
        let in_paren = std::mem::replace(&mut self.in_paren, false);
        let quoted_args = std::mem::take(&mut self.quoted_args);
        let script = self.whole_script()?;
        self.pending = pending;
        self.in_paren = in_paren;
        self.quoted_args = quoted_args;
        Ok(PartKind::CmdSub(Box::new(CmdSub { style, script })))
    }

    /// Parses the inside of `${…}` up to `close`; `None` if it is no known form.
    fn param(&mut self, close: usize, place: Dollar) -> Result<Option<Param>> {
        if self.look(0) == Some(b'#')
            && let Some(param) = self.length(close)?
        {
            return Ok(Some(param));
        }
        let mut indirect = false;
        if self.look(0) == Some(b'!') && self.look(1).is_some_and(begins_indirect) {
            self.skip(1);
            indirect = true;
        }
        let Some(name) = self.param_name()? else { return Ok(None) };
        let special = !name.bytes().next().is_some_and(is_name_start);
        if !special && self.look(0) == Some(b'[') && !self.bytes(self.pos, close).contains(&b']') {
            return Ok(None);
        }
        let index = self.param_index(special)?;
        if indirect
            && !special
            && index.is_none()
            && matches!(self.look(0), Some(b'*' | b'@'))
            && self.look(1).is_none()
        {
            return Ok(Some(Param { name, index, op: ParamOp::Prefix, args: Vec::new() }));
        }
        let Some(first) = self.peek()? else {
            let op = if indirect { ParamOp::Indirect(IndirectOp::Plain) } else { ParamOp::Plain };
            return Ok(Some(Param { name, index, op, args: Vec::new() }));
        };
        let Some((len, op)) = value_op(first, self.look(1), self.look(2)) else { return Ok(None) };
        self.skip(len);
        let args = self.param_args(op, close, place)?;
        let op = if indirect { ParamOp::Indirect(IndirectOp::Value(op)) } else { ParamOp::Value(op) };
        Ok(Some(Param { name, index, op, args }))
    }

    /// Parses `#name` up to the end; `None`, without moving, if it is not a length.
    fn length(&mut self, close: usize) -> Result<Option<Param>> {
        let here = self.pos;
        self.skip(1);
        if self.look(0).is_some()
            && let Some(name) = self.param_name()?
        {
            let special = !name.bytes().next().is_some_and(is_name_start);
            let closed = self.bytes(self.pos, close).contains(&b']');
            let index = if closed { self.param_index(special)? } else { None };
            if self.look_at(0) >= close {
                return Ok(Some(Param { name, index, op: ParamOp::Length, args: Vec::new() }));
            }
        }
        self.pos = here;
        Ok(None)
    }

    fn param_name(&mut self) -> Result<Option<String>> {
        let Some(first) = self.peek()? else { return Ok(None) };
        let wanted: fn(u8) -> bool = match first {
            b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!' => {
                self.pos += 1;
                return Ok(Some(char::from(first).to_string()));
            }
            b'0'..=b'9' => |b| b.is_ascii_digit(),
            _ if is_name_start(first) => is_name,
            _ => return Ok(None),
        };
        let mut name = String::new();
        while let Some(byte) = self.peek()?.filter(|b| wanted(*b)) {
            name.push(char::from(byte));
            self.pos += 1;
        }
        Ok(Some(name))
    }

    fn param_index(&mut self, special: bool) -> Result<Option<Vec<Part>>> {
        if special || self.look(0) != Some(b'[') {
            return Ok(None);
        }
        let open = self.look_at(0) + 1;
        let close = self.extent(Bracket::Subscript, open)?;
        let parts = self.subscript(open, close)?;
        self.pos = close + 1;
        Ok(Some(parts))
    }

    fn param_args(&mut self, op: ValueOp, close: usize, place: Dollar) -> Result<Vec<Word>> {
        let start = self.look_at(0);
        self.pos = start;
        let quoted = place != Dollar::Plain;
        let mode = match op {
            ValueOp::Transform(_) => return Ok(Vec::new()),
            ValueOp::Substring => TextMode::ARITH,
            ValueOp::Default | ValueOp::Assign | ValueOp::Error | ValueOp::Alternative if quoted => {
                TextMode::QUOTED_ARGUMENT
            }
            _ if quoted => TextMode::QUOTED_PATTERN,
            _ => TextMode::ARGUMENT,
        };
        let tilde = if quoted { None } else { self.argument_tilde(close)? };
        self.quoted_args += u32::from(quoted);
        let mut parts = self.text(close, mode)?;
        self.quoted_args -= u32::from(quoted);
        if op == ValueOp::Substring {
            parts = distrust(parts);
        }
        if let Some(tilde) = tilde {
            parts.insert(0, tilde);
        }
        let word = Word { span: self.span(start, close), parts };
        Ok(if op == ValueOp::Replace { split_replacement(word) } else { vec![word] })
    }

    /// Parses a tilde prefix at the start of an argument.
    fn argument_tilde(&mut self, close: usize) -> Result<Option<Part>> {
        let at = self.pos;
        if self.byte(at) != Some(b'~') {
            return Ok(None);
        }
        let rest = self.bytes(at + 1, close);
        let len = rest.iter().take_while(|b| is_name(**b) || matches!(b, b'+' | b'-' | b'.')).count();
        if !matches!(rest.get(len), None | Some(b'/')) {
            return Ok(None);
        }
        self.pos = at + 1 + len;
        let user = self.slice(at + 1, self.pos);
        Ok(Some(Part { span: self.span_from(at), kind: PartKind::Tilde(user) }))
    }
}

/// Tells whether a byte after `${!` begins a name, so that the `!` means indirection.
fn begins_indirect(byte: u8) -> bool {
    is_name(byte) || matches!(byte, b'@' | b'*' | b'#' | b'?' | b'$' | b'!')
}

fn value_op(first: u8, second: Option<u8>, third: Option<u8>) -> Option<(usize, ValueOp)> {
    let doubled = if second == Some(first) { 2 } else { 1 };
    Some(match first {
        b':' => match second {
            Some(b'-') => (2, ValueOp::Default),
            Some(b'=') => (2, ValueOp::Assign),
            Some(b'?') => (2, ValueOp::Error),
            Some(b'+') => (2, ValueOp::Alternative),
            _ => (1, ValueOp::Substring),
        },
        b'-' => (1, ValueOp::Default),
        b'=' => (1, ValueOp::Assign),
        b'?' => (1, ValueOp::Error),
        b'+' => (1, ValueOp::Alternative),
        b'#' => (doubled, ValueOp::RemovePrefix),
        b'%' => (doubled, ValueOp::RemoveSuffix),
        b'/' => match second {
            Some(b'/' | b'#' | b'%') => (2, ValueOp::Replace),
            _ => (1, ValueOp::Replace),
        },
        b'^' | b',' | b'~' => (doubled, ValueOp::Case),
        b'@' => match second {
            Some(letter) if TRANSFORMS.contains(&letter) && third.is_none() => {
                (2, ValueOp::Transform(char::from(letter)))
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Splits `pattern/replacement` at the first slash that stands bare.
fn split_replacement(word: Word) -> Vec<Word> {
    let slash = |part: &Part| matches!(&part.kind, PartKind::Lit(text) if text.contains('/'));
    let Some(n) = word.parts.iter().position(slash) else { return vec![word] };
    let Word { span, mut parts } = word;
    let mut tail = parts.split_off(n);
    let Some(Part { span: lit_span, kind: PartKind::Lit(text) }) = tail.first().cloned() else {
        return Vec::new();
    };
    let (before, after) = text.split_once('/').unwrap_or((&text, ""));
    // Line continuations make a text shorter than its span, so both halves keep
    // the whole span of the text that was split.
    if !before.is_empty() {
        parts.push(Part { span: lit_span, kind: PartKind::Lit(before.to_owned()) });
    }
    if after.is_empty() {
        tail.remove(0);
    } else if let Some(first) = tail.first_mut() {
        first.kind = PartKind::Lit(after.to_owned());
    }
    vec![Word { span, parts }, Word { span, parts: tail }]
}

#[cfg(test)]
mod tests {
    use super::{IndirectOp, Param, ParamOp, PartKind, ValueOp};

    fn param(text: &str) -> Option<Param> {
        let script = crate::parse(&format!("echo {text}")).unwrap();
        let commands = script.simple_commands();
        let part = commands[0].simple.words[1].parts[0].kind.clone();
        match part {
            PartKind::Param(param) => Some(*param),
            PartKind::Unsupported(_) => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn knows_the_forms() {
        for (text, name, op) in [
            ("$x", "x", ParamOp::Plain),
            ("${x}", "x", ParamOp::Plain),
            ("$1", "1", ParamOp::Plain),
            ("${10}", "10", ParamOp::Plain),
            ("${#x}", "x", ParamOp::Length),
            ("${#}", "#", ParamOp::Plain),
            ("${##}", "#", ParamOp::Length),
            ("${#-}", "-", ParamOp::Length),
            ("${#-x}", "#", ParamOp::Value(ValueOp::Default)),
            ("${#:-x}", "#", ParamOp::Value(ValueOp::Default)),
            ("${!x}", "x", ParamOp::Indirect(IndirectOp::Plain)),
            ("${!x-y}", "x", ParamOp::Indirect(IndirectOp::Value(ValueOp::Default))),
            ("${!x*}", "x", ParamOp::Prefix),
            ("${!x@}", "x", ParamOp::Prefix),
            ("${!x@P}", "x", ParamOp::Indirect(IndirectOp::Value(ValueOp::Transform('P')))),
            ("${!}", "!", ParamOp::Plain),
            ("${x:-y}", "x", ParamOp::Value(ValueOp::Default)),
            ("${x=y}", "x", ParamOp::Value(ValueOp::Assign)),
            ("${x:?y}", "x", ParamOp::Value(ValueOp::Error)),
            ("${x+y}", "x", ParamOp::Value(ValueOp::Alternative)),
            ("${x:1:2}", "x", ParamOp::Value(ValueOp::Substring)),
            ("${x: -1}", "x", ParamOp::Value(ValueOp::Substring)),
            ("${@:2}", "@", ParamOp::Value(ValueOp::Substring)),
            ("${x##a}", "x", ParamOp::Value(ValueOp::RemovePrefix)),
            ("${x%a}", "x", ParamOp::Value(ValueOp::RemoveSuffix)),
            ("${x//a/b}", "x", ParamOp::Value(ValueOp::Replace)),
            ("${x^^}", "x", ParamOp::Value(ValueOp::Case)),
            ("${x@P}", "x", ParamOp::Value(ValueOp::Transform('P'))),
            ("${?}", "?", ParamOp::Plain),
        ] {
            let found = param(text).unwrap();
            assert_eq!((found.name.as_str(), found.op), (name, op), "{text}");
        }
    }

    #[test]
    fn does_not_guess() {
        for text in ["${}", "${x!}", "${x@}", "${x@PP}", "${x y}", "${+x}", "${a[1}", "${'x'}"] {
            assert!(param(text).is_none(), "{text}");
        }
    }

    #[test]
    fn splits_pattern_and_replacement() {
        let found = param("${x/a\\/b/c/d}").unwrap();
        let args: Vec<_> = found.args.iter().map(|word| word.as_literal().unwrap()).collect();
        assert_eq!(args, ["a/b", "c/d"]);
        assert_eq!(param("${x/a}").unwrap().args.len(), 1);
    }
}
