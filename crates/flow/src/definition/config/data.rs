//! The configuration of nodes that work on values, wait for a time, or fail.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::MAX_MILLISECONDS;
use super::derive::{present, whole};
use crate::definition::channel::{REDUCER_PATTERN, Reducer};

/// `core.identity`. Any object is valid.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityConfig {
    /// `true` writes the same message twice, for conformance suites.
    #[serde(default, deserialize_with = "present")]
    pub emit_duplicate_message_id: Option<Value>,
    /// Refused if present, because memory is not supported.
    #[serde(default, deserialize_with = "present")]
    pub memory_action: Option<Value>,
}

/// `core.conditional`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ConditionalConfig {
    /// If missing, the node tests an input.
    pub expression: Option<String>,
}

/// `core.loop`. The smallest of the limits ends it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoopConfig {
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1))]
    pub max_iterations: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    pub count: Option<Value>,
    /// One item per iteration. The input `items` has precedence.
    #[serde(default, deserialize_with = "present")]
    pub items: Option<Value>,
}

/// `core.delay`: three names for the same duration. The first one that is present applies.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DelayConfig {
    #[schemars(range(min = 0, max = MAX_MILLISECONDS))]
    pub delay_ms: Option<f64>,
    #[schemars(range(min = 0, max = MAX_MILLISECONDS))]
    pub duration_ms: Option<f64>,
    #[schemars(range(min = 0, max = MAX_MILLISECONDS))]
    pub ms: Option<f64>,
}

/// `core.setVariable`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("anyOf" = [{"required": ["name"]}, {"required": ["variableName"]}]))]
pub struct SetVariableConfig {
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    #[schemars(length(min = 1))]
    pub variable_name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub value: Option<Value>,
}

/// `core.getVariable`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("anyOf" = [{"required": ["name"]}, {"required": ["variableName"]}]))]
pub struct GetVariableConfig {
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    #[schemars(length(min = 1))]
    pub variable_name: Option<String>,
}

impl SetVariableConfig {
    /// The name of the variable. The schema requires one of the two members.
    pub fn variable(&self) -> &str {
        self.name.as_ref().or(self.variable_name.as_ref()).map_or("", String::as_str)
    }
}

impl GetVariableConfig {
    /// The name of the variable. The schema requires one of the two members.
    pub fn variable(&self) -> &str {
        self.name.as_ref().or(self.variable_name.as_ref()).map_or("", String::as_str)
    }
}

/// `core.fail`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct FailConfig {
    #[schemars(length(min = 1))]
    pub code: Option<String>,
    pub message: Option<String>,
}

/// `core.channelWrite`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelWriteConfig {
    #[schemars(length(min = 1))]
    pub channel_name: String,
    /// For a channel that the workflow does not declare.
    #[schemars(with = "Option<String>", regex(pattern = REDUCER_PATTERN))]
    pub reducer: Option<Reducer>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MAX_MILLISECONDS))]
    pub ttl_ms: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    pub value: Option<Value>,
}
