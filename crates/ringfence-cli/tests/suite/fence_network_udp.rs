//! Datagrams: those to hosts whose rule says so arrive as on any network, and no others.

use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::suite::fence_network_support::room;
use crate::suite::fence_support::{Fenced, Launcher, for_every_launcher, wait_until};
use crate::suite::support::Room;

const PROGRAM: &str = include_str!("../data/datagrams.py");

for_every_launcher! {
    allowed_datagrams_are_answered,
    other_datagrams_are_refused_by_name,
    a_name_that_leads_elsewhere_gets_no_datagrams,
    nobody_there_is_told_as_on_any_network,
    what_was_sent_before_the_end_arrives,
    datagrams_count_as_bytes_and_connections,
}

/// Answers each datagram, and keeps what was said.
struct Echo {
    port: u16,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Echo {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 70_000];
            loop {
                let (count, from) = socket.recv_from(&mut buffer).unwrap();
                all.lock().unwrap().push(buffer[..count].to_vec());
                let _ = socket.send_to(&[b"heard ", &buffer[..count]].concat(), from);
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

fn room_with(launcher: Launcher, addresses: &str, rules: &[String]) -> Room {
    let room = room(launcher, addresses, rules);
    room.write("datagrams.py", PROGRAM);
    room
}

fn python(room: &Room, lines: &[String]) -> Fenced {
    let ran = room.fenced(&format!("python3 datagrams.py {}", lines.join(" ")));
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

/// Whether there is a way out by name here; else that nothing gets out.
fn has_way_out(room: &Room, echo: &Echo) -> bool {
    let ran = room.fenced(&format!("python3 datagrams.py probe,a.test,{}", echo.port));
    if ran.promises("noWayOut") {
        return true;
    }
    let ran = room.fenced(&format!("python3 datagrams.py sendto,127.0.0.1,{}", echo.port));
    assert!(!ran.stdout.contains("heard") && echo.heard() == 0, "{ran:?}");
    false
}

fn allowed_datagrams_are_answered(launcher: Launcher) {
    let (echo, other) = (Echo::new(), Echo::new());
    let (port, second) = (echo.port, other.port);
    let rules = [format!("a.test:{port}/udp"), "*.wild.test/udp".to_owned(), "127.0.0.1".to_owned()];
    let room = room_with(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &echo) {
        return;
    }
    let lines = [
        (format!("connected,a.test,{port}"), "('heard hello', True)"),
        (format!("sendto,a.test,{port}"), "('heard hello', True)"),
        (format!("sendmsg,b.wild.test,{second}"), "heard hello"),
        (format!("sendmmsg,a.test,{port},c.wild.test,{port}"), "(2, ['heard hello', 'heard hello'])"),
        (format!("mapped,a.test,{port}"), "heard hello"),
        (format!("bound,a.test,{port}"), "('heard hello', True)"),
        (format!("flows,a.test,{port}"), "('heard two', 'heard one')"),
        (format!("big,a.test,{port}"), "True"),
    ];
    let asked: Vec<String> = lines.iter().map(|(line, _)| line.clone()).collect();
    let ran = python(&room, &asked);
    let want: Vec<String> = lines.iter().map(|(line, want)| format!("{line} {want}")).collect();
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), want, "{ran:?}");
    assert_eq!(ran.resources(), Vec::<&str>::new(), "{ran:?}");
    let connections = ran.json["connections"].as_array().unwrap();
    let hosts: std::collections::BTreeSet<_> = connections.iter().map(|one| one["host"].as_str()).collect();
    assert_eq!(hosts.len(), 3, "{connections:?}");
    assert_eq!(connections.iter().map(|one| one["bytesOut"].as_u64().unwrap()).sum::<u64>(), 65_321);
    assert!(connections.iter().all(|one| one["problem"].is_null()), "{connections:?}");
}

fn other_datagrams_are_refused_by_name(launcher: Launcher) {
    let (echo, other) = (Echo::new(), Echo::new());
    let (port, second) = (echo.port, other.port);
    let rules = [
        format!("a.test:{port}/udp"),
        ".wild.test/udp".to_owned(),
        format!("plain.test:{port}"),
        "127.0.0.1".to_owned(),
    ];
    let room = room_with(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &echo) {
        return;
    }
    let lines = [
        // The first one is allowed: what is refused after it is not refused for want of a way.
        format!("sendto,a.test,{port}"),
        format!("sendto,a.test,{second}"),
        format!("sendto,plain.test,{port}"),
        format!("sendmsg,other.test,{port}"),
        format!("sendmmsg,a.test,{port},third.test,{second}"),
        "sendto,b.wild.test,22".to_owned(),
        format!("sendto,198.51.100.7,{port}"),
        format!("silent,plain.test,{port}"),
        format!("sendto,a.test,{port}"),
    ];
    let ran = python(&room, &lines);
    let answers: Vec<&str> = ran.stdout.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    let want = ["True)", "EACCES", "EACCES", "EACCES", "EACCES", "EACCES", "EACCES", "ECONNREFUSED", "True)"];
    assert_eq!(answers, want, "{ran:?}");
    assert_eq!((echo.heard(), other.heard()), (2, 0), "{ran:?}");
    let resources = ran.resources();
    for refused in [
        format!("a.test:{second}"),
        format!("plain.test:{port}"),
        format!("other.test:{port}"),
        format!("third.test:{second}"),
        "b.wild.test:22".to_owned(),
        format!("198.51.100.7:{port}"),
    ] {
        assert!(resources.contains(&refused.as_str()), "{refused}: {resources:?}");
    }
    let messages = ran.json["violations"].to_string();
    assert!(messages.contains("port 22 is blocked"), "{messages}");
    assert!(messages.contains(&format!("--allow-host plain.test:{port}/udp")), "{messages}");
}

fn a_name_that_leads_elsewhere_gets_no_datagrams(launcher: Launcher) {
    let echo = Echo::new();
    let port = echo.port;
    for (addresses, word) in [("127.0.0.1", "machine itself"), ("169.254.169.254", "metadata")] {
        let room = room_with(launcher, addresses, &[format!("a.test:{port}/udp")]);
        if !has_way_out(&room, &echo) {
            return;
        }
        let ran = python(&room, &[format!("silent,a.test,{port}")]);
        assert!(ran.stdout.contains("ECONNREFUSED"), "{addresses}: {ran:?}");
        assert_eq!(ran.resources(), [format!("a.test:{port}")], "{addresses}: {ran:?}");
        assert!(ran.json["violations"].to_string().contains(word), "{addresses}: {ran:?}");
        assert_eq!(echo.heard(), 0, "{addresses}");
    }
}

fn nobody_there_is_told_as_on_any_network(launcher: Launcher) {
    let echo = Echo::new();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let room = room_with(launcher, "127.0.0.1", &[".test/udp".to_owned(), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &echo) {
        return;
    }
    let ran = python(&room, &[format!("silent,a.test,{nobody}")]);
    assert!(ran.stdout.ends_with(" ECONNREFUSED\n"), "{ran:?}");
    assert_eq!(ran.resources(), Vec::<&str>::new(), "{ran:?}");
}

fn what_was_sent_before_the_end_arrives(launcher: Launcher) {
    let echo = Echo::new();
    let port = echo.port;
    let room = room_with(launcher, "127.0.0.1", &[format!("a.test:{port}/udp"), "127.0.0.1".to_owned()]);
    if !has_way_out(&room, &echo) {
        return;
    }
    python(&room, &[format!("leaves,a.test,{port},goodbye")]);
    let is_heard = || echo.heard.lock().unwrap().iter().any(|said| said == b"goodbye");
    assert!(wait_until(Duration::from_secs(20), is_heard), "{:?}", echo.heard());
}

fn datagrams_count_as_bytes_and_connections(launcher: Launcher) {
    let echo = Echo::new();
    let port = echo.port;
    let room = room_with(launcher, "127.0.0.1", &[]);
    let limits = |limits: serde_json::Value| {
        let rules = [format!("a.test:{port}/udp"), "127.0.0.1".to_owned()];
        room.configure(&serde_json::json!({ "allowedHosts": rules, "network": limits }).to_string());
    };
    limits(serde_json::json!({ "maxConnectionsPerMinute": 2 }));
    if !has_way_out(&room, &echo) {
        return;
    }
    let lines = [
        format!("sendto,a.test,{port}"),
        format!("connected,a.test,{port}"),
        format!("silent,a.test,{port}"),
    ];
    let ran = python(&room, &lines);
    assert_eq!(ran.stdout.matches("heard hello").count(), 2, "{ran:?}");
    assert!(ran.stdout.ends_with(" ECONNREFUSED\n"), "{ran:?}");
    assert!(ran.json["violations"].to_string().contains("network.maxConnectionsPerMinute"), "{ran:?}");
    assert_eq!(echo.heard(), 2);
    limits(serde_json::json!({ "maxBytesOut": 8 }));
    let ran = python(&room, &lines[..1].iter().cloned().chain([lines[2].clone()]).collect::<Vec<_>>());
    assert!(ran.stdout.ends_with(" ECONNREFUSED\n"), "{ran:?}");
    assert_eq!(echo.heard(), 3, "{ran:?}");
}
