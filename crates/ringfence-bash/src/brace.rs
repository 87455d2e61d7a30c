//! Brace expansion of a word into the words that it makes.

use crate::word::{Brace, Part, PartKind, Word};

impl Word {
    /// Returns the words that brace expansion makes of this one, in order; `None`
    /// if there are more than `most`.
    ///
    /// The result holds no braces at the top of a word. Other parts are copied as
    /// they are, so `{$(id),x}` gives a word with the substitution in it.
    pub fn expand_braces(&self, most: usize) -> Option<Vec<Word>> {
        let mut words = vec![Word { span: self.span, parts: Vec::new() }];
        for part in &self.parts {
            let choices = match &part.kind {
                PartKind::Brace(Brace::List(list)) => {
                    let mut choices = Vec::new();
                    for word in list {
                        choices.extend(word.expand_braces(most)?.into_iter().map(|word| word.parts));
                        if choices.len() > most {
                            return None;
                        }
                    }
                    choices
                }
                PartKind::Brace(Brace::Range(text)) => {
                    let lit = |text| vec![Part { span: part.span, kind: PartKind::Lit(text) }];
                    range(text, most)?.into_iter().map(lit).collect()
                }
                _ => {
                    for word in &mut words {
                        word.parts.push(part.clone());
                    }
                    continue;
                }
            };
            if words.len().checked_mul(choices.len()).is_none_or(|n| n > most) {
                return None;
            }
            let mut product = Vec::with_capacity(words.len() * choices.len());
            for word in &words {
                for choice in &choices {
                    let mut word = word.clone();
                    word.parts.extend(choice.iter().cloned());
                    product.push(word);
                }
            }
            words = product;
        }
        // An unquoted word that comes out empty is no argument at all.
        if self.parts.iter().any(|part| matches!(part.kind, PartKind::Brace(_))) {
            words.retain(|word| !word.parts.is_empty());
        }
        Some(words)
    }
}

/// Lists a range such as `1..9`, `09..01`, `a..e..2`; `None` if it is too long.
fn range(text: &str, most: usize) -> Option<Vec<String>> {
    let mut ends = text.split("..");
    let (from, to) = (ends.next()?, ends.next()?);
    let step = ends.next().map_or(Some(1), |step| step.parse::<i64>().ok())?;
    let step = i128::from(step.unsigned_abs().max(1));
    let (first, last, show): (i128, i128, Box<dyn Fn(i128) -> String>) =
        match (from.parse::<i64>(), to.parse::<i64>()) {
            (Ok(first), Ok(last)) => {
                let width = if padded(from) || padded(to) { from.len().max(to.len()) } else { 0 };
                (first.into(), last.into(), Box::new(move |n| format!("{n:0width$}")))
            }
            _ => {
                let letter = |text: &str| text.bytes().next().map(i128::from);
                let show = |n| u8::try_from(n).map_or(String::new(), |b| char::from(b).to_string());
                (letter(from)?, letter(to)?, Box::new(show))
            }
        };
    let count = (last - first).abs() / step + 1;
    if count > i128::try_from(most).ok()? {
        return None;
    }
    let sign = if first <= last { 1 } else { -1 };
    Some((0..count).map(|n| show(first + sign * n * step)).collect())
}

/// Tells whether a number is written with leading zeros, which bash keeps.
fn padded(number: &str) -> bool {
    let digits = number.trim_start_matches(['-', '+']);
    digits.len() > 1 && digits.starts_with('0')
}

#[cfg(test)]
mod tests {
    fn expand(text: &str) -> Vec<String> {
        let script = crate::parse(&format!("echo {text}")).unwrap();
        let commands = script.simple_commands();
        let words = commands[0].simple.words[1..].iter().flat_map(|word| word.expand_braces(1000).unwrap());
        words.map(|word| word.as_literal().unwrap_or_else(|| "?".to_owned())).collect()
    }

    #[test]
    fn expands_as_bash_does() {
        for (text, want) in [
            ("{rm,-rf,/}", "rm -rf /"),
            ("a{b,c}d", "abd acd"),
            ("{a,b}{c,d}", "ac ad bc bd"),
            ("{a,{b,c}", "{a,b {a,c"),
            ("{a,b}}", "a} b}"),
            ("{{a,b}", "{a {b"),
            ("{a}", "{a}"),
            ("{}", "{}"),
            ("{a..c}", "a b c"),
            ("{1..3..2}", "1 3"),
            ("{01..3}", "01 02 03"),
            ("{3..1}", "3 2 1"),
            ("{-1..1}", "-1 0 1"),
            ("{a..}", "{a..}"),
            ("{1..a}", "{1..a}"),
            ("{,x}", "x"),
            (r#"{"a,b",c}"#, "a,b c"),
            (r"{a\,b,c}", "a,b c"),
            ("{x,{y,z}w}", "x yw zw"),
            ("{x,{a}b,c},d}", "x,d} {a}b,d} c,d}"),
            ("{1..2..0}", "1 2"),
            ("{$x,y}", "? y"),
        ] {
            assert_eq!(expand(text).join(" "), want, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_too_much_or_unclear() {
        let word = |text: &str| crate::parse(text).unwrap().simple_commands()[0].simple.words[0].clone();
        assert!(word("{1..1000000000}").expand_braces(1000).is_none());
        assert!(word("{1..9}{1..9}{1..9}{1..9}").expand_braces(1000).is_none());
        assert!(word("{-9223372036854775808..9223372036854775807}").expand_braces(10).is_none());
        assert!(crate::parse("{a}b,c}").is_err(), "bash makes `a}}b c` of this");
    }
}
