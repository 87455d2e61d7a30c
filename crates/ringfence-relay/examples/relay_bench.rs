//! How fast bytes go through the relay, beside a bare pair of sockets in the same run:
//! `cargo run --release -p ringfence-relay --example relay_bench`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for a person")]

use std::io::Read as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use ringfence_model::{Host, HostRule, NetworkPolicy, RuleLayer, RuleSource};
use ringfence_relay::{Relay, Settings, Wanted};

const PART: usize = 256 * 1024;
const ALL: usize = 512 << 20;
/// Of each way, in turn.
const ROUNDS: usize = 7;

fn main() {
    let rule = HostRule::parse("127.0.0.1", RuleSource::layer(RuleLayer::User)).unwrap();
    let policy = NetworkPolicy { allowed_hosts: vec![rule], ..NetworkPolicy::default() };
    let relay = Relay::new(Settings::new(policy), Arc::new(()));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let bare = || {
        let program = TcpStream::connect(("127.0.0.1", port)).unwrap();
        (program, server.accept().unwrap().0)
    };
    let dial = || {
        let wanted = Wanted::new(Host::parse("127.0.0.1").unwrap(), port);
        (relay.dial(&wanted).unwrap(), server.accept().unwrap().0)
    };
    let through = || {
        let (upstream, host) = dial();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        relay.carry(listener.accept().unwrap().0.into(), upstream);
        (program, host)
    };
    let through_local = || {
        let (upstream, host) = dial();
        let (program, inside) = UnixStream::pair().unwrap();
        relay.carry(inside.into(), upstream);
        (program, host)
    };
    for streams in [1, 64] {
        for direction in ["out", "in"] {
            let is_out = direction == "out";
            let rounds: Vec<[Rate; 3]> = (0..ROUNDS)
                .map(|_| {
                    [
                        rate(streams, is_out, bare),
                        rate(streams, is_out, through),
                        rate(streams, is_out, through_local),
                    ]
                })
                .collect();
            for (index, way) in ["bare", "relay", "relay, local socket"].into_iter().enumerate() {
                let middle = |of: &dyn Fn(&[Rate; 3]) -> f64| {
                    let mut all: Vec<f64> = rounds.iter().map(of).collect();
                    all.sort_by(f64::total_cmp);
                    all[all.len() / 2]
                };
                println!(
                    "{streams:>2} streams {direction:>3}: {way:<20} {:5.2} GB/s ({:.2}), {:.2} s of processors for a GB ({:.2})",
                    middle(&|round| round[index].gigabytes),
                    middle(&|round| round[index].gigabytes / round[0].gigabytes),
                    middle(&|round| round[index].processors),
                    middle(&|round| round[index].processors / round[0].processors),
                );
            }
        }
    }
}

/// Either kind of socket.
trait Stream: std::io::Read + std::io::Write + Send {
    fn finish(&self);
}

impl Stream for TcpStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Stream for UnixStream {
    fn finish(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

#[derive(Clone, Copy)]
struct Rate {
    /// In a second.
    gigabytes: f64,
    /// Seconds of all threads for each gigabyte, which says more on a busy machine.
    processors: f64,
}

fn rate<S: Stream>(streams: usize, is_out: bool, open: impl Fn() -> (S, TcpStream)) -> Rate {
    let each = ALL / streams / PART;
    let pairs: Vec<_> = (0..streams)
        .map(|_| {
            let (mut program, mut host) = open();
            // So that the look is over.
            program.write_all(&[0]).unwrap();
            host.read_exact(&mut [0]).unwrap();
            (program, host)
        })
        .collect();
    let (since, spent) = (Instant::now(), processors());
    std::thread::scope(|scope| {
        for (program, host) in pairs {
            if is_out {
                scope.spawn(move || send(program, each));
                scope.spawn(move || receive(host));
            } else {
                scope.spawn(move || send(host, each));
                scope.spawn(move || receive(program));
            }
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let gigabytes = (each * streams * PART) as f64 / 1e9;
    Rate {
        gigabytes: gigabytes / since.elapsed().as_secs_f64(),
        processors: (processors() - spent) / gigabytes,
    }
}

/// Seconds that this process has had so far.
fn processors() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}

fn send(mut stream: impl Stream, parts: usize) {
    let part = vec![1; PART];
    for _ in 0..parts {
        stream.write_all(&part).unwrap();
    }
    stream.finish();
    // Until the other side saw all of it.
    let _ = stream.read(&mut [0]);
}

fn receive(mut stream: impl Stream) {
    let mut part = vec![0; PART];
    while stream.read(&mut part).unwrap() > 0 {}
}
