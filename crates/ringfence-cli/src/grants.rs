//! `ringfence grants`: what a person granted, and taking it back.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence::config::{self, Change, HostList};
use ringfence::ledger::{GrantId, GrantSet, Granted, Ledger, now_ms};
use ringfence::model::config::PermanentGrant;
use ringfence::model::{Access, Error, ErrorKind, GrantScope, Result};
use serde::Serialize;

use crate::args::{AddGrant, Grants, GrantsCommand, ListGrants, RevokeGrant};
use crate::output::{self, Table, Tone};
use crate::places::Places;
use crate::report;
use crate::since::ago;

pub(crate) fn grants(args: &Grants) -> Result<ExitCode> {
    match &args.command {
        GrantsCommand::List(args) => list(args),
        GrantsCommand::Add(args) => add(args),
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
    /// Absolute, or a host.
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

/// Something that nobody is asked about again.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Never {
    /// Absolute, or an address or host.
    path: String,
    never_ask: bool,
    /// `connect`, for a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<Access>,
    file: PathBuf,
}

fn never(places: &Places) -> Result<Vec<Never>> {
    let file = places.user_file();
    let paths = config::never_asked(&file)?.into_iter().map(|path| (path, None));
    let hosts = config::kept_hosts(&file, HostList::Blocked)?.into_iter();
    let all = paths.chain(hosts.map(|host| (host, Some(Access::Connect))));
    Ok(all.map(|(path, access)| Never { path, never_ask: true, access, file: file.clone() }).collect())
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
    held.extend(config::kept_hosts(&file, HostList::Allowed)?.into_iter().map(|host| {
        let path = PathBuf::from(host);
        let known = recorded.iter().find(|granted| {
            let known = &granted.grant;
            known.scope == GrantScope::Permanent && known.access == Access::Connect && known.path == path
        });
        Held {
            id: known.map(|granted| granted.id),
            path,
            access: Access::Connect,
            recursive: false,
            scope: GrantScope::Permanent,
            created_ms: known.map(|granted| granted.created_ms),
            session_key: None,
            project: None,
            file: Some(file.clone()),
        }
    }));
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
    let places = Places::find(None)?;
    let (held, never) = (held(&places)?, never(&places)?);
    if args.json {
        let held = held.iter().map(serde_json::to_value);
        let all =
            held.chain(never.iter().map(serde_json::to_value)).collect::<std::result::Result<Vec<_>, _>>();
        output::print_json(&all.map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot write the grants as JSON").caused_by(error)
        })?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if held.is_empty() && never.is_empty() {
        report::say("nothing has been granted");
        return Ok(ExitCode::SUCCESS);
    }
    let now = now_ms();
    let mut table = Table::new(&["GIVEN", "FOR", "ACCESS", "ID", "PATH"]);
    for grant in held {
        let scope = match grant.scope {
            GrantScope::Once => "once",
            GrantScope::Session => "session",
            GrantScope::Permanent => "always",
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
    for refused in never {
        table.row([
            (Tone::Quiet, "-".to_owned()),
            (Tone::Warning, "never asked".to_owned()),
            (Tone::Plain, "none".to_owned()),
            (Tone::Quiet, "-".to_owned()),
            (Tone::Plain, refused.path),
        ]);
    }
    table.print()?;
    Ok(ExitCode::SUCCESS)
}

fn add_host(places: &Places, host: &str) -> Result<ExitCode> {
    let file = places.user_file();
    match config::keep_host(&file, HostList::Allowed, host)? {
        Change::Written => report::say(&format!("granted: connect to {host} ({})", file.display())),
        Change::Unchanged => report::say(&format!("it is granted already ({})", file.display())),
    }
    Ok(ExitCode::SUCCESS)
}

fn add(args: &AddGrant) -> Result<ExitCode> {
    let places = Places::find(None)?;
    if let Some(host) = &args.host {
        return add_host(&places, host);
    }
    let path = places.absolute(args.path.as_deref().unwrap_or(Path::new(".")));
    let path = path.canonicalize().map_err(|error| {
        Error::new(ErrorKind::NotFound, format!("there is nothing at {}", path.display())).caused_by(error)
    })?;
    let Some(text) = path.to_str() else {
        let message = format!("{} is not UTF-8 and cannot be granted permanently", path.display());
        return Err(Error::new(ErrorKind::Validation, message));
    };
    let access = if args.write { Access::Write } else { Access::Read };
    let grant = PermanentGrant { path: text.to_owned(), access, recursive: args.recursive };
    let file = places.user_file();
    // A person who grants it wants no refusal without a question.
    config::remove_never_ask(&file, text)?;
    let below = if args.recursive { " and all below it" } else { "" };
    match config::add_permanent_grant(&file, &grant)? {
        Change::Written => report::say(&format!("granted: {access} {text}{below} ({})", file.display())),
        Change::Unchanged => report::say(&format!("it is granted already ({})", file.display())),
    }
    if path.is_dir() && !args.recursive {
        report::say("only the directory itself: --recursive grants what is in it");
    }
    Ok(ExitCode::SUCCESS)
}

fn revoke(args: &RevokeGrant) -> Result<ExitCode> {
    let places = Places::find(None)?;
    let id = args.which.parse::<GrantId>().ok();
    let path = places.absolute(Path::new(&args.which));
    let (resolved, same) = (path.canonicalize().ok(), path.clone());
    let is_meant = |grant: &Held| match id {
        Some(id) => grant.id == Some(id),
        None if grant.access == Access::Connect => {
            config::is_same_host(&grant.path.to_string_lossy(), &args.which)
        }
        None => grant.path == same || Some(&grant.path) == resolved.as_ref(),
    };
    let meant: Vec<Held> = held(&places)?.into_iter().filter(is_meant).collect();
    let asked_again: Vec<Never> = never(&places)?
        .into_iter()
        .filter(|never| match never.access {
            Some(_) => config::is_same_host(&never.path, &args.which),
            None => never.path == args.which || places.absolute(Path::new(&never.path)) == same,
        })
        .collect();
    for never in &asked_again {
        match never.access {
            Some(_) => forget_host(&never.file, HostList::Blocked, &never.path)?,
            None => config::remove_never_ask(&never.file, &never.path)?,
        };
        output::print(&format!("asked about again: {}\n", output::one_line(&never.path)))?;
    }
    if meant.is_empty() && !asked_again.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if meant.is_empty() {
        report::say(&format!("there is no grant for {}; see `ringfence grants list`", args.which));
        return Ok(ExitCode::FAILURE);
    }
    for grant in meant {
        match &grant.file {
            Some(file) if grant.access == Access::Connect => {
                forget_host(file, HostList::Allowed, &grant.path.to_string_lossy())?;
            }
            Some(file) => take_out(&places, file, &grant.path)?,
            None => {}
        }
        if let Some(id) = grant.id {
            Ledger::open(&places.ledger_file())?.revoke_grant(id, now_ms())?;
        }
        let of = if grant.access == Access::Connect { "to" } else { "of" };
        output::print(&format!("no longer granted: {} {of} {}\n", grant.access, grant.path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes a host from a list. One that is written with more than its name is left to who wrote it.
fn forget_host(file: &Path, list: HostList, host: &str) -> Result<usize> {
    match config::forget_host(file, list, host)? {
        0 => {
            let message = format!("{host} is an entry of more than a name in {}", file.display());
            Err(Error::new(ErrorKind::Validation, message).hint("remove it there"))
        }
        removed => Ok(removed),
    }
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
