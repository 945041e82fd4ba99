//! One commit in a transaction of its own: for rare changes, and for commits that a batch cannot express.

use flow::id::RunId;
use flow::run::RunStatus;
use ports::runs::{Change, Commit, CommitError};

use crate::batch::Name;
use crate::chain;
use crate::connection::Connection;
use crate::error::Failure;
use crate::row::{self, SHORT_SNAPSHOT, at_most, ended, is_driven, number};
use crate::unit::Creation;

/// How many abandoned deliveries are kept per subscription, the newest: more would fill the disk without being read.
const MAX_ABANDONED: i64 = 1000;

/// Why a commit was not made.
#[derive(Debug)]
pub(crate) enum Stop {
    Refused(CommitError),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<CommitError> for Stop {
    fn from(error: CommitError) -> Self {
        Self::Refused(error)
    }
}

/// Makes a commit.
pub(crate) async fn write(connection: &Connection, name: Name<'_>, commit: &Commit) -> Result<(), Stop> {
    connection.run("begin").await?;
    match inside(connection, name, commit).await {
        Ok(()) => Ok(connection.run("commit").await?),
        Err(stop) => {
            // If the rollback fails, the connection is closed, which has the same effect.
            let _ = connection.run("rollback").await;
            Err(stop)
        }
    }
}

async fn inside(connection: &Connection, name: Name<'_>, commit: &Commit) -> Result<(), Stop> {
    let fence = "select 1 from hosts where host_id = $1 for key share";
    if connection.first(fence, &[&name.host_id]).await?.is_none() {
        return Err(Failure::Fenced.into());
    }
    let sql = "insert into batches (host_id, number) values ($1, $2)";
    connection.execute(sql, &[&name.host_id, &name.number]).await?;
    for (position, change) in (0_i64..).zip(&commit.changes) {
        let name = Name { place: name.place.saturating_add(position), ..name };
        apply(connection, name, change).await?;
    }
    Ok(())
}

async fn apply(connection: &Connection, name: Name<'_>, change: &Change) -> Result<(), Stop> {
    match change {
        Change::CreateRun { run_id, exclusive, .. } => {
            let Some(creation) = Creation::of(change) else { return Ok(()) };
            create(connection, name, run_id, &creation, *exclusive).await
        }
        Change::Append { run_id, first, last, events, status, snapshot, at } => {
            let is_short = snapshot.len() <= SHORT_SNAPSHOT;
            let (head, beside) = if is_short { (Some(&**snapshot), None) } else { (None, Some(&**snapshot)) };
            let updated = match last.checked_add(1).filter(|_| first <= last) {
                None => 0,
                Some(next) => {
                    let sql = "update runs set status = $3, ended = $4, next_sequence = $5, driver = $6, updated_at = $7, snapshot = $8
                               where run_id = $1 and next_sequence = $2";
                    let driver = is_driven(*status).then_some(name.host_id);
                    connection
                        .execute(
                            sql,
                            &[
                                &run_id.as_str(),
                                &number(*first),
                                &status.as_str(),
                                &ended(*status),
                                &number(next),
                                &driver,
                                &number(at.0),
                                &head,
                            ],
                        )
                        .await?
                }
            };
            if updated == 0 {
                return Err(CommitError::Moved { run_id: run_id.clone() }.into());
            }
            let sql =
                "insert into appends (run_id, first, last, events, snapshot) values ($1, $2, $3, $4, $5)";
            connection
                .execute(sql, &[&run_id.as_str(), &number(*first), &number(*last), &&**events, &beside])
                .await?;
            Ok(())
        }
        Change::SetRunCheckpoint { run_id, checkpoint: Some(state) } => {
            let sql = "insert into folds (run_id, state) select run_id, $2::bytea from runs where run_id = $1
                       on conflict (run_id) do update set state = excluded.state";
            connection.execute(sql, &[&run_id.as_str(), &&**state]).await?;
            Ok(())
        }
        Change::SetRunCheckpoint { run_id, checkpoint: None } => {
            connection.execute("delete from folds where run_id = $1", &[&run_id.as_str()]).await?;
            Ok(())
        }
        Change::PutDefinition { tenant, workflow_id, digest, document, at } => {
            let digest = &digest.as_bytes()[..];
            let sql = "insert into definitions (digest, document) values ($1, $2) on conflict do nothing";
            connection.execute(sql, &[&digest, &&**document]).await?;
            let sql = "insert into workflows as w (tenant, workflow_id, digest, registered_at) values ($1, $2, $3, $4)
                       on conflict (tenant, workflow_id) do update
                       set digest = excluded.digest, registered_at = excluded.registered_at
                       where w.digest <> excluded.digest";
            let changed = connection
                .execute(sql, &[&tenant.as_str(), &workflow_id.as_str(), &digest, &number(at.0)])
                .await?;
            if changed > 0 {
                let sql = "insert into tenant_meta as m (tenant, definitions_version) values ($1, 1)
                           on conflict (tenant) do update set definitions_version = m.definitions_version + 1";
                connection.execute(sql, &[&tenant.as_str()]).await?;
            }
            Ok(())
        }
        Change::SetTimer { run_id, key, at } => {
            let sql = "insert into timers (run_id, key, at) values ($1, $2, $3)
                       on conflict (run_id, key) do update set at = excluded.at";
            connection.execute(sql, &[&run_id.as_str(), key, &number(at.0)]).await?;
            Ok(())
        }
        Change::ClearTimer { run_id, key } => {
            connection
                .execute("delete from timers where run_id = $1 and key = $2", &[&run_id.as_str(), key])
                .await?;
            Ok(())
        }
        Change::RecordReply { key, reply } => {
            let sql = "insert into replies (tenant, endpoint, key, request, status, body, at)
                       values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing";
            let values: [crate::connection::Value<'_>; 7] = [
                &key.tenant.as_str(),
                &key.endpoint,
                &&key.key.as_bytes()[..],
                &&reply.request.as_bytes()[..],
                &i32::from(reply.status),
                &&*reply.body,
                &number(reply.at.0),
            ];
            expect_row(connection.execute(sql, &values).await?, CommitError::KeyTaken)
        }
        Change::ClaimEffect { id, run_id, at, reached } => {
            let sql = "insert into activities (id, run_id, at, host_id, attempt, node_id, provider_key)
                 values ($1, $2, $3, $4, 1, $5, $6) on conflict do nothing";
            let node_id = reached.as_ref().map(|reached| reached.node_id.as_str());
            let provider_key = reached.as_ref().and_then(|reached| reached.provider_key.as_deref());
            let values: [crate::connection::Value<'_>; 6] =
                [&id.as_str(), &run_id.as_str(), &number(at.0), &name.host_id, &node_id, &provider_key];
            expect_row(connection.execute(sql, &values).await?, CommitError::EffectClaimed)
        }
        Change::RetryEffect { id, attempt, at } => {
            let sql = "insert into activities (id, run_id, at, host_id, attempt, node_id, provider_key)
                 select id, run_id, $3, $4, $2, node_id, provider_key from activities
                 where id = $1 and attempt = $2 - 1 and outcome is null on conflict do nothing";
            let attempt = i32::try_from(*attempt).unwrap_or(i32::MAX);
            let claimed =
                connection.execute(sql, &[&id.as_str(), &attempt, &number(at.0), &name.host_id]).await?;
            expect_row(claimed, CommitError::EffectClaimed)
        }
        Change::ReleaseEffect { id } => {
            let sql = "update activities set released = true where id = $1 and outcome is null
                       and attempt = (select max(attempt) from activities where id = $1)";
            connection.execute(sql, &[&id.as_str()]).await?;
            Ok(())
        }
        Change::FinishEffect { id, outcome } => {
            let sql = "update activities set outcome = $2 where id = $1 and outcome is null
                       and attempt = (select max(attempt) from activities where id = $1)";
            connection.execute(sql, &[&id.as_str(), &&**outcome]).await?;
            Ok(())
        }
        Change::PutArtifact { run_id, artifact_id, document } => {
            let sql = "insert into artifacts (run_id, artifact_id, document) values ($1, $2, $3)
                       on conflict (run_id, artifact_id) do update set document = excluded.document";
            connection.execute(sql, &[&run_id.as_str(), &artifact_id.as_str(), &&**document]).await?;
            Ok(())
        }
        Change::ReplaceArtifact { run_id, artifact_id, seen, document } => {
            let sql = "update artifacts set document = $3
                       where run_id = $1 and artifact_id = $2 and sha256(document) = $4";
            let replaced = connection
                .execute(sql, &[&run_id.as_str(), &artifact_id.as_str(), &&**document, &&seen.as_bytes()[..]])
                .await?;
            expect_row(replaced, CommitError::ArtifactChanged)
        }
        Change::PutAnnotation { run_id, annotation_id, document } => {
            let sql =
                "insert into annotations (annotation_id, run_id, place, document) values ($1, $2, $3, $4)";
            connection.execute(sql, &[annotation_id, &run_id.as_str(), &name.place, &&**document]).await?;
            Ok(())
        }
        Change::PutWebhook { tenant, webhook_id, document } => {
            let sql = "insert into webhooks (webhook_id, tenant, document) values ($1, $2, $3)
                       on conflict (webhook_id) do update set tenant = excluded.tenant, document = excluded.document";
            connection.execute(sql, &[&webhook_id.as_str(), &tenant.as_str(), &&**document]).await?;
            webhooks_changed(connection, tenant.as_str()).await
        }
        Change::DeleteWebhook { tenant, webhook_id } => {
            let sql = "delete from webhooks where webhook_id = $1 and tenant = $2";
            let deleted = connection.execute(sql, &[&webhook_id.as_str(), &tenant.as_str()]).await?;
            expect_row(deleted, CommitError::NoSuchWebhook)?;
            for sql in [
                "delete from deliveries where webhook_id = $1",
                "delete from abandoned_deliveries where webhook_id = $1",
            ] {
                connection.execute(sql, &[&webhook_id.as_str()]).await?;
            }
            webhooks_changed(connection, tenant.as_str()).await
        }
        Change::PutDelivery { delivery_id, webhook_id, due, attempts, body } => {
            let sql = "insert into deliveries (delivery_id, webhook_id, due, attempts, place, body)
                       values ($1, $2, $3, $4, $5, $6) on conflict (delivery_id) do update
                       set webhook_id = excluded.webhook_id, due = excluded.due, attempts = excluded.attempts, body = excluded.body";
            let (due, attempts) = (number(due.0), i64::from(*attempts));
            connection
                .execute(sql, &[delivery_id, &webhook_id.as_str(), &due, &attempts, &name.place, &&**body])
                .await?;
            Ok(())
        }
        Change::DeleteDelivery { delivery_id } => {
            connection.execute("delete from deliveries where delivery_id = $1", &[delivery_id]).await?;
            Ok(())
        }
        Change::AbandonDelivery { delivery_id, reason, at } => {
            let sql = "insert into abandoned_deliveries (webhook_id, place, delivery_id, abandoned_at, attempts, body, reason)
                       select webhook_id, $2, delivery_id, $3, attempts, body, $4 from deliveries where delivery_id = $1
                       returning webhook_id";
            let abandoned = connection.first(sql, &[delivery_id, &name.place, &number(at.0), reason]).await?;
            let Some(abandoned) = abandoned else { return Ok(()) };
            let webhook_id = row::text(&abandoned, 0, str::to_owned)?;
            connection.execute("delete from deliveries where delivery_id = $1", &[delivery_id]).await?;
            let sql = "delete from abandoned_deliveries where webhook_id = $1 and place <=
                       (select place from abandoned_deliveries where webhook_id = $1 order by place desc offset $2 limit 1)";
            connection.execute(sql, &[&webhook_id, &MAX_ABANDONED]).await?;
            Ok(())
        }
        Change::RequeueDelivery { delivery_id, due } => {
            let sql = "insert into deliveries (delivery_id, webhook_id, due, attempts, place, body)
                       select delivery_id, webhook_id, $2, 0, $3, body from abandoned_deliveries where delivery_id = $1
                       order by place desc limit 1
                       on conflict (delivery_id) do update set due = excluded.due, attempts = excluded.attempts";
            connection.execute(sql, &[delivery_id, &number(due.0), &name.place]).await?;
            let sql = "delete from abandoned_deliveries where delivery_id = $1";
            connection.execute(sql, &[delivery_id]).await?;
            Ok(())
        }
        Change::Audit { tenant, entry } => {
            let end = chain::read(connection, tenant).await?;
            let sequence = end.last.map_or(0, |last| last.saturating_add(1));
            let sql = "insert into audit (tenant, sequence, previous, entry) values ($1, $2, $3, $4)";
            let previous = &end.link.as_bytes()[..];
            connection.execute(sql, &[&tenant.as_str(), &number(sequence), &previous, &&**entry]).await?;
            Ok(())
        }
        Change::PutAuditCheckpoint { tenant, at_sequence, document } => {
            let sql = "insert into audit_checkpoints (tenant, at_sequence, document) values ($1, $2, $3)
                       on conflict do nothing";
            connection.execute(sql, &[&tenant.as_str(), &number(*at_sequence), &&**document]).await?;
            Ok(())
        }
        Change::DeleteRun { run_id } => delete_run(connection, run_id).await,
        Change::DeleteReplies { before, limit } => {
            let sql = "delete from replies r using (
                           select tenant, endpoint, key from replies where at < $1 order by at, tenant, endpoint, key limit $2
                       ) old where r.tenant = old.tenant and r.endpoint = old.endpoint and r.key = old.key";
            connection.execute(sql, &[&number(before.0), &at_most(*limit)]).await?;
            Ok(())
        }
        Change::SetListening { tenant, workflow_id, is_listening } => {
            let sql = if *is_listening {
                "insert into listeners (tenant, workflow_id) values ($1, $2) on conflict do nothing"
            } else {
                "delete from listeners where tenant = $1 and workflow_id = $2"
            };
            connection.execute(sql, &[&tenant.as_str(), &workflow_id.as_str()]).await?;
            Ok(())
        }
        Change::ClaimMessage { tenant, message_id, run_id } => {
            let sql = "insert into claimed_messages (tenant, message_id, run_id) values ($1, $2, $3)
                       on conflict do nothing";
            let claimed = connection.execute(sql, &[&tenant.as_str(), message_id, &run_id.as_str()]).await?;
            expect_row(claimed, CommitError::MessageClaimed)
        }
        Change::ForgetMessage { tenant, message_id } => {
            let sql = "delete from claimed_messages where tenant = $1 and message_id = $2";
            connection.execute(sql, &[&tenant.as_str(), message_id]).await?;
            Ok(())
        }
        Change::MoveListener { tenant, workflow_id, consumer, from, to } => {
            let (tenant, workflow_id) = (tenant.as_str(), workflow_id.as_str());
            let moved = match from {
                None => {
                    let sql = "insert into listener_positions (tenant, workflow_id, consumer, position)
                               values ($1, $2, $3, $4) on conflict do nothing";
                    connection.execute(sql, &[&tenant, &workflow_id, consumer, to]).await?
                }
                Some(from) => {
                    let sql = "update listener_positions set position = $4
                               where tenant = $1 and workflow_id = $2 and consumer = $3 and position = $5";
                    connection.execute(sql, &[&tenant, &workflow_id, consumer, to, from]).await?
                }
            };
            expect_row(moved, CommitError::ListenerMoved)
        }
        Change::PutApiKey { hash, document } => {
            let sql = "insert into api_keys (hash, document) values ($1, $2)
                       on conflict (hash) do update set document = excluded.document";
            connection.execute(sql, &[&&hash.as_bytes()[..], &&**document]).await?;
            Ok(())
        }
    }
}

fn expect_row(rows: u64, refusal: CommitError) -> Result<(), Stop> {
    if rows == 0 { Err(refusal.into()) } else { Ok(()) }
}

async fn create(
    connection: &Connection,
    name: Name<'_>,
    run_id: &RunId,
    creation: &Creation<'_>,
    exclusive: bool,
) -> Result<(), Stop> {
    let tenant = creation.tenant.as_str();
    if let Some(scope_id) = creation.scope_id.filter(|_| exclusive) {
        // Creations in a scope follow one another: the next statement sees what the previous holder of the lock committed.
        let sql = "insert into tenant_meta (tenant) values ($1) on conflict do nothing";
        connection.execute(sql, &[&tenant]).await?;
        let sql = "select 1 from tenant_meta where tenant = $1 for update";
        connection.execute(sql, &[&tenant]).await?;
        let sql = "select run_id from runs where tenant = $1 and scope_id = $2 and ended is null
                   order by run_id limit 1";
        if let Some(active) = connection.first(sql, &[&tenant, &scope_id]).await? {
            let active_run_id = row::text(&active, 0, RunId::new)?;
            return Err(CommitError::ScopeActive { active_run_id }.into());
        }
    }
    let sql = "insert into runs (run_id, tenant, workflow_id, status, next_sequence, driver, scope_id, parent_run_id,
                   created_at, updated_at, snapshot)
               values ($1, $2, $3, $4, 0, $5, $6, $7, $8, $8, $9) on conflict do nothing";
    let empty: &[u8] = &[];
    let values: [crate::connection::Value<'_>; 9] = [
        &run_id.as_str(),
        &tenant,
        &creation.workflow_id.as_str(),
        &RunStatus::Pending.as_str(),
        &name.host_id,
        &creation.scope_id,
        &creation.parent_run_id,
        &number(creation.created_at.0),
        &empty,
    ];
    let created = connection.execute(sql, &values).await?;
    expect_row(created, CommitError::RunExists { run_id: run_id.clone() })?;
    let sql = "insert into births (run_id, genesis) values ($1, $2)";
    connection.execute(sql, &[&run_id.as_str(), &creation.genesis]).await?;
    let sql = "insert into tags (tenant, tag, run_id) values ($1, $2, $3) on conflict do nothing";
    for tag in creation.tags {
        connection.execute(sql, &[&tenant, tag, &run_id.as_str()]).await?;
    }
    Ok(())
}

async fn webhooks_changed(connection: &Connection, tenant: &str) -> Result<(), Stop> {
    let sql = "insert into tenant_meta as m (tenant, webhooks_version) values ($1, 1)
               on conflict (tenant) do update set webhooks_version = m.webhooks_version + 1";
    connection.execute(sql, &[&tenant]).await?;
    Ok(())
}

/// Deletes a run that has ended, with everything that belongs to it.
async fn delete_run(connection: &Connection, run_id: &RunId) -> Result<(), Stop> {
    let sql = "delete from runs where run_id = $1 and ended is not null";
    if connection.execute(sql, &[&run_id.as_str()]).await? == 0 {
        return Ok(());
    }
    for sql in [
        "delete from births where run_id = $1",
        "delete from tags where run_id = $1",
        "delete from appends where run_id = $1",
        "delete from folds where run_id = $1",
        "delete from timers where run_id = $1",
        "delete from activities where run_id = $1",
        "delete from artifacts where run_id = $1",
        "delete from annotations where run_id = $1",
    ] {
        connection.execute(sql, &[&run_id.as_str()]).await?;
    }
    Ok(())
}
