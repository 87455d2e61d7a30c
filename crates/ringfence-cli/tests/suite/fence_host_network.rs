//! Attempts to get past the supervisor where the sandbox has no network of its own: what a network namespace would hold,
//! it has to hold by itself.

use std::net::UdpSocket;

use crate::suite::fence_network_support::{Server, python_at, room};
use crate::suite::fence_support::{Fenced, Launcher};
use crate::suite::support::Room;

const PROGRAM: &str = include_str!("../data/host_network.py");

fn room_on_host(server: &Server) -> Room {
    let rules = [format!("a.test:{}", server.port), "127.0.0.1:1".to_owned()];
    let room = room(Launcher::Landlock, "127.0.0.1", &rules);
    room.configure(
        &serde_json::json!({ "allowedHosts": [format!("a.test:{}", server.port), "127.0.0.1"] }).to_string(),
    );
    room.write("host_network.py", PROGRAM);
    room
}

/// The answer to one line; none where the sandbox says that it has no way out.
fn tried(room: &Room, line: &str) -> Option<(String, Fenced)> {
    let ran = python_at(room, "host_network.py", &[line.to_owned()]);
    if !ran.promises("noWayOut") {
        return None;
    }
    let got = ran.stdout.trim_end().strip_prefix(&format!("{line} ")).unwrap_or(&ran.stdout).to_owned();
    Some((got, ran))
}

#[test]
fn nobody_listens_on_the_hosts_interfaces() {
    let server = Server::new();
    let room = room_on_host(&server);
    let Some((got, ran)) = tried(&room, &format!("listens,{}", server.port)) else { return };
    assert!(got.contains("True") && !got.contains("False"), "{ran:?}");
}

#[test]
fn no_option_leads_a_connection_elsewhere() {
    let server = Server::new();
    let room = room_on_host(&server);
    let Some((got, ran)) = tried(&room, "options") else { return };
    let mut want = ["'EPERM'"; 9];
    // Not a right that is lacking, but something that the kernel seems not to have.
    want[4] = "'ENOTSUP'";
    assert_eq!(got.trim_matches(['[', ']']).split(", ").collect::<Vec<_>>(), want, "{ran:?}");
}

#[test]
fn a_connected_socket_is_no_way_to_another_host() {
    let (server, other) = (Server::new(), Server::new());
    let room = room_on_host(&server);
    room.configure(
        &serde_json::json!({ "allowedHosts": [format!("a.test:{}", server.port), "127.0.0.1:1"] })
            .to_string(),
    );
    let Some((got, ran)) = tried(&room, &format!("again,{},{}", server.port, other.port)) else { return };
    assert!(!got.contains('0'), "{ran:?}");
    assert_eq!(other.heard(), 0, "{ran:?}");
}

#[test]
fn nobody_inside_is_where_ways_out_begin() {
    let server = Server::new();
    let room = room_on_host(&server);
    room.configure(
        &serde_json::json!({ "allowedHosts": [format!("a.test:{}", server.port), "127.0.0.1:1"] })
            .to_string(),
    );
    let Some((got, ran)) = tried(&room, &format!("takes,{}", server.port)) else { return };
    let want = "(True, ['EADDRNOTAVAIL', 'EADDRNOTAVAIL', 'EADDRNOTAVAIL', 'ECONNREFUSED'])";
    assert_eq!(got, want, "{ran:?}");
}

#[test]
fn datagrams_reach_no_service_of_the_host() {
    let server = Server::new();
    let room = room_on_host(&server);
    let service = UdpSocket::bind("127.0.0.1:0").unwrap();
    service.set_nonblocking(true).unwrap();
    let port = service.local_addr().unwrap().port();
    let Some((got, ran)) = tried(&room, &format!("datagrams,{port}")) else { return };
    assert_eq!(got, "True", "{ran:?}");
    assert!(service.recv(&mut [0; 16]).is_err(), "{ran:?}");
    // Outside, the same program gets through.
    let mut outside = std::process::Command::new("python3");
    outside.args(["host_network.py", &format!("datagrams,{port}")]).current_dir(&room.project);
    assert!(outside.output().unwrap().status.success());
    assert!(service.recv(&mut [0; 16]).is_ok());
}

#[test]
fn any_name_server_answers_and_seems_to_be_the_one_that_was_asked() {
    let server = Server::new();
    let room = room_on_host(&server);
    let Some((got, ran)) = tried(&room, "asks,192.0.2.53,x.test") else { return };
    assert_eq!(got, format!("[{}]", ["(True, ('192.0.2.53', 53))"; 4].join(", ")), "{ran:?}");
}
