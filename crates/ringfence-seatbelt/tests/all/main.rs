//! The profile, read back and evaluated the way the kernel does it.

mod adapter;
mod denial;
mod equivalence;
mod golden;
mod injection;
mod profile;
mod sbpl;
