//! Values on their way into and out of SQLite.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// SQLite's integers are signed; no time and no count of ours gets near the difference.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// TEXT when it is UTF-8, else BLOB, so that no byte is lost.
pub(crate) fn path_value(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => Value::Text(text.to_owned()),
        None => Value::Blob(path.as_os_str().as_bytes().to_vec()),
    }
}

pub(crate) fn path_column(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<PathBuf>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Ok(Some(PathBuf::from(OsString::from_vec(bytes.to_vec()))))
        }
        ValueRef::Integer(_) | ValueRef::Real(_) => Err(FromSqlError::InvalidType.into()),
    }
}

/// A plain enum as its wire name.
pub(crate) fn name_of<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        Ok(_) => Err(rusqlite::Error::ToSqlConversionFailure("not a plain name".into())),
        Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(error.into())),
    }
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn unreadable(column: usize, error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

pub(crate) fn from_name<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    serde_json::from_value(serde_json::Value::String(name)).map_err(|error| unreadable(column, error))
}

pub(crate) fn optional_name<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => from_name(row, column).map(Some),
    }
}

pub(crate) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| unreadable(column, error))
}

pub(crate) fn time_column(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(unsigned)
}

pub(crate) fn optional_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(unsigned))
}
