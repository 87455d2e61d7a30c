//! The configuration, checked: what a container is made of, its name and its hash.

pub mod spec;

pub use spec::{ContainerSpec, Mount, Note, NoteKind, Ulimit};
