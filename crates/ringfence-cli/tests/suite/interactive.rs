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
    // Ctrl-C ends what runs and not the shell.
    person.presses("sh -c 'echo wait-$((1 + 1)); sleep 1000'\n");
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
