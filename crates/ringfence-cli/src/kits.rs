//! `ringfence kits`: which agents can live inside, and what each is given for what reason.

use std::process::ExitCode;

use ringfence::config::kits::{self, Listed};
use ringfence::model::Result;
use ringfence::model::config::Kit;

use crate::args::Kits;
use crate::output::{self, Palette, Table, Tone};
use crate::places::Places;

pub(crate) fn kits(args: &Kits) -> Result<ExitCode> {
    let places = Places::find(None)?;
    let all = kits::all(&places.load_options())?;
    match &args.name {
        None if args.json => output::print_json(&all)?,
        None => list(&all).print()?,
        Some(name) => {
            let known = all.iter().map(|listed| listed.name.as_str());
            let found = all.iter().find(|listed| listed.name == *name);
            let listed = found.ok_or_else(|| kits::unknown(name, known))?;
            if args.json {
                output::print_json(listed)?;
            } else {
                output::print(&shown(listed, Palette::of_stdout()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(all: &[Listed]) -> Table {
    let mut table = Table::new(&["KIT", "FROM", "FOR"]);
    for Listed { name, file, kit } in all {
        let from = file.as_ref().map_or_else(|| "built-in".to_owned(), |file| file.display().to_string());
        table.row([
            (Tone::Strong, name.clone()),
            (Tone::Quiet, from),
            (Tone::Plain, kit.about.as_str().to_owned()),
        ]);
    }
    table
}

/// A line for each entry, with its reason below.
fn shown(listed: &Listed, palette: Palette) -> String {
    let Listed { name, file, kit } = listed;
    let mut text = format!("{}: {}\n", palette.paint(Tone::Strong, name), kit.about.as_str());
    if let Some(file) = file {
        text.push_str(&format!("  from {}\n", file.display()));
    }
    for (title, rows) in sections(kit) {
        if !rows.is_empty() {
            text.push_str(&format!("\n{}\n", palette.paint(Tone::Strong, title)));
        }
        for (what, why) in rows {
            text.push_str(&format!("  {what}\n    {}\n", palette.paint(Tone::Quiet, &why)));
        }
    }
    if let Some(sandbox) = &kit.sandbox {
        let title = palette.paint(Tone::Strong, "its own sandbox");
        text.push_str(&format!("\n{title}\n  {}\n", sandbox.as_str()));
    }
    text
}

type Rows = Vec<(String, String)>;

fn sections(kit: &Kit) -> [(&'static str, Rows); 7] {
    let Kit { about: _, state, files, read, deny, hosts, pass, set, sandbox: _ } = kit;
    let row = |what: &str, why: &str| (what.to_owned(), why.to_owned());
    let paths = |rows: &[ringfence::model::config::KitPath]| {
        rows.iter().map(|entry| row(entry.path.as_str(), entry.reason.as_str())).collect::<Rows>()
    };
    [
        ("keeps its state in", paths(state)),
        ("begins with", files.iter().map(|entry| row(entry.path.as_str(), entry.reason.as_str())).collect()),
        ("may read", paths(read)),
        ("stays denied", paths(deny)),
        ("reaches", hosts.iter().map(|entry| row(entry.rule.as_str(), entry.reason.as_str())).collect()),
        (
            "gets of your variables",
            pass.iter().map(|entry| row(entry.name.as_str(), entry.reason.as_str())).collect(),
        ),
        (
            "has set",
            set.iter()
                .map(|entry| row(&format!("{}={}", entry.name.as_str(), entry.value), entry.reason.as_str()))
                .collect(),
        ),
    ]
}
