//! The tests of the gate, in one binary.

#[path = "suite/corpus.rs"]
mod corpus;
