//! What `$'…'` stands for.

/// Decodes the text between the quotes; `None` if the result is not UTF-8.
///
/// As in bash, a NUL ends the text, and an unknown escape keeps its backslash.
pub(crate) fn decode(raw: &str) -> Option<String> {
    let mut out = Vec::with_capacity(raw.len());
    let bytes = raw.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&letter) = bytes.get(at) else {
            out.push(b'\\');
            break;
        };
        at += 1;
        match letter {
            b'a' => out.push(0x07),
            b'b' => out.push(0x08),
            b'e' | b'E' => out.push(0x1b),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(0x0b),
            b'\\' | b'\'' | b'"' | b'?' => out.push(letter),
            b'0'..=b'7' => {
                let (value, len) = number(bytes, at - 1, 3, 8);
                at += len - 1;
                // Bash keeps the low byte of `\777`.
                out.push(low_byte(value));
            }
            b'x' => match hex_escape(bytes, at) {
                Some((value, len)) => {
                    at += len;
                    out.push(low_byte(value));
                }
                None => out.extend(b"\\x"),
            },
            b'u' | b'U' => {
                let (value, len) = number(bytes, at, if letter == b'u' { 4 } else { 8 }, 16);
                if len == 0 {
                    out.extend([b'\\', letter]);
                    continue;
                }
                at += len;
                let ch = char::from_u32(value)?;
                out.extend(ch.encode_utf8(&mut [0; 4]).bytes());
            }
            b'c' => {
                let control = bytes.get(at)?;
                at += 1;
                // `\c\\` is control-backslash, written with two.
                if *control == b'\\' && bytes.get(at) == Some(&b'\\') {
                    at += 1;
                }
                out.push(if *control == b'?' { 0x7f } else { control.to_ascii_uppercase() & 0x1f });
            }
            other => out.extend([b'\\', other]),
        }
        if out.last() == Some(&0) {
            out.pop();
            break;
        }
    }
    String::from_utf8(out).ok()
}

/// Reads up to `most` digits; returns the value and how many there were.
fn number(bytes: &[u8], at: usize, most: usize, radix: u32) -> (u32, usize) {
    let digits = bytes.get(at..).unwrap_or_default().iter().take(most);
    let mut value = 0_u32;
    let mut len = 0;
    for digit in digits.map_while(|b| char::from(*b).to_digit(radix)) {
        value = value.wrapping_mul(radix).wrapping_add(digit);
        len += 1;
    }
    (value, len)
}

/// Reads what follows `\x`: two digits, or any number in braces.
fn hex_escape(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    if bytes.get(at) == Some(&b'{') {
        let (value, len) = number(bytes, at + 1, usize::MAX, 16);
        let closed = bytes.get(at + 1 + len) == Some(&b'}');
        return Some((value, 1 + len + usize::from(closed)));
    }
    let (value, len) = number(bytes, at, 2, 16);
    (len > 0).then_some((value, len))
}

fn low_byte(value: u32) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn decodes_as_bash_does() {
        for (raw, want) in [
            ("rm", Some("rm")),
            (r"\x72\x6d", Some("rm")),
            (r"\162\155", Some("rm")),
            (r"\u72\U0000006d", Some("rm")),
            (r"\x{72}m", Some("rm")),
            (r"a\'b\\c\n", Some("a'b\\c\n")),
            (r"\q\z", Some("\\q\\z")),
            (r"ab\0cd", Some("ab")),
            (r"\x00cd", Some("")),
            (r"\cA\c?", Some("\u{1}\u{7f}")),
            (r"\x", Some("\\x")),
            (r"\u", Some("\\u")),
            (r"\xff", None),
            (r"\xc3\xa9", Some("é")),
            (r"\e[0m\E", Some("\u{1b}[0m\u{1b}")),
            (r"\1011", Some("A1")),
            (r"\x411", Some("A1")),
        ] {
            assert_eq!(decode(raw).as_deref(), want, "{raw}");
        }
    }
}
