//! Limits on the number of envelopes.

use crate::completion::Counter;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The limits, as named in events.
    pub enum CapKind {
        /// All envelopes of a turn.
        Envelopes => "envelopes",
        /// Rounds about an envelope schema.
        Schema => "schema",
        /// Questions to people.
        Clarification => "clarification",
    }
}

impl CapKind {
    /// The name in the capability document.
    pub const fn limit(self) -> &'static str {
        match self {
            Self::Envelopes => "envelopesPerTurn",
            Self::Schema => "schemaRounds",
            Self::Clarification => "clarificationRounds",
        }
    }
}

/// Current counts and limits. A missing counter means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub envelopes: Option<Counter>,
    pub schema: Option<Counter>,
    pub clarification: Option<Counter>,
}

impl Counters {
    pub const fn get(&self, kind: CapKind) -> Option<Counter> {
        match kind {
            CapKind::Envelopes => self.envelopes,
            CapKind::Schema => self.schema,
            CapKind::Clarification => self.clarification,
        }
    }

    /// The first of the given limits that is reached.
    pub fn breached(&self, kinds: &[CapKind]) -> Option<(CapKind, Counter)> {
        let reached = |kind: &CapKind| {
            self.get(*kind).filter(|counter| counter.is_reached()).map(|counter| (*kind, counter))
        };
        kinds.iter().find_map(reached)
    }
}
