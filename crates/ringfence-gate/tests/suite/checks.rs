//! The checks one by one: what they say, where, and what a refusal is recorded as.

use ringfence_gate::{Decision, Finding, Gate, Options, Request, Verdict};
use ringfence_model::{Filesystem, Severity, ViolationKind};

fn judge(code: &str) -> Verdict {
    judge_at(code, "/home/dev/project")
}

/// In a fence whose rules say nothing.
fn judge_at(code: &str, project: &str) -> Verdict {
    let request = Request::shell(code, "/home/dev", project).within(Filesystem::default());
    Gate::new(Options::default()).judge(&request)
}

fn found(code: &str, check: &str) -> Vec<Finding> {
    judge(code).findings.into_iter().filter(|finding| finding.check == check).collect()
}

fn decision(code: &str, check: &str) -> Option<Decision> {
    found(code, check).into_iter().map(|finding| finding.decision).max()
}

#[test]
fn heredoc_delimiters_that_expand_are_refused() {
    for code in
        ["cat <<$X\na\n$X\n", "cat <<'$X'\na\n$X\n", "cat <<\"$(x)\"\na\n$(x)\n", "cat <<'`x`'\na\n`x`\n"]
    {
        assert_eq!(decision(code, "heredoc_injection"), Some(Decision::Deny), "{code}");
        assert_eq!(judge(code).violation(), Some(ViolationKind::HeredocInjection), "{code}");
    }
}

#[test]
fn an_unquoted_heredoc_that_expands_is_mentioned_with_a_suggestion() {
    for code in ["cat <<E\n$x\nE\n", "cat <<-E\n\t$x\n\tE\n", "cat <<'A' <<B\na\nA\n$x\nB\n"] {
        let findings = found(code, "heredoc_injection");
        assert_eq!(findings.len(), 1, "{code}");
        assert_eq!(findings[0].decision, Decision::Allow);
        assert!(findings[0].suggestion.contains("<<'EOF'"));
    }
    for code in ["cat <<< $x", "echo $((1 << 2))", "cat <<'E'\n$x\nE\n", "cat <<E\nplain\nE\n"] {
        assert_eq!(found(code, "heredoc_injection"), [], "{code}");
    }
}

#[test]
fn variables_in_destructive_places() {
    for (code, want) in [
        ("echo x > $F", Some(Decision::Ask)),
        ("echo x >> \"$F\"", Some(Decision::Ask)),
        ("cmd 2> ${F}", Some(Decision::Ask)),
        ("echo x > ${F}.txt", Some(Decision::Ask)),
        ("rm $F", Some(Decision::Ask)),
        ("rm \"$D\"/x", Some(Decision::Ask)),
        ("chmod 600 $F", Some(Decision::Allow)),
        ("chown me \"$F\"", Some(Decision::Allow)),
        ("F=out.txt; echo x > $F", None),
        ("F=a; rm $F", None),
        ("echo $F", None),
        ("echo x > out-$N.txt", None),
    ] {
        assert_eq!(decision(code, "dangerous_variable"), want, "{code}");
    }
    assert_eq!(found("rm $F", "dangerous_variable")[0].kind, ViolationKind::VariableInjection);
}

#[test]
fn patterns_only_in_command_position() {
    for (code, want) in [
        ("eval \"$x\"", Some(Decision::Ask)),
        ("eval \"echo $(date)\"", Some(Decision::Ask)),
        ("eval 'echo hi'", Some(Decision::Allow)),
        ("echo `date`", Some(Decision::Allow)),
        ("echo '`date`'", None),
        ("curl x", Some(Decision::Allow)),
        ("kill 1234", Some(Decision::Allow)),
        ("bash -c 'ls'", Some(Decision::Allow)),
        ("base64 -d f", Some(Decision::Allow)),
        ("base64 --decode f", Some(Decision::Allow)),
        ("grep su file", None),
        ("echo eval x", None),
        ("ls curl", None),
    ] {
        assert_eq!(decision(code, "dangerous_pattern"), want, "{code}");
    }
    for (code, severity) in [("base64 -d f", Severity::Critical), ("echo `date`", Severity::Medium)] {
        assert_eq!(found(code, "dangerous_pattern")[0].severity, severity, "{code}");
    }
    for code in ["sudo x", "su", "doas x", "pkexec x"] {
        assert_eq!(decision(code, "privilege"), Some(Decision::Deny), "{code}");
    }
    for code in ["mkfs x", "mkfs.ext4 x", "wipefs x"] {
        assert_eq!(decision(code, "disk"), Some(Decision::Deny), "{code}");
    }
    assert_eq!(judge("shred x").decision, Decision::Ask);
}

#[test]
fn critical_paths_must_stay() {
    let paths = [
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
        "~",
        "$HOME",
        "${HOME}",
    ];
    for path in paths {
        for code in [
            format!("rm -rf {path}"),
            format!("rm {path}/"),
            format!("rm -r \"{}\"", path.replace('~', "$HOME")),
            format!("rm --recursive --force -- {path}"),
        ] {
            let verdict = judge(&code);
            assert_eq!(verdict.decision, Decision::Deny, "{code}");
            assert_eq!(verdict.violation(), Some(ViolationKind::CriticalPathRemoval), "{code}");
        }
    }
}

#[test]
fn removal_by_place() {
    use Decision::*;
    for (target, want) in [
        ("/etc/a/b", Deny),
        ("/usr/local/x", Deny),
        ("/bin/x", Deny),
        ("/boot/x", Deny),
        ("/lib/x", Deny),
        ("/lib64/x", Deny),
        ("/sbin/x", Deny),
        ("/dev/x", Deny),
        ("/proc/x", Deny),
        ("/sys/x", Deny),
        ("/tmp/mydir/subdir", Allow),
        ("/var/tmp/x", Allow),
        ("/opt/x", Allow),
        ("/srv/x", Allow),
        ("/home/dev/other", Ask),
        ("/home/else/x", Ask),
        ("/var/lib/x", Ask),
        ("/mnt/x", Ask),
        ("build", Allow),
        ("/home/dev/project/build", Allow),
        (".", Ask),
        ("..", Deny),
        (".git", Ask),
        ("build/../..", Deny),
        ("/*", Deny),
        ("/etc/*", Deny),
        ("build/*", Allow),
        ("*", Ask),
        ("a b /etc", Deny),
        ("'a' \"/usr\"", Deny),
        ("-- -x /etc", Deny),
    ] {
        assert_eq!(judge(&format!("rm -rf {target}")).decision, want, "{target}");
    }
    assert_eq!(found("rm -rf /tmp/x", "dangerous_removal")[0].decision, Allow, "a note");
    assert_eq!(found("rm x", "dangerous_removal"), []);
}

#[test]
fn a_project_in_a_scratch_directory_is_a_project() {
    let there = |code: &str| judge_at(code, "/tmp/work/app").decision;
    for whole in [
        "rm -rf .",
        "rm -rf *",
        "rm -rf \"$PWD\"",
        "rm -rf ..",
        "rm -rf /tmp/work",
        "rm -rf /tmp/*",
        "find . -delete",
        "mv /tmp/work/app /tmp/gone",
        "rm -rf .git",
    ] {
        assert_eq!(there(whole), Decision::Ask, "{whole}");
    }
    for part in ["rm -rf build", "rm -rf ./target/*", "rm -rf /tmp/other", "find . -name '*.o' -delete"] {
        assert_eq!(there(part), Decision::Allow, "{part}");
    }
    assert_eq!(there("rm -rf /tmp"), Decision::Deny);
}

#[test]
fn more_directories_are_worked_in_like_the_project() {
    let judge = |code: &str, also: &[&str]| {
        let also = also.iter().map(|dir| (*dir).to_owned()).collect();
        let request = Request {
            also,
            ..Request::shell(code, "/home/dev", "/home/dev/project").within(Filesystem::default())
        };
        Gate::new(Options::default()).judge(&request).decision
    };
    let also = ["/home/dev/library"];
    for (code, with, without) in [
        ("rm -rf /home/dev/library/build", Decision::Allow, Decision::Ask),
        ("rm -rf ../library/build", Decision::Allow, Decision::Ask),
        ("echo x > \"../library/out/$NAME\"", Decision::Allow, Decision::Ask),
        ("rm -rf /home/dev/library", Decision::Ask, Decision::Ask),
        ("rm -rf /home/dev/library/.git", Decision::Ask, Decision::Ask),
        ("rm -rf /home/dev/lib", Decision::Ask, Decision::Ask),
        ("rm -rf /home/dev", Decision::Deny, Decision::Deny),
        ("echo x > ../library/.git/hooks/pre-commit", Decision::Ask, Decision::Ask),
    ] {
        assert_eq!((judge(code, &also), judge(code, &[])), (with, without), "{code}");
    }
    // A home directory is no project, whoever says so.
    assert_eq!(judge("rm -rf ~/notes", &["/home/dev"]), Decision::Ask);
}

#[test]
fn power_disk_and_fork_bombs() {
    for code in [
        ":(){ :|:& };:",
        "dd if=/dev/zero of=/dev/sda",
        "echo x > /dev/sda",
        "mv /* /dev/null",
        "shutdown",
        "reboot",
        "halt",
        "poweroff",
        "init 0",
        "init 6",
        "telinit 0",
    ] {
        assert_eq!(judge(code).decision, Decision::Deny, "{code}");
    }
    for code in
        ["echo x > /dev/null", "echo x > /dev/stderr", "cat /dev/zero | head -c1", "dd if=/dev/zero of=x.img"]
    {
        assert_eq!(judge(code).decision, Decision::Allow, "{code}");
    }
}

#[test]
fn findings_point_at_the_text() {
    let code = "ls && rm -rf build /etc";
    let verdict = judge(code);
    let finding = &verdict.findings[0];
    assert_eq!(&code[finding.span.start as usize..finding.span.end as usize], "/etc");
    assert!(!finding.message.is_empty() && !finding.suggestion.is_empty() && !finding.rule.is_empty());
    let code = "bash -c 'ls; sudo id'";
    let finding = &judge(code).findings[0];
    assert_eq!(&code[finding.span.start as usize..finding.span.end as usize], "'ls; sudo id'");
}

#[test]
fn the_strictest_finding_wins_and_warnings_stay() {
    let verdict = judge("curl x; cat .env; rm -rf /etc");
    assert_eq!(verdict.decision, Decision::Deny);
    assert_eq!(verdict.violation(), Some(ViolationKind::CriticalPathRemoval));
    let decisions: Vec<_> = verdict.findings.iter().map(|finding| finding.decision).collect();
    assert_eq!(decisions, [Decision::Deny, Decision::Ask, Decision::Allow, Decision::Allow]);
    assert_eq!(judge("cat .env").violation(), None);
}

#[test]
fn the_intent_names_the_programs() {
    assert_eq!(judge("cd x && env A=1 make | tee log; make").intent, "runs cd, env, make, tee");
    assert_eq!(judge("git push --force").proposal.as_deref(), Some("git push"));
}

#[test]
fn the_code_of_a_shell_is_no_file_and_its_files_are_seen() {
    let about = |code: &str| -> Vec<_> {
        found(code, "secrets").into_iter().filter_map(|finding| finding.path).collect()
    };
    let inner = about("bash -c 'cat ~/.ssh/id_rsa; true'");
    assert!(!inner.is_empty() && inner.iter().all(|path| path.ends_with("/.ssh/id_rsa")), "{inner:?}");
    assert!(!about("bash -x ~/.ssh/id_rsa").is_empty(), "a script is a file");
    assert!(!about("bash script.sh -c ~/.ssh/id_rsa").is_empty(), "so is what a script is given");
}
