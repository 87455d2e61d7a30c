//! What is said about connections. A guest is in a place without a network: whoever uses it makes them, and what is sent
//! on them travels between the two in pieces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ringfence_model::Violation;
use serde::{Deserialize, Serialize};

/// So much of a connection may be on its way in one direction before the other side has taken any of it.
pub const WINDOW: usize = 256 << 10;

/// What a guest says. Each of its supervisors has a way out of its own, by number; connections have numbers among all.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum OutWord {
    #[serde(rename_all = "camelCase")]
    Dial {
        way: u64,
        id: u64,
        host: String,
        port: u16,
        program: Option<String>,
        pid: Option<u32>,
        /// Only looked at: whether a person said so is known where the person was asked.
        by_person: bool,
    },
    Piece {
        id: u64,
        piece: Piece,
    },
    /// Nobody connects by that way any more.
    End {
        way: u64,
    },
}

/// What a guest is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum OutOrder {
    Dialled {
        id: u64,
    },
    /// The error is what the caller hears.
    NoWay {
        id: u64,
        errno: i32,
        refused: Option<String>,
    },
    Piece {
        id: u64,
        piece: Piece,
    },
    /// A connection has ended, or was refused after a look at what was said.
    News {
        way: u64,
        violation: Box<Violation>,
    },
    /// What was said by that way has been carried, as far as it could be.
    Ended {
        way: u64,
    },
}

/// Of one direction of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Piece {
    Data {
        data: Raw,
    },
    /// No more data comes.
    End,
    /// So many bytes of the other direction were taken.
    Taken {
        bytes: usize,
    },
    /// It was broken off: nothing goes either way.
    Broken,
}

/// Bytes that nobody reads along: encoded, whatever they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw(pub Vec<u8>);

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        STANDARD_NO_PAD.decode(text.as_bytes()).map(Self).map_err(serde::de::Error::custom)
    }
}
