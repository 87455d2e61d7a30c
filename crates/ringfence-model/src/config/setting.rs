//! The small types that settings are made of.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A setting of one layer. "Written as null" is a statement of its own: it beats a preset and means the
/// plain default, whereas "not written" leaves the layer below in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Setting<T> {
    #[default]
    Unset,
    Null,
    Value(T),
}

impl<T> Setting<T> {
    #[must_use]
    pub fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }

    #[must_use]
    pub fn as_ref(&self) -> Setting<&T> {
        match self {
            Self::Unset => Setting::Unset,
            Self::Null => Setting::Null,
            Self::Value(value) => Setting::Value(value),
        }
    }

    /// The value, when there is one.
    #[must_use]
    pub fn value(self) -> Option<T> {
        match self {
            Self::Unset | Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Setting<U> {
        match self {
            Self::Unset => Setting::Unset,
            Self::Null => Setting::Null,
            Self::Value(value) => Setting::Value(f(value)),
        }
    }

    /// This setting, or the other one when this one is not written.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Unset => other,
            Self::Null | Self::Value(_) => self,
        }
    }
}

impl<T> From<T> for Setting<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Value))
    }
}

impl<T: JsonSchema> JsonSchema for Setting<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Option::<T>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}

/// Text that is not empty: the name of a provider, an entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text(String);

impl Text {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() || text.contains('\0') {
            return Err(D::Error::invalid_value(Unexpected::Str(&text), &"text that is not empty"));
        }
        Ok(Self(text))
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

/// A number of bytes: a number, or a number with a unit (`512M`, `2GiB`). Units are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

impl Size {
    const EXPECTED: &'static str = "a number of bytes, such as 536870912 or \"512M\"";

    /// Reads `512M` and the like.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = text[..digits].parse().ok()?;
        let shift = match text[digits..].trim_start_matches(' ').to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "ki" | "kib" => 10,
            "m" | "mb" | "mi" | "mib" => 20,
            "g" | "gb" | "gi" | "gib" => 30,
            "t" | "tb" | "ti" | "tib" => 40,
            _ => return None,
        };
        number.checked_mul(1 << shift).map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(Size::EXPECTED)
            }

            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes, as a number or with a unit: 536870912, \"512M\", \"2GiB\"",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+ *([bB]|[kKmMgGtT]i?[bB]?)?$" }
            ]
        })
    }
}

/// A span of time: a number of seconds, or a number with a unit (`500ms`, `30s`, `5m`, `2h`). Kept in
/// milliseconds; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds {
    pub milliseconds: u64,
}

impl Seconds {
    const EXPECTED: &'static str = "a span of time above zero, such as 30, \"30s\", \"5m\" or \"500ms\"";
    /// A century; longer is a mistake, and shorter cannot overflow on the way to a deadline.
    const MAX_MILLISECONDS: f64 = 3.2e12;

    /// Reads `30s` and the like.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let factor = match text[digits..].trim_start_matches(' ') {
            "ms" => 1.0,
            "" | "s" => 1e3,
            "m" | "min" => 60e3,
            "h" => 3600e3,
            _ => return None,
        };
        Self::from_milliseconds(text[..digits].parse::<f64>().ok()? * factor)
    }

    fn from_milliseconds(milliseconds: f64) -> Option<Self> {
        let rounded = milliseconds.ceil();
        if !(rounded > 0.0 && rounded <= Self::MAX_MILLISECONDS) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounds checked above")]
        Some(Self { milliseconds: rounded as u64 })
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecondsVisitor;
        impl Visitor<'_> for SecondsVisitor {
            type Value = Seconds;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(Seconds::EXPECTED)
            }

            fn visit_u64<E: serde::de::Error>(self, seconds: u64) -> Result<Seconds, E> {
                self.visit_f64(seconds as f64)
            }

            fn visit_f64<E: serde::de::Error>(self, seconds: f64) -> Result<Seconds, E> {
                Seconds::from_milliseconds(seconds * 1e3)
                    .ok_or_else(|| E::invalid_value(Unexpected::Float(seconds), &self))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Seconds, E> {
                Seconds::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(SecondsVisitor)
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Seconds, or a number with a unit: 30, \"500ms\", \"30s\", \"5m\", \"2h\"",
            "anyOf": [
                { "type": "number", "exclusiveMinimum": 0, "maximum": 3.2e9 },
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? *(ms|s|m|min|h)?$" }
            ]
        })
    }
}

/// A number above zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Positive(pub f64);

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number > 0.0 && number.is_finite() {
            return Ok(Self(number));
        }
        Err(D::Error::invalid_value(Unexpected::Float(number), &"a number above zero"))
    }
}

impl JsonSchema for Positive {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Positive".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, want) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("1k", Some(1024)),
            ("512M", Some(512 << 20)),
            ("2 GiB", Some(2 << 30)),
            ("1tb", Some(1 << 40)),
            ("", None),
            ("M", None),
            ("1.5G", None),
            ("1X", None),
            ("-1", None),
            ("99999999999999T", None),
        ] {
            assert_eq!(Size::parse(text), want.map(Size), "{text}");
        }
    }

    #[test]
    fn times_have_units_and_are_never_zero() {
        for (text, want) in [
            ("30", Some(30_000)),
            ("30s", Some(30_000)),
            ("500ms", Some(500)),
            ("1.5m", Some(90_000)),
            ("2h", Some(7_200_000)),
            ("0.0001ms", Some(1)),
            ("0", None),
            ("-5s", None),
            ("5d", None),
            ("1e300h", None),
            ("", None),
        ] {
            let want = want.map(|milliseconds| Seconds { milliseconds });
            assert_eq!(Seconds::parse(text), want, "{text}");
        }
    }

    #[test]
    fn null_is_not_the_same_as_absent() {
        #[derive(Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        struct Layer {
            a: Setting<u8>,
            b: Setting<u8>,
            c: Setting<u8>,
        }
        let layer: Layer = serde_json::from_str(r#"{"b": null, "c": 3}"#).unwrap();
        assert_eq!((layer.a, layer.b, layer.c), (Setting::Unset, Setting::Null, Setting::Value(3)));
    }
}
