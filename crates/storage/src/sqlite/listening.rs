//! What messages start: which workflows listen, which messages started a run, and how far streams were read.

use flow::store::{Change, CommitError};
use rusqlite::{Connection, params};

use super::reads::{at_most, many, one};
use super::writer::Refused;

/// Carries out a change of these tables, and leaves others alone.
pub(super) fn apply(connection: &Connection, change: &Change) -> Result<(), Refused> {
    match change {
        Change::SetListening { tenant, workflow_id, is_listening } => {
            let sql = if *is_listening {
                "INSERT OR IGNORE INTO listening (tenant, workflow_id) VALUES (?1, ?2)"
            } else {
                "DELETE FROM listening WHERE tenant = ?1 AND workflow_id = ?2"
            };
            connection.prepare_cached(sql)?.execute(params![tenant, workflow_id])?;
        }
        Change::ClaimMessage { tenant, message_id, run_id } => {
            let sql = "INSERT INTO claimed_messages (tenant, message_id, run_id) VALUES (?1, ?2, ?3)
                       ON CONFLICT DO NOTHING";
            if connection.prepare_cached(sql)?.execute(params![tenant, message_id, run_id])? == 0 {
                return Err(CommitError::MessageClaimed.into());
            }
        }
        Change::ForgetMessage { tenant, message_id } => {
            let sql = "DELETE FROM claimed_messages WHERE tenant = ?1 AND message_id = ?2";
            connection.prepare_cached(sql)?.execute(params![tenant, message_id])?;
        }
        Change::MoveListener { tenant, workflow_id, consumer, from, to } => {
            let moved = match from {
                None => connection
                    .prepare_cached(
                        "INSERT INTO listener_places (tenant, workflow_id, consumer, place) VALUES (?1, ?2, ?3, ?4)
                         ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![tenant, workflow_id, consumer, to])?,
                Some(from) => connection
                    .prepare_cached(
                        "UPDATE listener_places SET place = ?4
                         WHERE tenant = ?1 AND workflow_id = ?2 AND consumer = ?3 AND place = ?5",
                    )?
                    .execute(params![tenant, workflow_id, consumer, to, from])?,
            };
            if moved == 0 {
                return Err(CommitError::ListenerMoved.into());
            }
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn listening(
    connection: &Connection,
    after: Option<(&str, &str)>,
    limit: usize,
) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT tenant, workflow_id FROM listening WHERE (tenant, workflow_id) > (?1, ?2)
               ORDER BY tenant, workflow_id LIMIT ?3";
    // No name is empty, so all of them come after nothing.
    let (tenant, workflow_id) = after.unwrap_or_default();
    many(connection, sql, &[&tenant, &workflow_id, &at_most(limit)], |row| Ok((row.get(0)?, row.get(1)?)))
}

pub(super) fn workflows_containing(
    connection: &Connection,
    texts: [&str; 2],
    after: Option<(&str, &str)>,
    limit: usize,
) -> rusqlite::Result<Vec<(String, String)>> {
    // Both sides are blobs, so bytes are compared and no document is decoded.
    let sql = "SELECT tenant, workflow_id FROM workflows JOIN definitions USING (digest)
               WHERE (tenant, workflow_id) > (?1, ?2)
                 AND (instr(document, CAST(?3 AS BLOB)) > 0 OR instr(document, CAST(?4 AS BLOB)) > 0)
               ORDER BY tenant, workflow_id LIMIT ?5";
    let (tenant, workflow_id) = after.unwrap_or_default();
    let [first, second] = texts;
    many(connection, sql, &[&tenant, &workflow_id, &first, &second, &at_most(limit)], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

pub(super) fn listener_place(
    connection: &Connection,
    tenant: &str,
    workflow_id: &str,
    consumer: &str,
) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT place FROM listener_places WHERE tenant = ?1 AND workflow_id = ?2 AND consumer = ?3";
    one(connection, sql, &[&tenant, &workflow_id, &consumer], |row| row.get(0))
}
