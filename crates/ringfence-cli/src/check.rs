//! `ringfence check`: what the gate says about a command or code, without running it.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence::model::config::ConfigFile;
use ringfence::model::{Error, ErrorKind, Result};
use ringfence::setup::Setup;
use ringfence_gate::{Decision, Finding, Gate, Language, Request, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::{Check, Profile};
use crate::output::{self, Palette, Tone, one_line};
use crate::report;

/// The exit code when a person would be asked.
const ASK: u8 = 10;
/// The exit code when it would be refused.
const DENY: u8 = 11;

pub(crate) fn check(args: &Check) -> Result<ExitCode> {
    let setup = load(args.profile)?;
    for warning in &setup.loaded.warnings {
        report::say(&format!("warning: {warning}"));
    }
    let gate = ringfence::gate::gate_of(&setup)?.reading_code_by(crate::gate::reader());
    let home = args.home.clone().unwrap_or_else(|| setup.home.to_string_lossy().into_owned());
    let cwd = args.cwd.clone().unwrap_or_else(|| setup.project.to_string_lossy().into_owned());
    let files = ringfence::gate::fenced(&setup).map(|policy| Arc::new(policy.filesystem));
    let request = Request { files, ..Request::new(language(&args.language), "", home, cwd) };
    if args.jsonl {
        return lines(&gate, &request);
    }
    let code = args.code.clone().unwrap_or_default();
    let verdict = gate.judge(&Request { code: code.clone(), ..request });
    if args.json {
        output::print_json(&to_json(None, &verdict))?;
    } else {
        output::print(&text(&code, &verdict, Palette::of_stdout()))?;
    }
    Ok(match verdict.decision {
        Decision::Allow => ExitCode::SUCCESS,
        Decision::Ask => ExitCode::from(ASK),
        Decision::Deny => ExitCode::from(DENY),
    })
}

fn load(profile: Option<Profile>) -> Result<Setup> {
    let current = std::env::current_dir().map_err(|error| {
        Error::new(ErrorKind::Validation, "the current directory is gone").caused_by(error)
    })?;
    let call: ConfigFile = match profile {
        None => ConfigFile::default(),
        Some(profile) => {
            let name = match profile {
                Profile::Unfenced => "dev",
                Profile::Balanced => "balanced",
                Profile::Prod => "prod",
            };
            serde_json::from_value(json!({ "profile": name }))
                .map_err(|error| Error::new(ErrorKind::Validation, format!("bad option: {error}")))?
        }
    };
    let env = std::env::vars_os().collect();
    Setup::load(&current, env, call, None)
}

/// A language that is not known is judged as such, which asks.
fn language(name: &str) -> Language {
    Language::by_name(name).unwrap_or(Language::Unknown)
}

/// A line of `--jsonl`.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    language: Option<String>,
    code: String,
    #[serde(default)]
    cwd: Option<String>,
}

/// `template`: everything that a line does not say.
fn lines(gate: &Gate, template: &Request) -> Result<ExitCode> {
    let cannot_read = |error: std::io::Error| {
        Error::new(ErrorKind::Validation, "cannot read standard input").caused_by(error)
    };
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(cannot_read)?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&line).map_err(|error| {
            Error::new(ErrorKind::Validation, format!("a line is not as expected: {error}"))
        })?;
        let mut request = Request { code: line.code, ..template.clone() };
        request.language = line.language.as_deref().map_or(request.language, language);
        request.cwd = line.cwd.unwrap_or(request.cwd);
        let verdict = gate.judge(&request);
        output::print_json_lines([to_json(Some(line.id), &verdict)])?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(id: Option<Value>, verdict: &Verdict) -> Value {
    let mut value = json!({
        "verdict": verdict.decision,
        "risk": verdict.risk.level,
        "intent": verdict.intent,
        "findings": verdict.findings,
    });
    if let Some(category) = verdict.category {
        value["category"] = json!(category);
    }
    if let Some(proposal) = &verdict.proposal {
        value["proposal"] = json!(proposal);
    }
    match id {
        Some(id) => {
            let mut with_id = json!({ "id": id });
            if let (Some(all), Value::Object(rest)) = (with_id.as_object_mut(), value) {
                all.extend(rest);
            }
            with_id
        }
        None => value,
    }
}

fn text(code: &str, verdict: &Verdict, palette: Palette) -> String {
    let mut out = String::new();
    let tone = tone(verdict.decision);
    let _ = writeln!(
        out,
        "{} (risk {}): {}",
        palette.paint(tone, verdict.decision.name()),
        risk_name(verdict),
        one_line(&verdict.intent)
    );
    for finding in &verdict.findings {
        out.push('\n');
        underlined(&mut out, code, finding, palette);
        let _ = writeln!(
            out,
            "  {}: {} [{}/{}]",
            palette.paint(self::tone(finding.decision), word(finding)),
            one_line(&finding.message),
            finding.check,
            finding.rule
        );
        if !finding.suggestion.is_empty() {
            let _ = writeln!(out, "  {} {}", palette.paint(Tone::Quiet, "hint:"), finding.suggestion);
        }
    }
    match (verdict.decision, &verdict.proposal) {
        (Decision::Ask, Some(proposal)) => {
            let _ = writeln!(
                out,
                "\nto let it pass without a question, add `{proposal}` to safety.allowlist in the configuration"
            );
        }
        (Decision::Ask, None) => {
            let _ = writeln!(
                out,
                "\na person is asked each time; there is no rule for this that would be safe to keep"
            );
        }
        (Decision::Deny, _) => {
            let _ =
                writeln!(out, "\nthis is refused without a question; built-in rules cannot be switched off");
        }
        (Decision::Allow, _) => {}
    }
    out
}

fn risk_name(verdict: &Verdict) -> String {
    format!("{:?}", verdict.risk.level).to_lowercase()
}

/// The decision of a finding, as a word.
fn word(finding: &Finding) -> &'static str {
    match finding.decision {
        Decision::Allow => "note",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

fn tone(decision: Decision) -> Tone {
    match decision {
        Decision::Allow => Tone::Good,
        Decision::Ask => Tone::Warning,
        Decision::Deny => Tone::Bad,
    }
}

/// The line of the text that a finding is about, with the place marked.
fn underlined(out: &mut String, code: &str, finding: &Finding, palette: Palette) {
    let start = floor(code, finding.span.start as usize);
    let end = floor(code, (finding.span.end as usize).max(start));
    let line_start = code[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = code[start..].find('\n').map_or(code.len(), |at| start + at);
    let shown_from = floor(code, start.saturating_sub(60).max(line_start));
    let shown_to = floor(code, line_end.min(shown_from + 140));
    let before = one_line(&code[shown_from..start.min(shown_to)]);
    let marked = one_line(&code[start.min(shown_to)..end.min(shown_to).max(start.min(shown_to))]);
    let after = one_line(&code[end.min(shown_to).max(start.min(shown_to))..shown_to]);
    let _ = writeln!(out, "  {before}{marked}{after}");
    let marks = "^".repeat(marked.chars().count().max(1));
    let _ = writeln!(out, "  {}{}", " ".repeat(before.chars().count()), palette.paint(Tone::Bad, &marks));
}

fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: &str) -> String {
        let gate = Gate::new(ringfence_gate::Options::default());
        let verdict = gate.judge(&Request::shell(code, "/home/dev", "/home/dev/project"));
        text(code, &verdict, Palette::plain())
    }

    #[test]
    fn the_place_is_underlined() {
        let text = shown("ls && sudo id");
        assert!(text.contains("  ls && sudo id\n        ^^^^^^^\n"), "{text}");
        assert!(
            text.contains("deny: `sudo` runs commands with other rights [privilege/privilege]"),
            "{text}"
        );
        assert!(text.starts_with("deny (risk critical): runs ls, sudo, id\n"), "{text}");
    }

    #[test]
    fn ordinary_work_is_one_line() {
        assert_eq!(shown("cargo test"), "allow (risk medium): runs cargo\n");
    }

    #[test]
    fn a_question_says_how_to_avoid_it() {
        let text = shown("git push --force origin main");
        assert!(text.contains("add `git push` to safety.allowlist"), "{text}");
    }

    #[test]
    fn odd_places_do_not_break_the_text() {
        for code in ["", "\u{200b}", "é\u{202e}x", "a\n\u{7}", "'"] {
            assert!(shown(code).contains("risk"), "{code:?}");
        }
    }
}
