//! The tools of a conversation and their names for the model.

use std::collections::BTreeMap;

use canon::digest::Digest;
use serde_json::Value;

use crate::provider::Tool;
use crate::schema::Schema;
use crate::wire_enum::wire_enum;

/// The maximum number of tools.
pub const MAX_TOOLS: usize = 64;
/// The maximum size of a description, in bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 4 << 10;
/// The maximum length of a tool name that providers accept.
const MAX_NAME: usize = 64;

wire_enum! {
    /// How a tool is reached.
    pub enum Transport {
        /// On an MCP server.
        Mcp => "mcp",
        /// In the host.
        Native => "native",
    }
}

/// A tool offered to the model.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    /// The tool id used in allow lists.
    pub id: String,
    pub description: String,
    pub schema: Schema,
    pub transport: Transport,
}

/// Why tools cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    #[error("a model can be offered at most {MAX_TOOLS} tools; {0} are configured")]
    Tools(usize),
    #[error("the tool `{0}` is listed twice")]
    Twice(String),
    #[error("the schema of the tool `{0}` must be of type `object`")]
    Schema(String),
}

#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    tools: Vec<(String, OfferedTool)>,
}

impl Toolbox {
    /// Creates a toolbox with these tools, in this order.
    ///
    /// # Errors
    /// There are too many tools, one is listed twice, or one does not take an object.
    pub fn new(offered: Vec<OfferedTool>) -> Result<Self, ToolboxError> {
        if offered.len() > MAX_TOOLS {
            return Err(ToolboxError::Tools(offered.len()));
        }
        let mut plain: BTreeMap<String, usize> = BTreeMap::new();
        for (place, tool) in offered.iter().enumerate() {
            if offered[..place].iter().any(|other| other.id == tool.id) {
                return Err(ToolboxError::Twice(tool.id.clone()));
            }
            if tool.schema.source().get("type").and_then(Value::as_str) != Some("object") {
                return Err(ToolboxError::Schema(tool.id.clone()));
            }
            *plain.entry(plain_name(&tool.id)).or_default() += 1;
        }
        let name = |id: &str| {
            let name = plain_name(id);
            let is_alone = name.len() <= MAX_NAME && plain.get(&name) == Some(&1);
            if is_alone { name } else { distinct_name(&name, id) }
        };
        Ok(Self { tools: offered.into_iter().map(|tool| (name(&tool.id), tool)).collect() })
    }

    /// The tool declarations of a request.
    pub fn declarations(&self) -> Vec<Tool> {
        let declare = |(name, tool): &(String, OfferedTool)| Tool {
            name: name.clone(),
            description: tool.description.clone(),
            schema: tool.schema.source().clone(),
        };
        self.tools.iter().map(declare).collect()
    }

    /// Finds a tool by its name for the model or by its id.
    pub fn find(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|(wire, tool)| wire == name || tool.id == name).map(|(_, tool)| tool)
    }

    /// The name that providers accept: the declared one if the model used the tool's id.
    pub(super) fn name_on_wire(&self, name: &str) -> String {
        let known = self.tools.iter().find(|(wire, tool)| wire == name || tool.id == name);
        let plain = || plain_name(name).chars().take(MAX_NAME).collect::<String>();
        let name = known.map_or_else(plain, |(wire, _)| wire.clone());
        if name.is_empty() { "unknown".to_owned() } else { name }
    }

    /// The names for the model.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|(name, _)| name.as_str())
    }

    /// Whether a tool of another server is included.
    pub fn has_foreign(&self) -> bool {
        self.tools.iter().any(|(_, tool)| tool.transport == Transport::Mcp)
    }
}

/// The id with only characters that every provider accepts.
fn plain_name(id: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    id.chars().map(letter).collect()
}

/// The name made unique with a digest of the id.
fn distinct_name(plain: &str, id: &str) -> String {
    let digest = Digest::of_bytes(id.as_bytes()).to_hex();
    let (digest, kept) = (&digest[..12], plain.len().min(MAX_NAME - 13));
    // All characters are one byte long.
    format!("{}_{digest}", &plain[..kept])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offered(id: &str) -> OfferedTool {
        OfferedTool {
            id: id.to_owned(),
            description: String::new(),
            schema: Schema::compile(&json!({"type": "object"})).unwrap(),
            transport: Transport::Native,
        }
    }

    #[test]
    fn names_are_valid_and_unique() {
        let long = format!("mcp:s:{}", "x".repeat(200));
        let ids = ["mcp:s:find", "mcp:s_find", "openwop:core.storage.kv-get", "mcp:s:über", long.as_str()];
        let toolbox = Toolbox::new(ids.iter().map(|id| offered(id)).collect()).unwrap();
        let names: Vec<&str> = toolbox.names().collect();
        assert_eq!(names[2], "openwop_core_storage_kv-get");
        for (id, name) in ids.iter().zip(&names) {
            assert!((1..=64).contains(&name.len()), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'));
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{names:?}");
            assert_eq!(toolbox.find(name).unwrap().id, *id);
            assert_eq!(toolbox.find(id).unwrap().id, *id);
        }
        assert!(toolbox.find("mcp_s_other").is_none());
        assert_eq!(toolbox.name_on_wire("openwop:core.storage.kv-get"), "openwop_core_storage_kv-get");
        assert_eq!(toolbox.name_on_wire("functions.find"), "functions_find");
        assert_eq!(toolbox.name_on_wire(""), "unknown");
        assert_eq!(toolbox.name_on_wire(&"ü".repeat(300)), "_".repeat(64));
    }

    #[test]
    fn rejects_invalid_tools() {
        let many = (0..=MAX_TOOLS).map(|number| offered(&format!("mcp:{number}"))).collect();
        assert_eq!(Toolbox::new(many).unwrap_err(), ToolboxError::Tools(MAX_TOOLS + 1));
        let twice = Toolbox::new(vec![offered("mcp:a"), offered("mcp:a")]).unwrap_err();
        assert_eq!(twice, ToolboxError::Twice("mcp:a".to_owned()));
        let list =
            OfferedTool { schema: Schema::compile(&json!({"type": "array"})).unwrap(), ..offered("mcp:a") };
        assert_eq!(Toolbox::new(vec![list]).unwrap_err(), ToolboxError::Schema("mcp:a".to_owned()));
    }
}
