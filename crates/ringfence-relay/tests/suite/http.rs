//! Requests without TLS.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use ringfence_relay::Outcome;

use super::rig::{Rig, accept, listener, port_of, rig, rig_with};

const ALLOWED: [&str; 3] = ["a.example", "other.example", "127.0.0.1"];

/// Up to and with its empty line.
fn head_of(stream: &mut impl std::io::Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8(head).unwrap()
}

fn open(rig: &Rig, server: &TcpListener) -> (TcpStream, TcpStream) {
    (rig.tcp("a.example", server), accept(server))
}

#[test]
fn requests_to_the_allowed_name_are_answered_one_after_the_other() {
    let (rig, server) = (rig(&ALLOWED), listener());
    let (mut program, mut other) = open(&rig, &server);
    let port = port_of(&server);
    for host in ["a.example", "A.example.", &format!("a.example:{port}")] {
        let request =
            format!("POST /x?y HTTP/1.1\r\nHost: {host}\r\nX-Odd-Case: 1\r\nContent-Length: 3\r\n\r\nabc");
        program.write_all(request.as_bytes()).unwrap();
        let head = head_of(&mut other);
        assert!(head.starts_with("POST /x?y HTTP/1.1\r\n") && head.contains("X-Odd-Case: 1"), "{head}");
        let mut body = [0; 3];
        other.read_exact(&mut body).unwrap();
        other.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        assert!(head_of(&mut program).starts_with("HTTP/1.1 200 OK"));
        let mut body = [0; 2];
        program.read_exact(&mut body).unwrap();
    }
    rig.told.nothing_was_refused();
}

#[test]
fn requests_to_anybody_else_are_answered_here() {
    for (request, why) in [
        ("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", "meant for b.example"),
        ("GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", "meant for other.example"),
        ("\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n", "meant for b.example"),
        ("GET / HTTP/1.1\r\nHost: a.example:1\r\n\r\n", "meant for a.example:1"),
        ("GET / HTTP/1.1\r\nHost: x@a.example\r\n\r\n", "meant for x@a.example"),
        ("GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n", "meant for"),
        ("GET / HTTP/1.1\r\nHost: \r\n\r\n", "meant for"),
        ("GET / HTTP/1.0\r\n\r\n", "names no host"),
        ("GET / HTTP/1.1\r\n\r\n", "names no host"),
        ("GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n", "names two hosts"),
        ("GET / HTTP/1.1\r\nHost: a.example\r\nhost: b.example\r\n\r\n", "names two hosts"),
        ("GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "meant for b.example"),
        ("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", "meant for b.example"),
        ("GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "another scheme"),
        ("GET http://x@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "meant for x@a.example"),
        ("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", "tunnel"),
        (
            "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "unusual encoding",
        ),
    ] {
        let (rig, server) = (rig(&ALLOWED), listener());
        let (mut program, mut other) = open(&rig, &server);
        program.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = program.read_to_string(&mut answer);
        assert!(
            answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.0 403"),
            "{request}: {answer}"
        );
        assert!(answer.contains(why), "{request}: {answer}");
        assert_eq!(other.read(&mut [0; 9]).unwrap_or(0), 0, "{request}");
        assert!(rig.told.refused().why.contains(why));
        let closed = &rig.told.closed(1)[0];
        assert_eq!((closed.bytes_out, &closed.outcome), (0, &Outcome::Refused), "{request}");
    }
}

#[test]
fn what_cannot_be_read_as_one_thing_goes_nowhere() {
    for request in [
        "GET / HTTP/1.1\r\nHost: a.example\0\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\n folded: b.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\rHost: b.example\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: +1\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET / HTTP/1.9\r\nHost: b.example\r\n\r\n",
        "GET / HTTP/3.0\r\nHost: b.example\r\n\r\n",
        "GET /\r\n\r\n",
        "GET http://b.example/\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let (rig, server) = (rig(&ALLOWED), listener());
        let (mut program, mut other) = open(&rig, &server);
        program.write_all(request.as_bytes()).unwrap();
        assert_eq!(other.read(&mut [0; 9]).unwrap_or(0), 0, "{request:?}");
        rig.told.refused();
        assert_eq!(rig.told.closed(1)[0].bytes_out, 0, "{request:?}");
    }
}

#[test]
fn the_second_request_is_looked_at_too() {
    let (rig, server) = (rig(&ALLOWED), listener());
    let (mut program, mut other) = open(&rig, &server);
    let both = "GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\nGET /2 HTTP/1.1\r\nHost: b.example\r\n\r\n";
    program.write_all(both.as_bytes()).unwrap();
    assert!(head_of(&mut other).starts_with("GET /1"));
    other.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let mut answers = String::new();
    let _ = program.read_to_string(&mut answers);
    assert!(answers.starts_with("HTTP/1.1 204") && answers.contains("HTTP/1.1 403"), "{answers}");
    assert_eq!(rig.told.refused().named.as_deref(), Some("b.example"));
    assert_eq!(other.read(&mut [0; 9]).unwrap_or(0), 0);
}

#[test]
fn two_lengths_reach_nobody_in_whichever_order_they_are_said() {
    const LENGTH: &str = "Content-Length: 4\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    for both in [[LENGTH, CHUNKED].concat(), [CHUNKED, LENGTH].concat()] {
        let (rig, server) = (rig(&ALLOWED), listener());
        let (mut program, mut other) = open(&rig, &server);
        let hidden = "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";
        let request = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{both}\r\n0\r\n\r\n{hidden}");
        program.write_all(request.as_bytes()).unwrap();
        let head = head_of(&mut other).to_ascii_lowercase();
        assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "{head}");
        other.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        let mut rest = String::new();
        let _ = other.read_to_string(&mut rest);
        assert_eq!(rest, "0\r\n\r\n");
    }
}

#[test]
fn after_an_agreed_change_bytes_are_carried_as_they_are() {
    let (rig, server) = (rig(&ALLOWED), listener());
    let (mut program, mut other) = open(&rig, &server);
    let request =
        "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    program.write_all(request.as_bytes()).unwrap();
    assert!(head_of(&mut other).to_ascii_lowercase().contains("upgrade: websocket"));
    let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi";
    other.write_all(agreed.as_bytes()).unwrap();
    assert!(head_of(&mut program).starts_with("HTTP/1.1 101"));
    let mut said = [0; 2];
    program.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hi");
    program.write_all(b"\x81\0GET / HTTP/1.1\r\nHost: b.example\r\n\r\n").unwrap();
    let mut got = [0; 37];
    other.read_exact(&mut got).unwrap();
    drop(other);
    assert_eq!(program.read(&mut [0]).unwrap(), 0);
    drop(program);
    assert_eq!(rig.told.closed(1)[0].outcome, Outcome::Finished);
}

#[test]
fn a_change_that_was_not_agreed_to_is_none() {
    let (rig, server) = (rig(&ALLOWED), listener());
    let (mut program, mut other) = open(&rig, &server);
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    program.write_all(request.as_bytes()).unwrap();
    head_of(&mut other);
    other.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(head_of(&mut program).starts_with("HTTP/1.1 200"));
    program.write_all(b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n").unwrap();
    assert!(head_of(&mut program).starts_with("HTTP/1.1 403"));
}

#[test]
fn nobody_changes_to_what_is_not_looked_at() {
    for protocol in ["h2c", "H2C", "websocket, h2c", "TLS/1.2", "HTTP/2.0"] {
        let (rig, server) = (rig(&ALLOWED), listener());
        let (mut program, mut other) = open(&rig, &server);
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\n\
             HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        );
        program.write_all(request.as_bytes()).unwrap();
        let head = head_of(&mut other).to_ascii_lowercase();
        assert!(head.starts_with("get /") && !head.contains("upgrade") && !head.contains("http2"), "{head}");
    }
}

#[test]
fn bodies_of_any_framing_pass() {
    let (rig, server) = (rig(&ALLOWED), listener());
    let (mut program, mut other) = open(&rig, &server);
    let mut sender = program.try_clone().unwrap();
    let all = vec![b'x'; 3_000_000];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let head = "PUT / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
            sender.write_all(head.as_bytes()).unwrap();
            for part in all.chunks(100_000) {
                sender.write_all(format!("{:x}\r\n", part.len()).as_bytes()).unwrap();
                sender.write_all(part).unwrap();
                sender.write_all(b"\r\n").unwrap();
            }
            sender.write_all(b"0\r\n\r\n").unwrap();
        });
        scope.spawn(|| {
            assert!(head_of(&mut other).to_ascii_lowercase().contains("transfer-encoding: chunked"));
            let mut body = Vec::new();
            let mut part = vec![0; 65536];
            while !body.ends_with(b"\r\n0\r\n\r\n") {
                let count = other.read(&mut part).unwrap();
                assert!(count > 0);
                body.extend_from_slice(&part[..count]);
            }
            assert_eq!(body.iter().filter(|byte| **byte == b'x').count(), all.len());
            // Until the connection ends.
            other.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").unwrap();
            other.write_all(&all).unwrap();
            drop(other);
        });
        let mut answer = Vec::new();
        program.read_to_end(&mut answer).unwrap();
        assert_eq!(answer.iter().filter(|byte| **byte == b'x').count(), all.len());
    });
}

#[test]
fn a_host_that_hangs_up_is_seen() {
    let (rig, server) = (rig(&ALLOWED), listener());
    let (mut program, mut other) = open(&rig, &server);
    program.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    head_of(&mut other);
    other.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert!(head_of(&mut program).starts_with("HTTP/1.1 204"));
    drop(other);
    assert_eq!(program.read(&mut [0]).unwrap_or(0), 0);
    // Without an answer.
    let (mut program, mut other) = open(&rig, &server);
    program.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    head_of(&mut other);
    drop(other);
    assert_eq!(program.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn a_line_that_does_not_end_is_not_waited_for() {
    let rig = rig_with(&ALLOWED, "echo 127.0.0.1", |settings| {
        settings.limits.first_bytes = Duration::from_millis(50);
    });
    let server = listener();
    let (mut program, mut other) = open(&rig, &server);
    program.write_all(b"GET /").unwrap();
    assert_eq!(other.read(&mut [0; 9]).unwrap_or(0), 0);
    rig.told.refused();
    let (mut program, mut other) = open(&rig, &server);
    let _ =
        program.write_all(&[b"GET /", &[b'a'; 70_000][..], b" HTTP/1.1\r\nHost: b.example\r\n\r\n"].concat());
    assert_eq!(other.read(&mut [0; 9]).unwrap_or(0), 0);
    assert!(rig.told.closed(2).iter().all(|closed| closed.bytes_out == 0));
}

#[test]
fn a_sandbox_that_ends_waits_for_no_answer() {
    let (rig, server) = (rig(&ALLOWED), listener());
    let (mut program, mut other) = open(&rig, &server);
    program.write_all(b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc").unwrap();
    drop(program);
    rig.relay.finish(Duration::from_secs(600));
    let mut body = [0; 3];
    assert!(head_of(&mut other).starts_with("POST / HTTP/1.1"));
    other.read_exact(&mut body).unwrap();
    assert_eq!((&body, &rig.told.closed(1)[0].outcome), (b"abc", &Outcome::Finished));
}
