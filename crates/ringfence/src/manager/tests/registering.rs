//! The register: what it knows meanwhile, and that old sandboxes go.

use std::sync::Arc;

use ringfence_fence::Lasting;
use ringfence_model::ExecRequest;
use serde_json::json;

use super::Room;
use crate::housekeeping::Housekeeper;
use crate::housekeeping::tests::{DAY, HOUR, Shed, new};

#[tokio::test]
async fn a_sandbox_is_registered_as_long_as_it_is_held() {
    let mut kept = None;
    let room = Room::with(json!({ "provider": "local", "scope": "session" }), |options, ledger| {
        options.housekeeper = Some(Arc::new(Housekeeper::open(ledger).unwrap()));
        kept.clone_from(&options.housekeeper);
    });
    let keeper = kept.unwrap();
    assert!(keeper.list(None).await.unwrap().0.is_empty(), "nothing is made before it is needed");
    for session in ["agent:main:a", "agent:main:b"] {
        room.manager.execute(session, ExecRequest::shell("true"), &|_| ()).await.unwrap();
    }
    let (mut listed, _) = keeper.list(None).await.unwrap();
    listed.sort_by(|one, other| one.session_key.cmp(&other.session_key));
    let seen: Vec<_> =
        listed.iter().map(|kept| (kept.session_key.as_str(), kept.running, kept.in_use)).collect();
    assert_eq!(seen, [("agent:main:a", Some(true), true), ("agent:main:b", Some(true), true)]);
    let ids: Vec<_> = listed.iter().map(|kept| kept.name.clone()).collect();

    room.manager.rebuild("agent:main:a").await.unwrap();
    let (listed, _) = keeper.list(None).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(
        !listed.iter().any(|kept| kept.name == ids[0]),
        "the one that was replaced is not there any more"
    );
    room.manager.remove("agent:main:a").await.unwrap();
    assert_eq!(keeper.list(None).await.unwrap().0.len(), 1);
    room.manager.shutdown().await.unwrap();
    assert!(keeper.list(None).await.unwrap().0.is_empty());
    assert!(room.warnings.lock().unwrap().is_empty());
}

#[tokio::test]
async fn old_sandboxes_go_when_a_session_gets_its_own() {
    let shed = Arc::new(Shed::default());
    let room =
        Room::with(json!({ "provider": "counting", "prune": { "idleHours": 1 } }), |options, ledger| {
            let mut rows = ringfence_ledger::Ledger::open(ledger).unwrap();
            for (name, idle) in [("idle", 2 * HOUR), ("stuck", 2 * HOUR), ("used", 0)] {
                shed.put(name, DAY);
                rows.upsert(&new(name), ringfence_ledger::now_ms() - idle).unwrap();
            }
            *shed.stuck.lock().unwrap() = Some("stuck");
            let housekeeper = Housekeeper::open(ledger).unwrap().with(Arc::clone(&shed) as Arc<dyn Lasting>);
            options.housekeeper = Some(Arc::new(housekeeper));
        });
    room.manager.sandbox("agent:main:a").await.unwrap();
    assert_eq!(shed.names(), ["stuck", "used"]);
    assert_eq!(
        room.warnings.lock().unwrap().as_slice(),
        ["cannot remove the old sandbox stuck: it is stuck"]
    );
    *shed.stuck.lock().unwrap() = None;
    room.manager.rebuild("agent:main:a").await.unwrap();
    assert_eq!(shed.names(), ["stuck", "used"], "not again within five minutes");
}
