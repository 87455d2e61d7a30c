//! How risky a piece of code is, and where it should run.
//!
//! The level is a hint for a person and for the choice of a sandbox. It never opens anything: even safe code
//! runs inside the fence.

use serde::Serialize;

use crate::Language;
use crate::checks::{Context, Seen};
use crate::finding::{Decision, Finding};
use crate::reading::Reading;

/// How much harm is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Looks, and changes nothing.
    Safe,
    /// Acts where nothing is lost.
    Low,
    /// Unknown, or changes the project.
    Medium,
    /// Changes or reveals things that matter.
    High,
    /// Destroys, or runs what cannot be judged.
    Critical,
}

impl Risk {
    /// The wire name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// What a shell command does to the world, in three words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Looks, and changes nothing.
    ShellSafe,
    /// May change something.
    ShellWrite,
    /// Is refused, asked about, or of critical risk.
    ShellDangerous,
}

impl Category {
    pub(crate) fn of(level: Risk, decision: Decision) -> Self {
        match (decision, level) {
            (Decision::Ask | Decision::Deny, _) | (_, Risk::Critical) => Self::ShellDangerous,
            (Decision::Allow, Risk::Safe) => Self::ShellSafe,
            (Decision::Allow, Risk::Low | Risk::Medium | Risk::High) => Self::ShellWrite,
        }
    }
}

/// Where code runs. From weakest to strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// A process inside the local fence.
    Subprocess,
    /// A container.
    Docker,
    /// A full environment with a browser.
    Aio,
    /// Nowhere.
    Reject,
}

/// How the suggestion is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecurityMode {
    /// As suggested.
    Permissive,
    /// All that is not safe goes into a container.
    #[default]
    Strict,
}

/// The level, why, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assessment {
    /// How risky.
    pub level: Risk,
    /// What was found.
    pub patterns: Vec<String>,
    /// Why, as a sentence.
    pub reason: String,
    /// Whether a person must agree.
    pub requires_confirmation: bool,
    /// Whether isolation must be there.
    pub requires_isolation: bool,
    /// Where it should run.
    pub suggested: Sandbox,
}

impl Assessment {
    fn new(level: Risk, patterns: Vec<String>, rejects: bool) -> Self {
        let (requires_confirmation, requires_isolation, suggested) = match level {
            Risk::Safe => (false, false, Sandbox::Subprocess),
            Risk::Low => (false, false, Sandbox::Aio),
            Risk::Medium => (false, true, Sandbox::Docker),
            Risk::High => (true, true, Sandbox::Docker),
            Risk::Critical => (true, true, if rejects { Sandbox::Reject } else { Sandbox::Docker }),
        };
        let reason = if patterns.is_empty() {
            "nothing in particular was found".to_owned()
        } else {
            format!("found: {}", patterns.join(", "))
        };
        Self { level, patterns, reason, requires_confirmation, requires_isolation, suggested }
    }
}

/// Where code must run. A caller's wish counts only if it is stricter.
pub fn required_sandbox(assessment: &Assessment, mode: SecurityMode, wish: Option<Sandbox>) -> Sandbox {
    let required = match (mode, assessment.suggested) {
        (_, Sandbox::Reject) => Sandbox::Reject,
        (_, Sandbox::Aio) => Sandbox::Aio,
        (SecurityMode::Strict, _) if assessment.level != Risk::Safe => Sandbox::Docker,
        (_, suggested) => suggested,
    };
    wish.map_or(required, |wish| required.max(wish))
}

/// A word list: what it raises the level to, and the words.
const PYTHON: &[(Risk, &[&str])] = &[
    (
        Risk::Critical,
        &["__import__(", "eval(", "exec(", "compile(", "__builtins__", "os.system(", "subprocess.", "popen("],
    ),
    (
        Risk::High,
        &[
            ".write(",
            "shutil.",
            "requests.",
            "urllib.",
            "socket.",
            "import os",
            "import sys",
            "import pickle",
        ],
    ),
    (Risk::Medium, &[".read(", "json.load", "os.environ"]),
];
const JAVASCRIPT: &[(Risk, &[&str])] = &[
    (Risk::Critical, &["eval(", "new function", "child_process"]),
    (
        Risk::High,
        &["require('fs", "require(\"fs", "require('node:fs", "require('http", "require(\"http", "fetch("],
    ),
];
const SAFE_WORDS: [&str; 20] = [
    "ls", "tree", "find", "pwd", "file", "stat", "cat", "head", "tail", "less", "more", "grep", "rg", "ag",
    "ack", "wc", "du", "echo", "which", "whereis",
];

/// Assesses a text that was judged: by the commands that were seen in it, the code, and what was found.
pub(crate) fn assess(language: Language, code: &str, context: &Context) -> Assessment {
    let findings = context.findings.list();
    let inner = context.risk.clone();
    let mut assessment = match language {
        Language::Python | Language::JavaScript => inner.unwrap_or_else(|| of_code(language, code, None)),
        Language::Shell => {
            let shell = shell(&context.seen, findings);
            inner.filter(|inner| inner.level > shell.level).unwrap_or(shell)
        }
        Language::Other(_) | Language::Unknown => {
            Assessment::new(Risk::High, vec!["unknown language".into()], false)
        }
    };
    // What the checks found is stronger than words.
    let strictest = findings.iter().map(|finding| finding.decision).max().unwrap_or(Decision::Allow);
    let unread =
        findings.iter().all(|finding| finding.decision != Decision::Ask || finding.rule == "unparseable");
    let least = match strictest {
        Decision::Deny => Risk::Critical,
        Decision::Ask if unread => Risk::Medium,
        Decision::Ask => Risk::High,
        Decision::Allow => Risk::Safe,
    };
    if least > assessment.level || strictest == Decision::Deny {
        let mut patterns = assessment.patterns;
        patterns.extend(
            findings
                .iter()
                .filter(|finding| finding.decision == strictest)
                .map(|finding| finding.rule.to_owned()),
        );
        assessment =
            Assessment::new(least, patterns, language == Language::Shell && strictest == Decision::Deny);
    }
    assessment
}

/// Assesses code by its words.
pub(crate) fn of_code(language: Language, code: &str, reading: Option<&Reading>) -> Assessment {
    match language {
        Language::JavaScript => javascript(code, reading),
        _ => python(code, reading),
    }
}

/// Assesses a browser action.
pub fn assess_browser(action: &str, parameters: &str) -> Assessment {
    let text = format!("{action} {parameters}").to_lowercase();
    let found: Vec<String> = ["password", "credit", "pay"]
        .into_iter()
        .filter(|word| text.contains(word))
        .map(str::to_owned)
        .collect();
    let level = if found.is_empty() { Risk::Low } else { Risk::High };
    Assessment { requires_isolation: false, suggested: Sandbox::Aio, ..Assessment::new(level, found, false) }
}

fn python(code: &str, reading: Option<&Reading>) -> Assessment {
    let mut hits = words(code, PYTHON, reading);
    let lower = code.to_lowercase();
    for (at, _) in lower.match_indices("open(") {
        if inside_text(reading, at) {
            continue;
        }
        let call = lower[at..].split(')').next().unwrap_or_default();
        let mode = |letters: &[&str]| {
            letters
                .iter()
                .any(|letter| call.contains(&format!("'{letter}")) || call.contains(&format!("\"{letter}")))
        };
        if call.contains(',') && mode(&["w", "a", "x"]) {
            hits.push((Risk::High, "open() for writing".to_owned()));
        } else if call.contains(',') && mode(&["r"]) {
            hits.push((Risk::Medium, "open() for reading".to_owned()));
        }
    }
    for (at, _) in lower.match_indices("getattr(") {
        let call = lower[at..].split(')').next().unwrap_or_default();
        if call.contains("__") && !inside_text(reading, at) {
            hits.push((Risk::Critical, "getattr() of a dunder".to_owned()));
        }
    }
    if hits.is_empty() && reading.is_some_and(|reading| reading.complete) {
        hits.extend(imports(code).into_iter().map(|module| (Risk::High, format!("import of {module}"))));
    }
    level(hits)
}

/// Modules that are worth a word, by the import statements of the syntax tree.
fn imports(code: &str) -> Vec<String> {
    let mut found = vec![];
    for line in code.lines().map(str::trim) {
        if let Some(list) = line.strip_prefix("import ") {
            for module in list.split(',').map(|module| module.split_whitespace().next().unwrap_or_default()) {
                if ["os", "sys", "subprocess", "ctypes"].contains(&module) {
                    found.push(module.to_owned());
                }
            }
        } else if let Some(module) =
            line.strip_prefix("from ").and_then(|rest| rest.split_whitespace().next())
            && ["os", "sys", "subprocess"].contains(&module)
        {
            found.push(module.to_owned());
        }
    }
    found
}

fn javascript(code: &str, reading: Option<&Reading>) -> Assessment {
    let mut hits = words(code, JAVASCRIPT, reading);
    let loaded = |module: &String| module.trim_start_matches("node:") == "child_process";
    if reading.is_some_and(|reading| reading.modules.iter().any(loaded)) {
        hits.push((Risk::Critical, "child_process".to_owned()));
    }
    level(hits)
}

fn shell(seen: &[Seen], findings: &[Finding]) -> Assessment {
    let mut hits = vec![];
    let ruled = |rule: &str| findings.iter().any(|finding| finding.rule == rule);
    for command in seen {
        let name = command.name.as_str();
        let has = |word: &str| command.args.iter().skip(1).any(|arg| arg.is(word));
        let option = |letter: char| {
            command.args.iter().skip(1).any(|arg| {
                let word = arg.val.prefix();
                word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
            })
        };
        let absolute = command.args.iter().skip(1).any(|arg| arg.val.prefix().starts_with('/'));
        match name {
            "rm" if (option('r') || option('R')) && option('f') && absolute => {
                hits.push((Risk::Critical, "rm -rf of an absolute path"))
            }
            "dd" if command.args.iter().any(|arg| arg.val.prefix().starts_with("if=")) => {
                hits.push((Risk::Critical, "dd"))
            }
            _ if name.starts_with("mkfs") => hits.push((Risk::Critical, "mkfs")),
            "rm" => hits.push((Risk::High, "rm")),
            "mv" => hits.push((Risk::High, "mv")),
            "sudo" => hits.push((Risk::High, "sudo")),
            "chmod" => hits.push((Risk::High, "chmod")),
            "git" if has("push") => hits.push((Risk::High, "git push")),
            "git" if has("--force") => hits.push((Risk::High, "git --force")),
            _ if SAFE_WORDS.contains(&name) => {}
            _ => hits.push((Risk::Medium, "a command that is not known to be harmless")),
        }
        if !command.plain {
            hits.push((Risk::High, "a file is written"));
        }
    }
    if ruled("fork-bomb") {
        hits.push((Risk::Critical, "fork bomb"));
    }
    if ruled("pipe-to-shell") || ruled("write-to-disk") || ruled("write-to-device") {
        hits.push((Risk::Critical, "a shell runs unknown input, or a device is written"));
    }
    if seen.is_empty() {
        hits.push((Risk::Medium, "no command"));
    }
    let hits: Vec<_> = hits.into_iter().map(|(risk, what)| (risk, what.to_owned())).collect();
    let assessment = level(hits);
    let rejects = assessment.level == Risk::Critical;
    Assessment::new(assessment.level, assessment.patterns, rejects)
}

fn level(mut hits: Vec<(Risk, String)>) -> Assessment {
    hits.sort_by(|a, b| b.cmp(a));
    hits.dedup();
    let level = hits.first().map_or(Risk::Safe, |(risk, _)| *risk);
    Assessment::new(level, hits.into_iter().map(|(_, what)| what).take(16).collect(), false)
}

/// Words of the lists that stand in code, and not in a string or a comment.
fn words(code: &str, lists: &[(Risk, &[&str])], reading: Option<&Reading>) -> Vec<(Risk, String)> {
    let lower = code.to_lowercase();
    let same_length = lower.len() == code.len();
    let mut hits = vec![];
    for (risk, list) in lists {
        for word in *list {
            let in_code = lower.match_indices(word).take(64).any(|(at, _)| {
                let before = lower[..at].chars().next_back();
                let joined = word.starts_with(|c: char| c.is_alphabetic())
                    && before
                        .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.' && *word != "popen(");
                !(joined || same_length && inside_text(reading, at))
            });
            if in_code {
                hits.push((*risk, (*word).trim_end_matches('(').to_owned()));
            }
        }
    }
    hits
}

fn inside_text(reading: Option<&Reading>, at: usize) -> bool {
    let Some(reading) = reading.filter(|reading| reading.complete) else { return false };
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    let before = reading.texts.partition_point(|(start, _)| *start <= at);
    reading.texts[..before].last().is_some_and(|(_, end)| at < *end)
}
