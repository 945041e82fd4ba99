//! Runtime statuses, as resolved by the host.

use super::wire_names;

/// The state of a module instance, resolved by the host before composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuntimeStatus {
    /// Everything works.
    Ready,
    /// Reading is allowed, writing is not.
    ReadOnly,
    /// It must be configured first.
    NeedsConfiguration,
    /// The user is not allowed to use it.
    Unauthorized,
    Disabled,
    Error,
}

wire_names!(RuntimeStatus {
    Ready => "ready",
    ReadOnly => "readOnly",
    NeedsConfiguration => "needsConfiguration",
    Unauthorized => "unauthorized",
    Disabled => "disabled",
    Error => "error",
});

impl RuntimeStatus {
    /// The status as a non-ready status, if it is one.
    pub const fn non_ready(self) -> Option<NonReadyStatus> {
        match self {
            Self::Ready => None,
            Self::ReadOnly => Some(NonReadyStatus::ReadOnly),
            Self::NeedsConfiguration => Some(NonReadyStatus::NeedsConfiguration),
            Self::Unauthorized => Some(NonReadyStatus::Unauthorized),
            Self::Disabled => Some(NonReadyStatus::Disabled),
            Self::Error => Some(NonReadyStatus::Error),
        }
    }
}

/// A status other than `ready`, declared in the status order of the ordering contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NonReadyStatus {
    /// See [`RuntimeStatus::ReadOnly`].
    ReadOnly,
    /// See [`RuntimeStatus::NeedsConfiguration`].
    NeedsConfiguration,
    /// See [`RuntimeStatus::Unauthorized`].
    Unauthorized,
    /// See [`RuntimeStatus::Disabled`].
    Disabled,
    /// See [`RuntimeStatus::Error`].
    Error,
}

wire_names!(NonReadyStatus {
    ReadOnly => "readOnly",
    NeedsConfiguration => "needsConfiguration",
    Unauthorized => "unauthorized",
    Disabled => "disabled",
    Error => "error",
});

/// The status that a fallback surface matches. A concrete status sorts before `anyNonReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FallbackStatus {
    /// Exactly this status.
    Concrete(NonReadyStatus),
    /// Any status except `ready`.
    AnyNonReady,
}

impl FallbackStatus {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Concrete(status) => status.as_str(),
            Self::AnyNonReady => "anyNonReady",
        }
    }

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "anyNonReady" => Some(Self::AnyNonReady),
            _ => NonReadyStatus::parse(text).map(Self::Concrete),
        }
    }
}

impl serde::Serialize for FallbackStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A set of runtime statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusSet(u8);

impl StatusSet {
    /// Never active.
    pub const EMPTY: Self = Self(0);
    /// The default of content.
    pub const READY: Self = Self::EMPTY.with(RuntimeStatus::Ready);
    /// The default of configuration surfaces.
    pub const CONFIGURABLE: Self =
        Self::READY.with(RuntimeStatus::ReadOnly).with(RuntimeStatus::NeedsConfiguration);
    /// The default of integration surfaces.
    pub const CONNECTABLE: Self =
        Self::CONFIGURABLE.with(RuntimeStatus::Unauthorized).with(RuntimeStatus::Error);

    #[must_use]
    pub const fn with(self, status: RuntimeStatus) -> Self {
        Self(self.0 | 1 << status as u8)
    }

    /// Whether `status` is in the set.
    pub const fn contains(self, status: RuntimeStatus) -> bool {
        self.0 & 1 << status as u8 != 0
    }

    /// The members, in the order of [`RuntimeStatus`].
    pub fn iter(self) -> impl Iterator<Item = RuntimeStatus> {
        RuntimeStatus::ALL.iter().copied().filter(move |status| self.contains(*status))
    }
}

impl serde::Serialize for StatusSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}
