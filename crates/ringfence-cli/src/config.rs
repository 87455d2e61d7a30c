//! `ringfence config`: checking, showing and describing the configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence::config::sets::Machine;
use ringfence::config::{self, Diagnostic, DiagnosticKind, Severity, Shown};
use ringfence::manager::built_in;
use ringfence::model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use crate::args::{CheckConfig, Config, ConfigCommand, ConfigPath, ConfigSets, ShowConfig};
use crate::output::{self, Palette, Table, Tone, one_line};
use crate::places::Places;
use crate::{report, settings};

/// The file is not a valid configuration.
const INVALID: u8 = 2;

pub(crate) fn config(args: &Config) -> Result<ExitCode> {
    match &args.command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Schema => {
            output::print_json(&config::schema())?;
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Sets(args) => sets(args),
        ConfigCommand::Path(args) => path(args),
    }
}

fn sets(args: &ConfigSets) -> Result<ExitCode> {
    let places = Places::find(None)?;
    let sets = config::sets::all(&Machine::new(&places.home, &places.project, &places.env));
    if args.json {
        output::print_json(&sets)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["SET", "HOST", "FROM"]);
    for set in sets {
        if set.hosts.is_empty() {
            table.row([
                (Tone::Quiet, set.name.to_owned()),
                (Tone::Quiet, "-".to_owned()),
                (Tone::Quiet, format!("nothing here ({})", set.about)),
            ]);
        }
        for found in set.hosts {
            table.row([
                (Tone::Strong, set.name.to_owned()),
                (Tone::Plain, found.host),
                (Tone::Quiet, found.from),
            ]);
        }
    }
    table.print()?;
    Ok(ExitCode::SUCCESS)
}

fn check(args: &CheckConfig) -> Result<ExitCode> {
    let (files, found) = if args.files.is_empty() {
        let places = Places::find(args.project.as_deref())?;
        let mut options = places.load_options();
        options.agent = args.agent.as_deref();
        let files = [places.user_file(), places.project_file()];
        let files: Vec<PathBuf> = files.into_iter().filter(|file| file.symlink_metadata().is_ok()).collect();
        (files, config::check(&options))
    } else {
        let mut found = Vec::new();
        for file in &args.files {
            found.extend(config::check_text(file, &read(file)?));
        }
        (args.files.clone(), found)
    };
    let mut found = found;
    for file in &files {
        found.extend(unknown_provider(file)?);
    }
    let errors = found.iter().filter(|finding| finding.severity == Severity::Error).count();
    if args.json {
        output::print_json(&json!({
            "files": files,
            "errors": errors,
            "warnings": found.len() - errors,
            "diagnostics": found,
        }))?;
    } else {
        output::print(&findings(&files, &found))?;
    }
    Ok(if errors > 0 { ExitCode::from(INVALID) } else { ExitCode::SUCCESS })
}

/// A provider that nobody can make a sandbox with.
fn unknown_provider(file: &Path) -> Result<Option<Diagnostic>> {
    // One that is no configuration was told already.
    let Some(provider) = config::provider_named(file).ok().flatten() else { return Ok(None) };
    let Err(error) = built_in()?.get(&provider) else { return Ok(None) };
    if error.kind != ErrorKind::NotFound || provider == "none" {
        return Ok(None);
    }
    Ok(Some(Diagnostic {
        severity: Severity::Error,
        kind: DiagnosticKind::BadValue,
        file: Some(file.to_owned()),
        line: None,
        column: None,
        key: Some("provider".to_owned()),
        message: error.message,
        suggestion: None,
    }))
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(|error| {
        Error::new(ErrorKind::InvalidConfig, format!("cannot read {}", file.display())).caused_by(error)
    })
}

fn findings(files: &[PathBuf], found: &[Diagnostic]) -> String {
    let palette = Palette::of_stdout();
    let mut text = String::new();
    for finding in found {
        let (tone, word) = match finding.severity {
            Severity::Error => (Tone::Bad, "error"),
            Severity::Warning => (Tone::Warning, "warning"),
        };
        text.push_str(&format!("{}: {}\n", palette.paint(tone, word), one_line(&finding.to_string())));
    }
    let clean = |file: &&PathBuf| !found.iter().any(|finding| finding.file.as_ref() == Some(*file));
    for file in files.iter().filter(clean) {
        text.push_str(&format!("{}: {}\n", palette.paint(Tone::Good, "ok"), file.display()));
    }
    if files.is_empty() && found.is_empty() {
        text.push_str("there is no configuration file; what is built in holds\n");
    }
    text
}

fn show(args: &ShowConfig) -> Result<ExitCode> {
    let setup = settings::load(&args.sandbox, Map::new())?;
    settings::say_warnings(&setup, &args.sandbox);
    settings::unfenced(&setup).iter().for_each(|warning| report::say(&format!("warning: {warning}")));
    let loaded = &setup.loaded;
    match (args.origin, args.json) {
        (false, _) => output::print_json(&loaded.to_json())?,
        (true, true) => output::print_json(&loaded.show())?,
        (true, false) => origins(&loaded.show()).print()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn origins(shown: &[Shown]) -> Table {
    let mut table = Table::new(&["KEY", "FROM", "VALUE"]);
    for Shown { key, value, source } in shown {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        table.row([(Tone::Strong, key.clone()), (Tone::Quiet, source.to_string()), (Tone::Plain, value)]);
    }
    table
}

fn path(args: &ConfigPath) -> Result<ExitCode> {
    let places = Places::find(None)?;
    if args.json {
        let place = |path: PathBuf| json!({ "exists": path.exists(), "path": path });
        output::print_json(&json!({
            "user": place(places.user_file()),
            "project": place(places.project_file()),
            "ledger": place(places.ledger_file()),
        }))?;
    } else {
        output::print(&format!("{}\n", places.user_file().display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
