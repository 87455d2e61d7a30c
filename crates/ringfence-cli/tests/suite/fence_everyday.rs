//! Everyday work, offline and unchanged, inside: normal work is never disturbed.

use std::path::{Path, PathBuf};

use crate::suite::fence_support::{Fenced, Launcher, for_every_launcher, has};
use crate::suite::support::Room;

for_every_launcher! {
    who_opens_files_stays_free_to_run_anywhere,
    what_another_user_keeps_closed_is_no_hindrance,
    who_hides_its_memory_opens_and_removes_files,
    what_goes_with_the_private_home_is_named,
    threads_make_the_same_directories_at_once,
}

/// Runs shell text that must succeed, without any refusal that would trouble a person.
#[track_caller]
fn works(room: &Room, text: &str) -> Fenced {
    let ran = room.everyday(&format!("set -e\n{text}"));
    assert_eq!(ran.code, 0, "{}\n{}\n{:?}", ran.stdout, ran.stderr, ran.resources());
    assert!(!ran.blocked, "{:?}", ran.json["violations"]);
    ran
}

fn what_goes_with_the_private_home_is_named(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("../kept.txt", "of the host");
    let run = |text: &str| room.run(&["run", "--launcher", launcher.name(), "--no-gate", "-c", text]);
    let ran = run(
        "mkdir ~/out && echo x > ~/out/result; echo y > ~/.cache-of-a-tool; touch ~/empty; echo z > here",
    );
    let lost = ran.stderr.lines().find(|line| line.contains("gone with it"));
    // Where the home directory is no private one, nothing could be written to it.
    if room.fenced("true").json["sandbox"]["adapter"] == "local/landlock" {
        assert_eq!(lost, None, "{ran:?}");
        return;
    }
    let lost = lost.unwrap_or_default();
    assert!(lost.contains(&room.home.join("out/result").display().to_string()), "{ran:?}");
    assert!(lost.contains("--allow-write") && !lost.contains("cache") && !lost.contains("kept"), "{ran:?}");
    assert!(!run("true").stderr.contains("gone with it"));
}

/// As runtimes with many threads do when they start: each makes what is missing above its own directory.
fn threads_make_the_same_directories_at_once(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        r#"python3 - <<'E'
import os, shutil, threading
bad = []
def make(path):
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        make(os.path.dirname(path))
        make(path)
    except OSError as error:
        bad.append(error)
for turn in range(40):
    start = threading.Barrier(6)
    def go(number):
        start.wait()
        make(f"made/{number % 3}/a/{number % 2}")
    threads = [threading.Thread(target=go, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    shutil.rmtree("made")
print(bad)
E"#,
    );
    assert_eq!(ran.stdout, "[]\n", "{ran:?}");
}

#[test]
fn git_from_init_to_worktree() {
    if !has("git", &["--version"]) {
        return;
    }
    let room = Room::new();
    room.write("../.gitconfig", "[user]\n\tname = Me\n\temail = me@example.com\n");
    let ran = works(
        &room,
        "git init -q repo; cd repo; git status --porcelain; echo a > a; git add a; git commit -qm one
        git status --porcelain; git branch topic; git checkout -q topic; echo b >> a; git commit -qam two
        git checkout -q -; git merge -q topic; git tag v1; git log --format=%s%d | wc -l; git diff HEAD~1 --stat
        git stash list; echo c > c; git add c; git stash -q; git stash pop -q; git rm -qf c; git mv a b; git commit -qm three
        git worktree add -q ../wt topic; cd ../wt; git log -1 --format=%s; echo w > w; git add w; git commit -qm four; git status --porcelain
        cd ../repo; git worktree list | wc -l; git worktree remove ../wt; git rebase -q topic; git gc -q; git fsck
        git clone -q . ../clone; cd ../clone; git pull -q; git log --oneline | wc -l; git grep -c b; git blame b | wc -l",
    );
    assert!(ran.stdout.contains("two"), "{}", ran.stdout);
    assert!(!room.project.join("wt").exists());
    assert!(room.project.join("clone/.git/HEAD").exists());
}

#[test]
fn git_in_a_worktree_of_a_repository_elsewhere() {
    if !has("git", &["--version"]) {
        return;
    }
    let room = Room::new();
    room.write("../.gitconfig", "[user]\n\tname = Me\n\temail = me@example.com\n");
    let host = |text: &str| {
        let output = std::process::Command::new("bash")
            .args(["-ec", text])
            .current_dir(&room.home)
            .env("HOME", &room.home)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    host(
        "git init -q main; cd main; echo a > a; git add a; git commit -qm one; rmdir ../project; git worktree add -q ../project",
    );
    works(
        &room,
        "git status --porcelain; echo b > b; git add b; git commit -qm two; git log --format=%s | head -1",
    );
    host("cd main; git log --all --format=%s | grep -q two");
}

#[test]
fn cargo_builds_and_tests() {
    if !has("cargo", &["--version"]) || !has("gcc", &["--version"]) {
        return;
    }
    let room = Room::new();
    room.write("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    room.write("src/main.rs", "fn main() { println!(\"{}\", small::twice(21)); }\n");
    room.write(
        "src/lib.rs",
        "/// ```\n/// assert_eq!(small::twice(1), 2);\n/// ```\npub fn twice(n: u32) -> u32 { n * 2 }\n\
         #[test] fn it_holds() { assert_eq!(twice(2), 4); }\n",
    );
    room.write("build.rs", "fn main() { println!(\"cargo:rerun-if-changed=build.rs\"); }\n");
    let mut command = room.command(&[
        "run",
        "--json",
        "-c",
        "cargo build --offline && cargo run -q --offline && cargo test --offline",
    ]);
    for name in ["RUSTUP_HOME", "CARGO_HOME"] {
        let own = std::env::var_os(name).map(PathBuf::from);
        let default = || {
            Some(
                Path::new(&std::env::var_os("HOME")?)
                    .join(format!(".{}", name[..name.len() - 5].to_lowercase())),
            )
        };
        if let Some(value) = own.or_else(default) {
            command.env(name, value);
        }
    }
    let ran = crate::suite::support::Ran::of(command.output().unwrap());
    let json = ran.json();
    assert_eq!(json["exitCode"], 0, "{json}");
    assert!(json["stdout"].as_str().unwrap().starts_with("42\n"), "{json}");
    assert_eq!(json["blocked"], false, "{json}");
    assert!(room.project.join("target/debug/small").exists());
}

#[test]
fn python_makes_an_environment_and_runs_tests() {
    if !has("python3", &["-c", "import venv, ensurepip"]) {
        return;
    }
    let room = Room::new();
    room.write(
        "test_sum.py",
        "import unittest\nclass T(unittest.TestCase):\n  def test_sum(self): self.assertEqual(1+1, 2)\n",
    );
    let ran = works(
        &room,
        "python3 -m unittest 2>&1 | tail -1; python3 -m venv env; . env/bin/activate; python -c 'import sys; print(sys.prefix)'
        pip --version | cut -d' ' -f1; python -m unittest -q 2>&1 | tail -1; python -c 'import multiprocessing as m; print(sum(m.Pool(2).map(abs, [-1, -2])))'
        python -c 'import tempfile, sqlite3, ssl, threading, asyncio; asyncio.run(asyncio.sleep(0)); print(tempfile.mkdtemp()[:5])'",
    );
    assert!(ran.stdout.contains("OK\n") && ran.stdout.contains("/env\npip\n"), "{}", ran.stdout);
}

#[test]
fn node_and_npm_run_scripts() {
    if !has("node", &["--version"]) || !has("npm", &["--version"]) {
        return;
    }
    let room = Room::new();
    room.write(
        "package.json",
        "{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node test.js\"}}",
    );
    room.write("test.js", "require('assert').equal(require('./lib').twice(2), 4); console.log('fine')\n");
    room.write("lib.js", "exports.twice = n => n * 2\n");
    let ran = works(
        &room,
        "node -e 'console.log(process.cwd())'; npm test 2>&1 | tail -1
        node -e 'const w=require(\"worker_threads\"),c=require(\"child_process\");console.log(c.execSync(\"echo sub\")+\"\")'
        node -e 'const h=require(\"http\").createServer((q,r)=>r.end(\"local\")).listen(0,()=>require(\"http\").get({port:h.address().port},r=>r.on(\"data\",d=>{console.log(d+\"\");h.close()})))'",
    );
    assert!(ran.stdout.contains("fine\n") && ran.stdout.contains("local\n"), "{}", ran.stdout);
}

#[test]
fn make_and_a_compiler() {
    if !has("make", &["--version"]) || !has("gcc", &["--version"]) {
        return;
    }
    let room = Room::new();
    room.write("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
    room.write(
        "Makefile",
        "hello: hello.o\n\tgcc -o $@ $^\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\nclean:\n\trm -f hello hello.o\n",
    );
    let ran = works(&room, "make -j2 -s; ./hello; make -s; touch hello.c; make -s; make -s clean; ls");
    assert_eq!(ran.stdout, "hello\nMakefile\nhello.c\n");
}

#[test]
fn the_shell_in_all_its_forms() {
    let room = Room::new();
    let ran = works(
        &room,
        r#"seq 1000 | sort -rn | head -3 | tr '\n' ' '; diff <(seq 3) <(seq 3) && echo same; cat <(echo a) <(echo b) | paste -sd,
        seq 5 | tee >(wc -l > count) > /dev/null; sleep 0.1; cat count; t=$(mktemp); echo x > "$t"; cat "$t"; d=$(mktemp -d); ls -d "$d" > /dev/null
        cat <<END
here $((6*7))
END
        cat <<<"string"; echo out > /dev/stdout; echo err > /dev/stderr; mkfifo f; (echo fifo > f &) ; cat f; rm f
        coproc C { cat; }; echo co >&"${C[1]}"; read -r l <&"${C[0]}"; echo "$l"; kill %1 2>/dev/null || true
        exec 5<>rw; echo rw >&5; exec 5>&-; cat rw; trap 'echo bye' EXIT; a=(1 2 3); echo "${a[@]:1}"; printf '%s\n' "${!a[@]}" | wc -l
        find . -name rw | xargs ls; awk 'BEGIN { print 2^10 }'; sed -n 1p rw; grep -c rw rw; echo *; date +%s | grep -qE '^[0-9]+$'; id -u > /dev/null"#,
    );
    let want = "1000 999 998 same\na,b\n5\nx\nhere 42\nstring\nout\nfifo\nco\nrw\n2 3\n3\n./rw\n1024\nrw\n1\ncount rw\nbye\n";
    assert_eq!(ran.stdout, want, "{}", ran.stderr);
    assert_eq!(ran.stderr, "err\n");
}

/// A writer that comes and goes at once, before its reader really waits, is not missed.
#[test]
fn readers_of_named_pipes_meet_every_writer() {
    let room = Room::new();
    let ran = works(
        &room,
        "mkfifo f; for i in $(seq 100); do (echo $i > f &); timeout 30 cat f || exit 9; done | tail -1",
    );
    assert_eq!(ran.stdout, "100\n", "{}", ran.stderr);
}

#[test]
fn a_database() {
    if !has("sqlite3", &["--version"]) {
        return;
    }
    let room = Room::new();
    let ran = works(
        &room,
        "sqlite3 db 'pragma journal_mode=wal; create table t(a); insert into t values (1),(2); select sum(a) from t;'
        for i in 1 2 3 4; do sqlite3 db \".timeout 5000\" \"insert into t values ($i)\" & done; wait; sqlite3 db 'select count(*) from t; pragma integrity_check'",
    );
    assert_eq!(ran.stdout, "wal\n3\n6\nok\n");
}

#[test]
fn a_thousand_forks() {
    let room = Room::new();
    let ran = works(
        &room,
        "for i in $(seq 1000); do /bin/true; done; for i in $(seq 200); do true & done; wait; echo done",
    );
    assert_eq!(ran.stdout, "done\n");
}

#[test]
fn a_file_of_one_gibibyte() {
    let room = Room::new();
    let ran = works(&room, "head -c 1G /dev/zero > big; stat -c '%s %b' big; rm big");
    let (size, blocks) = ran.stdout.trim().split_once(' ').unwrap();
    assert_eq!(size, "1073741824");
    assert!(blocks.parse::<u64>().unwrap() * 512 >= 1 << 30, "{blocks}");
}

#[test]
fn archives_there_and_back() {
    let room = Room::new();
    room.write("tree/a/b", "one");
    room.write("tree/c", "two");
    works(
        &room,
        "chmod 750 tree/c; ln -s a tree/l; tar czf t.tgz tree; mkdir x; tar xzf t.tgz -C x; diff -r tree x/tree
        [ $(stat -c %a x/tree/c) = 750 ]; [ -L x/tree/l ]; tar cf - tree | (mkdir y; tar xf - -C y); diff -r tree y/tree; cp -a tree z; diff -r tree z
        [ \"$(ls tree/l)\" = b ]; [ \"$(ls tree/l/)\" = b ]; [ \"$(cd tree; find l/ -name b)\" = l/b ]",
    );
    if has("zip", &["-v"]) && has("unzip", &["-v"]) {
        works(&room, "zip -qr t.zip tree; mkdir w; unzip -q t.zip -d w; diff -r tree/a w/tree/a");
    }
}

#[test]
fn programs_that_look_around_are_not_troubled() {
    let room = Room::new();
    let ran = works(
        &room,
        "ls -la / > /dev/null; ls -la > /dev/null; df . > /dev/null; uname -a > /dev/null; nproc > /dev/null; whoami > /dev/null || id -u > /dev/null
        ps > /dev/null 2>&1 || true; du -s . > /dev/null; file /bin/ls > /dev/null 2>&1 || true; find . > /dev/null; stat . > /dev/null; env > /dev/null
        locale > /dev/null 2>&1 || true; tty || true; stty -a > /dev/null 2>&1 || true; free > /dev/null 2>&1 || true; perl -e 'print \"perl\\n\"'",
    );
    assert!(ran.stdout.ends_with("perl\n"), "{}", ran.stdout);
}

#[test]
fn a_result_does_not_fill_the_memory_of_its_reader() {
    const KEPT: usize = 10 << 20;
    let room = Room::new();
    let ran = room.run(&["run", "--json", "-c", "head -c 64M /dev/zero | tr '\\0' x"]).expect(0).json();
    let stdout = ran["stdout"].as_str().unwrap();
    assert_eq!(ran["truncated"], true);
    assert!(stdout.len() > KEPT && stdout.len() < KEPT + 100, "{} bytes are kept", stdout.len());
    assert_eq!(ran["violations"], serde_json::json!([]), "nobody set a limit that could be reached");
}

/// Who opens one file after the other is kept on no processor for that.
fn who_opens_files_stays_free_to_run_anywhere(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("plain", "");
    room.write(
        "look.py",
        "import os, threading
def after_opens(look):
    for _ in range(50): os.close(os.open('plain', os.O_RDONLY))
    look()
def say(): os.write(1, b'%d\\n' % len(os.sched_getaffinity(0)))
def fork():
    child = os.fork()
    if child == 0:
        say()
        os._exit(0)
    os.waitpid(child, 0)
def thread():
    other = threading.Thread(target=say)
    other.start()
    other.join()
def status(name):
    with open(name) as status:
        os.write(1, next(line for line in status if line.startswith('Cpus_allowed_list')).encode())
os.symlink('/proc/self/status', 'link')
for look in [say, fork, thread, lambda: status('/proc/self/status'), lambda: status('link'), lambda: os.system('nproc')]: after_opens(look)
os.unlink('link')
",
    );
    let outside = std::process::Command::new("python3").arg("look.py").current_dir(&room.project).output();
    let ran = room.fenced("python3 look.py");
    assert_eq!(ran.stdout, String::from_utf8_lossy(&outside.unwrap().stdout), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 6);
}

/// As agents of keys do. For an ordinary user that also hides what it has open.
fn who_hides_its_memory_opens_and_removes_files(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("plain", "content");
    room.write(
        "hide.py",
        "import ctypes, os
PR_SET_DUMPABLE = 4
assert ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
here = os.open('.', os.O_RDONLY)
os.mkdir('made', dir_fd=here)
inside = os.open('made', os.O_RDONLY, dir_fd=here)
os.close(os.open('file', os.O_CREAT | os.O_WRONLY, dir_fd=inside))
os.unlink('file', dir_fd=inside)
os.rmdir('made', dir_fd=here)
print(os.read(os.open('plain', os.O_RDONLY, dir_fd=here), 100).decode())
",
    );
    let ran = room.fenced("python3 hide.py");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "content\n"), "{ran:?}");
}

#[test]
fn a_home_in_the_project_is_no_hindrance() {
    let room = Room::new();
    let home = room.project.join("home");
    std::fs::create_dir_all(home.join(".ringfence")).unwrap();
    for precision in ["full", "writes", "off"] {
        let mut command = room.command(&["run", "--no-gate", "--precision", precision, "--", "echo", "ran"]);
        let output = command.env("HOME", &home).env_remove("RINGFENCE_HOME").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{precision}: {output:?}");
    }
}

/// Root sees a socket there, and its sandbox could not cover it.
fn what_another_user_keeps_closed_is_no_hindrance(launcher: Launcher) {
    // Who is not root does not see what is in it, on the host either.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let room = Room::on(launcher);
    let shown = room.home.join("shown");
    let closed = shown.join("closed");
    std::fs::create_dir_all(closed.join("deeper")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(closed.join("deeper/agent.sock")).unwrap();
    std::fs::write(closed.join(".env"), "SECRET=1").unwrap();
    for path in [closed.join("deeper"), closed.clone()] {
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&path, Some(54321), Some(54321)).unwrap();
    }
    let text = format!("ls {0}; cat {0}/closed/.env; ls {0}/closed/deeper; true", shown.display());
    let ran = room.fenced_with(&["--allow-read", shown.to_str().unwrap()], &text);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "closed\n"), "{ran:?}");
}
