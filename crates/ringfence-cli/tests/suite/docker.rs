//! The provider `docker`, from the command line.

use std::process::Stdio;

use ringfence_docker::testing::{FULL, TestEngine};

use super::approval::Person;
use super::support::{Ran, Room};

fn room(engine: &TestEngine) -> Room {
    let room = Room::new();
    room.configure(&format!(
        r#"{{ "docker": {{ "image": "{FULL}" }}, "providerOptions": {{ "engine": "{}" }} }}"#,
        engine.host()
    ));
    room
}

#[test]
fn one_command_in_a_container_that_is_gone_afterwards() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = room(&engine);
    room.write(".env", "canary");
    let command = "cat; echo hi > note && cat note; cat .env; id -u >&2; exit 7";
    let mut child = room
        .command(&["run", "--no-gate", "--provider", "docker", "-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"in\n").unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap()).expect(7);
    assert_eq!(ran.stdout, "in\nhi\n", "{ran:?}");
    let refused = format!("blocked: read {}", room.project.join(".env").display());
    assert!(ran.stderr.contains(&refused), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.project.join("note")).unwrap(), "hi\n");
    let result =
        room.run(&["run", "--no-gate", "--provider", "docker", "--json", "-c", "echo x"]).expect(0).json();
    assert_eq!(result["stdout"], "x\n");
    assert_eq!(result["sandbox"]["adapter"], "docker/guest");
    let mark = format!("label=ringfence.workspace={}", room.project.display());
    let left = engine.docker(&["ps", "-aq", "--filter", &mark]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

#[test]
fn a_person_works_at_a_terminal_of_a_container() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = room(&engine);
    for command in
        [&["run", "--no-gate", "--provider", "docker", "--", "bash"][..], &["shell", "--provider", "docker"]]
    {
        let mut person = Person::at_terminal(&room, command);
        person.presses("PS1='rea''dy> '\n");
        person.sees("ready> ");
        person.presses("test -t 0 && test -t 1 && echo terminal-$((40 + 2))\n");
        person.sees("terminal-42");
        person.resizes(51, 133);
        person.presses("until [ \"$(stty size)\" = '51 133' ]; do sleep 0.05; done; echo size-$((50 + 1))\n");
        person.sees("size-51");
        person.presses("exit 7\n");
        let (code, screen) = person.leaves();
        assert_eq!(code, 7, "{command:?}: {screen}");
    }
    let mark = format!("label=ringfence.workspace={}", room.project.display());
    let left = engine.docker(&["ps", "-aq", "--filter", &mark]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "nothing is left");
}

#[test]
fn what_a_container_does_not_do_is_told() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = Room::new();
    let configure = |network: &str, guest: &str| {
        room.configure(&format!(
            r#"{{ "docker": {{ "image": "{FULL}", "network": "{network}" }},
                  "providerOptions": {{ "engine": "{}", "guest": "{guest}" }} }}"#,
            engine.host()
        ));
    };
    room.write(".env", "canary");
    let command = ["run", "--no-gate", "--provider", "docker", "-c", "cat .env; true"];
    configure("bridge", "auto");
    let ran = room.run(&command).expect(0);
    assert!(ran.stderr.contains("warning: docker.network bridge"), "{ran:?}");
    configure("none", "off");
    let ran = room.run(&command).expect(0);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("denied files read as empty"), "{ran:?}");
}

#[test]
fn mode_strict_lets_few_variables_into_a_container() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = Room::new();
    for (mode, passes) in [("restricted", true), ("strict", false)] {
        room.configure(&format!(
            r#"{{ "mode": "{mode}", "docker": {{ "image": "{FULL}", "env": {{ "PLAIN": "p", "LC_ALL": "C", "A_TOKEN": "t" }} }},
                  "providerOptions": {{ "engine": "{}" }} }}"#,
            engine.host()
        ));
        let ran = room.run(&["run", "--no-gate", "--provider", "docker", "--", "env"]).expect(0);
        let has = |line: &str| ran.stdout.lines().any(|its| its == line);
        assert_eq!(
            (has("PLAIN=p"), has("LC_ALL=C"), has("A_TOKEN=t")),
            (passes, true, false),
            "{mode}: {ran:?}"
        );
    }
}

#[test]
fn without_an_engine_the_error_says_where_it_was_looked_for() {
    let room = Room::new();
    let mut command = room.command(&["run", "--no-gate", "--provider", "docker", "--", "touch", "ran"]);
    let ran = Ran::of(command.env("DOCKER_HOST", "unix:///no/such/socket").output().unwrap()).expect(125);
    assert!(ran.stderr.contains("there is no container engine at /no/such/socket"), "{ran:?}");
    let ran = room.run(&["run", "--no-gate", "--provider", "dokcer", "--", "touch", "ran"]).expect(125);
    assert!(ran.stderr.contains("unknown sandbox provider \"dokcer\""), "{ran:?}");
    assert!(ran.stderr.contains("docker"), "{ran:?}");
    assert!(!room.project.join("ran").exists());
}

#[test]
fn input_without_an_end_is_refused() {
    let room = Room::new();
    let mut yes = std::process::Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
    let mut command = room.command(&["run", "--no-gate", "--provider", "docker", "--", "head", "-1"]);
    let ran = Ran::of(command.stdin(yes.stdout.take().unwrap()).output().unwrap()).expect(125);
    yes.kill().unwrap();
    yes.wait().unwrap();
    assert!(ran.stderr.contains("more than 256 MiB") && ran.stderr.contains("provider `local`"), "{ran:?}");
}
