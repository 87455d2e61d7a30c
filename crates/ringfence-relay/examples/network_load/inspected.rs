//! HTTPS requests to a site of our own: bare, inspected by the relay, and by another proxy, in turn. Each has a
//! connection of its own, as programs that run for one request make it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ringfence_model::{Host, HostRule, Inspect, NetworkPolicy, RuleLayer, RuleSource};
use ringfence_relay::{Relay, Settings, Wanted};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

const HOST: &str = "a.example";

pub(super) fn run(count: usize, proxy: Option<(&str, &str)>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let port = site(&issuer);
    let room = tempfile::tempdir().unwrap();
    let (relay, authority) = relay(room.path(), &issuer.pem());
    let (own, relays) = (trusting(issuer.pem().as_bytes()), trusting(authority.as_bytes()));
    let proxy = proxy.map(|(port, ca)| (super::Proxy::new(port), trusting(&std::fs::read(ca).unwrap())));
    let straight = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let through = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let upstream = relay.dial(&Wanted::new(Host::parse(HOST).unwrap(), port)).unwrap();
        relay.carry(listener.accept().unwrap().0.into(), upstream);
        program
    };
    let mut times: [Vec<u128>; 3] = Default::default();
    for round in 0..=count {
        let mut taken = vec![(0, request(&own, straight)), (1, request(&relays, through))];
        if let Some((proxy, trust)) = &proxy {
            let tunnelled = || super::connect(port, Some(proxy));
            taken.push((2, request(trust, tunnelled)));
        }
        // The first makes certificates, which are kept.
        if round > 0 {
            taken.into_iter().for_each(|(way, time)| times[way].push(time));
        }
    }
    let [bare, ours, theirs] = times;
    println!("{{\"bare\":{bare:?},\"relay\":{ours:?},\"proxy\":{theirs:?}}}");
}

/// Serves HTTPS until this program ends.
fn site(issuer: &CertifiedIssuer<'_, KeyPair>) -> u16 {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(tls, stream.unwrap());
            std::thread::spawn(move || {
                let mut request = Vec::new();
                let mut part = [0; 4096];
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut part) {
                        Ok(0) | Err(_) => return,
                        Ok(count) => request.extend_from_slice(&part[..count]),
                    }
                }
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi");
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    port
}

/// One that allows `GET` alone to the site, and its authority.
fn relay(room: &std::path::Path, roots: &str) -> (Relay, String) {
    let rule = |text| HostRule::parse(text, RuleSource::layer(RuleLayer::User)).unwrap();
    let mut inspected = rule(HOST);
    inspected.inspect = Inspect::checked(vec!["GET".to_owned()], vec!["/**".to_owned()], None).unwrap();
    let allowed_hosts = vec![inspected, rule("127.0.0.1")];
    let mut settings = Settings::new(NetworkPolicy { allowed_hosts, ..NetworkPolicy::default() });
    settings.resolver = room.join("getent");
    std::fs::write(&settings.resolver, "#!/bin/sh\necho 127.0.0.1\n").unwrap();
    std::fs::set_permissions(&settings.resolver, std::fs::Permissions::from_mode(0o755)).unwrap();
    settings.roots = vec![room.join("roots.pem")];
    std::fs::write(&settings.roots[0], roots).unwrap();
    let authority = settings.authority.certificate_pem().unwrap();
    (Relay::new(settings, Arc::new(())), authority)
}

fn trusting(pem: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // No session is taken up again: each is as the first one.
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

/// From the connection to the whole answer.
fn request(trust: &Arc<ClientConfig>, connect: impl Fn() -> TcpStream) -> u128 {
    let since = Instant::now();
    let tls = ClientConnection::new(Arc::clone(trust), ServerName::try_from(HOST).unwrap()).unwrap();
    let mut stream = StreamOwned::new(tls, connect());
    // As clients of HTTP do: at once, and without waiting for more to send.
    stream.sock.set_nodelay(true).unwrap();
    let text = format!("GET /x HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // Some end without saying so within TLS.
    let _ = stream.read_to_end(&mut answer);
    assert!(
        answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"hi"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    since.elapsed().as_nanos()
}
