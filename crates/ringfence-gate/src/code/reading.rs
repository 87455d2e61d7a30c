//! Reading code, apart from judging it.
//!
//! The parsers of Python and JavaScript are not written in a safe language. So whoever reads code with them
//! only says what it does ([`Reading`]), and the gate judges that. A [`CodeReader`] may be a process of its own
//! that can do nothing else; [`InProcess`] is for those who accept the parsers among themselves.

use serde::{Deserialize, Serialize};

use super::Language;

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// `python` or `javascript`.
    pub language: String,
    pub code: String,
    /// The home directory, which code may build paths from.
    pub home: String,
    pub project: String,
    /// Where the code runs, if that is known.
    pub cwd: Option<String>,
}

/// What code was read as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Whether all of it could be read.
    pub complete: bool,
    /// What it does that is worth judging, in the order of the text.
    pub steps: Vec<Step>,
    /// Strings and comments, as ranges of bytes in order.
    pub texts: Vec<(u32, u32)>,
    /// Modules that are loaded by name.
    pub modules: Vec<String>,
}

/// One thing that code does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub start: u32,
    pub end: u32,
    pub what: What,
}

/// What a step is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A person has to be asked: the rule, and why.
    Unclear { rule: String, message: String },
    /// It runs a shell command, or does what this command would do.
    Shell(String),
    /// It runs a text as code of the same language.
    Code(String),
}

/// More steps than this are not judged; a person is asked.
pub const MOST_STEPS: usize = 2048;

/// Reads code.
pub trait CodeReader: Send + Sync + std::fmt::Debug {
    /// What the code does; or why it could not be read, which is asked about.
    fn read(&self, question: &Question) -> Result<Reading, String>;
}

/// Reads code where the gate is.
///
/// An error in one of the parsers, which are written in C, is then an error in the program that asks: code that
/// was written to use it would get what that program may do. Choose it for code that you trust, for tests, or in
/// a process that is fenced in itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess;

impl CodeReader for InProcess {
    fn read(&self, question: &Question) -> Result<Reading, String> {
        match Language::by_name(&question.language) {
            Some(language @ (Language::Python | Language::JavaScript)) => {
                super::tree::read(language, question)
            }
            _ => Err(format!("there is no grammar for `{}`", question.language)),
        }
    }
}
