//! Was it the fence, or did the command fail for its own reasons? A table of commands with the right answer.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::suite::fence_support::{Launcher, for_every_launcher, is_root};
use crate::suite::support::Room;

const TABLE: &str = include_str!("../data/verdicts.tsv");

for_every_launcher! { no_verdict_is_wrong }

#[derive(Debug)]
struct Row {
    verdict: Verdict,
    command: &'static str,
    /// The code of what a launcher says that it does not hold, and the verdict there.
    unless: Option<(&'static str, Verdict)>,
}

#[derive(Debug, Clone, Copy)]
struct Verdict {
    blocked: bool,
    resource: &'static str,
}

impl Verdict {
    fn of(verdict: &'static str, resource: &'static str) -> Self {
        assert!(["blocked", "free"].contains(&verdict), "{verdict}");
        Self { blocked: verdict == "blocked", resource }
    }
}

fn rows() -> Vec<Row> {
    let me = if is_root() { "root" } else { "user" };
    TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let (who, verdict, command, unless) = match fields[..] {
                [who, verdict, resource, command] => (who, Verdict::of(verdict, resource), command, None),
                [who, verdict, resource, command, code, there, instead] => {
                    let unless = Some((code, Verdict::of(there, instead)));
                    (who, Verdict::of(verdict, resource), command, unless)
                }
                _ => panic!("neither four nor seven fields: {line}"),
            };
            assert!(["both", "root", "user"].contains(&who), "{line}");
            (who == "both" || who == me).then_some(Row { verdict, command, unless })
        })
        .collect()
}

/// A home with secrets, a project with files of every kind, and a place that no rule mentions.
fn world(launcher: Launcher) -> (Room, TcpListener) {
    let room = Room::on(launcher);
    for (path, content) in [
        ("../.ssh/id_rsa", "KEY"),
        ("../.aws/credentials", "KEY"),
        ("../.docker/config.json", "{}"),
        ("../.kube/config", "KEY"),
        ("../.gnupg/key", "KEY"),
        ("../.npmrc", "KEY"),
        ("../.netrc", "KEY"),
        ("../.git-credentials", "KEY"),
        ("../letter.txt", "dear"),
        ("../.bashrc", ""),
        ("../.gitconfig", "[user]\n\tname = Me\n\temail = me@example.com\n"),
        ("../../outside/diary", "dear"),
        ("../../outside/tool", "#!/bin/sh\n"),
        (".env", "SECRET=1"),
        (".env.local", "SECRET=1"),
        ("app/.env", "SECRET=1"),
        ("credentials.json", "{}"),
        ("config/secrets.yaml", "a: b"),
        ("note.txt", "note\n"),
        ("src/main.c", "int main;\n"),
        ("closed", "x"),
        ("closed_dir/x", "x"),
        ("readonly/file", "x"),
        ("run.sh", "#!/bin/sh\n"),
        (".git/config", "[core]\n\trepositoryformatversion = 0\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/hooks/pre-commit.sample", ""),
        (".vscode/settings.json", "{}"),
    ] {
        room.write(path, content);
    }
    for directory in [".git/objects", ".git/refs/heads"] {
        std::fs::create_dir_all(room.project.join(directory)).unwrap();
    }
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(&room.project.join("../../outside/tool"), 0o755);
    for (name, bits) in [("closed", 0), ("closed_dir", 0), ("readonly", 0o555)] {
        mode(&room.project.join(name), bits);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (room, listener)
}

fn reopen(room: &Room) {
    for name in ["closed_dir", "readonly"] {
        let _ = std::fs::set_permissions(room.project.join(name), PermissionsExt::from_mode(0o755));
    }
}

fn judge(launcher: Launcher, row: &Row) -> Option<String> {
    let (room, listener) = world(launcher);
    let port = listener.local_addr().unwrap().port().to_string();
    let outside = room.home.parent().unwrap().join("outside").display().to_string();
    let fill = |text: &str| {
        text.replace("{home}", &room.home.display().to_string())
            .replace("{project}", &room.project.display().to_string())
            .replace("{outside}", &outside)
            .replace("{port}", &port)
            .replace("{marker}", "no-such-name")
    };
    let ran = room.fenced(&fill(row.command));
    reopen(&room);
    let verdict = match row.unless {
        Some((code, instead)) if !ran.promises(code) => instead,
        _ => row.verdict,
    };
    let resource = verdict.blocked.then(|| fill(verdict.resource));
    let right = ran.blocked == verdict.blocked && ran.resource == resource;
    (!right).then(|| {
        format!(
            "{}\n    wanted {resource:?}, got {:?}; exit {}, stderr {:?}, refused {:?}",
            row.command,
            ran.resource,
            ran.code,
            ran.stderr,
            ran.resources()
        )
    })
}

fn no_verdict_is_wrong(launcher: Launcher) {
    let rows = rows();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(problem) = judge(launcher, row) {
                        wrong.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} verdicts are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn the_table_is_large_and_balanced() {
    let rows = rows();
    let blocked = rows.iter().filter(|row| row.verdict.blocked).count();
    assert!(rows.len() >= 200, "{}", rows.len());
    assert!(blocked >= 100 && rows.len() - blocked >= 100, "{blocked} of {}", rows.len());
}
