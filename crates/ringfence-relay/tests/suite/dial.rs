//! Names, addresses, proxies, limits.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use ringfence_model::Host;
use ringfence_relay::{Decision, DialError, HostProxy};
use rustix::io::Errno;

use super::rig::{accept, listener, port_of, rig, rig_with, rules, wanted};

#[test]
fn what_is_not_allowed_is_not_dialled() {
    let rig = rig_with(&["a.example", "127.0.0.1"], "echo 127.0.0.1", |settings| {
        settings.policy.blocked_hosts = rules(&["evil.example"]);
        settings.policy.blocked_ports = vec![25];
    });
    for (host, port, why) in [
        ("b.example", 443, "not on the list"),
        ("evil.example", 443, "blocked by `evil.example`"),
        ("a.example", 25, "port 25 is blocked"),
    ] {
        let mut wanted = wanted(host, port);
        let error = rig.relay.dial(&wanted).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.errno(), Errno::ACCESS.raw_os_error());
        // What a person says lifts what nobody listed, and nothing else.
        wanted.by_person = true;
        let error = rig.relay.dial(&wanted).unwrap_err();
        assert_eq!(matches!(error, DialError::Denied { .. }), host != "b.example", "{host}: {error}");
    }
    assert_eq!(rig.relay.decide(&Host::parse("b.example").unwrap(), 1), Decision::Denied(None));
}

#[test]
fn an_allowed_name_leads_to_no_address_that_nobody_named() {
    for (answer, why) in [
        ("127.0.0.1", "the machine itself"),
        ("::1", "the machine itself"),
        ("::ffff:127.0.0.1", "the machine itself"),
        ("169.254.169.254", "metadata"),
        ("10.0.0.1", "exact name"),
        ("0.0.0.0", "nobody's"),
    ] {
        let rig = rig_with(&["*.a.example", "localhost"], &format!("echo '{answer} STREAM'"), |_| ());
        let error = rig.dial("x.a.example", 80).unwrap_err();
        assert!(error.to_string().contains(why), "{answer}: {error}");
        assert_eq!(error.errno(), Errno::ACCESS.raw_os_error());
        assert!(matches!(rig.dial("localhost", 80), Err(DialError::Address { .. })));
    }
}

#[test]
fn only_vetted_addresses_are_tried() {
    let server = listener();
    let rig = rig_with(&["a.example", "127.0.0.1"], "echo 127.0.0.2; echo ::1; echo 127.0.0.1", |_| ());
    let upstream = rig.dial("a.example", port_of(&server)).unwrap();
    assert_eq!(upstream.address().unwrap(), server.local_addr().unwrap());
}

#[test]
fn a_name_that_changes_its_address_is_vetted_with_the_answer_that_is_connected_to() {
    let good = listener();
    let script = "n=${0%/*}/n; echo x >> $n; \
                  if [ $(wc -l < $n) = 1 ]; then echo 127.0.0.1; else echo 127.0.0.66; fi";
    let rig = rig_with(&["a.example", "127.0.0.1"], &format!("PATH=/usr/bin:/bin\n{script}"), |_| ());
    for _ in 0..3 {
        let upstream = rig.dial("a.example", port_of(&good)).unwrap();
        assert_eq!(upstream.address().unwrap(), good.local_addr().unwrap());
    }
    assert_eq!(std::fs::read_to_string(rig.dir.path().join("n")).unwrap().lines().count(), 1);
    // Another name gets the other answer, which is refused and never tried.
    let rig = rig_with(&["a.example", "127.0.0.1"], "echo 127.0.0.66", |_| ());
    assert!(matches!(rig.dial("a.example", port_of(&good)), Err(DialError::Address { .. })));
}

#[test]
fn failures_are_what_connect_fails_with() {
    let nobody = port_of(&listener());
    let rig = rig(&["a.example", "127.0.0.1"]);
    let error = rig.dial("a.example", nobody).unwrap_err();
    assert_eq!(error.errno(), Errno::CONNREFUSED.raw_os_error(), "{error}");
    let rig = rig_with(&["a.example"], "exit 2", |_| ());
    let error = rig.dial("a.example", 80).unwrap_err();
    assert_eq!(error.errno(), Errno::HOSTUNREACH.raw_os_error(), "{error}");
    let rig = rig_with(&["a.example"], "exec sleep 60", |settings| {
        settings.limits.look_up = Duration::from_millis(50);
    });
    let since = Instant::now();
    let error = rig.dial("a.example", 80).unwrap_err();
    assert_eq!(error.errno(), Errno::TIMEDOUT.raw_os_error(), "{error}");
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_named_port_of_the_hosts_own_is_reached_as_itself_only() {
    let server = listener();
    let port = port_of(&server);
    let rig = rig_with(&["a.example"], "echo 127.0.0.1", |settings| settings.policy.host_ports = vec![port]);
    assert_eq!(rig.relay.decide(&Host::parse("localhost").unwrap(), port), Decision::HostPort);
    assert!(rig.dial("localhost", port).is_ok());
    assert!(rig.dial("127.0.0.1", port).is_ok());
    assert!(matches!(rig.dial("a.example", port), Err(DialError::Address { .. })));
    assert!(matches!(rig.dial("127.0.0.1", port ^ 1), Err(DialError::Denied { .. })));
}

#[test]
fn connections_at_once_are_limited_and_given_back() {
    let server = listener();
    let rig = rig_with(&["127.0.0.1"], "", |settings| settings.limits.connections = 2);
    let one = rig.dial("127.0.0.1", port_of(&server)).unwrap();
    let _two = rig.dial("127.0.0.1", port_of(&server)).unwrap();
    for _ in 0..3 {
        let error = rig.dial("127.0.0.1", port_of(&server)).unwrap_err();
        assert_eq!(error, DialError::TooManyConnections { most: 2 });
    }
    drop(one);
    assert!(rig.dial("127.0.0.1", port_of(&server)).is_ok());
}

#[test]
fn connections_in_a_minute_are_limited_and_not_given_back() {
    let server = listener();
    let rig = rig_with(&["127.0.0.1"], "", |settings| settings.limits.connections_per_minute = Some(2));
    drop(rig.dial("127.0.0.1", port_of(&server)).unwrap());
    drop(rig.dial("127.0.0.1", port_of(&server)).unwrap());
    let error = rig.dial("127.0.0.1", port_of(&server)).unwrap_err();
    assert_eq!(error, DialError::TooFast { most: 2 });
    assert!(error.to_string().contains("network.maxConnectionsPerMinute"), "{error}");
}

#[test]
fn a_hosts_proxy_is_the_way_out() {
    let proxy = listener();
    let url = format!("http://ada:secret@127.0.0.1:{}", port_of(&proxy));
    let rig = rig_with(&["a.example", "direct.example", "10.1.1.0/24"], "echo 127.0.0.1", |settings| {
        settings.proxy = HostProxy {
            https: Some(url),
            none_for: Some("direct.example".to_owned()),
            ..HostProxy::default()
        };
    });
    assert!(!format!("{:?}", rig.relay).contains("ada:secret"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for status in ["200 OK", "403 Forbidden"] {
                let mut stream = accept(&proxy);
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                assert!(
                    head.starts_with("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n"),
                    "{head}"
                );
                assert!(head.contains("Proxy-Authorization: Basic YWRhOnNlY3JldA==\r\n"), "{head}");
                stream.write_all(format!("HTTP/1.1 {status}\r\nVia: x\r\n\r\nhello").as_bytes()).unwrap();
            }
        });
        let upstream = rig.dial("a.example", 443).unwrap();
        assert_eq!(upstream.address(), None);
        let (mut program, inside) = super::rig::tcp_pair();
        rig.relay.carry(inside.into(), upstream);
        let mut said = [0; 5];
        program.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"hello");
        let error = rig.dial("a.example", 443).unwrap_err();
        assert!(error.to_string().contains("403"), "{error}");
    });
    // Vetted here: not the proxy's.
    assert!(matches!(rig.dial("direct.example", 443), Err(DialError::Address { .. })));
}

#[test]
fn a_proxy_that_cannot_be_used_is_no_reason_to_go_without() {
    for proxy in ["socks5://127.0.0.1:1", "https://127.0.0.1:1", "http://127.0.0.1:1"] {
        let rig = rig_with(&["a.example", "127.0.0.1"], "echo 127.0.0.1", |settings| {
            settings.proxy.all = Some(proxy.to_owned());
        });
        assert!(matches!(rig.dial("a.example", 443), Err(DialError::Proxy { .. })), "{proxy}");
    }
}

#[test]
fn requests_to_port_80_are_made_to_the_proxy() {
    let proxy = listener();
    let rig = rig_with(&["a.example"], "echo 127.0.0.1", |settings| {
        settings.proxy.http = Some(format!("http://ada:secret@127.0.0.1:{}", port_of(&proxy)));
    });
    let (mut program, inside) = super::rig::tcp_pair();
    rig.relay.carry(inside.into(), rig.dial("a.example", 80).unwrap());
    let mut other = accept(&proxy);
    program.write_all(b"GET /x?y HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        other.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: Basic YWRhOnNlY3JldA==\r\n"), "{head}");
    // Nobody else's requests, and nothing else.
    for other in ["GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01\x02\0\x01"] {
        let (mut program, inside) = super::rig::tcp_pair();
        rig.relay.carry(inside.into(), rig.dial("a.example", 80).unwrap());
        let mut taken = accept(&proxy);
        program.write_all(other.as_bytes()).unwrap();
        assert_eq!(taken.read(&mut [0]).unwrap_or(0), 0, "{other}");
    }
    assert!(matches!(rig.dial("x.localhost", 80), Err(DialError::Denied { .. })));
}
