//! Languages without a parser here: words that run programs or remove files make a person look.

use ringfence_bash::Span;

use crate::checks::{Context, secrets};
use crate::finding::Decision;
use crate::path::AbsPath;
use crate::shell::Place;
use crate::value::Val;

/// Words of which one is enough to ask, by language; `*` counts for all.
const WORDS: &[(&str, &[&str])] = &[
    (
        "*",
        &[
            "system",
            "exec",
            "popen",
            "spawn",
            "unlink",
            "rmtree",
            "rm_rf",
            "fork",
            "eval",
            "passthru",
            "proc_open",
            "shell_exec",
            "callCommand",
            "socket",
            "TCPSocket",
            "Process",
            "syscall",
            "qx",
            "execute",
            "Open3",
            "rm_r",
            "delete_file",
            "rmdir",
            "remove_tree",
            "instance_eval",
            "os.remove",
            "os.rename",
            "open3",
            "do shell script",
            "load",
            "dofile",
            "loadstring",
            "import_file",
            "System.cmd",
            "Port.open",
            "file_put_contents",
            "File.delete",
            "FileUtils",
            "readFile",
            "chmod",
            "chown",
            "symlink",
        ],
    ),
    ("awk", &["getline", "@load", "@include"]),
    ("perl", &["glob", "kill"]),
    ("tcl", &["open", "file delete"]),
];

/// Words that mean less in these languages.
const EXCEPT: &[(&str, &[&str])] = &[
    (
        "awk",
        &[
            "exec", "spawn", "fork", "load", "unlink", "Process", "execute", "eval", "socket", "chmod",
            "chown",
        ],
    ),
    ("lisp", &["load", "eval"]),
];

/// Words that make a loop.
const LOOPS: &[&str] = &["while", "until", "loop", "for", "redo", "forever", "times"];

/// Judges code by its words and by the texts in quotes.
pub(crate) fn judge(
    language: &str,
    text: &str,
    place: Place<'_>,
    cwd: Option<&str>,
    level: usize,
    context: &mut Context,
) {
    let whole = Span::new(0, u32::try_from(text.len()).unwrap_or(u32::MAX));
    context.text(text);
    if text.len() > crate::code::MOST_BYTES {
        context.trouble("too-large", whole, "the code is too long to be judged");
        return;
    }
    let except = EXCEPT.iter().find(|(name, _)| *name == language).map_or(&[][..], |(_, words)| words);
    let words = WORDS
        .iter()
        .filter(|(name, _)| matches!(*name, "*") || *name == language)
        .flat_map(|(_, words)| *words);
    let bare = without_strings(text, matches!(language, "awk" | "perl" | "ruby"));
    let hit = words.filter(|word| !except.contains(word)).find(|word| has_word(&bare, word));
    let backquote = matches!(language, "perl" | "ruby" | "php" | "julia") && bare.contains('`');
    let percent = language == "ruby" && bare.contains("%x");
    let pipe = language == "awk" && awk_pipes(&bare)
        || language == "perl" && bare.contains("open") && text.contains('|');
    if let Some(word) = hit {
        context.trouble("code-runs", whole, &format!("this {language} code calls `{word}`"));
    } else if backquote || percent || pipe {
        context.trouble("code-runs", whole, &format!("this {language} code runs a command"));
    }
    if has_word(&bare, "fork") && LOOPS.iter().any(|word| has_word(&bare, word)) {
        let mut inner = context.fork();
        crate::gate::judge_shell(super::FORK_BOMB, place, cwd, level + 1, &mut inner);
        context.adopt(inner, whole);
    }
    let danger = hit.is_some() || backquote || percent || pipe;
    for literal in strings(text) {
        let val = match literal.strip_prefix("~/") {
            Some(rest) => Val::text(format!("{}/{rest}", place.home)),
            None => Val::text(&*literal),
        };
        if let Some(why) = secrets::secret(&val, cwd, place) {
            let path = AbsPath::of(&val, cwd).map(|path| path.known_part());
            context.secret(path, whole, &format!("this {language} code names `{literal}`: {why}"));
        }
        if danger && level < 12 {
            let mut inner = context.fork();
            crate::gate::judge_shell(&literal, place, cwd, level + 1, &mut inner);
            if inner.findings.decision() == Decision::Deny {
                context.adopt(inner, whole);
            }
        }
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word) && before != Some('$')
    })
}

/// `"cmd" | getline`, `print | "cmd"`, which awk runs.
fn awk_pipes(bare: &str) -> bool {
    bare.replace("||", "").contains('|')
}

/// The text with what stands in quotes or between slashes left out.
fn without_strings(text: &str, has_patterns: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let is_pattern = has_patterns && c == '/' && pattern_may_begin(&out);
        if is_pattern || matches!(c, '"' | '\'') {
            skip(&mut chars, c);
            out.push('"');
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a slash behind this begins a pattern, and is no division.
fn pattern_may_begin(before: &str) -> bool {
    let before = before.trim_end();
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let keyword = ["if", "unless", "and", "or", "not", "split", "grep", "while", "until", "when", "return"];
    match before.chars().next_back() {
        None => true,
        Some(c) if c.is_alphanumeric() => keyword.contains(&word),
        Some(c) => "(,~!{};&|?:=".contains(c),
    }
}

fn skip(chars: &mut std::str::Chars<'_>, quote: char) -> String {
    let mut inside = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\\' => inside.extend(chars.next()),
            c if c == quote => break,
            c => inside.push(c),
        }
    }
    inside
}

fn strings(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if matches!(c, '"' | '\'') && found.len() < 64 {
            found.push(skip(&mut chars, c));
        }
    }
    found.retain(|literal| !literal.is_empty() && literal.len() < 4096);
    found
}

/// What a `sed` program does besides editing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sed {
    /// `e command`, or the flag `e` of `s`.
    Shell(String),
    /// `w file`.
    Write(String),
}

impl Sed {
    pub(crate) fn is_writing_outside(&self) -> bool {
        matches!(self, Self::Write(file) if file.starts_with(['/', '~', '.']) && !file.starts_with("/dev/std") && !file.starts_with("/tmp"))
    }
}

/// Looks for commands of `sed` that run or write.
pub(crate) fn sed_runs(program: &str) -> Option<Sed> {
    for line in program.split(['\n', ';']) {
        let line = line.trim_start();
        let command = line.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, '$' | ',' | '!' | ' ' | '{' | '~' | '+')
        });
        let command = match command.strip_prefix('/') {
            Some(rest) => rest
                .split_once('/')
                .map_or("", |(_, after)| after.trim_start_matches([' ', '!', 'I', 'M', ',', '{'])),
            None => command,
        };
        if let Some(rest) = command.strip_prefix('e')
            && (rest.is_empty() || rest.starts_with(' '))
        {
            return Some(Sed::Shell(rest.trim().to_owned()));
        }
        if let Some(rest) = command.strip_prefix('w').or_else(|| command.strip_prefix('W'))
            && rest.starts_with(' ')
        {
            return Some(Sed::Write(rest.trim().to_owned()));
        }
        if let Some(rest) = command.strip_prefix('s')
            && let Some(delimiter) = rest.chars().next().filter(|c| !c.is_alphanumeric() && *c != '\\')
        {
            let mut pieces = split_unescaped(&rest[delimiter.len_utf8()..], delimiter);
            if pieces.len() >= 3 {
                let flags = pieces.remove(2);
                let letters = flags.split([' ', '}']).next().unwrap_or_default();
                if letters.contains('e') {
                    return Some(Sed::Shell(pieces.get(1).cloned().unwrap_or_default()));
                }
                if let Some((_, file)) = flags.split_once('w') {
                    return Some(Sed::Write(file.trim().to_owned()));
                }
            }
        }
    }
    None
}

fn split_unescaped(text: &str, delimiter: char) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                if let Some(last) = pieces.last_mut() {
                    last.push(c);
                    last.extend(chars.next());
                }
            }
            c if c == delimiter && pieces.len() < 3 => pieces.push(String::new()),
            c => {
                if let Some(last) = pieces.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_programs() {
        for (program, runs) in [
            ("s/foo/bar/g", false),
            ("10,20p", false),
            ("/ERROR/q", false),
            ("1e rm -rf /", true),
            ("s/x/id/e", true),
            ("w /etc/cron.d/x", true),
            ("s/a/b/w out.txt", true),
            ("s|/usr|/opt|", false),
            ("/^end/d", false),
            ("s/one/exec/", false),
        ] {
            assert_eq!(sed_runs(program).is_some(), runs, "{program}");
        }
    }
}
