//! The gate before a run: what passes, what is asked, what is refused, and what remains of it.

use serde_json::Value;

use super::approval::Person;
use super::support::Room;

fn events(room: &Room) -> Vec<Value> {
    room.run(&["log", "--json"]).expect(0).json().as_array().unwrap().clone()
}

#[test]
fn what_is_refused_does_not_run_and_says_why() {
    let room = Room::new();
    let ran = room.run(&["run", "-c", "touch ran; rm -rf /usr"]).expect(126);
    assert!(
        ran.stderr.contains("`/usr` must not be removed [dangerous_removal/critical-path]"),
        "{}",
        ran.stderr
    );
    assert!(!room.project.join("ran").exists(), "no part of it ran");
    let log = events(&room);
    assert_eq!((log[0]["status"].as_str(), log[0]["blocked"].as_bool()), (Some("failed"), Some(true)));
    assert_eq!(log[0]["gate"]["outcome"], "denied");
    assert_eq!(log[0]["gate"]["findings"][0]["rule"], "critical-path");
    let table = room.run(&["log"]).expect(0).stdout;
    assert!(table.contains("refused"), "{table}");
    let violations = room.run(&["violations", "--json"]).expect(0).json();
    assert_eq!(violations[0]["violation"]["kind"], "critical_path_removal");
}

#[test]
fn a_refusal_is_one_json_result() {
    let room = Room::new();
    let ran = room.run(&["run", "--json", "--", "rm", "-rf", "/usr"]).expect(126);
    let result = ran.json();
    assert_eq!((result["exitCode"].as_i64(), result["blocked"].as_bool()), (Some(126), Some(true)));
    assert_eq!(result["violations"][0]["kind"], "critical_path_removal");
    assert_eq!(result["violations"][0]["rule"], "dangerous_removal/critical-path");
}

#[test]
fn without_anybody_to_ask_a_question_is_a_refusal_that_says_how_to_change_it() {
    let room = Room::new();
    let ran = room.run(&["run", "--", "git", "push", "--force"]).expect(126);
    assert!(ran.stderr.contains("it needs approval, but nobody can be asked here"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ringfence rules add 'git push'"), "{}", ran.stderr);
}

#[test]
fn a_person_is_asked_once_and_always_becomes_a_rule() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.write(room.ringfence_home.join("sandbox.json"), "{\n  // mine\n  \"ask\": \"on\"\n}\n");
    let command = ["run", "--", "git", "push", "--force", "nowhere"];
    let mut person = Person::at_terminal(&room, &command);
    person.sees("the history that others have is replaced");
    person.answers("d");
    let (code, screen) = person.leaves();
    assert_eq!(code, 126, "{screen}");

    let mut person = Person::at_terminal(&room, &command);
    person.sees("everything like `git push`");
    person.answers("a");
    let (code, screen) = person.leaves();
    assert_ne!(code, 126, "git itself ran and found no repository: {screen}");
    let file = std::fs::read_to_string(room.ringfence_home.join("sandbox.json")).unwrap();
    assert!(file.contains("// mine") && file.contains("\"git push\""), "{file}");

    let again = room.run(&["run", "--", "git", "push", "--force", "elsewhere"]);
    assert_ne!(again.code, 126, "{}", again.stderr);
    let outcomes: Vec<_> = events(&room).iter().map(|entry| entry["gate"]["outcome"].clone()).collect();
    assert_eq!(outcomes[1..3], [Value::from("approved"), Value::from("not_approved")]);
}

#[test]
fn what_the_fence_asks_about_is_not_asked_twice() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    let ran = room.run(&["run", "--", "cat", "../.ssh/config"]).expect(1);
    assert!(ran.stderr.contains("Permission denied"), "the fence decides: {}", ran.stderr);
    assert_eq!(events(&room)[0]["gate"]["outcome"], "left_to_the_fence");
}

/// Nobody is there to be asked, and nobody has to be: the fence refuses each of them and says so.
#[test]
fn what_the_fence_refuses_anyway_runs_into_it_and_is_told_exactly() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let home = |path: &str| room.home.join(path).to_str().unwrap().to_owned();
    room.write(room.home.join(".ssh/id_rsa"), "key");
    room.write(room.home.join(".aws/credentials"), "key");
    room.write(room.home.join(".bashrc"), "old");
    let text = "cat ~/.ssh/id_rsa; cat ~/.aws/credentials; echo x > /etc/hosts; echo x > ~/.bashrc; true";
    let result = room.run(&["run", "--json", "--", "bash", "-c", text]).expect(0).json();
    let told: Vec<_> = result["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| (violation["access"].clone(), violation["resource"].clone()))
        .collect();
    let mut expected = vec![
        ("read", home(".ssh/id_rsa")),
        ("read", home(".aws/credentials")),
        ("write", "/etc/hosts".to_owned()),
        ("write", home(".bashrc")),
    ];
    // What the host itself refuses to this user, the sandbox did not take away.
    if std::fs::OpenOptions::new().append(true).open("/etc/hosts").is_err() {
        expected.remove(2);
    }
    let expected: Vec<(Value, Value)> =
        expected.into_iter().map(|(access, resource)| (access.into(), resource.into())).collect();
    assert_eq!(told, expected, "{result}");
    assert_eq!(std::fs::read_to_string(room.home.join(".bashrc")).unwrap(), "old");
}

#[test]
fn people_can_do_without_unless_the_configuration_requires_it() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let ran = room.run(&["run", "--no-gate", "-c", "eval 'exit 7'"]).expect(7);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    assert_eq!(events(&room)[0]["gate"]["outcome"], "skipped");

    // A project may require the gate, and may not switch it off.
    room.write(room.project.join(".ringfence/sandbox.json"), r#"{ "safety": { "gate": "required" } }"#);
    room.run(&["run", "--no-gate", "--", "true"]).expect(125);
    room.run(&["run", "--", "true"]).expect(0);
    room.write(room.project.join(".ringfence/sandbox.json"), r#"{ "safety": { "gate": "off" } }"#);
    let ran = room.run(&["run", "--", "rm", "-rf", "/usr"]).expect(126);
    assert!(ran.stderr.contains("may only tighten"), "{}", ran.stderr);
}

#[test]
fn a_session_judges_each_command_where_its_shell_is() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    std::fs::create_dir(room.project.join("build")).unwrap();
    room.write(room.project.join("build/old"), "");
    let lines = [
        r#"{"id":1,"command":"cd build"}"#,
        r#"{"id":2,"command":"rm -rf *; ls | wc -l"}"#,
        r#"{"id":3,"command":"cd /"}"#,
        r#"{"id":4,"command":"rm -rf *"}"#,
        "",
    ]
    .join("\n");
    let results = room.session(&lines);
    let result = |id: i64| {
        results.iter().find(|line| line["id"] == id && line["event"] == "result").unwrap()["result"].clone()
    };
    assert_eq!(result(2)["stdout"], "0\n", "{results:?}");
    assert_eq!(result(4)["exitCode"], 126, "{results:?}");
    assert_eq!(result(4)["violations"][0]["kind"], "critical_path_removal");
}

#[test]
fn rules_are_kept_listed_and_tried() {
    let room = Room::new();
    room.run(&["rules", "add", "a; b"]).expect(2);
    room.run(&["rules", "add", "--deny", "npm publish # match: npm pack"]).expect(2);
    assert!(!room.ringfence_home.join("sandbox.json").exists(), "what is no rule is not written");
    room.run(&["rules", "add", "git push"]).expect(0);
    room.run(&["rules", "add", "--deny", "npm publish # match: npm publish -x | notMatch: npm pack"])
        .expect(0);
    let listed = room.run(&["rules", "list", "--json"]).expect(0).json();
    assert_eq!((&listed[0]["list"], &listed[1]["rule"]), (&Value::from("deny"), &Value::from("git push")));
    assert!(listed[0]["source"].as_str().unwrap().contains("sandbox.json"), "{listed}");
    room.run(&["rules", "test"]).expect(0);
    let matching = room.run(&["rules", "test", "--json", "cd x && env A=1 /usr/bin/npm publish"]).expect(0);
    assert_eq!(matching.json()[0]["list"], "deny");
    room.run(&["rules", "test", "ls"]).expect(1);

    // A rule whose examples do not hold is an error with its place, and nothing is run by it.
    room.configure("{\n  \"safety\": {\n    \"allowlist\": [\"ls # notMatch: ls -l\"]\n  }\n}\n");
    let checked = room.run(&["config", "check"]);
    assert_ne!(checked.code, 0);
    assert!(format!("{}{}", checked.stdout, checked.stderr).contains("sandbox.json:3"), "{checked:?}");
    room.run(&["rules", "test"]).expect(2);
    room.run(&["run", "--", "true"]).expect(125);
}
