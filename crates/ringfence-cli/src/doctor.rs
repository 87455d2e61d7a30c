//! `ringfence doctor`: what this machine can enforce, tried and in words.

mod profiles;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence::config::{self, EnvMap, PolicyInputs, SandboxConfig};
use ringfence::fence::CreateOptions;
use ringfence::local::doctor::{Check, Questions, Report, Status, examine};
use ringfence::local::host::Host;
use ringfence::model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use crate::args::Doctor;
use crate::output::{self, Palette, Tone, one_line};
use crate::places::Places;
use crate::run;
use profiles::Proof;

pub(crate) fn doctor(args: &Doctor) -> Result<ExitCode> {
    let places = Places::find(args.sandbox.project.as_deref())?;
    let scratch = Scratch::new()?;
    let host = Host::from_environment(places.env.clone());
    let report = examine(Questions {
        host: &host,
        program: &std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ringfence")),
        plain: scratch.sandbox(&places),
        here: crate::settings::load(&args.sandbox, Map::new())
            .and_then(|setup| run::sandbox(&setup, &args.sandbox)),
        ledger: &places.ledger_file(),
    });
    let proofs =
        if args.profiles { profiles::prove(&scratch.project, &scratch.home, &places.env)? } else { vec![] };
    if args.json {
        output::print_json(&to_json(&report, args.profiles.then_some(&proofs)))?;
    } else {
        output::print(
            &(text(&report, Palette::of_stdout()) + &profiles::text(&proofs, Palette::of_stdout())),
        )?;
    }
    let well = report.choice.launcher.is_some() && proofs.iter().all(Proof::holds);
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An empty project and an empty home, gone when dropped.
struct Scratch {
    _directory: tempfile::TempDir,
    project: PathBuf,
    home: PathBuf,
}

impl Scratch {
    fn new() -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Internal, "cannot make a temporary directory to try a sandbox in")
                .caused_by(error)
        };
        let directory = tempfile::tempdir().map_err(failed)?;
        let root = directory.path().canonicalize().map_err(failed)?;
        let (project, home) = (root.join("project"), root.join("home"));
        for path in [&project, &home] {
            std::fs::create_dir(path).map_err(failed)?;
        }
        Ok(Self { _directory: directory, project, home })
    }

    /// The policy of a sandbox without any configuration.
    fn sandbox(&self, places: &Places) -> CreateOptions {
        let Places { home, ringfence_home, env, .. } = places;
        let inputs = PolicyInputs::new(&self.project, home, ringfence_home, env);
        options(&self.project, config::policy(&SandboxConfig::default(), &inputs), env)
    }
}

fn options(project: &Path, policy: ringfence::model::Policy, env: &EnvMap) -> CreateOptions {
    CreateOptions {
        cwd: project.to_owned(),
        policy,
        environment: env.clone(),
        provider_options: Default::default(),
        hooks: Default::default(),
    }
}

fn to_json(report: &Report, proofs: Option<&Vec<Proof>>) -> Value {
    let check = |check: &Check| {
        json!({
            "id": check.id,
            "title": check.title,
            "status": check.status.name(),
            "required": check.need == ringfence::local::doctor::Need::Required,
            "found": check.found,
            "cost": check.cost,
            "remedy": check.remedy,
        })
    };
    let mut value = json!({
        "fence": report.choice.launcher.is_some(),
        "launcher": report.choice.launcher,
        "why": report.choice.why,
        "platform": std::env::consts::OS,
        "kernel": report.kernel,
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
    });
    if let Some(proofs) = proofs {
        value["profiles"] = json!(proofs);
    }
    value
}

fn text(report: &Report, palette: Palette) -> String {
    let width = report.checks.iter().map(|check| check.title.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in &report.checks {
        let (tone, word) = match check.status {
            Status::Ok => (Tone::Good, "ok"),
            Status::Degraded => (Tone::Warning, "degraded"),
            Status::Missing => (Tone::Bad, "missing"),
            Status::NotApplicable => (Tone::Quiet, "n/a"),
        };
        let _ = writeln!(
            text,
            "{}{:gap$}{:width$}  {}",
            palette.paint(tone, word),
            "",
            check.title,
            one_line(&check.found),
            gap = 10 - word.len()
        );
        for (name, line) in [("costs", &check.cost), ("remedy", &check.remedy)] {
            if let Some(line) = line {
                let _ = writeln!(
                    text,
                    "{:10}{:8}{}",
                    "",
                    palette.paint(Tone::Quiet, &format!("{name}:")),
                    one_line(line)
                );
            }
        }
    }
    let _ = match &report.choice.launcher {
        Some(launcher) => writeln!(
            text,
            "\n{}: `ringfence run` uses the launcher {launcher}: {}",
            palette.paint(Tone::Good, "ready"),
            report.choice.why
        ),
        None => writeln!(
            text,
            "\n{}: `ringfence run` starts nothing here: {}",
            palette.paint(Tone::Bad, "not ready"),
            report.choice.why
        ),
    };
    text
}
