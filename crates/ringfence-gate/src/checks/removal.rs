//! Removal of what must stay. One table of paths.
//!
//! | what | verdict |
//! |---|---|
//! | the root, [`CRITICAL`] paths, all of [`SYSTEM`] and what is below | deny |
//! | the home directory, whole or by `*` | deny |
//! | below home outside the project, the whole project, `.git`, elsewhere | ask |
//! | what only running can tell | ask |
//! | below `/tmp`, `/var/tmp`, `/opt`, `/srv`, if that is no project | allow, with a note |
//! | below the project, or below what the fence lets be written | allow |

use ringfence_model::config::Strictness;
use ringfence_model::{Access, Severity, ViolationKind};

use super::{Check, Report};
use crate::finding::Rule;
use crate::path::AbsPath;
use crate::shell::args::{Options, has_option, items, operands};
use crate::shell::{Cmd, Place};
use crate::value::Arg;

/// Directories that must stay, whatever is below them.
pub(crate) const CRITICAL: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/Applications",
    "/Library",
    "/System",
    "/Users",
    "/Volumes",
    "/cores",
    "/private",
];

/// The same, on systems that have them.
const FURTHER: &[&str] = &["/mnt", "/media", "/lib32", "/libx32", "/nix", "/snap"];

/// Directories of which everything belongs to the system.
pub(crate) const SYSTEM: &[&str] = &[
    "/etc", "/usr", "/bin", "/boot", "/lib", "/lib64", "/lib32", "/libx32", "/sbin", "/dev", "/proc", "/sys",
    "/System", "/Library",
];

/// Directories below which anything may go.
const SCRATCH: &[&str] = &["/tmp", "/var/tmp", "/opt", "/srv", "/private/tmp"];

const CRITICAL_RULE: Rule = Rule::deny("critical-path", "remove files of the project by name");
const HOME: Rule = Rule::deny("home-directory", "remove files of the project by name");
const OUTSIDE: Rule =
    Rule::ask("outside-project", "remove only what is in the project, or let a person decide");
const PROJECT: Rule = Rule::ask("whole-project", "name the files to be removed");
const SCRATCH_RULE: Rule = Rule::note("scratch", "").at(Severity::Medium);

const PARENT: Rule = Rule::note("parent-path", "name the directory itself").at(Severity::Critical);
const PATTERN: Rule = Rule::deny("strict-wildcard", "name the files to be removed").at(Severity::High);
const RECURSIVE: Rule = Rule::note("recursive", "").at(Severity::Medium);

/// What becomes of a path when it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Must stay.
    Critical,
    /// The home directory, or another one, as a whole.
    Home,
    /// Outside of the project.
    Outside,
    /// All of the project, or its history.
    Project,
    /// A place for passing things.
    Scratch,
    /// In the project.
    Inside,
}

/// Where a path lies, for removal.
pub(crate) fn zone(path: &AbsPath, place: Place<'_>) -> Zone {
    if path.is_root() || path.above(place.home) && !path.contents && !path.open {
        return Zone::Critical;
    }
    let is_whole = !path.open && place.projects().any(|project| path.matches(project) || path.above(project));
    if !path.open
        && !is_whole
        && let Some(project) = place.projects().find(|project| path.below(project))
    {
        return if path.holds(".git") && path.parts().len() <= depth(project) + 1 {
            Zone::Project
        } else {
            Zone::Inside
        };
    }
    if !path.open && path.matches(place.home) {
        return Zone::Home;
    }
    if !path.open && !is_whole && !is_critical(path) && is_given(path, place) {
        return Zone::Inside;
    }
    let below_scratch =
        |dir: &&&str| path.below(dir) || path.contents && path.matches(dir) && dir.ends_with("tmp");
    if SCRATCH.iter().find(below_scratch).is_some() {
        return if is_whole { Zone::Project } else { Zone::Scratch };
    }
    if SYSTEM.iter().any(|dir| path.below(dir)) || is_critical(path) && !path.open {
        return Zone::Critical;
    }
    if path.open && SYSTEM.iter().any(|dir| path.within(dir)) {
        return Zone::Critical;
    }
    if path.above(place.home) {
        return Zone::Home;
    }
    if is_whole { Zone::Project } else { Zone::Outside }
}

fn is_critical(path: &AbsPath) -> bool {
    CRITICAL.iter().chain(FURTHER).any(|dir| path.matches(dir))
}

/// Whether it lies below something that the fence lets be written. A rule about the home directory, or about what is
/// above it, is not about its files, and the place of a rule stays.
fn is_given(path: &AbsPath, place: Place<'_>) -> bool {
    place.allowing(path, Access::Write).is_some_and(|rule| {
        let dir = AbsPath::literal(&rule);
        !dir.is_root() && !dir.matches(place.home) && !dir.above(place.home) && !path.matches(&rule)
    })
}

fn depth(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty()).count()
}

/// Every file that a command removes.
pub(crate) fn targets(cmd: &Cmd<'_>) -> Vec<Arg> {
    let rest = cmd.rest();
    let named = |options| operands(rest, options).into_iter().cloned().collect();
    match cmd.name {
        "rm" | "rmdir" | "unlink" | "srm" | "wipe" | "trash" | "trash-put" | "rimraf" | "del" | "grm"
        | "gio" => {
            let mut all: Vec<Arg> = named(Options::default());
            if cmd.name == "gio" {
                let trashes = all.first().is_some_and(|arg| arg.is("trash") || arg.is("remove"));
                all = if trashes { all.split_off(1) } else { vec![] };
            }
            all
        }
        "shred" | "truncate" | "gshred" => named(Options {
            short: "nsr",
            long: &["--iterations", "--size", "--random-source", "--reference"],
        }),
        "find" | "gfind" => {
            if rest.iter().any(|arg| arg.is("-delete")) {
                crate::find_found(rest)
            } else {
                vec![]
            }
        }
        "fd" | "fdfind" => vec![],
        "mv" => {
            let mut all: Vec<Arg> = named(Options { short: "tS", long: &["--target-directory", "--suffix"] });
            if !has_option(rest, Options::default(), 't', "--target-directory") {
                all.pop();
            }
            all
        }
        "rsync" => {
            let deletes = items(rest, Options::default()).iter().any(|item| match item {
                crate::shell::args::Item::Option { name, .. } => {
                    name.starts_with("--del") || name.starts_with("--remove-s")
                }
                crate::shell::args::Item::Operand(_) => false,
            });
            if deletes { named(Options::default()).pop().into_iter().collect() } else { vec![] }
        }
        "git" => git_clean(rest),
        _ => vec![],
    }
}

fn git_clean(rest: &[Arg]) -> Vec<Arg> {
    let Some(at) = rest.iter().position(|arg| arg.is("clean")) else { return vec![] };
    let options = Options { short: "e", long: &["--exclude"] };
    let dry = has_option(&rest[at + 1..], options, 'n', "--dry-run");
    if dry { vec![] } else { operands(&rest[at + 1..], options).into_iter().cloned().collect() }
}

/// Removal of critical paths, by any of the programs that remove.
#[derive(Debug)]
pub(super) struct Removal;

impl Check for Removal {
    fn name(&self) -> &'static str {
        "dangerous_removal"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CriticalPathRemoval
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let option = |letter, long| has_option(cmd.rest(), Options::default(), letter, long);
        let recursive =
            cmd.is(&["rm", "srm", "grm"]) && (option('r', "--recursive") || option('R', "--recursive"));
        let forced = option('f', "--force");
        for target in targets(cmd) {
            let Some(path) = cmd.path(&target.val) else { continue };
            // Names in the project that only running can tell are for the check of variables.
            let is_told = path.open && cmd.place.works_in(&path) && super::variable::looks_at(cmd);
            if !is_told || path.holds(".git") {
                judge(&path, cmd.place, &target, report);
            }
            if recursive {
                manner(&target, forced, report);
            }
        }
        if cmd.is(&["rm", "srm"]) && has_option(cmd.rest(), Options::default(), '\u{0}', "--no-preserve-root")
        {
            report.add(CRITICAL_RULE, cmd.span, "`--no-preserve-root` is for removing everything");
        }
        if cmd.is(&["shred", "gshred", "wipe", "srm"]) && cmd.args.len() > 1 {
            let rule = Rule::ask("shred", "remove the file; what is shredded cannot come back");
            report.add(
                report.by_strictness(rule),
                cmd.span,
                format!("`{}` destroys files beyond recovery", cmd.name),
            );
        }
    }
}

/// How a tree is named that goes: up and down, or by a pattern.
fn manner(target: &Arg, forced: bool, report: &mut Report<'_>) {
    if target.show().split('/').any(|part| part == "..") {
        report.add(PARENT, target.span, format!("`{}` leads upwards", target.show()));
    }
    if report.strictness == Strictness::Strict {
        if forced && target.val.has_glob() {
            report.add(
                PATTERN,
                target.span,
                format!("`{}` may stand for more than was meant", target.show()),
            );
        }
        report.add(RECURSIVE, target.span, format!("all below `{}` goes", target.show()));
    }
}

fn judge(path: &AbsPath, place: Place<'_>, target: &Arg, report: &mut Report<'_>) {
    let shown = path.show();
    match zone(path, place) {
        Zone::Critical => report.add(CRITICAL_RULE, target.span, format!("`{shown}` must not be removed")),
        Zone::Home => report.add(HOME, target.span, format!("`{shown}` is a whole home directory")),
        Zone::Outside => report.add(OUTSIDE, target.span, format!("`{shown}` is outside of the project")),
        Zone::Project => {
            report.add(PROJECT, target.span, format!("`{shown}` is the whole project or its history"))
        }
        Zone::Scratch => {
            report.add(SCRATCH_RULE, target.span, format!("`{shown}` is outside of the project"))
        }
        Zone::Inside => {}
    }
}
