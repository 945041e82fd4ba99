//! What can have drifted, and how bad it is.

use std::fmt;

use serde::Serialize;

use crate::slot::Mode;

/// In what way something is not as applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It is gone.
    Missing,
    /// It was not applied.
    Extra,
    /// Its bytes are others.
    Modified,
    /// Its permission bits are others.
    ModeChanged,
    /// It is another kind of thing.
    TypeChanged,
    /// The link points elsewhere.
    SymlinkChanged,
    /// The link leads out of its slot.
    UnsafeSymlink,
    /// It cannot be looked at.
    Unreadable,
}

/// How bad a drift is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// What the agent was given the right to do.
    Info,
    /// Worth knowing.
    Warning,
    /// The workspace is not what was declared.
    Critical,
}

/// Where a drift is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a slot that the agent may only read.
    ReadOnly,
    /// In a slot that the agent may write.
    ReadWrite,
    /// In a slot that the agent may write, a file that it may not.
    ReadOnlyIn,
    /// In no slot.
    Outside,
}

impl Place {
    /// The place of something in a slot granted like this; `mode` are the permission bits of its line.
    pub(super) fn of(granted: Mode, mode: Option<u32>) -> Self {
        match granted {
            Mode::ReadOnly => Self::ReadOnly,
            Mode::ReadWrite if mode.is_some_and(|bits| bits & 0o222 == 0) => Self::ReadOnlyIn,
            Mode::ReadWrite => Self::ReadWrite,
        }
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Missing,
        Self::Extra,
        Self::Modified,
        Self::ModeChanged,
        Self::TypeChanged,
        Self::SymlinkChanged,
        Self::UnsafeSymlink,
        Self::Unreadable,
    ];

    /// The spelling in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Modified => "modified",
            Self::ModeChanged => "mode-changed",
            Self::TypeChanged => "type-changed",
            Self::SymlinkChanged => "symlink-changed",
            Self::UnsafeSymlink => "unsafe-symlink",
            Self::Unreadable => "unreadable",
        }
    }

    /// How bad it is.
    #[rustfmt::skip]
    pub(super) const fn severity(self, place: Place) -> Severity {
        use Severity::{Critical, Info, Warning};
        let [read_only, read_write, read_only_in, outside] = match self {
            Self::Missing | Self::SymlinkChanged => [Critical, Info,     Info,     Critical],
            // An agent has no right to write outside its slots; a person who keeps other files in the root does no harm.
            Self::Extra                          => [Critical, Info,     Info,     Warning],
            Self::Modified                       => [Critical, Info,     Warning,  Critical],
            Self::ModeChanged                    => [Warning,  Info,     Info,     Warning],
            Self::TypeChanged | Self::Unreadable => [Critical, Warning,  Warning,  Critical],
            Self::UnsafeSymlink                  => [Critical, Critical, Critical, Critical],
        };
        match place {
            Place::ReadOnly => read_only,
            Place::ReadWrite => read_write,
            Place::ReadOnlyIn => read_only_in,
            Place::Outside => outside,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Severity {
    /// The spelling in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn the_table_of_severities() {
        use Severity::{Critical, Info, Warning};
        let table = [
            (Kind::Missing,        Critical, Info,     Info),
            (Kind::Extra,          Critical, Info,     Info),
            (Kind::Modified,       Critical, Info,     Warning),
            (Kind::ModeChanged,    Warning,  Info,     Info),
            (Kind::TypeChanged,    Critical, Warning,  Warning),
            (Kind::SymlinkChanged, Critical, Info,     Info),
            (Kind::UnsafeSymlink,  Critical, Critical, Critical),
            (Kind::Unreadable,     Critical, Warning,  Warning),
        ];
        assert_eq!(table.map(|(kind, ..)| kind), Kind::ALL);
        for (kind, read_only, read_write, read_only_entry) in table {
            assert_eq!(kind.severity(Place::of(Mode::ReadOnly, Some(0o644))), read_only, "{kind}");
            assert_eq!(kind.severity(Place::of(Mode::ReadWrite, Some(0o644))), read_write, "{kind}");
            assert_eq!(kind.severity(Place::of(Mode::ReadWrite, None)), read_write, "{kind}");
            assert_eq!(kind.severity(Place::of(Mode::ReadWrite, Some(0o444))), read_only_entry, "{kind}");
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
