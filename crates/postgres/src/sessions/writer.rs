//! Creates sessions and appends to them. Each is one statement, which writes everything or nothing.

use std::collections::BTreeSet;

use canon::digest::Digest;
use guide::plan::AppendPlan;
use guide::record::{EventIndex, ManifestIndex, SessionId};
use ports::Cause;
use ports::sessions::{
    Append, Appended, Creation, Cursor, Ended, Loaded, NewObjects, ObjectKind, Projection, SessionWriter,
    StoreError, StoreFuture,
};
use sessionlog::chain::{self, End};
use sessionlog::manifest::{self, MANIFEST_BYTES};
use sessionlog::references;
use sessionlog::snapshots::Prepared;

use super::log::{Head, INCARNATION, Scan, cursor};
use super::marks::parse_ended;
use super::objects::Attached;
use super::{Sessions, database, unexpected};
use crate::connection::Value;
use crate::error::Failure;
use crate::row::{number, unsigned};

/// What both statements begin with: the row of this host, and the objects that the append refers to and that are not part
/// of it. Locking them keeps garbage collection from deleting them before this commits, and touching them afterwards.
macro_rules! begin {
    () => {
        "with fence as (select 1 from hosts where host_id = $1 for key share),
         needed as (select 1 from session_objects o
             join unnest($4::text[], $5::bytea[]) as n(kind, digest) on o.kind = n.kind and o.digest = n.digest
             where o.tenant = $2 for key share of o),
         touched as (update session_objects o set needed_at = clock_timestamp()
             from unnest($4::text[], $5::bytea[]) as n(kind, digest)
             where o.tenant = $2 and o.kind = n.kind and o.digest = n.digest
                 and o.needed_at < clock_timestamp() - interval '30 minutes'),"
    };
}

/// What both statements end with: the segments, objects and positions, if the row of the session was written.
macro_rules! end {
    () => {
        "segments as (insert into session_segments (tenant, session_id, first, events, manifest, chain)
             select $2, $3, n.first, n.events, n.manifest, n.chain from head,
                 unnest($6::bigint[], $7::bytea[], $8::bytea[], $9::bytea[]) as n(first, events, manifest, chain)),
         objects as (insert into session_objects as o (tenant, kind, digest, content, bases, needed_at)
             select $2, n.kind, n.digest, n.content, n.bases, clock_timestamp() from head,
                 unnest($10::text[], $11::bytea[], $12::bytea[], $13::bytea[]) as n(kind, digest, content, bases)
             on conflict (tenant, kind, digest) do update set needed_at = clock_timestamp()
                 where o.needed_at < clock_timestamp() - interval '30 minutes'),
         positions as (insert into session_positions (tenant, position, session_id, event_index)
             select $2, n.position, $3, n.event from head, unnest($14::bytea[], $15::bigint[]) as n(position, event)
             on conflict do nothing)
         select (select count(*) from fence), (select count(*) from needed), (select count(*) from head)"
    };
}

const APPEND: &str = concat!(
    begin!(),
    "head as (update sessions set next_event = $18, next_record = $19, manifest_bytes = $20, active_ms = $21,
             chain_end = $22, runs = $23, modified_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint
         where tenant = $2 and session_id = $3 and incarnation = $16 and next_event = $17
             and exists (select 1 from fence) and (select count(*) from needed) = cardinality($4::text[])
         returning 1),",
    end!()
);

const CREATE: &str = concat!(
    begin!(),
    "head as (insert into sessions (tenant, session_id, incarnation, next_event, next_record, manifest_bytes, active_ms,
             chain_end, runs, imported_ms, salvaged, is_kept, modified_ms)
         select $2, $3::text, $16::bytea, $18::bigint, $19::bigint, $20::bigint, $21::bigint, $22::bytea, $23::bytea,
             $24::bigint, $25::bytea, false,
             (extract(epoch from clock_timestamp()) * 1000)::bigint
         from fence where (select count(*) from needed) = cardinality($4::text[]) and $17::bigint = 0
         on conflict do nothing returning 1),",
    end!()
);

/// A session as it was read, and the right to append to exactly that.
#[derive(Debug)]
pub(super) struct Writer {
    sessions: Sessions,
    head: Head,
    news: Loaded,
    ended: Option<Ended>,
}

impl Writer {
    pub(super) fn new(sessions: Sessions, scan: Scan) -> Self {
        let ended = scan.head.ended.as_deref().map(parse_ended);
        Self { sessions, head: scan.head, news: scan.loaded, ended }
    }
}

impl SessionWriter for Writer {
    fn news(&self) -> &Loaded {
        &self.news
    }

    fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    fn append(self: Box<Self>, append: Append) -> StoreFuture<'static, Appended> {
        let sessions = self.sessions.clone();
        sessions.task(|sessions| async move { append_to(&sessions, &self, append).await })
    }

    fn end(self: Box<Self>, ended: Ended) -> StoreFuture<'static, ()> {
        let sessions = self.sessions.clone();
        sessions.task(|sessions| async move {
            sessions.set_ended(self.news.cursor.session_id(), &self.head.incarnation, &ended).await
        })
    }
}

/// What is written of one or more plans.
struct Group {
    first: Vec<i64>,
    segments: Vec<Vec<u8>>,
    manifests: Vec<Vec<u8>>,
    next_event: EventIndex,
    next_record: ManifestIndex,
    manifest_bytes: u64,
    active_ms: u64,
}

impl Group {
    /// The manifest records of plans that follow each other.
    fn of(
        session: &SessionId,
        plans: &[AppendPlan],
        at: ManifestIndex,
        before: u64,
    ) -> Result<Self, StoreError> {
        let mut group = Self {
            first: Vec::new(),
            segments: Vec::new(),
            manifests: Vec::new(),
            next_event: EventIndex::FIRST,
            next_record: at,
            manifest_bytes: before,
            active_ms: 0,
        };
        for plan in plans {
            let at = group.next_record;
            let record = manifest::segment_record(session, at, (plan.first(), plan.last()), plan.segment());
            let records = manifest::group(session, at, record, plan.pins());
            let bytes = manifest::encode(&records);
            group.manifest_bytes += bytes.len() as u64;
            group.next_record = ManifestIndex(at.0 + records.len() as u64);
            group.next_event = plan.last().next();
            group.active_ms = plan.events().last().map_or(group.active_ms, |event| event.timestamp_ms);
            group.first.push(number(plan.first().0));
            group.segments.push(plan.segment().to_vec());
            group.manifests.push(bytes);
        }
        if group.manifest_bytes > MANIFEST_BYTES {
            let what = format!("the manifest of session {session}");
            let measured = group.manifest_bytes;
            return Err(StoreError::TooLarge { what, measured, maximum: MANIFEST_BYTES });
        }
        Ok(group)
    }
}

/// The identity of the session that is written.
struct Target<'t> {
    session: &'t SessionId,
    incarnation: &'t [u8],
    expected: EventIndex,
}

/// What only a new session has.
struct Birth {
    imported_ms: Option<i64>,
    salvaged: Option<Vec<u8>>,
}

/// The rest of what is written.
struct Parts<'p> {
    plans: &'p [AppendPlan],
    objects: &'p NewObjects,
    projection: &'p Projection,
    /// The line of the chain of each plan.
    chain: Vec<Vec<u8>>,
    chain_end: &'p [u8],
    /// `None` for an append to a session that exists.
    birth: Option<Birth>,
}

/// How a statement ended that was executed.
enum Executed {
    Written,
    /// The session was created or appended to by another writer, or does not exist. If an earlier attempt is in doubt, it
    /// may have been this one.
    Refused {
        in_doubt: bool,
    },
}

async fn append_to(sessions: &Sessions, writer: &Writer, append: Append) -> Result<Appended, StoreError> {
    let session = writer.news.cursor.session_id();
    let (head, Append { plan, objects, projection }) = (&writer.head, append);
    if plan.session_id() != session || plan.first() != head.next_event {
        let (session, tip) = (session.clone(), head.next_event);
        return Err(StoreError::Moved { session, tip, planned: plan.first() });
    }
    let plans = std::slice::from_ref(&plan);
    let group = Group::of(session, plans, head.next_record, head.manifest_bytes)?;
    let key = sessions.integrity_key_or_create().await?;
    let records = (head.next_record.0, group.next_record.0);
    let chain = match End::of(&head.chain_end, head.next_record.0) {
        Some(end) => format!("{}\n", end.next_line(&key, records, &group.manifests[0])).into_bytes(),
        None => {
            tracing::warn!(
                session.id = %session,
                "the chain of the session does not agree with its log; run `interlock session verify`"
            );
            Vec::new()
        }
    };
    let chain_end = if chain.is_empty() { &head.chain_end } else { &chain };
    let target = Target { session, incarnation: &head.incarnation, expected: plan.first() };
    let parts = Parts {
        plans,
        objects: &objects,
        projection: &projection,
        chain: vec![chain.clone()],
        chain_end,
        birth: None,
    };
    match execute(sessions, &target, &group, &parts).await? {
        Executed::Written => Ok(appended(session, &head.incarnation, &group, plan.first())),
        Executed::Refused { in_doubt } => {
            // The connection may have been lost after the append was committed, and the statement repeated.
            let sql = "select s.next_event, g.events from sessions s left join session_segments g
                           on g.tenant = s.tenant and g.session_id = s.session_id and g.first = $4
                       where s.tenant = $1 and s.session_id = $2 and s.incarnation = $3";
            let first = number(plan.first().0);
            let values: [Value<'_>; 4] = [&sessions.tenant(), &session.as_str(), &head.incarnation, &first];
            let rows = sessions.read(sql, &values).await?;
            let Some(row) = rows.first() else {
                return Err(StoreError::Unknown { session: session.clone() });
            };
            let recorded: Option<&[u8]> = row.try_get(1).map_err(unexpected)?;
            if in_doubt && recorded == Some(plan.segment()) {
                return Ok(appended(session, &head.incarnation, &group, plan.first()));
            }
            let tip = EventIndex(unsigned(row, 0).map_err(database)?);
            Err(StoreError::Moved { session: session.clone(), tip, planned: plan.first() })
        }
    }
}

pub(super) async fn create(sessions: &Sessions, creation: Creation) -> Result<Appended, StoreError> {
    let Creation { plans, objects, projection, salvaged, imported_ms } = creation;
    let Some(session) = plans.first().map(|plan| plan.session_id().clone()) else {
        return Err(StoreError::Database { is_full: false, cause: Cause::new("a session needs a plan") });
    };
    let mut next = EventIndex::FIRST;
    for plan in &plans {
        if (plan.session_id(), plan.first()) != (&session, next) {
            return Err(StoreError::Moved { session, tip: next, planned: plan.first() });
        }
        next = plan.last().next();
    }
    let group = Group::of(&session, &plans, ManifestIndex::FIRST, 0)?;
    let key = sessions.integrity_key_or_create().await?;
    // One line covers all records, so it is stored with the first append.
    let whole = chain::created(&key, &session, group.next_record.0, &group.manifests.concat());
    let end = whole.strip_suffix(b"\n").and_then(|lines| lines.iter().rposition(|byte| *byte == b'\n'));
    let chain_end = whole[end.map_or(0, |end| end + 1)..].to_vec();
    let mut chain = vec![Vec::new(); plans.len()];
    chain[0] = whole;
    let mut incarnation = [0; INCARNATION];
    getrandom::fill(&mut incarnation).map_err(|error| StoreError::Database {
        is_full: false,
        cause: Cause::new(format!("no random bytes: {error}")),
    })?;
    let target = Target { session: &session, incarnation: &incarnation, expected: EventIndex::FIRST };
    let parts = Parts {
        plans: &plans,
        objects: &objects,
        projection: &projection,
        chain,
        chain_end: &chain_end,
        birth: Some(Birth {
            imported_ms: imported_ms.map(number),
            salvaged: salvaged.as_ref().map(|mark| serde_json::to_vec(mark).unwrap_or_default()),
        }),
    };
    match execute(sessions, &target, &group, &parts).await? {
        Executed::Written => Ok(appended(&session, &incarnation, &group, EventIndex::FIRST)),
        Executed::Refused { .. } => {
            let sql = "select incarnation from sessions where tenant = $1 and session_id = $2";
            let rows = sessions.read(sql, &[&sessions.tenant(), &session.as_str()]).await?;
            let found: Option<&[u8]> = match rows.first() {
                Some(row) => Some(row.try_get(0).map_err(unexpected)?),
                None => None,
            };
            // Random, so it is this one if a statement that was repeated had been committed.
            if found == Some(&incarnation[..]) {
                return Ok(appended(&session, &incarnation, &group, EventIndex::FIRST));
            }
            Err(StoreError::Exists { session })
        }
    }
}

fn appended(session: &SessionId, incarnation: &[u8], group: &Group, first: EventIndex) -> Appended {
    let cursor: Cursor = cursor(session, incarnation, group.next_event, group.next_record);
    Appended { first, last: EventIndex(group.next_event.0.saturating_sub(1)), cursor }
}

/// Writes an append with its objects.
async fn execute(
    sessions: &Sessions,
    target: &Target<'_>,
    group: &Group,
    parts: &Parts<'_>,
) -> Result<Executed, StoreError> {
    let mut is_again = false;
    loop {
        let attached = sessions.attach(parts.objects).await?;
        let needed = needed(parts.plans, &attached);
        let (fence, found, head, in_doubt) =
            statement(sessions, target, group, parts, &attached, &needed).await?;
        if fence == 0 {
            return Err(database(Failure::Fenced));
        }
        if head > 0 {
            attached.snapshots.iter().for_each(|snapshot| sessions.0.snapshots.keep(snapshot));
            return Ok(Executed::Written);
        }
        if found == needed.len() {
            return Ok(Executed::Refused { in_doubt });
        }
        let missing = sessions.first_missing(&needed).await?;
        match missing {
            // Another host has collected snapshots that this one still had in memory. They are read again.
            Some((ObjectKind::Snapshot, digest)) if attached.is_base(digest) && !is_again => {
                sessions.0.snapshots.forget();
                is_again = true;
            }
            Some((kind, digest)) => return Err(StoreError::ObjectMissing { kind, digest }),
            None if is_again => return Ok(Executed::Refused { in_doubt }),
            None => is_again = true,
        }
    }
}

/// What the plans and the new snapshots refer to, and what is not part of the append.
fn needed(plans: &[AppendPlan], attached: &Attached<'_>) -> BTreeSet<(ObjectKind, Digest)> {
    let referred = plans.iter().flat_map(AppendPlan::events).flat_map(references);
    let bases =
        attached.snapshots.iter().flat_map(Prepared::bases).map(|base| (ObjectKind::Snapshot, base.0));
    referred.chain(bases).filter(|object| !attached.contains(*object)).collect()
}

async fn statement(
    sessions: &Sessions,
    target: &Target<'_>,
    group: &Group,
    parts: &Parts<'_>,
    attached: &Attached<'_>,
    needed: &BTreeSet<(ObjectKind, Digest)>,
) -> Result<(i64, usize, i64, bool), StoreError> {
    let (needed_kinds, needed_digests): (Vec<&str>, Vec<&[u8]>) =
        needed.iter().map(|(kind, digest)| (kind.as_str(), &digest.as_bytes()[..])).unzip();
    // In one order, so that two appends with the same objects do not wait for each other.
    let rows = attached.rows();
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    let digests: Vec<&[u8]> = rows.iter().map(|row| &row.digest.as_bytes()[..]).collect();
    let contents: Vec<&[u8]> = rows.iter().map(|row| row.content).collect();
    let bases: Vec<&[u8]> = rows.iter().map(|row| &*row.bases).collect();
    let positions: Vec<&[u8]> = parts.projection.positions.iter().map(|(key, _)| &key[..]).collect();
    let events: Vec<i64> = parts.projection.positions.iter().map(|(_, event)| number(event.0)).collect();
    let runs = serde_json::to_vec(&parts.projection.runs)
        .map_err(|error| StoreError::Database { is_full: false, cause: Cause::of_json(&error) })?;
    let (session, tenant) = (target.session.as_str(), sessions.tenant());
    let (expected, next_event, next_record) =
        (number(target.expected.0), number(group.next_event.0), number(group.next_record.0));
    let (manifest_bytes, active_ms) = (number(group.manifest_bytes), number(group.active_ms));
    let mut values: Vec<Value<'_>> = vec![
        &sessions.0.shared.host_id,
        &tenant,
        &session,
        &needed_kinds,
        &needed_digests,
        &group.first,
        &group.segments,
        &group.manifests,
        &parts.chain,
        &kinds,
        &digests,
        &contents,
        &bases,
        &positions,
        &events,
        &target.incarnation,
        &expected,
        &next_event,
        &next_record,
        &manifest_bytes,
        &active_ms,
        &parts.chain_end,
        &runs,
    ];
    let sql = match &parts.birth {
        None => APPEND,
        Some(birth) => {
            values.extend([&birth.imported_ms as Value<'_>, &birth.salvaged]);
            CREATE
        }
    };
    let (rows, in_doubt) =
        sessions.write(sql, &values).await.map_err(|written| written.of_session(target.session))?;
    let row = rows.first().ok_or_else(|| database(Failure::Row))?;
    let count = |column| row.try_get::<_, i64>(column).map_err(unexpected);
    let found = usize::try_from(count(1)?).unwrap_or(usize::MAX);
    Ok((count(0)?, found, count(2)?, in_doubt))
}
