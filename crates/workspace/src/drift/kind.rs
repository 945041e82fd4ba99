//! The kinds of drift and their severity.

use std::fmt;

use serde::Serialize;

use crate::slot::Mode;

/// How an entry differs from the applied plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Missing,
    /// It was not applied.
    Extra,
    /// Its bytes differ.
    Modified,
    /// Its permission bits differ.
    ModeChanged,
    /// Its type differs.
    TypeChanged,
    /// The link has another target.
    SymlinkChanged,
    /// The link leaves its slot.
    UnsafeSymlink,
    /// It cannot be inspected.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Allowed for the agent.
    Info,
    /// Worth knowing.
    Warning,
    /// The workspace does not match the plan.
    Critical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In a read-only slot.
    ReadOnly,
    /// In a read-write slot.
    ReadWrite,
    /// A read-only file in a read-write slot.
    ReadOnlyIn,
    /// Outside the slots.
    Outside,
}

impl Location {
    /// The location of an entry in a slot with this grant; `mode` are the permission bits of its
    /// line.
    pub(super) fn of(granted: Mode, mode: Option<u32>) -> Self {
        match granted {
            Mode::ReadOnly => Self::ReadOnly,
            Mode::ReadWrite if mode.is_some_and(|bits| bits & 0o222 == 0) => Self::ReadOnlyIn,
            Mode::ReadWrite => Self::ReadWrite,
        }
    }
}

impl Kind {
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

    /// The wire name.
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

    #[rustfmt::skip]
    pub(super) const fn severity(self, place: Location) -> Severity {
        use Severity::{Critical, Info, Warning};
        let [read_only, read_write, read_only_in, outside] = match self {
            Self::Missing | Self::SymlinkChanged => [Critical, Info,     Info,     Critical],
            // Agents may not write outside their slots; other files that a person keeps in the root
            // are harmless.
            Self::Extra                          => [Critical, Info,     Info,     Warning],
            Self::Modified                       => [Critical, Info,     Warning,  Critical],
            Self::ModeChanged                    => [Warning,  Info,     Info,     Warning],
            Self::TypeChanged | Self::Unreadable => [Critical, Warning,  Warning,  Critical],
            Self::UnsafeSymlink                  => [Critical, Critical, Critical, Critical],
        };
        match place {
            Location::ReadOnly => read_only,
            Location::ReadWrite => read_write,
            Location::ReadOnlyIn => read_only_in,
            Location::Outside => outside,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Severity {
    /// The wire name.
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
            assert_eq!(kind.severity(Location::of(Mode::ReadOnly, Some(0o644))), read_only, "{kind}");
            assert_eq!(kind.severity(Location::of(Mode::ReadWrite, Some(0o644))), read_write, "{kind}");
            assert_eq!(kind.severity(Location::of(Mode::ReadWrite, None)), read_write, "{kind}");
            assert_eq!(kind.severity(Location::of(Mode::ReadWrite, Some(0o444))), read_only_entry, "{kind}");
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
