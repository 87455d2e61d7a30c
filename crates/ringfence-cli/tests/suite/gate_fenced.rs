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
