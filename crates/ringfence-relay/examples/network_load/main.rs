//! What `cargo xtask bench network` measures with: a server, a client that times itself, and requests that are
//! inspected. Each prints JSON.
//!
//! | arguments | what is printed |
//! |---|---|
//! | `serve` | the port; serves until its input ends |
//! | `setup PORT COUNT [PROXY_PORT]` | nanoseconds of each connection: connect, a byte each way, close |
//! | `out PORT STREAMS BYTES`, `in …` | nanoseconds for all bytes of all streams together |
//! | `inspect COUNT [PROXY_PORT PROXY_CA]` | nanoseconds of each HTTPS request: bare, inspected here, and by that proxy |
//!
//! `PROXY_PORT` may be `env`: the port, user and password that `HTTP_PROXY` says.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for a person")]

mod inspected;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use base64::Engine as _;

/// What a connection is for: its first byte, which begins no protocol that anybody looks at.
const PING: u8 = 0;
const OUT: u8 = 1;
const IN: u8 = 2;
const PART: usize = 256 * 1024;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["serve"] => serve(),
        ["setup", port, count, proxy @ ..] => {
            let proxy = proxy.first().map(|port| Proxy::new(port));
            println!("{:?}", setup(port.parse().unwrap(), count.parse().unwrap(), proxy.as_ref()));
        }
        [way @ ("out" | "in"), port, streams, bytes] => {
            let kind = if *way == "out" { OUT } else { IN };
            println!(
                "{}",
                carry(kind, port.parse().unwrap(), streams.parse().unwrap(), bytes.parse().unwrap())
            );
        }
        ["inspect", count] => inspected::run(count.parse().unwrap(), None),
        ["inspect", count, port, ca] => inspected::run(count.parse().unwrap(), Some((port, ca))),
        other => panic!("unknown arguments: {other:?}"),
    }
}

struct Proxy {
    port: u16,
    /// A header, if it wants to know who asks.
    authorization: String,
}

impl Proxy {
    fn new(text: &str) -> Self {
        if text != "env" {
            return Self { port: text.parse().unwrap(), authorization: String::new() };
        }
        let names = ["HTTP_PROXY", "http_proxy"];
        let url = names.iter().find_map(|name| std::env::var(name).ok()).unwrap();
        let port = url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        let user = url.trim_start_matches("http://").rsplit_once('@').map(|(user, _)| user);
        let authorization = user.map_or_else(String::new, |user| {
            // What base64 ends with is all that is escaped in such names.
            let user = base64::engine::general_purpose::STANDARD.encode(user.replace("%3D", "="));
            format!("Proxy-Authorization: Basic {user}\r\n")
        });
        Self { port, authorization }
    }
}

fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            // Who breaks off is none of the others' business.
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    if kind[0] == PING {
        return stream.write_all(&kind);
    }
    let mut count = [0; 8];
    stream.read_exact(&mut count)?;
    let mut left = usize::try_from(u64::from_le_bytes(count)).unwrap();
    let mut part = vec![1; PART];
    if kind[0] == IN {
        while left > 0 {
            let count = left.min(PART);
            stream.write_all(&part[..count])?;
            left -= count;
        }
        return stream.shutdown(Shutdown::Write);
    }
    while left > 0 {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            count => left -= count,
        }
    }
    stream.write_all(&kind)
}

fn setup(port: u16, count: usize, proxy: Option<&Proxy>) -> Vec<u128> {
    let one = || {
        let since = Instant::now();
        let mut stream = connect(port, proxy);
        stream.write_all(&[PING]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        drop(stream);
        since.elapsed().as_nanos()
    };
    // A sandbox's own proxy may listen only after its command has begun.
    let (to, since) = (proxy.map_or(port, |proxy| proxy.port), Instant::now());
    while TcpStream::connect(("127.0.0.1", to)).is_err() && since.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    one();
    (0..count).map(|_| one()).collect()
}

/// Straight, or by a tunnel of that proxy.
fn connect(port: u16, proxy: Option<&Proxy>) -> TcpStream {
    let to = proxy.map_or(port, |proxy| proxy.port);
    let mut stream = TcpStream::connect(("127.0.0.1", to)).unwrap();
    if let Some(proxy) = proxy {
        tunnel(&mut stream, port, &proxy.authorization);
    }
    stream
}

fn tunnel(stream: &mut TcpStream, port: u16, authorization: &str) {
    let text = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{authorization}\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert!(answer[9..].starts_with(b"200"), "{}", String::from_utf8_lossy(&answer));
}

fn carry(kind: u8, port: u16, streams: usize, bytes: u64) -> u128 {
    let each = bytes / streams as u64;
    let streams: Vec<TcpStream> = (0..streams).map(|_| connect(port, None)).collect();
    let since = Instant::now();
    std::thread::scope(|scope| {
        for mut stream in streams {
            scope.spawn(move || {
                stream.write_all(&[kind]).unwrap();
                stream.write_all(&each.to_le_bytes()).unwrap();
                let (mut part, mut left) = (vec![1; PART], usize::try_from(each).unwrap());
                while kind == OUT && left > 0 {
                    let count = left.min(PART);
                    stream.write_all(&part[..count]).unwrap();
                    left -= count;
                }
                // Until the other side saw all of it, or has said all.
                while kind == IN && left > 0 {
                    left -= stream.read(&mut part).unwrap();
                }
                if kind == OUT {
                    stream.read_exact(&mut [0]).unwrap();
                }
            });
        }
    });
    since.elapsed().as_nanos()
}
