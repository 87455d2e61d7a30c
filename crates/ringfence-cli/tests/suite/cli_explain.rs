//! `ringfence explain`: the same answer as the fence gives.

use super::support::Room;

#[test]
fn each_verdict_has_its_word_its_rule_and_its_exit_code() {
    let room = Room::new();
    let key = room.write(room.home.join(".ssh/id_rsa"), "key");
    let notes = room.write(room.home.join("notes.txt"), "mine");

    let allowed = room.run(&["explain", "--write", "src/main.rs"]).expect(0).stdout;
    assert!(allowed.starts_with("allowed: write ") && allowed.contains("built-in: project"), "{allowed}");

    let denied = room.run(&["explain", key.to_str().unwrap()]).expect(1).stdout;
    assert!(denied.starts_with("denied: read "), "{denied}");
    assert!(
        denied.contains("on the deny list: ") && denied.contains("(built-in: deny, private keys)"),
        "{denied}"
    );
    assert!(denied.contains("\"grants\": [{ \"path\": "), "{denied}");

    let private = room.run(&["explain", notes.to_str().unwrap()]).expect(1).stdout;
    assert!(private.starts_with("private: read "), "{private}");
    assert!(private.contains(&format!("--allow-read {}", notes.display())), "{private}");

    let unlisted = room.run(&["explain", "--write", "/srv/data"]).expect(1).stdout;
    assert!(
        unlisted.contains("no rule allows it") && unlisted.contains("--allow-write /srv/data"),
        "{unlisted}"
    );

    let read_only = room.run(&["explain", "--write", "/usr/bin/env"]).expect(1).stdout;
    assert!(read_only.contains("readable only: /usr"), "{read_only}");
    room.run(&["explain", "--execute", "/usr/bin/env"]).expect(0);
}

#[test]
fn a_protected_path_is_readable_and_not_writable() {
    let room = Room::new();
    let hook = room.write(".git/hooks/pre-commit", "#!/bin/sh\n");
    room.run(&["explain", ".git/hooks/pre-commit"]).expect(0);
    let denied = room.run(&["explain", "--write", ".git/hooks/pre-commit", "--json"]).expect(1).json();
    assert_eq!(denied["path"], hook.to_str().unwrap());
    assert_eq!(denied["verdict"], "denied");
    assert_eq!(denied["reason"], "protected");
    assert_eq!(denied["rule"]["source"]["layer"], "builtIn");
}

#[test]
fn the_file_and_line_of_a_rule_are_named() {
    let room = Room::new();
    let file = room.configure("{\n  \"deny\": [\n    \"**/*.pem\"\n  ]\n}\n");
    let denied = room.run(&["explain", "certs/server.pem"]).expect(1).stdout;
    assert!(denied.contains(&format!("user config {}:3: deny", file.display())), "{denied}");
    assert!(denied.contains(&format!("remove the rule from {}:3", file.display())), "{denied}");
}

#[test]
fn options_of_the_sandbox_count() {
    let room = Room::new();
    let notes = room.write(room.home.join("notes.txt"), "mine");
    let notes = notes.to_str().unwrap();
    room.run(&["explain", "--allow-read", notes, notes]).expect(0);
    let denied = room.run(&["explain", "--deny", "src", "src/main.rs"]).expect(1).stdout;
    assert!(denied.contains("command line") && denied.contains("leave out the --deny"), "{denied}");
}

#[test]
fn a_grant_is_named_as_what_allows() {
    let room = Room::new();
    let key = room.write(room.home.join(".ssh/config"), "Host x");
    room.configure("{ \"grants\": [{ \"path\": \"~/.ssh/config\", \"access\": \"read\" }] }");
    let allowed = room.run(&["explain", key.to_str().unwrap()]).expect(0).stdout;
    assert!(allowed.contains("a person granted read of"), "{allowed}");
    room.run(&["explain", "--write", key.to_str().unwrap()]).expect(1);
}

#[test]
fn links_are_followed_and_shown() {
    let room = Room::new();
    let key = room.write(room.home.join(".ssh/id_rsa"), "key");
    std::os::unix::fs::symlink("../.ssh/id_rsa", room.project.join("harmless")).unwrap();
    let denied = room.run(&["explain", "harmless", "--json"]).expect(1).json();
    assert_eq!(denied["resolved"], key.to_str().unwrap());
    assert_eq!(denied["links"][0]["path"], room.project.join("harmless").to_str().unwrap());
    assert_eq!(denied["links"][0]["target"], "../.ssh/id_rsa");
    let text = room.run(&["explain", "harmless"]).expect(1).stdout;
    assert!(text.contains("link:   ") && text.contains("-> ../.ssh/id_rsa"), "{text}");
}

/// What `explain` says about reading is what happens to a reader inside.
#[test]
fn the_fence_gives_the_same_answer() {
    let room = Room::new();
    room.configure("{ \"deny\": [\"**/*.pem\"], \"allowRead\": [\"~/reference\"] }");
    if !room.has_fence() {
        return;
    }
    std::os::unix::fs::symlink("../.ssh/id_rsa", room.project.join("link-out")).unwrap();
    std::os::unix::fs::symlink("src/main.rs", room.project.join("link-in")).unwrap();
    let home = |name: &str| room.write(room.home.join(name), "text\n");
    let paths = [
        room.write("src/main.rs", "text\n"),
        room.write(".env", "text\n"),
        room.write("deep/down/.env", "text\n"),
        room.write("certs/key.pem", "text\n"),
        room.write(".git/config", "text\n"),
        room.project.join("link-out"),
        room.project.join("link-in"),
        home(".ssh/id_rsa"),
        home("notes.txt"),
        home("reference/book.txt"),
        home("reference/.env"),
        home(".gitconfig"),
        "/etc/hostname".into(),
        "/etc/shadow".into(),
        "/etc/gshadow".into(),
        "/bin/sh".into(),
    ];
    for path in paths.iter().filter(|path| path.exists()) {
        let path = path.to_str().unwrap();
        let said = room.run(&["explain", path, "--json"]).json()["verdict"].clone();
        let read = room.run(&["run", "--quiet", "--", "head", "-c", "1", path]);
        assert_eq!(said == "allowed", read.code == 0, "{path}: explained as {said}, but {}", read.stderr);
    }
}

#[test]
fn what_may_be_changed_all_the_same_is_said() {
    let room = Room::new();
    for (path, said) in [
        (".git/config", "git itself may change it by keys that run and fetch nothing"),
        (".git/hooks", "an empty one may be made"),
        (".vscode", "a person is asked"),
    ] {
        let told = room.run(&["explain", "--write", path]);
        assert!(told.stdout.contains("denied: ") && told.stdout.contains(said), "{path}: {}", told.stdout);
    }
    // A rule of the person's own has no exception.
    room.configure(r#"{ "protect": [".git/config"] }"#);
    let told = room.run(&["explain", "--write", ".git/config"]);
    assert!(!told.stdout.contains("git itself"), "{}", told.stdout);
}
