//! Numbered migrations, applied in one transaction.

use std::path::Path;

use ringfence_model::{Error, ErrorKind, Result};
use rusqlite::{Connection, TransactionBehavior};

use crate::error::explain;

/// `RFLG`: says in the file's header that it is ours.
const APPLICATION_ID: i32 = 0x5246_4c47;

/// A shipped entry is never edited; a change of the schema is a new entry.
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_initial.sql")];

/// The schema this program knows.
pub(crate) fn latest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the file to the newest schema; refuses a file that is newer still, or not ours.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    migrate_with(connection, path, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<()> {
    let failed = |error| explain(path, "prepare its tables", error);
    // The lock comes first and the version is read under it: another process may be migrating too.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let known = migrations.len();
    let found = version(&transaction).map_err(failed)?;
    let done = match usize::try_from(found) {
        Ok(done) if done <= known => done,
        _ => return Err(newer(path, found, known)),
    };
    if done == 0 {
        refuse_foreign(&transaction, path)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    }
    for (number, sql) in migrations.iter().enumerate().skip(done) {
        transaction.execute_batch(sql).map_err(failed)?;
        let version = i32::try_from(number + 1).unwrap_or(i32::MAX);
        transaction.pragma_update(None, "user_version", version).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

pub(crate) fn newer(path: &Path, found: i32, known: usize) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "the ledger {} has schema {found}, this ringfence knows up to {known}: it was written by a newer version",
            path.display()
        ),
    )
    .hint("upgrade ringfence, or point it to another home")
}

fn refuse_foreign(connection: &Connection, path: &Path) -> Result<()> {
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| explain(path, "read its tables", error))?;
    if tables > 0 {
        let message = format!("{} is a database of another program", path.display());
        return Err(Error::new(ErrorKind::Validation, message).hint("point ringfence to another home"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "/ledger.db";

    fn schema(connection: &Connection) -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name")
            .unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// `schema.sql` is the schema of today in one piece, for reading. It must be what the migrations
    /// add up to; a shipped migration that was edited shows up here.
    #[test]
    fn a_fresh_schema_is_the_sum_of_the_migrations() {
        let mut migrated = Connection::open_in_memory().unwrap();
        migrate(&mut migrated, Path::new(PLACE)).unwrap();
        assert_eq!(version(&migrated).unwrap(), latest());
        let fresh = Connection::open_in_memory().unwrap();
        fresh.execute_batch(include_str!("../migrations/schema.sql")).unwrap();
        assert_eq!(schema(&migrated), schema(&fresh));
    }

    #[test]
    fn an_older_file_is_brought_up_and_keeps_its_rows() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, Path::new(PLACE), &["CREATE TABLE a (x)"]).unwrap();
        connection.execute("INSERT INTO a VALUES (7)", []).unwrap();
        let both = ["CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y DEFAULT 1; CREATE TABLE b (z)"];
        migrate_with(&mut connection, Path::new(PLACE), &both).unwrap();
        assert_eq!(version(&connection).unwrap(), 2);
        let row: (i64, i64) =
            connection.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(row, (7, 1));
    }

    #[test]
    fn a_failing_migration_leaves_nothing_behind() {
        let mut connection = Connection::open_in_memory().unwrap();
        let steps = ["CREATE TABLE a (x)", "CREATE TABLE b (x); NONSENSE"];
        migrate_with(&mut connection, Path::new(PLACE), &steps).unwrap_err();
        assert_eq!(version(&connection).unwrap(), 0);
        assert!(schema(&connection).is_empty());
    }

    #[test]
    fn a_newer_file_is_refused_with_both_versions() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection, Path::new(PLACE)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains("schema 99") && error.message.contains("newer version"), "{error}");
    }

    #[test]
    fn a_database_of_another_program_is_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE bookmarks (url)").unwrap();
        let error = migrate(&mut connection, Path::new(PLACE)).unwrap_err();
        assert!(error.message.contains("another program"), "{error}");
        assert_eq!(schema(&connection), ["CREATE TABLE bookmarks (url)"]);
    }
}
