//! `providerOptions` of a person's configuration, for the provider `local`.

use super::session::Session;
use super::support::Room;

#[test]
fn a_session_starts_its_shell_as_configured() {
    let room = Room::new();
    room.configure(
        r#"{ "providerOptions": { "shellCommand": "env 'TZ=UTC' 'GREETING=good day' /bin/bash" } }"#,
    );
    if !room.has_fence() {
        return;
    }
    let mut session = Session::start(&room);
    let result = session.run(1, "echo \"$TZ, $GREETING\"");
    assert_eq!(result["stdout"], "UTC, good day\n", "{result}");
    assert_eq!(session.end(), 0);
}

#[test]
fn an_empty_shell_command_is_refused() {
    let room = Room::new();
    room.configure(r#"{ "providerOptions": { "shellCommand": "" } }"#);
    for (command, code) in [(&["session"][..], 2), (&["run", "--", "true"], 125)] {
        let ran = room.run(command).expect(code);
        assert!(ran.stderr.contains("shellCommand is empty"), "{ran:?}");
    }
}

#[test]
fn unknown_options_are_refused_with_the_known_ones() {
    let room = Room::new();
    room.configure(r#"{ "providerOptions": { "shellComand": "bash" } }"#);
    for (command, code) in [(&["session"][..], 2), (&["run", "--", "true"], 125)] {
        let ran = room.run(command).expect(code);
        for name in ["`shellComand`", "`shellCommand`", "`stage`", "`seatbelt`"] {
            assert!(ran.stderr.contains(name), "{name}: {ran:?}");
        }
    }
}
