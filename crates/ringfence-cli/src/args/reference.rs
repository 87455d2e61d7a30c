//! The reference part of `docs/cli.md`, made from the definition of the command line. Run the tests with
//! `UPDATE_DOCS=1` to write it.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _, Parser as _};

use super::Cli;

const BEGIN: &str = "<!-- generated from the command line: begin -->";
const END: &str = "<!-- generated from the command line: end -->";

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_help_with_examples() {
    for_each_command(&mut |path, command| {
        assert!(command.get_about().is_some(), "{path} has no description");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{path}: {} has no help", argument.get_id());
        }
        let is_group = command.has_subcommands() && path != "ringfence";
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(is_group || examples.contains("Examples:"), "{path} has no examples");
        for line in examples.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.contains("ringfence"), "{path}: an example that does not call ringfence: {line}");
        }
    });
}

#[test]
fn the_reference_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let fresh = format!("{before}{BEGIN}\n\n{}{END}{after}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, fresh).unwrap();
        return;
    }
    assert!(
        text == fresh,
        "docs/cli.md is not up to date: UPDATE_DOCS=1 cargo test -p ringfence-cli reference"
    );
}

#[test]
fn every_command_and_option_is_in_the_reference() {
    let reference = reference();
    for_each_command(&mut |path, command| {
        let section = format!("### `{path}`\n");
        let Some((_, rest)) = reference.split_once(&section) else {
            assert!(command.has_subcommands(), "{path} is missing");
            return;
        };
        let section = rest.split("\n### ").next().unwrap_or_default();
        for long in command.get_arguments().filter_map(Arg::get_long).filter(|long| *long != "help") {
            assert!(section.contains(&format!("--{long}")), "{path}: --{long} is missing");
        }
    });
}

/// The program understands what the guide tells people to type.
#[test]
fn the_commands_of_the_guide_exist() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let text = std::fs::read_to_string(file).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<&str> =
        blocks.flat_map(str::lines).filter(|line| line.starts_with("ringfence ")).collect();
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        let words = words(line);
        Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

/// The guide tells operators what they have to know.
#[test]
fn the_guide_covers_containers_and_operation() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let text = std::fs::read_to_string(file).unwrap();
    for said in [
        "docker run --rm --privileged",
        "only for probing",
        "also not in Docker Desktop on macOS",
        "### Before going live",
        "safety.allowlist, safety.denylist",
        "`sandbox_denied`",
        "`approval_denied`",
        "\"profile\": \"balanced\"",
        "**Development**: the profile `balanced`",
        "**Production**: tighten step by step",
        "read the kind first",
        "The agent itself, its calls to a model among them, is outside",
        "`\"active\": true` says that a fence was there, not that it was tight",
    ] {
        assert!(text.contains(said), "the guide does not say: {said}");
    }
    let macos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/macos.md");
    let macos = std::fs::read_to_string(macos).unwrap();
    assert!(macos.contains("The host's paths are visible by name, which is normal"));
}

/// The words of a simple command, up to a comment, a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with(['#', '|', '>']) {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

fn for_each_command(visit: &mut dyn FnMut(&str, &Command)) {
    fn walk(path: &str, command: &Command, visit: &mut dyn FnMut(&str, &Command)) {
        visit(path, command);
        for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
            walk(&format!("{path} {}", child.get_name()), child, visit);
        }
    }
    let mut root = Cli::command();
    root.build();
    walk("ringfence", &root, visit);
}

/// A section for each command: what it is for, how it is called, its arguments, its examples.
fn reference() -> String {
    let mut text = String::new();
    for_each_command(&mut |path, command| {
        // A group that does something by itself has examples of it.
        if path == "ringfence" || command.has_subcommands() && command.get_after_help().is_none() {
            return;
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = writeln!(text, "### `{path}`\n\n{about}.\n\n```text\n{usage}\n```\n");
        let shown = |argument: &&Arg| argument.get_id() != "help" && argument.get_id() != "version";
        let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
        if !arguments.is_empty() {
            text.push_str("| argument | meaning |\n|---|---|\n");
            for argument in arguments {
                let _ = writeln!(text, "| {} | {} |", name(argument), meaning(argument));
            }
            text.push('\n');
        }
        if let Some(examples) = command.get_after_help() {
            let _ = writeln!(text, "```text\n{examples}\n```\n");
        }
    });
    text
}

fn name(argument: &Arg) -> String {
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let value = argument.get_value_names().and_then(|names| names.first()).filter(|_| takes_value);
    let value = value.map(|name| name.replace('|', "\\|"));
    let option = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, Some(long)) => format!("--{long}"),
        (None, None) => String::new(),
    };
    format!(
        "`{}`",
        [Some(option), value]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    )
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        let _ = write!(text, ": {}", values.join(", "));
    }
    if let Some(default) = argument.get_default_values().first().filter(|_| takes_value) {
        let _ = write!(text, " [default: {}]", default.to_string_lossy());
    }
    if matches!(argument.get_action(), ArgAction::Append) && argument.get_long().is_some() {
        text.push_str("; may be repeated");
    }
    text.replace('|', "\\|")
}
