//! Kits: whole agents inside the fence.
//!
//! The agents are real ones from the registry that npm is configured for here, each in a version that is known, kept with
//! what else was built. They talk to a model of the test's own (`data/model.py`) that asks for a harmless command, for a
//! private key, and for a host that is not allowed. aider and goose are not among them: aider's dependencies are several
//! hundred megabytes, and goose is in no registry; their kits are checked as data like all others.

use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::suite::fence_inspected::certify;
use crate::suite::fence_network_support;
use crate::suite::fence_support::{Launcher, has, names};
use crate::suite::support::Room;

const MODEL: &str = include_str!("../data/model.py");

const SECRET: &str = "BEGIN PRIVATE KEY of the person";
/// Of the model; only the model may hear of it.
const KEY: &str = "sk-Q2mN5xR7tY1wE4uI9oP3aS6dF0gH2jK4";

/// An agent, and how it is told to do without a person.
struct Agent {
    kit: &'static str,
    package: &'static str,
    /// The program, in the directory that it is installed to.
    program: String,
    /// The variable with the key of the model, and the header that brings it there.
    key: &'static str,
    header: (&'static str, &'static str),
    /// With `PORT` for the model's.
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// A file in its state that a person would have, and what is in it.
    settings: Option<(&'static str, &'static str)>,
    /// A file that it keeps in its state.
    keeps: &'static str,
}

/// The model, on loopback, with a certificate of an authority that only this person trusts.
struct Model {
    directory: tempfile::TempDir,
    server: Child,
    port: u16,
}

impl Model {
    fn new(commands: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        certify(directory.path(), &["model.test"]);
        std::fs::write(directory.path().join("model.py"), MODEL).unwrap();
        let mut server = Command::new("python3")
            .arg("model.py")
            .args(commands)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { directory, server, port: port.trim().parse().unwrap() }
    }

    /// What the agent answered to each command, and the keys that came with it.
    fn heard(&self) -> (Vec<String>, Vec<String>) {
        let text = std::fs::read_to_string(self.directory.path().join("heard")).unwrap_or_default();
        let heard: Value = serde_json::from_str(&text).unwrap_or_default();
        let texts = |key: &str| serde_json::from_value(heard[key].clone()).unwrap_or_default();
        (texts("answers"), texts("keys"))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Installs the agent once, beside what cargo has built; where that is somebody else's, for this run. Nothing of a package
/// runs outside of the fence: its scripts do not.
fn installed(agent: &Agent) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = agent.package.replace('/', "+");
    let kept = own.with_file_name("agents").join(&name);
    if kept.exists() {
        return Some(kept);
    }
    if !has("npm", &["--version"]) || !has("node", &["--version"]) {
        return None;
    }
    let shared = own.with_file_name("agents");
    let _ = std::fs::create_dir(&shared);
    let scratch = tempfile::tempdir_in(&shared).or_else(|_| tempfile::tempdir_in(own)).unwrap();
    let directory = scratch.path().join("agent");
    std::fs::create_dir(&directory).unwrap();
    let ran = Command::new("npm")
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(&directory)
        .arg("--cache")
        .arg(scratch.path().join("cache"))
        .arg(agent.package)
        .current_dir(&directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !ran.status.success() {
        ringfence_testing::lacks("npm registry", &String::from_utf8_lossy(&ran.stderr));
        return None;
    }
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let kept = scratch.path().parent().unwrap().join(&name);
    // Another run may have been faster.
    if std::fs::rename(&directory, &kept).is_err() {
        assert!(kept.exists());
    }
    Some(kept)
}

/// The packages of programs for this machine end in it.
fn machine() -> &'static str {
    if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-x64" }
}

/// A room for which `*.test` is this machine, and no other name is anything.
fn room() -> Room {
    let room = fence_network_support::room(Launcher::Native, "127.0.0.1", &[]);
    room.write(room.home.join(".ssh/id_rsa"), SECRET);
    room
}

fn state(room: &Room, kit: &str) -> PathBuf {
    room.home.join(".local/share/ringfence-kits").join(kit)
}

/// Lets the agent do what the model asks for, and sees what came of it.
fn lives_inside(agent: &Agent) {
    let mut room = room();
    if !room.has_fence() || !has("python3", &["--version"]) || !has("curl", &["--version"]) {
        return;
    }
    let Some(place) = installed(agent) else { return };
    let model = Model::new(&[
        "echo harmless > made.txt; cat made.txt; env",
        "cat ~/.ssh/id_rsa",
        "curl -sS -m 60 http://elsewhere.test/",
    ]);
    let with_port = |text: &str| text.replace("PORT", &model.port.to_string());
    let (header, value) = agent.header;
    let credential = json!({ "header": header, "value": value, "variable": agent.key });
    let rule = json!({ "host": "model.test", "port": model.port, "credential": credential });
    // What the name leads to has to be named.
    room.configure(&json!({ "allowedHosts": [rule, "127.0.0.1:1"] }).to_string());
    room.env.push((agent.key.to_owned(), KEY.to_owned()));
    let authority = model.directory.path().join("ca.pem").display().to_string();
    room.env.push(("SSL_CERT_FILE".to_owned(), authority));
    let variables = agent.variables.iter().map(|(name, value)| ((*name).to_owned(), with_port(value)));
    room.env.extend(variables);
    if let Some((name, text)) = agent.settings {
        room.write(state(&room, agent.kit).join(name), text);
    }
    let program = place.join(&agent.program).display().to_string();
    let arguments: Vec<String> = agent.arguments.iter().map(|argument| with_port(argument)).collect();
    let shown = place.display().to_string();
    let mut line = vec!["run", "--json", "--kit", agent.kit, "--allow-read", &shown, "--", &program];
    line.extend(arguments.iter().map(String::as_str));
    let ran = room.run(&line);
    let result = ran.json();

    assert_eq!((result["exitCode"].as_i64(), result["blocked"].as_bool()), (Some(0), Some(true)), "{ran:?}");
    assert!(result["stdout"].as_str().unwrap().contains("all done"), "{ran:?}");
    let (heard, keys) = model.heard();
    assert_eq!(heard.len(), 3, "{heard:?}\n{ran:?}");
    assert_eq!(keys, [value.replace(&format!("${}", agent.key), KEY)], "{heard:?}");
    let is_told = heard.iter().chain([&ran.stdout]).any(|text| text.contains(KEY));
    assert!(!is_told, "{heard:?}\n{ran:?}");
    assert!(heard[0].contains("harmless"), "{heard:?}");
    assert!(heard[1].contains("Permission denied") && !heard[1].contains(SECRET), "{heard:?}");
    assert!(heard[2].contains("Failed to connect to elsewhere.test"), "{heard:?}");
    assert_eq!(std::fs::read_to_string(room.project.join("made.txt")).unwrap(), "harmless\n");
    assert!(!ran.stdout.contains(SECRET), "{ran:?}");

    let key = room.home.join(".ssh/id_rsa").display().to_string();
    let denied = of_program(&result, "/cat");
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(
        (&denied[0]["resource"], &denied[0]["operation"]),
        (&json!(key), &json!("open")),
        "{denied:?}"
    );
    assert_eq!(denied[0]["rule"], json!(room.home.join(".ssh").display().to_string()), "{denied:?}");
    let refused = of_program(&result, "/curl");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["resource"], "elsewhere.test:80", "{refused:?}");
    assert_eq!(refused[0]["operation"], "connect", "{refused:?}");
    // The agent's own state stays, and it has none elsewhere.
    let state = state(&room, agent.kit);
    assert!(state.join(agent.keeps).exists(), "{:?}", names(&state));
    let mut others: Vec<PathBuf> =
        std::fs::read_dir(&room.home).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    others.sort();
    let ours = ["asked", "bin", "project", ".local", ".ringfence", ".ssh"];
    assert!(others.iter().all(|name| ours.iter().any(|known| name == Path::new(known))), "{others:?}");
}

fn of_program<'a>(result: &'a Value, program: &str) -> Vec<&'a Value> {
    let violations = result["violations"].as_array().unwrap();
    let by = |violation: &&Value| violation["program"].as_str().is_some_and(|path| path.ends_with(program));
    violations.iter().filter(by).collect()
}

#[test]
fn claude_code_lives_inside() {
    lives_inside(&Agent {
        kit: "claude-code",
        package: "@anthropic-ai/claude-code@2.1.197",
        program: format!("node_modules/@anthropic-ai/claude-code-{}/claude", machine()),
        key: "ANTHROPIC_API_KEY",
        header: ("x-api-key", "$ANTHROPIC_API_KEY"),
        arguments: &["-p", "do it", "--dangerously-skip-permissions"],
        variables: &[("ANTHROPIC_BASE_URL", "https://model.test:PORT")],
        settings: None,
        keeps: ".claude.json",
    });
}

/// It is not told to do without its own sandbox: the kit does that.
#[test]
fn codex_lives_inside() {
    lives_inside(&Agent {
        kit: "codex",
        package: "@openai/codex@0.169.0",
        program: "node_modules/.bin/codex".to_owned(),
        key: "OPENAI_API_KEY",
        header: ("Authorization", "Bearer $OPENAI_API_KEY"),
        arguments: &[
            "exec",
            "--skip-git-repo-check",
            "-m",
            "gpt-5",
            "-c",
            "model_provider=\"test\"",
            "-c",
            "model_providers.test={name=\"test\",base_url=\"https://model.test:PORT/v1\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}",
            "do it",
        ],
        variables: &[],
        settings: None,
        keeps: "config.toml",
    });
}

#[test]
fn gemini_lives_inside() {
    lives_inside(&Agent {
        kit: "gemini",
        package: "@google/gemini-cli@0.61.0",
        program: "node_modules/.bin/gemini".to_owned(),
        key: "GEMINI_API_KEY",
        header: ("x-goog-api-key", "$GEMINI_API_KEY"),
        arguments: &["-m", "gemini-2.5-flash", "-p", "do it", "--yolo"],
        variables: &[
            ("GOOGLE_GEMINI_BASE_URL", "https://model.test:PORT"),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
        ],
        // With another server it would not take the key unless it is told to.
        settings: Some((
            ".gemini/settings.json",
            r#"{ "security": { "auth": { "selectedType": "gemini-api-key" } } }"#,
        )),
        keeps: ".gemini/projects.json",
    });
}

#[test]
fn opencode_lives_inside() {
    lives_inside(&Agent {
        kit: "opencode",
        package: "opencode-ai@1.18.33",
        program: format!("node_modules/opencode-{}/bin/opencode", machine()),
        key: "ANTHROPIC_API_KEY",
        header: ("x-api-key", "$ANTHROPIC_API_KEY"),
        arguments: &["run", "do it"],
        variables: &[(
            "OPENCODE_CONFIG_CONTENT",
            r#"{ "provider": { "anthropic": { "options": { "baseURL": "https://model.test:PORT/v1" } } }, "model": "anthropic/claude-sonnet-4-5", "permission": "allow" }"#,
        )],
        settings: None,
        keeps: "data/opencode",
    });
}

/// What an agent inside writes for its next start acts inside only.
#[test]
fn the_state_of_an_agent_inside_is_its_own() {
    let room = room();
    if !room.has_fence() {
        return;
    }
    let own = room.write(room.home.join(".claude/settings.json"), "{}");
    room.write(room.home.join(".claude.json"), "{}");
    let evil = r#"{ "hooks": { "SessionStart": "evil" } }"#;
    let text = format!(
        "cat ~/.claude/settings.json ~/.claude.json; mkdir -p ~/.claude; echo '{evil}' | tee ~/.claude/settings.json ~/.claude.json > $CLAUDE_CONFIG_DIR/settings.json"
    );
    let ran = room.run(&["run", "--no-gate", "--kit", "claude-code", "-c", &text]);
    assert_eq!(ran.stdout, "", "{ran:?}");
    for file in [own, room.home.join(".claude.json")] {
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}", "{}", file.display());
    }
    let kept = std::fs::read_to_string(state(&room, "claude-code").join("settings.json")).unwrap();
    assert_eq!(kept.trim(), evil);
    let again =
        room.run(&["run", "--kit", "claude-code", "-c", "cat $CLAUDE_CONFIG_DIR/settings.json"]).expect(0);
    assert_eq!(again.stdout.trim(), evil);
    // Without the kit there is nothing of it.
    let without = room.run(&["run", "-c", "ls ~/.local/share/ringfence-kits; echo \"$CLAUDE_CONFIG_DIR\""]);
    assert_eq!(without.stdout, "\n", "{without:?}");
}

/// What a state begins with is written by us, outside, where the agent may have put something else meanwhile.
#[test]
fn a_file_that_a_state_begins_with_is_never_written_through_a_link() {
    let room = room();
    if !room.has_fence() {
        return;
    }
    let kept = room.write(room.home.join("kept"), "as it was");
    let new = room.home.join("new");
    for target in [&kept, &new] {
        let text = format!("cd $CODEX_HOME; rm -f config.toml; ln -s {} config.toml; ls", target.display());
        let ran = room.run(&["run", "--no-gate", "--kit", "codex", "-c", &text]).expect(0);
        assert_eq!(ran.stdout, "config.toml\n", "{ran:?}");
        room.run(&["run", "--kit", "codex", "--", "true"]).expect(0);
        assert!(state(&room, "codex").join("config.toml").is_symlink());
    }
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "as it was");
    assert!(!new.exists());
    // One that a person has changed stays as it is.
    let file = state(&room, "codex").join("config.toml");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "mine").unwrap();
    room.run(&["run", "--kit", "codex", "--", "true"]).expect(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn kits_are_listed_and_shown_with_their_reasons() {
    let room = Room::new();
    let file = room.configure(
        r#"{ "kits": { "mine": { "about": "an agent of my own", "hosts": [{ "rule": "a.example", "reason": "the model" }] } } }"#,
    );
    let table = room.run(&["kits"]).expect(0).stdout;
    for name in ["aider", "claude-code", "codex", "gemini", "goose", "mine", "opencode"] {
        assert!(table.lines().any(|line| line.starts_with(name)), "{name}: {table}");
    }
    let all = room.run(&["kits", "--json"]).expect(0).json();
    assert_eq!(all.as_array().unwrap().len(), 7);
    for listed in all.as_array().unwrap() {
        let name = listed["name"].as_str().unwrap();
        let text = room.run(&["kits", name]).expect(0).stdout;
        let one = room.run(&["kits", name, "--json"]).expect(0).json();
        assert_eq!(&one, listed);
        for (key, rows) in listed["kit"].as_object().unwrap() {
            for row in rows.as_array().into_iter().flatten() {
                assert!(text.contains(row["reason"].as_str().unwrap()), "{name} {key} {row}: {text}");
            }
        }
        let sandbox = listed["kit"]["sandbox"].as_str();
        assert!(sandbox.is_none_or(|sandbox| text.contains(sandbox)), "{text}");
        assert_eq!(listed["file"].as_str(), (name == "mine").then(|| file.to_str().unwrap()));
    }
    let ran = room.run(&["kits", "claude"]).expect(2);
    assert!(ran.stderr.contains("no kit `claude`"), "{ran:?}");
    let ran = room.run(&["kits", "claude-cod"]).expect(2);
    assert!(ran.stderr.contains("did you mean `claude-code`?"), "{ran:?}");
}

#[test]
fn a_kit_adds_to_what_the_person_says_and_a_project_takes_away() {
    let room = Room::new();
    room.configure(
        r#"{
          "envOverride": { "IS_SANDBOX": "mine" },
          "kits": { "mine": { "about": "mine", "hosts": [{ "rule": "a.example", "reason": "the model" }] } },
          "agents": { "me": { "useKits": ["mine"] } }
        }"#,
    );
    let explain =
        |arguments: &[&str], code: i32| room.run(&[&["explain"], arguments].concat()).expect(code).stdout;
    explain(&["api.anthropic.com"], 1);
    let text = explain(&["api.anthropic.com", "--kit", "claude-code"], 0);
    assert!(text.contains("(kit: claude-code, allowedHosts)"), "{text}");
    explain(&["a.example", "--kit", "claude-code"], 1);
    explain(&["a.example", "--kit", "claude-code", "--kit", "mine"], 0);
    explain(&["a.example", "--agent", "me"], 0);
    let shown = room.run(&["config", "show", "--kit", "claude-code"]).expect(0).json();
    assert_eq!(shown["envOverride"]["IS_SANDBOX"], "mine");
    assert_eq!(
        shown["envOverride"]["CLAUDE_CONFIG_DIR"],
        json!(state(&room, "claude-code").to_str().unwrap())
    );
    assert!(!state(&room, "claude-code").exists(), "a question makes nothing");

    room.write(
        ".ringfence/sandbox.json",
        r#"{ "blockedHosts": ["claude.ai"], "useKits": ["codex"], "kits": { "mine": { "about": "evil", "hosts": [{ "rule": "evil.example", "reason": "x" }] } } }"#,
    );
    explain(&["claude.ai", "--kit", "claude-code"], 1);
    explain(&["api.openai.com"], 1);
    explain(&["evil.example", "--kit", "mine"], 1);
    explain(&["a.example", "--kit", "mine"], 0);
    let warned = room.run(&["config", "show"]).expect(0).stderr;
    assert!(warned.contains("useKits: ignored") && warned.contains("kits: ignored"), "{warned}");
}

#[test]
fn a_kit_that_is_none_stops_everything() {
    let room = Room::new();
    for command in [&["run", "--kit", "codx", "--", "true"][..], &["shell", "--kit", "codx"]] {
        let ran = room.run(command).expect(125);
        assert!(ran.stderr.contains("there is no kit `codx`; did you mean `codex`?"), "{ran:?}");
        assert!(ran.stderr.contains("ringfence kits"), "{ran:?}");
    }
    for (text, why) in [
        (r#"{ "kits": { "x": { "about": "x", "hosts": [{ "rule": "*", "reason": "x" }] } } }"#, "every host"),
        (r#"{ "kits": { "x": { "about": "x", "hosts": [{ "rule": "a.example" }] } } }"#, "reason"),
        (r#"{ "kits": { "x": { "about": "x", "pats": [] } } }"#, "pats"),
        (r#"{ "agents": { "a": { "kits": {} } } }"#, "the top of the file"),
    ] {
        room.configure(text);
        let ran = room.run(&["run", "--", "true"]).expect(125);
        assert!(ran.stderr.contains(why), "{text}: {ran:?}");
        room.run(&["config", "check"]).expect(2);
    }
    for (entry, why) in [
        (r#""state": [{ "path": "~/x*", "reason": "x" }]"#, "is no plain path"),
        (
            r#""state": [{ "path": "~/x", "reason": "x" }], "files": [{ "path": "~/x/y/z", "text": "x", "reason": "x" }]"#,
            "is not directly in a directory of `state`",
        ),
    ] {
        room.configure(&format!(r#"{{ "kits": {{ "x": {{ "about": "x", {entry} }} }} }}"#));
        let ran = room.run(&["run", "--kit", "x", "--", "true"]).expect(125);
        assert!(ran.stderr.contains(why), "{ran:?}");
    }
}
