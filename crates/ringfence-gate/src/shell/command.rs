//! A simple command as the checks see it.

use std::rc::Rc;

use ringfence_bash::{RedirectOp, Span};
use ringfence_model::{Access, Filesystem, PathOutcome};

use crate::Request;
use crate::path::AbsPath;
use crate::value::{Arg, Val};

/// The places that paths are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The home directory.
    pub home: &'a str,
    /// The project: where the text begins to run.
    pub project: &'a str,
    /// More directories that are worked in like the project.
    pub also: &'a [String],
    /// The file rules of the fence, where one holds.
    pub files: Option<&'a Filesystem>,
}

impl<'a> Place<'a> {
    /// The project and what is worked in like it, but no home directory and nothing above one: a shell there is in
    /// no project.
    pub fn projects(self) -> impl Iterator<Item = &'a str> {
        let all = std::iter::once(self.project).chain(self.also.iter().map(String::as_str));
        all.filter(move |project| {
            let project = AbsPath::literal(project);
            !project.matches(self.home) && !project.above(self.home)
        })
    }

    /// Whether a path may be a project or lie in one, or may be written by the fence's rules.
    pub fn works_in(self, path: &AbsPath) -> bool {
        path.within(self.project)
            || self.also.iter().any(|dir| path.within(dir))
            || self.allowing(path, Access::Write).is_some()
    }

    /// Whether a path may lie strictly below a project, or may be written by the fence's rules.
    pub fn works_below(self, path: &AbsPath) -> bool {
        path.below(self.project)
            || self.also.iter().any(|dir| path.below(dir))
            || self.allowing(path, Access::Write).is_some()
    }

    /// The pattern of the rule by which the fence gives access to the host's file of that name. Of a path that is
    /// known in part, that part decides.
    pub fn allowing(self, path: &AbsPath, access: Access) -> Option<String> {
        let known = path.known_part();
        let decision = self.files?.decide(known.as_ref(), access);
        match (decision.outcome, decision.grant, decision.rule) {
            (PathOutcome::Allowed, Some(grant), _) => Some(grant.path.to_string_lossy().into_owned()),
            (PathOutcome::Allowed, None, Some(rule)) => Some(rule.path.to_string()),
            _ => None,
        }
    }
}

impl<'a> From<&'a Request> for Place<'a> {
    fn from(request: &'a Request) -> Self {
        let project = request.project.as_deref().unwrap_or(&request.cwd);
        Self { home: &request.home, project, also: &request.also, files: request.files.as_deref() }
    }
}

/// A variable that is given a value.
#[derive(Clone, Debug)]
pub struct Assigned {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: Val,
    /// Where.
    pub span: Span,
}

/// A redirection.
#[derive(Clone, Debug)]
pub struct Redir {
    /// The operator.
    pub op: RedirectOp,
    /// The file, if it is one.
    pub target: Option<Arg>,
    /// The text of a here-document or a here-string.
    pub text: Option<Val>,
    /// The delimiter of a here-document, as far as known, and whether it is quoted.
    pub delimiter: Option<(String, bool)>,
    /// Whether something in the body of a here-document expands.
    pub expands: bool,
    /// Where.
    pub span: Span,
}

impl Redir {
    /// Whether a file is written.
    pub fn writes(&self) -> bool {
        matches!(
            self.op,
            RedirectOp::Write
                | RedirectOp::Clobber
                | RedirectOp::Append
                | RedirectOp::ReadWrite
                | RedirectOp::WriteBoth
                | RedirectOp::AppendBoth
                | RedirectOp::DupWrite
        )
    }
}

/// What is worth knowing of a command that ran before, in the same pipeline.
#[derive(Clone, Debug)]
pub struct Brief {
    /// Its name, without directories.
    pub name: String,
    /// Whether what it writes comes from the network or was decoded.
    pub foreign: bool,
    /// What it writes, if known.
    pub output: Option<Val>,
}

/// Where a command's standard input comes from.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The commands before it in the pipeline.
    pub upstream: Rc<Vec<Brief>>,
    /// What it reads, if known.
    pub text: Option<Val>,
    /// A file that it reads.
    pub file: Option<Arg>,
}

impl Input {
    /// Whether anything but the caller's own input is read.
    pub fn is_given(&self) -> bool {
        !self.upstream.is_empty() || self.text.is_some() || self.file.is_some()
    }
}

/// A simple command with its words resolved.
#[derive(Debug)]
pub struct Cmd<'a> {
    /// The words, the name first. None for assignments and redirections alone.
    pub args: &'a [Arg],
    /// The program's name without directories; empty when it is not known.
    pub name: &'a str,
    /// Variables that are set for it, or by it.
    pub assigned: &'a [Assigned],
    /// Redirections.
    pub redirs: &'a [Redir],
    /// Standard input.
    pub input: &'a Input,
    /// The working directory, if known.
    pub cwd: Option<&'a str>,
    /// Home and project.
    pub place: Place<'a>,
    /// Where the command stands.
    pub span: Span,
    /// How many texts it is inside of.
    pub level: usize,
}

impl<'a> Cmd<'a> {
    /// The arguments, without the name.
    pub fn rest(&self) -> &'a [Arg] {
        self.args.get(1..).unwrap_or_default()
    }

    /// An argument as an absolute path.
    pub fn path(&self, val: &Val) -> Option<AbsPath> {
        AbsPath::of(val, self.cwd)
    }

    /// The first argument that is no option, if it is known.
    pub fn sub(&self) -> Option<&'a str> {
        self.rest().iter().filter_map(Arg::known).find(|word| !word.starts_with('-'))
    }

    /// Whether any argument is exactly `word`.
    pub fn has(&self, word: &str) -> bool {
        self.rest().iter().any(|arg| arg.is(word))
    }

    /// Whether the name is one of `names`.
    pub fn is(&self, names: &[&str]) -> bool {
        !self.name.is_empty() && names.contains(&self.name)
    }
}
