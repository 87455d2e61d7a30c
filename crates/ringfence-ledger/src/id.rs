//! Typed ids. They are UUIDs of version 7, so that their order is the order of time.

use std::fmt;
use std::str::FromStr;

use ringfence_model::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use uuid::{NoContext, Timestamp, Uuid};

macro_rules! time_ordered_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// A new id, made now.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "every call gives another value")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// A new id of that moment.
            #[must_use]
            pub fn at(time_ms: u64) -> Self {
                let nanos = u32::try_from(time_ms % 1000).unwrap_or(0) * 1_000_000;
                Self(Uuid::new_v7(Timestamp::from_unix(NoContext, time_ms / 1000, nanos)))
            }

            /// When it was made, in milliseconds since the Unix epoch.
            #[must_use]
            pub fn time_ms(self) -> u64 {
                u64::try_from(self.0.as_u128() >> 80).unwrap_or(u64::MAX)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Uuid::parse_str(text).map(Self).map_err(|error| {
                    Error::new(ErrorKind::Validation, format!(concat!("not the id of ", $what, ": {}"), text))
                        .caused_by(error)
                })
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

time_ordered_id!(
    /// One execution.
    ExecutionId,
    "an execution"
);
time_ordered_id!(
    /// One grant.
    GrantId,
    "a grant"
);

impl ExecutionId {
    /// The smallest text an id made at or after that moment can have.
    pub(crate) fn lower_bound(time_ms: u64) -> String {
        let milliseconds = u128::from(time_ms.min((1 << 48) - 1));
        Uuid::from_u128(milliseconds << 80).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_remember_it() {
        let early = ExecutionId::at(1_700_000_000_123);
        let late = ExecutionId::at(1_700_000_000_124);
        assert_eq!(early.time_ms(), 1_700_000_000_123);
        assert!(early.to_string() < late.to_string());
        assert!(ExecutionId::lower_bound(1_700_000_000_123) <= early.to_string());
        assert!(ExecutionId::lower_bound(1_700_000_000_124) > early.to_string());
        assert!(ExecutionId::lower_bound(u64::MAX) > late.to_string());
    }

    #[test]
    fn text_that_is_no_id_is_refused_by_name() {
        let error = "x".parse::<ExecutionId>().unwrap_err();
        assert_eq!(error.message, "not the id of an execution: x");
    }
}
