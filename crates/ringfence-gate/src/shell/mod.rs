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
mod options;
mod output;
mod redirect;
mod run;
mod state;
mod subcommand;
mod table;
mod unwrap;
mod wrapper;

pub mod args;
pub mod command;

pub use command::{Assigned, Brief, Cmd, Input, Place, Redir};
pub(crate) use eval::Eval;

/// What the checks share with the evaluator.
pub(crate) mod internals {
    use super::Input;
    use crate::path::base_name;
    use crate::value::Arg;

    pub(crate) use super::find::found as find_found;
    pub(crate) use super::options::is_loopback;
    pub(crate) use super::table::cells as split_row;
    pub(crate) use super::unwrap::{Inner, split_words};
    pub(crate) use super::wrapper::option_value;

    /// Deeper than this nobody wraps a command.
    const MOST_WRAPPERS: usize = 64;

    /// The words of a command that are code or a text for a shell, behind wrappers too.
    pub(crate) fn texts(name: &str, args: &[Arg], input: &Input) -> Vec<Arg> {
        let mut texts = vec![];
        let mut commands = super::unwrap::unwrap(name, args, input);
        for _ in 0..MOST_WRAPPERS {
            let Some(inner) = commands.pop() else { break };
            match inner {
                Inner::Shell { text, .. } | Inner::Code { text, .. } => texts.push(text),
                Inner::Command { args, .. } => {
                    let name = args.first().and_then(Arg::known).map(base_name).unwrap_or_default();
                    commands.extend(super::unwrap::unwrap(name, &args, input));
                }
                Inner::File { .. } | Inner::Perhaps { .. } | Inner::Outside { .. } | Inner::Opaque { .. } => {
                }
            }
        }
        texts
    }

    pub(crate) fn is_shell(name: &str) -> bool {
        super::interpreter::SHELLS.contains(&name) || super::interpreter::OTHER_SHELLS.contains(&name)
    }

    pub(crate) fn is_wrapper(name: &str) -> bool {
        super::wrapper::is_known(name) || is_shell(name)
    }
}
