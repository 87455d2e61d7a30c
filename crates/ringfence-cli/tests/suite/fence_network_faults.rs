//! What goes wrong on networks, and what programs expect of sockets: inside it is as outside.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;

use crate::suite::fence_network_support::{
    Server, has_way_out, names_asked, python, room, room_with_resolver, said,
};
use crate::suite::fence_support::{Launcher, for_every_launcher, processes_with, wait_until};
use crate::suite::session::Session;
use crate::suite::support::Room;

for_every_launcher! {
    sockets_behave_as_on_any_network,
    a_resolver_that_fails_is_a_host_that_is_not_there,
    a_resolver_that_is_late_is_not_waited_for,
    a_host_that_does_not_answer_is_waited_for_as_the_program_says,
    what_breaks_or_ends_breaks_or_ends_inside,
    a_server_inside_gets_the_port_that_somebody_is_connected_to,
    names_are_asked_for_by_streams_too,
    it_is_the_same_where_only_writing_is_looked_at,
    connections_leave_no_descriptor,
    nothing_is_left_when_the_relay_is_killed,
}

/// `a.test` at a port of loopback.
fn reaching(launcher: Launcher, port: u16) -> Room {
    room(launcher, "127.0.0.1", &[format!("a.test:{port}"), "127.0.0.1".to_owned()])
}

/// What is so where the sandbox has a network of its own, and where it has none.
fn by_network<'a>(launcher: Launcher, own: &'a str, none: &'a str) -> &'a str {
    if launcher == Launcher::Landlock { none } else { own }
}

/// What becomes of a server beside a connection to the same port. Without a network of its own it may not be reached by
/// another address than the host's.
fn served_beside(launcher: Launcher) -> &'static str {
    by_network(launcher, "('x', 'EADDRINUSE')", "EACCES")
}

/// A port where each connection is served by this.
fn serving(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), serve.clone());
            std::thread::spawn(move || serve(stream));
        }
    });
    port
}

/// A port that answers nobody: as many wait there as may.
fn unanswered() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
    let waiting = std::iter::from_fn(|| connect().ok()).take(8).collect();
    (listener, waiting)
}

fn sockets_behave_as_on_any_network(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let room = room(
        launcher,
        "127.0.0.1",
        &[format!("a.test:{port}"), format!("a.test:{nobody}"), "127.0.0.1".to_owned()],
    );
    if !has_way_out(&room, &server) {
        return;
    }
    let cases = [
        (format!("epoll,a.test,{port}"), "('EINPROGRESS', [4], 0)"),
        (format!("epoll,a.test,{nobody}"), "('EINPROGRESS', [28], 'ECONNREFUSED')"),
        (format!("options,a.test,{port}"), "([1, 1, 0], True, ['EISCONN', 'EISCONN'])"),
        (format!("eyeballs,a.test,{port}"), "heard hello"),
        (format!("newer_first,a.test,{port}"), &format!("[True, [{port}]]")),
        (format!("limited,a.test,{port}"), "0"),
        (format!("limited,a.test,{nobody}"), "ECONNREFUSED"),
        (format!("fast,a.test,{port}"), "ENOTSUP"),
    ];
    let lines: Vec<String> = cases.iter().map(|(line, _)| line.clone()).collect();
    let ran = python(&room, &lines);
    for (line, want) in &cases {
        assert_eq!(said(&ran, line), *want, "{line}: {ran:?}");
    }
    assert_eq!(ran.resources(), Vec::<&str>::new(), "{ran:?}");
}

fn a_resolver_that_fails_is_a_host_that_is_not_there(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    for answer in ["exit 1", "kill -9 $$", "echo no address; echo 999.1.1.1 x; printf '\\377\\0\\n'"] {
        let room = room_with_resolver(launcher, answer, &[format!("a.test:{port}"), "127.0.0.1".to_owned()]);
        if !has_way_out(&room, &server) {
            return;
        }
        let lines = [format!("waiting,a.test,{port}"), format!("loop,a.test,{port}")];
        let ran = python(&room, &lines);
        assert_eq!(said(&ran, &lines[0]), "EHOSTUNREACH", "{answer}: {ran:?}");
        assert_eq!(said(&ran, &lines[1]), "('EINPROGRESS', True, 'EHOSTUNREACH')", "{answer}: {ran:?}");
        assert_eq!(server.heard(), 0, "{answer}");
    }
}

fn a_resolver_that_is_late_is_not_waited_for(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    // Each has a name of its own, so that nobody waits for the answer of another.
    let answer = "case $2 in a.*) echo 127.0.0.1 ;; *) exec sleep 600 ;; esac";
    let room = room_with_resolver(launcher, answer, &[format!("*.test:{port}"), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &server) {
        return;
    }
    let ran = room.fenced(&format!(
        "python3 -c 'import socket\ntry: socket.create_connection((\"b.test\", {port}))\nexcept OSError as e: print(\"b.test\", e.errno)' &
         python3 network.py loop,c.test,{port} & python3 network.py waiting,a.test,{port}; wait"
    ));
    assert!(ran.stdout.contains("heard hello"), "{ran:?}");
    assert!(
        ran.stdout.contains(&format!("b.test {}", rustix::io::Errno::TIMEDOUT.raw_os_error())),
        "{ran:?}"
    );
    assert_eq!(
        said(&ran, &format!("loop,c.test,{port}")),
        by_network(launcher, "('EINPROGRESS', True, 'EHOSTUNREACH')", "('EINPROGRESS', True, 'ETIMEDOUT')"),
        "{ran:?}"
    );
    assert_eq!(names_asked(&room).lines().filter(|name| *name == "b.test").count(), 1);
}

fn a_host_that_does_not_answer_is_waited_for_as_the_program_says(launcher: Launcher) {
    let server = Server::new();
    let (listener, _waiting) = unanswered();
    let port = listener.local_addr().unwrap().port();
    let rules = [format!("a.test:{port}"), format!("a.test:{}", server.port), "127.0.0.1".to_owned()];
    let room = room(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &server) {
        return;
    }
    let lines = [
        format!("limited,a.test,{port}"),
        format!("loop,a.test,{port},1"),
        format!("beside,a.test,{port},connecting"),
    ];
    let ran = python(&room, &lines);
    assert_eq!(said(&ran, &lines[0]), "EINPROGRESS", "{ran:?}");
    assert_eq!(said(&ran, &lines[1]), "('EINPROGRESS', False, 0)", "{ran:?}");
    assert_eq!(said(&ran, &lines[2]), served_beside(launcher), "{ran:?}");
}

fn what_breaks_or_ends_breaks_or_ends_inside(launcher: Launcher) {
    let server = Server::new();
    let (heard, hears) = std::sync::mpsc::channel();
    let ends_first = serving(move |mut stream| {
        stream.write_all(b"goodbye").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        let _ = heard.send(said);
    });
    let breaks = serving(|mut stream| {
        stream.write_all(b"half of").unwrap();
        let _ = stream.read(&mut [0; 6]);
        // The end of it was heard before it breaks.
        std::thread::sleep(Duration::from_millis(300));
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let is_silent = serving(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let answers = serving(|mut stream| {
        let mut said = [0; 5];
        stream.read_exact(&mut said).unwrap();
        stream.write_all(&[b"heard ", &said[..]].concat()).unwrap();
    });
    let rules = [format!("a.test:{}", server.port), "*.a.test".to_owned(), "127.0.0.1".to_owned()];
    let room = room(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &server) {
        return;
    }
    let cases = [
        (format!("half,x.a.test,{ends_first}"), "goodbye"),
        (format!("broken,x.a.test,{breaks}"), "('half of', 'ECONNRESET')"),
        (format!("silent,x.a.test,{is_silent}"), "TimeoutError"),
        (format!("spoken,x.a.test,{answers}"), "heard hello"),
    ];
    let lines: Vec<String> = cases.iter().map(|(line, _)| line.clone()).collect();
    let ran = python(&room, &lines);
    for (line, want) in &cases {
        assert_eq!(said(&ran, line), *want, "{line}: {ran:?}");
    }
    assert_eq!(hears.recv_timeout(Duration::from_secs(20)).unwrap(), "after the end", "{ran:?}");
}

fn a_server_inside_gets_the_port_that_somebody_is_connected_to(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = reaching(launcher, port);
    if !has_way_out(&room, &server) {
        return;
    }
    for when in ["connected", "over"] {
        let line = format!("beside,a.test,{port},{when}");
        let ran = python(&room, std::slice::from_ref(&line));
        assert_eq!(said(&ran, &line), served_beside(launcher), "{ran:?}");
    }
}

fn names_are_asked_for_by_streams_too(launcher: Launcher) {
    let server = Server::new();
    let room = reaching(launcher, server.port);
    if !has_way_out(&room, &server) {
        return;
    }
    let before = names_asked(&room);
    let cases = [
        ("by_stream,192.0.2.53,a.test,c2VjcmV0.evil.test", by_network(launcher, "[True, True]", "EACCES")),
        ("by_stream,2001=db8==53,a.test", by_network(launcher, "[True]", "EACCES")),
        ("by_stream,127.0.0.53,a.test,-no-name.test", by_network(launcher, "[True, 3]", "ECONNREFUSED")),
        ("rubbish_by_stream,192.0.2.54", by_network(launcher, "b''", "EACCES")),
    ];
    let ran = python(&room, &cases.map(|(line, _)| line.to_owned()));
    for (line, want) in cases {
        assert_eq!(said(&ran, line), want, "{line}: {ran:?}");
    }
    assert_eq!(names_asked(&room), before, "nobody else heard of them");
}

fn it_is_the_same_where_only_writing_is_looked_at(launcher: Launcher) {
    let (server, other) = (Server::new(), Server::new());
    let port = server.port;
    let room = reaching(launcher, port);
    if !has_way_out(&room, &server) {
        return;
    }
    let cases = [
        (format!("waiting,a.test,{port}"), format!("('heard hello', {port})")),
        (format!("loop,a.test,{port}"), "('EINPROGRESS', True, 0)".to_owned()),
        (format!("waiting,b.test,{}", other.port), "EACCES".to_owned()),
        (format!("beside,a.test,{port},connected"), served_beside(launcher).to_owned()),
        ("by_stream,192.0.2.53,a.test".to_owned(), by_network(launcher, "[True]", "EACCES").to_owned()),
    ];
    let lines: Vec<&str> = cases.iter().map(|(line, _)| line.as_str()).collect();
    let ran =
        room.fenced_with(&["--precision", "writes"], &format!("python3 network.py {}", lines.join(" ")));
    for (line, want) in &cases {
        assert_eq!(said(&ran, line), want, "{line}: {ran:?}");
    }
    assert_eq!(other.heard(), 0, "{ran:?}");
}

fn connections_leave_no_descriptor(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = reaching(launcher, port);
    if !has_way_out(&room, &server) {
        return;
    }
    let mut session = Session::spawn(room.command(&["session", "--launcher", launcher.name()]));
    let descriptors = format!("/proc/{}/fd", session.child.id());
    let open = || std::fs::read_dir(&descriptors).unwrap().count();
    let first = session.run(1, &format!("ulimit -n 4096; python3 network.py many,a.test,{port},40"));
    assert_eq!(first["stdout"], format!("many,a.test,{port},40 40\n"), "{first}");
    wait_until(Duration::from_secs(10), || open() < 80);
    let before = open();
    let ran = session.run(2, &format!("python3 network.py many,a.test,{port},1000"));
    assert_eq!(ran["stdout"], format!("many,a.test,{port},1000 1000\n"), "{ran}");
    // Sockets and pipes that are kept for the next ones are few.
    assert!(
        wait_until(Duration::from_secs(20), || open() <= before + 40),
        "{before} before, {} after",
        open()
    );
    assert_eq!(session.end(), 0);
}

fn nothing_is_left_when_the_relay_is_killed(launcher: Launcher) {
    let (told, tells) = std::sync::mpsc::channel();
    let server = Server::new();
    let holding = serving(move |mut stream| {
        let mut said = [0; 6];
        stream.read_exact(&mut said).unwrap();
        told.send("heard").unwrap();
        // Until it ends, one way or the other.
        let _ = stream.read(&mut said);
        told.send("ended").unwrap();
    });
    let rules = [format!("a.test:{holding}"), format!("a.test:{}", server.port), "127.0.0.1".to_owned()];
    let room = room(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &server) {
        return;
    }
    let marker = format!("holds,a.test,{holding}");
    let text = format!("python3 network.py {marker}");
    let mut child =
        room.command(&["run", "--no-gate", "--launcher", launcher.name(), "-c", &text]).spawn().unwrap();
    let patience = Duration::from_secs(30);
    assert_eq!(tells.recv_timeout(patience), Ok("heard"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(tells.recv_timeout(patience), Ok("ended"));
    assert!(wait_until(patience, || processes_with(&marker).is_empty()), "{:?}", processes_with(&marker));
}
