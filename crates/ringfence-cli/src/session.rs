//! `ringfence session`: shells for programs, as JSON lines on standard input and output.

mod door;
mod journal;
mod permission;
mod place;
mod wire;
mod worker;
mod yard;

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence::fence::{CreateOptions, Hooks};
use ringfence::gate::Gatekeeper;
use ringfence::local::fence::LocalFence;
use ringfence::local::shell::SharedSandbox;
use ringfence::model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use crate::args::Session;
use crate::{elsewhere, report, run};
use door::Door;
use journal::{Journal, Page};
use permission::Counter;
use place::Place;
use wire::{Line, Wire};
use worker::Worker;
use yard::Yard;

/// The provider whose shells are those of this machine.
const LOCAL: &str = "local";
/// Used by commands that name none.
const MAIN: &str = "main";

pub(crate) fn session(args: &Session) -> Result<ExitCode> {
    let setup = Arc::new(run::load(&args.sandbox, Map::new())?);
    let wire = Arc::new(Wire::default());
    for warning in &setup.loaded.warnings {
        wire.send(&json!({ "event": "warning", "message": warning.to_string() }));
    }
    if setup.is_switched_off() {
        return Err(Error::new(ErrorKind::InvalidConfig, "the sandbox is switched off in the configuration")
            .hint("a session is always fenced in: remove \"enabled\": false"));
    }
    let counter = Arc::new(Counter::new(&setup, Arc::clone(&wire)));
    let journal = Arc::new(Journal::new(&setup));
    // Elsewhere one is asked for all shells, about the command that began last.
    let shared_page: Arc<Page> = Arc::default();
    setup.make_home();
    let place = if setup.loaded.config.provider == LOCAL {
        let options: CreateOptions = run::sandbox(&setup, &args.sandbox)?;
        Place::Local(SharedSandbox::new(Arc::new(LocalFence::prepare(options)?), &BTreeMap::new()))
    } else {
        let (late, progress) = (Arc::clone(&wire), Arc::clone(&wire));
        let hooks = Hooks {
            approval: counter.approval("", &journal, &shared_page),
            background: Some(Arc::new(move |event| late.late(&Value::Null, "", &event))),
            progress: Some(Arc::new(move |line| {
                progress.send(&json!({ "event": "progress", "message": line }));
            })),
            ..Hooks::default()
        };
        Place::Other(elsewhere::make(&setup, &args.sandbox.require, hooks)?)
    };
    // Without a reader nothing that still runs is of use to anybody. What the sandboxes hold goes with this
    // process; what was done stays in the ledger.
    let written = Arc::clone(&journal);
    std::thread::spawn(move || {
        wire::wait_for_end_of_reader();
        written.flush();
        leave();
    });
    let yard = Arc::new(Yard::new(&place, Arc::clone(&wire)));
    let keeper = Gatekeeper::new(&setup)?.reading_code_by(crate::gate::reader());
    let mut workers: BTreeMap<String, Worker> = BTreeMap::new();
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot read standard input").caused_by(error)
        })?;
        match wire::parse(&line) {
            Ok(None) => {}
            Ok(Some(Line::Run(job))) => {
                let name = job.shell.clone().unwrap_or_else(|| MAIN.to_owned());
                let worker = workers.entry(name).or_insert_with_key(|name| {
                    let (wire, yard) = (Arc::clone(&wire), Arc::clone(&yard));
                    let page = match &place {
                        Place::Local(_) => Arc::default(),
                        Place::Other(_) => Arc::clone(&shared_page),
                    };
                    Worker::spawn(
                        name,
                        place.clone(),
                        yard,
                        wire,
                        Arc::clone(&journal),
                        &counter,
                        page,
                        Door::new(&keeper, name, &counter),
                    )
                });
                worker.give(job);
            }
            Ok(Some(Line::Cancel(id))) => {
                if !workers.values().any(|worker| worker.cancel(&id)) {
                    wire.error(Some(&id), "nothing of this id runs or waits");
                }
            }
            Ok(Some(Line::Order(id, order))) => yard.order(&id, &order),
            Ok(Some(Line::Answer(permission, decision))) => {
                if !counter.answer(permission, decision) {
                    wire.error(None, &format!("nobody waits for an answer to {permission}"));
                }
            }
            Err((id, message)) => wire.error(id.as_ref(), &message),
        }
    }
    // What was given is done; what would ask has nobody to ask any more.
    counter.close();
    for worker in workers.into_values() {
        worker.finish();
    }
    let closed = place.close();
    journal.flush();
    closed?;
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::exit, reason = "the main thread waits for a line that may never come")]
fn leave() -> ! {
    std::process::exit(i32::from(report::OWN_FAILURE))
}
