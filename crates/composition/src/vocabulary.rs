//! The closed sets of the specification: kinds, statuses, owners.
//!
//! Every set is an enum with its wire names, so that the compiler finds every `match` for a new member.

mod key;
mod kind;
mod owner;
mod status;

pub use key::Key;
pub(crate) use key::compare_before_colon;
pub use kind::{ContributionKind, RendererKind};
pub use owner::{Owner, OwnerKind};
pub use status::{FallbackStatus, NonReadyStatus, RuntimeStatus, StatusSet};

/// Implements the wire spelling of a closed set: `as_str`, `parse`, `Display` and `Serialize`.
macro_rules! wire_names {
    ($name:ident { $($variant:ident => $text:literal),+ $(,)? }) => {
        impl $name {
            /// Every member, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The wire name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Parses a wire name.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}
pub(crate) use wire_names;

/// Where an appender puts its content, relative to the message.
///
/// Declared in byte order of the wire names, which is also the order of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppenderPosition {
    /// Below the message.
    After,
    /// Above the message.
    Before,
}

wire_names!(AppenderPosition { After => "after", Before => "before" });
