//! Races against the look that is taken at a call before it is made.
//!
//! Another thread changes the path in memory, or the directories it leads through, while the supervisor
//! judges the call. Names that did not exist at the start are refused by its verdict alone; so it makes such
//! calls itself, and Landlock refuses them to everybody inside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::suite::fence_support::{Fenced, Launcher, RACES, for_every_launcher, names, wait_until};
use crate::suite::support::Room;

for_every_launcher! {
    no_race_creates_a_protected_name,
    no_race_of_directories_creates_a_protected_name,
    who_waits_for_a_denied_name_does_not_read_it,
    no_race_reads_a_denied_file_that_came_later,
    names_that_come_and_go_stop_no_start,
    two_sandboxes_make_no_repository_together,
}

const RACES_OF_ONE_NAME: [&str; 13] = [
    "create",
    "mkdir",
    "rename",
    "link",
    "symlink",
    "fifo",
    "exchange",
    "tmpfile",
    "openat2",
    "how",
    "from-tmp",
    "from-null",
    "ringfence",
];

const PATIENCE: Duration = Duration::from_secs(30);

/// How long a race is run. bwrap only builds the mounts; what races are run against is the same.
fn seconds(launcher: Launcher) -> f32 {
    match launcher {
        Launcher::Native | Launcher::Landlock => 1.0,
        Launcher::Bwrap => 0.5,
    }
}

/// How often the helper tried.
#[track_caller]
fn tries(ran: &Fenced) -> u64 {
    let number = ran.stdout.split_whitespace().next().and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{ran:?}"))
}

#[test]
fn the_helper_wins_where_nobody_looks() {
    for race in RACES_OF_ONE_NAME {
        let directory = tempfile::tempdir().unwrap();
        for name in [".git", ".ringfence"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        // Exchanging needs something to exchange with.
        if race == "exchange" {
            std::fs::write(directory.path().join(".git/config"), "").unwrap();
            std::fs::write(directory.path().join("source"), "evil").unwrap();
        }
        let won = || {
            RACES.unfenced(&[race, "0.1"], directory.path());
            [".git", ".ringfence"].iter().any(|name| !names(&directory.path().join(name)).is_empty())
        };
        assert!(wait_until(PATIENCE, won), "{race}");
    }
}

fn no_race_creates_a_protected_name(launcher: Launcher) {
    for race in RACES_OF_ONE_NAME {
        let room = Room::on(launcher);
        room.helper(&RACES);
        // In a tree that was there before: settings of one that is made inside are the work.
        for name in ["n/.git", "n/.ringfence"] {
            std::fs::create_dir_all(room.project.join(name)).unwrap();
        }
        let ran = room.fenced(&format!("cd n; ../races {race} {}", seconds(launcher)));
        assert!(tries(&ran) > 20, "{race}: {ran:?}");
        let mut made = [".git", ".ringfence"].map(|name| names(&room.project.join("n").join(name)));
        // Some tools make it and leave it empty; what were in it would be named too.
        let hooks = room.project.join("n/.git/hooks");
        made[0].retain(|path| *path != hooks || !hooks.is_dir());
        assert!(made.iter().all(Vec::is_empty), "{race}: {made:?}\n{ran:?}");
    }
}

/// A name that is looked at while it is not there, and opened when it is.
fn who_waits_for_a_denied_name_does_not_read_it(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&RACES);
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    // Not before it runs: a launch that meets a name and misses it later may fail, which is another matter.
    let come_and_go = || {
        wait_until(PATIENCE, || room.project.join("ready").exists());
        while !over.load(Ordering::Relaxed) && begun.elapsed() < 4 * PATIENCE {
            room.write("new", "canary");
            std::fs::rename(room.project.join("new"), room.project.join(".env")).unwrap();
            std::thread::sleep(Duration::from_micros(300));
            std::fs::remove_file(room.project.join(".env")).unwrap();
        }
    };
    let (fenced, unfenced) = std::thread::scope(|scope| {
        scope.spawn(come_and_go);
        let fenced = room.fenced("touch ready; ./races poll 2");
        let won = || !RACES.unfenced(&["poll", "0.1"], &room.project).contains(" 0 leaks");
        let unfenced = wait_until(PATIENCE, won);
        over.store(true, Ordering::Relaxed);
        (fenced, unfenced)
    });
    assert!(unfenced, "the helper reads nothing outside either");
    assert!(tries(&fenced) > 20 && fenced.stdout.contains(" 0 leaks"), "{fenced:?}");
}

/// Another name in memory: of the project, of the system, of `/proc`, and of a place of the sandbox's own, where
/// it looks like something that writes. Another link of one name, and two links that change places.
const READS_OF_WHAT_CAME_LATER: [&str; 7] =
    ["read", "read-from-usr", "read-from-proc", "read-create", "read-openat2", "read-link", "read-exchange"];

/// What came after the start has no mask, and one that it gets at the first look goes whenever it is replaced.
fn no_race_reads_a_denied_file_that_came_later(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&RACES);
    room.write("okay", "fine");
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let replace_again_and_again = || {
        wait_until(PATIENCE, || room.project.join("ready").exists());
        while !over.load(Ordering::Relaxed) && begun.elapsed() < 8 * PATIENCE {
            room.write("new", "canary");
            std::fs::rename(room.project.join("new"), room.project.join(".env")).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let races =
        READS_OF_WHAT_CAME_LATER.map(|race| format!("./races {race} {}; ", seconds(launcher))).concat();
    let (fenced, unfenced) = std::thread::scope(|scope| {
        scope.spawn(replace_again_and_again);
        let fenced = room.fenced(&format!("touch ready; ln -s .env first; ln -s okay second; {races}"));
        let wins = |race: &&str| {
            let won = || !RACES.unfenced(&[*race, "0.1"], &room.project).contains(" 0 leaks");
            !wait_until(PATIENCE, won)
        };
        let unfenced: Vec<&str> = READS_OF_WHAT_CAME_LATER.into_iter().filter(wins).collect();
        over.store(true, Ordering::Relaxed);
        (fenced, unfenced)
    });
    assert!(unfenced.is_empty(), "the helper reads nothing outside either: {unfenced:?}");
    let tries: Vec<u64> =
        fenced.stdout.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    assert!(
        tries.len() == READS_OF_WHAT_CAME_LATER.len() && tries.iter().all(|tries| *tries > 20),
        "{fenced:?}"
    );
    assert_eq!(fenced.stdout.matches(" 0 leaks").count(), READS_OF_WHAT_CAME_LATER.len(), "{fenced:?}");
}

/// Denied files and whole repositories that are there when the fence is planned, and gone when it is built.
fn names_that_come_and_go_stop_no_start(launcher: Launcher) {
    const STARTS: usize = 25;
    let room = Room::on(launcher);
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let come_and_go = || {
        while !over.load(Ordering::Relaxed) && begun.elapsed() < 8 * PATIENCE {
            for (name, content) in [
                (".env", "canary"),
                ("sub/.env", "canary"),
                ("repository/.git/config", "[core]\n"),
                ("repository/.git/hooks/x", ""),
            ] {
                // What bwrap makes in the place of a file that vanished cannot be written until it is removed again.
                let path = room.project.join(name);
                let written = || {
                    std::fs::create_dir_all(path.parent().unwrap()).is_ok()
                        && std::fs::write(&path, content).is_ok()
                };
                assert!(wait_until(PATIENCE, written), "{name}");
            }
            std::thread::sleep(Duration::from_micros(700));
            let _ = std::fs::remove_file(room.project.join(".env"));
            for directory in ["sub", "repository"] {
                let _ = std::fs::remove_dir_all(room.project.join(directory));
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    };
    let ran: Vec<Fenced> = std::thread::scope(|scope| {
        scope.spawn(come_and_go);
        let read = "cat .env sub/.env 2>/dev/null; echo $((6 * 7))";
        let ran = (0..STARTS).map(|_| room.fenced(read)).collect();
        over.store(true, Ordering::Relaxed);
        ran
    });
    for ran in ran {
        assert_eq!(ran.stdout, "42\n", "{ran:?}");
    }
}

fn no_race_of_directories_creates_a_protected_name(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&RACES);
    let ran = room.fenced("mkdir -p n/.git n/other; cd n; ln -s .git door; ../races swap-create 3");
    assert!(tries(&ran) > 20, "{ran:?}");
    // The directory called .git may be the one that was called other; it holds no config either way.
    let made: Vec<_> =
        names(&room.project.join("n")).into_iter().filter(|path| path.ends_with(".git/config")).collect();
    assert!(made.is_empty(), "{made:?}\n{ran:?}");
}

/// Two processes that each do what may be done alone, at the same moment.
const TOGETHER: &str = r#"
import os, random, sys, time
me, rounds = sys.argv[1], int(sys.argv[2])
other = {"one": "two", "two": "one"}[me]
end = time.monotonic() + 60
def wait(name):
    while not os.path.exists(name) and time.monotonic() < end: os.sched_yield()
for i in range(rounds):
    d = "d%d" % i
    if me == "one":
        os.makedirs(d + "/refs")
        os.mkdir(d + "/hooks")
        open(d + "/HEAD", "w").write("ref: refs/heads/main\n")
    open("%s-%d" % (me, i), "w").close()
    wait("%s-%d" % (other, i))
    for _ in range(random.randrange(400)): pass
    try:
        if me == "one": os.mkdir(d + "/objects")
        elif i % 2: open(d + "/config", "w").write("[core]\n\tfsmonitor = evil\n")
        else: open(d + "/hooks/post-index-change", "w").write("evil")
    except OSError: pass
print("done" if time.monotonic() < end else "late")
"#;

/// One makes a directory a repository, the other puts something there that git believes: neither was looking at what the
/// other was about to do.
fn two_sandboxes_make_no_repository_together(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("work.py", TOGETHER);
    let rounds = 300;
    let [one, two] = std::thread::scope(|scope| {
        ["one", "two"]
            .map(|me| {
                let room = &room;
                scope.spawn(move || room.fenced(&format!("python3 work.py {me} {rounds}")))
            })
            .map(|ran| ran.join().unwrap())
    });
    assert!(one.stdout == "done\n" && two.stdout == "done\n", "{one:?} {two:?}");
    let has = |round: usize, name: &str| {
        let text = std::fs::read_to_string(room.project.join(format!("d{round}/{name}")));
        text.is_ok_and(|text| text.contains("evil"))
    };
    let (mut repositories, mut evil, mut both) = (0, 0, Vec::new());
    for round in 0..rounds {
        let is_whole = room.project.join(format!("d{round}/objects")).exists();
        let is_evil = has(round, "config") || has(round, "hooks/post-index-change");
        repositories += usize::from(is_whole);
        evil += usize::from(is_evil);
        if is_whole && is_evil {
            both.push(round);
        }
    }
    assert!(both.is_empty(), "{both:?}");
    // Both were tried, and each came first now and then.
    assert!(repositories > 0 && evil > 0, "{repositories} {evil}");
}
