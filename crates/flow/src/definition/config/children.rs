//! The configuration of nodes that start child runs, or decide which to start.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::NodeConfig;
use super::derive::{present, whole};
use crate::definition::{Definition, decision};
use crate::id::WorkflowId;
use crate::wire_enum::wire_enum;

/// Variables of the other run, by the names that receive them.
pub type Mapping = BTreeMap<String, String>;

/// The workflows that the nodes of a definition may start as children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildWorkflows {
    /// Those that the definition names.
    pub named: BTreeSet<WorkflowId>,
    /// Whether a node gets the names of workflows at run time.
    pub are_chosen_later: bool,
}

impl Definition {
    /// The workflows that runs of this definition may start.
    pub fn child_workflows(&self) -> ChildWorkflows {
        let mut children = ChildWorkflows::default();
        for node in &self.nodes {
            match node.config.child_starter() {
                Some(ChildStarter::SubWorkflow(config)) => {
                    children.named.insert(WorkflowId::new(config.workflow_id.as_str()));
                }
                Some(ChildStarter::Dispatch(_)) => children.are_chosen_later = true,
                None => {}
            }
        }
        children
    }
}

/// The configuration of a node that starts child runs.
pub(crate) enum ChildStarter<'a> {
    SubWorkflow(&'a SubWorkflowConfig),
    Dispatch(&'a DispatchConfig),
}

impl NodeConfig {
    pub(crate) fn child_starter(&self) -> Option<ChildStarter<'_>> {
        match self {
            Self::SubWorkflow(config) => Some(ChildStarter::SubWorkflow(config)),
            Self::Dispatch(config) => Some(ChildStarter::Dispatch(config)),
            Self::Conditional(_)
            | Self::Loop(_)
            | Self::Delay(_)
            | Self::SetVariable(_)
            | Self::GetVariable(_)
            | Self::Fail(_)
            | Self::ChannelWrite(_)
            | Self::Interrupt(_)
            | Self::ApprovalGate(_)
            | Self::GovernanceGate(_)
            | Self::ClarificationGate(_)
            | Self::ConversationGate(_)
            | Self::Supervisor(_)
            | Self::Guided(_)
            | Self::MockAgent(_)
            | Self::SecretEcho(_)
            | Self::CostEmit(_)
            | Self::ArtifactEmit(_)
            | Self::Start
            | Self::End
            | Self::Noop
            | Self::Parallel
            | Self::Merge
            | Self::SideEffect
            | Self::RequiresMissing
            | Self::ModelCapabilityInsufficient
            | Self::Identity(_)
            | Self::Exposed(_)
            | Self::HttpRequest(_)
            | Self::Called(_)
            | Self::Pack => None,
        }
    }
}

impl<'a> ChildStarter<'a> {
    /// The variables that a child of this workflow receives. The mapping of one worker replaces the common one.
    pub(crate) fn input_mapping(&self, workflow_id: &str) -> &'a Mapping {
        match self {
            Self::SubWorkflow(config) => &config.input_mapping,
            Self::Dispatch(config) => {
                config.per_worker_input_mappings.get(workflow_id).unwrap_or(&config.input_mapping)
            }
        }
    }

    /// The variables that a completed child of this workflow sets in its parent.
    pub(crate) fn output_mapping(&self, workflow_id: &str) -> &'a Mapping {
        match self {
            Self::SubWorkflow(config) => &config.output_mapping,
            Self::Dispatch(config) => {
                config.per_worker_output_mappings.get(workflow_id).unwrap_or(&config.output_mapping)
            }
        }
    }

    /// Whether the children are cancelled with their parent.
    pub(crate) const fn propagates_cancellation(&self) -> bool {
        match self {
            Self::SubWorkflow(config) => config.propagate_cancellation,
            Self::Dispatch(_) => true,
        }
    }
}

fn mapping(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}})
}

fn mapping_per_worker(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": mapping(generator)})
}

wire_enum! {
    /// How the failure of a child affects the node that started it.
    #[derive(Default)]
    pub enum OnChildFailure {
        /// The node fails too.
        #[default]
        FailParent => "fail-parent",
        /// The node completes, with the error among its outputs.
        Absorb => "absorb",
    }
}

/// `core.subWorkflow`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubWorkflowConfig {
    #[serde(default)]
    #[schemars(schema_with = "mapping")]
    pub input_mapping: Mapping,
    #[serde(default)]
    pub on_child_failure: OnChildFailure,
    #[serde(default)]
    #[schemars(schema_with = "mapping")]
    pub output_mapping: Mapping,
    #[serde(default = "yes")]
    pub propagate_cancellation: bool,
    /// Must be true: the parent always waits for its child, so that its result includes the result of the child.
    #[serde(default)]
    #[schemars(schema_with = "always")]
    pub wait_for_completion: Option<bool>,
    #[schemars(length(min = 1, max = 128))]
    pub workflow_id: String,
}

const fn yes() -> bool {
    true
}

fn always(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"const": true})
}

wire_enum! {
    /// How the workers of one decision are started.
    #[derive(Default)]
    pub enum FanOutPolicy {
        /// One after the other.
        #[default]
        Sequential => "sequential",
        /// A decision for more than one worker fails the node.
        Reject => "reject",
        /// In parallel.
        Parallel => "parallel",
    }
}

wire_enum! {
    /// How a question of the supervisor reaches a person.
    #[derive(Default)]
    pub enum AskUserRouting {
        /// In a conversation.
        Conversation => "conversation",
        /// As one question.
        Clarification => "clarification",
        /// In a conversation if the host supports conversations, otherwise as one question.
        #[default]
        Auto => "auto",
    }
}

wire_enum! {
    /// When the workers of a dispatch are joined.
    #[derive(Default)]
    pub enum JoinMode {
        /// All of them have ended.
        #[default]
        WaitAll => "wait-all",
        /// `quorum` of them have completed.
        Quorum => "quorum",
        /// One has completed.
        First => "first",
        /// One has ended, successfully or not.
        Race => "race",
    }
}

wire_enum! {
    /// How the failure of one worker affects the join.
    #[derive(Default)]
    pub enum OnWorkerFailure {
        /// Nothing: the mode decides.
        #[default]
        Collect => "collect",
        /// The join fails immediately.
        FailFast => "fail-fast",
        /// The join succeeds even if too few workers complete.
        Absorb => "absorb",
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinPolicy {
    #[serde(default)]
    pub mode: JoinMode,
    #[serde(default)]
    pub on_child_failure: OnWorkerFailure,
    /// Required by [`JoinMode::Quorum`].
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1))]
    pub quorum: Option<u64>,
}

/// `core.dispatch`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DispatchConfig {
    #[serde(default)]
    pub ask_user_routing: AskUserRouting,
    #[serde(default)]
    pub fan_out_policy: FanOutPolicy,
    #[serde(default)]
    #[schemars(schema_with = "mapping")]
    pub input_mapping: Mapping,
    /// The maximum number of workers that the node starts in one run.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1))]
    pub iteration_cap: Option<u64>,
    /// Only with [`FanOutPolicy::Parallel`].
    pub join_policy: Option<JoinPolicy>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1))]
    pub max_concurrency: Option<u64>,
    #[serde(default)]
    #[schemars(schema_with = "mapping")]
    pub output_mapping: Mapping,
    #[serde(default)]
    #[schemars(schema_with = "mapping_per_worker")]
    pub per_worker_input_mappings: BTreeMap<String, Mapping>,
    #[serde(default)]
    #[schemars(schema_with = "mapping_per_worker")]
    pub per_worker_output_mappings: BTreeMap<String, Mapping>,
    #[serde(default)]
    #[schemars(schema_with = "child_run")]
    pub worker_dispatch_model: Option<String>,
}

fn child_run(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"const": "child-run"})
}

/// `core.orchestrator.supervisor`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupervisorConfig {
    /// Not validated: earlier versions accepted any value and ignored values that are not strings.
    #[serde(default, deserialize_with = "present")]
    #[schemars(skip)]
    pub agent_id: Option<Value>,
    /// The confidence of the supervisor, for conformance suites.
    #[serde(default, deserialize_with = "present")]
    pub mock_confidence: Option<Value>,
    /// Another name for the plan.
    #[serde(default)]
    #[schemars(schema_with = "plan")]
    pub mock_decisions: Option<Vec<Value>>,
    /// The plan: the decisions of a workflow without a model, in order.
    #[serde(default)]
    #[schemars(schema_with = "plan")]
    pub mock_dispatch_plan: Option<Vec<Value>>,
    /// The decision with low confidence, for conformance suites.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "one_decision")]
    pub mock_pending_decision: Option<Value>,
}

fn plan(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 1000, "items": one_decision(generator)})
}

fn one_decision(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(decision::schema()).expect("an object is a schema")
}
