//! Whether the log of a session is authentic.
//!
//! A store authenticates each append with a key of its own, over the append before it and the records of this one. Computing
//! digests again is then not enough to hide an edit.

use guide::record::EventIndex;

canon::error_codes! {
    /// Why the log of a session does not agree with its chain.
    pub enum ChainBreak {
        /// A MAC does not match: an event, a record of the manifest or the chain was edited.
        Mismatch => "chain_mismatch",
        /// The log has appends that the chain does not cover.
        Incomplete => "chain_incomplete",
        /// The chain covers acknowledged appends that the log does not have.
        LogTruncated => "log_truncated",
        /// The chain was made with a different integrity key.
        OtherKey => "chain_other_key",
        /// There is a chain and no integrity key.
        KeyMissing => "chain_key_missing",
        /// The file does not have the format of a chain.
        Invalid => "chain_invalid",
    }
}

/// What the chain of a session says about its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainState {
    /// The session has none: it was written by a version without chains. The next append begins one.
    Missing,
    /// The log is damaged already, so there is nothing to compare.
    Unchecked,
    /// Every append is authentic.
    Intact {
        /// Events before this one were there when the chain began. It vouches that they have not changed since.
        begun_at: EventIndex,
    },
    Broken {
        reason: ChainBreak,
        /// What was found, in words.
        problem: String,
    },
}

impl ChainState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unchecked => "unchecked",
            Self::Intact { .. } => "intact",
            Self::Broken { .. } => "broken",
        }
    }

    pub const fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    /// Whether the log is authentic from its first event on.
    pub const fn covers_everything(&self) -> bool {
        matches!(self, Self::Intact { begun_at: EventIndex::FIRST })
    }
}
