//! Judges commands and code before they run: allow, ask or deny, with reasons.
//!
//! The gate is advice and approval, never the boundary: that is the fence's. It is pure: no input, no output,
//! no state that grows; the same request always gets the same verdict.
//!
//! ```
//! use ringfence_gate::{Decision, Gate, Options, Request};
//!
//! let gate = Gate::new(Options::default());
//! let judge = |code: &str| gate.judge(&Request::shell(code, "/home/dev", "/home/dev/project"));
//! assert_eq!(judge("cargo test | tail -20").decision, Decision::Allow);
//! assert_eq!(judge("rm -rf \"$DIR\"").decision, Decision::Ask);
//! let verdict = judge("D=/etc; rm -rf \"$D\"");
//! assert_eq!(verdict.decision, Decision::Deny);
//! assert_eq!(verdict.findings[0].message, "`/etc` must not be removed");
//! ```
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`Gate`], [`Request`], [`Verdict`] | the way in and out |
//! | [`shell`] | reading a shell text: words resolved, wrappers seen through, texts within texts |
//! | [`checks`] | what is looked for; one file each, one list |
//! | `data/` | tables: what options run, which variables turn a program to something else |
//! | `code` | Python and JavaScript by the rules in `queries/`, other languages by words |
//! | [`rules`] | the user's allow and deny lists |
//! | [`risk`] | levels of risk, and where code has to run |
//! | [`policy`] | paths, hosts, tools |
//! | `programs` | the built-in lists of programs |
//! | [`finding`], [`value`], [`path`] | the words that all of them use |
//!
//! # Invariants
//!
//! - *What cannot be read is asked about*: a text that does not parse, a limit, a command name that only running
//!   can tell. No list and no mode turns that into an allow.
//! - *Every simple command is judged*, wherever it stands; a part of the tree that the evaluator did not reach is
//!   a finding of its own.
//! - *The strictest finding wins*: deny over ask over allow.
//! - *Bounded*: texts, levels, calls, rounds of loops, words and findings all have a limit, and reaching one asks.
//!
//! - *Reading is apart from judging*: the parsers of Python and JavaScript, which are not written in a safe
//!   language, are behind [`reading::CodeReader`] and say only what code does. A gate without a reader asks about
//!   such code; [`reading::InProcess`] reads it here, and the façade has a reader that is a locked-in process.
//!
//! # Adding a check
//!
//! A check is a type with a name, the kind that a refusal is recorded as, and what it wants to see. It goes into
//! a file below `checks/` and one line into [`checks::built_in`]; a program that embeds the gate may bring its
//! own:
//!
//! ```
//! use ringfence_gate::checks::{Check, Report, built_in};
//! use ringfence_gate::shell::Cmd;
//! use ringfence_gate::{Decision, Gate, Options, Request, Rule};
//! use ringfence_model::ViolationKind;
//!
//! const RULE: Rule = Rule::ask("publish", "let a person publish packages");
//!
//! /// Packages are published by people.
//! struct Publish;
//!
//! impl Check for Publish {
//!     fn name(&self) -> &'static str {
//!         "publish"
//!     }
//!
//!     fn kind(&self) -> ViolationKind {
//!         ViolationKind::CommandBlocked
//!     }
//!
//!     fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
//!         if cmd.is(&["npm", "cargo"]) && cmd.sub() == Some("publish") {
//!             report.add(RULE, cmd.span, format!("`{}` publishes a package", cmd.name));
//!         }
//!     }
//! }
//!
//! let mut checks = built_in();
//! checks.push(Box::new(Publish));
//! let gate = Gate::with_checks(Options::default(), checks);
//! let judge = |code: &str| gate.judge(&Request::shell(code, "/home/dev", "/home/dev/project")).decision;
//! assert_eq!(judge("cargo build"), Decision::Allow);
//! assert_eq!(judge("cd web && env CI=1 npm publish"), Decision::Ask);
//! ```
#![forbid(unsafe_code)]

pub mod checks;
mod code;
pub mod finding;
mod gate;
pub mod path;
pub mod policy;
mod programs;
pub mod risk;
pub mod rules;
pub mod shell;
pub mod value;

pub use code::{Language, reading};
pub use finding::{ByteSpan, Decision, Finding, Rule};
pub use gate::{Gate, Options, Request, Verdict};

pub(crate) use shell::internals as shell_internals;
pub(crate) use shell::internals::{find_found, is_shell, is_wrapper};
