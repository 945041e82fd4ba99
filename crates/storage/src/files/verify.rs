//! Looking at everything a session needs, and not only at what the next step needs.

use std::collections::BTreeSet;

use guide::record::SessionId;

use super::{SessionFiles, SessionHealth, objects, writer};
use crate::error::{ObjectKind, StoreError};

/// What a full look at a session found.
#[derive(Debug)]
pub struct Verification {
    /// Whether its log is healthy.
    pub health: SessionHealth,
    /// How many events were validated.
    pub events: usize,
    /// How many snapshots, workflows and artifacts were verified.
    pub objects: usize,
    /// What is missing or damaged beside the log.
    pub problems: Vec<StoreError>,
}

impl Verification {
    /// Whether nothing at all is wrong.
    pub const fn is_sound(&self) -> bool {
        self.health.is_healthy() && self.problems.is_empty()
    }
}

impl SessionFiles {
    /// Reads all of a session, and everything it refers to, from the disk.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and those of the disk that concern the log itself.
    pub fn verify(&self, session: &SessionId) -> Result<Verification, StoreError> {
        self.0.snapshots.forget();
        let prefix = self.load_validated_prefix(session)?;
        let needed: BTreeSet<_> = prefix.loaded.events.iter().flat_map(writer::references).collect();
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
            events: prefix.loaded.events.len(),
            objects: verified,
            problems,
        })
    }
}
