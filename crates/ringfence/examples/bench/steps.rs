//! Every step from the configuration to the end of the command.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence::ledger::{ExecutionEnd, ExecutionStart, Writer, WriterOptions};
use ringfence::local::host::Host;
use ringfence::local::{complete, scan, view};
use ringfence::model::Command;
use ringfence::model::config::ConfigFile;
use ringfence::setup::Setup;
use ringfence_linux::plan::{Exec, Plan};
use ringfence_linux::seccomp::{self, NotifySet};
use ringfence_linux::sys::CStringArray;
use ringfence_linux::{landlock, steps};
use serde_json::json;

use crate::Outcome;

/// Times by the name of the step, in the order in which the steps happen.
#[derive(Default)]
struct Table(Vec<(String, Vec<u64>)>);

impl Table {
    fn add(&mut self, name: &str, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, times)) => times.push(took),
            None => self.0.push((name.to_owned(), vec![took])),
        }
    }

    fn time<T>(&mut self, name: &str, step: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = step();
        self.add(name, start.elapsed());
        value
    }
}

pub(crate) fn measure(project: &Path, rounds: usize) -> Outcome {
    let mut table = Table::default();
    let mut counts = vec![];
    for _ in 0..rounds {
        let plan = prepare(&mut table, project)?;
        counts = steps::count(&plan);
        let exec = Exec {
            candidates: vec![CString::from(c"/usr/bin/true")],
            argv: CStringArray::new(vec![CString::from(c"true")]),
            env: CStringArray::new(vec![]),
            cwd: CString::from(c"/"),
            passed: vec![],
            held: false,
        };
        for (name, took) in steps::time_launch(&plan, &exec)? {
            table.add(name, took);
        }
        ledger(&mut table, project);
    }
    let rows: Vec<_> =
        table.0.into_iter().map(|(name, times)| json!({ "name": name, "ns": times })).collect();
    let counts: BTreeMap<_, _> = counts.into_iter().collect();
    Ok(json!({ "steps": rows, "counts": counts }))
}

/// What `ringfence run` does before it launches.
fn prepare(table: &mut Table, project: &Path) -> Result<Plan, Box<dyn std::error::Error>> {
    let setup = table.time("configuration", || {
        Setup::load(project, std::env::vars_os().collect(), ConfigFile::default(), None)
    })?;
    let policy = table.time("policy", || setup.policy());
    let host = Host::from_environment(setup.env.clone());
    let policy =
        table.time("system, tool chains, links", || complete::complete(policy, project, &host).policy);
    let fs = &policy.filesystem;
    let found = table.time("scan of the project", || scan::scan(fs, &[project]));
    let view = table.time("plan of the view", || view::lay_out(fs, &found, project, true))?;
    let filters = table.time("system-call filters", || {
        let notify = NotifySet { execs: true, ..NotifySet::full() };
        (seccomp::combined_program(&notify), seccomp::static_program())
    });
    Ok(Plan {
        hostname: CString::from(c"ringfence"),
        mounts: view.mounts,
        idmapped: None,
        traps: vec![],
        landlock: Some((landlock::abi(), view.landlock)).filter(|(abi, _)| *abi > 0),
        without_tcp: false,
        rlimits: vec![],
        filter: filters.0,
        supervised: true,
        unsupervised_filter: Some(filters.1),
    })
}

fn ledger(table: &mut Table, project: &Path) {
    let file = project.join("../ledger-of-the-bench/ledger.db");
    let writer = table.time("ledger: start of the writer", || {
        Writer::spawn(&file, WriterOptions::new(std::sync::Arc::new(ringfence::ledger::Nothing)))
    });
    let id = table.time("ledger: opened, start written (beside the command)", || {
        let id = writer.start(ExecutionStart::new(Command::Argv(vec!["true".into()])));
        writer.flush();
        id
    });
    table.time("ledger: end written", || {
        writer.end(ExecutionEnd::failed(id, "nothing ran"));
        writer.close();
    });
}
