//! SQLite's failures in words for a person.

use std::path::Path;

use ringfence_model::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// Says what failed while `doing` something to the ledger at `path`, and what to do about it.
pub(crate) fn explain(path: &Path, doing: &str, error: rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    let place = path.display();
    let (kind, message, hint) = match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::ConcurrentAccess,
            format!("cannot {doing}: the ledger {place} is locked by another process"),
            None,
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
            ErrorKind::Permission,
            format!("cannot {doing}: the ledger {place} cannot be opened for writing"),
            Some("check the permissions of the file and its directory, and that the disk is not mounted read-only".to_owned()),
        ),
        Some(ErrorCode::DiskFull) => (
            ErrorKind::ResourceLimitExceeded,
            format!("cannot {doing}: no space left for the ledger {place}"),
            Some("free some disk space".to_owned()),
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
            ErrorKind::Internal,
            format!("cannot {doing}: the ledger {place} is damaged"),
            Some(format!("move it away (mv {place} {place}.damaged); a new one is made by itself")),
        ),
        _ => (ErrorKind::Internal, format!("cannot {doing}: the ledger {place} failed"), None),
    };
    let explained = Error::new(kind, message).caused_by(error);
    match hint {
        Some(hint) => explained.hint(hint),
        None => explained,
    }
}

/// Whether trying again later may help.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
