//! `ringfence list`, `recreate` and `prune`: the sandboxes that are there.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence::config::{self, Loaded};
use ringfence::containers;
use ringfence::fence::{BoxFuture, wait_for};
use ringfence::housekeeping::{Housekeeper, Kept, Removal, Selection, Throttle, ends_with_process};
use ringfence::ledger::{PruneReason, now_ms};
use ringfence::manager::{SessionRules, workspace_root};
use ringfence::model::{Error, ErrorKind, Result};
use ringfence::setup::Setup;
use serde_json::{Value, json};

use crate::args::{ListSandboxes, PruneSandboxes, Recreate, Which};
use crate::output::{self, Table, Tone, one_line};
use crate::places::Places;
use crate::report;
use crate::since::ago;

/// Removing a container takes seconds, many of them minutes; an engine that hangs has limits of its own.
const LONGEST: Duration = Duration::from_secs(60 * 60);

pub(crate) fn list(args: &ListSandboxes) -> Result<ExitCode> {
    let house = House::open()?;
    let kept = house.kept()?;
    if args.json {
        output::print_json(&kept)?;
        return Ok(ExitCode::SUCCESS);
    }
    if kept.is_empty() {
        report::say("there are no sandboxes");
        return Ok(ExitCode::SUCCESS);
    }
    table(&kept, now_ms()).print()?;
    if kept.iter().any(|kept| kept.image_matches == Some(false)) {
        report::say(
            "some have another image than is configured now; `ringfence recreate --all` makes them anew",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn table(kept: &[Kept], now: u64) -> Table {
    let mut table = Table::new(&["NAME", "STATE", "MADE", "USED", "IMAGE", "SESSION"]);
    for kept in kept {
        let (tone, state) = state(kept);
        let image = match kept.image_matches {
            Some(false) => (Tone::Warning, format!("{} (other)", kept.image)),
            _ if kept.image.is_empty() => (Tone::Quiet, "-".to_owned()),
            _ => (Tone::Plain, kept.image.clone()),
        };
        table.row([
            (Tone::Plain, kept.name.clone()),
            (tone, state.to_owned()),
            (Tone::Quiet, ago(kept.created_at_ms, now)),
            (Tone::Quiet, ago(kept.last_used_at_ms, now)),
            image,
            (Tone::Plain, kept.session_key.clone()),
        ]);
    }
    table
}

fn state(kept: &Kept) -> (Tone, &'static str) {
    match kept.running {
        _ if kept.last_error.is_some() => (Tone::Bad, "not removed"),
        None => (Tone::Warning, "unknown"),
        Some(true) if kept.in_use => (Tone::Good, "in use"),
        Some(true) => (Tone::Good, "running"),
        Some(false) => (Tone::Quiet, "stopped"),
    }
}

pub(crate) fn recreate(args: &Recreate) -> Result<ExitCode> {
    let house = House::open()?;
    let selection = House::selection(&args.which);
    let (local, chosen): (Vec<Kept>, Vec<Kept>) = house
        .kept()?
        .into_iter()
        .filter(|kept| selection.iter().any(|selection| selection.covers(&kept.session_key)))
        .partition(|kept| ends_with_process(&kept.provider));
    if !local.is_empty() {
        report::say(&format!("{} of them end with the program that made them; start that anew", local.len()));
    }
    if chosen.is_empty() {
        if args.json {
            output::print_json(&json!([]))?;
        }
        report::say("there is nothing to recreate");
        return Ok(ExitCode::SUCCESS);
    }
    if !args.force && !confirmed(&chosen)? {
        report::say("nothing was removed");
        return Ok(ExitCode::FAILURE);
    }
    let mut failed = false;
    let mut told: Vec<Value> = vec![];
    for kept in &chosen {
        let removed = block_on(Box::pin(house.keeper.remove(kept)))?;
        let (word, error) = match &removed {
            Ok(Removal::Removed) => ("removed", None),
            Ok(Removal::Gone) => ("gone", None),
            Ok(Removal::Busy) => ("busy", Some("another process is making or removing it".to_owned())),
            Err(error) => ("failed", Some(error.chain())),
        };
        failed |= error.is_some();
        match &error {
            _ if args.json => told.push(json!({ "name": kept.name, "result": word, "error": error })),
            Some(error) => report::say(&format!("{word}: {}: {}", kept.name, one_line(error))),
            None => output::print(&format!("{word}: {}\n", one_line(&kept.name)))?,
        }
    }
    if args.json {
        output::print_json(&told)?;
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// Shows what would go and asks the person at the terminal.
fn confirmed(chosen: &[Kept]) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message = "nobody can be asked here whether to remove them (no terminal)";
        return Err(Error::new(ErrorKind::Validation, message).hint("add --force"));
    }
    table(chosen, now_ms()).print()?;
    let used = chosen.iter().filter(|kept| kept.in_use).count();
    let warning = if used > 0 { format!(", {used} of them in use,") } else { String::new() };
    let mut stderr = std::io::stderr();
    let _ =
        write!(stderr, "ringfence: remove {}{warning} and what runs in them? [y/N] ", count(chosen.len()));
    let _ = stderr.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn count(number: usize) -> String {
    if number == 1 { "1 sandbox".to_owned() } else { format!("{number} sandboxes") }
}

pub(crate) fn prune(args: &PruneSandboxes) -> Result<ExitCode> {
    let house = House::open()?;
    let swept = block_on(Box::pin(house.keeper.sweep(house.loaded.config.prune, Throttle::Off)))??;
    for problem in &swept.problems {
        report::say(&format!("warning: {}", problem.chain()));
    }
    let failed = !swept.failed.is_empty() || !swept.problems.is_empty();
    if args.json {
        let removed = swept.removed.iter().map(|(row, why)| json!({ "name": row.name, "reason": why }));
        let errors =
            swept.failed.iter().map(|(row, error)| json!({ "name": row.name, "error": error.chain() }));
        output::print_json(&json!({
            "removed": removed.collect::<Vec<_>>(),
            "failed": errors.collect::<Vec<_>>(),
            "adopted": swept.adopted.iter().map(|row| &row.name).collect::<Vec<_>>(),
            "gone": swept.gone.iter().map(|row| &row.name).collect::<Vec<_>>(),
            "workspaces": swept.workspaces,
        }))?;
        return Ok(ExitCode::from(u8::from(failed)));
    }
    for (row, why) in &swept.removed {
        let why = match why {
            PruneReason::Idle => "nobody used it",
            PruneReason::Age => "it was old",
            PruneReason::Leftover => "it was left half made or half removed",
        };
        output::print(&format!("removed: {}: {why}\n", one_line(&row.name)))?;
    }
    for row in &swept.adopted {
        output::print(&format!("found: {}: it was not registered\n", one_line(&row.name)))?;
    }
    for row in &swept.gone {
        output::print(&format!("forgotten: {}: it is not there any more\n", one_line(&row.name)))?;
    }
    for name in &swept.workspaces {
        output::print(&format!("removed: the workspace {}: nobody used it\n", one_line(name)))?;
    }
    for (row, error) in &swept.failed {
        report::say(&format!("not removed: {}: {}", one_line(&row.name), one_line(&error.chain())));
    }
    let sandboxes = swept.removed.len() + swept.adopted.len() + swept.gone.len() + swept.failed.len();
    if sandboxes + swept.workspaces.len() == 0 {
        report::say("there is nothing to prune");
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// The housekeeper of what outlives this process: sandboxes of named sessions, and their directories.
pub(crate) fn housekeeper(setup: &Setup, session: Option<&str>) -> Option<Arc<Housekeeper>> {
    session?;
    let failed = |error: Error| report::say(&format!("warning: nothing old is removed: {}", error.chain()));
    Housekeeper::of(setup).map_err(failed).ok().map(Arc::new)
}

/// The register, and what is configured now.
struct House {
    keeper: Housekeeper,
    loaded: Loaded,
}

impl House {
    fn open() -> Result<Self> {
        let places = Places::find(None)?;
        let loaded = config::load(&places.load_options())?;
        let ledger = places.ledger_file();
        let keeper = Housekeeper::open(&ledger)?;
        let keeper = containers::looked_after(keeper, &ledger, &places.env, &loaded.config.provider_options);
        let root = workspace_root(&loaded.config, &places.home, &places.ringfence_home)?;
        Ok(Self { keeper: keeper.with_workspaces(root), loaded })
    }

    fn kept(&self) -> Result<Vec<Kept>> {
        let image = self.loaded.config.docker.image.as_ref().map(|image| image.as_str());
        let (kept, problems) = block_on(Box::pin(self.keeper.list(image)))??;
        for problem in problems {
            report::say(&format!("warning: {}", problem.chain()));
        }
        Ok(kept)
    }

    /// The choice that was asked for.
    fn selection(which: &Which) -> Vec<Selection> {
        match which {
            Which { session: Some(key), .. } => {
                // The main session has several names.
                let canonical = SessionRules::default().status(key).session_key;
                vec![Selection::Session(key.clone()), Selection::Session(canonical)]
            }
            Which { agent: Some(agent), .. } => vec![Selection::Agent(agent.clone())],
            Which { .. } => vec![Selection::All],
        }
    }
}

fn block_on<T>(future: BoxFuture<'_, T>) -> Result<T> {
    wait_for(future, LONGEST).ok_or_else(|| Error::new(ErrorKind::Timeout, "it took longer than an hour"))
}
