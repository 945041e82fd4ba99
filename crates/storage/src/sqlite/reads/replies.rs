//! Replies that are recorded for idempotency keys, in the tables `answers` and `answer_keys`.

use canon::digest::Digest;
use canon::time::Timestamp;
use ports::PortFuture;
use ports::runs::{ReadFuture, RecordedReply, Replies, ReplyKey};
use rusqlite::{Connection, Result, ToSql};

use crate::sqlite::SqliteRuns;
use crate::sqlite::audit::digest;
use crate::sqlite::query::{bytes, one};

impl Replies for SqliteRuns {
    fn reply(&self, key: &ReplyKey) -> ReadFuture<'_, Option<RecordedReply>> {
        let hash = key_hash(key);
        if !self.memory.seen.maybe(hash) {
            return PortFuture::ready(Ok(None));
        }
        let key = key.clone();
        self.read(move |connection| reply_at(connection, hash, &key))
    }
}

/// The hash by which replies are found: 60 bits of the digest of tenant, endpoint and key. Two keys may share a hash, so the
/// columns are compared too.
pub(in crate::sqlite) fn key_hash(key: &ReplyKey) -> i64 {
    let digest =
        Digest::of_bytes(format!("{}\0{}\0{}", key.tenant, key.endpoint, key.key).as_bytes()).to_hex();
    i64::from_str_radix(&digest[..15], 16).unwrap_or_default()
}

/// The reply for a key whose hash is known. Keys are grouped by 65,536 replies; the groups are searched from the newest.
pub(in crate::sqlite) fn reply_at(
    connection: &Connection,
    hash: i64,
    key: &ReplyKey,
) -> Result<Option<RecordedReply>> {
    let sql = "WITH RECURSIVE stretches (stretch) AS (
                   SELECT max(place) >> 16 FROM answers
                   UNION ALL
                   SELECT stretch - 1 FROM stretches WHERE stretch > (SELECT min(place) >> 16 FROM answers)
               )
               SELECT request, status, body, at
               FROM stretches CROSS JOIN answer_keys USING (stretch) CROSS JOIN answers USING (place)
               WHERE hash = ?1 AND tenant = ?2 AND endpoint = ?3 AND key = ?4 LIMIT 1";
    let values: [&dyn ToSql; 4] =
        [&hash, &key.tenant.as_str(), &key.endpoint, &key.key.to_hex().into_bytes()];
    one(connection, sql, &values, |row| {
        Ok(RecordedReply {
            request: digest(&row.get::<_, Vec<u8>>(0)?),
            status: row.get(1)?,
            body: bytes(row, 2)?,
            at: Timestamp(row.get(3)?),
        })
    })
}
