//! `ringfence grants list|revoke`.

use ringfence::config::{self, PermanentGrant};
use ringfence::ledger::{ExecutionFilter, ExecutionId, Granted, Ledger};
use ringfence::model::{Access, Grant, GrantScope};

use super::support::Room;

fn grant(path: &str, scope: GrantScope) -> Grant {
    Grant { path: path.into(), access: Access::Read, scope, recursive: false }
}

#[test]
fn nothing_granted_is_no_error() {
    let room = Room::new();
    let ran = room.run(&["grants", "list"]).expect(0);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("nothing has been granted"));
    assert_eq!(room.run(&["grants", "list", "--json"]).expect(0).json(), serde_json::json!([]));
    let ran = room.run(&["grants", "revoke", "/nowhere"]).expect(1);
    assert!(ran.stderr.contains("no grant for /nowhere"), "{}", ran.stderr);
}

#[test]
fn a_permanent_grant_is_listed_and_taken_out_of_the_file() {
    let room = Room::new();
    let file = room.configure(
        "{\n  // stays\n  \"profile\": \"prod\",\n  \"grants\": [\n    { \"path\": \"~/.config/gh\", \"access\": \"read\", \
         \"recursive\": true }\n  ]\n}\n",
    );
    let path = room.home.join(".config/gh");
    let listed = room.run(&["grants", "list", "--json"]).expect(0).json();
    assert_eq!(listed[0]["path"], path.to_str().unwrap());
    assert_eq!(listed[0]["scope"], "permanent");
    assert_eq!(listed[0]["file"], file.to_str().unwrap());
    let table = room.run(&["grants", "list"]).expect(0).stdout;
    assert!(table.contains(&format!("{} and below", path.display())), "{table}");

    room.run(&["grants", "revoke", path.to_str().unwrap()]).expect(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("// stays") && !text.contains("gh"), "{text}");
    room.run(&["grants", "revoke", path.to_str().unwrap()]).expect(1);
}

#[test]
fn a_session_grant_is_taken_back_by_its_id() {
    let room = Room::new();
    let mut ledger = Ledger::open(&room.ringfence_home.join("ledger.db")).unwrap();
    let session =
        Granted { session_key: Some("s1".to_owned()), ..Granted::new(grant("/srv/a", GrantScope::Session)) };
    for granted in [&session, &Granted::new(grant("/srv/b", GrantScope::Once))] {
        ledger.add_grant(granted).unwrap();
    }
    let listed = room.run(&["grants", "list", "--json"]).expect(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "a grant for one call is spent: {listed}");
    assert_eq!(listed[0]["id"], session.id.to_string());
    assert_eq!(listed[0]["sessionKey"], "s1");

    let ran = room.run(&["grants", "revoke", &session.id.to_string()]).expect(0);
    assert_eq!(ran.stdout, "no longer granted: read of /srv/a\n");
    assert_eq!(room.run(&["grants", "list", "--json"]).expect(0).json(), serde_json::json!([]));
    room.run(&["grants", "revoke", &session.id.to_string()]).expect(1);
}

#[test]
fn a_permanent_grant_has_the_id_under_which_it_was_recorded() {
    let room = Room::new();
    let file = room.configure("{}");
    let written = PermanentGrant { path: "/srv/a".to_owned(), access: Access::Read, recursive: false };
    config::add_permanent_grant(&file, &written).unwrap();
    let granted = Granted::new(grant("/srv/a", GrantScope::Permanent));
    Ledger::open(&room.ringfence_home.join("ledger.db")).unwrap().add_grant(&granted).unwrap();

    let listed = room.run(&["grants", "list", "--json"]).expect(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["id"], granted.id.to_string());
    room.run(&["grants", "revoke", &granted.id.to_string()]).expect(0);
    assert!(config::permanent_grants(&file).unwrap().is_empty());
}

#[test]
fn a_host_is_granted_listed_and_taken_back() {
    let room = Room::new();
    let file = room.configure("{\n  // stays\n  \"blockedHosts\": [\"evil.example\"]\n}\n");
    room.run(&["grants", "add", "--host", "Example.com:443"]).expect(0);
    let ran = room.run(&["grants", "add", "--host", "example.com:443"]).expect(0);
    assert!(ran.stderr.contains("already"), "{}", ran.stderr);
    let listed = room.run(&["grants", "list", "--json"]).expect(0).json();
    assert_eq!((&listed[0]["path"], &listed[0]["access"]), (&"example.com:443".into(), &"connect".into()));
    assert_eq!((&listed[1]["path"], &listed[1]["neverAsk"]), (&"evil.example".into(), &true.into()));

    let ran = room.run(&["grants", "revoke", "example.com:443"]).expect(0);
    assert_eq!(ran.stdout, "no longer granted: connect to example.com:443\n");
    room.run(&["grants", "revoke", "evil.example"]).expect(0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("// stays") && !text.contains("example"), "{text}");
    room.run(&["grants", "revoke", "example.com:443"]).expect(1);

    for (host, why) in [("*", "every host"), ("a.example:0", "port 0"), ("a b", "not the name of a host")] {
        let ran = room.run(&["grants", "add", "--host", host]).expect(2);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    room.run(&["grants", "add"]).expect(2);
}

#[test]
fn what_was_granted_for_a_session_that_has_ended_is_not_held() {
    let room = Room::new();
    room.run(&["run", "--no-gate", "-c", "true"]).expect(0);
    let mut ledger = Ledger::open(&room.ringfence_home.join("ledger.db")).unwrap();
    let ended = ledger.executions(&ExecutionFilter::default()).unwrap()[0].id;
    let of = |path: &str, scope, execution_id| Granted { execution_id, ..Granted::new(grant(path, scope)) };
    for granted in [
        of("/srv/ended", GrantScope::Session, Some(ended)),
        of("/srv/unknown", GrantScope::Session, Some(ExecutionId::new())),
        of("/srv/held", GrantScope::Session, None),
    ] {
        ledger.add_grant(&granted).unwrap();
    }
    let listed = room.run(&["grants", "list", "--json"]).expect(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["path"], "/srv/held");
    room.run(&["grants", "revoke", "/srv/ended"]).expect(1);
}
