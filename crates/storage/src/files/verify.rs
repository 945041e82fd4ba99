//! Verifies a session and everything that it refers to.

use std::collections::BTreeSet;

use guide::record::SessionId;

use ports::sessions::{ChainBreak, ChainState, ObjectKind, StoreError, Verification};

use super::{SessionFiles, ValidatedPrefix, chain, layout, objects};

impl SessionFiles {
    /// Reads and verifies a whole session and everything that it refers to, from disk.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and disk errors that concern the log itself.
    pub fn verify(&self, session: &SessionId) -> Result<Verification, StoreError> {
        self.0.snapshots.forget();
        let (prefix, chain) = self.load_with_chain(session)?;
        let needed: BTreeSet<_> = prefix.loaded.events.iter().flat_map(sessionlog::references).collect();
        let mut problems = Vec::new();
        let mut verified = 0;
        for (kind, digest) in &needed {
            let read = match kind {
                ObjectKind::Snapshot => self.snapshot(guide::record::SnapshotRef(*digest)).map(drop),
                ObjectKind::Workflow | ObjectKind::Artifact => {
                    objects::get(self.disk().as_ref(), *kind, *digest).map(drop)
                }
            };
            match read {
                Ok(()) => verified += 1,
                Err(problem) => problems.push(problem),
            }
        }
        problems.extend(self.salvaged(session).err());
        Ok(Verification {
            health: prefix.health,
            chain,
            events: prefix.loaded.events.len(),
            objects: verified,
            problems,
        })
    }
    /// Reads a session and verifies its chain.
    ///
    /// Writers are not locked out: a broken chain is reported only if the chain did not change while the log was read.
    fn load_with_chain(&self, session: &SessionId) -> Result<(ValidatedPrefix, ChainState), StoreError> {
        let (disk, dir) = (self.disk().as_ref(), layout::session(session));
        let mut before = chain::read(disk, &dir)?;
        for _ in 1..ATTEMPTS {
            let (prefix, state) = self.compare_with_chain(session, before.as_deref())?;
            let after = chain::read(disk, &dir)?;
            if !state.is_broken() || after == before {
                return Ok((prefix, state));
            }
            before = after;
        }
        self.compare_with_chain(session, before.as_deref())
    }

    fn compare_with_chain(
        &self,
        session: &SessionId,
        chain: Option<&[u8]>,
    ) -> Result<(ValidatedPrefix, ChainState), StoreError> {
        let prefix = self.load_validated_prefix(session)?;
        let state = match chain {
            None => ChainState::Missing,
            Some(_) if !prefix.health.is_healthy() => ChainState::Unchecked,
            Some(chain) => match self.integrity_key() {
                Ok(key) => sessionlog::chain::check(key.as_ref(), session, chain, &prefix.loaded.manifest),
                Err(error @ StoreError::Damaged { .. }) => {
                    ChainState::Broken { reason: ChainBreak::KeyMissing, problem: error.to_string() }
                }
                Err(error) => return Err(error),
            },
        };
        Ok((prefix, state))
    }
}

/// How many times a session is read again because it changed in the meantime.
const ATTEMPTS: usize = 4;
