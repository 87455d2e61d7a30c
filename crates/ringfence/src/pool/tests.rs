//! The accounts of a pool, alone and with sandboxes.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use ringfence_fence::CreateOptions;
use ringfence_model::{ErrorKind, Policy};

use super::book::{Book, Step, Ticket};
use super::{Pool, PoolConfig, State};
use crate::manager::tests::counting::Counting;

fn pool(config: PoolConfig) -> (Counting, Pool, Arc<Mutex<Vec<String>>>) {
    let provider = Counting::default();
    let options = CreateOptions::new("/".into(), Policy::default());
    let warnings = Arc::new(Mutex::new(vec![]));
    let heard = Arc::clone(&warnings);
    let warn = move |text: &str| heard.lock().unwrap().push(text.to_owned());
    (provider.clone(), Pool::new(Arc::new(provider), options, config, warn), warnings)
}

/// Nothing happens by itself.
fn quiet(max: usize, min: usize) -> PoolConfig {
    let never = Duration::from_secs(100_000);
    PoolConfig { max, min, idle: never, sweep: never, ..PoolConfig::default() }
}

#[test]
fn the_usual_numbers() {
    let config = PoolConfig::default();
    assert_eq!((config.max, config.min, config.max_uses), (10, 2, 100));
    assert_eq!((config.idle, config.sweep), (Duration::from_secs(300), Duration::from_secs(60)));
}

#[tokio::test]
async fn a_session_keeps_its_sandbox_and_a_warm_one_goes_to_who_has_none() {
    let (provider, pool, _) = pool(quiet(4, 2));
    pool.sweep().await;
    assert_eq!((provider.created(), pool.statistics().warm), (2, 2));
    let a = pool.acquire("a").await.unwrap();
    assert_eq!((a.id(), pool.state("a")), ("counting-0", Some(State::Busy)), "the oldest first");
    assert_eq!(pool.acquire("a").await.unwrap_err().kind, ErrorKind::ConcurrentAccess);
    pool.release("a");
    pool.release("nobody");
    assert_eq!(pool.state("a"), Some(State::Idle));
    let b = pool.acquire("b").await.unwrap();
    assert_eq!(b.id(), "counting-1", "not the one that a has used");
    assert_eq!(pool.acquire("a").await.unwrap().id(), "counting-0");
    let found = pool.statistics();
    assert_eq!((found.total, found.busy, found.idle, found.max), (2, 2, 0, 4));
    pool.sweep().await;
    assert_eq!(pool.statistics().warm, 2, "kept warm");
    pool.stop().await.unwrap();
    assert_eq!((provider.live(), pool.statistics().total), (0, 0));
    assert!(!a.is_alive() && !b.is_alive());
    assert_eq!(pool.acquire("c").await.unwrap_err().kind, ErrorKind::SandboxNotAvailable);
}

#[tokio::test]
async fn one_that_was_used_often_or_died_is_replaced() {
    let (provider, pool, _) = pool(PoolConfig { max_uses: 2, ..quiet(1, 0) });
    let mut ids = vec![];
    for _ in 0..4 {
        ids.push(pool.acquire("a").await.unwrap().id().to_owned());
        pool.release("a");
    }
    assert_eq!(ids, ["counting-0", "counting-0", "counting-1", "counting-1"]);
    let sandbox = pool.acquire("b").await.unwrap();
    assert_eq!(sandbox.id(), "counting-2", "there is one place, and a did not need it");
    sandbox.dispose().await.unwrap();
    pool.release("b");
    assert_eq!(pool.acquire("b").await.unwrap().id(), "counting-3");
    assert_eq!(provider.live(), 1);
}

#[tokio::test]
async fn whoever_comes_when_it_is_full_waits_for_a_place() {
    let (provider, pool, _) = pool(quiet(1, 0));
    let pool = Arc::new(pool);
    pool.acquire("a").await.unwrap();
    let waiting = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.acquire("b").await.map(|sandbox| sandbox.id().to_owned()) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    pool.release("a");
    assert_eq!(waiting.await.unwrap().unwrap(), "counting-1");
    assert_eq!((provider.created(), provider.live()), (2, 1));
}

#[tokio::test]
async fn a_failed_creation_frees_its_place_and_a_failed_warm_up_is_warned_of() {
    let (provider, pool, warnings) = pool(quiet(1, 1));
    provider.0.failing.store(2, Ordering::SeqCst);
    pool.start().await.unwrap();
    assert_eq!(warnings.lock().unwrap().as_slice(), ["cannot make a sandbox in advance: made to fail"]);
    assert_eq!(pool.acquire("a").await.unwrap_err().kind, ErrorKind::SandboxDenied);
    assert_eq!(pool.statistics().total, 0);
    pool.acquire("a").await.unwrap();
    pool.stop().await.unwrap();
}

#[tokio::test]
async fn what_nobody_needs_any_more_is_swept() {
    let (provider, pool, _) = pool(PoolConfig { idle: Duration::ZERO, ..quiet(5, 1) });
    for session in ["a", "b", "c"] {
        pool.acquire(session).await.unwrap();
    }
    pool.release("a");
    pool.release("b");
    pool.sweep().await;
    let found = pool.statistics();
    assert_eq!((found.total, found.busy, found.warm), (2, 1, 1), "c's, and the one to be kept warm");
    assert_eq!((provider.destroyed(), provider.live()), (2, 2));
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Acquire(u8),
    Release(u8),
    /// Finishes what was begun, well or not.
    Finish(bool),
    Warm,
    Sweep,
    Later(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0..6u8).prop_map(Act::Acquire),
        4 => (0..6u8).prop_map(Act::Release),
        6 => any::<bool>().prop_map(Act::Finish),
        2 => Just(Act::Warm),
        1 => Just(Act::Sweep),
        1 => (0..9u8).prop_map(Act::Later),
    ]
}

proptest! {
    /// The book alone: never longer than it may be, nothing is lost, nobody gets what another has used.
    #[test]
    fn the_book_is_right_after_any_acts(
        max in 1..5usize,
        min in 0..4usize,
        acts in prop::collection::vec(act(), 0..120),
    ) {
        let config = PoolConfig { max, min, max_uses: 3, idle: Duration::from_secs(5), ..PoolConfig::default() };
        let mut book = Book::new(config);
        let mut now = Duration::ZERO;
        let mut begun: Vec<Step> = vec![];
        let mut users = std::collections::BTreeMap::<Ticket, String>::new();
        let mut exist = std::collections::BTreeSet::<Ticket>::new();
        for act in acts {
            match act {
                Act::Acquire(session) => {
                    let session = format!("s{session}");
                    match book.acquire(&session, now) {
                        Ok(Step::Use(ticket)) => {
                            prop_assert!(exist.contains(&ticket));
                            let user = users.entry(ticket).or_insert_with(|| session.clone());
                            prop_assert_eq!(&*user, &session);
                        }
                        Ok(Step::Make(ticket)) => {
                            users.insert(ticket, session);
                            begun.push(Step::Make(ticket));
                        }
                        Ok(Step::Destroy(ticket)) => begun.push(Step::Destroy(ticket)),
                        Ok(Step::Wait) => prop_assert!(book.statistics().total == max
                            || book.state(&session) == Some(State::Leaving)),
                        Err(error) => {
                            prop_assert_eq!(error.kind, ErrorKind::ConcurrentAccess);
                            let state = book.state(&session);
                            prop_assert!(matches!(state, Some(State::Busy | State::Acquiring)));
                        }
                    }
                }
                Act::Release(session) => drop(book.release(&format!("s{session}"), now)),
                Act::Finish(well) => match begun.pop() {
                    Some(Step::Make(ticket)) if well => {
                        exist.insert(ticket);
                        book.made(ticket, now);
                    }
                    Some(Step::Make(ticket) | Step::Destroy(ticket)) => {
                        exist.remove(&ticket);
                        book.gone(ticket);
                    }
                    _ => {}
                },
                Act::Warm => begun.extend(book.warm_one(now).map(Step::Make)),
                Act::Sweep => begun.extend(book.sweep(now).into_iter().map(Step::Destroy)),
                Act::Later(seconds) => now += Duration::from_secs(seconds.into()),
            }
            let found = book.statistics();
            prop_assert!(found.total <= max);
            prop_assert_eq!(found.total, found.busy + found.idle + found.acquiring + found.leaving);
            let being_made = begun.iter().filter(|step| matches!(step, Step::Make(_))).count();
            prop_assert_eq!(found.total, exist.len() + being_made, "what exists, and what is being made");
        }
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// With sandboxes, callers polled in any order and going away at any point: never more than there may be, and in
    /// the end everybody who still waits gets one.
    #[test]
    fn callers_who_go_away_take_no_place_with_them(
        max in 1..4usize,
        sessions in prop::collection::vec(0..5u8, 1..14),
        slowness in 0..3usize,
        failing in 0..3usize,
        order in prop::collection::vec((any::<prop::sample::Index>(), 0..6u8), 0..200),
    ) {
        let (provider, pool, _) = pool(quiet(max, 0));
        provider.0.slowness.store(slowness, Ordering::SeqCst);
        provider.0.failing.store(failing, Ordering::SeqCst);
        let pool = Arc::new(pool);
        let mut tasks: Vec<Task> = sessions.into_iter().map(|session| {
            let pool = Arc::clone(&pool);
            Box::pin(async move {
                let session = format!("s{session}");
                if pool.acquire(&session).await.is_ok() {
                    // Given up from here on, it is still released.
                    struct Release(Arc<Pool>, String);
                    impl Drop for Release {
                        fn drop(&mut self) {
                            self.0.release(&self.1);
                        }
                    }
                    let _release = Release(Arc::clone(&pool), session);
                    tokio::task::yield_now().await;
                }
            }) as Task
        }).collect();
        let mut context = Context::from_waker(Waker::noop());
        for (index, fate) in order {
            if tasks.is_empty() {
                break;
            }
            let index = index.index(tasks.len());
            if fate == 0 || tasks[index].as_mut().poll(&mut context) == Poll::Ready(()) {
                drop(tasks.swap_remove(index));
            }
            prop_assert!(provider.live() <= max && pool.statistics().total <= max);
        }
        // A thread destroys what somebody left half destroyed.
        let begun = std::time::Instant::now();
        while !tasks.is_empty() && begun.elapsed() < Duration::from_secs(60) {
            tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            prop_assert!(provider.live() <= max);
        }
        prop_assert!(tasks.is_empty(), "somebody waits forever: {:?}", pool.statistics());
        prop_assert_eq!(pool.statistics().busy + pool.statistics().acquiring, 0);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn sandboxes_of_the_operating_system_are_pooled_too() {
    use ringfence_fence::Sandbox;
    use ringfence_model::{ExecRequest, PathRule};

    async fn run(sandbox: &Arc<dyn Sandbox>, text: &str) -> String {
        let result = sandbox.execute(ExecRequest::shell(text), &|_| ()).await.unwrap();
        String::from_utf8_lossy(&result.stdout).into_owned()
    }

    let project = tempfile::tempdir().unwrap();
    let mut options = CreateOptions::new(project.path().to_owned(), Policy::default());
    options.policy.filesystem.allow_write.push(PathRule::built_in(project.path()));
    options.environment = std::env::vars_os().collect();
    let pool =
        Pool::new(Arc::new(ringfence_local::provider::LocalProvider::new()), options, quiet(2, 1), |_| ());
    pool.sweep().await;
    let a = match pool.acquire("a").await {
        Ok(sandbox) => sandbox,
        Err(error) => return ringfence_testing::lacks(ringfence_testing::FENCE, &error.chain()),
    };
    assert_eq!(run(&a, "x=kept; echo of a > /tmp/note; echo done").await, "done\n");
    pool.release("a");
    let b = pool.acquire("b").await.unwrap();
    assert_eq!(run(&b, "cat /tmp/note 2>/dev/null; echo \"[$x]\"").await, "[]\n", "nothing of a's");
    let again = pool.acquire("a").await.unwrap();
    assert_eq!(run(&again, "echo $x; cat /tmp/note").await, "kept\nof a\n", "all of a's");
    pool.stop().await.unwrap();
    assert!(!a.is_alive() && !b.is_alive() && pool.statistics().total == 0);
}
