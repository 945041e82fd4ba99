//! Reads sessions and validates every byte.

use guide::plan::pins_of;
use guide::record::{Event, EventIndex, ManifestIndex, ManifestRecord, SessionId, segment_rel_path};
use ports::sessions::{
    Appended, Creation, Cursor, DamageReason, Loaded, Revision, SessionHealth, SessionLog, SessionWriter,
    StoreError, StoreFuture, ValidatedPrefix,
};
use sessionlog::manifest::{Comparison, Expected, Mismatch, decode_segment, group};
use tokio_postgres::Row;

use super::{Sessions, database, unexpected, writer};
use crate::error::Failure;
use crate::row::{number, unsigned};

/// The length of an incarnation, in bytes.
pub(super) const INCARNATION: usize = 16;

const SCAN: &str = "
    select s.incarnation, s.next_event, s.next_record, s.manifest_bytes, s.chain_end, s.ended,
        g.first, g.events, g.manifest, g.chain
    from sessions s left join session_segments g
        on g.tenant = s.tenant and g.session_id = s.session_id
            and g.first >= case when s.incarnation = $3::bytea then $4::bigint else 0::bigint end
    where s.tenant = $1 and s.session_id = $2
    order by g.first";

/// The row of a session.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) incarnation: Vec<u8>,
    pub(super) next_event: EventIndex,
    pub(super) next_record: ManifestIndex,
    pub(super) manifest_bytes: u64,
    pub(super) chain_end: Vec<u8>,
    pub(super) ended: Option<Vec<u8>>,
}

/// What was read of a session: its validated part, and what is wrong with the rest.
pub(super) struct Scan {
    pub(super) head: Head,
    pub(super) loaded: Loaded,
    pub(super) health: SessionHealth,
    /// The lines of the chain, if the session was read from its start.
    pub(super) chain: Vec<u8>,
}

/// The cursor after the last event of a session.
pub(super) fn cursor(
    session: &SessionId,
    incarnation: &[u8],
    event: EventIndex,
    record: ManifestIndex,
) -> Cursor {
    Cursor::new(session.clone(), event, &[incarnation, &record.0.to_le_bytes()].concat())
}

/// Where a cursor of this store continues: the incarnation, the next event and the next record. A cursor of another store
/// is the start.
fn position(cursor: &Cursor) -> (&[u8], EventIndex, ManifestIndex) {
    match cursor.position().split_at_checked(INCARNATION) {
        Some((incarnation, record)) if let Ok(record) = <[u8; 8]>::try_from(record) => {
            (incarnation, cursor.next_event(), ManifestIndex(u64::from_le_bytes(record)))
        }
        _ => (&[], EventIndex::FIRST, ManifestIndex::FIRST),
    }
}

impl Sessions {
    /// Reads what follows `from`.
    pub(super) async fn scan(&self, from: &Cursor) -> Result<Scan, StoreError> {
        let session = from.session_id();
        let (incarnation, event, record) = position(from);
        let rows =
            self.read(SCAN, &[&self.tenant(), &session.as_str(), &incarnation, &number(event.0)]).await?;
        let Some(first) = rows.first() else {
            return Err(StoreError::Unknown { session: session.clone() });
        };
        let head = head(first)?;
        let is_same = head.incarnation == incarnation;
        let (event, record) =
            if is_same { (event, record) } else { (EventIndex::FIRST, ManifestIndex::FIRST) };
        let mut walk = LogReader {
            session,
            next_event: event,
            next_record: record,
            events: Vec::new(),
            manifest: Vec::new(),
        };
        let (mut chain, mut wrong) = (Vec::new(), None);
        for row in &rows {
            if row.try_get::<_, Option<i64>>(6).map_err(unexpected)?.is_none() {
                break;
            }
            chain.extend_from_slice(row.try_get(9).map_err(unexpected)?);
            if let Some(mismatch) = walk.group(row)? {
                wrong = Some(mismatch);
                break;
            }
        }
        if wrong.is_none() && (walk.next_event, walk.next_record) != (head.next_event, head.next_record) {
            let problem = format!(
                "the session continues at event {}, and its last segment ends before event {}",
                head.next_event.0, walk.next_event.0
            );
            let file = segment_rel_path(walk.next_event, head.next_event);
            wrong = Some((file, Mismatch::new(DamageReason::MissingAttestedSegment, problem)));
        }
        let health = match wrong {
            None => SessionHealth::Healthy,
            Some((file, mismatch)) => mismatch.health(file, walk.next_event),
        };
        let cursor = cursor(session, &head.incarnation, walk.next_event, walk.next_record);
        let loaded = Loaded { events: walk.events, manifest: walk.manifest, cursor };
        Ok(Scan { head, loaded, health, chain })
    }

    /// As [`Self::scan`], of a healthy session.
    pub(super) async fn scan_healthy(&self, from: &Cursor) -> Result<Scan, StoreError> {
        let scan = self.scan(from).await?;
        if scan.health.is_healthy() {
            Ok(scan)
        } else {
            let session = from.session_id().clone();
            Err(StoreError::NotHealthy { session, health: Box::new(scan.health) })
        }
    }
}

fn head(row: &Row) -> Result<Head, StoreError> {
    let number = |column| unsigned(row, column).map_err(database);
    let incarnation: Vec<u8> = row.try_get(0).map_err(unexpected)?;
    if incarnation.len() != INCARNATION {
        return Err(database(Failure::Row));
    }
    Ok(Head {
        incarnation,
        next_event: EventIndex(number(1)?),
        next_record: ManifestIndex(number(2)?),
        manifest_bytes: number(3)?,
        chain_end: row.try_get(4).map_err(unexpected)?,
        ended: row.try_get(5).map_err(unexpected)?,
    })
}

struct LogReader<'s> {
    session: &'s SessionId,
    next_event: EventIndex,
    next_record: ManifestIndex,
    events: Vec<Event>,
    manifest: Vec<ManifestRecord>,
}

impl LogReader<'_> {
    /// Adds the append of a row, or says what is wrong with it: the file that it would be, and why.
    fn group(&mut self, row: &Row) -> Result<Option<(String, Mismatch)>, StoreError> {
        let (events, manifest): (&[u8], &[u8]) =
            (row.try_get(7).map_err(unexpected)?, row.try_get(8).map_err(unexpected)?);
        let expected = Expected { session: self.session, at: self.next_record, first: self.next_event };
        let in_manifest = |mismatch| Ok(Some(("manifest.jsonl".to_owned(), mismatch)));
        let cut = || Mismatch::new(DamageReason::ManifestTruncated, "a record ends in the middle");
        let (record, length) = match expected.segment(manifest) {
            Comparison::Whole(found) => found,
            Comparison::Beginning => return in_manifest(cut()),
            Comparison::Other(mismatch) => return in_manifest(mismatch),
        };
        let file = record.segment_rel_path.clone();
        let events = match decode_segment(events, &record) {
            Ok(events) => events,
            Err(mismatch) => return Ok(Some((file, mismatch))),
        };
        let records = group(self.session, expected.at, record, &pins_of(&events));
        match expected.pins(&manifest[length..], &records[1..]) {
            Comparison::Whole(pins) if &manifest[length + pins..] == b"\n" => {}
            Comparison::Whole(_) | Comparison::Beginning => return in_manifest(cut()),
            Comparison::Other(mismatch) => return in_manifest(mismatch),
        }
        self.next_event = events.last().map_or(self.next_event, |event| event.event_index.next());
        self.next_record = ManifestIndex(self.next_record.0 + records.len() as u64);
        self.events.extend(events);
        self.manifest.extend(records);
        Ok(None)
    }
}

impl SessionLog for Sessions {
    fn sessions(&self) -> StoreFuture<'_, Vec<SessionId>> {
        self.task(|this| async move {
            let sql = "select session_id from sessions where tenant = $1 order by session_id";
            let rows = this.read(sql, &[&this.tenant()]).await?;
            rows.iter().map(|row| session_id(row, 0)).collect()
        })
    }

    fn revisions(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<Option<Revision>>> {
        self.task(|this| async move {
            let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
            let sql = "select s.incarnation, s.next_event, s.modified_ms
                       from unnest($2::text[]) with ordinality as w(id, position)
                       left join sessions s on s.tenant = $1 and s.session_id = w.id
                       order by w.position";
            let rows = this.read(sql, &[&this.tenant(), &ids]).await?;
            rows.iter().map(revision).collect()
        })
    }

    fn create(&self, creation: Creation) -> StoreFuture<'_, Appended> {
        self.task(|this| async move { writer::create(&this, creation).await })
    }

    fn load_since(&self, cursor: Cursor) -> StoreFuture<'_, Loaded> {
        self.task(|this| async move { Ok(this.scan_healthy(&cursor).await?.loaded) })
    }

    fn load_validated_prefix(&self, session: SessionId) -> StoreFuture<'_, ValidatedPrefix> {
        self.task(|this| async move {
            let Scan { loaded, health, .. } = this.scan(&Cursor::start(session)).await?;
            Ok(ValidatedPrefix { loaded, health })
        })
    }

    fn lock(&self, session: SessionId, known: Option<Cursor>) -> StoreFuture<'_, Box<dyn SessionWriter>> {
        self.task(|this| async move {
            let known = known.filter(|cursor| *cursor.session_id() == session);
            let scan = this.scan_healthy(&known.unwrap_or_else(|| Cursor::start(session))).await?;
            Ok(Box::new(writer::Writer::new(this, scan)) as Box<dyn SessionWriter>)
        })
    }
}

/// The id of a session in a column.
pub(super) fn session_id(row: &Row, column: usize) -> Result<SessionId, StoreError> {
    let text: &str = row.try_get(column).map_err(unexpected)?;
    SessionId::parse(text).map_err(|_| database(Failure::Row))
}

fn revision(row: &Row) -> Result<Option<Revision>, StoreError> {
    let incarnation: Option<&[u8]> = row.try_get(0).map_err(unexpected)?;
    let Some(incarnation) = incarnation.and_then(|bytes| bytes.first_chunk::<8>()) else { return Ok(None) };
    let next_event = unsigned(row, 1).map_err(database)?;
    let mark = u128::from(u64::from_le_bytes(*incarnation)) << 64 | u128::from(next_event);
    Ok(Some(Revision::new(unsigned(row, 2).map_err(database)?, mark)))
}
