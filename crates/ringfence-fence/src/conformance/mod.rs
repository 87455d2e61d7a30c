//! What every fence must do, as a table of cases that runs against any of them.
//!
//! A [`Case`] is data: files, a change to the policy, a shell command, and what must be true afterwards, of
//! the result and of the host. [`run`] puts each case to each [`Contender`] and gives a [`Matrix`] with a row
//! per case and a column per contender. A contender that cannot promise something says so beforehand, with
//! the reason, and that reason is what its cell shows: a case is never passed over in silence.
//!
//! | module | what it holds |
//! |---|---|
//! | [`case`] | one case: set-up, command, expectations |
//! | [`cases`] | the table |
//! | `place` | the directories, processes and sockets of the host that a case is about |
//! | `check` | expectations against what happened |
//! | [`matrix`] | verdicts, printed |

pub mod case;
pub mod cases;
mod check;
pub mod matrix;
mod place;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use ringfence_model::{ExecRequest, ExecResult, Result};

pub use case::Case;
pub use matrix::{Cell, Matrix};
pub use place::Place;

use crate::CreateOptions;

/// Makes a sandbox, runs one command in it and gets rid of it.
pub type RunOnce<'a> = &'a (dyn Fn(CreateOptions, &ExecRequest) -> Result<ExecResult> + Sync);

/// As long as any case may take, on a machine with other things to do.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);

/// A provider's way to run one command: for [`Contender::run`].
pub fn run_once(
    provider: &dyn crate::Provider,
    options: CreateOptions,
    request: &ExecRequest,
) -> Result<ExecResult> {
    let all = Box::pin(async {
        let sandbox = provider.create(options).await?;
        let result = sandbox.execute(request.clone(), &|_| ()).await;
        provider.destroy(sandbox.id()).await?;
        result
    });
    crate::wait_for(all, PATIENCE).unwrap_or_else(|| {
        Err(ringfence_model::Error::new(ringfence_model::ErrorKind::Timeout, "the case did not end"))
    })
}

/// A launcher or provider under test.
#[derive(Clone, Copy)]
pub struct Contender<'a> {
    /// As the matrix shows it.
    pub name: &'a str,
    /// Runs one command in a fresh sandbox of it.
    pub run: RunOnce<'a>,
    /// Cases (or whole groups, the part of the name before the first `/`) it does not promise, and why.
    pub excused: &'a [(&'a str, &'a str)],
}

impl std::fmt::Debug for Contender<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Contender<'_> {
    fn excuse(&self, case: &Case) -> Option<&str> {
        let names = |name: &str| name == case.name || case.name.split('/').next() == Some(name);
        self.excused.iter().find(|(name, _)| names(name)).map(|(_, reason)| *reason)
    }
}

/// Runs every case whose name contains `only` against every contender. Each gets fresh directories below
/// `base`; `environment` is what the caller's environment is taken to be.
#[must_use]
pub fn run(
    contenders: &[Contender<'_>],
    cases: &[Case],
    base: &Path,
    environment: &BTreeMap<OsString, OsString>,
    only: &str,
) -> Matrix {
    let mut matrix = Matrix::new(contenders.iter().map(|contender| contender.name.to_owned()).collect());
    for case in cases.iter().filter(|case| case.name.contains(only)) {
        let cells = contenders
            .iter()
            .map(|contender| match contender.excuse(case) {
                Some(reason) => Cell::Excused(reason.to_owned()),
                None => match one(contender, case, base, environment) {
                    Ok(()) => Cell::Passed,
                    Err(problem) => Cell::Failed(problem),
                },
            })
            .collect();
        matrix.push(case.name, cells);
    }
    matrix
}

fn one(
    contender: &Contender<'_>,
    case: &Case,
    base: &Path,
    environment: &BTreeMap<OsString, OsString>,
) -> std::result::Result<(), String> {
    let place = Place::new(base, case).map_err(|error| format!("cannot set the case up: {error}"))?;
    let before = place.listing();
    let (options, request) = case.prepare(&place, environment);
    let result = std::thread::scope(|scope| {
        if let Some(act) = case.meanwhile {
            let place = &place;
            scope.spawn(move || place.when_ready(act));
        }
        (contender.run)(options, &request)
    });
    check::check(case, &place, &before, &result)
}
