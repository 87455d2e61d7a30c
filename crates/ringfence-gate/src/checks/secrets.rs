//! Files that hold secrets.

use std::path::Path;

use ringfence_model::sensitive::{SENSITIVE_NAMES, SensitiveName, sensitive_name};
use ringfence_model::{Access, ViolationKind};

use super::{Check, Report};
use crate::finding::Rule;
use crate::path::AbsPath;
use crate::shell::{Cmd, Place};
use crate::value::{Arg, Seg, Val};

/// The name of the check, also for what code names.
pub(super) const NAME: &str = "secrets";

pub(super) const RULE: Rule =
    Rule::ask("secret-file", "leave secrets where they are, or let a person grant this one file");

/// Further names that mark a file as secret wherever it is.
const MORE: &[&str] = &[
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/op",
    ".azure",
    ".terraform.d/credentials.tfrc.json",
    ".envrc",
    ".env.development",
    ".env.staging",
    ".env.test.local",
    ".env.development.local",
    ".env.production.local",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".boto",
    ".s3cfg",
    ".htpasswd",
    ".dockercfg",
    ".node_repl_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".lesshst",
    ".config/rclone",
    ".config/git/credentials",
    ".m2/settings-security.xml",
    ".gem/credentials",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".kaggle/kaggle.json",
    "Library/Keychains",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    "id_dsa",
    ".claude.json",
    ".codex/auth.json",
];

/// Settings of editors.
const EDITORS: &[&str] = &[".vscode/settings.json", ".idea/"];

/// Directories and files of the system that hold secrets.
const SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/passwd",
    "/etc/passwd-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/root",
    "/etc/krb5.keytab",
    "/etc/security/opasswd",
    "/proc/kcore",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/proc/1/environ",
    "/var/run/secrets",
    "/run/secrets",
    "/var/run/docker.sock",
    "/run/docker.sock",
];

/// Programs whose words are data.
const DATA: &[&str] = &[
    "echo", "printf", "test", "[", ":", "true", "false", "which", "type", "command", "man", "whatis",
    "apropos", "export", "declare", "typeset", "readonly", "local", "unset", "alias", "set", "expr", "seq",
    "kill", "pkill", "pgrep", "sleep", "basename", "dirname", "realpath", "let", "return", "exit", "hash",
    "shopt",
];

/// Programs whose first operand is a pattern or a program.
const PATTERN_FIRST: &[&str] =
    &["grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "mawk", "jq", "yq", "ugrep"];

/// Reading, writing or listing of secret files.
#[derive(Debug)]
pub(super) struct Secrets;

impl Check for Secrets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::SensitiveFileAccess
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        for redir in cmd.redirs {
            if let Some(target) = &redir.target {
                look(cmd, &target.val, target, report);
            }
        }
        if DATA.contains(&cmd.name) {
            return;
        }
        for pattern in sought(cmd) {
            look(cmd, &pattern.val.with_globs(), pattern, report);
        }
        for arg in paths(cmd) {
            if let Some(file) = as_file(&arg.val) {
                look(cmd, &file, arg, report);
            }
            // `f=@/etc/shadow`, `--file=x`, `if=x`, `host:path`.
            if let [Seg::Text(text)] = arg.val.segs()
                && text.contains(['=', '@', ':'])
            {
                for piece in text.split(['=', '@', ':', ',']).skip(1) {
                    look(cmd, &Val::text(piece), arg, report);
                }
            }
        }
    }
}

/// The names that `find` looks for: when it runs something on what it finds, or looks through more than the project.
/// In the project, finding alone shows no content.
fn sought<'a>(cmd: &Cmd<'a>) -> Vec<&'a Arg> {
    let rest = cmd.rest();
    let runs =
        |arg: &Arg| arg.known().is_some_and(|word| matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir"));
    if !matches!(cmd.name, "find" | "gfind") || !(rest.iter().any(runs) || goes_beyond_the_project(cmd)) {
        return vec![];
    }
    let tests = |arg: &Arg| {
        arg.known().is_some_and(|word| matches!(word, "-name" | "-iname" | "-path" | "-ipath" | "-wholename"))
    };
    let is_pattern = |index: &usize| {
        let refused = index.checked_sub(2).is_some_and(|at| rest[at].is("!") || rest[at].is("-not"));
        *index > 0 && tests(&rest[index - 1]) && !refused
    };
    (0..rest.len()).filter(is_pattern).map(|index| &rest[index]).collect()
}

/// Whether a walk begins at the home directory, in it but outside of the project, or above either.
fn goes_beyond_the_project(cmd: &Cmd<'_>) -> bool {
    let is_place = |arg: &&Arg| !arg.known().is_some_and(|word| word.starts_with(['-', '(', '!']));
    let beyond = |arg: &Arg| {
        cmd.path(&arg.val).is_some_and(|path| {
            let home = cmd.place.home;
            (path.within(home) || path.above(home))
                && !cmd.place.projects().any(|project| path.within(project))
        })
    };
    cmd.rest().iter().take_while(is_place).any(beyond)
}

/// The words of a command that may be files.
fn paths<'a>(cmd: &Cmd<'a>) -> Vec<&'a Arg> {
    let rest = cmd.rest();
    match cmd.name {
        "find" | "gfind" => {
            rest.iter().take_while(|arg| !arg.val.prefix().starts_with(['-', '(', '!'])).collect()
        }
        "git" => git_paths(rest),
        name if PATTERN_FIRST.contains(&name) => {
            let explicit = rest.iter().any(|arg| {
                arg.is("-e")
                    || arg.is("-f")
                    || arg.val.prefix().starts_with("--regexp")
                    || arg.val.prefix().starts_with("--file")
            });
            let mut pattern_seen = explicit;
            let mut skip = false;
            rest.iter()
                .filter(|arg| {
                    let word = arg.val.prefix();
                    if std::mem::take(&mut skip) {
                        return false;
                    }
                    if word.starts_with('-') {
                        skip = matches!(
                            word,
                            "-e" | "-A"
                                | "-B"
                                | "-C"
                                | "-m"
                                | "--include"
                                | "--exclude"
                                | "-g"
                                | "--glob"
                                | "-v"
                                | "-F"
                        ) && !(matches!(word, "-v" | "-F") && name.ends_with("grep") || name == "rg");
                        return false;
                    }
                    let is_path = pattern_seen;
                    pattern_seen = true;
                    is_path
                })
                .collect()
        }
        _ => {
            // Code is no file; files are looked for in it as everywhere.
            let code: Vec<Arg> = crate::shell_internals::texts(cmd.name, cmd.args, cmd.input);
            let is_code = |arg: &&Arg| {
                let glued = arg.val.prefix().starts_with('-');
                code.iter().any(|text| text.val == arg.val || glued && text.span == arg.span)
            };
            rest.iter().filter(|arg| !is_code(arg)).collect()
        }
    }
}

/// The part of a word that may name a file: `-I/path` without its letter, and nothing of `--long`.
fn as_file(val: &Val) -> Option<Val> {
    match val.prefix() {
        "-" => Some(val.clone()),
        word if word.starts_with("--") => None,
        word if word.starts_with('-') => word.chars().nth(1).map(|letter| val.skip(1 + letter.len_utf8())),
        _ => Some(val.clone()),
    }
}

fn git_paths(rest: &[Arg]) -> Vec<&Arg> {
    let known =
        ["add", "rm", "mv", "checkout", "restore", "diff", "show", "blame", "cat-file", "apply", "archive"];
    let Some(at) = rest.iter().position(|arg| arg.known().is_some_and(|word| known.contains(&word))) else {
        return vec![];
    };
    rest[at + 1..].iter().filter(|arg| !arg.val.prefix().starts_with('-')).collect()
}

fn look(cmd: &Cmd<'_>, val: &Val, arg: &Arg, report: &mut Report<'_>) {
    if let Some(why) = secret(val, cmd.cwd, cmd.place) {
        let path = AbsPath::of(val, cmd.cwd).map(|path| path.known_part());
        report.add_about(path, RULE, arg.span, format!("`{}` may hold secrets: {why}", arg.show()));
    }
}

/// Why a path is secret, if it is, and no rule of the fence names it on purpose.
pub(crate) fn secret(val: &Val, cwd: Option<&str>, place: Place<'_>) -> Option<&'static str> {
    let prefix = val.prefix();
    if prefix.is_empty() && val.segs().len() <= 1 || prefix.len() > 4096 {
        return None;
    }
    // A gap in the middle: what is known before and after it still counts.
    let path = AbsPath::of(val, cwd).or_else(|| AbsPath::of(&Val::text(after_gap(val)), Some("/")))?;
    let meant = |rule: String| reason(&AbsPath::literal(&rule), place).is_some();
    let why = reason(&path, place)?;
    (!place.allowing(&path, Access::Read).is_some_and(meant)).then_some(why)
}

/// Why a path is secret, by its names or by where it is. Where the project is makes nothing in it a secret.
fn reason(path: &AbsPath, place: Place<'_>) -> Option<&'static str> {
    match place.projects().find_map(|project| path.inside(project)) {
        // An editor's settings in a project belong to its repository.
        Some(inner) if EDITORS.iter().any(|name| inner.holds(name)) => None,
        Some(inner) => by_name(&inner),
        None => by_name(path).or_else(|| by_place(path, place)),
    }
}

fn by_name(path: &AbsPath) -> Option<&'static str> {
    if let Some(known) = path.known() {
        if let Some(entry) = sensitive_name(Path::new(&known)) {
            return (!entry.read_by_tools).then(|| why_secret(entry));
        }
    } else if let Some(entry) =
        SENSITIVE_NAMES.iter().find(|entry| !entry.read_by_tools && path.holds(entry.name))
    {
        return Some(why_secret(entry));
    }
    MORE.iter().any(|name| path.holds(name)).then_some("credentials or keys are kept there")
}

/// Why reading a file is asked about. The list it is on is about writing, too.
fn why_secret(entry: &SensitiveName) -> &'static str {
    match entry.name {
        ".bashrc" | ".bash_profile" | ".zshrc" | ".profile" | ".zprofile" => {
            "tokens are often exported there"
        }
        name if EDITORS.contains(&name) => "extensions of editors keep tokens there",
        _ => entry.reason,
    }
}

fn by_place(path: &AbsPath, place: Place<'_>) -> Option<&'static str> {
    let meant = |dir: &&str| {
        AbsPath::literal(dir).parts().len() <= path.parts().len()
            && path.holds_at_root(dir)
            && !(dir.starts_with("/root") && place.home == "/root")
    };
    if SYSTEM.iter().any(meant) {
        return Some("it belongs to the system's accounts and keys");
    }
    (path.holds("environ") && path.below("/proc")).then_some("it holds the environment of a process")
}

fn after_gap(val: &Val) -> String {
    match val.segs().last() {
        Some(Seg::Text(text)) => text.clone(),
        _ => String::new(),
    }
}
