//! The types of nodes that expose a workflow to MCP clients: as a tool, a resource, a prompt.
//!
//! They do nothing when a run reaches them: the MCP server reads them from the definition, before there is a run. The only exception is
//! the elicitation handler, which suspends its run until a person has answered the form that a client sent.

pub mod address;
mod config;
pub mod form;

use std::fmt;

use serde_json::{Value, json};

pub use self::config::{
    ElicitationConfig, ExposedConfig, PromptArgument, PromptConfig, ResourceConfig, ResourceTemplateConfig,
    RootsConfig, SamplingConfig, ServerTriggerConfig, ToolConfig, Transport,
};

/// The maximum length of the name of a tool or a prompt, in characters.
pub const MAX_NAME_CHARACTERS: usize = 128;
/// The maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARACTERS: usize = 4096;
/// The maximum number of reported violations per set of arguments.
pub const MAX_VIOLATIONS: usize = 50;
/// The maximum length of the message of a violation, in characters.
const MAX_VIOLATION_CHARACTERS: usize = 300;
/// The maximum number of arguments of a prompt.
const MAX_ARGUMENTS: usize = 50;
/// The maximum number of suggested values for an argument of a prompt.
const MAX_VALUES: usize = 1000;

macro_rules! exposed {
    ($(#[doc = $doc:literal] $name:ident => $text:literal $kind:literal,)+) => {
        /// A type of node that exposes its workflow to MCP clients.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ExposedType {
            $(#[doc = $doc] $name,)+
        }

        impl ExposedType {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The spelling in a definition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it does, in one sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $doc.trim_ascii(),)+
                }
            }

            /// What the workflow is exposed as, in the outputs of the node.
            pub const fn kind(self) -> &'static str {
                match self {
                    $(Self::$name => $kind,)+
                }
            }
        }
    };
}

exposed! {
    /// Makes the workflow available to MCP clients.
    ServerTrigger => "core.openwop.mcp.server-trigger" "server-trigger",
    /// Exposes the workflow as a tool: its arguments are the inputs of a run.
    Tool => "core.openwop.mcp.expose-tool" "tool",
    /// Exposes the workflow as a resource: the output of a run is its content.
    Resource => "core.openwop.mcp.expose-resource" "resource",
    /// Exposes the workflow as a family of resources.
    ResourceTemplate => "core.openwop.mcp.expose-resource-template" "resource-template",
    /// Exposes the workflow as a prompt: the output of a run is its messages.
    Prompt => "core.openwop.mcp.expose-prompt" "prompt",
    /// Lets the workflow answer sampling requests.
    Sampling => "core.openwop.mcp.handle-sampling" "sampling",
    /// Asks a person for the answer to an elicitation of a client.
    Elicitation => "core.openwop.mcp.handle-elicitation" "elicitation",
    /// Lists root directories.
    Roots => "core.openwop.mcp.provide-roots" "roots",
}

impl ExposedType {
    /// Parses the spelling in a definition.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// The member of the configuration that names what is exposed.
    pub const fn named_by(self) -> Option<&'static str> {
        match self {
            Self::Tool | Self::Prompt => Some("name"),
            Self::Resource => Some("uri"),
            Self::ResourceTemplate => Some("uriTemplate"),
            Self::ServerTrigger | Self::Sampling | Self::Elicitation | Self::Roots => None,
        }
    }
}

impl fmt::Display for ExposedType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Validates the arguments of a tool.
#[derive(Debug)]
pub struct Arguments(jsonschema::Validator);

impl Arguments {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The schema is invalid for arguments. It must not contain references: validating against a recursive schema could take arbitrarily
    /// long, depending on the arguments.
    pub fn read(schema: &Value) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("the arguments of a tool are an object: `type` must be `object`".to_owned());
        }
        if has_reference(schema) {
            return Err(
                "the schema of a tool must not contain references; inline what `$ref` refers to".to_owned()
            );
        }
        super::schema::compiled(schema).map(Self)
    }

    /// What is wrong with arguments, with the location of each problem: at most [`MAX_VIOLATIONS`].
    pub fn violations(&self, given: &Value) -> Vec<Value> {
        let violations = self.0.iter_errors(given).take(MAX_VIOLATIONS).map(|error| {
            let message: String = error.to_string().chars().take(MAX_VIOLATION_CHARACTERS).collect();
            json!({"path": error.instance_path().to_string(), "message": message})
        });
        violations.collect()
    }
}

/// Whether a schema contains a reference. The depth of documents is limited, so the recursion is bounded.
fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") || has_reference(value)
        }),
        Value::Array(values) => values.iter().any(has_reference),
        _ => false,
    }
}
