//! Destructive words that only running can tell.

use ringfence_bash::{Context, PartKind, Script, Span, Visitor, Word, WordRole, walk};
use ringfence_model::config::Strictness;
use ringfence_model::{Severity, ViolationKind};

use super::{Check, Report};
use crate::finding::Rule;
use crate::path::AbsPath;
use crate::shell::Cmd;
use crate::shell::args::{Options, has_option, operands};
use crate::value::Val;

const REDIRECT: Rule =
    Rule::ask("redirect-to-variable", "set the variable in the same text, or write the file's name");
const REMOVE: Rule = Rule::ask("remove-variable", "set the variable in the same text, or write the names");
const REMOVE_FILE: Rule =
    Rule::ask("remove-file-variable", "set the variable in the same text, or write the name");
const CHANGE: Rule = Rule::note("chmod-variable", "write the names").at(Severity::Medium);

const UNQUOTED: Rule = Rule::note("unquoted-variable", "put the variable into double quotes");

/// Redirections to, removals of and permission changes on what a variable holds.
#[derive(Debug)]
pub(super) struct Variable;

impl Check for Variable {
    fn name(&self) -> &'static str {
        "dangerous_variable"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::VariableInjection
    }

    fn script(&self, script: &Script, report: &mut Report<'_>) {
        if report.strictness == Strictness::Strict {
            let mut unquoted = Unquoted(vec![]);
            walk(script, &mut unquoted);
            for span in unquoted.0 {
                report.add(UNQUOTED, span, "the variable is not quoted, so its value is split into words");
            }
        }
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let redirect = report.by_strictness(REDIRECT);
        for redir in cmd.redirs.iter().filter(|redir| redir.writes()) {
            if let Some(target) = &redir.target
                && !is_settled(cmd, &target.val)
            {
                report.add(
                    redirect,
                    target.span,
                    format!("the file to be written is not known before it runs: `{}`", target.show()),
                );
            }
        }
        match cmd.name {
            "tee" => {
                for target in operands(cmd.rest(), Options::default()) {
                    if !is_settled(cmd, &target.val) {
                        report.add(
                            redirect,
                            target.span,
                            format!(
                                "the file to be written is not known before it runs: `{}`",
                                target.show()
                            ),
                        );
                    }
                }
            }
            _ if looks_at(cmd) => {
                for target in super::removal::targets(cmd) {
                    let relative = cmd.cwd.is_none() && !target.val.prefix().starts_with('/');
                    if target.val.has_unknown() && !is_single_file(cmd, &target.val) || relative {
                        let is_tree = takes_trees(cmd) || target.val.has_glob();
                        let rule = if is_tree { REMOVE } else { REMOVE_FILE };
                        report.add(
                            report.by_strictness(rule),
                            target.span,
                            format!(
                                "the files to be removed are not known before it runs: `{}`",
                                target.show()
                            ),
                        );
                    }
                }
            }
            "chmod" | "chown" | "chgrp" => {
                for target in operands(cmd.rest(), Options::default()).iter().skip(1) {
                    if target.val.has_unknown() {
                        report.add(
                            CHANGE,
                            target.span,
                            format!(
                                "the files to be changed are not known before it runs: `{}`",
                                target.show()
                            ),
                        );
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether what a command removes is looked at here.
pub(super) fn looks_at(cmd: &Cmd<'_>) -> bool {
    cmd.is(&["rm", "rmdir", "unlink", "shred", "find", "rsync", "srm", "truncate"])
}

/// Variables that stand in a word without quotes.
struct Unquoted(Vec<Span>);

impl<'t> Visitor<'t> for Unquoted {
    fn word(&mut self, _: &Context<'t>, role: WordRole, word: &'t Word) {
        let split = matches!(role, WordRole::Name | WordRole::Argument | WordRole::Item);
        let bare = word.parts.iter().filter(|part| split && matches!(part.kind, PartKind::Param(_)));
        self.0.extend(bare.map(|part| part.span));
    }
}

/// Whether enough is known of a file: the directory it is in, and that this is a place for files.
fn is_settled(cmd: &Cmd<'_>, val: &Val) -> bool {
    if !val.has_unknown() || val.is_process() {
        return true;
    }
    AbsPath::of(val, cmd.cwd).is_some_and(|path| {
        let in_project = cmd.place.works_below(&path) || is_named(cmd, val, &path);
        in_project || path.within("/tmp") || path.within("/var/tmp")
    })
}

/// `out-$n.txt`, `c.$n`: the name is known to begin in the project.
fn is_named(cmd: &Cmd<'_>, val: &Val, path: &AbsPath) -> bool {
    let begun = val.prefix().rsplit('/').next().unwrap_or_default();
    cmd.place.works_in(path) && !matches!(begun, "" | "." | "..")
}

/// A file of the project, by its directory or the beginning of its name: `rm -f "build/$name.o" "c.$n"`.
fn is_single_file(cmd: &Cmd<'_>, val: &Val) -> bool {
    !takes_trees(cmd)
        && AbsPath::of(val, cmd.cwd)
            .is_some_and(|path| cmd.place.works_below(&path) || is_named(cmd, val, &path))
}

/// Whether a command removes what is below a directory, too.
fn takes_trees(cmd: &Cmd<'_>) -> bool {
    let option = |letter| has_option(cmd.rest(), Options::default(), letter, "--recursive");
    option('r') || option('R') || cmd.is(&["find", "rsync"])
}
