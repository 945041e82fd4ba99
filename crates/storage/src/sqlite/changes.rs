//! Applies changes to the tables.

use flow::id::{RunId, Tenant};
use flow::run::RunStatus;
use ports::runs::{Bytes, Change, Commit, CommitError};
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};

use super::audit::Tentative;
use super::listening;
use super::query::id;
use super::reads::artifacts::artifact;
use super::reads::replies::{key_hash, reply_at};
use super::retention;
use super::seen::SeenKeys;
use super::writer::Refused;

/// The maximum number of abandoned deliveries that are kept per subscription. The oldest are deleted first.
const MAX_ABANDONED: i64 = 1000;

/// Both statements are executed for nearly every commit. They must not need a temporary b-tree, because opening one costs
/// as much as writing the row.
const INSERT_RUN: &str =
    "INSERT INTO runs (run_id, tenant, workflow_id, status, open, next_sequence, scope_id, parent_run_id,
         created_at, updated_at, genesis, snapshot)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
     ON CONFLICT (run_id) DO NOTHING";
const UPDATE_RUN: &str = "UPDATE runs SET status = ?2, open = ?3, next_sequence = ?4, updated_at = ?5, snapshot = ?6 WHERE place = ?1";

pub(super) fn apply(
    connection: &Connection,
    chains: &mut Tentative<'_>,
    seen: &SeenKeys,
    commit: &Commit,
) -> Result<(), Refused> {
    let mut born: Vec<Born<'_>> = Vec::new();
    for (at, change) in commit.changes.iter().enumerate() {
        match change {
            Change::CreateRun { .. } => born.extend(create(connection, &commit.changes[at..])?),
            Change::Append { run_id, first, last, events, .. } => {
                match born.iter().position(|born| born.run == run_id) {
                    // Its row already has the state after these events.
                    Some(found) => {
                        append(connection, born.swap_remove(found).place, *first, *last, events)?;
                    }
                    None => advance(connection, change)?,
                }
            }
            _ => one(connection, chains, seen, change)?,
        }
    }
    Ok(())
}

/// A run whose row was written in its state after its first events, which follow in the same commit. Most runs are
/// created and advanced in one commit, and writing the row twice would cost as much as everything else.
struct Born<'c> {
    run: &'c RunId,
    place: i64,
}

fn run(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(values)
}

/// Creates the run of the first change, in the state after its first append if the commit has one.
fn create<'c>(connection: &Connection, changes: &'c [Change]) -> Result<Option<Born<'c>>, Refused> {
    let Some(Change::CreateRun {
        run_id,
        tenant,
        workflow_id,
        genesis,
        scope_id,
        exclusive,
        parent_run_id,
        tags,
        created_at,
    }) = changes.first()
    else {
        return Ok(None);
    };
    if *exclusive {
        refuse_active(connection, tenant, scope_id.as_deref())?;
    }
    let begun = changes.iter().find_map(|change| match change {
        Change::Append { run_id: of, first: 0, last, status, snapshot, at, .. } if of == run_id => {
            Some((last + 1, *status, &**snapshot, *at))
        }
        _ => None,
    });
    let (next, status, snapshot, at) = begun.unwrap_or((0, RunStatus::Pending, &[], *created_at));
    let inserted = run(
        connection,
        INSERT_RUN,
        &[
            &run_id.as_str(),
            &tenant.as_str(),
            &workflow_id.as_str(),
            &status.as_str(),
            &!status.is_terminal(),
            &next,
            scope_id,
            &parent_run_id.as_ref().map(RunId::as_str),
            &created_at.0,
            &at.0,
            &&**genesis,
            &snapshot,
        ],
    )?;
    if inserted == 0 {
        return Err(CommitError::RunExists { run_id: run_id.clone() }.into());
    }
    let place = connection.last_insert_rowid();
    if status.is_waiting() {
        wait(connection, place)?;
    }
    for tag in tags {
        run(
            connection,
            "INSERT OR IGNORE INTO tags (tenant, tag, run) VALUES (?1, ?2, ?3)",
            &[&tenant.as_str(), tag, &place],
        )?;
    }
    Ok(begun.map(|_| Born { run: run_id, place }))
}

fn append(
    connection: &Connection,
    place: i64,
    first: u64,
    last: u64,
    events: &Bytes,
) -> rusqlite::Result<usize> {
    run(
        connection,
        "INSERT INTO appends (run, first, last, events) VALUES (?1, ?2, ?3, ?4)",
        &[&place, &first, &last, &&**events],
    )
}

/// Appends to an existing run.
fn advance(connection: &Connection, change: &Change) -> Result<(), Refused> {
    let Change::Append { run_id, first, last, events, status, snapshot, at } = change else { return Ok(()) };
    let mut find =
        connection.prepare_cached("SELECT place, next_sequence, status FROM runs WHERE run_id = ?1")?;
    let found = find
        .query_row([run_id.as_str()], |row| {
            let before = RunStatus::parse(row.get_ref(2)?.as_str()?);
            Ok((row.get::<_, i64>(0)?, row.get::<_, u64>(1)?, before.is_some_and(RunStatus::is_waiting)))
        })
        .optional()?;
    let Some((place, _, was_waiting)) = found.filter(|(_, next, _)| next == first && first <= last) else {
        return Err(CommitError::Moved { run_id: run_id.clone() }.into());
    };
    append(connection, place, *first, *last, events)?;
    run(
        connection,
        UPDATE_RUN,
        &[&place, &status.as_str(), &!status.is_terminal(), &(last + 1), &at.0, &&**snapshot],
    )?;
    match (was_waiting, status.is_waiting()) {
        (false, true) => wait(connection, place)?,
        (true, false) => {
            run(
                connection,
                "DELETE FROM waiting_runs WHERE tenant = (SELECT tenant FROM runs WHERE place = ?1) AND place = ?1",
                &[&place],
            )?;
        }
        (true, true) | (false, false) => {}
    }
    Ok(())
}

/// Adds a run to the list of runs that wait for a person or a client.
fn wait(connection: &Connection, place: i64) -> rusqlite::Result<()> {
    run(
        connection,
        "INSERT INTO waiting_runs (tenant, place) SELECT tenant, place FROM runs WHERE place = ?1",
        &[&place],
    )?;
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "one arm per change, each a statement or two")]
fn one(
    connection: &Connection,
    chains: &mut Tentative<'_>,
    seen: &SeenKeys,
    change: &Change,
) -> Result<(), Refused> {
    let run = |sql: &str, values: &[&dyn ToSql]| run(connection, sql, values);
    match change {
        Change::CreateRun { .. } | Change::Append { .. } => {}
        Change::PutDefinition { tenant, workflow_id, digest, document, at } => {
            let digest = digest.to_hex();
            run(
                "INSERT OR IGNORE INTO definitions (digest, document) VALUES (?1, ?2)",
                &[&digest.as_bytes(), &&**document],
            )?;
            run(
                "INSERT INTO workflows (tenant, workflow_id, digest, registered_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (tenant, workflow_id) DO UPDATE SET digest = excluded.digest, registered_at = ?4
                 WHERE digest <> excluded.digest",
                &[&tenant.as_str(), &workflow_id.as_str(), &digest.as_bytes(), &at.0],
            )?;
        }
        Change::SetTimer { run_id, key, at } => {
            run(
                "INSERT INTO timers (run_id, key, at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (run_id, key) DO UPDATE SET at = excluded.at",
                &[&run_id.as_str(), key, &at.0],
            )?;
        }
        Change::ClearTimer { run_id, key } => {
            run("DELETE FROM timers WHERE run_id = ?1 AND key = ?2", &[&run_id.as_str(), key])?;
        }
        Change::RecordReply { key, reply } => {
            let hash = key_hash(key);
            let was_noted = seen.maybe(hash);
            // Before the commit, so that no reader misses the key. Recording a key of a refused commit is harmless.
            seen.note(hash);
            if was_noted && reply_at(connection, hash, key)?.is_some() {
                return Err(CommitError::KeyTaken.into());
            }
            run(
                "INSERT INTO answers (tenant, endpoint, key, request, status, body, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                &[
                    &key.tenant.as_str(),
                    &key.endpoint,
                    &key.key.to_hex().as_bytes(),
                    &reply.request.to_hex().as_bytes(),
                    &reply.status,
                    &&*reply.body,
                    &reply.at.0,
                ],
            )?;
            let place = connection.last_insert_rowid();
            run(
                "INSERT INTO answer_keys (stretch, hash, place) VALUES (?2 >> 16, ?1, ?2)",
                &[&hash, &place],
            )?;
        }
        Change::ClaimEffect { id, run_id, at, reached } => {
            let node_id = reached.as_ref().map(|reached| reached.node_id.as_str());
            let provider_key = reached.as_ref().and_then(|reached| reached.provider_key.as_deref());
            let claimed = run(
                "INSERT INTO activities (id, attempt, run_id, at, node_id, provider_key)
                 VALUES (?1, 1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
                &[&id.as_str(), &run_id.as_str(), &at.0, &node_id, &provider_key],
            )?;
            if claimed == 0 {
                return Err(CommitError::EffectClaimed.into());
            }
        }
        Change::RetryEffect { id, attempt, at } => {
            let claimed = run(
                "INSERT INTO activities (id, attempt, run_id, at, node_id, provider_key)
                 SELECT id, ?2, run_id, ?3, node_id, provider_key FROM activities
                 WHERE id = ?1 AND attempt = ?2 - 1 AND outcome IS NULL ON CONFLICT DO NOTHING",
                &[&id.as_str(), attempt, &at.0],
            )?;
            if claimed == 0 {
                return Err(CommitError::EffectClaimed.into());
            }
        }
        Change::ReleaseEffect { id } => {
            run(
                "UPDATE activities SET released = 1 WHERE id = ?1 AND outcome IS NULL
                 AND attempt = (SELECT max(attempt) FROM activities WHERE id = ?1)",
                &[&id.as_str()],
            )?;
        }
        Change::FinishEffect { id, outcome } => {
            run(
                "UPDATE activities SET outcome = ?2 WHERE id = ?1 AND outcome IS NULL
                 AND attempt = (SELECT max(attempt) FROM activities WHERE id = ?1)",
                &[&id.as_str(), &&**outcome],
            )?;
        }
        Change::PutArtifact { run_id, artifact_id, document } => {
            run(
                "INSERT OR REPLACE INTO artifacts (run_id, artifact_id, document) VALUES (?1, ?2, ?3)",
                &[&run_id.as_str(), &artifact_id.as_str(), &&**document],
            )?;
        }
        Change::ReplaceArtifact { run_id, artifact_id, seen, document } => {
            // There is one writer, so nothing changes between the check and the update.
            let there = artifact(connection, run_id, artifact_id)?;
            if there.is_none_or(|there| canon::digest::Digest::of_bytes(&there) != *seen) {
                return Err(CommitError::ArtifactChanged.into());
            }
            run(
                "UPDATE artifacts SET document = ?3 WHERE run_id = ?1 AND artifact_id = ?2",
                &[&run_id.as_str(), &artifact_id.as_str(), &&**document],
            )?;
        }
        Change::PutAnnotation { run_id, annotation_id, document } => {
            run(
                "INSERT INTO annotations (run_id, annotation_id, document) VALUES (?1, ?2, ?3)",
                &[&run_id.as_str(), annotation_id, &&**document],
            )?;
        }
        Change::PutWebhook { tenant, webhook_id, document } => {
            run(
                "INSERT OR REPLACE INTO webhooks (tenant, webhook_id, document) VALUES (?1, ?2, ?3)",
                &[&tenant.as_str(), &webhook_id.as_str(), &&**document],
            )?;
        }
        Change::DeleteWebhook { tenant, webhook_id } => {
            if run(
                "DELETE FROM webhooks WHERE tenant = ?1 AND webhook_id = ?2",
                &[&tenant.as_str(), &webhook_id.as_str()],
            )? == 0
            {
                return Err(CommitError::NoSuchWebhook.into());
            }
            run("DELETE FROM deliveries WHERE webhook_id = ?1", &[&webhook_id.as_str()])?;
            run("DELETE FROM buried_deliveries WHERE webhook_id = ?1", &[&webhook_id.as_str()])?;
        }
        Change::PutDelivery { delivery_id, webhook_id, due, attempts, body } => {
            run(
                "INSERT OR REPLACE INTO deliveries (delivery_id, webhook_id, due, attempts, body)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                &[delivery_id, &webhook_id.as_str(), &due.0, attempts, &&**body],
            )?;
        }
        Change::DeleteDelivery { delivery_id } => {
            run("DELETE FROM deliveries WHERE delivery_id = ?1", &[delivery_id])?;
        }
        Change::AbandonDelivery { delivery_id, reason, at } => {
            run(
                "INSERT INTO buried_deliveries (delivery_id, webhook_id, buried_at, attempts, body, reason)
                 SELECT delivery_id, webhook_id, ?2, attempts, body, ?3 FROM deliveries WHERE delivery_id = ?1",
                &[delivery_id, &at.0, reason],
            )?;
            run("DELETE FROM deliveries WHERE delivery_id = ?1", &[delivery_id])?;
            run(
                "DELETE FROM buried_deliveries WHERE place <= (SELECT place FROM buried_deliveries WHERE webhook_id =
                     (SELECT webhook_id FROM buried_deliveries ORDER BY place DESC LIMIT 1)
                     ORDER BY place DESC LIMIT 1 OFFSET ?1)
                 AND webhook_id = (SELECT webhook_id FROM buried_deliveries ORDER BY place DESC LIMIT 1)",
                &[&MAX_ABANDONED],
            )?;
        }
        Change::RequeueDelivery { delivery_id, due } => {
            run(
                "INSERT OR REPLACE INTO deliveries (delivery_id, webhook_id, due, attempts, body)
                 SELECT delivery_id, webhook_id, ?2, 0, body FROM buried_deliveries WHERE delivery_id = ?1
                 ORDER BY place DESC LIMIT 1",
                &[delivery_id, &due.0],
            )?;
            run("DELETE FROM buried_deliveries WHERE delivery_id = ?1", &[delivery_id])?;
        }
        Change::SetRunCheckpoint { run_id, checkpoint: Some(checkpoint) } => {
            run(
                "INSERT OR REPLACE INTO run_checkpoints (run, checkpoint) SELECT place, ?2 FROM runs WHERE run_id = ?1",
                &[&run_id.as_str(), &&**checkpoint],
            )?;
        }
        Change::SetRunCheckpoint { run_id, checkpoint: None } => {
            run(
                "DELETE FROM run_checkpoints WHERE run = (SELECT place FROM runs WHERE run_id = ?1)",
                &[&run_id.as_str()],
            )?;
        }
        Change::PutAuditCheckpoint { tenant, at_sequence, document } => {
            run(
                "INSERT OR IGNORE INTO checkpoints (tenant, at_sequence, document) VALUES (?1, ?2, ?3)",
                &[&tenant.as_str(), at_sequence, &&**document],
            )?;
        }
        Change::Audit { tenant, entry } => chains.append(connection, tenant, entry)?,
        Change::SetListening { .. }
        | Change::ClaimMessage { .. }
        | Change::ForgetMessage { .. }
        | Change::MoveListener { .. } => listening::apply(connection, change)?,
        Change::DeleteRun { run_id } => retention::delete_run(connection, run_id)?,
        Change::DeleteReplies { before, limit } => retention::delete_replies(connection, *before, *limit)?,
        Change::PutApiKey { hash, document } => {
            run(
                "INSERT OR REPLACE INTO api_keys (hash, document) VALUES (?1, ?2)",
                &[&hash.to_hex().as_bytes(), &&**document],
            )?;
        }
    }
    Ok(())
}

/// Refuses the commit if a run of the scope is active.
fn refuse_active(connection: &Connection, tenant: &Tenant, scope_id: Option<&str>) -> Result<(), Refused> {
    let Some(scope_id) = scope_id else { return Ok(()) };
    let mut statement = connection.prepare_cached(
        "SELECT run_id FROM runs WHERE open = 1 AND scope_id IS NOT NULL AND tenant = ?1 AND scope_id = ?2 LIMIT 1",
    )?;
    match statement.query_row(params![tenant.as_str(), scope_id], |row| id(row, 0, RunId::new)).optional()? {
        Some(active_run_id) => Err(CommitError::ScopeActive { active_run_id }.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partial index with a list in its condition makes SQLite open a temporary b-tree for every row.
    #[test]
    fn runs_are_written_without_temporary_tables() {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::migrate(&mut connection).unwrap();
        for sql in [INSERT_RUN, UPDATE_RUN] {
            let mut statement = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
            let operations = statement.raw_query().mapped(|row| row.get::<_, String>(1));
            let operations: Vec<String> = operations.collect::<rusqlite::Result<_>>().unwrap();
            assert!(operations.iter().any(|name| name == "OpenWrite"), "{operations:?}");
            assert!(!operations.iter().any(|name| name.contains("Ephemeral")), "{sql}: {operations:?}");
        }
    }
}
