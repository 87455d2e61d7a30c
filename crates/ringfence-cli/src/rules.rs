//! `ringfence rules`: commands that pass, or are refused, without a question.

use std::process::ExitCode;

use ringfence::config::{self, Change, Entry};
use ringfence::gate::{CommandRule, Gate, List, Options, Request};
use ringfence::model::config::ConfigFile;
use ringfence::model::{Error, ErrorKind, Result};
use ringfence::setup::Setup;
use serde::Serialize;

use crate::args::{AddRule, ListRules, RemoveRule, Rules, RulesCommand, TestRules};
use crate::output::{self, Table, Tone};
use crate::places::Places;
use crate::report;

pub(crate) fn rules(args: &Rules) -> Result<ExitCode> {
    match &args.command {
        RulesCommand::Add(args) => add(args),
        RulesCommand::Remove(args) => remove(args),
        RulesCommand::List(args) => list(args),
        RulesCommand::Test(args) => test(args),
    }
}

fn add(args: &AddRule) -> Result<ExitCode> {
    let file = Places::find(None)?.user_file();
    let list = if args.deny { List::Deny } else { List::Allow };
    match config::add_rule(&file, list, &args.rule)? {
        Change::Written => report::say(&format!("written to {}", file.display())),
        Change::Unchanged => report::say(&format!("it is in {} already", file.display())),
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(args: &RemoveRule) -> Result<ExitCode> {
    let file = Places::find(None)?.user_file();
    let mut removed = 0;
    for list in [List::Allow, List::Deny] {
        removed += config::remove_rule(&file, list, &args.rule)?;
    }
    if removed == 0 {
        report::say(&format!("there is no such rule in {}; see `ringfence rules list`", file.display()));
        return Ok(ExitCode::FAILURE);
    }
    report::say(&format!("taken out of {}", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// A rule that holds here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Held {
    list: &'static str,
    rule: String,
    source: String,
    #[serde(skip)]
    parsed: CommandRule,
}

fn held() -> Result<(Setup, Vec<Held>)> {
    let current = std::env::current_dir().map_err(|error| {
        Error::new(ErrorKind::Validation, "the current directory is gone").caused_by(error)
    })?;
    let env = std::env::vars_os().collect();
    let setup = Setup::load(&current, env, ConfigFile::default(), None)?;
    let safety = &setup.loaded.config.safety;
    let mut held = Vec::new();
    for (list, name, entries) in
        [(List::Deny, "deny", &safety.denylist), (List::Allow, "allow", &safety.allowlist)]
    {
        for entry in entries {
            held.push(read(entry, list, name)?);
        }
    }
    Ok((setup, held))
}

fn read(entry: &Entry, list: List, name: &'static str) -> Result<Held> {
    let parsed = CommandRule::parse(entry, list)
        .map_err(|error| Error::new(ErrorKind::InvalidConfig, error.to_string()))?;
    Ok(Held { list: name, rule: entry.text.clone(), source: entry.source.to_string(), parsed })
}

fn list(args: &ListRules) -> Result<ExitCode> {
    let (_, held) = held()?;
    show(&held, args.json, "there are no rules; the built-in checks hold")?;
    Ok(ExitCode::SUCCESS)
}

fn test(args: &TestRules) -> Result<ExitCode> {
    // Reading them tries their examples.
    let (setup, held) = held()?;
    let Some(command) = &args.command else {
        let rules = if held.len() == 1 { "rule does what its" } else { "rules do what their" };
        report::say(&format!("{} {rules} examples say", held.len()));
        return Ok(ExitCode::SUCCESS);
    };
    let home = setup.home.to_string_lossy().into_owned();
    let cwd = setup.project.to_string_lossy().into_owned();
    let seen = Gate::new(Options::default()).commands(&Request::shell(command.as_str(), home, cwd));
    let matching: Vec<Held> = held
        .into_iter()
        .filter(|rule| {
            let list = if rule.list == "deny" { List::Deny } else { List::Allow };
            seen.iter().any(|command| rule.parsed.matches(command, list))
        })
        .collect();
    show(&matching, args.json, "no rule matches")?;
    Ok(if matching.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn show(rules: &[Held], json: bool, nothing: &str) -> Result<()> {
    if json {
        return output::print_json(&rules);
    }
    if rules.is_empty() {
        report::say(nothing);
        return Ok(());
    }
    let mut table = Table::new(&["LIST", "RULE", "WRITTEN IN"]);
    for held in rules {
        let tone = if held.list == "deny" { Tone::Bad } else { Tone::Good };
        table.row([
            (tone, held.list.to_owned()),
            (Tone::Plain, held.rule.clone()),
            (Tone::Quiet, held.source.clone()),
        ]);
    }
    table.print()
}
