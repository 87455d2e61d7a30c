//! Times on the wire: milliseconds with three places, instead of all that a float happens to have.

use serde::Serializer;

/// Serializes with three places.
pub fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(three_places(*value))
}

/// As [`rounded`], where there may be no value.
pub fn rounded_option<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.serialize_some(&three_places(*value)),
        None => serializer.serialize_none(),
    }
}

fn three_places(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_places_are_enough() {
        for (value, text) in [(14.627182000000001, "14.627"), (0.0, "0.0"), (300.0, "300.0"), (0.0004, "0.0")]
        {
            let mut written = vec![];
            rounded(&value, &mut serde_json::Serializer::new(&mut written)).unwrap();
            assert_eq!(written, text.as_bytes(), "{value}");
        }
    }
}
