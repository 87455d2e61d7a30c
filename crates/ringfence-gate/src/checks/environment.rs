//! Variables that make later commands run something else.

use ringfence_model::{Severity, ViolationKind};

use super::persistence::KEEPS_HISTORY;
use super::{Check, Report};
use crate::finding::Rule;
use crate::path::AbsPath;
use crate::shell::{Assigned, Cmd};

const LOADER: Rule = Rule::ask("loader-variable", "run the program without it");
const RUNS: Rule = Rule::ask("variable-runs", "run the program without it");
const SEARCH: Rule = Rule::ask("search-path", "name the program with its path");
const HISTORY: Rule = Rule::ask("history", "leave the history of the shell as it is");
const SPLITTING: Rule = Rule::note("field-separator", "set IFS for one command only").at(Severity::Medium);

/// Variables whose value is code, a program or a library, whatever it is.
const ALWAYS: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "SHELLOPTS",
    "BASHOPTS",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PERL5OPT",
    "PERL5DB",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_ASKPASS",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_ALLOW_PROTOCOL",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "LESSOPEN",
    "LESSCLOSE",
    "TAR_OPTIONS",
    "GCONV_PATH",
    "GETCONF_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC",
    "FPATH",
    "ZDOTDIR",
    "INPUTRC",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "HOSTALIASES",
    "RSYNC_RSH",
    "CVS_RSH",
    "BASH_LOADABLES_PATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "ERL_AFLAGS",
    "ERL_ZFLAGS",
    "MAKEFILES",
    "XONSHRC",
    "COMSPEC",
    "DOTNET_STARTUP_HOOKS",
    "CORECLR_PROFILER",
    "NODE_REPL_EXTERNAL_MODULE",
    "LUA_INIT",
    "R_PROFILE_USER",
    "R_ENVIRON_USER",
    "SSLKEYLOGFILE",
    "PYTHONBREAKPOINT",
    "PERLIO_DEBUG",
    "AWKPATH",
    "AWKLIBPATH",
    "KRB5_CONFIG",
    "NPM_CONFIG_SCRIPT_SHELL",
    "npm_config_script_shell",
    "NPM_CONFIG_NODE_OPTIONS",
];

/// Variables that name a program; some programs are as good as none.
const PROGRAMS: &[&str] = &[
    "EDITOR",
    "VISUAL",
    "PAGER",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "MANPAGER",
    "SYSTEMD_PAGER",
    "BROWSER",
    "RUSTC_WRAPPER",
    "RUSTC",
    "RUSTDOC",
    "SHELL",
    "PSQL_PAGER",
    "DELTA_PAGER",
    "BAT_PAGER",
    "FCEDIT",
    "HGEDITOR",
    "SUDO_EDITOR",
    "CC",
    "CXX",
    "LD",
    "AR",
    "AS",
    "CPP",
    "LINKER",
    "MAKE",
    "AWK",
    "GREP",
    "PYTHON",
];
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

fn variable(cmd: &Cmd<'_>, assigned: &Assigned, report: &mut Report<'_>) {
    let name = assigned.name.as_str();
    let span = assigned.span;
    let value = assigned.value.known();
    let shown = assigned.value.lossy("…");
    if name.starts_with("LD_") || name.starts_with("DYLD_") {
        report.add(LOADER, span, format!("`{name}` makes programs load other libraries"));
        return;
    }
    let cargo_program =
        name.starts_with("CARGO_TARGET_") && (name.ends_with("_RUNNER") || name.ends_with("_LINKER"));
    if ALWAYS.contains(&name)
        || name.starts_with("BASH_FUNC_")
        || name.starts_with("GIT_CONFIG_KEY_")
        || name.starts_with("GIT_CONFIG_VALUE_")
        || cargo_program && !value.is_some_and(|word| HARMLESS.contains(&word))
    {
        report.add(RUNS, span, format!("`{name}` makes other programs run code"));
        return;
    }
    match name {
        "PS0" | "PS1" | "PS2" | "PS4" if shown.contains("$(") || shown.contains('`') || value.is_none() => {
            report.add(RUNS, span, format!("`{name}` runs commands when it is shown"));
        }
        "PATH" => search_path(cmd, assigned, report),
        "PYTHONPATH" | "PERL5LIB" | "RUBYLIB" | "NODE_PATH" | "CLASSPATH" | "LUA_PATH" | "LUA_CPATH"
            if entries(cmd, assigned).any(|entry| matches!(entry, Entry::Foreign)) =>
        {
            report.add(SEARCH, span, format!("`{name}` leads to code outside of the project"));
        }
        "CDPATH" => report.add(SEARCH, span, "`CDPATH` makes `cd` go elsewhere"),
        "IFS" => report.add(SPLITTING, span, "`IFS` changes how words are split"),
        _ if KEEPS_HISTORY.contains(&name) => {
            report.add(HISTORY, span, format!("`{name}` changes what the history keeps"));
        }
        "NODE_OPTIONS" => {
            let loads = [
                "-r",
                "--require",
                "--import",
                "--loader",
                "--experimental-loader",
                "--eval",
                "-e",
                "--inspect",
            ];
            let bad = shown.split([' ', '=']).any(|word| loads.contains(&word)) || value.is_none();
            if bad {
                report.add(RUNS, span, "`NODE_OPTIONS` makes node run other code");
            }
        }
        "MAKEFLAGS" | "GNUMAKEFLAGS" | "MFLAGS" => {
            let bad = ["--eval", "SHELL", "-f", "--file", "--makefile", "$(", "-I", "--include"]
                .iter()
                .any(|word| shown.contains(word))
                || value.is_none();
            if bad {
                report.add(RUNS, span, format!("`{name}` makes make run other code"));
            }
        }
        "RUSTFLAGS" | "CARGO_BUILD_RUSTFLAGS"
            if shown.contains("linker=")
                && !HARMLESS.iter().any(|word| shown.ends_with(&format!("linker={word}"))) =>
        {
            report.add(RUNS, span, format!("`{name}` names a program that is run"));
        }
        _ if PROGRAMS.contains(&name) => {
            let program = value.map(|text| text.split_whitespace().next().unwrap_or_default());
            let fine = program.is_some_and(|program| {
                HARMLESS.contains(&program)
                    || HARMLESS.contains(&crate::path::base_name(program)) && program.starts_with("/usr/")
                    || program.starts_with(|c: char| c.is_ascii_alphanumeric())
                        && program.ends_with(|c: char| c.is_ascii_digit())
                        && !program.contains('/')
            });
            let code = value.is_some_and(|text| {
                text.contains([';', '|', '&', '`', '$', '\'', '"']) || text.contains(" -c")
            });
            let compiler = matches!(
                name,
                "CC" | "CXX" | "LD" | "AR" | "AS" | "CPP" | "LINKER" | "MAKE" | "AWK" | "GREP" | "PYTHON"
            );
            let foreign =
                program.is_none_or(|program| program.contains('/') && !program.starts_with("/usr/"));
            if code || !fine && (!compiler || foreign) {
                report.add(RUNS, span, format!("`{name}` names a program that is run: `{shown}`"));
            }
        }
        _ => {}
    }
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
                let tool = [
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
                let in_home = path.below(cmd.place.home)
                    && tool.iter().any(|dir| path.within(&format!("{}/{dir}", cmd.place.home)));
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
