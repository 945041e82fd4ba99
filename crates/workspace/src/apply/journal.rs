//! The journal of a promotion, for recovery by the next process.
//!
//! The journal is one small file that is replaced atomically. While it says `promoting`, recovery
//! undoes the moves of the staging folder; once it says `committed`, the new workspace is valid and
//! recovery only cleans up. A single rename separates the two.

use serde::{Deserialize, Serialize};

use super::lease::Lease;
use super::state::{self, Durable};
use crate::Error;
use crate::rooted::Dir;

/// The name of the journal in the state folder. Without it, no promotion is in progress.
pub(super) const FILE_NAME: &str = "journal.json";

/// The largest journal, in bytes: two leases and fifteen displacements.
const MAX_BYTES: u64 = 4 << 20;

/// The phase of a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Slots are being moved. Recovery undoes this.
    Promoting,
    /// All slots are moved. Recovery finishes this.
    Committed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) version: u32,
    pub(super) state: Phase,
    /// The folder below the state folder with the staged trees and `moves.jsonl`.
    pub(super) staging: String,
    pub(super) lease: Lease,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<Lease>,
    /// Displaced entries that are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) displaced: Vec<Displaced>,
}

/// A displaced entry that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Displaced {
    /// Where it may be after the promotion: one of these, below the root.
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
            // The journal was never written.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.map_err(&io)?,
        }
        state.sync().map_err(io)
    }
}
