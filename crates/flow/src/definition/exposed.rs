//! The types of nodes by which a workflow says what it is to clients of MCP: a tool, a resource, a prompt.
//!
//! They do nothing when a run comes to them. Whoever serves the workflow reads them off its definition, before there is a run. One of
//! them asks: the handler of an elicitation suspends its run until a person has answered the form that a client sent.

pub mod address;
mod config;
pub mod form;

use std::fmt;

use serde_json::{Value, json};

pub use self::config::{
    ElicitationConfig, ExposedConfig, PromptArgument, PromptConfig, ResourceConfig, ResourceTemplateConfig,
    RootsConfig, SamplingConfig, ServerTriggerConfig, ToolConfig, Transport,
};

/// The longest name of a tool or a prompt, in characters.
pub const MAX_NAME_CHARACTERS: usize = 128;
/// The longest description, in characters.
const MAX_DESCRIPTION_CHARACTERS: usize = 4096;
/// The most violations that are told of one set of arguments.
pub const MAX_VIOLATIONS: usize = 50;
/// The longest text of a violation, in characters.
const MAX_VIOLATION_CHARACTERS: usize = 300;
/// The most arguments of a prompt.
const MAX_ARGUMENTS: usize = 50;
/// The most values that are offered for an argument of a prompt.
const MAX_VALUES: usize = 1000;

macro_rules! exposed {
    ($(#[doc = $doc:literal] $name:ident => $text:literal $kind:literal,)+) => {
        /// A type of node that says what its workflow is to clients of MCP.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ExposedType {
            $(#[doc = $doc] $name,)+
        }

        impl ExposedType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The spelling in a definition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it does, in a sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $doc.trim_ascii(),)+
                }
            }

            /// What it makes of its workflow, as its outputs say it.
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
    /// The type of that spelling.
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

/// What checks the arguments of a tool.
#[derive(Debug)]
pub struct Arguments(jsonschema::Validator);

impl Arguments {
    /// Reads a schema.
    ///
    /// # Errors
    /// When the schema is none that arguments can be held to. Nothing is referred to: a schema that leads in a circle would take as
    /// long as the sender of the arguments likes.
    pub fn read(schema: &Value) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("the arguments of a tool are an object: `type` has to be `object`".to_owned());
        }
        if refers(schema) {
            return Err("the schema of a tool has no references: write out what `$ref` would name".to_owned());
        }
        super::schema::compiled(schema).map(Self)
    }

    /// What is wrong with arguments, each with its place: at most [`MAX_VIOLATIONS`].
    pub fn violations(&self, given: &Value) -> Vec<Value> {
        let told = self.0.iter_errors(given).take(MAX_VIOLATIONS).map(|error| {
            let message: String = error.to_string().chars().take(MAX_VIOLATION_CHARACTERS).collect();
            json!({"path": error.instance_path().to_string(), "message": message})
        });
        told.collect()
    }
}

/// Whether a schema names another one. Documents are bounded in depth, so this is.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") || refers(value)
        }),
        Value::Array(values) => values.iter().any(refers),
        _ => false,
    }
}
