//! Ids and indexes. Each kind has its own type.

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Defines an id type whose JSON Schema states its format.
macro_rules! identifiers {
    ($($(#[$docs:meta])* $name:ident = $prefix:literal;)+) => {
        $(
            canon::typed_id!($(#[$docs])* $name, $prefix);

            impl JsonSchema for $name {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    schemars::json_schema!({
                        "type": "string",
                        "pattern": concat!("^", $prefix, "[A-Za-z0-9_-]{1,128}$"),
                    })
                }
            }

            impl $name {
                /// The id of this kind that is derived from `parts` only.
                pub fn derived(parts: &[&str]) -> Self {
                    Self::parse(&derive_id($prefix, parts)).expect("a derived id has the form of its kind")
                }
            }
        )+
    };
}

identifiers! {
    /// One durable session: a separate log with one writer.
    SessionId = "sess_";
    /// One run of one pinned workflow within a session.
    RunId = "run_";
    /// One node of a run's graph.
    NodeId = "node_";
    /// One attempt to advance a node. Derived, not random: every issued token can be computed again from the
    /// log.
    AttemptId = "attempt_";
    /// One event. Derived from the session and its index.
    EventId = "evt_";
    /// One durable output.
    OutputId = "out_";
    /// One disclosed gap.
    GapId = "gap_";
    /// One decision trace.
    TraceId = "trace_";
    /// One recorded context.
    ContextId = "ctx_";
}

/// The digest of a compiled workflow, to which a run is pinned.
pub type WorkflowHash = Digest;

/// `prefix` and 26 characters of lower-case base32: the first 128 bits of the SHA-256 of the prefix and the
/// parts, each terminated by a NUL so that different lists of parts never hash the same bytes.
pub fn derive_id(prefix: &str, parts: &[&str]) -> String {
    let mut bytes = Vec::with_capacity(64);
    for part in std::iter::once(&prefix).chain(parts) {
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(0);
    }
    let digest = Digest::of_bytes(&bytes);
    format!("{prefix}{}", canon::encoding::base32(&digest.as_bytes()[..16]))
}

/// Defines a dense, zero-based index.
macro_rules! positions {
    ($($(#[$docs:meta])* $name:ident;)+) => {
        $(
            $(#[$docs])*
            #[derive(
                Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
            )]
            #[serde(transparent)]
            pub struct $name(pub u64);

            impl $name {
                pub const FIRST: Self = Self(0);

                #[must_use]
                pub const fn next(self) -> Self {
                    Self(self.0 + 1)
                }
            }
        )+
    };
}

positions! {
    /// The index of an event in its session. It alone defines the order.
    EventIndex;
    /// The index of a record in a session's manifest.
    ManifestIndex;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_stable_and_differ_for_different_parts() {
        assert_eq!(derive_id("node_", &["a", "b"]), derive_id("node_", &["a", "b"]));
        assert_ne!(derive_id("node_", &["a", "b"]), derive_id("node_", &["ab", ""]));
        assert_ne!(derive_id("node_", &["a"]), derive_id("run_", &["a"]));
        assert_eq!(derive_id("evt_", &["x"]).len(), 4 + 26);
        assert!(SessionId::parse(&derive_id("sess_", &["x"])).is_ok());
    }
}
