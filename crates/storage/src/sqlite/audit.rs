//! The hash chain of the audit log: each entry contains the digest of the previous one.

use std::collections::BTreeMap;

use canon::digest::Digest;
use flow::id::Tenant;
use ports::runs::audit::link;
use rusqlite::{Connection, OptionalExtension as _, params};

/// The ends of the chains that were read in this transaction.
#[derive(Default)]
pub(super) struct Chains {
    ends: BTreeMap<Tenant, End>,
}

#[derive(Clone, Copy)]
struct End {
    next: u64,
    previous: Digest,
}

/// The ends after the current commit, if it is applied.
pub(super) struct Tentative<'c> {
    chains: &'c mut Chains,
    ends: BTreeMap<Tenant, End>,
}

impl Chains {
    pub(super) fn tentative(&mut self) -> Tentative<'_> {
        Tentative { chains: self, ends: BTreeMap::new() }
    }
}

impl Tentative<'_> {
    pub(super) fn keep(self) {
        self.chains.ends.extend(self.ends);
    }

    pub(super) fn append(
        &mut self,
        connection: &Connection,
        tenant: &Tenant,
        entry: &[u8],
    ) -> rusqlite::Result<()> {
        let known = self.ends.get(tenant).or_else(|| self.chains.ends.get(tenant)).copied();
        let end = match known {
            Some(end) => end,
            None => last(connection, tenant)?,
        };
        let mut statement = connection.prepare_cached(
            "INSERT INTO audit (tenant, sequence, previous, entry) VALUES (?1, ?2, ?3, ?4)",
        )?;
        statement.execute(params![tenant.as_str(), end.next, end.previous.to_hex().as_bytes(), entry])?;
        let next = End { next: end.next + 1, previous: link(end.next, end.previous, entry) };
        self.ends.insert(tenant.clone(), next);
        Ok(())
    }
}

fn last(connection: &Connection, tenant: &Tenant) -> rusqlite::Result<End> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, previous, entry FROM audit WHERE tenant = ?1 ORDER BY sequence DESC LIMIT 1",
    )?;
    let found = statement.query_row([tenant.as_str()], |row| {
        Ok((row.get::<_, u64>(0)?, digest(&row.get::<_, Vec<u8>>(1)?), row.get::<_, Vec<u8>>(2)?))
    });
    Ok(match found.optional()? {
        Some((sequence, previous, entry)) => {
            End { next: sequence + 1, previous: link(sequence, previous, &entry) }
        }
        None => End { next: 0, previous: Digest::of_bytes(b"") },
    })
}

pub(super) fn digest(bytes: &[u8]) -> Digest {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    // A damaged link matches no digest.
    Digest::parse(&format!("sha256:{text}")).unwrap_or_else(|_| Digest::of_bytes(bytes))
}
