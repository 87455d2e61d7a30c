//! Reading a shell text: what runs, with which words, where.
//!
//! The evaluator goes over the tree in the order in which a shell would, keeps what is known of variables,
//! functions and the working directory, and hands every simple command with its words resolved to the
//! checks. Texts that commands hand to a shell again are read the same way.

mod builtin;
mod eval;
mod expand;
mod find;
mod interpreter;
mod output;
mod redirect;
mod run;
mod state;
mod subcommand;
mod unwrap;
mod wrapper;

pub mod args;
pub mod command;

pub use command::{Assigned, Brief, Cmd, Input, Place, Redir};
pub(crate) use eval::Eval;

/// What the checks share with the evaluator.
pub(crate) mod internals {
    pub(crate) use super::find::found as find_found;
    pub(crate) use super::unwrap::{Inner, split_words};
    pub(crate) use super::wrapper::option_value;

    pub(crate) fn is_shell(name: &str) -> bool {
        super::interpreter::SHELLS.contains(&name) || super::interpreter::OTHER_SHELLS.contains(&name)
    }

    pub(crate) fn is_wrapper(name: &str) -> bool {
        super::wrapper::is_known(name) || is_shell(name)
    }
}
