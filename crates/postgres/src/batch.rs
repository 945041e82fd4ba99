//! Many commits in one statement.
//!
//! ```text
//! with fence    the row of this host, locked so that it cannot be deleted before the commit
//!      rows     the rows of each table, from arrays
//!      refused  the commits that must not be made, with the reason
//!      go       one row, if the fence is there and nothing is refused
//!      writes   from `go` and the rows
//! select refused, and an error if a row changed between the check and the write
//! ```
//!
//! One statement is one round trip, and no lock is held while the client is slow. If a commit is refused, nothing is written and
//! the others are sent again without it. Every table's rows are sorted, so that two batches do not lock rows in opposite order.
//! Only tables that the batch writes are named, so the text depends on which they are; a connection prepares each text once.

use flow::id::RunId;
use ports::runs::{Commit, CommitError};
use tokio_postgres::types::ToSql;

use crate::chain::{Appender, Ends};
use crate::connection::{Connection, Value};
use crate::error::Failure;
use crate::row::{ended, is_driven, number};
use crate::unit::{Origin, Unit};

#[derive(Debug)]
pub(crate) enum BatchOutcome {
    Committed,
    /// Nothing was written, because these commits were refused. If a reason is `None`, execute the commit alone to learn it.
    Refused(Vec<(usize, Option<CommitError>)>),
    /// Nothing was written, because an audit log does not end where this host remembers.
    Stale,
}

/// What identifies a batch.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    pub(crate) host_id: &'a str,
    pub(crate) number: i64,
    /// The position of rows that have no other order: greater than in every earlier batch.
    pub(crate) place: i64,
}

/// Writes commits that [`Unit::of`] accepts. Others are reported as refused without a reason.
pub(crate) async fn write(
    connection: &Connection,
    ends: &Ends,
    name: Name<'_>,
    commits: &[&Commit],
) -> Result<BatchOutcome, Failure> {
    let mut units = Vec::with_capacity(commits.len());
    for (position, commit) in commits.iter().enumerate() {
        match Unit::of(commit) {
            Some(unit) => units.push(unit),
            None => return Ok(BatchOutcome::Refused(vec![(position, None)])),
        }
    }
    let mut audit = Appender::default();
    for (tenant, entry) in units.iter().flat_map(|unit| &unit.audit) {
        audit.append(ends, connection, tenant, entry).await?;
    }
    let statement = Statement::of(name, &units, &audit);
    let values: Vec<Value<'_>> = statement.values.iter().map(|value| &**value as Value<'_>).collect();
    let mut refused: Vec<(usize, Option<CommitError>)> = Vec::new();
    for row in connection.query(&statement.text, &values).await? {
        let (unit, reason): (i32, &str) = (row.try_get(0)?, row.try_get(1)?);
        let run_id = || row.try_get::<_, &str>(2).map(RunId::new);
        let error = match reason {
            "run exists" => CommitError::RunExists { run_id: run_id()? },
            "moved" => CommitError::Moved { run_id: run_id()? },
            "key taken" => CommitError::KeyTaken,
            "claimed" => CommitError::EffectClaimed,
            "chain" => return Ok(BatchOutcome::Stale),
            "fenced" => return Err(Failure::Fenced),
            _ => return Err(Failure::Row),
        };
        let unit = usize::try_from(unit).map_err(|_| Failure::Row)?;
        match refused.iter_mut().find(|(known, _)| *known == unit) {
            // The reason is that of the first change, which the statement does not report.
            Some((_, reason)) => *reason = None,
            None => refused.push((unit, Some(error))),
        }
    }
    if refused.is_empty() {
        ends.keep(audit.ends);
        Ok(BatchOutcome::Committed)
    } else {
        Ok(BatchOutcome::Refused(refused))
    }
}

/// The statement and its values.
pub(crate) struct Statement<'c> {
    pub(crate) text: String,
    values: Vec<Box<dyn ToSql + Sync + Send + 'c>>,
    rows: Vec<String>,
    refused: Vec<&'static str>,
    writes: Vec<&'static str>,
    checks: Vec<&'static str>,
}

impl<'c> Statement<'c> {
    pub(crate) fn of(name: Name<'c>, units: &[Unit<'c>], audit: &Appender<'c>) -> Self {
        let mut statement = Self {
            text: String::new(),
            values: vec![Box::new(name.host_id), Box::new(name.number)],
            rows: Vec::new(),
            refused: Vec::new(),
            writes: vec!["insert into batches (host_id, number) select $1, $2 from go"],
            checks: Vec::new(),
        };
        statement.created(units);
        statement.advanced(units);
        statement.appended(units);
        statement.folded(units);
        statement.timed(units);
        statement.replied(units);
        statement.claimed(units);
        statement.delivered(units, name.place);
        statement.made(units);
        statement.audited(audit);
        statement.finish();
        statement
    }

    fn finish(&mut self) {
        let mut text =
            "with fence as (select 1 as held from hosts where host_id = $1 for key share)".to_owned();
        for rows in &self.rows {
            text.push_str(",\n");
            text.push_str(rows);
        }
        text.push_str(",\nrefused as (select 0 as unit, '' as reason, '' as detail where false");
        for refused in &self.refused {
            text.push_str("\n union all ");
            text.push_str(refused);
        }
        text.push_str("),\ngo as (select 1 as go from fence where not exists (select 1 from refused))");
        for (place, write) in self.writes.iter().enumerate() {
            text.push_str(&format!(",\nwrite_{place} as ({write})"));
        }
        for check in &self.checks {
            text.push_str(",\n");
            text.push_str(check);
        }
        text.push_str(
            "\nselect unit, reason, detail from refused
             union all select -1, 'fenced', '' where not exists (select 1 from fence)",
        );
        if !self.checks.is_empty() {
            // Division by zero is how a statement fails without a server function.
            text.push_str(
                "\nunion all select -1, '', '' from go where 0 = 1 / (case when not exists (select 1 from go) or
                 (select count(*) from moved) = (select count(*) from advanced) then 1 else 0 end)",
            );
        }
        self.text = text;
    }

    /// Names rows that come from arrays, one array per column.
    fn rows(&mut self, name: &str, columns: Vec<Column<'c>>) {
        let (mut arrays, mut names) = (Vec::new(), Vec::new());
        for column in columns {
            self.values.push(column.values);
            arrays.push(format!("${}::{}[]", self.values.len(), column.kind));
            names.push(column.name);
        }
        self.rows.push(format!(
            "{name} as (select * from unnest({}) as t({}))",
            arrays.join(", "),
            names.join(", ")
        ));
    }

    fn created(&mut self, units: &[Unit<'c>]) {
        let mut rows: Vec<_> = Vec::new();
        for (unit, known) in (0_i32..).zip(units) {
            for (run_id, head) in &known.runs {
                if let Origin::Created(creation) = &head.origin {
                    rows.push((run_id.as_str(), unit, head, creation));
                }
            }
        }
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(|(run_id, ..)| *run_id);
        let each = &rows;
        let columns = vec![
            column("unit", "int4", each, |(_, unit, ..)| *unit),
            column("run_id", "text", each, |(run_id, ..)| *run_id),
            column("tenant", "text", each, |(.., creation)| creation.tenant.as_str()),
            column("workflow_id", "text", each, |(.., creation)| creation.workflow_id.as_str()),
            column("status", "text", each, |(_, _, head, _)| head.status.as_str()),
            column("ended", "text", each, |(_, _, head, _)| ended(head.status)),
            column("next_sequence", "int8", each, |(_, _, head, _)| number(head.next_sequence)),
            column("driven", "bool", each, |(_, _, head, _)| is_driven(head.status)),
            column("scope_id", "text", each, |(.., creation)| creation.scope_id),
            column("parent_run_id", "text", each, |(.., creation)| creation.parent_run_id),
            column("created_at", "int8", each, |(.., creation)| number(creation.created_at.0)),
            column("updated_at", "int8", each, |(_, _, head, _)| number(head.updated_at.0)),
            column("snapshot", "bytea", each, |(_, _, head, _)| head.snapshot),
            column("genesis", "bytea", each, |(.., creation)| creation.genesis),
        ];
        let mut tags: Vec<(&str, &str, &str)> = rows
            .iter()
            .flat_map(|(run_id, _, _, creation)| {
                creation.tags.iter().map(|tag| (creation.tenant.as_str(), tag.as_str(), *run_id))
            })
            .collect();
        self.rows("created", columns);
        self.refused
            .push("select c.unit, 'run exists', c.run_id from created c join runs r on r.run_id = c.run_id");
        self.writes.push(
            "insert into runs (run_id, tenant, workflow_id, status, ended, next_sequence, driver, scope_id, parent_run_id,
                 created_at, updated_at, snapshot)
             select run_id, tenant, workflow_id, status, ended, next_sequence, case when driven then $1 end, scope_id,
                 parent_run_id, created_at, updated_at, snapshot
             from go, created",
        );
        self.writes.push("insert into births (run_id, genesis) select run_id, genesis from go, created");
        if tags.is_empty() {
            return;
        }
        tags.sort_unstable();
        tags.dedup();
        let columns = vec![
            column("tenant", "text", &tags, |(tenant, ..)| *tenant),
            column("tag", "text", &tags, |(_, tag, _)| *tag),
            column("run_id", "text", &tags, |(.., run_id)| *run_id),
        ];
        self.rows("tagged", columns);
        self.writes.push("insert into tags (tenant, tag, run_id) select tenant, tag, run_id from go, tagged");
    }

    fn advanced(&mut self, units: &[Unit<'c>]) {
        let mut rows: Vec<_> = Vec::new();
        for (unit, known) in (0_i32..).zip(units) {
            for (run_id, head) in &known.runs {
                if let Origin::Expected(expected) = head.origin {
                    rows.push((run_id.as_str(), unit, head, expected));
                }
            }
        }
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(|(run_id, ..)| *run_id);
        let columns = vec![
            column("unit", "int4", &rows, |(_, unit, ..)| *unit),
            column("run_id", "text", &rows, |(run_id, ..)| *run_id),
            column("expected", "int8", &rows, |(.., expected)| number(*expected)),
            column("status", "text", &rows, |(_, _, head, _)| head.status.as_str()),
            column("ended", "text", &rows, |(_, _, head, _)| ended(head.status)),
            column("next_sequence", "int8", &rows, |(_, _, head, _)| number(head.next_sequence)),
            column("driven", "bool", &rows, |(_, _, head, _)| is_driven(head.status)),
            column("updated_at", "int8", &rows, |(_, _, head, _)| number(head.updated_at.0)),
            column("snapshot", "bytea", &rows, |(_, _, head, _)| head.snapshot),
        ];
        self.rows("advanced", columns);
        self.refused.push(
            "select a.unit, 'moved', a.run_id from advanced a
             left join runs r on r.run_id = a.run_id and r.next_sequence = a.expected where r.run_id is null",
        );
        self.checks.push(
            "moved as (update runs r set status = a.status, ended = a.ended, next_sequence = a.next_sequence,
                 driver = case when a.driven then $1 end, updated_at = a.updated_at, snapshot = a.snapshot
             from go, advanced a where r.run_id = a.run_id and r.next_sequence = a.expected returning 1 as moved)",
        );
    }

    fn appended(&mut self, units: &[Unit<'c>]) {
        let mut rows: Vec<_> = units.iter().flat_map(|unit| &unit.appends).collect();
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(|append| (append.run_id, append.first));
        let columns = vec![
            column("run_id", "text", &rows, |append| append.run_id.as_str()),
            column("first", "int8", &rows, |append| number(append.first)),
            column("last", "int8", &rows, |append| number(append.last)),
            column("events", "bytea", &rows, |append| append.events),
            column("snapshot", "bytea", &rows, |append| append.snapshot),
        ];
        self.rows("appended", columns);
        self.writes.push(
            "insert into appends (run_id, first, last, events, snapshot)
             select run_id, first, last, events, snapshot from go, appended",
        );
    }

    fn folded(&mut self, units: &[Unit<'c>]) {
        let (mut set, mut cleared) = (Vec::new(), Vec::new());
        for (run_id, (state, is_created)) in units.iter().flat_map(|unit| &unit.folds) {
            match state {
                Some(state) => set.push((run_id.as_str(), *state, *is_created)),
                None => cleared.push(run_id.as_str()),
            }
        }
        if !set.is_empty() {
            set.sort_unstable();
            let columns = vec![
                column("run_id", "text", &set, |(run_id, ..)| *run_id),
                column("state", "bytea", &set, |(_, state, _)| *state),
                column("is_created", "bool", &set, |(.., is_created)| *is_created),
            ];
            self.rows("folded", columns);
            self.writes.push(
                "insert into folds (run_id, state) select f.run_id, f.state from go, folded f
                 where f.is_created or exists (select 1 from runs r where r.run_id = f.run_id)
                 on conflict (run_id) do update set state = excluded.state",
            );
        }
        if !cleared.is_empty() {
            cleared.sort_unstable();
            self.rows("unfolded", vec![column("run_id", "text", &cleared, |run_id| *run_id)]);
            self.writes.push("delete from folds f using go, unfolded u where f.run_id = u.run_id");
        }
    }

    fn timed(&mut self, units: &[Unit<'c>]) {
        let (mut set, mut cleared) = (Vec::new(), Vec::new());
        for ((run_id, key), at) in units.iter().flat_map(|unit| &unit.timers) {
            match at {
                Some(at) => set.push((run_id.as_str(), *key, number(at.0))),
                None => cleared.push((run_id.as_str(), *key)),
            }
        }
        if !set.is_empty() {
            set.sort_unstable();
            let columns = vec![
                column("run_id", "text", &set, |(run_id, ..)| *run_id),
                column("key", "text", &set, |(_, key, _)| *key),
                column("at", "int8", &set, |(.., at)| *at),
            ];
            self.rows("timed", columns);
            self.writes.push(
                "insert into timers (run_id, key, at) select run_id, key, at from go, timed
                 on conflict (run_id, key) do update set at = excluded.at",
            );
        }
        if !cleared.is_empty() {
            cleared.sort_unstable();
            let columns = vec![
                column("run_id", "text", &cleared, |(run_id, _)| *run_id),
                column("key", "text", &cleared, |(_, key)| *key),
            ];
            self.rows("untimed", columns);
            self.writes
                .push("delete from timers t using go, untimed u where t.run_id = u.run_id and t.key = u.key");
        }
    }

    fn replied(&mut self, units: &[Unit<'c>]) {
        let mut rows: Vec<_> = Vec::new();
        for (unit, known) in (0_i32..).zip(units) {
            rows.extend(known.replies.iter().map(|(key, reply)| (*key, *reply, unit)));
        }
        if rows.is_empty() {
            return;
        }
        rows.sort_by(|(one, ..), (other, ..)| {
            (&one.tenant, &one.endpoint, one.key.as_bytes()).cmp(&(
                &other.tenant,
                &other.endpoint,
                other.key.as_bytes(),
            ))
        });
        let columns = vec![
            column("unit", "int4", &rows, |(.., unit)| *unit),
            column("tenant", "text", &rows, |(key, ..)| key.tenant.as_str()),
            column("endpoint", "text", &rows, |(key, ..)| key.endpoint.as_str()),
            column("key", "bytea", &rows, |(key, ..)| &key.key.as_bytes()[..]),
            column("request", "bytea", &rows, |(_, reply, _)| &reply.request.as_bytes()[..]),
            column("status", "int4", &rows, |(_, reply, _)| i32::from(reply.status)),
            column("body", "bytea", &rows, |(_, reply, _)| &*reply.body),
            column("at", "int8", &rows, |(_, reply, _)| number(reply.at.0)),
        ];
        self.rows("replied", columns);
        self.refused.push(
            "select n.unit, 'key taken', '' from replied n
             join replies r on r.tenant = n.tenant and r.endpoint = n.endpoint and r.key = n.key",
        );
        self.writes.push(
            "insert into replies (tenant, endpoint, key, request, status, body, at)
             select tenant, endpoint, key, request, status, body, at from go, replied",
        );
    }

    fn claimed(&mut self, units: &[Unit<'c>]) {
        let mut claims: Vec<_> = Vec::new();
        for (unit, known) in (0_i32..).zip(units) {
            claims.extend(known.claims.iter().map(|(id, claim)| (id.as_str(), claim, unit)));
        }
        if !claims.is_empty() {
            claims.sort_by_key(|(id, ..)| *id);
            let columns = vec![
                column("unit", "int4", &claims, |(.., unit)| *unit),
                column("id", "text", &claims, |(id, ..)| *id),
                column("run_id", "text", &claims, |(_, claim, _)| claim.run_id.as_str()),
                column("at", "int8", &claims, |(_, claim, _)| number(claim.at.0)),
                column("node_id", "text", &claims, |(_, claim, _)| {
                    claim.reached.map(|reached| reached.node_id.as_str())
                }),
                column("provider_key", "text", &claims, |(_, claim, _)| {
                    claim.reached.and_then(|reached| reached.provider_key.as_deref())
                }),
                column("outcome", "bytea", &claims, |(_, claim, _)| claim.outcome),
            ];
            self.rows("claimed", columns);
            self.refused.push(
                "select c.unit, 'claimed', '' from claimed c
                 where exists (select 1 from activities a where a.id = c.id)",
            );
            self.writes.push(
                "insert into activities (id, run_id, at, host_id, attempt, node_id, provider_key, outcome)
                 select id, run_id, at, $1, 1, node_id, provider_key, outcome from go, claimed",
            );
        }
        let mut outcomes: Vec<(&str, &[u8])> = units
            .iter()
            .flat_map(|unit| &unit.outcomes)
            .map(|(id, outcome)| (id.as_str(), *outcome))
            .collect();
        if !outcomes.is_empty() {
            outcomes.sort_unstable();
            let columns = vec![
                column("id", "text", &outcomes, |(id, _)| *id),
                column("outcome", "bytea", &outcomes, |(_, outcome)| *outcome),
            ];
            self.rows("finished", columns);
            self.writes.push(
                "update activities a set outcome = f.outcome from go, finished f
                 where a.id = f.id and a.outcome is null
                     and a.attempt = (select max(attempt) from activities l where l.id = f.id)",
            );
        }
    }

    fn delivered(&mut self, units: &[Unit<'c>], place: i64) {
        let (mut put, mut deleted) = (Vec::new(), Vec::new());
        for (unit, known) in (0_i64..).zip(units) {
            for (delivery_id, delivery) in &known.deliveries {
                match delivery {
                    Some(delivery) => {
                        let position = i64::try_from(delivery.position).unwrap_or(i64::MAX);
                        // Within a commit in the order of its changes.
                        put.push((*delivery_id, delivery, (unit, position)));
                    }
                    None => deleted.push(*delivery_id),
                }
            }
        }
        if !put.is_empty() {
            put.sort_by_key(|(.., position)| *position);
            let mut put: Vec<_> = (0_i64..)
                .zip(put)
                .map(|(position, (id, delivery, _))| (id, delivery, place.saturating_add(position)))
                .collect();
            put.sort_by_key(|(id, ..)| *id);
            let columns = vec![
                column("delivery_id", "text", &put, |(id, ..)| *id),
                column("webhook_id", "text", &put, |(_, delivery, _)| delivery.webhook_id.as_str()),
                column("due", "int8", &put, |(_, delivery, _)| number(delivery.due.0)),
                column("attempts", "int8", &put, |(_, delivery, _)| i64::from(delivery.attempts)),
                column("place", "int8", &put, |(.., place)| *place),
                column("body", "bytea", &put, |(_, delivery, _)| delivery.body),
            ];
            self.rows("delivered", columns);
            self.writes.push(
                "insert into deliveries (delivery_id, webhook_id, due, attempts, place, body)
                 select delivery_id, webhook_id, due, attempts, place, body from go, delivered
                 on conflict (delivery_id) do update
                 set webhook_id = excluded.webhook_id, due = excluded.due, attempts = excluded.attempts, body = excluded.body",
            );
        }
        if !deleted.is_empty() {
            deleted.sort_unstable();
            self.rows("undelivered", vec![column("delivery_id", "text", &deleted, |id| *id)]);
            self.writes
                .push("delete from deliveries d using go, undelivered u where d.delivery_id = u.delivery_id");
        }
    }

    /// Artifacts.
    fn made(&mut self, units: &[Unit<'c>]) {
        let mut rows: Vec<(&str, &str, &[u8])> = units
            .iter()
            .flat_map(|unit| &unit.artifacts)
            .map(|((run_id, artifact_id), document)| (run_id.as_str(), *artifact_id, *document))
            .collect();
        if rows.is_empty() {
            return;
        }
        rows.sort_unstable();
        let columns = vec![
            column("run_id", "text", &rows, |(run_id, ..)| *run_id),
            column("artifact_id", "text", &rows, |(_, artifact_id, _)| *artifact_id),
            column("document", "bytea", &rows, |(.., document)| *document),
        ];
        self.rows("made", columns);
        self.writes.push(
            "insert into artifacts (run_id, artifact_id, document) select run_id, artifact_id, document from go, made
             on conflict (run_id, artifact_id) do update set document = excluded.document",
        );
    }

    fn audited(&mut self, audit: &Appender<'c>) {
        if audit.entries.is_empty() {
            return;
        }
        let expected: Vec<_> =
            audit.expected.iter().map(|(tenant, last)| (tenant.as_str(), last.map(number))).collect();
        let columns = vec![
            column("tenant", "text", &expected, |(tenant, _)| *tenant),
            column("last", "int8", &expected, |(_, last)| *last),
        ];
        self.rows("chained", columns);
        self.refused.push(
            "select -1, 'chain', c.tenant from chained c
             where (select max(a.sequence) from audit a where a.tenant = c.tenant) is distinct from c.last",
        );
        let mut entries: Vec<_> = audit.entries.iter().collect();
        entries.sort_by_key(|entry| (entry.tenant, entry.sequence));
        let columns = vec![
            column("tenant", "text", &entries, |entry| entry.tenant.as_str()),
            column("sequence", "int8", &entries, |entry| number(entry.sequence)),
            column("previous", "bytea", &entries, |entry| entry.previous.as_bytes().to_vec()),
            column("entry", "bytea", &entries, |entry| entry.entry),
        ];
        self.rows("audited", columns);
        self.writes.push(
            "insert into audit (tenant, sequence, previous, entry) select tenant, sequence, previous, entry from go, audited",
        );
    }
}

/// The values of a column.
struct Column<'c> {
    name: &'static str,
    kind: &'static str,
    values: Box<dyn ToSql + Sync + Send + 'c>,
}

fn column<'c, R, V: ToSql + Sync + Send + 'c>(
    name: &'static str,
    kind: &'static str,
    rows: &[R],
    value: impl FnMut(&R) -> V,
) -> Column<'c> {
    let values: Vec<V> = rows.iter().map(value).collect();
    Column { name, kind, values: Box::new(values) }
}
