//! Requests inside of TLS that ends at the relay.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ringfence_model::{Credential, CredentialSource, Inspect};
use ringfence_relay::{Hidden, Outcome, Secret};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::rig::{Rig, accept, listener, rig_with, rules};

pub(crate) const SECRET: &str = "Bearer tok-0123456789-very-secret";
pub(crate) const PLACEHOLDER: &str = "RINGFENCE_TOKEN";

/// A host with a certificate of an authority that the relay's machine trusts.
pub(crate) struct Site {
    pub(crate) listener: TcpListener,
    pub(crate) rig: Rig,
    pub(crate) config: Arc<ServerConfig>,
}

/// What a rule allows, with its secret.
pub(crate) type Allowed = (Inspect, Option<Secret>);

pub(crate) fn get_only(paths: &[&str], secret: Option<Secret>) -> Allowed {
    let methods = ["GET", "HEAD", "PUT"].map(str::to_owned).into();
    let paths = paths.iter().map(|&path| path.to_owned()).collect();
    let credential = secret.as_ref().map(|secret| secret.credential.clone());
    (Inspect::checked(methods, paths, credential).unwrap().unwrap(), secret)
}

pub(crate) fn secret() -> Option<Secret> {
    Some(secret_of("authorization", SECRET, PLACEHOLDER))
}

fn secret_of(header: &str, value: &str, placeholder: &str) -> Secret {
    let from = CredentialSource::Variables("$TOKEN".to_owned());
    Secret {
        credential: Credential { header: header.to_owned(), from, variable: None },
        value: value.to_owned(),
        hidden: vec![Hidden { value: value.to_owned(), placeholder: placeholder.to_owned() }],
    }
}

pub(crate) fn site(inspect: Allowed, protocols: &[&[u8]]) -> Site {
    let inspected = [("a.example", inspect.clone()), ("b.example", inspect)];
    site_with(&["a.example", "b.example", "127.0.0.1"], &inspected, protocols)
}

fn site_with(allowed: &[&str], inspected: &[(&str, Allowed)], protocols: &[&[u8]]) -> Site {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let rig = rig_with(allowed, "echo 127.0.0.1", |settings| {
        for (host, (inspect, secret)) in inspected {
            let mut rule = rules(&[host]).remove(0);
            rule.inspect = Some(inspect.clone());
            settings.policy.allowed_hosts.insert(0, rule);
            settings.secrets.extend(secret.clone());
        }
        let roots = settings.resolver.with_file_name("roots.pem");
        std::fs::write(&roots, issuer.pem()).unwrap();
        settings.roots = vec![roots];
    });
    Site { listener: listener(), rig, config: Arc::new(config) }
}

/// One that trusts the relay's authority.
pub(crate) fn client_config(rig: &Rig, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let pem = rig.authority.certificate_pem().unwrap();
    assert!(!pem.contains("PRIVATE"));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

type Program = StreamOwned<ClientConnection, TcpStream>;
type Server = StreamOwned<ServerConnection, TcpStream>;

impl Site {
    fn program(&self, host: &str) -> Program {
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let tls = ClientConnection::new(client_config(&self.rig, &[b"http/1.1"]), name).unwrap();
        StreamOwned::new(tls, self.rig.tcp(host, &self.listener))
    }

    /// Serves one connection; what it says is for the caller.
    fn accept(&self) -> Server {
        StreamOwned::new(ServerConnection::new(Arc::clone(&self.config)).unwrap(), accept(&self.listener))
    }

    /// The request as the host saw it, and the answer as the program did.
    fn exchange(&self, request: &str, answer: &[&[u8]]) -> (String, String) {
        std::thread::scope(|scope| {
            let mut program = self.program("a.example");
            let seen = scope.spawn(|| {
                let mut server = self.accept();
                let seen = head_of(&mut server);
                for part in answer {
                    server.write_all(part).unwrap();
                    server.flush().unwrap();
                }
                server.conn.send_close_notify();
                let _ = server.flush();
                seen
            });
            program.write_all(request.as_bytes()).unwrap();
            let mut got = Vec::new();
            let _ = program.read_to_end(&mut got);
            (seen.join().unwrap(), String::from_utf8(got).unwrap())
        })
    }
}

fn head_of(stream: &mut impl Read) -> String {
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

#[test]
fn requests_are_judged_by_method_and_path() {
    for (request, why) in [
        ("POST /v1/x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n", "POST https://a.example"),
        (
            "GET /v2/x HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "is not among the requests that are allowed: GET, HEAD, PUT of /v1/** by `a.example`",
        ),
        ("GET /v1/../v2/x HTTP/1.1\r\nHost: a.example\r\n\r\n", "not among"),
        ("GET /v1/%2e%2e/v2 HTTP/1.1\r\nHost: a.example\r\n\r\n", "not among"),
        ("GET /v1/x HTTP/1.1\r\nHost: b.example\r\n\r\n", "meant for b.example"),
        ("GET http://a.example/v1/x HTTP/1.1\r\nHost: a.example\r\n\r\n", "another scheme"),
        (
            "GET /v1/x HTTP/1.1\r\nHost: a.example\r\nX-HTTP-Method-Override: DELETE\r\n\r\n",
            "with x-http-method-override",
        ),
        ("GET /v1/x HTTP/1.1\r\nHost: a.example\r\nX-Original-URL: /v2\r\n\r\n", "with x-original-url"),
    ] {
        let site = site(get_only(&["/v1/**"], secret()), &[b"http/1.1"]);
        let (seen, got) = site.exchange(request, &[]);
        assert_eq!(seen, "", "{request}");
        assert!(got.starts_with("HTTP/1.1 403 ") && got.contains(why), "{request}: {got}");
        assert!(site.rig.told.refused().why.contains(why));
        assert_eq!(site.rig.told.closed(1)[0].outcome, Outcome::Refused);
    }
    let site = site(get_only(&["/v1/**"], None), &[b"http/1.1"]);
    let request = "GET /v1/x?y=/v2 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let (seen, got) = site.exchange(request, &[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]);
    assert!(seen.starts_with("GET /v1/x?y=/v2 HTTP/1.1\r\n") && !seen.contains("tok-"), "{seen}");
    assert!(got.starts_with("HTTP/1.1 200 OK") && got.ends_with("ok"), "{got}");
    site.rig.told.nothing_was_refused();
}

#[test]
fn a_credential_goes_out_and_never_comes_back() {
    for (own, want) in [
        ("", SECRET),
        ("Authorization: RINGFENCE_TOKEN\r\n", SECRET),
        ("Authorization: token RINGFENCE_TOKEN\r\n", "token Bearer tok-0123456789-very-secret"),
        ("Authorization: something else\r\n", SECRET),
        ("Authorization: one\r\nAuthorization: two\r\n", SECRET),
    ] {
        let site = site(get_only(&[], secret()), &[b"http/1.1"]);
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n{own}Connection: close\r\n\r\n"
        );
        let answer = format!(
            "HTTP/1.1 200 OK\r\nX-Echo: <{SECRET}>\r\nX-Token: tok-0123456789-very-secret\r\nContent-Length: 73\r\n\r\n\
             you sent {SECRET} and"
        );
        let (one, two) = answer.as_bytes().split_at(answer.len() - 20);
        let (seen, got) = site.exchange(&request, &[one, two, b" tok-0123456789-very-secret"]);
        let lines: Vec<String> =
            seen.lines().map(|line| line.replacen("Authorization", "authorization", 1)).collect();
        assert_eq!(lines.iter().filter(|line| line.starts_with("authorization")).count(), 1, "{seen}");
        assert!(lines.contains(&format!("authorization: {want}")), "{seen}");
        assert!(seen.to_ascii_lowercase().contains("accept-encoding: identity"), "{seen}");
        assert!(!got.contains("secret"), "{got}");
        let head = got.to_ascii_lowercase();
        assert!(head.contains("x-echo: <ringfence_token>") && !head.contains("content-length"), "{got}");
        assert_eq!(got.matches(PLACEHOLDER).count(), 4, "{got}");
        let told = format!("{:?} {:?}", site.rig.told.closed(1), site.rig.relay);
        assert!(!told.contains("very-secret"), "{told}");
    }
}

#[test]
fn a_credential_comes_back_by_no_other_part_of_an_answer() {
    let site = site(get_only(&[], secret()), &[b"http/1.1"]);
    let request =
        "GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=0-9\r\nIf-Range: x\r\nConnection: close\r\n\r\n";
    let answer = "HTTP/1.1 200 tok-0123456789-very-secret\r\nTok-0123456789-Very-Secret: x\r\n\
                  X-tok-0123456789-very-secret: y\r\nLocation: https://b.example/?k=tok-0123456789-very-secret\r\n\
                  Content-Length: 0\r\n\r\n";
    let (seen, got) = site.exchange(request, &[answer.as_bytes()]);
    // Parts could be chosen so that none has the whole of it.
    assert!(!seen.to_ascii_lowercase().contains("range"), "{seen}");
    assert!(got.starts_with("HTTP/1.1 200 ") && got.contains("b.example/?k=RINGFENCE_TOKEN"), "{got}");
    assert!(!got.to_ascii_lowercase().contains("secret"), "{got}");
}

#[test]
fn a_placeholder_is_replaced_where_the_program_put_it() {
    let hidden =
        Hidden { value: "tok-0123456789-very-secret".to_owned(), placeholder: PLACEHOLDER.to_owned() };
    let secret = Secret { hidden: vec![hidden], ..secret().unwrap() };
    for (own, want) in [
        ("Authorization: token RINGFENCE_TOKEN\r\n", "token tok-0123456789-very-secret"),
        ("X-Other: RINGFENCE_TOKEN\r\n", SECRET),
    ] {
        let site = site(get_only(&[], Some(secret.clone())), &[b"http/1.1"]);
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{own}Connection: close\r\n\r\n");
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{SECRET}", SECRET.len());
        let (seen, got) = site.exchange(&request, &[answer.as_bytes()]);
        let want = format!("authorization: {want}").to_ascii_lowercase();
        assert!(seen.to_ascii_lowercase().contains(&want), "{seen}");
        assert!(!seen.contains("X-Other: tok"), "{seen}");
        assert!(got.contains("Bearer ") && got.contains(PLACEHOLDER) && !got.contains("tok-"), "{got}");
    }
}

#[test]
fn an_answer_that_cannot_be_searched_is_not_passed_on() {
    let site = site(get_only(&[], secret()), &[b"http/1.1"]);
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc";
    let (_, got) = site.exchange(request, &[answer]);
    assert!(got.starts_with("HTTP/1.1 502"), "{got}");
}

#[test]
fn a_secret_goes_by_tls_only_and_a_rule_allows_http_only() {
    let site = site(get_only(&["/v1"], secret()), &[b"http/1.1"]);
    let mut program = site.rig.tcp("a.example", &site.listener);
    let mut server = accept(&site.listener);
    program.write_all(b"GET /v1 HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    assert!(!head_of(&mut server).contains("secret"));
    server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert!(head_of(&mut program).starts_with("HTTP/1.1 204"));
    program.write_all(b"GET /v2 HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    assert!(head_of(&mut program).starts_with("HTTP/1.1 403"));
    let mut program = site.rig.tcp("a.example", &site.listener);
    let mut server = accept(&site.listener);
    program.write_all(b"SSH-2.0-x\r\n").unwrap();
    assert_eq!(server.read(&mut [0; 9]).unwrap_or(0), 0);
    assert!(site.rig.told.closed(2).iter().all(|closed| closed.outcome == Outcome::Refused));
}

#[test]
fn a_host_that_nobody_vouches_for_is_not_spoken_to() {
    // Its certificate is for another name.
    let site = site(get_only(&[], secret()), &[b"http/1.1"]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = site.accept();
            assert_eq!(head_of(&mut server), "");
        });
        let mut program = site.program("b.example");
        assert!(program.write_all(b"GET / HTTP/1.1\r\n").is_err() || program.read(&mut [0]).is_err());
    });
    assert!(site.rig.told.refused().why.contains("TLS to b.example cannot be begun"));
}

#[test]
fn large_bodies_and_changes_of_protocol_pass() {
    let site = site(get_only(&[], secret()), &[b"http/1.1"]);
    let all = vec![b'x'; 2_000_000];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = site.accept();
            head_of(&mut server);
            let mut body = vec![0; all.len()];
            server.read_exact(&mut body).unwrap();
            server.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            for part in body.chunks(50_000) {
                server.write_all(format!("{:x}\r\n", part.len()).as_bytes()).unwrap();
                server.write_all(part).unwrap();
                server.write_all(b"\r\n").unwrap();
            }
            server.write_all(b"0\r\n\r\n").unwrap();
            server.flush().unwrap();
            assert!(head_of(&mut server).contains("very-secret"));
            let agreed =
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            server.write_all(agreed.as_bytes()).unwrap();
            let mut said = [0; 4];
            server.read_exact(&mut said).unwrap();
            server.write_all(&said).unwrap();
            server.flush().unwrap();
            let _ = server.read(&mut [0]);
        });
        let mut program = site.program("a.example");
        let head = format!("PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n", all.len());
        program.write_all(head.as_bytes()).unwrap();
        program.write_all(&all).unwrap();
        assert!(head_of(&mut program).starts_with("HTTP/1.1 200"));
        let mut body = Vec::new();
        let mut part = vec![0; 65536];
        while !body.ends_with(b"\r\n0\r\n\r\n") {
            let count = program.read(&mut part).unwrap();
            assert!(count > 0);
            body.extend_from_slice(&part[..count]);
        }
        assert_eq!(body.iter().filter(|byte| **byte == b'x').count(), all.len());
        let request =
            "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        program.write_all(request.as_bytes()).unwrap();
        assert!(head_of(&mut program).starts_with("HTTP/1.1 101"));
        program.write_all(b"\x81\0hi").unwrap();
        let mut said = [0; 4];
        program.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"\x81\0hi");
    });
    site.rig.told.nothing_was_refused();
}

#[test]
fn a_wider_rule_is_no_way_around_one_that_is_inspected() {
    let inspected = [("a.example", get_only(&["/v1"], None))];
    let site = site_with(&["a.example", ".example", "127.0.0.1"], &inspected, &[b"http/1.1"]);
    let (seen, got) = site.exchange("GET /v2 HTTP/1.1\r\nHost: a.example\r\n\r\n", &[]);
    assert!(seen.is_empty() && got.starts_with("HTTP/1.1 403"), "{got}");
    // Neither is its address.
    let mut program = site.rig.tcp("127.0.0.1", &site.listener);
    let mut server = accept(&site.listener);
    program.write_all(b"GET /v2 HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    assert!(head_of(&mut program).starts_with("HTTP/1.1 403"));
    assert_eq!(server.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn each_rule_has_its_own_requests_and_its_own_credential() {
    let other = secret_of("x-key", "another-very-secret", "OTHER");
    let inspected =
        [("a.example", get_only(&["/1"], secret())), ("a.example", get_only(&["/2"], Some(other)))];
    for (path, want, not) in [("/1", SECRET, "x-key"), ("/2", "another-very-secret", "authorization")] {
        let site = site_with(&["a.example", "127.0.0.1"], &inspected, &[b"http/1.1"]);
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        let answer =
            format!("HTTP/1.1 200 OK\r\nA: {SECRET}\r\nB: another-very-secret\r\nContent-Length: 0\r\n\r\n");
        let (seen, got) = site.exchange(&request, &[answer.as_bytes()]);
        assert!(seen.contains(want) && !seen.contains(not), "{seen}");
        assert!(got.contains("A: RINGFENCE_TOKEN") && got.contains("B: OTHER"), "{got}");
    }
}

#[test]
fn only_a_websocket_is_changed_to() {
    let site = site(get_only(&[], None), &[b"http/1.1"]);
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (seen, _) = site.exchange(request, &[answer]);
    assert!(seen.starts_with("GET /") && !seen.to_ascii_lowercase().contains("upgrade"), "{seen}");
}
