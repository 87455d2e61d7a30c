//! `ringfence config check|show|schema|path`.

use super::support::Room;

#[test]
fn without_a_file_everything_is_fine() {
    let room = Room::new();
    let ran = room.run(&["config", "check"]).expect(0);
    assert!(ran.stdout.contains("no configuration file"), "{}", ran.stdout);
    let json = room.run(&["config", "check", "--json"]).expect(0).json();
    assert_eq!(json["errors"], 0);
    assert_eq!(json["files"], serde_json::json!([]));
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_a_suggestion() {
    let room = Room::new();
    let file = room
        .configure("{\n  // comments are fine\n  \"alowRead\": [\"~/x\"],\n  \"precision\": \"ful\"\n}\n");
    let ran = room.run(&["config", "check"]).expect(2);
    let place = |line, column| format!("error: {}:{line}:{column}: ", file.display());
    assert!(ran.stdout.contains(&format!("{}alowRead: is not a known key", place(3, 3))), "{}", ran.stdout);
    assert!(ran.stdout.contains("did you mean `allowRead`?"), "{}", ran.stdout);
    assert!(ran.stdout.contains(&format!("{}precision: ", place(4, 16))), "{}", ran.stdout);

    let json = room.run(&["config", "check", "--json"]).expect(2).json();
    assert_eq!(json["errors"], 2);
    let first = &json["diagnostics"][0];
    assert_eq!((first["line"].as_u64(), first["column"].as_u64()), (Some(3), Some(3)));
    assert_eq!(first["key"], "alowRead");
    assert_eq!(first["kind"], "unknownKey");
    assert_eq!(first["suggestion"], "did you mean `allowRead`?");
}

#[test]
fn files_can_be_named() {
    let room = Room::new();
    room.write("good.json", "{ \"deny\": [\"**/*.pem\"] }");
    room.write("bad.json", "{ \"deny\": 7 }");
    assert!(room.run(&["config", "check", "good.json"]).expect(0).stdout.starts_with("ok: good.json"));
    let both = room.run(&["config", "check", "good.json", "bad.json"]).expect(2);
    assert!(both.stdout.contains("bad.json:1:11: deny: must be a list"), "{}", both.stdout);
    assert!(both.stdout.contains("ok: good.json"));
    let gone = room.run(&["config", "check", "gone.json"]).expect(2);
    assert!(gone.stderr.contains("cannot read gone.json"), "{}", gone.stderr);
}

#[test]
fn a_project_that_widens_is_warned_about() {
    let room = Room::new();
    let file = room.write(".ringfence/sandbox.json", "{ \"allowRead\": [\"/srv\"], \"deny\": [\"x\"] }");
    let ran = room.run(&["config", "check"]).expect(0);
    assert!(ran.stdout.contains("warning: "), "{}", ran.stdout);
    assert!(ran.stdout.contains(file.to_str().unwrap()), "{}", ran.stdout);
}

#[test]
fn origins_name_file_and_line() {
    let room = Room::new();
    let file = room.configure("{\n  \"deny\": [\n    \"~/clients\"\n  ],\n  \"timeout\": 60\n}\n");
    let ran = room.run(&["config", "show", "--origin", "--allow-read", "/srv"]).expect(0);
    let line =
        |needle: &str| ran.stdout.lines().find(|line| line.contains(needle)).unwrap_or_default().to_owned();
    assert!(line("~/clients").contains(&format!("user config {}:3: deny", file.display())), "{}", ran.stdout);
    assert!(line("~/.ssh").contains("built-in: deny"), "{}", ran.stdout);
    assert!(line("/srv").contains("command line"), "{}", ran.stdout);

    let json = room.run(&["config", "show", "--origin", "--json"]).expect(0).json();
    let entry = json.as_array().unwrap().iter().find(|entry| entry["value"] == "~/clients").unwrap();
    assert_eq!(entry["key"], "deny");
    assert_eq!(entry["source"]["line"], 3);
    assert_eq!(entry["source"]["layer"], "user");
}

#[test]
fn what_is_shown_is_a_valid_file_again() {
    let room = Room::new();
    room.configure("{ \"profile\": \"prod\", \"allowedHosts\": [\"a.example\"] }");
    let shown = room.run(&["config", "show", "--json"]).expect(0);
    assert_eq!(shown.json()["profile"], "prod");
    room.write("merged.json", &shown.stdout);
    room.run(&["config", "check", "merged.json"]).expect(0);
}

#[test]
fn a_bad_file_is_never_shown_as_if_it_held() {
    let room = Room::new();
    room.configure("{ \"deny\": 7 }");
    let ran = room.run(&["config", "show"]).expect(2);
    assert!(ran.stdout.is_empty());
    assert!(ran.stderr.contains("config check"), "{}", ran.stderr);
}

#[test]
fn explicit_settings_beat_the_profile_and_rolling_back_is_one_word() {
    let room = Room::new();
    let processes = |arguments: &[&str]| {
        room.run(&[&["config", "show", "--json"], arguments].concat()).expect(0).json()["limits"]["maxProcesses"].clone()
    };
    room.configure("{ \"profile\": \"prod\" }");
    assert_eq!(processes(&[]), 512);
    assert_eq!(processes(&["--profile", "balanced"]), 4096);
    room.configure("{ \"profile\": \"prod\", \"limits\": { \"maxProcesses\": 99 } }");
    assert_eq!(processes(&[]), 99);
    room.configure("{ \"profile\": \"balanced\" }");
    assert_eq!(processes(&[]), 4096);
}

#[test]
fn the_schema_is_one_json_object() {
    let schema = Room::new().run(&["config", "schema"]).expect(0).json();
    assert!(schema["properties"]["allowRead"].is_object());
}

#[test]
fn the_path_follows_the_home() {
    let room = Room::new();
    let file = room.ringfence_home.join("sandbox.json");
    assert_eq!(room.run(&["config", "path"]).expect(0).stdout, format!("{}\n", file.display()));
    let json = room.run(&["config", "path", "--json"]).expect(0).json();
    assert_eq!(json["user"]["exists"], false);
    assert_eq!(json["ledger"]["path"], room.ringfence_home.join("ledger.db").to_str().unwrap());

    let default = room.command(&["config", "path"]).env_remove("RINGFENCE_HOME").output().unwrap();
    let expected = format!("{}\n", room.home.join(".ringfence/sandbox.json").display());
    assert_eq!(String::from_utf8(default.stdout).unwrap(), expected);
}

#[test]
fn a_repository_cannot_make_itself_unusable() {
    let room = Room::new();
    room.write(".ringfence/sandbox.json", r#"{ "of": "another tool", "deny": ["secret"] }"#);
    room.write("secret", "canary");
    let ran = room.run(&["run", "--", "sh", "-c", "cat secret; echo ran"]).expect(0);
    assert_eq!(ran.stdout, "ran\n", "{ran:?}");
    assert!(ran.stderr.contains("`of` is not a key") && ran.stderr.contains("left out"), "{ran:?}");
    room.run(&["config", "check"]).expect(2);
    room.run(&["run", "--profile", "prod", "--", "true"]).expect(125);
}
