//! Asking at a real terminal: the refused call waits, and goes on when the person says yes.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::Value;

use super::fence_support::wait_until;
use super::support::Room;

/// A person at a terminal in which one command runs.
pub(crate) struct Person {
    keyboard: std::fs::File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    answered: usize,
    child: Child,
}

/// The end of the line with the answers.
pub(crate) const QUESTION: &str = "[q]uit? ";

impl Person {
    /// Starts the program on a terminal of its own, which is also its controlling one.
    pub(crate) fn at_terminal(room: &Room, arguments: &[&str]) -> Self {
        Self::running(room, &room.command(arguments))
    }

    /// The same for shell text, in which `$RF` is the program.
    pub(crate) fn at_shell(room: &Room, text: &str) -> Self {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile"]);
        if text.is_empty() {
            shell.arg("-i")
        } else {
            shell.args(["-c", text])
        };
        let program = room.command(&[]);
        shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("RF", program.get_program()).env("LAUNCHER", room.launcher);
        Self::running(room, &shell)
    }

    fn running(room: &Room, program: &Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master: OwnedFd = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        let stdio = || Stdio::from(slave.as_fd().try_clone_to_owned().unwrap());
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(program.get_program()).args(program.get_args());
        command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(&room.project).stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = command.spawn().unwrap();
        drop((slave, command));

        let keyboard = std::fs::File::from(master);
        let mut reader = keyboard.try_clone().unwrap();
        let (send, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if send.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { keyboard, screen, seen: String::new(), answered: 0, child }
    }

    pub(crate) fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.seen.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = self.screen.recv_timeout(left).unwrap_or_else(|_| {
                panic!("{text:?} did not appear; on the screen:\n{}", self.seen);
            });
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// Waits until a text was shown so many times, one of several; which it is, or none when the program ends first.
    pub(crate) fn sees_one_of(&mut self, texts: &[(&str, usize)]) -> Option<usize> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let shown = |(text, times): &(&str, usize)| self.seen.matches(text).count() >= *times;
            if let Some(which) = texts.iter().position(shown) {
                return Some(which);
            }
            match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("none of {texts:?}; on the screen:\n{}", self.seen),
            }
        }
    }

    /// Whether what is typed at the terminal is shown.
    pub(crate) fn terminal_echoes(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.keyboard).unwrap();
        modes.local_modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Takes what is shown for so long.
    pub(crate) fn watches(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while let Ok(bytes) = self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// Everything that was on the screen so far.
    pub(crate) fn screen(&self) -> &str {
        &self.seen
    }

    /// Changes the size of the window.
    pub(crate) fn resizes(&self, rows: u16, columns: u16) {
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.keyboard, size).unwrap();
    }

    pub(crate) fn presses(&mut self, key: &str) {
        self.keyboard.write_all(key.as_bytes()).unwrap();
    }

    /// Waits until the answers are shown once more, and gives this one.
    pub(crate) fn answers(&mut self, key: &str) {
        let asked = self.answered + 1;
        self.sees_one_of(&[(QUESTION, asked)]).unwrap_or_else(|| panic!("nobody asked:\n{}", self.seen));
        self.decides(key);
    }

    /// Answers the question that is shown; "always" with the letters that are shown then.
    pub(crate) fn decides(&mut self, key: &str) {
        const LETTERS: &str = "always: type `";
        let before = self.seen.matches(LETTERS).count();
        self.presses(key);
        self.answered += 1;
        if key == "a" && self.sees_one_of(&[(LETTERS, before + 1)]).is_some() {
            let shown = self.seen.rsplit(LETTERS).next().unwrap_or_default();
            let letters: Vec<char> = shown.chars().take(3).collect();
            for letter in letters {
                self.presses(&letter.to_string());
                // One key after the other, as a person does.
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// The exit code, and everything that was on the screen.
    pub(crate) fn leaves(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(200)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, self.seen)
    }
}

fn room_with_secret() -> Room {
    let room = Room::new();
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    room
}

fn grants(room: &Room) -> Vec<Value> {
    let listed = room.run(&["grants", "list", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    serde_json::from_str::<Vec<Value>>(&listed.stdout).unwrap()
}

#[test]
fn an_answer_of_once_lets_the_waiting_call_go_on() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let mut person = Person::at_terminal(&room, &["run", "--", "cat", "../.ssh/config"]);
    person.sees("wants to read");
    assert!(!person.seen.contains("treasure"), "nothing is shown before the answer: {}", person.seen);
    person.answers("o");
    person.sees("Host treasure");
    let (code, screen) = person.leaves();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("allowed once"), "{screen}");
    assert!(!room.ringfence_home.join("sandbox.json").exists(), "once is not written anywhere");
}

#[test]
fn what_is_granted_for_a_run_ends_with_it() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let text = "cat ../.ssh/config; read x";
    let mut person = Person::at_terminal(&room, &["run", "--no-gate", "-c", text]);
    person.sees("wants to read");
    person.answers("s");
    person.sees("Host treasure");
    let given = |count: usize| wait_until(Duration::from_secs(20), || grants(&room).len() == count);
    given(1);
    person.presses("\r");
    assert_eq!(person.leaves().0, 0);
    given(0);
}

#[test]
fn a_refusal_reads_permission_denied() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let mut person = Person::at_terminal(&room, &["run", "--", "cat", "../.ssh/config"]);
    person.sees("[d]eny");
    person.answers("d");
    let (code, screen) = person.leaves();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("Permission denied"), "{screen}");
    assert!(!screen.contains("treasure"), "{screen}");
    assert!(grants(&room).is_empty());
}

#[test]
fn always_is_written_and_holds_until_it_is_taken_back() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let secret = room.home.join(".ssh/config");
    let mut person = Person::at_terminal(&room, &["run", "--", "cat", "../.ssh/config"]);
    person.sees("[a]lways");
    person.answers("a");
    person.sees("Host treasure");
    assert_eq!(person.leaves().0, 0);

    // Nobody is at a terminal now, and nobody is needed.
    let again = room.run(&["run", "--", "cat", "../.ssh/config"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "Host treasure\n"), "{}", again.stderr);

    let revoked = room.run(&["grants", "revoke", secret.to_str().unwrap()]);
    assert_eq!(revoked.code, 0, "{}", revoked.stderr);
    let refused = room.run(&["run", "--", "cat", "../.ssh/config"]);
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains("Permission denied"), "{}", refused.stderr);
}

#[test]
fn one_resource_is_asked_about_once_however_many_calls_wait() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let text = "for i in 1 2 3; do cat ../.ssh/config & done; wait; cat ../.ssh/config";
    let mut person = Person::at_terminal(&room, &["run", "-c", text]);
    person.sees("wants to read");
    person.answers("s");
    let (code, screen) = person.leaves();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(screen.matches("wants to read").count(), 1, "{screen}");
    assert_eq!(screen.matches("Host treasure").count(), 4, "{screen}");
}

#[test]
fn a_directory_that_was_asked_for_is_shown_with_what_is_in_it() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let mut person = Person::at_terminal(&room, &["run", "-c", "ls ../.ssh && cat ../.ssh/config"]);
    person.sees("wants to read");
    person.answers("o");
    let (code, screen) = person.leaves();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(screen.matches("wants to read").count(), 1, "{screen}");
    assert!(screen.contains("Host treasure"), "{screen}");
}

#[test]
fn nothing_of_a_directory_is_there_before_the_answer() {
    // All that is to be shown is ready when the person is asked. Inside it must not be found: neither by its name, nor
    // among the mounts, nor through the directories of any process.
    let text = "mounts() { grep -c '/[.]ssh ' /proc/self/mountinfo; }; mounts > before; \
                ls ../.ssh > answer 2>&1 & until [ -e asked ]; do sleep 0.05; done; mounts > during; \
                for top in .. /proc/[0-9]*/root$HOME /proc/[0-9]*/cwd/..; do \
                test -e $top/.ssh/config && echo $top >> during; done; touch looked; wait";
    for (key, shown) in [("o", true), ("d", false)] {
        let room = room_with_secret();
        if !room.has_fence() {
            return;
        }
        let mut person = Person::at_terminal(&room, &["run", "-c", text]);
        person.sees("wants to read");
        room.write(room.project.join("asked"), "");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !room.project.join("looked").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let read = |name: &str| std::fs::read_to_string(room.project.join(name)).unwrap_or_default();
        let (before, during) = (read("before"), read("during"));
        assert!(!before.is_empty());
        assert_eq!(before, during, "nothing changes inside while the person thinks");
        person.answers(key);
        person.leaves();
        assert_eq!(read("answer") == "config\n", shown, "{}", read("answer"));
    }
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let ran = room.run(&["run", "--", "cat", "../.ssh/config"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
}

#[test]
fn quitting_ends_the_command() {
    let room = room_with_secret();
    if !room.has_fence() {
        return;
    }
    let mut person =
        Person::at_terminal(&room, &["run", "-c", "cat ../.ssh/config; sleep 30; echo survi-$((1 + 1))"]);
    person.sees("[q]uit");
    person.answers("q");
    let (code, screen) = person.leaves();
    assert_ne!(code, 0, "{screen}");
    assert!(!screen.contains("survi-2"), "{screen}");
}

#[test]
fn a_connection_to_a_service_of_the_host_can_be_allowed() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    for launcher in ["auto", "landlock"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"hello from the host\n").unwrap();
        });
        let text = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3");
        let mut person = Person::at_terminal(&room, &["run", "--launcher", launcher, "-c", &text]);
        person.sees(&format!("wants to connect to 127.0.0.1:{port}"));
        person.answers("o");
        person.sees("hello from the host");
        let (code, screen) = person.leaves();
        assert_eq!(code, 0, "{screen}");
        server.join().unwrap();
    }
}

#[test]
fn nobody_is_asked_about_what_cannot_be_granted() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let text = "exec 3<>/dev/udp/10.255.255.53/123";
    let (_, screen) = Person::at_terminal(&room, &["run", "--no-gate", "-c", text]).leaves();
    assert!(!screen.contains("ringfence asks"), "{screen}");
    assert!(screen.contains("10.255.255.53:123"), "it is refused and told: {screen}");
}
