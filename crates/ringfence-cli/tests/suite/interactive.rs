//! `ringfence shell`: a person at a terminal, with job control, sizes and colours.

use super::approval::Person;
use super::support::Room;

#[test]
fn a_person_works_in_a_shell() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let mut person = Person::at_terminal(&room, &["shell"]);
    person.presses("PS1='rea''dy> '\n");
    person.sees("ready> ");
    // The answer differs from what was typed, which is on the screen too.
    person.presses("test -t 0 && test -t 1 && echo terminal-$((40 + 2))\n");
    person.sees("terminal-42");
    person.presses("cd /usr; export X=kept; echo $X-in-$PWD\n");
    person.sees("kept-in-/usr");
    person.presses("ls --color=auto -d /usr/bin; printf '\\e[3%sm%s\\n' 2 green\n");
    person.sees("\u{1b}[32mgreen");
    // A job is stopped, listed, continued in the background and ended. It stops at `wait`: a shell that starts
    // a program by vfork cannot be stopped before that program runs, with or without a fence.
    person.presses("sh -c 'sleep 1000 & echo stop-$((1 + 1)); wait'\n");
    person.sees("stop-2");
    person.presses("\u{1a}");
    person.sees("Stopped");
    person.presses("bg; jobs -r | sed s/^/now:/; kill %1; wait; echo done-$((1 + 1))\n");
    person.sees("now:[1]");
    person.sees("done-2");
    // Ctrl-C ends what runs and not the shell. It is the program that speaks: a shell that is about to start one
    // may keep the signal until that has ended, with or without a fence.
    person.presses("echo wait-$((1 + 1)) > /tmp/w; tail -f /tmp/w\n");
    person.sees("wait-2");
    person.presses("\u{3}");
    person.sees("^C");
    person.presses("echo after-$?\n");
    person.sees("after-130");
    person.resizes(51, 133);
    person.presses("until [ \"$(stty size)\" = '51 133' ]; do sleep 0.05; done; echo size-$((50 + 1))\n");
    person.sees("size-51");
    person.presses("exit 7\n");
    let (code, screen) = person.leaves();
    assert_eq!(code, 7, "{screen}");
}

#[test]
fn what_is_typed_is_advised_on_and_nothing_else_changes() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let mut person = Person::at_terminal(&room, &["shell"]);
    person.presses("PS1='rea''dy> '\n");
    person.sees("ready> ");
    // A command that an agent would have to ask about is advised against and runs: the fence is what holds.
    person.presses("git push --force; echo code-$((1 + 1))\n");
    person.sees("advice: an agent would have to ask first: the history that others have is replaced");
    person.sees("code-2");
    person.presses("echo 'x=1' > sub.sh; cd /usr; rm -rf bin/env; echo gone-$((1 + 1))\n");
    // One that an agent would be refused waits for a yes.
    person.sees("an agent would be refused this: `/usr/bin/env` must not be removed");
    person.answers("o");
    person.sees("gone-2");
    // Relative to where the shell is now.
    person.presses("rm -rf lib/locale-no; echo there-$((1 + 1))\n");
    person.sees("`/usr/lib/locale-no` must not be removed");
    person.answers("o");
    person.sees("there-2");
    // Without a yes nothing of the line runs, and the shell goes on.
    person.presses("echo 'mine' > kept; rm -rf ~ kept; echo lost-$((1 + 1))\n");
    person.sees("is a whole home directory");
    person.answers("d");
    person.sees("^C");
    person.presses("echo stays-$((1 + 1))\n");
    person.sees("stays-2");
    assert!(!person.screen().contains("lost-2"), "{}", person.screen());
    // Several lines are one command.
    person.presses("if true; then\nsudo true\nfi; echo if-$((1 + 1))\n");
    person.sees("[privilege/");
    person.answers("o");
    person.sees("if-2");
    // State of the shell that every command sees.
    person.presses("false\n");
    person.presses("echo status-$?-$_; cd ~-\n");
    person.sees("status-1-false");
    person.presses("(exit 3) | true\n");
    person.presses("echo pipe-${PIPESTATUS[0]}\n");
    person.sees("pipe-3");
    person.presses("set -x; : traced\n");
    person.presses("set +x; history 2 | sed 's/^ *[0-9]* */was:/'\n");
    person.sees("was:set -x; : traced");
    person.presses("exit 7\n");
    let (code, screen) = person.leaves();
    assert_eq!(code, 7, "{screen}");
    assert_eq!(
        (screen.matches("ringfence: advice").count(), screen.matches("ringfence asks").count()),
        (1, 4),
        "ordinary work is not talked about:\n{screen}"
    );
    for ours in ["7791", "HISTTIMEFORMAT", "history 1"] {
        assert!(!screen.contains(ours), "{ours} is not for the person:\n{screen}");
    }
}

#[test]
fn a_person_without_a_gate_gets_no_advice() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    room.configure(r#"{ "safety": { "gate": "off" } }"#);
    let mut person = Person::at_terminal(&room, &["shell"]);
    person.presses("git push --force; echo code-$((1 + 1))-${PS0-unset}\n");
    person.sees("code-2-unset");
    person.presses("exit\n");
    let (_, screen) = person.leaves();
    assert!(!screen.contains("advice"), "{screen}");
}
