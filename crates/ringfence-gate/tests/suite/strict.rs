//! The checks at their strictest, their order, and what they say together.

use ringfence_gate::checks::built_in;
use ringfence_gate::{Decision, Finding, Gate, Options, Request, Verdict};
use ringfence_model::config::Strictness;
use ringfence_model::{Filesystem, Severity, ViolationKind};

fn judge(strictness: Strictness, code: &str) -> Verdict {
    let gate = Gate::new(Options { strictness, ..Options::default() });
    gate.judge(&Request::shell(code, "/home/dev", "/home/dev/project").within(Filesystem::default()))
}

fn strict(code: &str) -> Verdict {
    judge(Strictness::Strict, code)
}

fn rule<'a>(verdict: &'a Verdict, rule: &str) -> Option<&'a Finding> {
    verdict.findings.iter().find(|finding| finding.rule == rule)
}

#[test]
fn the_first_checks_look_in_a_fixed_order() {
    let names: Vec<_> = built_in().iter().map(|check| check.name()).collect();
    assert_eq!(
        names[..5],
        [
            "heredoc_injection",
            "shell_metacharacter",
            "dangerous_variable",
            "dangerous_pattern",
            "dangerous_removal"
        ]
    );
}

#[test]
fn what_passes_carries_its_warnings_and_what_does_not_names_its_check() {
    let verdict = judge(Strictness::Standard, "curl -s localhost; rm -rf /tmp/x");
    assert_eq!((verdict.decision, verdict.check()), (Decision::Allow, "composite"));
    let checks: Vec<_> = verdict.passed().unwrap().iter().map(|finding| finding.check).collect();
    assert_eq!(checks, ["dangerous_pattern", "shell_metacharacter", "dangerous_removal"]);

    let verdict = judge(Strictness::Standard, "curl -s localhost; rm -rf /etc");
    assert_eq!(verdict.check(), "dangerous_removal");
    assert_eq!(
        verdict.passed().unwrap_err().to_string(),
        "`/etc` must not be removed [dangerous_removal/critical-path]"
    );
}

#[test]
fn variables_in_destructive_places_are_refused() {
    for code in ["echo x > $F", "echo x >> \"$F\"", "cmd 2> ${F}", "cmd 3>> $F", "rm $F", "rm -f \"$D\"/x"] {
        let verdict = strict(code);
        assert_eq!(verdict.decision, Decision::Deny, "{code}");
        assert_eq!(verdict.check(), "dangerous_variable", "{code}");
        assert_eq!(verdict.violation(), Some(ViolationKind::VariableInjection), "{code}");
    }
}

#[test]
fn variables_elsewhere_are_mentioned() {
    for code in ["chmod 600 \"$F\"", "chown me \"$F\""] {
        let verdict = strict(code);
        let finding = rule(&verdict, "chmod-variable").unwrap();
        assert_eq!((finding.decision, finding.severity), (Decision::Allow, Severity::Medium), "{code}");
    }
    for (code, want) in [("echo $F", true), ("echo a$F.b", true), ("echo \"$F\"", false), ("X=$F", false)] {
        let verdict = strict(code);
        assert_eq!(rule(&verdict, "unquoted-variable").is_some(), want, "{code}");
        assert_eq!(verdict.decision, Decision::Allow, "{code}");
        assert_eq!(rule(&judge(Strictness::Standard, code), "unquoted-variable"), None, "{code}");
    }
}

#[test]
fn every_unquoted_delimiter_is_mentioned() {
    for (code, want) in [
        ("cat <<E\nplain\nE\n", 1),
        ("cat <<-E\n\tplain\n\tE\n", 1),
        ("cat <<A <<B\na\nA\nb\nB\n", 2),
        ("cat <<'E'\nplain\nE\n", 0),
        ("cat <<\"E\"\nplain\nE\n", 0),
    ] {
        let verdict = strict(code);
        let found: Vec<_> = verdict.findings.iter().filter(|f| f.rule == "heredoc-unquoted").collect();
        assert_eq!(found.len(), want, "{code}");
        assert!(found.iter().all(|finding| finding.suggestion.contains("<<'EOF'")), "{code}");
    }
}

#[test]
fn eval_and_shredding_are_refused() {
    for (code, check) in [
        ("eval \"$x\"", "dangerous_pattern"),
        ("mkfs x", "disk"),
        ("mkfs.ext4 x", "disk"),
        ("wipefs x", "disk"),
        ("shred x", "dangerous_removal"),
    ] {
        let verdict = strict(code);
        assert_eq!((verdict.decision, verdict.check()), (Decision::Deny, check), "{code}");
        let usual = judge(Strictness::Standard, code).decision;
        assert!(usual >= Decision::Ask, "{code}: {usual:?}");
    }
    assert_eq!(strict("eval 'echo hi'").decision, Decision::Deny);
}

#[test]
fn trees_that_go_are_told_and_wildcards_refused() {
    for code in ["rm -rf build/*", "rm -r -f *.o", "rm --recursive --force 'a'*"] {
        let verdict = strict(code);
        assert_eq!(verdict.decision, Decision::Deny, "{code}");
        assert!(rule(&verdict, "strict-wildcard").is_some(), "{code}");
    }
    let verdict = strict("rm -r build/*");
    assert_eq!(rule(&verdict, "strict-wildcard"), None, "without force it is only told");
    assert_eq!(rule(&verdict, "recursive").unwrap().severity, Severity::Medium);
    let verdict = judge(Strictness::Standard, "rm -r src/../build");
    assert_eq!(verdict.decision, Decision::Allow);
    assert_eq!(rule(&verdict, "parent-path").unwrap().severity, Severity::Critical);
    assert_eq!(judge(Strictness::Standard, "rm x.o").findings, []);
}

#[test]
fn what_takes_something_away_is_confirmed() {
    for code in [
        "rm a",
        "rmdir d",
        "truncate -s 0 log",
        "git push --force",
        "git push -f origin x",
        "git reset --hard HEAD~1",
        "docker system prune",
        "docker rm web",
        "psql -c 'DROP TABLE users'",
        "sqlite3 dev.db 'drop database x'",
    ] {
        let verdict = strict(code);
        assert_eq!(verdict.decision, Decision::Ask, "{code}: {:?}", verdict.findings);
        assert!(rule(&verdict, "strict-confirmation").is_some(), "{code}");
        assert_eq!(rule(&judge(Strictness::Standard, code), "strict-confirmation"), None, "{code}");
    }
    for code in ["git reset HEAD a", "docker ps", "psql -c 'select 1'", "ls"] {
        assert_eq!(strict(code).decision, Decision::Allow, "{code}");
    }
}
