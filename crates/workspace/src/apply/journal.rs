//! What is being put in place, so that it can be undone or finished by whoever comes next.
//!
//! The journal is one small file, replaced as a whole. While it says `promoting`, the moves of the
//! staging folder are undone; once it says `committed`, the new workspace is the one that counts, and what is left is
//! tidying. Between the two is one rename.

use serde::{Deserialize, Serialize};

use super::lease::Lease;
use super::state::{self, Durable};
use crate::Error;
use crate::rooted::Dir;

/// The name of the journal in the state folder. Where there is none, nothing is going on.
pub(super) const FILE_NAME: &str = "journal.json";

/// The most bytes of a journal that are read: two leases and fifteen displacements.
const MAX_BYTES: u64 = 4 << 20;

/// How far a promotion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Slots are being moved. To be undone.
    Promoting,
    /// All slots are in place. To be finished.
    Committed,
}

/// The journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) version: u32,
    pub(super) state: Phase,
    /// The folder below the state folder that has the staged trees and `moves.jsonl`.
    pub(super) staging: String,
    /// The lease as it will be.
    pub(super) lease: Lease,
    /// The lease as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Lease>,
    /// What is kept of that which had to give way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) displaced: Vec<Displaced>,
}

/// Something that had to give way and is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Displaced {
    /// Where it can be after the promotion: one of these, below the root.
    pub(super) from: [String; 2],
    /// Where it is kept, below the state folder.
    pub(super) to: String,
}

impl Journal {
    pub(super) fn read(state: &Dir) -> Result<Option<Self>, Error> {
        let journal = state::read_json::<Self>(state, FILE_NAME, MAX_BYTES)?;
        if let Some(journal) = &journal {
            state::check_version(FILE_NAME, journal.version)?;
        }
        Ok(journal)
    }

    pub(super) fn write(&self, state: &Dir) -> Result<(), Error> {
        state::write(state, FILE_NAME, &state::json(self), Durable::Yes)
    }

    pub(super) fn remove(state: &Dir) -> Result<(), Error> {
        let io = state::failed("remove", FILE_NAME);
        match state.remove_file(FILE_NAME) {
            // It was never written.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.map_err(&io)?,
        }
        state.sync().map_err(io)
    }
}
