//! One sandbox for each scope, under every order of events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use ringfence_model::{Access, Grant, GrantScope};
use serde_json::json;

use super::Room;
use crate::manager::Manager;

fn room() -> Room {
    Room::new(json!({ "provider": "counting", "scope": "session", "workspaceAccess": "rw" }))
}

/// 500 sessions, each asked for by four tasks at once, on as many threads as there are processors.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_sessions_at_once_make_exactly_one_sandbox_each() {
    let room = room();
    room.provider.0.slowness.store(20, Ordering::SeqCst);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..2000 {
        let manager = Arc::clone(&room.manager);
        tasks.spawn(async move {
            let session = number % 500;
            let sandbox = manager.sandbox(&format!("agent:main:s{session}")).await.unwrap();
            (session, sandbox.id().to_owned())
        });
    }
    let mut ids = std::collections::BTreeMap::<_, std::collections::BTreeSet<String>>::new();
    while let Some(done) = tasks.join_next().await {
        let (session, id) = done.unwrap();
        ids.entry(session).or_default().insert(id);
    }
    assert_eq!(ids.len(), 500);
    assert!(ids.values().all(|ids| ids.len() == 1), "everybody in a session has the same sandbox");
    assert_eq!((room.provider.created(), room.provider.live()), (500, 500));
    assert_eq!(room.provider.most_of_one_scope(), 1);
    room.manager.shutdown().await.unwrap();
    assert_eq!((room.provider.destroyed(), room.provider.live()), (500, 0));
}

#[tokio::test]
async fn all_sessions_of_an_agent_or_all_at_all_share_one() {
    for (scope, sandboxes) in [("agent", 2), ("shared", 1), ("session", 4)] {
        let room = Room::new(json!({ "provider": "counting", "scope": scope, "workspaceAccess": "rw" }));
        for session in ["agent:a:1", "agent:a:2", "agent:b:1", "agent:b:2", "agent:b:2"] {
            room.manager.sandbox(session).await.unwrap();
        }
        assert_eq!(room.provider.created(), sandboxes, "{scope}");
    }
}

#[derive(Debug, Clone)]
enum Act {
    Get(u8),
    Rebuild(u8),
    Grant(u8, u8),
    Remove(u8),
    Shutdown,
    /// The sandbox dies by itself.
    Die(u8),
    Fail,
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

fn task(manager: &Arc<Manager>, act: Act) -> Task {
    let manager = Arc::clone(manager);
    let session = |number: u8| format!("agent:main:s{number}");
    Box::pin(async move {
        // A creation that was made to fail is an error for whoever asked; that is all it is.
        match act {
            Act::Get(number) => drop(manager.sandbox(&session(number)).await),
            Act::Rebuild(number) => drop(manager.rebuild(&session(number)).await),
            Act::Grant(number, file) => {
                let grant = Grant {
                    path: format!("/granted/{file}").into(),
                    access: Access::Read,
                    scope: GrantScope::Session,
                    recursive: false,
                };
                drop(manager.grant(&session(number), grant).await);
            }
            Act::Remove(number) => drop(manager.remove(&session(number)).await),
            Act::Shutdown => drop(manager.shutdown().await),
            Act::Die(number) => {
                if let Ok(sandbox) = manager.sandbox(&session(number)).await {
                    sandbox.dispose().await.unwrap();
                }
            }
            Act::Fail => {}
        }
    })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..3u8).prop_map(Act::Get),
        1 => (0..3u8).prop_map(Act::Rebuild),
        2 => (0..3u8, 0..3u8).prop_map(|(session, file)| Act::Grant(session, file)),
        1 => (0..3u8).prop_map(Act::Remove),
        1 => Just(Act::Shutdown),
        1 => (0..3u8).prop_map(Act::Die),
        1 => Just(Act::Fail),
    ];
    prop::collection::vec(act, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Any acts, polled in any order, some given up in the middle: never two sandboxes of a scope, and none is left after
    /// the end.
    #[test]
    fn no_order_of_events_makes_two_or_leaves_one(
        acts in acts(),
        slowness in 0..3usize,
        order in prop::collection::vec((any::<prop::sample::Index>(), 0..20u8), 0..300),
    ) {
        let room = room();
        room.provider.0.slowness.store(slowness, Ordering::SeqCst);
        let mut context = Context::from_waker(Waker::noop());
        let mut tasks: Vec<Task> = acts
            .into_iter()
            .inspect(|act| if matches!(act, Act::Fail) {
                room.provider.0.failing.fetch_add(1, Ordering::SeqCst);
            })
            .map(|act| task(&room.manager, act))
            .collect();
        for (index, fate) in order {
            if tasks.is_empty() {
                break;
            }
            let index = index.index(tasks.len());
            // One in twenty callers goes away.
            if fate == 0 || tasks[index].as_mut().poll(&mut context) == Poll::Ready(()) {
                drop(tasks.swap_remove(index));
            }
            prop_assert!(room.provider.most_of_one_scope() <= 1);
        }
        // The rest, in turns. Every waiter comes to an end within so many.
        for _ in 0..10_000 {
            tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            if tasks.is_empty() {
                break;
            }
        }
        prop_assert!(tasks.is_empty(), "somebody waits forever");
        prop_assert!(room.provider.most_of_one_scope() <= 1);
        let mut end = task(&room.manager, Act::Shutdown);
        while end.as_mut().poll(&mut context).is_pending() {}
        prop_assert_eq!(room.provider.live(), 0);
    }
}
