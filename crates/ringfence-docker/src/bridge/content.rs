//! What is written to a file: bytes, or text that stands for bytes.

use base64::Engine as _;
use ringfence_model::{Error, ErrorKind, Result};

/// How text stands for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    #[default]
    Utf8,
    /// Little-endian, without a mark at the beginning.
    Utf16,
    /// Each character is one byte.
    Latin1,
    Base64,
    Hex,
}

impl Encoding {
    /// The encoding of that name, as tools call them.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "utf8" | "utf-8" => Self::Utf8,
            "utf16le" | "utf-16le" | "ucs2" | "ucs-2" => Self::Utf16,
            "latin1" | "binary" => Self::Latin1,
            "base64" => Self::Base64,
            "hex" => Self::Hex,
            _ => return None,
        })
    }

    pub fn bytes_of(self, text: &str) -> Result<Vec<u8>> {
        let wrong = |what: &str| Error::new(ErrorKind::Validation, format!("the text is not {what}"));
        match self {
            Self::Utf8 => Ok(text.as_bytes().to_vec()),
            Self::Utf16 => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Latin1 => text
                .chars()
                .map(|c| {
                    u8::try_from(u32::from(c)).map_err(|_| wrong("Latin-1: it has a character above U+00FF"))
                })
                .collect(),
            Self::Base64 => {
                base64::engine::general_purpose::STANDARD.decode(text.trim()).map_err(|_| wrong("base64"))
            }
            Self::Hex => hex(text.trim().as_bytes()).ok_or_else(|| wrong("hexadecimal")),
        }
    }
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_bytes() {
        for (name, text, want) in [
            ("utf8", "é", Some(vec![0xc3, 0xa9])),
            ("latin1", "é", Some(vec![0xe9])),
            ("latin1", "€", None),
            ("utf16le", "é", Some(vec![0xe9, 0])),
            ("base64", "AAEC/w==\n", Some(vec![0, 1, 2, 255])),
            ("base64", "A", None),
            ("hex", "00fF", Some(vec![0, 255])),
            ("hex", "0", None),
            ("hex", "0g", None),
            ("hex", "", Some(vec![])),
        ] {
            assert_eq!(Encoding::from_name(name).unwrap().bytes_of(text).ok(), want, "{name} {text}");
        }
        assert_eq!(Encoding::from_name("rot13"), None);
    }
}
