//! Hosts by name, as a person says and asks them: `--allow-host`, `explain HOST`, `config sets`.

use super::support::Room;

#[test]
fn each_answer_about_a_host_has_its_word_its_rule_and_its_exit_code() {
    let room = Room::new();
    let file = room.configure(
        "{\n  \"allowedHosts\": [\n    \"api.example:8443\",\n    \".b.example\"\n  ],\n  \"blockedHosts\": [\"evil.b.example\"]\n}\n",
    );
    for (arguments, code, word, why) in [
        (
            vec!["api.example:8443"],
            0,
            "allowed",
            format!("`api.example:8443` (user config {}:3", file.display()),
        ),
        (vec!["x.b.example"], 0, "allowed", format!("`.b.example` (user config {}:4", file.display())),
        (
            vec!["evil.b.example"],
            1,
            "denied",
            format!("blocked by `evil.b.example` (user config {}:6", file.display()),
        ),
        (vec!["api.example"], 1, "denied", "no rule allows it".to_owned()),
        (vec!["x.b.example:22"], 1, "denied", "port 22 is blocked".to_owned()),
        (vec!["other.example", "--ask-hosts"], 1, "asked", "a person is asked".to_owned()),
        (vec!["other.example", "--allow-host", "*.example"], 0, "allowed", "(command line".to_owned()),
        (vec!["x.b.example", "--block-host", "*.b.example"], 1, "denied", "(command line".to_owned()),
        (vec!["localhost:5432"], 1, "denied", "sandbox's own".to_owned()),
        (vec!["localhost:5432", "--allow-host", "host-port:5432"], 0, "allowed", "port 5432".to_owned()),
        (vec!["--host", "db", "--allow-host", "db"], 0, "allowed", "`db`".to_owned()),
        (vec!["192.0.2.7:80", "--allow-host", "192.0.2.0/24"], 0, "allowed", "`192.0.2.0/24`".to_owned()),
    ] {
        let ran = room.run(&[&["explain"], &arguments[..]].concat()).expect(code);
        assert!(ran.stdout.starts_with(&format!("{word}: connect to ")), "{arguments:?}: {}", ran.stdout);
        assert!(ran.stdout.contains(&why), "{arguments:?}: {}", ran.stdout);
    }
    let json = room.run(&["explain", "--json", "x.b.example:80"]).expect(0).json();
    assert_eq!((&json["verdict"], &json["port"]), (&"allowed".into(), &80.into()));
    assert_eq!((&json["rule"]["host"], &json["rule"]["source"]["line"]), (&".b.example".into(), &4.into()));
    let text = room.run(&["explain", "new.example"]).expect(1).stdout;
    assert!(text.contains("--allow-host new.example:443") && text.contains("./new.example"), "{text}");
}

#[test]
fn a_name_that_is_a_path_is_one() {
    let room = Room::new();
    room.write("a.example", "");
    for arguments in [&["a.example"][..], &["./b.example"], &["--write", "b.example"], &["README"]] {
        let text = room.run(&[&["explain"], arguments].concat()).expect(0).stdout;
        assert!(text.starts_with("allowed: read ") || text.starts_with("allowed: write "), "{text}");
    }
}

#[test]
fn hosts_that_are_none_are_refused_before_anything_runs() {
    let room = Room::new();
    for (options, why) in [
        (["--allow-host", "*"], "--allow-host *: `*` would be every host"),
        (["--allow-host", "nmp"], "did you mean `npm`?"),
        (["--allow-host", "a.example:0"], "port 0"),
        (["--allow-host", "host-port:"], "host-port:5432"),
        (["--block-host", "host-port:1"], "unless they are allowed"),
        (["--allow-host", "maven"], "finds no host on this machine"),
    ] {
        let ran = room.run(&[&["run"], &options[..], &["--", "true"]].concat()).expect(125);
        assert!(ran.stderr.contains(why), "{options:?}: {ran:?}");
    }
    let file = room.configure("{\n  \"blockedHosts\": [\n    \"a b\"\n  ]\n}\n");
    let ran = room.run(&["run", "--", "true"]).expect(125);
    assert!(ran.stderr.contains(&format!("{}:3:", file.display())), "{ran:?}");
    room.run(&["config", "check"]).expect(2);
}

#[test]
fn sets_are_listed_with_where_they_were_found() {
    let mut room = Room::new();
    room.env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    room.write(
        room.home.join(".npmrc"),
        "registry=https://me:secret@npm.example/\n@x:registry=https://x.example/\n",
    );
    room.write(".npmrc", "registry=https://evil.example/\n");
    let sets = room.run(&["config", "sets", "--json"]).expect(0).json();
    let npm = sets.as_array().unwrap().iter().find(|set| set["name"] == "npm").unwrap();
    let found = serde_json::json!([
        { "host": "npm.example:443", "from": "~/.npmrc" },
        { "host": "x.example:443", "from": "~/.npmrc" },
    ]);
    assert_eq!(npm["hosts"], found);
    let table = room.run(&["config", "sets"]).expect(0).stdout;
    assert!(table.contains("npm.example:443") && !table.contains("secret"), "{table}");
    assert!(table.contains("nothing here (the repositories and mirrors of maven)"), "{table}");

    room.configure("{ \"allowedHosts\": [\"npm\"] }");
    let text = room.run(&["explain", "x.example"]).expect(0).stdout;
    assert!(text.contains("(detected ") && text.contains("set npm: ~/.npmrc"), "{text}");
    room.run(&["explain", "evil.example"]).expect(1);
    let shown = room.run(&["config", "show", "--json"]).expect(0).json();
    assert_eq!(shown["allowedHosts"], serde_json::json!(["npm"]));
}
