//! `ringfence grants`: what a person granted, and taking it back.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence::config;
use ringfence::ledger::{GrantId, GrantSet, Granted, Ledger, now_ms};
use ringfence::model::{Access, GrantScope, Result};
use serde::Serialize;

use crate::args::{Grants, GrantsCommand, ListGrants, RevokeGrant};
use crate::output::{self, Table, Tone};
use crate::places::Places;
use crate::report;
use crate::since::ago;

pub(crate) fn grants(args: &Grants) -> Result<ExitCode> {
    match &args.command {
        GrantsCommand::List(args) => list(args),
        GrantsCommand::Revoke(args) => revoke(args),
    }
}

/// A grant that holds. Permanent ones are in the configuration, which is what counts; the ledger knows when
/// they were given.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Held {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<GrantId>,
    /// Absolute.
    path: PathBuf,
    access: Access,
    recursive: bool,
    scope: GrantScope,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<PathBuf>,
    /// The file that holds it, for permanent ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

fn held(places: &Places) -> Result<Vec<Held>> {
    let recorded = match places.ledger()? {
        Some(ledger) => ledger.grants(GrantSet::Active)?,
        None => vec![],
    };
    let file = places.user_file();
    let mut held = Vec::new();
    for grant in config::permanent_grants(&file)? {
        let path = places.absolute(Path::new(&grant.path));
        let known = recorded.iter().find(|granted| {
            let known = &granted.grant;
            known.scope == GrantScope::Permanent
                && known.path == path
                && known.access == grant.access
                && known.recursive == grant.recursive
        });
        held.push(Held {
            id: known.map(|granted| granted.id),
            path,
            access: grant.access,
            recursive: grant.recursive,
            scope: GrantScope::Permanent,
            created_ms: known.map(|granted| granted.created_ms),
            session_key: None,
            project: None,
            file: Some(file.clone()),
        });
    }
    let sessions = recorded.into_iter().filter(|granted| granted.grant.scope == GrantScope::Session);
    held.extend(sessions.map(|Granted { id, created_ms, grant, session_key, project, .. }| Held {
        id: Some(id),
        path: grant.path,
        access: grant.access,
        recursive: grant.recursive,
        scope: grant.scope,
        created_ms: Some(created_ms),
        session_key,
        project,
        file: None,
    }));
    Ok(held)
}

fn list(args: &ListGrants) -> Result<ExitCode> {
    let held = held(&Places::find(None)?)?;
    if args.json {
        output::print_json(&held)?;
        return Ok(ExitCode::SUCCESS);
    }
    if held.is_empty() {
        report::say("nothing has been granted");
        return Ok(ExitCode::SUCCESS);
    }
    let now = now_ms();
    let mut table = Table::new(&["GIVEN", "FOR", "ACCESS", "ID", "PATH"]);
    for grant in held {
        let scope = match grant.scope {
            GrantScope::Once => "once",
            GrantScope::Session => "session",
            GrantScope::Permanent => "good",
        };
        let below = if grant.recursive { " and below" } else { "" };
        table.row([
            (Tone::Quiet, grant.created_ms.map_or_else(|| "-".to_owned(), |time| ago(time, now))),
            (Tone::Plain, scope.to_owned()),
            (Tone::Plain, grant.access.to_string()),
            (Tone::Quiet, grant.id.map_or_else(|| "-".to_owned(), |id| id.to_string())),
            (Tone::Plain, format!("{}{below}", grant.path.display())),
        ]);
    }
    table.print()?;
    Ok(ExitCode::SUCCESS)
}

fn revoke(args: &RevokeGrant) -> Result<ExitCode> {
    let places = Places::find(None)?;
    let id = args.which.parse::<GrantId>().ok();
    let path = places.absolute(Path::new(&args.which));
    let (resolved, same) = (path.canonicalize().ok(), path.clone());
    let is_meant = |grant: &Held| match id {
        Some(id) => grant.id == Some(id),
        None => grant.path == same || Some(&grant.path) == resolved.as_ref(),
    };
    let meant: Vec<Held> = held(&places)?.into_iter().filter(is_meant).collect();
    if meant.is_empty() {
        report::say(&format!("there is no grant for {}; see `ringfence grants list`", args.which));
        return Ok(ExitCode::FAILURE);
    }
    for grant in meant {
        if let Some(file) = &grant.file {
            take_out(&places, file, &grant.path)?;
        }
        if let Some(id) = grant.id {
            Ledger::open(&places.ledger_file())?.revoke_grant(id, now_ms())?;
        }
        output::print(&format!("no longer granted: {} of {}\n", grant.access, grant.path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes what the file says about that path, however it is written there.
fn take_out(places: &Places, file: &Path, path: &Path) -> Result<()> {
    for grant in config::permanent_grants(file)? {
        if places.absolute(Path::new(&grant.path)) == path {
            config::revoke_permanent_grant(file, &grant.path)?;
        }
    }
    Ok(())
}
