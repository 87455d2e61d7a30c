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

#[test]
fn what_is_risky_is_confirmed_where_nothing_holds_it_or_the_configuration_says_so() {
    let room = Room::new();
    let risky = ["check", "--language", "python", "import os\nos.system('ls')"];
    let within = ["check", "python3 -c 'import os; os.system(\"ls\")'"];
    for (settings, in_code, ordinary) in [
        ("{}", 0, 0),
        (r#"{ "safety": { "confirmFrom": "critical" } }"#, 10, 0),
        (r#"{ "safety": { "confirmFrom": "high" } }"#, 10, 10),
        (r#"{ "defaultPolicy": "none" }"#, 10, 0),
        (r#"{ "defaultPolicy": "none", "safety": { "confirmFrom": "never" } }"#, 0, 0),
    ] {
        room.configure(settings);
        for arguments in [&risky[..], &within[..]] {
            let ran = room.run(arguments).expect(in_code);
            let asks = ran.stdout.contains("the risk is critical: os.system");
            assert_eq!(asks, in_code == 10, "{settings}: {}", ran.stdout);
        }
        room.run(&["check", "mv a b"]).expect(ordinary);
        room.run(&["check", "cargo test"]).expect(0);
    }
    // A project may ask for more, and never for less.
    let project = |word: &str| {
        room.write(".ringfence/sandbox.json", &format!(r#"{{ "safety": {{ "confirmFrom": "{word}" }} }}"#));
    };
    room.configure(r#"{ "safety": { "confirmFrom": "critical" } }"#);
    project("high");
    room.run(&["check", "mv a b"]).expect(10);
    project("never");
    room.run(&risky).expect(10);
    let ran = room.run(&["run", "--", "python3", "-c", "import os; os.system('echo ran')"]).expect(126);
    assert!(ran.stderr.contains("[risk/needs-confirmation]"), "{}", ran.stderr);
}

#[cfg(feature = "mcp")]
#[tokio::test]
async fn the_tools_have_risky_code_confirmed_too() {
    use super::mcp::{Agent, call};
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let code = serde_json::json!({ "language": "python", "code": "import os\nos.system('echo ran > made')" });
    room.configure(r#"{ "safety": { "confirmFrom": "critical", "approvalTimeoutMs": 200 } }"#);
    let client = Agent::default().connect(&room).await;
    let result = call(&client, "run_code", code.clone()).await;
    assert_eq!((&result["ok"], room.project.join("made").exists()), (&Value::Bool(false), false), "{result}");
    client.cancel().await.unwrap();

    room.configure("{}");
    let client = Agent::default().connect(&room).await;
    let result = call(&client, "run_code", code).await;
    assert_eq!((&result["ok"], room.project.join("made").exists()), (&Value::Bool(true), true), "{result}");
    client.cancel().await.unwrap();
}

#[test]
fn a_shell_command_has_a_category() {
    let room = Room::new();
    let of =
        |arguments: &[&str]| room.run(&[&["check", "--json"], arguments].concat()).json()["category"].clone();
    for (command, want) in [
        ("ls -l | head", "shell_safe"),
        ("cargo build", "shell_write"),
        ("mv a b", "shell_write"),
        ("echo x > f", "shell_write"),
        ("cat .env", "shell_dangerous"),
        ("rm -rf /usr", "shell_dangerous"),
        ("python3 -c 'import os; os.system(\"ls\")'", "shell_dangerous"),
    ] {
        assert_eq!(of(&[command]), want, "{command}");
    }
    assert_eq!(of(&["--language", "python", "print(1)"]), Value::Null);
}
