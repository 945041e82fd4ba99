//! Errors of a store: many causes, few codes.

use std::io;

use canon::digest::Digest;
use canon::error::{Envelope, Retry};
use guide::record::{EventIndex, SessionId};
use guide::token::{KeyringError, KeyringErrorCode};

use super::SessionHealth;
use crate::Cause;

/// How long a caller waits before it retries a busy session. An append takes a few milliseconds; a person does not notice
/// this, and a queue of agents drains well within it.
pub const RETRY_AFTER_MS: u64 = 250;

canon::error_codes! {
    pub enum StoreErrorCode {
        /// Another writer has the session.
        SessionLocked => "SESSION_LOCKED",
        /// The session is damaged, or of a newer version.
        SessionNotHealthy => "SESSION_NOT_HEALTHY",
        /// The session does not exist.
        SessionUnknown => "SESSION_UNKNOWN",
        /// A session with this id exists already.
        SessionExists => "SESSION_EXISTS",
        /// Something was appended to the session since it was read.
        SessionMoved => "SESSION_MOVED",
        /// Garbage is being collected, or a writer keeps it from being collected.
        StoreBusy => "STORE_BUSY",
        /// The disk reported an error.
        StoreIo => "STORE_IO",
        /// The disk is full.
        StoreFull => "STORE_FULL",
        /// The data directory cannot be written.
        StoreReadOnly => "STORE_READ_ONLY",
        /// The data directory, or something in it, was written by a newer version.
        StoreNewerVersion => "STORE_NEWER_VERSION",
        /// A file that belongs to no session cannot be read.
        StoreDamaged => "STORE_DAMAGED",
        /// A snapshot, workflow or artifact is missing.
        StoreObjectMissing => "STORE_OBJECT_MISSING",
        /// The content of a snapshot, workflow or artifact does not match its digest.
        StoreObjectDamaged => "STORE_OBJECT_DAMAGED",
        /// Something is larger than the store accepts.
        StoreTooLarge => "STORE_TOO_LARGE",
    }
}

/// The kinds of objects that are stored under the digest of their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// The state of a run at a node.
    Snapshot,
    /// A compiled workflow.
    Workflow,
    /// A large output.
    Artifact,
}

impl ObjectKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Workflow => "workflow",
            Self::Artifact => "artifact",
        }
    }
}

/// Why an operation of a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another writer has the session.
    #[error("session {session} is being written by another process or request")]
    Locked { session: SessionId },
    /// The session cannot be executed.
    #[error("session {session} is {}", .health)]
    NotHealthy {
        session: SessionId,
        /// What is wrong with it.
        health: Box<SessionHealth>,
    },
    /// The session does not exist.
    #[error("session {session} not found")]
    Unknown { session: SessionId },
    /// A session with this id exists already.
    #[error("there is a session {session} already")]
    Exists { session: SessionId },
    /// The plan was made for another end of the log.
    #[error("session {session} is at event {}, but the plan starts at event {}", tip.0, planned.0)]
    Moved {
        session: SessionId,
        /// The index of the next event.
        tip: EventIndex,
        /// The index that the plan begins with.
        planned: EventIndex,
    },
    /// An append of this writer failed, so it no longer knows what is on the disk.
    #[error("the last append to session {session} failed, and its lock must be acquired again")]
    Spent { session: SessionId },
    /// The whole store is locked.
    #[error("the store is busy: {with}")]
    Busy { with: &'static str },
    /// It is not known whether an append was recorded: the store failed while it became durable. Reading the session again
    /// tells. Repeating the call is safe, because a recorded call is answered from the log.
    #[error(
        "the store failed while an append to session {session} became durable; it may have been recorded"
    )]
    OutcomeUnknown {
        session: SessionId,
        #[source]
        cause: Box<StoreError>,
    },
    /// The disk reported an error.
    #[error("the disk failed to {doing} {path}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// To what, relative to the data directory.
        path: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The database that holds the sessions failed.
    #[error("the database of sessions failed")]
    Database {
        /// Whether it has no space left.
        is_full: bool,
        #[source]
        cause: Cause,
    },
    /// The data directory is of a newer version.
    #[error("the data directory has format {found}, and this program knows formats up to {known}")]
    NewerVersion {
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// A file of the store itself is not readable.
    #[error("{path} is damaged: {problem}")]
    Damaged {
        /// Which file, relative to the data directory.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The keys cannot be used. The envelope has a code of their own.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    #[error("{} {digest} not found", kind.as_str())]
    ObjectMissing { kind: ObjectKind, digest: Digest },
    /// The content of an object does not match its digest.
    #[error("the {} {digest} is damaged: {problem}", kind.as_str())]
    ObjectDamaged {
        kind: ObjectKind,
        digest: Digest,
        /// What is wrong with it.
        problem: String,
    },
    /// A file is of a newer version.
    #[error("{path} has version {found}, and this program knows versions up to {known}")]
    NewerFile {
        /// Which file, relative to the data directory.
        path: String,
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// Something is too large.
    #[error("{what} is {measured} bytes; the limit is {maximum}")]
    TooLarge {
        what: String,
        /// How large it is.
        measured: u64,
        /// How large it may be.
        maximum: u64,
    },
}

impl StoreError {
    /// Wraps an error of the disk.
    pub fn disk<P: ToString + ?Sized>(doing: &'static str, path: &P) -> impl FnOnce(io::Error) -> Self {
        // The path is only formatted when something failed.
        move |cause| Self::Disk { doing, path: path.to_string(), cause }
    }

    /// The code of the store. For errors of the keyring it is only the category; callers get the code in the
    /// [envelope](Self::envelope).
    pub fn code(&self) -> StoreErrorCode {
        match self {
            Self::Locked { .. } => StoreErrorCode::SessionLocked,
            Self::NotHealthy { .. } => StoreErrorCode::SessionNotHealthy,
            Self::Unknown { .. } => StoreErrorCode::SessionUnknown,
            Self::Exists { .. } => StoreErrorCode::SessionExists,
            Self::Moved { .. } | Self::Spent { .. } => StoreErrorCode::SessionMoved,
            Self::Busy { .. } => StoreErrorCode::StoreBusy,
            Self::OutcomeUnknown { cause, .. } => cause.code(),
            Self::Disk { cause, .. } => match cause.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreErrorCode::StoreFull,
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    StoreErrorCode::StoreReadOnly
                }
                io::ErrorKind::FileTooLarge => StoreErrorCode::StoreTooLarge,
                _ => StoreErrorCode::StoreIo,
            },
            Self::Database { is_full: true, .. } => StoreErrorCode::StoreFull,
            Self::Database { is_full: false, .. } => StoreErrorCode::StoreIo,
            Self::NewerVersion { .. } | Self::NewerFile { .. } => StoreErrorCode::StoreNewerVersion,
            Self::Damaged { .. } => StoreErrorCode::StoreDamaged,
            Self::Keyring(error) => match error.code() {
                KeyringErrorCode::Invalid => StoreErrorCode::StoreDamaged,
                KeyringErrorCode::UnsupportedVersion => StoreErrorCode::StoreNewerVersion,
            },
            Self::ObjectMissing { .. } => StoreErrorCode::StoreObjectMissing,
            Self::ObjectDamaged { .. } => StoreErrorCode::StoreObjectDamaged,
            Self::TooLarge { .. } => StoreErrorCode::StoreTooLarge,
        }
    }

    /// Whether the same call can succeed later.
    pub fn retry(&self) -> Retry {
        match self.code() {
            StoreErrorCode::SessionLocked | StoreErrorCode::StoreBusy => Retry::AfterMs(RETRY_AFTER_MS),
            StoreErrorCode::SessionMoved => Retry::Immediate,
            StoreErrorCode::SessionNotHealthy
            | StoreErrorCode::SessionUnknown
            | StoreErrorCode::SessionExists
            | StoreErrorCode::StoreIo
            | StoreErrorCode::StoreFull
            | StoreErrorCode::StoreReadOnly
            | StoreErrorCode::StoreNewerVersion
            | StoreErrorCode::StoreDamaged
            | StoreErrorCode::StoreObjectMissing
            | StoreErrorCode::StoreObjectDamaged
            | StoreErrorCode::StoreTooLarge => Retry::NotRetryable,
        }
    }

    /// The error for a caller: what happened and what to do.
    pub fn envelope(&self) -> Envelope {
        // What to do is the same: repeat the call once the disk works.
        if let Self::OutcomeUnknown { session, cause } = self {
            return cause.envelope().detail("sessionId", session.as_str());
        }
        if let Self::Keyring(error) = self {
            return error.envelope().retry(self.retry()).detail("file", "keys/keyring.json");
        }
        let mut message = self.to_string();
        if let Self::Disk { cause, .. } = self {
            message = format!("{message}: {cause}");
        }
        if let Self::Database { cause, .. } = self {
            message = format!("{message}: {cause}");
        }
        let envelope = Envelope::new(self.code(), message).suggest(self.suggestion()).retry(self.retry());
        match self {
            Self::Locked { session }
            | Self::Unknown { session }
            | Self::Exists { session }
            | Self::Spent { session } => envelope.detail("sessionId", session.as_str()),
            Self::NotHealthy { session, health } => {
                let envelope =
                    envelope.detail("sessionId", session.as_str()).detail("health", health.as_str());
                match health.damage() {
                    Some(damage) => envelope
                        .detail("reason", damage.reason.as_str())
                        .detail("file", damage.file.as_str())
                        .detail("validEvents", health.valid_events()),
                    None => envelope,
                }
            }
            Self::Moved { session, tip, planned } => envelope
                .detail("sessionId", session.as_str())
                .detail("nextEventIndex", tip.0)
                .detail("plannedEventIndex", planned.0),
            Self::Busy { .. } | Self::Keyring(_) | Self::OutcomeUnknown { .. } | Self::Database { .. } => {
                envelope
            }
            Self::Disk { path, .. } | Self::Damaged { path, .. } => envelope.detail("file", path.as_str()),
            Self::NewerVersion { found, known } => envelope.detail("found", *found).detail("known", *known),
            Self::ObjectMissing { kind, digest } | Self::ObjectDamaged { kind, digest, .. } => {
                envelope.detail("kind", kind.as_str()).detail("digest", digest.to_string())
            }
            Self::NewerFile { path, found, known } => {
                envelope.detail("file", path.as_str()).detail("found", *found).detail("known", *known)
            }
            Self::TooLarge { measured, maximum, .. } => {
                envelope.detail("measuredBytes", *measured).detail("maximumBytes", *maximum)
            }
        }
    }

    fn suggestion(&self) -> &'static str {
        if let Self::Database { is_full: false, .. } = self {
            return "Check that PostgreSQL is running and can be reached, then repeat the call: what was acknowledged before is safe.";
        }
        match self.code() {
            StoreErrorCode::SessionLocked => {
                "Wait a moment and repeat the call. If it stays busy, look for another interlock process that uses the same data directory."
            }
            StoreErrorCode::SessionNotHealthy => {
                "Run `interlock session verify` for the session to see what is damaged. What was recorded before the damage can still be shown, and exported with `interlock session export --salvage`; to go on working, start a new run."
            }
            StoreErrorCode::SessionUnknown => {
                "Check the id with `interlock session list`, and that the data directory is the right one."
            }
            StoreErrorCode::SessionExists => "Choose another id, or import it as a new session.",
            StoreErrorCode::SessionMoved => {
                "Read the session again and repeat the call: nothing was recorded twice."
            }
            StoreErrorCode::StoreBusy => "Wait a moment and repeat the call.",
            StoreErrorCode::StoreIo => {
                "Look at the system's log for errors of the disk, then repeat the call: what was acknowledged before is safe."
            }
            StoreErrorCode::StoreFull => {
                "Free disk space, for example with `interlock session gc`, and repeat the call. Nothing was lost."
            }
            StoreErrorCode::StoreReadOnly => {
                "Make the data directory writable for this user, or point INTERLOCK_HOME or --data-dir at one that is."
            }
            StoreErrorCode::StoreNewerVersion => {
                "Use a version of interlock that knows this format, or another data directory. Nothing was changed."
            }
            StoreErrorCode::StoreDamaged => {
                "Restore the file from a backup. Sessions are not affected by it."
            }
            StoreErrorCode::StoreObjectMissing | StoreErrorCode::StoreObjectDamaged => {
                "Run `interlock session verify` to see which sessions need it, and restore the file from a backup or from an exported bundle."
            }
            StoreErrorCode::StoreTooLarge => {
                "Make it smaller, or split it. A session that has reached its limit is continued by a new run."
            }
        }
    }
}
