//! Hosts by name: what layers add, what a project takes away, what is refused at load.

use super::*;
use ringfence_model::{Host, HostDecision};

fn decided(policy: &Policy, host: &str, port: u16) -> &'static str {
    match policy.network.decide_host(&Host::parse(host).unwrap(), port) {
        HostDecision::Allowed(_) => "allowed",
        HostDecision::Ask => "ask",
        HostDecision::Denied(Some(_)) => "blocked",
        HostDecision::Denied(None) => "denied",
        HostDecision::DeniedPort => "port",
    }
}

const USER: &str = r#"{
  "allowedHosts": ["a.example", ".b.example:443", "host-port:5432"],
  "network": { "ask": true, "host_ports": [6379], "maxConnections": 20, "max_bytes_out": "1G",
    "maxConnectionsPerMinute": 60 },
  "agents": { "x": { "allowedHosts": ["c.example"], "network": { "ask": false } } }
}"#;

#[test]
fn the_persons_layers_add_and_the_closest_word_counts() {
    let world = World::new().user(USER);
    let policy = world.policy();
    for (host, port, want) in [
        ("a.example", 80, "allowed"),
        ("x.b.example", 443, "allowed"),
        ("x.b.example", 80, "ask"),
        ("c.example", 443, "ask"),
        ("a.example", 22, "port"),
    ] {
        assert_eq!(decided(&policy, host, port), want, "{host}:{port}");
    }
    let network = &policy.network;
    assert_eq!((network.max_connections, network.max_bytes_out), (Some(20), Some(1 << 30)));
    assert_eq!(network.max_connections_per_minute, Some(60));
    assert_eq!(network.host_ports, [5432, 6379]);
    let of_agent = world.policy_of(&world.load_agent("x"));
    assert_eq!(decided(&of_agent, "c.example", 443), "allowed");
    assert_eq!(decided(&of_agent, "d.example", 443), "denied");
    let call = json!({ "allowedHosts": ["d.example"], "blockedHosts": ["a.example"] });
    let called = world.policy_of(&world.load_with(vec![], call));
    assert_eq!(decided(&called, "d.example", 443), "allowed");
    assert_eq!(decided(&called, "a.example", 443), "blocked");
    let source = &network.allowed_hosts[1].source;
    assert_eq!((source.line, source.layer), (Some(2), RuleLayer::User));
}

#[test]
fn a_strict_mode_keeps_nobody() {
    let network = World::new().user(&USER.replacen('{', r#"{ "mode": "strict","#, 1)).policy().network;
    assert!(!network.is_by_name(), "{network:?}");
}

#[test]
fn a_project_takes_away_and_adds_nothing() {
    for (text, host, want) in [
        (r#"{ "allowedHosts": ["a.example"] }"#, "a.example", "allowed"),
        (r#"{ "allowedHosts": ["a.example"] }"#, "x.b.example", "ask"),
        (r#"{ "allowedHosts": ["x.b.example:443"] }"#, "x.b.example", "allowed"),
        (r#"{ "allowedHosts": ["x.b.example:443"] }"#, "y.b.example", "ask"),
        (r#"{ "allowedHosts": [".example"] }"#, "a.example", "allowed"),
        (r#"{ "allowedHosts": [".example"] }"#, "other.example", "ask"),
        (r#"{ "allowedHosts": ["evil.example"], "network": { "ask": false } }"#, "evil.example", "denied"),
        (r#"{ "allowedHosts": ["evil.example"], "network": { "ask": false } }"#, "a.example", "denied"),
        (r#"{ "blockedHosts": ["a.example"] }"#, "a.example", "blocked"),
        (r#"{ "network": { "ask": false } }"#, "other.example", "denied"),
    ] {
        let policy = World::new().user(USER).project_says(text).policy();
        assert_eq!(decided(&policy, host, 443), want, "{host} by {text}");
    }
    let ports = |text: &str| World::new().user(USER).project_says(text).policy().network.host_ports;
    assert_eq!(ports(r#"{ "network": { "hostPorts": [6379, 80] } }"#), [6379]);
    assert_eq!(ports(r#"{ "allowedHosts": ["a.example", "host-port:80"] }"#), [5432, 6379]);
    let most =
        r#"{ "network": { "maxConnections": 30, "maxBytesOut": "1M", "maxConnectionsPerMinute": 6 } }"#;
    let network = World::new().user(USER).project_says(most).policy().network;
    assert_eq!((network.max_connections, network.max_bytes_out), (Some(20), Some(1 << 20)));
    assert_eq!(network.max_connections_per_minute, Some(6));
    let more = r#"{ "network": { "max_connections_per_minute": 600 } }"#;
    let network = World::new().user(USER).project_says(more).policy().network;
    assert_eq!(network.max_connections_per_minute, Some(60));
}

#[test]
fn where_everything_is_allowed_a_projects_list_narrows_and_where_nothing_is_it_is_nothing() {
    let text = r#"{ "provider": "docker", "allowNetwork": true }"#;
    let world = World::new().user(text).project_says(r#"{ "allowedHosts": ["a.example"] }"#);
    let policy = world.policy();
    assert!(policy.network.refusal("a.example", 443).is_none());
    assert!(policy.network.refusal("b.example", 443).is_some());
    let local = world.policy_of(&world.load_with(vec![], json!({ "provider": "local" })));
    assert!(!local.network.is_by_name(), "{:?}", local.network);
}

#[test]
fn what_is_said_of_requests_and_credentials_is_the_persons() {
    let user = r#"{ "allowedHosts": ["b.example", { "host": "a.example", "port": 443, "methods": ["get"],
        "credential": { "header": "Authorization", "value": "Bearer $TOKEN", "variable": "TOKEN" } }] }"#;
    let world = World::new().env("TOKEN", "s3cret").user(user);
    let policy = world.policy();
    let inspect = policy.network.allowed_hosts[1].inspect.as_ref().unwrap();
    assert_eq!((&inspect.methods[..], inspect.credential.is_some()), (&["GET".to_owned()][..], true));
    let written = serde_json::to_string(&policy).unwrap();
    assert!(written.contains("Bearer $TOKEN") && !written.contains("s3cret"), "{written}");

    // The merged configuration is a file again.
    let shown = world.load().to_json();
    assert_eq!(shown["allowedHosts"][1]["host"], "a.example:443");
    assert_eq!(World::new().user(&shown.to_string()).load().to_json(), shown);

    let project = r#"{ "allowedHosts": ["a.example:443", { "host": "b.example", "methods": ["GET"],
        "credential": { "header": "A", "file": "/etc/passwd" } }] }"#;
    let world = World::new().user(user).project_says(project);
    let loaded = world.load();
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].message.contains("no credential"), "{}", loaded.warnings[0]);
    let rules = world.policy_of(&loaded).network.allowed_hosts;
    let of =
        |host: &str| rules.iter().find(|rule| rule.to_string() == host).unwrap().inspect.clone().unwrap();
    assert_eq!((of("b.example").methods, of("b.example").credential), (vec!["GET".to_owned()], None));
    assert!(of("a.example:443").credential.is_some());
}

#[test]
fn several_entries_say_what_passes_to_one_host() {
    let user = r#"{ "allowedHosts": [{ "host": "a.example", "methods": ["GET"] },
        { "host": "a.example", "methods": ["POST"], "paths": ["/**/git-upload-pack"] }] }"#;
    let said = |world: &World| {
        let rules = world.policy().network.allowed_hosts;
        rules.iter().map(|rule| rule.inspect.clone().unwrap_or_default().to_string()).collect::<Vec<_>>()
    };
    let both = ["GET", "POST of /**/git-upload-pack"];
    assert_eq!(said(&World::new().user(user)), both);
    assert_eq!(said(&World::new().user(user).project_says(r#"{ "allowedHosts": ["a.example"] }"#)), both);
    // The closest layer says it anew.
    let call = json!({ "allowedHosts": [{ "host": "a.example", "methods": ["HEAD"] }] });
    let world = World::new().user(user);
    let rules = world.policy_of(&world.load_with(vec![], call)).network.allowed_hosts;
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].inspect.as_ref().unwrap().to_string(), "HEAD");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (entry, why) in [
        (r#""nmp""#, "did you mean `npm`?"),
        (r#""*""#, "every host"),
        (r#""a.example:0""#, "port 0"),
        (r#""a b""#, "not the name of a host"),
        (r#""host-port:x""#, "host-port:5432"),
        (r#"{ "host": "a.example", "method": [] }"#, "is not a known key"),
        (r#"{ "host": "a.example:443/udp", "methods": ["GET"] }"#, "datagrams are not looked into"),
        (r#"{ "host": "a.example", "credential": { "header": "A", "value": "abc" } }"#, "names no variable"),
    ] {
        let text = format!("{{\n  \"allowedHosts\": [\n    \"ok.example\",\n    {entry}\n  ]\n}}");
        let world = World::new().user(&text);
        let found = world.check();
        assert_eq!(found.len(), 1, "{entry}: {found:?}");
        assert_eq!((found[0].line, found[0].severity), (Some(4), Severity::Error), "{entry}");
        assert!(found[0].to_string().contains(why), "{entry}: {}", found[0]);
        let refuse = |options: &mut LoadOptions<'_>| options.bad_file = BadFile::Refuse;
        assert!(world.with(refuse, |options| load(options).is_err()), "{entry}");

        // Of a project's file it is left out, and the rest holds.
        let world =
            World::new().user(r#"{ "allowedHosts": ["ok.example", "b.example"] }"#).project_says(&text);
        let loaded = world.with(refuse, |options| load(options).unwrap());
        assert_eq!(host_texts(&loaded.config.allowed_hosts), ["ok.example"], "{entry}");
        assert_eq!(loaded.warnings[0].line, Some(4), "{entry}");
        let strict = |options: &mut LoadOptions<'_>| {
            options.bad_file = BadFile::Refuse;
            options.call.profile = Some(Profile::Prod);
        };
        assert!(world.with(strict, |options| load(options).is_err()), "{entry}");
    }
}

#[test]
fn a_set_becomes_rules_that_say_where_they_were_found() {
    let world = World::new().user("{\n  \"allowedHosts\": [\"npm\"]\n}");
    write(&world.home().join(".npmrc"), "registry=https://npm.example/\n");
    let rules = world.policy().network.allowed_hosts;
    assert_eq!(rules[0].to_string(), "npm.example:443");
    assert_eq!(rules[0].source.layer, RuleLayer::Detected);
    let source = rules[0].source.to_string();
    assert!(source.ends_with("sandbox.json:2: set npm: ~/.npmrc"), "{source}");

    let world = World::new().user("{\n  \"blockedHosts\": [\"maven\"]\n}");
    let found = world.check();
    assert_eq!((found.len(), found[0].line, found[0].kind), (1, Some(2), DiagnosticKind::EmptySet));
    let refuse = |options: &mut LoadOptions<'_>| options.bad_file = BadFile::Refuse;
    let error = world.with(refuse, |options| load(options).unwrap_err().to_string());
    assert!(error.contains("`maven` finds no host") && error.contains("config sets"), "{error}");
}
