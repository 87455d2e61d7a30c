//! Sections are objects. What serde derives for a struct would also take a list of its fields in order,
//! which nobody means; with `remote = "Self"` it becomes a plain function, behind an implementation that
//! takes objects only.

use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};

/// A section that can be read from the entries of an object.
pub(super) trait Section<'de>: Sized {
    fn from_entries<A: MapAccess<'de>>(entries: MapAccessDeserializer<A>) -> Result<Self, A::Error>;
}

/// Reads a section from an object, and from nothing else.
pub(super) fn read<'de, T: Section<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct ObjectVisitor<T>(PhantomData<T>);
    impl<'de, T: Section<'de>> Visitor<'de> for ObjectVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<T, A::Error> {
            T::from_entries(MapAccessDeserializer::new(entries))
        }
    }
    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

macro_rules! objects_only {
    ($($section:ty),+ $(,)?) => {
        $(
            impl<'de> $crate::config::object::Section<'de> for $section {
                fn from_entries<A: serde::de::MapAccess<'de>>(
                    entries: serde::de::value::MapAccessDeserializer<A>,
                ) -> Result<Self, A::Error> {
                    // The derived function, not the trait's.
                    <$section>::deserialize(entries)
                }
            }

            impl<'de> serde::Deserialize<'de> for $section {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::config::object::read(deserializer)
                }
            }
        )+
    };
}
pub(super) use objects_only;

/// For sections that are written too: what was derived, under its usual name.
macro_rules! written_as_derived {
    ($($section:ty),+ $(,)?) => {
        $(
            impl serde::Serialize for $section {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    <$section>::serialize(self, serializer)
                }
            }
        )+
    };
}
pub(super) use written_as_derived;
