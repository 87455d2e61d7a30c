//! Help, completions, colours, exit codes of a wrong command line, and readers that stop reading.

use std::io::Read as _;
use std::process::Stdio;

use super::support::{Ran, Room};

const COMMANDS: [&[&str]; 15] = [
    &["run"],
    &["doctor"],
    &["explain"],
    &["config", "check"],
    &["config", "show"],
    &["config", "schema"],
    &["config", "path"],
    &["log"],
    &["violations"],
    &["grants", "list"],
    &["grants", "revoke"],
    &["rules", "add"],
    &["rules", "list"],
    &["rules", "test"],
    &["completions"],
];

#[test]
fn every_command_shows_help_with_examples() {
    let room = Room::new();
    for command in COMMANDS {
        let ran = room.run(&[command, &["--help"]].concat()).expect(0);
        assert!(ran.stdout.contains("Examples:"), "{command:?}: {}", ran.stdout);
        assert!(!ran.stdout.contains('\u{1b}'), "no colours in a pipe");
    }
    assert!(room.run(&["--version"]).expect(0).stdout.starts_with("ringfence "));
}

#[test]
fn completions_exist_for_every_shell() {
    let room = Room::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = room.run(&["completions", shell]).expect(0).stdout;
        for word in ["doctor", "explain", "violations", "allow-read"] {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
    }
    room.run(&["completions", "tcsh"]).expect(2);
}

#[test]
fn a_wrong_command_line_is_told_apart_from_a_failed_command() {
    let room = Room::new();
    room.run(&["log", "--bogus"]).expect(2);
    room.run(&["nonsense"]).expect(2);
    room.run(&[]).expect(2);
    // What follows `run` has exit codes of its own, 2 among them.
    room.run(&["run", "--bogus", "--", "true"]).expect(125);
    room.run(&["run"]).expect(125);
    room.run(&["run", "--help"]).expect(0);
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let room = Room::new();
    for arguments in [&["config", "schema"][..], &["config", "show"], &["completions", "bash"], &["--help"]] {
        let mut child =
            room.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closing the pipe unread: the first write fails.
        drop(child.stdout.take());
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn a_disk_that_is_full_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let room = Room::new();
    let ran = Ran::of(room.command(&["config", "schema"]).stdout(full).output().unwrap()).expect(125);
    assert!(ran.stderr.contains("cannot write to standard output"), "{}", ran.stderr);
}

#[test]
fn colours_are_for_terminals_and_can_be_turned_off() {
    let room = Room::new();
    let on_a_terminal = |no_color: &str| {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = room.command(&["explain", "src"]);
        let mut child = command.env("NO_COLOR", no_color).stdout(slave).spawn().unwrap();
        // The command holds the slave's descriptor too; reading ends when the last one is closed.
        drop(command);
        let mut text = Vec::new();
        let _ = std::fs::File::from(master).read_to_end(&mut text);
        child.wait().unwrap();
        String::from_utf8(text).unwrap()
    };
    assert!(on_a_terminal("").contains("\u{1b}[32mallowed\u{1b}[0m"));
    assert!(on_a_terminal("1").starts_with("allowed: read"));
    assert!(room.run(&["explain", "src"]).expect(0).stdout.starts_with("allowed: read"));
}

#[test]
fn without_a_variable_the_home_is_the_user_databases() {
    let room = Room::new();
    let own = rustix::process::geteuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let home = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|user| user[2] == own);
    let home = home.map_or("/home/sandbox", |user| user[5]);
    let mut command = room.command(&["config", "path"]);
    let ran = Ran::of(command.env_clear().output().unwrap()).expect(0);
    assert_eq!(ran.stdout, format!("{home}/.ringfence/sandbox.json\n"));
}
