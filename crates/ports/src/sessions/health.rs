//! Whether a session is damaged, and how.

use std::fmt;

use guide::record::EventIndex;

/// Whether a session can be continued, shown in part, or neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionHealth {
    /// All of it was validated.
    Healthy,
    /// A part at its beginning was validated; the rest is damaged. The session can be shown, but not continued.
    CorruptTail {
        damage: Damage,
        /// The first event that is not part of the validated prefix.
        valid_until: EventIndex,
    },
    /// It is damaged from its beginning.
    CorruptHead { damage: Damage },
    /// It was written by a newer version of the program.
    UnknownVersion {
        damage: Damage,
        version: u64,
        /// The first event that is not part of the validated prefix.
        valid_until: EventIndex,
    },
}

/// What is wrong with a session, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub reason: DamageReason,
    /// The file, relative to the session.
    pub file: String,
    /// What was found, in words.
    pub problem: String,
}

canon::error_codes! {
    /// Why a session is not healthy.
    pub enum DamageReason {
        /// The bytes of a segment do not match the digest in the manifest.
        DigestMismatch => "digest_mismatch",
        /// A record or an event is not the next one.
        NonContiguousIndices => "non_contiguous_indices",
        /// The manifest refers to a segment that is missing.
        MissingAttestedSegment => "missing_attested_segment",
        /// A record is of a version that this program does not know.
        UnknownSchemaVersion => "unknown_schema_version",
        /// A record or an event does not follow the format.
        SchemaValidationFailed => "schema_validation_failed",
        /// A node has no pin for its snapshot.
        MissingSnapshotPin => "missing_snapshot_pin",
        /// A segment has an advance without the node or the edge that it leads to.
        UnfinishedAdvance => "unfinished_advance",
        /// The manifest is shorter than it was when it was last read.
        ManifestTruncated => "manifest_truncated",
    }
}

impl SessionHealth {
    /// The name of the state.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::CorruptTail { .. } => "corrupt_tail",
            Self::CorruptHead { .. } => "corrupt_head",
            Self::UnknownVersion { .. } => "unknown_version",
        }
    }

    /// Whether the session can be executed.
    pub const fn is_healthy(&self) -> bool {
        matches!(self, Self::Healthy)
    }

    /// What is wrong, if anything.
    pub const fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Healthy => None,
            Self::CorruptTail { damage, .. }
            | Self::CorruptHead { damage }
            | Self::UnknownVersion { damage, .. } => Some(damage),
        }
    }

    /// How many events were validated although the session is damaged.
    pub const fn valid_events(&self) -> u64 {
        match self {
            Self::Healthy | Self::CorruptHead { .. } => 0,
            Self::CorruptTail { valid_until, .. } | Self::UnknownVersion { valid_until, .. } => valid_until.0,
        }
    }
}

impl fmt::Display for SessionHealth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => formatter.write_str("healthy"),
            Self::CorruptTail { damage, valid_until } => {
                write!(formatter, "damaged after its first {} events: {damage}", valid_until.0)
            }
            Self::CorruptHead { damage } => write!(formatter, "damaged from its beginning: {damage}"),
            Self::UnknownVersion { damage, version, .. } => {
                write!(formatter, "of version {version}, which this program does not know: {damage}")
            }
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} in {}: {}", self.reason.as_str(), self.file, self.problem)
    }
}
