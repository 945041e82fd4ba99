//! Problems of definitions.

use std::fmt;

use serde::Serialize;

use super::RefusedType;
use crate::id::NodeId;

/// The maximum length of a message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The location, as a JSON pointer.
    pub path: String,
    /// What is wrong, or what is expected.
    pub message: String,
    /// The capability that the host lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_capability: Option<&'static str>,
    /// The node type that requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offending_type_id: Option<String>,
    /// The node that has the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Why the pack that provides the node type cannot be used.
    #[serde(skip)]
    pub refused: Option<RefusedType>,
}

impl Problem {
    /// A problem at a location.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: truncated(message.into()),
            required_capability: None,
            offending_type_id: None,
            node_id: None,
            refused: None,
        }
    }
}

/// Truncates a message. A violation of a schema quotes the invalid value, which can be most of the document.
fn truncated(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    message
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)
    }
}
