//! Bytes as they are.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

use ringfence_relay::{DialError, End, Outcome};
use rustix::net::sockopt;

use super::rig::{accept, listener, port_of, rig, rig_with};

const HOST: &str = "127.0.0.1";

#[test]
fn a_server_that_speaks_first_is_heard() {
    let (rig, server) = (rig(&[HOST]), listener());
    let mut program = rig.local(HOST, &server);
    let mut other = accept(&server);
    other.write_all(b"220 hello\r\n").unwrap();
    let mut said = [0; 11];
    program.read_exact(&mut said).unwrap();
    program.write_all(b"EHLO x\r\n").unwrap();
    let mut said = [0; 8];
    other.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"EHLO x\r\n");
    drop((program, other));
    let closed = &rig.told.closed(1)[0];
    assert_eq!((closed.bytes_out, closed.bytes_in, &closed.outcome), (8, 11, &Outcome::Finished));
    assert_eq!(closed.program.as_deref(), Some("curl"));
}

#[test]
fn a_program_that_speaks_first_without_a_line_is_heard() {
    let (rig, server) = (rig(&[HOST]), listener());
    let mut program = rig.tcp(HOST, &server);
    let mut other = accept(&server);
    for said in [&b"hello"[..], b" again", b" and again"] {
        program.write_all(said).unwrap();
        let mut heard = vec![0; said.len()];
        other.read_exact(&mut heard).unwrap();
        assert_eq!(heard, said);
        other.write_all(b"yes").unwrap();
        program.read_exact(&mut [0; 3]).unwrap();
    }
    drop((program, other));
    let closed = &rig.told.closed(1)[0];
    assert_eq!((closed.bytes_out, closed.bytes_in, &closed.outcome), (21, 9, &Outcome::Finished));
    rig.told.nothing_was_refused();
}

#[test]
fn a_request_whose_method_was_passed_on_by_itself_is_refused() {
    let (rig, server) = (rig(&[HOST]), listener());
    let mut program = rig.tcp(HOST, &server);
    let mut other = accept(&server);
    program.write_all(b"PROPFIND").unwrap();
    other.read_exact(&mut [0; 8]).unwrap();
    program.write_all(b" / HTTP/1.1\r\nHost: b.example\r\n\r\n").unwrap();
    assert_eq!(other.read(&mut [0; 9]).unwrap_or(0), 0);
    assert!(rig.told.refused().why.contains("in pieces"));
    assert_eq!(rig.told.closed(1)[0].bytes_out, 8);
}

#[test]
fn each_direction_ends_by_itself() {
    let (rig, server) = (rig(&[HOST]), listener());
    let mut program = rig.tcp(HOST, &server);
    let mut other = accept(&server);
    program.write_all(b"\0question").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    let mut question = Vec::new();
    other.read_to_end(&mut question).unwrap();
    assert_eq!(question, b"\0question");
    other.write_all(b"answer").unwrap();
    drop(other);
    let mut answer = Vec::new();
    program.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"answer");
    assert_eq!(rig.told.closed(1)[0].outcome, Outcome::Finished);
    // The server ends first, before a byte came.
    let mut program = rig.local(HOST, &server);
    drop(accept(&server));
    assert_eq!(program.read(&mut [0]).unwrap(), 0);
    drop(program);
    assert_eq!(rig.told.closed(2)[1].outcome, Outcome::Finished);
}

#[test]
fn a_reset_is_passed_on_both_ways() {
    for by in [End::Sandbox, End::Host] {
        let (rig, server) = (rig(&[HOST]), listener());
        let mut program = rig.tcp(HOST, &server);
        let mut other = accept(&server);
        program.write_all(b"\0").unwrap();
        other.read_exact(&mut [0]).unwrap();
        let (breaks, mut sees) = if by == End::Host { (other, program) } else { (program, other) };
        sockopt::set_socket_linger(&breaks, Some(Duration::ZERO)).unwrap();
        drop(breaks);
        assert_eq!(sees.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(rig.told.closed(1)[0].outcome, Outcome::Reset(by));
    }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 7 + at / 251) % 251).unwrap() ^ seed).collect()
}

#[test]
fn many_bytes_arrive_as_they_were_sent_and_are_counted() {
    let (rig, server) = (rig(&[HOST]), listener());
    for is_tcp in [true, false] {
        let (up, down) = (pattern(9_000_001, 0x80), pattern(7_000_003, 3));
        let (mut sending, mut receiving): (Box<dyn std::io::Write + Send>, Box<dyn std::io::Read + Send>) =
            if is_tcp {
                let program = rig.tcp(HOST, &server);
                (Box::new(program.try_clone().unwrap()), Box::new(program))
            } else {
                let program = rig.local(HOST, &server);
                (Box::new(program.try_clone().unwrap()), Box::new(program))
            };
        let mut other = accept(&server);
        let mut answering = other.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| sending.write_all(&up).unwrap());
            scope.spawn(|| answering.write_all(&down).unwrap());
            scope.spawn(|| {
                let mut got = vec![0; up.len()];
                other.read_exact(&mut got).unwrap();
                assert!(got == up);
            });
            let mut got = vec![0; down.len()];
            receiving.read_exact(&mut got).unwrap();
            assert!(got == down);
        });
        drop((sending, receiving, other, answering));
        let closed = rig.told.closed(1).pop().unwrap();
        assert_eq!((closed.bytes_out, closed.bytes_in), (9_000_001, 7_000_003));
    }
}

#[test]
fn a_slow_reader_loses_nothing_of_a_host_that_is_gone() {
    let (rig, server) = (rig(&[HOST]), listener());
    let mut program = rig.local(HOST, &server);
    let mut other = accept(&server);
    let all = pattern(3_000_000, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            other.write_all(&all).unwrap();
            drop(other);
        });
        let mut got = Vec::new();
        let mut part = vec![0; 50_000];
        loop {
            match program.read(&mut part).unwrap() {
                0 => break,
                count => got.extend_from_slice(&part[..count]),
            }
            std::thread::yield_now();
        }
        assert!(got == all);
    });
}

#[test]
fn many_connections_at_once() {
    let server = listener();
    // The first runtime of a process leaves something that all of them share.
    let first = rig(&[HOST]);
    drop((first.local(HOST, &server), accept(&server)));
    first.told.closed(1);
    drop(first);
    let rig = rig(&[HOST]);
    let before = open_descriptors();
    let mut pairs: Vec<_> = (0..200u8)
        .map(|number| {
            let program = rig.local(HOST, &server);
            (number, program, accept(&server))
        })
        .collect();
    for (number, program, _) in &mut pairs {
        program.write_all(&[0x80, *number]).unwrap();
    }
    for (number, _, other) in &mut pairs {
        let mut got = [0; 2];
        other.read_exact(&mut got).unwrap();
        assert_eq!(got, [0x80, *number]);
        other.write_all(&got).unwrap();
    }
    for (number, program, _) in &mut pairs {
        let mut got = [0; 2];
        program.read_exact(&mut got).unwrap();
        assert_eq!(got, [0x80, *number]);
    }
    drop(pairs);
    let closed = rig.told.closed(200);
    assert!(closed.iter().all(|closed| (closed.bytes_out, closed.bytes_in) == (2, 2)));
    drop(rig);
    // Other tests of this process have theirs.
    if std::env::var_os("NEXTEST").is_some() {
        assert!(open_descriptors() <= before, "{} > {before}", open_descriptors());
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn bytes_out_are_limited_for_all_connections_together() {
    let server = listener();
    let rig = rig_with(&[HOST], "", |settings| settings.limits.bytes_out = Some(100));
    let mut one = rig.tcp(HOST, &server);
    let mut first = accept(&server);
    one.write_all(&[0; 60]).unwrap();
    first.read_exact(&mut [0; 60]).unwrap();
    let mut two = rig.tcp(HOST, &server);
    let mut second = accept(&server);
    two.write_all(&[0; 60]).unwrap();
    assert_eq!(second.read(&mut [0; 60]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(rig.told.closed(1)[0].outcome, Outcome::TooManyBytes);
    assert_eq!(rig.dial(HOST, port_of(&server)).unwrap_err(), DialError::TooManyBytes { most: 100 });
}

#[test]
fn connections_end_with_their_relay() {
    let (rig, server) = (rig(&[HOST]), listener());
    let mut program = rig.local(HOST, &server);
    let mut other = accept(&server);
    program.write_all(b"\0").unwrap();
    other.read_exact(&mut [0]).unwrap();
    let told = std::sync::Arc::clone(&rig.told);
    drop(rig);
    assert_eq!(told.closed(1)[0].outcome, Outcome::Stopped);
    assert!(matches!(program.read(&mut [0]), Ok(0) | Err(_)));
    assert!(matches!(other.read(&mut [0]), Ok(0) | Err(_)));
}
