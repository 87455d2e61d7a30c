//! Attacks on the way out: what is not allowed is reached by no trick with sockets, names or what is said on them.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;

use crate::suite::fence_network_support::{
    Server, has_way_out, names_asked, python, room, room_with_resolver, said,
};
use crate::suite::fence_support::{Launcher, for_every_launcher};
use crate::suite::support::Room;

for_every_launcher! {
    no_spelling_of_an_address_leads_out,
    a_name_that_leads_elsewhere_the_next_time_is_vetted_again,
    neither_interfaces_nor_routes_lead_out,
    a_connection_is_led_nowhere_else,
    descriptors_of_the_host_stay_there,
    questions_carry_nothing_out,
    a_request_is_for_the_allowed_host_only,
    a_handshake_is_for_the_allowed_host_only,
    hosts_have_many_spellings,
}

/// `a.test` at a port of loopback; no port of loopback itself.
fn reaching(launcher: Launcher, server: &Server) -> Room {
    room(launcher, "127.0.0.1", &[format!("a.test:{}", server.port), "127.0.0.1:1".to_owned()])
}

fn everything_heard(server: &Server) -> String {
    let heard = server.heard.lock().unwrap();
    heard.iter().map(|said| String::from_utf8_lossy(said).into_owned()).collect::<Vec<_>>().join("\n")
}

fn no_spelling_of_an_address_leads_out(launcher: Launcher) {
    let (server, other) = (Server::new(), Server::new());
    let room = reaching(launcher, &server);
    if !has_way_out(&room, &server) {
        return;
    }
    let newer = TcpListener::bind("[::1]:0").ok();
    let spellings = "==1,==ffff=127.0.0.1,==ffff=7f00=1,==127.0.0.1,64=ff9b==7f00=1,64=ff9b=1==7f00=1,2002=7f00=1==,==ffff=169.254.169.254,==ffff=0=127.0.0.1,fd00=ec2==254,fe80==1,==";
    let ports = [Some(other.port), newer.as_ref().map(|newer| newer.local_addr().unwrap().port())];
    for port in ports.into_iter().flatten() {
        let line = format!("mapped_ways,{port},{spellings}");
        let ran = python(&room, std::slice::from_ref(&line));
        assert_eq!(said(&ran, &line), "refused", "{ran:?}");
    }
    assert_eq!(other.heard(), 0);
    if let Some(newer) = newer {
        newer.set_nonblocking(true).unwrap();
        assert!(newer.accept().is_err());
    }
}

fn a_name_that_leads_elsewhere_the_next_time_is_vetted_again(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let elsewhere = TcpListener::bind(("127.0.0.2", port)).unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    // Each time another answer; the first is the one that a rule names.
    let answer = "n=$(wc -l < \"${0%/*}/../asked\"); [ $((n % 2)) = 1 ] && echo 127.0.0.1 || echo 127.0.0.2";
    let room = room_with_resolver(launcher, answer, &[format!("*.test:{port}"), "127.0.0.1:1".to_owned()]);
    if !has_way_out(&room, &server) {
        return;
    }
    let lines: Vec<String> = (0..6).map(|number| format!("waiting,n{number}.test,{port}")).collect();
    let before = names_asked(&room).lines().count();
    let ran = python(&room, &lines);
    assert_eq!(ran.stdout.matches("heard hello").count(), 3, "{ran:?}");
    assert_eq!(ran.resources().len(), 3, "{ran:?}");
    assert_eq!(names_asked(&room).lines().count() - before, 6, "each is looked up once");
    assert!(elsewhere.accept().is_err(), "{ran:?}");
    let connections = ran.json["connections"].as_array().unwrap();
    assert!(connections.iter().all(|one| one["address"] == format!("127.0.0.1:{port}")), "{connections:?}");
}

fn neither_interfaces_nor_routes_lead_out(launcher: Launcher) {
    let (server, other) = (Server::new(), Server::new());
    let room = reaching(launcher, &server);
    if !has_way_out(&room, &server) {
        return;
    }
    let device = format!("device,a.test,{},b.test", other.port);
    let ran = python(&room, &[device.clone(), "route".to_owned(), "rings".to_owned()]);
    assert!(["refused", "EACCES"].contains(&said(&ran, &device)), "{ran:?}");
    assert_eq!(said(&ran, "route"), "['EPERM', 'EPERM']", "{ran:?}");
    assert!(["EPERM", "ENOSYS", "EACCES"].contains(&said(&ran, "rings")), "{ran:?}");
    assert_eq!(other.heard(), 0, "{ran:?}");
}

fn a_connection_is_led_nowhere_else(launcher: Launcher) {
    let (server, other) = (Server::new(), Server::new());
    let (port, elsewhere) = (server.port, other.port);
    let room = reaching(launcher, &server);
    if !has_way_out(&room, &server) {
        return;
    }
    let lines = [
        format!("handed,a.test,{port},b.test,{elsewhere}"),
        format!("both_at_once,a.test,{port},b.test,{elsewhere},50"),
    ];
    let ran = python(&room, &lines);
    assert_eq!(said(&ran, &lines[0]), "('heard hello', ['EACCES', 'EACCES', 'EACCES'])", "{ran:?}");
    assert_eq!(said(&ran, &lines[1]), "tried", "{ran:?}");
    assert_eq!(other.heard(), 0, "{ran:?}");
    assert!(ran.resources().contains(&format!("b.test:{elsewhere}").as_str()), "{ran:?}");
}

/// A socket that was made outside has the host's network.
fn descriptors_of_the_host_stay_there(launcher: Launcher) {
    let server = Server::new();
    let room = reaching(launcher, &server);
    if !has_way_out(&room, &server) {
        return;
    }
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    rustix::io::fcntl_setfd(&outside, rustix::io::FdFlags::empty()).unwrap();
    let ran = room.fenced("ls -l /proc/self/fd");
    assert!(!ran.stdout.contains("socket:"), "{} is open here: {ran:?}", outside.as_raw_fd());
}

fn questions_carry_nothing_out(launcher: Launcher) {
    let server = Server::new();
    let room = reaching(launcher, &server);
    if !has_way_out(&room, &server) {
        return;
    }
    let before = names_asked(&room);
    let line = "tunnel,192.0.2.53,127.0.0.53,203.0.113.9";
    let ran = python(&room, &[line.to_owned()]);
    assert_eq!(said(&ran, line), "[(0, 0), (0, True)]", "{ran:?}");
    assert_eq!(names_asked(&room), before, "nobody else heard of them");
}

fn a_request_is_for_the_allowed_host_only(launcher: Launcher) {
    let server = Server::of_pages();
    let port = server.port;
    let room = reaching(launcher, &server);
    if !has_way_out(&room, &server) {
        return;
    }
    let good = "GET /good HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let cases = [
        "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(),
        "GET http://evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a.test\r\nHost: evil.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a.test\r\n .evil.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a.test\0.evil.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a.test\rHost: evil.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a.test@evil.test\r\n\r\n".to_owned(),
        "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(),
        "FETCH / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.0\r\nX: evil.test\r\n\r\n".to_owned(),
        "GET /evil.test\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil.test".to_owned(),
        format!("{good}GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
            .to_owned(),
        format!("{}evil.test", "A".repeat(70_000)),
    ];
    for text in &cases {
        room.write("text", text);
        let ran = python(&room, &[format!("says,a.test,{port},@text")]);
        let text = &text[..text.len().min(100)];
        let heard = everything_heard(&server);
        assert!(!heard.contains("evil.test"), "{text}: {heard}\n{ran:?}");
        let is_smuggled = text.contains("Content-Length");
        assert!(is_smuggled || !ran.resources().is_empty(), "{text}: {ran:?}");
    }
}

fn a_handshake_is_for_the_allowed_host_only(launcher: Launcher) {
    let server = Server::new();
    let port = server.port;
    let room = reaching(launcher, &server);
    if !has_way_out(&room, &server) {
        return;
    }
    let cases = [
        ("whole,a.test", true),
        ("whole,A.Test", true),
        // Only the outer name is seen.
        ("encrypted,a.test", true),
        ("encrypted,b.test", false),
        ("whole,b.test", false),
        ("whole", false),
        ("whole,127.0.0.1", false),
        ("twice,a.test", false),
        ("half,a.test", false),
        ("rubbish", false),
    ];
    let lines: Vec<String> = cases.iter().map(|(case, _)| format!("greets,a.test,{port},{case}")).collect();
    let ran = python(&room, &lines);
    for (line, (_, passes)) in lines.iter().zip(cases) {
        assert_eq!(said(&ran, line), if passes { "True" } else { "False" }, "{line}: {ran:?}");
    }
    assert!(!everything_heard(&server).contains("b.test"), "{ran:?}");
    // Each is told once.
    assert_eq!(ran.resources(), ["b.test".to_owned(), format!("a.test:{port}")], "{ran:?}");
}

fn hosts_have_many_spellings(launcher: Launcher) {
    let server = Server::of_pages();
    let port = server.port;
    let rules = [format!(".test:{port}"), format!("127.0.0.1:{port}")];
    let room = room(launcher, "127.0.0.1", &rules);
    if !has_way_out(&room, &server) {
        return;
    }
    for (url, is_there) in [
        ("http://a.test", true),
        ("http://A.TEST", true),
        ("http://a.test.", true),
        ("http://xn--bcher-kva.test", true),
        ("http://127.0.0.1", true),
        ("http://2130706433", true),
        ("http://[::ffff:127.0.0.1]", true),
        ("http://a.test.evil", false),
        ("http://127.0.0.2", false),
        ("http://[::1]", false),
    ] {
        let ran = room.fenced(&format!("curl -sS -m 5 -d said '{url}:{port}/' -H 'Connection: close'"));
        let heard = everything_heard(&server).contains("said");
        server.heard.lock().unwrap().clear();
        assert_eq!(heard, is_there, "{url}: {ran:?}");
    }
}
