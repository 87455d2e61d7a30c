//! Many live sandboxes at once, and taking one from the pool.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence::fence::{BoxFuture, CreateOptions, Provider, Sandbox, wait_for};
use ringfence::local::fence::{LocalFence, Streams};
use ringfence::local::provider::LocalProvider;
use ringfence::model::ExecRequest;
use ringfence::model::config::ConfigFile;
use ringfence::pool::{Pool, PoolConfig};
use ringfence::setup::Setup;
use serde_json::json;

use crate::Outcome;

/// Workers that make sandboxes at the same time: as many as small machines have processors.
const WORKERS: usize = 2;

type Failed = Box<dyn std::error::Error>;

fn done<T>(future: BoxFuture<'_, T>) -> Result<T, Failed> {
    wait_for(future, Duration::from_secs(600)).ok_or_else(|| "it took too long".into())
}

fn options(project: &Path) -> Result<CreateOptions, Failed> {
    let setup = Setup::load(project, std::env::vars_os().collect(), ConfigFile::default(), None)?;
    let mut options = CreateOptions::new(setup.project.clone(), setup.policy());
    options.environment = setup.env.clone();
    options.provider_options = setup.local_options(&[], None)?;
    Ok(options)
}

/// Makes `count` sandboxes and keeps them: how fast, and how much memory each takes.
pub(crate) fn live(project: &Path, count: usize) -> Outcome {
    let options = options(project)?;
    let provider = LocalProvider::new();
    let before = memory(&[std::process::id()])?;
    let begun = Instant::now();
    let made: Vec<Arc<dyn Sandbox>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (provider, options) = (&provider, &options);
                let share = count / WORKERS + usize::from(worker < count % WORKERS);
                scope.spawn(move || -> Result<Vec<Arc<dyn Sandbox>>, String> {
                    let one = |_| {
                        let made =
                            done(provider.create(options.clone())).map_err(|error| error.to_string())?;
                        made.map_err(|error| error.chain())
                    };
                    (0..share).map(one).collect()
                })
            })
            .collect();
        let mut made = vec![];
        for worker in workers {
            made.extend(worker.join().map_err(|_| "a worker failed".to_owned())??);
        }
        Ok::<_, String>(made)
    })?;
    let took = begun.elapsed();
    for sandbox in &made {
        let result = done(sandbox.execute(ExecRequest::shell("true"), &|_| ()))??;
        if result.exit_code != 0 {
            return Err(format!("a sandbox does not work: {result:?}").into());
        }
    }
    let family = family()?;
    let after = memory(&family)?;
    let each = |all: usize| all as f64 / made.len().max(1) as f64;
    let entries = |of: &str| std::fs::read_dir(of).map(|entries| entries.count());
    let outcome = json!({
        "sandboxes": made.len(),
        "perSecond": made.len() as f64 / took.as_secs_f64(),
        "kibEach": each(usize::try_from(after.saturating_sub(before))?) / 1024.0,
        "processesEach": each(family.len() - 1),
        "threadsEach": each(entries("/proc/self/task")?),
        "descriptorsEach": each(entries("/proc/self/fd")?),
    });
    for sandbox in &made {
        done(sandbox.dispose())??;
    }
    Ok(outcome)
}

/// Sandboxes per second that run `true` and end, one after the other, by one worker and by four.
pub(crate) fn sustained(project: &Path, count: usize) -> Outcome {
    let native = LocalFence::prepare(options(project)?)?;
    let request = ExecRequest::argv(["/bin/true"]);
    let mut rates = vec![];
    for workers in [1, 4] {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..workers)
                .map(|_| {
                    scope.spawn(|| {
                        let run = |_| native.run(&request, Streams::Capture, &|_| ()).map(drop);
                        (0..count / workers).try_for_each(run)
                    })
                })
                .collect();
            all.into_iter().try_for_each(|worker| {
                worker.join().map_err(|_| "a worker failed".to_owned())?.map_err(|error| error.chain())
            })
        })?;
        rates.push((count / workers * workers) as f64 / begun.elapsed().as_secs_f64());
    }
    Ok(json!({ "one": rates[0], "four": rates[1] }))
}

/// Nanoseconds of taking a warm sandbox, of taking one and running a program in it, and of starting the program bare.
pub(crate) fn take(project: &Path, rounds: usize) -> Outcome {
    let never = Duration::from_secs(100_000);
    let config = PoolConfig { max: rounds + 1, min: rounds, idle: never, sweep: never, max_uses: 100 };
    let pool = Pool::new(Arc::new(LocalProvider::new()), options(project)?, config, |_| ());
    done(Box::pin(pool.sweep()))?;
    let (mut taken, mut ran, mut bare) = (vec![], vec![], vec![]);
    let nanoseconds = |since: Instant| u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    for round in 0..rounds {
        let begun = Instant::now();
        std::process::Command::new("/bin/true").status()?;
        bare.push(nanoseconds(begun));
        let session = format!("session {round}");
        let begun = Instant::now();
        let sandbox = done(Box::pin(pool.acquire(&session)))??;
        taken.push(nanoseconds(begun));
        done(sandbox.execute(ExecRequest::shell("/bin/true"), &|_| ()))??;
        ran.push(nanoseconds(begun));
    }
    done(Box::pin(pool.stop()))??;
    Ok(json!({ "taken": taken, "takenAndRan": ran, "bare": bare }))
}

/// This process and all below it.
fn family() -> Result<Vec<u32>, Failed> {
    let mut found = vec![];
    let mut waiting = vec![std::process::id()];
    while let Some(pid) = waiting.pop() {
        found.push(pid);
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads {
            let children = std::fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
            waiting.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    Ok(found)
}

/// Proportional: what is shared counts once. Those who guard control groups have no memory of their own: theirs is
/// ours, page for page, and was counted with us.
fn memory(pids: &[u32]) -> Result<u64, Failed> {
    let mut total = 0;
    let guards = |pid: &&u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name == "ringfence-clean\n"
    };
    for pid in pids.iter().filter(|pid| !guards(pid)) {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        total += kib.unwrap_or(0) * 1024;
    }
    Ok(total)
}
