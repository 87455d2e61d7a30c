//! Text from inside a sandbox, as a person may be shown it.

use std::fmt::Write as _;

/// On one line, with every character that could steer a terminal, change the order of others or hide among them spelled
/// out: `\n`, `\u{202e}`.
#[must_use]
pub fn visible(text: &str) -> String {
    if !text.chars().any(misleads) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if misleads(c) => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// At most so many characters of one line; the middle is left out of what is longer.
#[must_use]
pub fn visible_within(text: &str, most: usize) -> String {
    let shown = visible(text);
    let length = shown.chars().count();
    if length <= most {
        return shown;
    }
    let half = most.saturating_sub(1) / 2;
    let end: String = shown.chars().skip(length - half).collect();
    shown.chars().take(half).chain(['…']).chain(end.chars()).collect()
}

/// Whether a person would see something else than is there.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // No width, or a blank that is no blank.
            '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200d}' | '\u{202f}' | '\u{205f}'..='\u{2064}'
                | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
                // The direction of what follows.
                | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
                // A new line.
                | '\u{2028}' | '\u{2029}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mislead_is_spelled_out() {
        for (text, want) in [
            ("/home/ada/größe 日本.txt", "/home/ada/größe 日本.txt"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{1b}[31mred\u{9b}0m", "\\u{1b}[31mred\\u{9b}0m"),
            ("x\u{202e}txt.exe", "x\\u{202e}txt.exe"),
            ("to\u{200b}ken\u{feff}", "to\\u{200b}ken\\u{feff}"),
            ("a\u{2028}b\u{a0}c\u{2067}", "a\\u{2028}b\\u{a0}c\\u{2067}"),
            ("\u{e0041}", "\\u{e0041}"),
        ] {
            assert_eq!(visible(text), want);
        }
    }

    #[test]
    fn what_is_long_keeps_its_beginning_and_its_end() {
        assert_eq!(visible_within("abcdefghij", 10), "abcdefghij");
        assert_eq!(visible_within("abcdefghijk", 7), "abc…ijk");
    }
}
