//! What messages start: which workflows listen, which messages started a run, and how far streams were read.

use flow::id::{Tenant, WorkflowId};
use flow::store::{Change, CommitError};
use rusqlite::{Connection, Row, params};

use super::reads::{at_most, id, many, one};
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
            connection.prepare_cached(sql)?.execute(params![tenant.as_str(), workflow_id.as_str()])?;
        }
        Change::ClaimMessage { tenant, message_id, run_id } => {
            let sql = "INSERT INTO claimed_messages (tenant, message_id, run_id) VALUES (?1, ?2, ?3)
                       ON CONFLICT DO NOTHING";
            if connection.prepare_cached(sql)?.execute(params![
                tenant.as_str(),
                message_id,
                run_id.as_str()
            ])? == 0
            {
                return Err(CommitError::MessageClaimed.into());
            }
        }
        Change::ForgetMessage { tenant, message_id } => {
            let sql = "DELETE FROM claimed_messages WHERE tenant = ?1 AND message_id = ?2";
            connection.prepare_cached(sql)?.execute(params![tenant.as_str(), message_id])?;
        }
        Change::MoveListener { tenant, workflow_id, consumer, from, to } => {
            let moved = match from {
                None => connection
                    .prepare_cached(
                        "INSERT INTO listener_places (tenant, workflow_id, consumer, place) VALUES (?1, ?2, ?3, ?4)
                         ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![tenant.as_str(), workflow_id.as_str(), consumer, to])?,
                Some(from) => connection
                    .prepare_cached(
                        "UPDATE listener_places SET place = ?4
                         WHERE tenant = ?1 AND workflow_id = ?2 AND consumer = ?3 AND place = ?5",
                    )?
                    .execute(params![tenant.as_str(), workflow_id.as_str(), consumer, to, from])?,
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
    after: Option<(&Tenant, &WorkflowId)>,
    limit: usize,
) -> rusqlite::Result<Vec<(Tenant, WorkflowId)>> {
    let sql = "SELECT tenant, workflow_id FROM listening WHERE (tenant, workflow_id) > (?1, ?2)
               ORDER BY tenant, workflow_id LIMIT ?3";
    // No name is empty, so all of them come after nothing.
    let (tenant, workflow_id) =
        after.map_or(("", ""), |(tenant, workflow_id)| (tenant.as_str(), workflow_id.as_str()));
    many(connection, sql, &[&tenant, &workflow_id, &at_most(limit)], listed)
}

pub(super) fn workflows_containing(
    connection: &Connection,
    texts: [&str; 2],
    after: Option<(&Tenant, &WorkflowId)>,
    limit: usize,
) -> rusqlite::Result<Vec<(Tenant, WorkflowId)>> {
    // Both sides are blobs, so bytes are compared and no document is decoded.
    let sql = "SELECT tenant, workflow_id FROM workflows JOIN definitions USING (digest)
               WHERE (tenant, workflow_id) > (?1, ?2)
                 AND (instr(document, CAST(?3 AS BLOB)) > 0 OR instr(document, CAST(?4 AS BLOB)) > 0)
               ORDER BY tenant, workflow_id LIMIT ?5";
    let (tenant, workflow_id) =
        after.map_or(("", ""), |(tenant, workflow_id)| (tenant.as_str(), workflow_id.as_str()));
    let [first, second] = texts;
    many(connection, sql, &[&tenant, &workflow_id, &first, &second, &at_most(limit)], listed)
}

fn listed(row: &Row<'_>) -> rusqlite::Result<(Tenant, WorkflowId)> {
    Ok((id(row, 0, Tenant::new)?, id(row, 1, WorkflowId::new)?))
}

pub(super) fn listener_place(
    connection: &Connection,
    tenant: &Tenant,
    workflow_id: &WorkflowId,
    consumer: &str,
) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT place FROM listener_places WHERE tenant = ?1 AND workflow_id = ?2 AND consumer = ?3";
    one(connection, sql, &[&tenant.as_str(), &workflow_id.as_str(), &consumer], |row| row.get(0))
}
