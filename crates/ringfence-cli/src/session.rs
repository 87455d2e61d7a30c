//! `ringfence session`: shells for programs, as JSON lines on standard input and output.

mod jobs;
mod questions;
mod wire;
mod worker;

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence::manager::{Manager, ManagerOptions, built_in};
use ringfence::model::{Error, ErrorKind, Result};
use ringfence::permission::ApprovalService;
use ringfence::session::recorder::{Keeping, open_ledger};
use ringfence::session::{Call, Core, CoreOptions, Managed, Workplace};
use ringfence::setup::Setup;
use serde_json::{Map, Value, json};

use crate::args::Session;
use crate::{gate, report, run, sandboxes, settings};
use jobs::SessionJobs;
use questions::WireQuestions;
use wire::{Line, Wire};
use worker::{Common, Worker};

/// Used by commands that name none.
const MAIN: &str = "main";

pub(crate) fn session(args: &Session) -> Result<ExitCode> {
    let setup = Arc::new(settings::load(&args.sandbox, Map::new())?.in_the_project());
    let wire = Arc::new(Wire::new(args.events));
    let loaded = setup.loaded.warnings.iter().map(ToString::to_string);
    let found = settings::warnings(&setup, &args.sandbox);
    for warning in loaded.chain(found).chain(settings::unfenced(&setup)) {
        wire.send(&json!({ "event": "warning", "message": warning }));
    }
    let questions = Arc::new(WireQuestions::new(Arc::clone(&wire)));
    let core = core(args, &setup, &questions, &wire)?;
    setup.make_home()?;
    let place: Arc<dyn Workplace> = Arc::new(workplace(args, &core, &wire)?);
    // Nothing that still runs is of use without a reader. Everything in the sandboxes goes with this
    // process; what was done stays in the ledger.
    let recorder = Arc::clone(core.recorder());
    std::thread::spawn(move || {
        wire::wait_for_end_of_reader();
        recorder.flush();
        leave();
    });
    let jobs = Arc::new(SessionJobs::new(&core, Arc::clone(&place), Arc::clone(&wire)));
    let common = Common { core, jobs, wire, questions };
    let served = serve(&common, &place);
    place.dispose();
    common.jobs.finish();
    common.core.recorder().flush();
    served.map(|()| ExitCode::SUCCESS)
}

fn core(
    args: &Session,
    setup: &Arc<Setup>,
    questions: &Arc<WireQuestions>,
    wire: &Arc<Wire>,
) -> Result<Core> {
    let key = args.session.clone();
    let core = Core::new(
        setup,
        CoreOptions {
            service: Some(Arc::clone(questions) as Arc<dyn ApprovalService>),
            ledger: Some(open_ledger(&setup.ledger_path(), &setup.env, Keeping::Thread, |problem| {
                report::say(&format!("warning: {}", problem.chain()));
            })),
            session_key: Some(key.unwrap_or_else(|| format!("session-{}", Call::new("session").id))),
            code_reader: Some(gate::reader()),
            ..CoreOptions::default()
        },
    )?;
    let wire = Arc::clone(wire);
    core.recorder().listen(Arc::new(move |event| wire.happened(event)));
    Ok(core)
}

/// The session's sandbox: of the configured provider, and gone with the session unless it was named.
fn workplace(args: &Session, core: &Core, wire: &Arc<Wire>) -> Result<Managed> {
    let (late, progress, warned) = (Arc::clone(wire), Arc::clone(wire), Arc::clone(wire));
    let options = ManagerOptions {
        approval: core.questions().live(),
        background: Some(Arc::new(move |event| late.late(&Value::Null, "", &event))),
        progress: Some(Arc::new(move |line| {
            progress.send(&json!({ "event": "progress", "message": line }));
        })),
        is_ephemeral: args.session.is_none(),
        housekeeper: sandboxes::housekeeper(core.setup(), args.session.as_deref()),
        warn: Arc::new(move |warning| warned.send(&json!({ "event": "warning", "message": warning }))),
        ..run::manager_options(core.setup(), &args.sandbox)?
    };
    let manager = Manager::of(Arc::clone(core.setup()), built_in()?, options);
    let key = args.session.clone().or_else(|| core.recorder().session().map(str::to_owned));
    let place = Managed::new(Arc::new(manager), key.unwrap_or_default());
    // A sandbox that cannot be made is told now, not with the first command.
    place.make()?;
    Ok(place)
}

/// Does what the lines say, up to their end.
fn serve(common: &Common, place: &Arc<dyn Workplace>) -> Result<()> {
    let Common { jobs, wire, questions, .. } = common;
    let mut workers: BTreeMap<String, Worker> = BTreeMap::new();
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot read standard input").caused_by(error)
        })?;
        match wire::parse(&line) {
            Ok(None) => {}
            Ok(Some(Line::Run(job))) => {
                let name = job.shell.clone().unwrap_or_else(|| MAIN.to_owned());
                if !workers.contains_key(&name) {
                    let shell = if name == MAIN { Arc::clone(place) } else { place.shell(&name)? };
                    workers.insert(name.clone(), Worker::spawn(&name, common.clone(), shell));
                }
                workers[&name].give(job);
            }
            Ok(Some(Line::Cancel(id))) => {
                if !workers.values().any(|worker| worker.cancel(&id)) {
                    wire.error(Some(&id), "nothing of this id runs or waits");
                }
            }
            Ok(Some(Line::Order(id, order))) => jobs.order(&id, &order),
            Ok(Some(Line::Answer(permission, decision))) => {
                if !questions.answer(permission, decision) {
                    wire.error(None, &format!("no question has the number {permission}, or it was answered"));
                }
            }
            Err((id, message)) => wire.error(id.as_ref(), &message),
        }
    }
    // Commands that were given finish; their questions have nobody to answer them any more.
    questions.close();
    workers.into_values().for_each(Worker::finish);
    Ok(())
}

#[expect(clippy::exit, reason = "the main thread waits for a line that may never come")]
fn leave() -> ! {
    std::process::exit(i32::from(report::OWN_FAILURE))
}
