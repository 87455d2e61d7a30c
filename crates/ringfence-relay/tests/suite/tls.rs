//! The name in a ClientHello.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ringfence_relay::Outcome;
use rustls::pki_types::ServerName;

use super::rig::{accept, listener, rig, rig_with};

const ALLOWED: [&str; 3] = ["a.example", "other.example", "127.0.0.1"];

/// What a real client sends first; an address is not named.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn the_allowed_name_is_carried() {
    let (rig, server) = (rig(&ALLOWED), listener());
    for (host, name) in [
        ("a.example", "a.example"),
        ("a.example", "A.Example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "a.example"),
    ] {
        let bytes = hello(name);
        for part in [bytes.len(), 3] {
            let mut program = rig.tcp(host, &server);
            program.set_nodelay(true).unwrap();
            let mut other = accept(&server);
            for part in bytes.chunks(part) {
                program.write_all(part).unwrap();
            }
            let mut got = vec![0; bytes.len()];
            other.read_exact(&mut got).unwrap();
            assert_eq!(got, bytes, "{host} {name}");
        }
    }
    rig.told.nothing_was_refused();
}

#[test]
fn another_name_or_none_is_refused_and_nothing_goes_out() {
    for (host, name, shown) in [
        ("a.example", "b.example", Some("b.example")),
        // Allowed, and not here.
        ("a.example", "other.example", Some("other.example")),
        ("a.example", "x.a.example", Some("x.a.example")),
        ("a.example", "192.0.2.1", None),
        ("127.0.0.1", "b.example", Some("b.example")),
    ] {
        let (rig, server) = (rig(&ALLOWED), listener());
        let mut program = rig.tcp(host, &server);
        let mut other = accept(&server);
        program.write_all(&hello(name)).unwrap();
        assert!(other.read(&mut [0; 9]).is_err(), "{host} {name}");
        assert!(program.read(&mut [0; 9]).is_err(), "{host} {name}");
        let refused = rig.told.refused();
        assert_eq!((refused.host.to_string().as_str(), refused.named.as_deref()), (host, shown));
        assert!(refused.why.contains(host), "{}", refused.why);
        let closed = &rig.told.closed(1)[0];
        assert_eq!((closed.bytes_out, &closed.outcome), (0, &Outcome::Refused));
    }
}

#[test]
fn rubbish_that_begins_like_tls_is_refused() {
    let whole = hello("a.example");
    for bytes in [vec![0x16; 70_000], [&[0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff][..], &[0; 66_000]].concat()] {
        let (rig, server) = (rig(&ALLOWED), listener());
        let mut program = rig.tcp("a.example", &server);
        let mut other = accept(&server);
        let _ = program.write_all(&bytes);
        assert!(other.read(&mut [0; 9]).is_err());
        assert!(rig.told.refused().why.contains("cannot be read"));
    }
    // Cut off, and never finished.
    let rig = rig_with(&ALLOWED, "echo 127.0.0.1", |settings| {
        settings.limits.first_bytes = Duration::from_millis(50);
    });
    let server = listener();
    let mut program = rig.tcp("a.example", &server);
    let mut other = accept(&server);
    program.write_all(&whole[..whole.len() - 1]).unwrap();
    assert!(other.read(&mut [0; 9]).is_err());
    assert!(rig.told.refused().why.contains("did not come to an end"));
}
