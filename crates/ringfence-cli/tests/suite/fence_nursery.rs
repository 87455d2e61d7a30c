//! The small process that makes the sandboxes of a program that stays: what it is, what it has, and that nothing depends
//! on its life.

use std::process::{Child, Command};
use std::time::Duration;

use crate::suite::fence_support::wait_until;
#[cfg(feature = "mcp")]
use crate::suite::mcp_http::{Careless, Server};
use crate::suite::session::Session;
use crate::suite::support::Room;

/// A child of a process.
#[derive(Debug)]
struct Found {
    pid: i32,
    name: String,
    state: char,
    /// Bytes of memory that are mapped: a clone has as many as whoever it was cloned from.
    mapped: u64,
}

impl Found {
    fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.chars().next()?;
        // The 23rd field, of which the first three are behind us.
        let mapped = fields.nth(19)?.parse().ok()?;
        Some(Self { pid, name: name.to_owned(), state, mapped })
    }

    fn kill(&self) {
        assert!(Command::new("kill").args(["-KILL", &self.pid.to_string()]).status().unwrap().success());
        let has_ended = || Self::of(self.pid).is_none_or(|now| now.state == 'Z');
        assert!(wait_until(Duration::from_secs(20), has_ended), "{self:?}");
    }
}

/// Of all its threads.
fn children(of: &Child) -> Vec<Found> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", of.id())).unwrap().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    lists
        .flat_map(|list| {
            let pids = list.unwrap_or_default();
            pids.split_ascii_whitespace().filter_map(|pid| Found::of(pid.parse().ok()?)).collect::<Vec<_>>()
        })
        .collect()
}

fn named(of: &Child, name: &str) -> Vec<Found> {
    children(of).into_iter().filter(|child| child.name == name).collect()
}

fn the_nursery(of: &Child) -> Found {
    let mut found = named(of, "ringfence-nurse");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Half of what the program has, which has threads by now.
fn is_small(init: &Found, program: &Child) -> bool {
    init.mapped < Found::of(program.id().cast_signed()).unwrap().mapped / 2
}

#[test]
fn sandboxes_are_made_from_what_is_small() {
    let room = Room::new();
    let mut session = Session::start(&room);
    assert_eq!(session.run(1, "echo here")["stdout"], "here\n");
    let inits = named(&session.child, "ringfence-init");
    assert!(matches!(&inits[..], [init] if is_small(init, &session.child)), "{inits:?}");
    assert_eq!(session.end(), 0);
}

#[test]
fn it_has_no_descriptor_and_no_secret_of_the_program() {
    let room = Room::new();
    let secret = room.write("../secret", "canary of the file");
    let program = room.command(&["session"]);
    // bash leaves descriptor 9 open for what it starts.
    let mut command = Command::new("bash");
    command.args(["-c", "exec 9<\"$1\"; shift; exec \"$@\"", "bash"]).arg(&secret);
    command.arg(program.get_program()).args(program.get_args()).current_dir(&room.project).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("API_KEY", "canary of the environment");
    let mut session = Session::spawn(command);

    // In a file, so that the gate has nothing to ask about.
    let attack = "cat <&9; for f in /proc/self/fd/* /proc/1/fd/* /proc/$PPID/fd/*; do readlink $f; done; \
                  cat /proc/self/environ /proc/$PPID/environ";
    room.write("attack.sh", attack);
    session.run(1, "bash attack.sh > found 2>&1");
    let found = String::from_utf8_lossy(&std::fs::read(room.project.join("found")).unwrap()).into_owned();
    assert!(found.contains("PWD="), "{found}");
    assert!(!found.contains("canary") && !found.contains("/secret"), "{found}");

    let nursery = the_nursery(&session.child);
    let directory = std::fs::read_dir(format!("/proc/{}/fd", nursery.pid)).unwrap().flatten();
    let mut open: Vec<String> = directory
        .map(|entry| std::fs::read_link(entry.path()).unwrap().to_string_lossy().into_owned())
        .collect();
    open.sort();
    assert_eq!(open[..3], ["/dev/null"; 3], "{open:?}");
    assert!(matches!(&open[3..], [requests] if requests.starts_with("socket:")), "{open:?}");
    let environment = std::fs::read(format!("/proc/{}/environ", nursery.pid)).unwrap();
    assert!(environment.iter().all(|byte| *byte == 0), "{}", String::from_utf8_lossy(&environment));
    assert_eq!(session.end(), 0);
}

#[test]
fn sandboxes_are_made_without_it_when_it_is_gone() {
    let room = Room::new();
    let mut session = Session::start(&room);
    session.run(1, "touch before");
    the_nursery(&session.child).kill();
    let before = named(&session.child, "ringfence-init").remove(0);
    before.kill();
    // The shell ended with its sandbox, and is replaced.
    let told = session.run_anew("ls; echo there");
    assert_eq!(told["stdout"], "before\nthere\n", "{told}");
    let inits = named(&session.child, "ringfence-init");
    assert!(matches!(&inits[..], [init] if !is_small(init, &session.child)), "{inits:?}");
    // Those who clear up control groups are reaped by the next one that ends.
    let left: Vec<_> =
        children(&session.child).into_iter().filter(|child| child.name != "ringfence-clean").collect();
    assert!(left.iter().all(|child| child.state != 'Z'), "{left:?}");
    assert_eq!(session.end(), 0);
}

#[test]
fn it_ends_with_the_program_however_that_ends() {
    for killed in [false, true] {
        let room = Room::new();
        let mut session = Session::start(&room);
        session.run(1, "true");
        let pids = [the_nursery(&session.child).pid, named(&session.child, "ringfence-init").remove(0).pid];
        if killed {
            session.child.kill().unwrap();
            session.child.wait().unwrap();
        } else {
            assert_eq!(session.end(), 0);
        }
        let gone = || pids.iter().all(|pid| Found::of(*pid).is_none_or(|now| now.state == 'Z'));
        assert!(wait_until(Duration::from_secs(20), gone), "{:?}", pids.map(Found::of));
    }
}

#[test]
fn the_keys_of_a_terminal_are_not_for_it() {
    let room = Room::new();
    let mut session = Session::start(&room);
    session.run(1, "true");
    let nursery = the_nursery(&session.child);
    for signal in ["-INT", "-QUIT", "-HUP", "-TERM", "-TSTP"] {
        assert!(Command::new("kill").args([signal, &nursery.pid.to_string()]).status().unwrap().success());
    }
    named(&session.child, "ringfence-init").remove(0).kill();
    assert_eq!(session.run_anew("echo again")["stdout"], "again\n");
    let inits = named(&session.child, "ringfence-init");
    assert!(matches!(&inits[..], [init] if is_small(init, &session.child)), "{inits:?}");
    assert_eq!(session.end(), 0);
}

#[cfg(feature = "mcp")]
#[test]
fn it_makes_several_at_once() {
    use std::io::Read as _;
    const AT_ONCE: usize = 8;
    let room = Room::new();
    let server = Server::start(&room);
    let clients: Vec<_> = (0..AT_ONCE).map(|_| Careless::new(&server)).collect();
    // None of them waits for the others, so all launches are under way together.
    let replies: Vec<_> = clients.iter().map(|client| client.bash("echo $((6 * 7)) from inside")).collect();
    for mut reply in replies {
        let mut text = String::new();
        reply.read_to_string(&mut text).unwrap();
        assert!(text.contains("42 from inside"), "{text}");
    }
    let inits = named(&server.child, "ringfence-init");
    assert_eq!(inits.len(), AT_ONCE, "{inits:?}");
    assert!(inits.iter().all(|init| is_small(init, &server.child)), "{inits:?}");
    the_nursery(&server.child);
}

#[test]
fn a_command_has_the_callers_limit_of_open_files() {
    let room = Room::new();
    let program = room.command(&["session"]);
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -Sn 500; exec \"$@\"", "bash"]);
    command.arg(program.get_program()).args(program.get_args()).current_dir(&room.project).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut session = Session::spawn(command);
    assert_eq!(session.run(1, "ulimit -Sn")["stdout"], "500\n");
    // And when the program, which raised its own, makes them itself.
    the_nursery(&session.child).kill();
    named(&session.child, "ringfence-init").remove(0).kill();
    assert_eq!(session.run_anew("ulimit -Sn")["stdout"], "500\n");
    let own = std::fs::read_to_string(format!("/proc/{}/limits", session.child.id())).unwrap();
    let line = own.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_ascii_whitespace().skip(3).collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
    assert_eq!(session.end(), 0);
}
