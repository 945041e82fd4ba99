//! Changes of triggers: active listeners, messages that started a run, and read positions of streams.

use ports::runs::{Change, CommitError};
use rusqlite::{Connection, params};

use super::writer::Refused;

/// Applies a change of these tables.
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
