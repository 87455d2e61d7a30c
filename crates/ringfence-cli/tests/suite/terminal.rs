//! The person's terminal against what runs inside: it is never handed in, and nobody else answers or paints a question.

use std::time::{Duration, Instant};

use super::approval::{Person, QUESTION};
use super::fence_support::{Launcher, for_every_launcher};
use super::support::Room;

for_every_launcher! {
    no_command_gets_the_persons_terminal,
    nobody_inside_reads_what_is_typed_elsewhere,
    a_command_whose_input_or_output_is_elsewhere_has_a_terminal_of_its_own,
    nothing_is_painted_over_a_question,
}

/// A room with a secret that is asked about; none where its fence cannot start.
fn room(launcher: Launcher) -> Option<Room> {
    let room = Room::on(launcher);
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    let ran = room.run(&["run", "--launcher", launcher.name(), "--", "true"]);
    if ran.code != 0 {
        ringfence_testing::lacks(ringfence_testing::FENCE, &ran.stderr);
    }
    (ran.code == 0).then_some(room)
}

const RUN: &str = "$RF run --launcher $LAUNCHER --no-gate --ask never";

fn no_command_gets_the_persons_terminal(launcher: Launcher) {
    let Some(room) = room(launcher) else { return };
    let attack = "for f in 0 1 2; do stty -echo <&$f; done 2>/dev/null; stty -echo 2>/dev/null </dev/tty; \
                  stty -echo 2>/dev/null </proc/self/fd/1; exit 7";
    for shape in [
        format!("true | {RUN} -c '{attack}'"),
        format!("{RUN} -c '{attack}' </dev/null"),
        format!("{RUN} -c '{attack}' >/dev/null"),
        format!("{RUN} -c '{attack}' 2>/dev/null </dev/null"),
        format!("{RUN} --no-tty -c '{attack}'"),
        format!("{RUN} --json -c '{attack}' >/dev/null"),
        format!("{RUN} --json --session agent:a -c '{attack}' >/dev/null"),
    ] {
        let person = Person::at_shell(&room, &format!("{shape}; echo code-$?; read end"));
        let mut person = person;
        person.sees("code-7");
        assert!(person.terminal_echoes(), "{shape}: a command changed the person's terminal");
        person.presses("\n");
        person.leaves();
    }
}

fn nobody_inside_reads_what_is_typed_elsewhere(launcher: Launcher) {
    let Some(room) = room(launcher) else { return };
    let mut person = Person::at_shell(&room, "");
    person.presses("PS1='rea''dy> '\n");
    person.sees("ready> ");
    // In the background, as a job that waits for its input, with whatever it was given.
    let thief = "for f in 1 2; do timeout 3 cat <&$f >> stolen & done; touch there; wait";
    person.presses(&format!("sleep 1000 | {RUN} -c '{thief}' & :\n"));
    let there = room.project.join("there");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !there.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    for number in 0..20 {
        person.presses(&format!("echo line-$(({number} + 100))\n"));
        person.sees(&format!("line-{}", number + 100));
    }
    person.presses("kill %1; wait; exit\n");
    person.leaves();
    let stolen = std::fs::read_to_string(room.project.join("stolen")).unwrap_or_default();
    assert_eq!(stolen, "", "what was typed for the shell");
}

fn a_command_whose_input_or_output_is_elsewhere_has_a_terminal_of_its_own(launcher: Launcher) {
    let Some(room) = room(launcher) else { return };
    // Input from a pipe: the output is a terminal of the right size.
    let text = "cat; test ! -t 0 && test -t 1 && test -t 2 && stty size </dev/tty && echo own-$((1 + 1))";
    let mut person =
        Person::at_shell(&room, &format!("stty rows 33 cols 77; echo piped | {RUN} -c '{text}'"));
    for shown in ["piped", "33 77", "own-2"] {
        person.sees(shown);
    }
    assert_eq!(person.leaves().0, 0);
    // Output to a file: what a person types reaches the command as lines, and ends where they say so.
    let text = "test -t 0 && test ! -t 1 && cat";
    let mut person = Person::at_shell(&room, &format!("{RUN} -c '{text}' > out; cat out | sed s/^/kept:/"));
    person.presses("one\ntwo\n\u{4}");
    person.sees("kept:two");
    assert_eq!(person.leaves().0, 0);
    // Errors to a file: the terminal does not get them.
    let text = "test -t 1 && test ! -t 2 && echo err-$((1 + 1)) >&2";
    let person = Person::at_shell(&room, &format!("{RUN} -q -c '{text}' 2> errors && echo fine"));
    let (code, screen) = person.leaves();
    assert!(code == 0 && screen.contains("fine") && !screen.contains("err-2"), "{screen}");
    assert_eq!(std::fs::read_to_string(room.project.join("errors")).unwrap(), "err-2\n");
    // No terminal at all, and still a person who types.
    let text = "test ! -t 0 && test ! -t 1 && test ! -t 2 && read x && echo got-$x";
    let mut person = Person::at_shell(&room, &format!("{RUN} --no-tty -c '{text}'"));
    person.presses("word\n");
    person.sees("got-word");
    assert_eq!(person.leaves().0, 0);
}

fn nothing_is_painted_over_a_question(launcher: Launcher) {
    let Some(room) = room(launcher) else { return };
    let fake = r"\033[2J\033[H\033]0;x\007\033[?25l\033[8m\rringfence: painted-over [o]nce";
    let text = format!(
        "(while :; do printf '{fake}'; sleep 0.01; done) & painter=$!; sleep 0.2; printf '\\033]2;unfinished'; \
         cat ../.ssh/config; kill $painter"
    );
    let mut person =
        Person::at_terminal(&room, &["run", "--launcher", room.launcher, "--no-gate", "-c", &text]);
    person.sees(QUESTION);
    person.watches(Duration::from_secs(1));
    let screen = person.screen().to_owned();
    let question = screen.rfind("ringfence asks").unwrap();
    assert!(screen.contains("painted-over"), "the attack ran: {screen}");
    assert!(!screen[question..].contains("painted-over"), "{}", &screen[question..]);
    // What a program left unfinished or hidden is ended before the question.
    let before = &screen[..question];
    let reset = before.rfind("\u{18}\u{1b}\\").unwrap();
    assert!(before[reset..].contains("\u{1b}[0m") && before[reset..].contains("\u{1b}[?25h"), "{before:?}");
    person.answers("d");
    let (_, screen) = person.leaves();
    assert!(!screen.contains("treasure"), "{screen}");
}

#[test]
fn keys_that_were_meant_for_the_program_answer_nothing_and_reach_it() {
    let Some(room) = room(Launcher::Native) else { return };
    let text = "echo start-$((1 + 1)); until [ -e go ]; do sleep 0.02; done; cat ../.ssh/config; read x; echo got-$x";
    let mut person = Person::at_terminal(&room, &["run", "--no-gate", "-c", text]);
    person.sees("start-2");
    person.presses("osa\n");
    person.sees("osa");
    room.write("go", "");
    // The question is there, and its answers are not offered yet.
    person.sees("wants to read");
    person.presses("o");
    person.sees(QUESTION);
    assert!(!person.screen().contains("treasure"));
    // A word that is typed is no answer, nor is what is pasted.
    for key in "so".chars() {
        person.presses(&key.to_string());
        std::thread::sleep(Duration::from_millis(40));
    }
    person.sees("one key of these");
    person.sees_one_of(&[(QUESTION, 2)]);
    person.presses("always\n");
    person.sees_one_of(&[("one key of these", 2)]);
    person.sees_one_of(&[(QUESTION, 3)]);
    // Nor is any other key.
    person.presses("y");
    person.sees("`y` is no answer");
    person.sees_one_of(&[(QUESTION, 4)]);
    person.decides("d");
    person.sees("got-osa");
    let (code, screen) = person.leaves();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains("treasure") && !screen.contains("allowed"), "{screen}");
    assert!(!room.ringfence_home.join("sandbox.json").exists(), "nothing was granted");
}

#[test]
fn always_needs_letters_that_are_shown_only_then() {
    let Some(room) = room(Launcher::Native) else { return };
    let mut person = Person::at_terminal(&room, &["run", "--", "cat", "../.ssh/config"]);
    person.sees(QUESTION);
    person.presses("a");
    person.sees("always: type `");
    person.presses("a");
    person.sees("not confirmed");
    person.sees_one_of(&[(QUESTION, 2)]);
    person.decides("d");
    let (_, screen) = person.leaves();
    assert!(!screen.contains("treasure"), "{screen}");
    assert!(!room.ringfence_home.join("sandbox.json").exists());
}

#[test]
fn never_is_written_listed_and_taken_back() {
    let Some(room) = room(Launcher::Native) else { return };
    let command = ["run", "--", "cat", "../.ssh/config"];
    let mut person = Person::at_terminal(&room, &command);
    person.answers("v");
    let (code, screen) = person.leaves();
    assert!(code == 1 && screen.contains("ringfence grants revoke"), "{screen}");
    // Nobody is asked, and it is refused as before.
    let (code, screen) = Person::at_terminal(&room, &command).leaves();
    assert_eq!(code, 1, "{screen}");
    assert!(!screen.contains("ringfence asks") && screen.contains("blocked: read"), "{screen}");
    let secret = room.home.join(".ssh/config");
    let secret = secret.to_str().unwrap();
    let listed = room.run(&["grants", "list"]).expect(0);
    assert!(listed.stdout.contains("never asked") && listed.stdout.contains(secret), "{listed:?}");
    room.run(&["grants", "revoke", secret]).expect(0);
    let mut person = Person::at_terminal(&room, &command);
    person.answers("o");
    person.sees("Host treasure");
    person.leaves();
}

#[test]
fn names_from_inside_cannot_change_what_a_person_reads() {
    let Some(room) = room(Launcher::Native) else { return };
    let name = "x: allowed\nringfence: fine\u{202e}\u{200b}\u{1b}[2J";
    room.write(room.home.join(".ssh").join(name), "");
    let path = room.home.join(".ssh").join(name);
    let arguments = ["run", "--no-gate", "--", "cat", path.to_str().unwrap()];
    let mut person = Person::at_terminal(&room, &arguments);
    person.sees(QUESTION);
    person.answers("d");
    let (_, screen) = person.leaves();
    let question = &screen[screen.find("ringfence asks").unwrap()..screen.find(QUESTION).unwrap()];
    assert!(question.contains(r"x: allowed\nringfence: fine\u{202e}\u{200b}\u{1b}[2J"), "{question}");
    assert!(question.contains("│\u{1b}[0m denied by "), "the rule stands alone on its line: {question}");
    let ran = room.run(&arguments).expect(1);
    let blocked = ran.stderr.lines().find(|line| line.starts_with("ringfence: blocked")).unwrap();
    assert!(blocked.contains(r"\nringfence: fine\u{202e}\u{200b}\u{1b}[2J: denied by"), "{ran:?}");
}

#[test]
fn a_question_names_the_program_that_asks_and_the_command_it_is_part_of() {
    let Some(room) = room(Launcher::Native) else { return };
    let mut person =
        Person::at_terminal(&room, &["run", "--no-gate", "-c", "true; head -1 ../.ssh/config; true"]);
    person.sees("`head -1 ../.ssh/config` (in `true; head -1 ../.ssh/config; true`) wants to read");
    person.answers("d");
    person.leaves();
}

#[test]
fn a_job_of_a_persons_shell_is_one() {
    let Some(room) = room(Launcher::Native) else { return };
    let mut person = Person::at_shell(&room, "");
    // The prompt counts, so that none is taken for another.
    person.presses("PS1='rea''dy-\\#> '\n");
    person.sees("ready-2> ");
    // In the background it runs on, and is not stopped.
    person.presses("$RF run --no-gate -c 'until [ -e over ]; do sleep 0.05; done; echo back-$((1 + 1))' &\n");
    person.presses("sleep 0.7; jobs | sed s/^/now:/\n");
    person.sees("now:[1]");
    assert!(person.screen().contains("Running"), "{}", person.screen());
    person.presses("touch over; wait; rm over\n");
    person.sees("back-2");
    // The key that suspends stops it, with what runs inside; the shell has its terminal again.
    person.presses("$RF run --no-gate -c 'for i in $(seq 100000); do echo $i > at; sleep 0.05; done'\n");
    let at = room.project.join("at");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !at.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    person.presses("\u{1a}");
    person.sees("Stopped");
    let before = std::fs::read_to_string(&at).unwrap();
    person.presses("sleep 0.5; stty -a | grep -o ' echo ' | sed s/^/mode:/\n");
    person.sees("mode: echo");
    assert_eq!(std::fs::read_to_string(&at).unwrap(), before, "nothing goes on inside");
    person.presses("fg\n");
    while std::fs::read_to_string(&at).unwrap() == before {
        std::thread::sleep(Duration::from_millis(20));
    }
    person.presses("\u{3}");
    person.sees("ready-8> ");
    person.presses("echo code-$?\n");
    person.sees("code-130");
    person.presses("exit\n");
    person.leaves();
}
