//! What can be wrong with a definition.

use std::fmt;

use serde::Serialize;

use super::RefusedType;
use crate::id::NodeId;

/// The longest message, in bytes: a few lines.
pub const MAX_MESSAGE_BYTES: usize = 1000;

/// One thing that is wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where, as a JSON pointer.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The capability that the host would have to serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_capability: Option<&'static str>,
    /// The type that needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offending_type_id: Option<String>,
    /// The node that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Why the pack that names the type does not serve it.
    #[serde(skip)]
    pub refused: Option<RefusedType>,
}

impl Problem {
    /// A problem at a place.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: shortened(message.into()),
            required_capability: None,
            offending_type_id: None,
            node_id: None,
            refused: None,
        }
    }
}

/// A schema that is not met tells what it met, and that may be most of the document.
fn shortened(mut message: String) -> String {
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
