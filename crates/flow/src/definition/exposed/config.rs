//! The configuration of nodes that expose a workflow to MCP clients. It is closed: an unknown member is an error.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::address::{self, Template};
use super::{Arguments, ExposedType, MAX_ARGUMENTS, MAX_DESCRIPTION_CHARACTERS, MAX_VALUES};
use crate::definition::Problem;
use crate::definition::config::derived_schema;
use crate::wire_enum::wire_enum;

/// The names of tools, prompts and resources: 1 to [`super::MAX_NAME_CHARACTERS`] characters without control characters.
const NAME_PATTERN: &str = r"^[^\x00-\x1f\x7f]{1,128}$";

macro_rules! exposed_configs {
    ($($name:ident($config:ty),)+) => {
        /// The configuration of a node that exposes its workflow, by its type.
        #[derive(Clone, Debug)]
        pub enum ExposedConfig {
            $($name($config),)+
        }

        impl ExposedType {
            /// The schema of its configuration.
            pub fn config_schema(self) -> Value {
                match self {
                    $(Self::$name => derived_schema::<$config>(),)+
                }
            }

            pub(in crate::definition) fn parse_config(
                self,
                config: Value,
            ) -> Result<ExposedConfig, serde_json::Error> {
                match self {
                    $(Self::$name => serde_json::from_value(config).map(ExposedConfig::$name),)+
                }
            }
        }

        impl ExposedConfig {
            pub const fn kind(&self) -> ExposedType {
                match self {
                    $(Self::$name(_) => ExposedType::$name,)+
                }
            }
        }
    };
}

exposed_configs! {
    ServerTrigger(ServerTriggerConfig),
    Tool(ToolConfig),
    Resource(ResourceConfig),
    ResourceTemplate(ResourceTemplateConfig),
    Prompt(PromptConfig),
    Sampling(SamplingConfig),
    Elicitation(ElicitationConfig),
    Roots(RootsConfig),
}

wire_enum! {
    pub enum Transport {
        StreamableHttp => "streamable-http",
    }
}

/// `core.openwop.mcp.server-trigger`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTriggerConfig {
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    pub transport: Option<Transport>,
}

/// `core.openwop.mcp.expose-tool`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolConfig {
    #[schemars(length(min = 1, max = MAX_DESCRIPTION_CHARACTERS))]
    pub description: Option<String>,
    #[schemars(with = "Option<Map<String, Value>>")]
    pub input_schema: Option<Value>,
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    #[schemars(with = "Option<Map<String, Value>>")]
    pub output_schema: Option<Value>,
}

/// `core.openwop.mcp.expose-resource`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceConfig {
    #[schemars(length(min = 1, max = 256))]
    pub mime_type: Option<String>,
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: Option<String>,
    #[schemars(length(min = 1, max = address::MAX_BYTES))]
    pub uri: String,
}

/// `core.openwop.mcp.expose-resource-template`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceTemplateConfig {
    #[schemars(length(min = 1, max = 256))]
    pub mime_type: Option<String>,
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: Option<String>,
    #[schemars(length(min = 1, max = address::MAX_BYTES))]
    pub uri_template: String,
}

/// `core.openwop.mcp.expose-prompt`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptConfig {
    #[serde(default)]
    #[schemars(length(max = MAX_ARGUMENTS))]
    pub arguments: Vec<PromptArgument>,
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    #[schemars(length(min = 1, max = 65_536))]
    pub template: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptArgument {
    #[schemars(length(min = 1, max = MAX_DESCRIPTION_CHARACTERS))]
    pub description: Option<String>,
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    #[serde(default)]
    pub required: bool,
    #[schemars(length(min = 1, max = MAX_DESCRIPTION_CHARACTERS))]
    pub title: Option<String>,
    /// The suggestions of `completion/complete`.
    #[serde(default)]
    #[schemars(length(max = MAX_VALUES))]
    pub values: Vec<String>,
}

/// `core.openwop.mcp.handle-sampling`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SamplingConfig {
    #[schemars(length(min = 1, max = 256))]
    pub model_hint: Option<String>,
}

/// `core.openwop.mcp.handle-elicitation`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElicitationConfig {}

/// `core.openwop.mcp.provide-roots`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RootsConfig {
    #[schemars(length(max = 100), with = "Vec<Root>")]
    pub roots: Vec<Value>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema is used; the node outputs each root as written")]
struct Root {
    #[schemars(length(min = 1, max = address::MAX_BYTES))]
    uri: String,
    #[schemars(regex(pattern = NAME_PATTERN))]
    name: Option<String>,
}

impl ExposedConfig {
    /// The name or URI under which the workflow is exposed.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Tool(config) => Some(&config.name),
            Self::Prompt(config) => Some(&config.name),
            Self::Resource(config) => Some(&config.uri),
            Self::ResourceTemplate(config) => Some(&config.uri_template),
            Self::ServerTrigger(_) | Self::Sampling(_) | Self::Elicitation(_) | Self::Roots(_) => None,
        }
    }

    /// Checks what a schema cannot express.
    pub(in crate::definition) fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        let found = match self {
            Self::Tool(config) => {
                let schemas =
                    [("inputSchema", &config.input_schema), ("outputSchema", &config.output_schema)];
                schemas
                    .into_iter()
                    .find_map(|(member, schema)| Some((member, Arguments::read(schema.as_ref()?).err()?)))
            }
            Self::Resource(config) => {
                address::check(&config.uri).err().map(|message| ("uri", message.to_owned()))
            }
            Self::ResourceTemplate(config) => {
                Template::parse(&config.uri_template).err().map(|message| ("uriTemplate", message.to_owned()))
            }
            Self::ServerTrigger(_)
            | Self::Prompt(_)
            | Self::Sampling(_)
            | Self::Elicitation(_)
            | Self::Roots(_) => None,
        };
        if let Some((member, message)) = found {
            problems.push(Problem::at(format!("{path}/{member}"), message));
        }
    }
}
