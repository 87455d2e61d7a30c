//! Options and files that do not do what they seem to: each is refused, or said.

use super::support::Room;

#[test]
fn a_run_that_cannot_begin_is_one_json_value_too() {
    let room = Room::new();
    let ran = room.run(&["run", "--json", "--", "no-such-program"]).expect(127);
    let result = ran.json();
    assert_eq!(
        (&result["exitCode"], &result["error"]["kind"]),
        (&127.into(), &"not_found".into()),
        "{result}"
    );
    let ran = room.run(&["run", "--json", "--provider", "dcoker", "--", "true"]).expect(125);
    assert!(ran.json()["error"]["message"].as_str().unwrap().contains("dcoker"), "{ran:?}");
}

#[test]
fn a_command_that_is_none_suggests_the_nearest() {
    let room = Room::new();
    for (word, known) in [("rn", "run"), ("shel", "shell"), ("explian", "explain"), ("doctr", "doctor")] {
        let ran = room.run(&[word]).expect(2);
        assert!(ran.stderr.contains(&format!("did you mean '{known}'")), "{ran:?}");
    }
    assert!(!room.run(&["xyzzyplugh"]).expect(2).stderr.contains("did you mean"));
}

#[test]
fn options_without_a_meaning_are_refused() {
    let room = Room::new();
    for (options, why) in [
        (["--allow-read", ""], "--allow-read needs a path"),
        (["--deny", " "], "--deny needs a path"),
        (["--env", "=x"], "is no name of a variable"),
        (["--env", "A B=1"], "is no name of a variable"),
        (["--timeout", "5x"], "5m or 2h"),
    ] {
        let ran = room.run(&[&["run"], &options[..], &["--", "true"]].concat()).expect(125);
        assert!(ran.stderr.contains(why), "{options:?}: {ran:?}");
    }
}

#[test]
fn options_that_change_nothing_are_told() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    let ssh = room.home.join(".ssh");
    let ssh = ssh.to_str().unwrap();
    for (options, why) in [
        (["--allow-read", "/no/such/place"], "--allow-read /no/such/place: there is nothing at that path"),
        (["--allow-read", ssh], "ringfence grants add --recursive"),
        (["--agent", "typo"], "no section agents.typo"),
        (["--deny", "a["], "a `[` without `]`"),
        (["--timeout", "5m"], ""),
    ] {
        let ran = room.run(&[&["run"], &options[..], &["--", "true"]].concat()).expect(0);
        assert_eq!(ran.stderr.contains("warning:"), !why.is_empty(), "{options:?}: {ran:?}");
        assert!(ran.stderr.contains(why), "{options:?}: {ran:?}");
    }
    // The command in the hint works.
    room.run(&["grants", "add", "--recursive", ssh]).expect(0);
    let ran = room.run(&["run", "--allow-read", ssh, "--", "cat", "../.ssh/config"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("Host treasure\n", ""));
    room.run(&["grants", "revoke", ssh]).expect(0);
    room.run(&["run", "--", "cat", "../.ssh/config"]).expect(1);
}

#[test]
fn a_home_as_project_is_warned_about() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let home = room.home.to_str().unwrap();
    let ran = room.run(&["run", "--project", home, "--", "true"]).expect(0);
    assert!(ran.stderr.contains("whole home directory"), "{ran:?}");
}

#[test]
fn a_profile_that_is_no_fence_says_so_everywhere() {
    let room = Room::new();
    for profile in ["dev", "unfenced"] {
        let ran = room.run(&["run", "--profile", profile, "--", "true"]).expect(0);
        assert!(ran.stderr.contains("all your rights"), "{ran:?}");
        let ran = room.run(&["explain", "--profile", profile, "../.ssh/id_rsa"]);
        assert!(ran.stderr.contains("there is no fence"), "{ran:?}");
        let ran = room.run(&["config", "show", "--profile", profile]).expect(0);
        assert!(ran.stderr.contains("there is no fence"), "{ran:?}");
    }
    room.configure(r#"{ "profile": "unfenced" }"#);
    let ran = room.run(&["config", "show"]).expect(0);
    assert_eq!(ran.json()["defaultPolicy"], "none");
    let lines = room.session("");
    assert!(
        lines.iter().any(|line| line["message"].as_str().is_some_and(|text| text.contains("no fence"))),
        "{lines:?}"
    );
    let ran = room.run(&["doctor", "--profiles"]);
    assert!(ran.stdout.contains("this profile is no fence"), "{ran:?}");
}

#[test]
fn a_projects_file_with_keys_of_others_still_tightens() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.write("secret.txt", "treasure\n");
    let file = r#"{ "deny": ["secret.txt"], "newKey": 1, "policy": { "filesystem": { "deny": ["b"], "other": [] } } }"#;
    room.write(".ringfence/sandbox.json", file);
    let ran = room.run(&["run", "--", "cat", "secret.txt"]).expect(1);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("denied by"), "{ran:?}");
    for key in ["`newKey`", "`other`"] {
        assert!(ran.stderr.contains(&format!("{key} is not a key that ringfence knows")), "{ran:?}");
    }
    // `config check` and strict validation refuse the key all the same.
    room.run(&["config", "check"]).expect(2);
    room.configure(r#"{ "validationStrictness": "strict" }"#);
    room.run(&["run", "--", "true"]).expect(125);
}

#[test]
fn a_home_that_is_not_in_the_environment_is_that_of_the_user() {
    let room = Room::new();
    let mut command = room.command(&["config", "path"]);
    command.env_remove("HOME").env_remove("RINGFENCE_HOME");
    let output = command.output().unwrap();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let uid = rustix::process::geteuid().as_raw().to_string();
    let home = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&uid.as_str())).then(|| fields[5].to_owned())
    });
    if let Some(home) = home {
        let path = String::from_utf8(output.stdout).unwrap();
        assert_eq!(path.trim(), format!("{home}/.ringfence/sandbox.json"));
    }
}

#[test]
fn a_provider_that_nobody_knows_is_an_error_of_the_file() {
    let room = Room::new();
    let file = room.configure(r#"{ "provider": "dcoker" }"#);
    for arguments in [&["config", "check"][..], &["config", "check", file.to_str().unwrap()]] {
        let ran = room.run(arguments).expect(2);
        assert!(ran.stdout.contains("unknown sandbox provider \"dcoker\"; known providers: "), "{ran:?}");
    }
}

#[test]
fn a_project_inside_a_repository_says_so_when_something_fails() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    std::fs::create_dir_all(room.project.join("repo/.git")).unwrap();
    std::fs::create_dir_all(room.project.join("repo/pkg")).unwrap();
    let inside = room.project.join("repo/pkg");
    let root = room.project.join("repo");
    let ran = room.run(&["run", "--project", inside.to_str().unwrap(), "--", "false"]).expect(1);
    assert!(ran.stderr.contains(&format!("--project {} shows it", root.display())), "{ran:?}");
    let ran = room.run(&["run", "--project", root.to_str().unwrap(), "--", "false"]).expect(1);
    assert!(!ran.stderr.contains("note:"), "{ran:?}");
}

#[test]
fn memory_that_nothing_can_start_with_is_refused() {
    let room = Room::new();
    let ran = room.run(&["run", "--memory", "1", "--", "true"]).expect(125);
    assert!(ran.stderr.contains("less than any program needs"), "{ran:?}");
}

#[test]
fn a_rule_is_taken_back() {
    let room = Room::new();
    room.run(&["rules", "add", "git push # match: git push origin"]).expect(0);
    room.run(&["rules", "add", "--deny", "npm publish"]).expect(0);
    room.run(&["rules", "remove", "git push"]).expect(0);
    let left = room.run(&["rules", "list", "--json"]).expect(0).json();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    room.run(&["rules", "remove", "npm publish"]).expect(0);
    room.run(&["rules", "remove", "npm publish"]).expect(1);
}
