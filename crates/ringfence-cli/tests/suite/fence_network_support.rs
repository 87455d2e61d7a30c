//! What the tests of the network share: servers on loopback, and rooms with a resolver of their own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::suite::fence_support::{Fenced, Launcher};
use crate::suite::support::Room;

/// One program of several files; the last has what it begins with.
const PROGRAM: &str = concat!(
    include_str!("../data/network_faults.py"),
    include_str!("../data/network_attacks.py"),
    include_str!("../data/network.py"),
);

/// A server on loopback, and what was said to it.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Server {
    /// Hears what each says to the end, and answers with it.
    pub(crate) fn new() -> Self {
        Self::serving(|stream, said| {
            let _ = stream.read_to_end(said);
            let _ = stream.write_all(&[b"heard ", &said[..]].concat());
        })
    }

    /// Answers each request, whatever it is, as web servers do.
    pub(crate) fn of_pages() -> Self {
        Self::serving(|stream, said| {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut part) {
                said.extend_from_slice(&part[..count]);
                if said.ends_with(b"\r\n\r\n") || said.ends_with(b"said") {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage");
                }
            }
        })
    }

    fn serving(serve: impl Fn(&mut TcpStream, &mut Vec<u8>) + Send + Copy + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A full backlog makes the kernel forget connections under such load.
        rustix::net::listen(&listener, 4096).unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, all) = (stream.unwrap(), Arc::clone(&all));
                std::thread::spawn(move || {
                    let mut said = Vec::new();
                    serve(&mut stream, &mut said);
                    all.lock().unwrap().push(said);
                });
            }
        });
        Self { port, heard }
    }

    pub(crate) fn heard(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

/// A room with a resolver of its own, for which `*.test` is at these addresses, and rules.
pub(crate) fn room(launcher: Launcher, addresses: &str, rules: &[String]) -> Room {
    let answer = format!(
        "case $2 in *.test) ;; *) exit 2 ;; esac\nfor a in {addresses}; do echo \"$a STREAM $2\"; done"
    );
    room_with_resolver(launcher, &answer, rules)
}

/// A room with a resolver that writes down what it was asked for, and then does what this shell text says.
pub(crate) fn room_with_resolver(launcher: Launcher, answer: &str, rules: &[String]) -> Room {
    let mut room = Room::on(launcher);
    let bin = room.home.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let text = format!("#!/bin/sh\necho \"$2\" >> {}\n{answer}\n", asked(&room).display());
    let getent = bin.join("getent");
    std::fs::write(&getent, text).unwrap();
    std::fs::set_permissions(&getent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    room.env.push(("PATH".to_owned(), format!("{}:{path}", bin.display())));
    room.configure(&serde_json::json!({ "allowedHosts": rules }).to_string());
    room.write("network.py", PROGRAM);
    room
}

/// What a line of the program says, without the line itself.
pub(crate) fn said<'a>(ran: &'a Fenced, line: &str) -> &'a str {
    let found = ran.stdout.lines().find_map(|said| said.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{line}: {ran:?}"))
}

/// Where the names are written that were looked up.
fn asked(room: &Room) -> PathBuf {
    room.home.join("asked")
}

pub(crate) fn names_asked(room: &Room) -> String {
    std::fs::read_to_string(asked(room)).unwrap_or_default()
}

pub(crate) fn python(room: &Room, lines: &[String]) -> Fenced {
    python_at(room, "network.py", lines)
}

/// Runs a program of lines.
pub(crate) fn python_at(room: &Room, program: &str, lines: &[String]) -> Fenced {
    let ran = room.fenced(&format!("python3 {program} {}", lines.join(" ")));
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

/// Whether there is a way out by name here; else that it is said, and that nothing gets out.
pub(crate) fn has_way_out(room: &Room, server: &Server) -> bool {
    let ran = room.fenced(&format!("python3 network.py waiting,a.test,{}", server.port));
    if ran.promises("noWayOut") {
        return true;
    }
    assert!(!ran.stdout.contains("heard") && server.heard() == 0, "{ran:?}");
    false
}
