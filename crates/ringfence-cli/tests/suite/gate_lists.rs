//! Lists of programs and how strict the checks are, from the configuration to the verdict.

use serde_json::Value;

use super::support::Room;

fn notes(room: &Room, command: &str) -> Vec<(String, String)> {
    let verdict = room.run(&["check", "--json", command]).expect(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = verdict["findings"].as_array().unwrap();
    findings.iter().map(|finding| (text(&finding["rule"]), text(&finding["severity"]))).collect()
}

#[test]
fn with_a_list_of_programs_one_of_them_runs_at_a_time() {
    let room = Room::new();
    room.configure(r#"{ "allowedCommands": ["@strict"], "blockedCommands": ["@default"] }"#);
    room.run(&["check", "ls -l"]).expect(0);
    room.run(&["check", "echo 'a; b | c > d'"]).expect(0);
    for command in
        ["git status", "ls; ls", "ls\nls", "ls | wc", "ls && ls", "ls > f", "echo $(ls)", "echo `ls`"]
    {
        room.run(&["check", command]).expect(11);
        room.run(&["run", "-c", command]).expect(126);
    }
    // What is blocked is blocked inside of a shell's text too, and before the list of allowed programs counts.
    room.configure(r#"{ "blockedCommands": ["@default"] }"#);
    let ran = room.run(&["check", "env sh -c 'mv a b'"]).expect(11);
    assert!(ran.stdout.contains("`mv` is on the deny list"), "{}", ran.stdout);
    room.run(&["check", "cargo build | tee log && ls"]).expect(0);
    room.configure(r#"{ "allowedCommands": ["@other"] }"#);
    let ran = room.run(&["check", "ls"]).expect(2);
    assert!(
        ran.stderr.contains("no built-in list of that name; there is `@default` and `@strict`"),
        "{ran:?}"
    );
}

#[test]
fn operators_pass_are_mentioned_or_refused_by_strictness() {
    let room = Room::new();
    let operators = |list: Vec<(String, String)>| list.iter().any(|(rule, _)| rule == "operators");
    assert!(operators(notes(&room, "cargo build && ls | wc")), "the usual checks mention them");
    room.configure(r#"{ "validationStrictness": "minimal" }"#);
    assert!(!operators(notes(&room, "cargo build && ls | wc")));
    room.configure(r#"{ "validationStrictness": "strict" }"#);
    room.run(&["check", "cargo build && ls"]).expect(11);
}

#[test]
fn backquotes_and_decoding_are_warned_about() {
    let room = Room::new();
    let has = |command: &str, rule: &str, severity: &str| {
        let found = notes(&room, command);
        assert!(found.contains(&(rule.to_owned(), severity.to_owned())), "{command}: {found:?}");
    };
    has("echo `date`", "backquote", "medium");
    has("base64 -d notes.b64", "base64-decode", "critical");
    has("kill 1234", "process-tool", "low");
    has("curl example.com", "network-tool", "low");
    has("sh -c ls", "shell-command", "low");
    // A text that is known is judged, and needs no question of its own.
    has("eval \"echo hi\"", "eval-known", "low");
    room.run(&["check", "eval \"$(cat script)\""]).expect(10);
    room.run(&["check", "eval 'rm -rf /usr'"]).expect(11);
}
