//! Random work inside, judged by those who would be fooled: real git for what runs later, the bytes themselves for what is
//! denied and protected.
//!
//! A run of each is short and the same every time. For longer ones:
//! `RINGFENCE_ORACLE_SECONDS=3600 cargo test -p ringfence-cli --test all fence_oracle -- --nocapture`; the seed of a failure is
//! in its message, and `RINGFENCE_ORACLE_SEED=n` begins with it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::fence_git::runs_something;
use super::fence_settings::host;
use crate::suite::fence_support::{Launcher, for_every_launcher};
use crate::suite::support::Room;

for_every_launcher! {
    git_runs_nothing_after_random_work,
    nothing_denied_is_read_and_nothing_protected_changes,
}

/// Rounds for the suite, or as many as the time allows.
fn rounds(mut round: impl FnMut(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("RINGFENCE_ORACLE_SEED").unwrap_or(1);
    match number("RINGFENCE_ORACLE_SECONDS") {
        None => (first..first + 2).for_each(round),
        Some(seconds) => {
            let end = Instant::now() + Duration::from_secs(seconds);
            let mut seed = first;
            while Instant::now() < end {
                round(seed);
                seed += 1;
            }
        }
    }
}

/// Two processes that do random things to the same names, all of them git's, with a canary in each that can hold one.
const GITS: &str = include_str!("../data/oracle_git.py");
/// The same about names that are denied or protected, with threads that exchange paths and descriptors.
const SECRETS: &str = include_str!("../data/oracle_secrets.py");

/// A repository with a commit, and the work beside it.
fn repository(room: &Room) -> PathBuf {
    let project = room.project.join("p");
    std::fs::create_dir(&project).unwrap();
    host(
        &project,
        "git init -q -b main .; echo a > a; git add a; git commit -qm x; git branch b; rm -r .git/hooks",
    );
    room.write("work.py", GITS);
    project
}

fn git_runs_nothing_after_random_work(launcher: Launcher) {
    rounds(|seed| {
        let room = Room::on(launcher);
        let project = repository(&room);
        let ran = room.fenced(&format!(
            "cd p; python3 ../work.py {seed} 400 & python3 work.py {} 400; wait",
            seed + 1_000_000
        ));
        assert!(ran.stdout.contains("done"), "{ran:?}");
        host(&project, "chmod -R u+rwX . || true");
        assert!(!runs_something(&project), "seed {seed}, {}: {ran:?}", project.display());
    });
}

/// Without a fence the same work does make git run something, so the canary can be heard.
#[test]
fn the_oracle_hears_the_canary_without_a_fence() {
    let heard = (1..20).any(|seed| {
        let room = Room::new();
        let project = repository(&room);
        host(&project, &format!("python3 ../work.py {seed} 400 > /dev/null; chmod -R u+rwX . || true"));
        runs_something(&project)
    });
    assert!(heard);
}

fn nothing_denied_is_read_and_nothing_protected_changes(launcher: Launcher) {
    rounds(|seed| {
        let room = Room::on(launcher);
        room.write(".env", "canary-root");
        room.write("a/.env", "canary-deep");
        room.write("a/b/secrets.json", "canary-json");
        room.write(".git/hooks/pre-commit", "hook");
        room.write(".git/config", "[core]\n\trepositoryformatversion = 0\n");
        room.write(".vscode/settings.json", "settings");
        room.write("a/.claude/settings.json", "settings");
        room.write("work.py", SECRETS);
        let ran = room
            .fenced(&format!("python3 work.py {seed} 300 & python3 work.py {} 300; wait", seed + 1_000_000));
        assert!(ran.stdout.contains("done"), "{ran:?}");
        assert!(!ran.stdout.contains("canary-"), "seed {seed}: {ran:?}");
        let kept = "cat .env a/.env a/b/secrets.json .git/hooks/pre-commit .git/config .vscode/settings.json a/.claude/settings.json";
        let want =
            "canary-rootcanary-deepcanary-jsonhook[core]\n\trepositoryformatversion = 0\nsettingssettings";
        assert_eq!(host(&room.project, kept), want, "seed {seed}: {ran:?}");
        let new = host(&room.project, "ls -A .git/hooks .vscode a/.claude; grep -rl canary- . | sort");
        let known = ".git/hooks:\npre-commit\n\n.vscode:\nsettings.json\n\na/.claude:\nsettings.json\n./.env\n./a/.env\n./a/b/secrets.json\n./work.py\n";
        assert_eq!(new.replace("./work.py\n", ""), known.replace("./work.py\n", ""), "seed {seed}: {ran:?}");
    });
}
