//! The ends of audit logs. They are kept in memory and compared with the table in every batch that appends to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use canon::digest::Digest;
use flow::id::Tenant;
use ports::runs::audit::link;

use crate::connection::Connection;
use crate::error::Failure;
use crate::row;

/// How many ends are kept.
const MAX_KEPT: usize = 10_000;

/// The end of a tenant's audit log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// The sequence of the last entry, if there is one.
    pub(crate) last: Option<u64>,
    /// What the next entry has as its link.
    pub(crate) link: Digest,
}

impl End {
    fn next(self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(1))
    }
}

/// An entry that is to be written.
pub(crate) struct Entry<'c> {
    pub(crate) tenant: &'c Tenant,
    pub(crate) sequence: u64,
    pub(crate) previous: Digest,
    pub(crate) entry: &'c [u8],
}

#[derive(Default)]
pub(crate) struct Ends(Mutex<HashMap<Tenant, End>>);

impl Ends {
    pub(crate) async fn get(&self, connection: &Connection, tenant: &Tenant) -> Result<End, Failure> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).copied();
        match known {
            Some(end) => Ok(end),
            None => read(connection, tenant).await,
        }
    }

    /// Keeps ends that were committed.
    pub(crate) fn keep<'t>(&self, ends: impl IntoIterator<Item = (&'t Tenant, End)>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.extend(ends.into_iter().map(|(tenant, end)| (tenant.clone(), end)));
    }

    /// Forgets all ends: the table may differ.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Appends to audit logs within one batch.
#[derive(Default)]
pub(crate) struct Appender<'c> {
    /// The last entry in the table, which the batch expects.
    pub(crate) expected: BTreeMap<&'c Tenant, Option<u64>>,
    pub(crate) ends: BTreeMap<&'c Tenant, End>,
    pub(crate) entries: Vec<Entry<'c>>,
}

impl<'c> Appender<'c> {
    pub(crate) async fn append(
        &mut self,
        ends: &Ends,
        connection: &Connection,
        tenant: &'c Tenant,
        entry: &'c [u8],
    ) -> Result<(), Failure> {
        let end = match self.ends.get(tenant) {
            Some(end) => *end,
            None => {
                let end = ends.get(connection, tenant).await?;
                self.expected.insert(tenant, end.last);
                end
            }
        };
        let sequence = end.next();
        self.ends.insert(tenant, End { last: Some(sequence), link: link(sequence, end.link, entry) });
        self.entries.push(Entry { tenant, sequence, previous: end.link, entry });
        Ok(())
    }
}

/// Reads the end of an audit log.
pub(crate) async fn read(connection: &Connection, tenant: &Tenant) -> Result<End, Failure> {
    let sql = "select sequence, previous, entry from audit where tenant = $1 order by sequence desc limit 1";
    let Some(last) = connection.first(sql, &[&tenant.as_str()]).await? else {
        return Ok(End { last: None, link: Digest::of_bytes(b"") });
    };
    let (sequence, previous, entry) =
        (row::unsigned(&last, 0)?, row::digest(&last, 1)?, row::bytes(&last, 2)?);
    Ok(End { last: Some(sequence), link: link(sequence, previous, &entry) })
}
