//! The policy of a sandbox as a macOS Seatbelt profile.
//!
//! [`render`](fn@render) is a pure function: the same policy and surroundings give the same text, on any machine.
//! The profile denies by default and the last matching rule wins, so the rules are written from the
//! weakest to the strongest: private directories and allow rules by rising specificity, then protected
//! paths, then the deny list, then what a person granted. That is the precedence of
//! [`Filesystem::decide`](ringfence_model::Filesystem::decide), and a test proves it with an evaluator
//! of the profile language. [`effective`] gives the rules that a profile really holds, the start-up
//! rules of macOS among them, so that a refusal can be explained.
//!
//! | module | what it holds |
//! |---|---|
//! | [`env`](mod@env) | what has to be known of the machine and the sandbox |
//! | [`mode`] | how much of the policy a profile takes over; profiles written by a person |
//! | [`render`](mod@render) | policy → profile |
//! | [`adapter`] | the profile's file, the command line, the start |
//! | [`denial`] | what the kernel's log, or failing that the command's own words, say was refused |
//!
//! Everything compiles and is tested on every platform; only `adapter::Wrapped::spawn` exists on
//! macOS alone. What has never run on a Mac is listed in `docs/macos.md`.
#![forbid(unsafe_code)]

pub mod adapter;
mod baseline;
pub mod denial;
pub mod env;
mod filter;
pub mod mode;
mod regex;
pub mod render;

pub use adapter::{Adapter, ProfileFile, Wrapped};
pub use denial::{Denial, Outcome};
pub use env::{Case, MacEnv, PrivatePlaces};
pub use mode::{Mode, SeatbeltSettings};
pub use render::{Profile, effective, render};
