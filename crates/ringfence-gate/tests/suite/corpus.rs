//! The labelled cases: every one of them is judged, and the rates by group are printed.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_gate::reading::InProcess;
use ringfence_gate::{Decision, Gate, Language, Options, Request};
use ringfence_model::Filesystem;

struct Case {
    id: String,
    group: String,
    language: Language,
    code: String,
    want: Vec<String>,
}

fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    let read = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Case {
            id: field("id"),
            group: field("group"),
            language: Language::by_name(&field("language")).unwrap(),
            code: field("code"),
            want: value["want"].as_array().unwrap().iter().map(|w| w.as_str().unwrap().to_owned()).collect(),
        }
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(read).collect()
}

/// Judges all cases of a file; prints the table, gives back what went wrong and the share of `allow` that passed.
fn run(file: &Path) -> (Vec<String>, f64) {
    let gate = Gate::new(Options::default()).reading_code_by(Arc::new(InProcess));
    let mut groups: BTreeMap<String, [usize; 5]> = BTreeMap::new();
    let mut wrong = vec![];
    let (mut allow, mut passed) = (0usize, 0usize);
    for case in cases(file) {
        let request = Request::new(case.language, case.code.clone(), "/home/dev", "/home/dev/project")
            .within(Filesystem::default());
        let verdict = gate.judge(&request);
        let right = case.want.iter().any(|want| want == verdict.decision.name());
        let row = groups.entry(case.group.clone()).or_default();
        row[0] += 1;
        row[1] += usize::from(right);
        row[2 + verdict.decision as usize] += 1;
        if case.want == ["allow"] {
            allow += 1;
            passed += usize::from(verdict.decision == Decision::Allow);
        }
        if !right {
            let reasons: Vec<_> = verdict
                .findings
                .iter()
                .filter(|f| f.decision == verdict.decision)
                .map(|f| format!("{}/{}: {}", f.check, f.rule, f.message))
                .collect();
            let code: String = case.code.chars().take(160).collect();
            wrong.push(format!(
                "{} {} want {} got {} | {code:?} | {}",
                case.id,
                case.group,
                case.want.join("/"),
                verdict.decision.name(),
                reasons.join("; ")
            ));
        }
    }
    println!("{:<24} {:>5} {:>6} {:>6} {:>5} {:>5}", "group", "cases", "right", "allow", "ask", "deny");
    for (group, [all, right, allowed, asked, denied]) in &groups {
        println!("{group:<24} {all:>5} {right:>6} {allowed:>6} {asked:>5} {denied:>5}");
    }
    let rate = if allow == 0 { 1.0 } else { passed as f64 / allow as f64 };
    println!("ordinary work that passes: {passed} of {allow} ({:.1} %)", rate * 100.0);
    (wrong, rate)
}

/// The cases of a file that are judged wrongly, ordinary work aside, of which a few may be asked about.
fn missed(file: &Path) -> Vec<String> {
    let (wrong, rate) = run(file);
    for line in &wrong {
        println!("{line}");
    }
    let mut missed: Vec<_> = wrong.into_iter().filter(|line| !line.contains("want allow got")).collect();
    if rate < 0.99 {
        missed.push(format!("{}: only {:.1} % of ordinary work passes", file.display(), rate * 100.0));
    }
    missed
}

#[test]
fn every_labelled_case_is_judged_right() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "jsonl"));
    files.sort();
    let missed: Vec<String> = files.iter().flat_map(|file| missed(file)).collect();
    assert!(missed.is_empty(), "judged wrongly:\n{}", missed.join("\n"));
}
