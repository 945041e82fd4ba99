//! Schema migrations.
//!
//! Migrations are append-only; `PRAGMA user_version` counts the applied ones.

use rusqlite::Connection;

use super::OpenError;

/// The number of applied migrations, if all are known.
///
/// # Errors
/// [`OpenError::Newer`], and SQLite errors.
pub fn check_version(connection: &Connection, known: usize) -> Result<usize, OpenError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let taken = usize::try_from(found).ok().filter(|taken| *taken <= known);
    taken.ok_or_else(|| OpenError::Newer { found, known: i64::try_from(known).unwrap_or(i64::MAX) })
}

/// Applies the missing migrations, each with its number in one transaction.
///
/// # Errors
/// [`OpenError::Newer`], and SQLite errors.
pub fn migrate<'s>(
    connection: &mut Connection,
    steps: impl Iterator<Item = &'s str> + Clone,
) -> Result<(), OpenError> {
    let taken = check_version(connection, steps.clone().count())?;
    for (place, step) in steps.enumerate().skip(taken) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", place + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
