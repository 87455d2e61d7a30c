//! Lists, modes and strictness, through the gate.
#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not know for such")]

use ringfence_gate::rules::RuleError;
use ringfence_gate::{Decision, Gate, Options, Request, Verdict};
use ringfence_model::config::{Entry, SafetyConfig, SafetyMode, Strictness};
use ringfence_model::{Filesystem, ViolationKind};

fn gate(mode: SafetyMode, allow: &[&str], deny: &[&str], strictness: Strictness) -> Gate {
    let entries = |texts: &[&str]| texts.iter().map(|text| Entry::by_call(*text)).collect();
    let safety =
        SafetyConfig { mode, allowlist: entries(allow), denylist: entries(deny), ..SafetyConfig::default() };
    Gate::new(Options::from_config(&safety, strictness).unwrap())
}

fn judge(gate: &Gate, code: &str) -> Verdict {
    gate.judge(&Request::shell(code, "/home/dev", "/home/dev/project").within(Filesystem::default()))
}

#[test]
fn the_approval_timeout_is_a_minute() {
    assert_eq!(SafetyConfig::default().approval_timeout_ms, 60_000);
}

#[test]
fn mode_ask_asks_about_what_a_check_wants_to_ask() {
    let gate = gate(SafetyMode::Ask, &[], &[], Strictness::Standard);
    assert_eq!(judge(&gate, "cargo test").decision, Decision::Allow);
    assert_eq!(judge(&gate, "cat .env").decision, Decision::Ask);
    assert_eq!(judge(&gate, "sudo id").decision, Decision::Deny);
}

#[test]
fn mode_allow_asks_only_about_what_cannot_be_read() {
    let gate = gate(SafetyMode::Allow, &[], &[], Strictness::Standard);
    assert_eq!(judge(&gate, "cat .env").decision, Decision::Allow);
    assert_eq!(judge(&gate, "$X").decision, Decision::Ask);
    assert_eq!(judge(&gate, "ls |").decision, Decision::Ask);
    assert_eq!(judge(&gate, "sudo id").decision, Decision::Deny);
}

#[test]
fn mode_deny_lets_only_the_allow_list_through() {
    let gate = gate(SafetyMode::Deny, &["pytest", "git status"], &[], Strictness::Standard);
    assert_eq!(judge(&gate, "pytest -x").decision, Decision::Allow);
    assert_eq!(judge(&gate, "timeout 5 pytest").decision, Decision::Allow);
    assert_eq!(judge(&gate, "git status; pytest").decision, Decision::Allow);
    assert_eq!(judge(&gate, "git push").decision, Decision::Deny);
    assert_eq!(judge(&gate, "pytest && ls").decision, Decision::Deny);
    assert_eq!(judge(&gate, "pytest $(ls)").decision, Decision::Deny);
}

#[test]
fn an_allowed_command_passes_without_a_question() {
    let gate = gate(SafetyMode::Ask, &["cat .env", "git push"], &[], Strictness::Standard);
    assert_eq!(judge(&gate, "cat .env").decision, Decision::Allow);
    assert_eq!(judge(&gate, "git push --force origin x").decision, Decision::Allow);
}

#[test]
fn an_allowed_command_lets_nothing_else_through() {
    let gate = gate(SafetyMode::Ask, &["pytest", "cat .env", "echo", "bash"], &[], Strictness::Standard);
    for code in [
        "pytest && cat ~/.ssh/id_rsa",
        "cat .env; cat ~/.aws/credentials",
        "pytest $(cat ~/.ssh/id_rsa)",
        "echo x > ~/.bashrc",
        "LD_PRELOAD=x pytest",
        "bash -c \"$X\"",
    ] {
        assert_ne!(judge(&gate, code).decision, Decision::Allow, "{code}");
    }
    assert_eq!(judge(&gate, "pytest && rm -rf /").decision, Decision::Deny);
    assert_eq!(judge(&gate, "pytest; sudo id").decision, Decision::Deny);
}

#[test]
fn the_deny_list_sees_through_paths_wrappers_and_order() {
    let gate = gate(SafetyMode::Allow, &["git push"], &["git push", "rm -rf", "curl"], Strictness::Standard);
    for code in [
        "git push",
        "git -C x push origin",
        "/usr/bin/git push",
        "env A=1 git push",
        "bash -c 'git push'",
        "ls && git push",
        "rm -fr x",
        "rm -r -f x",
        "rm --force --recursive x",
        "nice rm -rf x",
        "echo $(curl x)",
        "timeout 5 /usr/bin/curl x",
    ] {
        let verdict = judge(&gate, code);
        assert_eq!(verdict.decision, Decision::Deny, "{code}");
        assert_eq!(verdict.violation(), Some(ViolationKind::CommandBlocked), "{code}");
    }
    assert_eq!(judge(&gate, "git status && rm x").decision, Decision::Allow);
}

#[test]
fn escalation_asks_but_not_past_a_denial() {
    let gate = gate(SafetyMode::Ask, &["ls"], &[], Strictness::Standard);
    let escalated = |code: &str| {
        gate.judge(&Request { escalated: true, ..Request::shell(code, "/home/dev", "/home/dev/project") })
            .decision
    };
    assert_eq!(escalated("ls"), Decision::Ask);
    assert_eq!(escalated("sudo ls"), Decision::Deny);
}

/// Deny list, mode deny, escalation, allow list, mode allow, then the question.
#[test]
fn a_command_is_decided_in_order() {
    use Decision::*;
    let decide = |mode, allow: &[&str], deny: &[&str], escalated| {
        let gate = gate(mode, allow, deny, Strictness::Standard);
        let mut request = Request::shell("git push --force", "/home/dev", "/home/dev/project");
        request.escalated = escalated;
        gate.judge(&request).decision
    };
    let both: &[&str] = &["git push"];
    for mode in [SafetyMode::Allow, SafetyMode::Ask, SafetyMode::Deny] {
        for escalated in [false, true] {
            assert_eq!(decide(mode, both, both, escalated), Deny, "the deny list comes first");
        }
    }
    assert_eq!(decide(SafetyMode::Deny, &[], &[], true), Deny, "mode deny comes before escalation");
    assert_eq!(decide(SafetyMode::Ask, both, &[], true), Ask, "escalation comes before the allow list");
    assert_eq!(decide(SafetyMode::Allow, both, &[], true), Ask, "and before mode allow");
    assert_eq!(decide(SafetyMode::Ask, both, &[], false), Allow, "the allow list");
    assert_eq!(decide(SafetyMode::Allow, &[], &[], false), Allow, "mode allow");
    assert_eq!(decide(SafetyMode::Ask, &[], &[], false), Ask);
}

#[test]
fn a_wrong_example_is_an_error_on_load() {
    let safety = SafetyConfig {
        allowlist: vec![Entry::by_call("git status # match: git push")],
        ..SafetyConfig::default()
    };
    let error = Options::from_config(&safety, Strictness::Standard).unwrap_err();
    assert!(error.to_string().contains("git push"), "{error}");
}

#[test]
fn strict_checks_refuse_chains_and_background_and_ask_about_the_rest() {
    let strict = gate(SafetyMode::Ask, &[], &[], Strictness::Strict);
    for (code, want) in [
        ("ls", Decision::Allow),
        ("ls 2>&1", Decision::Allow),
        ("ls &> out.txt", Decision::Allow),
        ("echo 'a; b && c | d'", Decision::Allow),
        ("ls; ls", Decision::Deny),
        ("ls\nls", Decision::Deny),
        ("ls && ls", Decision::Deny),
        ("ls || ls", Decision::Deny),
        ("ls &", Decision::Deny),
        ("ls | wc", Decision::Ask),
        ("echo `date`", Decision::Ask),
        ("echo $(date)", Decision::Ask),
        ("echo ${x}", Decision::Ask),
        ("tee >(wc)", Decision::Ask),
        ("cat <(ls)", Decision::Ask),
        ("rm -rf $X", Decision::Deny),
        ("echo x > $F", Decision::Deny),
    ] {
        assert_eq!(judge(&strict, code).decision, want, "{code}");
    }
    for strictness in [Strictness::Minimal, Strictness::Standard] {
        let gate = gate(SafetyMode::Ask, &[], &[], strictness);
        for code in ["ls; ls", "ls && ls || ls", "sleep 1 &", "ls | wc", "echo $(date) `date` ${x} <(ls)"] {
            let verdict = judge(&gate, code);
            assert_eq!(verdict.decision, Decision::Allow, "{code}");
            // Between the least and the most they are mentioned, once a text.
            let notes = verdict.findings.iter().filter(|finding| finding.check == "shell_metacharacter");
            let wanted = usize::from(strictness == Strictness::Standard);
            assert_eq!(notes.count(), wanted, "{code}: {:?}", verdict.findings);
        }
    }
}

fn listed(allowed: &[&str], blocked: &[&str]) -> Result<Gate, RuleError> {
    let entries = |texts: &[&str]| texts.iter().map(|text| Entry::by_call(*text)).collect::<Vec<_>>();
    Options::default().restricted_to(&entries(allowed), &entries(blocked)).map(Gate::new)
}

fn said(gate: &Gate, code: &str) -> Decision {
    gate.judge(&Request::shell(code, "/home/dev", "/home/dev/project").within(Filesystem::default())).decision
}

#[test]
fn built_in_lists_of_programs_are_taken_by_name() {
    let default = listed(&["@default"], &["@default"]).unwrap();
    for code in ["git status", "/usr/bin/git status", "[ -f x ]", "echo 'a; b | c'", "find . -name '*.rs'"] {
        assert_eq!(said(&default, code), Decision::Allow, "{code}");
    }
    for code in ["rm x", "foo", "bash -c 'ls'", "find . -exec rm {} +", "env cp a b", ". ./x"] {
        assert_eq!(said(&default, code), Decision::Deny, "{code}");
    }
    let strict = listed(&["@strict", "stat"], &[]).unwrap();
    for (code, want) in [
        ("ls", Decision::Allow),
        ("stat x", Decision::Allow),
        ("git status", Decision::Deny),
        ("sh -c 'cat x'", Decision::Allow),
        ("sh -c 'git status'", Decision::Deny),
    ] {
        assert_eq!(said(&strict, code), want, "{code}");
    }
    let lengths = |allowed: &[&str], blocked: &[&str]| {
        let entries = |texts: &[&str]| texts.iter().map(|text| Entry::by_call(*text)).collect::<Vec<_>>();
        let options = Options::default().restricted_to(&entries(allowed), &entries(blocked)).unwrap();
        (options.only.len(), options.deny.len())
    };
    assert_eq!((lengths(&["@default"], &["@default"]), lengths(&["@strict"], &[])), ((43, 36), (10, 0)));
    for (allowed, blocked) in [(&["@other"][..], &[][..]), (&[], &["@strict"])] {
        let error = listed(allowed, blocked).unwrap_err().to_string();
        assert!(error.contains("no built-in list of that name"), "{error}");
    }
}

#[test]
fn no_list_lets_some_programs_through() {
    let gate = listed(&["sudo", "su", "doas", "dd", "mkfs", "fdisk", "parted", "ls"], &[]).unwrap();
    for code in ["sudo id", "su", "doas ls", "dd if=a of=b", "mkfs x", "mkfs.ext4 x", "fdisk x", "parted x"] {
        assert_eq!(said(&gate, code), Decision::Deny, "{code}");
    }
    assert_eq!(said(&listed(&[], &[]).unwrap(), "dd if=a of=b"), Decision::Allow, "without a list");
}

#[test]
fn lists_of_what_may_run_at_all_are_enforced() {
    let gate = listed(&["git", "ls"], &["git push"]).unwrap();
    for (code, want) in [
        ("git status", Decision::Allow),
        ("ls 'a; b' \"c && d | e\" \"$x\"", Decision::Allow),
        ("git status && ls", Decision::Deny),
        ("git status || ls", Decision::Deny),
        ("git log | ls", Decision::Deny),
        ("ls; ls", Decision::Deny),
        ("ls\nls", Decision::Deny),
        ("ls\r\nls", Decision::Deny),
        ("ls &", Decision::Deny),
        ("ls $(ls)", Decision::Deny),
        ("ls `ls`", Decision::Deny),
        ("ls > a", Decision::Deny),
        ("ls >> a", Decision::Deny),
        ("ls < a", Decision::Deny),
        ("ls <<E\nE", Decision::Deny),
        ("ls; cat x", Decision::Deny),
        ("git -C . push", Decision::Deny),
        ("sh -c 'cat x'", Decision::Deny),
    ] {
        assert_eq!(said(&gate, code), want, "{code}");
    }
}
