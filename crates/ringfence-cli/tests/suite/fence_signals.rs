//! Signals that come while the supervisor is asked: no call that makes a process may return what it never returns on a
//! host. Other calls are interrupted only until they are received, which no test can count on; see the design.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::suite::fence_support::{Fenced, Launcher, SIGNALS, for_every_launcher};
use crate::suite::support::Room;

for_every_launcher! {
    nothing_that_makes_a_process_is_interrupted,
    dash_can_always_fork,
    make_always_hears_its_shell,
}

/// Runs on a machine that has something else to do.
fn under_load(room: &Room, text: &str) -> Fenced {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let ran = room.fenced(text);
        over.store(true, Ordering::Relaxed);
        ran
    })
}

fn nothing_that_makes_a_process_is_interrupted(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&SIGNALS);
    let ran = under_load(&room, "./signals 300 20000");
    let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split(' ').collect()).collect();
    for name in ["fork", "vfork", "clone", "thread", "affinity"] {
        let line = lines.iter().find(|line| line[0] == name).unwrap_or_else(|| panic!("{ran:?}"));
        assert_eq!(line[1..], ["300", "0", "0"], "{name}: {ran:?}");
    }
    // Interrupted or not, nothing else fails.
    assert!(lines.len() > 5 && lines.iter().all(|line| line[3] == "0"), "{ran:?}");
}

fn dash_can_always_fork(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("loop.sh", "i=0; while [ $i -lt 200 ]; do x=$(echo a | sed s/a/b/); [ \"$x\" = b ] || echo lost; i=$((i+1)); done");
    let ran = under_load(&room, "dash loop.sh");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""), "{ran:?}");
}

fn make_always_hears_its_shell(launcher: Launcher) {
    let room = Room::on(launcher);
    let values = "$(foreach n,1 2 3 4 5 6 7 8 9 10,$(shell echo a$(n) | sed s/a/b/))";
    room.write("Makefile", &format!("X := {values}\nY := {values}\nall:\n\t@echo $(X) $(Y) {values}\n"));
    let ran = under_load(&room, "make");
    let once = (1..=10).map(|n| format!("b{n}")).collect::<Vec<_>>().join(" ");
    assert_eq!(ran.stdout.trim(), [once.as_str(); 3].join(" "), "{ran:?}");
}
