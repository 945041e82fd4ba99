//! How many envelopes there may be.

use crate::completion::Counter;
use crate::words::words;

words! {
    /// The limits, as events name them.
    pub enum CapKind {
        /// Of all envelopes of a turn.
        Envelopes => "envelopes",
        /// Of rounds about the schema of an envelope.
        Schema => "schema",
        /// Of questions to people.
        Clarification => "clarification",
    }
}

impl CapKind {
    /// The limit, as capabilities name it.
    pub const fn limit(self) -> &'static str {
        match self {
            Self::Envelopes => "envelopesPerTurn",
            Self::Schema => "schemaRounds",
            Self::Clarification => "clarificationRounds",
        }
    }
}

/// How many there were, against how many there may be. Without a counter there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Envelopes of this turn.
    pub envelopes: Option<Counter>,
    /// Rounds about the schema.
    pub schema: Option<Counter>,
    /// Questions to people.
    pub clarification: Option<Counter>,
}

impl Counters {
    /// A counter.
    pub const fn get(&self, kind: CapKind) -> Option<Counter> {
        match kind {
            CapKind::Envelopes => self.envelopes,
            CapKind::Schema => self.schema,
            CapKind::Clarification => self.clarification,
        }
    }

    /// The first of some limits that is reached.
    pub fn breached(&self, kinds: &[CapKind]) -> Option<(CapKind, Counter)> {
        let reached = |kind: &CapKind| {
            self.get(*kind).filter(|counter| counter.is_reached()).map(|counter| (*kind, counter))
        };
        kinds.iter().find_map(reached)
    }
}
