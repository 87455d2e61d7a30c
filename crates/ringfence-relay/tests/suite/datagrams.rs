//! Datagrams between senders and the host that a socket stands for.

use std::net::UdpSocket;
use std::time::Duration;

use ringfence_relay::{DatagramSocket, Decision, Outcome};

use super::rig::{LONG, Rig, rig, rig_with, wanted};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// A sender whose datagrams go to that server, as if it were that host.
fn sender(rig: &Rig, host: &str, server: &UdpSocket) -> UdpSocket {
    let (inside, sender) = (socket(), socket());
    sender.connect(inside.local_addr().unwrap()).unwrap();
    let inside = DatagramSocket { socket: inside.into(), errors: None };
    rig.relay.carry_datagrams(inside, wanted(host, server.local_addr().unwrap().port()));
    sender
}

fn heard(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 100];
    let count = socket.recv(&mut buffer).unwrap();
    buffer[..count].to_vec()
}

#[test]
fn datagrams_go_to_the_host_and_its_answers_to_the_sender() {
    let (rig, server) = (rig(&["a.example/udp", "127.0.0.1"]), socket());
    let sender = sender(&rig, "a.example", &server);
    for text in ["one", "two"] {
        sender.send(text.as_bytes()).unwrap();
        let mut buffer = [0; 100];
        let (count, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], text.as_bytes());
        // Somebody else's is not passed on.
        socket().send_to(b"forged", from).unwrap();
        server.send_to(b"answer", from).unwrap();
        assert_eq!(heard(&sender), b"answer");
    }
    rig.relay.finish(LONG);
    let closed = &rig.told.closed(1)[0];
    assert_eq!((closed.bytes_out, closed.bytes_in), (6, 12));
    assert_eq!(closed.outcome, Outcome::Finished);
    rig.told.nothing_was_refused();
}

#[test]
fn what_no_rule_allows_as_datagrams_is_not_sent() {
    let server = socket();
    for (allowed, host, word) in [
        (&["a.example", "127.0.0.1"][..], "a.example", "no rule allows datagrams"),
        (&["a.example/udp"][..], "a.example", "machine itself"),
        (&["a.example/udp", "127.0.0.1"][..], "b.example", "no rule allows datagrams"),
    ] {
        let rig = rig(allowed);
        let sender = sender(&rig, host, &server);
        sender.send(b"hello").unwrap();
        let refused = rig.told.refused();
        assert!(refused.why.contains(word), "{refused:?}");
        rig.relay.finish(LONG);
        server.set_nonblocking(true).unwrap();
        assert!(server.recv(&mut [0; 10]).is_err());
    }
    let host = ringfence_model::Host::parse("a.example").unwrap();
    assert_eq!(rig(&["a.example"]).relay.decide_datagrams(&host, 443), Decision::Denied(None));
}

#[test]
fn a_sender_that_is_silent_ends_and_may_begin_again() {
    let server = socket();
    let rig = rig_with(&["127.0.0.1/udp"], "", |settings| {
        settings.limits.datagrams_idle = Duration::from_millis(20);
    });
    let sender = sender(&rig, "127.0.0.1", &server);
    for count in 1..=3 {
        sender.send(b"hello").unwrap();
        assert_eq!(heard(&server), b"hello");
        assert_eq!(rig.told.closed(count).len(), count);
    }
}

#[test]
fn what_was_said_is_carried_before_the_end() {
    let (rig, server) = (rig(&["127.0.0.1/udp"]), socket());
    let sender = sender(&rig, "127.0.0.1", &server);
    for number in 0..20_u8 {
        sender.send(&[number]).unwrap();
    }
    rig.relay.finish(LONG);
    for number in 0..20_u8 {
        assert_eq!(heard(&server), [number]);
    }
}

#[test]
fn no_more_bytes_leave_than_may() {
    let server = socket();
    let rig = rig_with(&["127.0.0.1/udp"], "", |settings| settings.limits.bytes_out = Some(8));
    let sender = sender(&rig, "127.0.0.1", &server);
    sender.send(b"hello").unwrap();
    assert_eq!(heard(&server), b"hello");
    sender.send(b"again").unwrap();
    assert_eq!(rig.told.closed(1)[0].outcome, Outcome::TooManyBytes);
    server.set_nonblocking(true).unwrap();
    assert!(server.recv(&mut [0; 10]).is_err());
}
