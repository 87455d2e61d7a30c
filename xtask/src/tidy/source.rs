//! A view of Rust source without its comments and literals.

/// The text with comments and the contents of string and character literals blanked; lines stay where
/// they are.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let end = match c {
            '/' if chars.get(at + 1) == Some(&'/') => line_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => block_comment_end(&chars, at),
            '"' => string_end(&chars, at + 1),
            'r' if !ends_in_word(&code) => raw_string_end(&chars, at).unwrap_or(at),
            '\'' => char_end(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            code.push(c);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Whether `word` stands alone in `text`.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `r` starts a raw string only where no identifier is being written; `br` and `cr` are prefixes too.
fn ends_in_word(code: &str) -> bool {
    let mut last = code.chars().rev();
    match (last.next(), last.next()) {
        (Some('b' | 'c'), before) => before.is_some_and(is_word),
        (Some(c), _) => is_word(c),
        (None, _) => false,
    }
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |offset| at + offset)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => {
                depth += 1;
                i += 2;
            }
            ('*', '/') => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

/// The end of a string whose contents start at `at`.
fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at;
    while let Some(&c) = chars.get(i) {
        match c {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let mut i = open + 1;
    while i < chars.len() {
        if chars[i] == '"' && chars[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

/// The end of a character literal; none for a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let quote = chars[at + 3..].iter().position(|&c| c == '\'')?;
            Some(at + 3 + quote + 1)
        }
        (Some(_), Some('\'')) => Some(at + 3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        for (text, gone, kept) in [
            ("a // word\nb", "word", "b"),
            ("a /* word /* word */ word */ b", "word", "b"),
            ("f(\"a \\\" word\", b)", "word", ", b)"),
            ("f(r#\"a \" word\"#, b)", "word", ", b)"),
            ("f(br\"word\\\", b)", "word", ", b)"),
            ("f('\"', word2, '\\'', b)", "\"", "word2"),
            ("fn f<'a>(x: &'a str) { \"word\"; b }", "word", "<'a>"),
        ] {
            let code = code_only(text);
            assert!(!code.contains(gone), "{text} became {code}");
            assert!(code.contains(kept), "{text} became {code}");
            assert_eq!(code.lines().count(), text.lines().count());
        }
    }

    #[test]
    fn an_identifier_that_ends_in_r_starts_no_string() {
        assert!(code_only("for\"x\"").starts_with("for"));
    }

    #[test]
    fn a_word_stands_alone() {
        assert!(has_word("x unsafe{", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
