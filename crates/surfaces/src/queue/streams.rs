//! Rows of streams. Records are immutable; above the stream's limit the oldest are removed.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{ReadFrom, Record, Records};
use crate::args::refuse;
use crate::call::{Scope, Tenant};
use crate::embedded::Refused;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::usage::{Usage, signed};
use crate::value::value_of;

const SURFACE: &str = "stream";
/// The maximum size of a page besides its first record, in bytes.
const PAGE_BYTES: usize = 8 << 20;

pub(super) fn publish(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    stream: &str,
    record: &[u8],
) -> Result<String, Refused> {
    let tenant = scope.tenant.as_str();
    let (place, oldest, salt): (i64, i64, String) = connection
        .prepare_cached(
            "INSERT INTO streams (tenant, stream, next, oldest, salt) VALUES (?1, ?2, 2, 1, lower(hex(randomblob(8))))
             ON CONFLICT (tenant, stream) DO UPDATE SET next = next + 1 RETURNING next - 1, oldest, salt",
        )?
        .query_row(params![tenant, stream], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    connection
        .prepare_cached(
            "INSERT INTO records (tenant, stream, place, published_at, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![tenant, stream, place, scope.at(), record])?;
    // The stream name counts with each record, so many small streams are not free.
    let mut growth = Usage::new(1, signed(record.len() + stream.len()));
    if u64::try_from(place - oldest).unwrap_or(0) >= limits.stream_records {
        let gone: i64 = connection
            .prepare_cached(
                "DELETE FROM records WHERE tenant = ?1 AND stream = ?2 AND place = ?3 RETURNING length(payload)",
            )?
            .query_row(params![tenant, stream, oldest], |row| row.get(0))?;
        connection
            .prepare_cached("UPDATE streams SET oldest = oldest + 1 WHERE tenant = ?1 AND stream = ?2")?
            .execute(params![tenant, stream])?;
        growth = Usage::new(0, growth.bytes - gone - signed(stream.len()));
    }
    let usage = growth.add(connection, &scope.tenant, SURFACE)?;
    // A record that replaces one of the same size always fits, even if the limits were lowered.
    let grows = growth.items > 0 || growth.bytes > 0;
    if grows && !usage.within(limits.records, limits.stream_bytes) {
        let (records, bytes) = (limits.records, limits.stream_bytes);
        let message = format!(
            "the tenant's stream quota is {records} records and {bytes} bytes; this record exceeds it"
        );
        return Err(SurfaceError::new(Code::QueueBackendUnavailable, message).into());
    }
    Ok(format!("{salt}-{place}"))
}

pub(super) fn read(
    connection: &Connection,
    tenant: &Tenant,
    stream: &str,
    from: &ReadFrom,
    limit: usize,
) -> Result<Records, Refused> {
    let head: Option<(i64, String)> = connection
        .prepare_cached("SELECT next - 1, salt FROM streams WHERE tenant = ?1 AND stream = ?2")?
        .query_row(params![tenant.as_str(), stream], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (newest, salt) = head.unwrap_or_default();
    let after = match from {
        ReadFrom::Beginning => 0,
        ReadFrom::Now => newest,
        ReadFrom::Cursor(cursor) => place_of(cursor)?,
    };
    let mut statement = connection.prepare_cached(
        "SELECT place, payload FROM records WHERE tenant = ?1 AND stream = ?2 AND place > ?3 ORDER BY place LIMIT ?4",
    )?;
    let mut rows = statement.query(params![tenant.as_str(), stream, after, limit])?;
    let (mut records, mut last, mut bytes) = (Vec::new(), after, 0);
    while let Some(row) = rows.next()? {
        let place: i64 = row.get(0)?;
        let payload = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        bytes += payload.len();
        if bytes > PAGE_BYTES && !records.is_empty() {
            break;
        }
        let next = cursor_at(place);
        records.push(Record { id: format!("{salt}-{place}"), payload: value_of(payload)?, next });
        last = place;
    }
    Ok(Records { more: last < newest, next: cursor_at(last), records })
}

fn cursor_at(place: i64) -> String {
    format!("s{place}")
}

fn place_of(cursor: &str) -> Result<i64, SurfaceError> {
    let place = cursor.strip_prefix('s').and_then(|digits| digits.parse::<i64>().ok());
    place
        .filter(|place| *place >= 0)
        .ok_or_else(|| refuse("`cursor` must be the `nextCursor` of an earlier page of this stream"))
}
