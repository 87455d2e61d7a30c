//! `run_code`.

use ringfence::model::{Decision, ErrorKind};
use ringfence::tools::{Language, Languages, OpenTools};
use serde_json::json;

use crate::world::{World, person, yes};

#[test]
fn code_runs_in_the_workspace_and_its_files_are_listed() {
    let Some(world) = World::asking([]) else { return };
    world.write("old.txt", "1");
    let code = "mkdir -p out; echo hi > out/new.txt; echo more >> old.txt; pwd; cat; exit 4";
    let result = world.tools.call("run_code", &json!({ "language": "bash", "code": code }));
    assert_eq!(result.exit_code, Some(4), "{result:?}");
    assert_eq!(result.stdout.trim_end(), world.project.to_str().unwrap());
    assert_eq!(result.data["filesCreated"], json!(["out/new.txt"]));
    assert_eq!(result.data["filesChanged"], json!(["old.txt"]));
    assert_eq!(result.data["language"], "shell");
    assert_eq!(result.data["sandbox"]["active"], true);
    world.bash("cd /usr");
    let elsewhere = world.tools.call("run_code", &json!({ "language": "shell", "code": "pwd" }));
    assert_eq!(elsewhere.stdout.trim_end(), world.project.to_str().unwrap(), "wherever the shell is");
    assert_eq!(world.bash("pwd").stdout, "/usr\n", "and the shell stays there");
}

#[test]
fn languages_that_the_sandbox_has() {
    let mut languages = Languages::default();
    let awk = ["awk", "-f", "{file}"].map(str::to_owned).to_vec();
    languages.add("awk", Language { command: awk, extension: ".awk".to_owned(), container: None }).unwrap();
    let answers = [yes(Decision::AllowOnce)];
    let options = OpenTools { service: Some(person(answers)), languages, ..OpenTools::default() };
    let Some(world) = World::new(options) else { return };
    for (language, program, code) in
        [("python", "python3", "print(6 * 7)"), ("javascript", "node", "console.log(6 * 7)")]
    {
        if !world.bash(&format!("command -v {program} && {program} --version")).ok {
            ringfence_testing::lacks(program, "it cannot be run in the sandbox");
            continue;
        }
        let result = world.tools.call("run_code", &json!({ "language": language, "code": code }));
        assert_eq!(result.stdout, "42\n", "{language}: {result:?}");
    }
    world.take();
    let result = world.tools.call("run_code", &json!({ "language": "awk", "code": "BEGIN { print 6 * 7 }" }));
    assert_eq!(result.stdout, "42\n", "{result:?}");
    assert_eq!(std::fs::read_dir(&world.project).unwrap().count(), 0, "its file is gone");
    let unknown = world.tools.call("run_code", &json!({ "language": "cobol", "code": "x" }));
    assert_eq!(unknown.error_kind, Some(ErrorKind::Validation));
    assert!(unknown.stderr.contains("python"), "{unknown:?}");
}

#[test]
fn time_has_its_bounds_and_its_end() {
    let Some(world) = World::asking([]) else { return };
    for timeout in [0, 301] {
        let arguments = json!({ "language": "shell", "code": "true", "timeout": timeout });
        assert_eq!(world.tools.call("run_code", &arguments).error_kind, Some(ErrorKind::Validation));
    }
    let arguments = json!({ "language": "shell", "code": "echo begun; sleep 300 & sleep 300", "timeout": 1 });
    let result = world.tools.call("run_code", &arguments);
    assert_eq!((result.error_kind, result.exit_code), (Some(ErrorKind::Timeout), None), "{result:?}");
    assert_eq!(result.stdout, "begun\n");
}

#[test]
fn risky_code_is_confirmed_where_that_is_wanted() {
    let options = OpenTools {
        service: Some(person([yes(Decision::Deny), yes(Decision::AllowOnce)])),
        ..OpenTools::default()
    };
    let Some(world) = World::new(options) else { return };
    let code = json!({ "language": "shell", "code": "echo x > b; git push --force || true" });
    let refused = world.tools.call("run_code", &code);
    assert_eq!(refused.error_kind, Some(ErrorKind::ApprovalDenied), "{refused:?}");
    assert!(!world.project.join("b").exists());
    let questions = world.questions();
    assert_eq!((questions[0].timeout_ms, questions[0].id.len()), (60_000, 32));
    let message = questions[0].confirmation();
    assert_eq!(message["type"], "confirmation_required");
    for field in ["request_id", "description", "risk_level", "patterns", "code_preview"] {
        assert!(message["data"].get(field).is_some(), "{field}: {message}");
    }
    assert_eq!(message["data"].as_object().unwrap().len(), 5);
    assert_eq!(message["data"]["code_preview"], "echo x > b; git push --force || true");
    assert!(world.tools.call("run_code", &code).ok);
    assert!(world.project.join("b").exists());
    world.take();
    let long = format!("git push --force || true # {}", "ä".repeat(600));
    let _ = world.tools.call("run_code", &json!({ "language": "shell", "code": long }));
    let message = world.questions()[0].confirmation();
    let preview = message["data"]["code_preview"].as_str().unwrap();
    assert_eq!(preview, long.chars().take(500).collect::<String>());
}
