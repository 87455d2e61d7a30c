//! Variables that make later commands run something else: `data/variables.md`, read once.

use std::collections::HashMap;
use std::sync::LazyLock;

use ringfence_model::{Severity, ViolationKind};

use super::persistence::KEEPS_HISTORY;
use super::{Check, Report};
use crate::finding::Rule;
use crate::path::AbsPath;
use crate::shell::{Assigned, Cmd};
use crate::shell_internals::{is_loopback, split_row};

const LOADER: Rule = Rule::ask("loader-variable", "run the program without it");
const RUNS: Rule = Rule::ask("variable-runs", "run the program without it");
const TURNS: Rule = Rule::ask("variable-turns", "run the program with its own settings");
const SEARCH: Rule = Rule::ask("search-path", "name the program with its path");
const HISTORY: Rule = Rule::ask("history", "leave the history of the shell as it is");
const SPLITTING: Rule = Rule::note("field-separator", "set IFS for one command only").at(Severity::Medium);

/// Programs that a variable may well name.
const HARMLESS: &[&str] = &[
    "",
    "true",
    ":",
    "cat",
    "less",
    "more",
    "most",
    "vim",
    "vi",
    "nvim",
    "nano",
    "emacs",
    "code",
    "ed",
    "sccache",
    "ccache",
    "gcc",
    "g++",
    "cc",
    "c++",
    "clang",
    "clang++",
    "ld",
    "lld",
    "ld.lld",
    "mold",
    "ar",
    "llvm-ar",
    "gcc-ar",
    "as",
    "rustc",
    "rustdoc",
    "/bin/sh",
    "/bin/bash",
    "/bin/zsh",
    "bash",
    "sh",
    "zsh",
    "delta",
    "bat",
    "make",
    "gmake",
    "awk",
    "gawk",
    "grep",
    "python3",
    "python",
    "zig",
    "open",
    "xdg-open",
    "none",
    "musl-gcc",
    "clang-format",
    "echo",
];

/// Directories of the home directory in which tools keep programs.
const PROGRAMS: &[&str] = &[
    ".cargo/bin",
    "go/bin",
    ".nvm",
    ".local/bin",
    ".pyenv",
    ".rbenv",
    ".deno/bin",
    ".bun/bin",
    ".npm-global",
    ".rustup",
    ".volta",
    ".asdf",
    ".local/share/mise",
    ".sdkman",
    "bin",
    ".yarn/bin",
    ".poetry/bin",
];

/// Directories of the home directory that are the tools' own, where their variables point anyway.
const TOOLS: &[&str] = &[
    ".cargo",
    ".rustup",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".volta",
    ".bun",
    ".deno",
    ".sdkman",
    ".local/share",
    ".gem",
    ".bundle",
    ".gradle",
    ".m2",
    ".composer",
    ".kube",
    ".docker",
    ".jdks",
    ".cache",
    ".asdf",
    "go",
    ".go",
];

/// Directories of programs that a search path may well hold.
const GOOD: &[&str] =
    &["/usr", "/bin", "/sbin", "/opt", "/nix", "/snap", "/home/linuxbrew", "/Library", "/Applications"];

/// Variables that poison what runs after.
#[derive(Debug)]
pub(super) struct Environment;

impl Check for Environment {
    fn name(&self) -> &'static str {
        "environment"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::VariableInjection
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        for assigned in cmd.assigned {
            variable(cmd, assigned, report);
        }
    }
}

/// What the value of a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Code,
    Program,
    Search,
    File,
    Server,
    Flags,
}

impl Is {
    fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "code" => Self::Code,
            "program" => Self::Program,
            "search" => Self::Search,
            "file" => Self::File,
            "server" => Self::Server,
            "flags" => Self::Flags,
            _ => return None,
        })
    }
}

#[derive(Debug)]
struct Row {
    is: Is,
    only: Vec<String>,
    fine: Vec<&'static str>,
}

#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
    names: HashMap<&'static str, Vec<usize>>,
    /// Names with gaps.
    patterns: Vec<(&'static str, usize)>,
}

const TEXT: &str = include_str!("../../data/variables.md");

static TABLE: LazyLock<Table> = LazyLock::new(|| read(TEXT).0);

/// Reads the table, and gives back lines that are no row.
fn read(text: &'static str) -> (Table, Vec<&'static str>) {
    let mut table = Table::default();
    let mut wrong = vec![];
    let lines = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-"));
    for line in lines.filter(|line| !line.starts_with("| variable |")) {
        let cells = split_row(line);
        let parsed = match cells.as_slice() {
            [names, is, only, fine] => Is::by_name(is).map(|is| (*names, is, *only, *fine)),
            _ => None,
        };
        let Some((names, is, only, fine)) = parsed.filter(|(names, ..)| !names.is_empty()) else {
            wrong.push(line);
            continue;
        };
        for name in names.split_whitespace() {
            if name.contains('*') {
                table.patterns.push((name, table.rows.len()));
            } else {
                table.names.entry(name).or_default().push(table.rows.len());
            }
        }
        let only = only.split_whitespace().map(|mark| mark.replace('␣', " ")).collect();
        table.rows.push(Row { is, only, fine: fine.split_whitespace().collect() });
    }
    (table, wrong)
}

fn rows(name: &str) -> impl Iterator<Item = &'static Row> {
    let table = &*TABLE;
    let exact = table.names.get(name).into_iter().flatten().copied();
    let fits = move |pattern: &str| {
        let (before, behind) = pattern.split_once('*').unwrap_or((pattern, ""));
        name.len() >= pattern.len() && name.starts_with(before) && name.ends_with(behind)
    };
    let wide = table.patterns.iter().filter(move |(pattern, _)| fits(pattern)).map(|(_, index)| *index);
    exact.chain(wide).collect::<Vec<_>>().into_iter().map(|index| &table.rows[index])
}

fn variable(cmd: &Cmd<'_>, assigned: &Assigned, report: &mut Report<'_>) {
    let name = assigned.name.as_str();
    let span = assigned.span;
    match name {
        "PATH" => search_path(cmd, assigned, report),
        "IFS" => report.add(SPLITTING, span, "`IFS` changes how words are split"),
        _ if KEEPS_HISTORY.contains(&name) => {
            report.add(HISTORY, span, format!("`{name}` changes what the history keeps"));
        }
        _ => {
            let findings: Vec<_> =
                rows(name).filter_map(|row| looked_up(cmd, assigned, row)).take(1).collect();
            for (rule, message) in findings {
                report.add(rule, span, message);
            }
        }
    }
}

/// What a row says about a variable, if it says anything.
fn looked_up(cmd: &Cmd<'_>, assigned: &Assigned, row: &Row) -> Option<(Rule, String)> {
    let name = assigned.name.as_str();
    let value = assigned.value.known();
    let shown = assigned.value.lossy("…");
    if value.is_some_and(|value| value.is_empty() || row.fine.contains(&value)) {
        return None;
    }
    match row.is {
        Is::Code if name.starts_with("LD_") || name.starts_with("DYLD_") => {
            Some((LOADER, format!("`{name}` makes programs load other libraries")))
        }
        Is::Code => Some((RUNS, format!("`{name}` makes other programs run code"))),
        Is::Program => {
            let program = value.map(|text| text.split_whitespace().next().unwrap_or_default());
            let listed = row.fine.contains(&"@programs");
            let fine = program.is_some_and(|program| {
                row.fine.contains(&program)
                    || listed && HARMLESS.contains(&program)
                    || listed
                        && HARMLESS.contains(&crate::path::base_name(program))
                        && program.starts_with("/usr/")
                    || row.fine.contains(&"@name") && !program.contains('/')
                    || program.starts_with(|c: char| c.is_ascii_alphanumeric())
                        && program.ends_with(|c: char| c.is_ascii_digit())
                        && !program.contains('/')
                    || row.fine.contains(&"@name") && program.starts_with("/usr/")
            });
            let code = value.is_some_and(|text| {
                text.contains([';', '|', '&', '`', '$', '\'', '"']) || text.contains(" -c")
            });
            (code || !fine).then(|| (RUNS, format!("`{name}` names a program that is run: `{shown}`")))
        }
        Is::Search => entries(cmd, assigned)
            .any(|entry| matches!(entry, Entry::Foreign))
            .then(|| (SEARCH, format!("`{name}` leads to code outside of the project"))),
        Is::File => {
            let path = AbsPath::of(&assigned.value, cmd.cwd)?;
            (!is_good(cmd, &path))
                .then(|| (TURNS, format!("`{name}` leads outside of the project: `{shown}`")))
        }
        Is::Server => {
            value.filter(|value| !is_loopback(value))?;
            Some((TURNS, format!("`{name}` makes programs go to another server: `{shown}`")))
        }
        Is::Flags => {
            let shown_padded = format!("{shown} ");
            let unknown = value.is_none() && row.only.iter().any(|mark| mark == "@unknown");
            (unknown || row.only.iter().any(|mark| shown_padded.contains(mark.as_str())))
                .then(|| (RUNS, format!("`{name}` makes programs run something else: `{shown}`")))
        }
    }
}

/// Whether code and settings may well be taken from there: the project, the system, tools of the home directory.
fn is_good(cmd: &Cmd<'_>, path: &AbsPath) -> bool {
    let in_home = TOOLS.iter().any(|dir| path.within(&format!("{}/{dir}", cmd.place.home)));
    cmd.place.works_in(path) || in_home || GOOD.iter().any(|dir| path.within(dir)) || path.within("/etc/ssl")
}

/// One entry of a search path.
enum Entry {
    Good,
    Foreign,
}

fn entries<'a>(cmd: &'a Cmd<'_>, assigned: &'a Assigned) -> impl Iterator<Item = Entry> + 'a {
    let known = assigned.value.known();
    let pieces: Vec<&str> = known.map(|text| text.split(':').collect()).unwrap_or_default();
    let unknown = known.is_none().then_some(Entry::Foreign).filter(|_| assigned.name == "PATH");
    pieces
        .into_iter()
        .map(|piece| {
            let path = AbsPath::of(&crate::value::Val::text(piece), cmd.cwd);
            let good = path.is_some_and(|path| {
                let in_home = path.below(cmd.place.home)
                    && PROGRAMS.iter().any(|dir| path.within(&format!("{}/{dir}", cmd.place.home)));
                cmd.place.works_in(&path) && piece != "." && !piece.is_empty()
                    || in_home
                    || GOOD.iter().any(|dir| path.within(dir))
            });
            let good = good
                || piece.is_empty() && assigned.name != "PATH"
                || piece == "." && assigned.name != "PATH";
            if good { Entry::Good } else { Entry::Foreign }
        })
        .chain(unknown)
}

fn search_path(cmd: &Cmd<'_>, assigned: &Assigned, report: &mut Report<'_>) {
    if entries(cmd, assigned).any(|entry| matches!(entry, Entry::Foreign)) {
        report.add(
            SEARCH,
            assigned.span,
            format!("`PATH` leads to programs outside of the project: `{}`", assigned.value.lossy("…")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_rule() {
        let (table, wrong) = read(TEXT);
        assert_eq!(wrong, Vec::<&str>::new());
        let flags = table.rows.iter().filter(|row| row.is == Is::Flags);
        assert!(flags.into_iter().all(|row| !row.only.is_empty()));
        assert!(table.names.len() > 300);
        assert!(rows("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER").next().is_some());
    }
}
