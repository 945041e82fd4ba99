//! The configuration of nodes that wait for a person or for an external event.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::derive::{present, whole};
use super::{MAX_MILLISECONDS, closed};
use crate::interrupt::InterruptKind;
use crate::wire_enum::wire_enum;

/// `core.interrupt`, and interrupts that a node requests at run time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("allOf" = data_by_kind()))]
pub struct InterruptConfig {
    pub kind: InterruptKind,
    #[schemars(length(min = 1, max = 256))]
    pub key: Option<String>,
    /// The question. Its schema depends on the kind.
    #[serde(default, deserialize_with = "present")]
    #[schemars(skip)]
    pub data: Option<Value>,
    #[schemars(with = "Option<Map<String, Value>>")]
    pub resume_schema: Option<Value>,
    #[schemars(range(min = 0, max = MAX_MILLISECONDS))]
    pub timeout_ms: Option<f64>,
    /// The maximum number of turns of a conversation. Not validated: earlier versions accepted any value and ignored values that are not numbers.
    #[serde(default, deserialize_with = "present")]
    #[schemars(skip)]
    pub turn_count: Option<Value>,
}

/// The schema of `data` for each kind of interrupt. The protocol defines it as closed, so that clients know what to show.
fn data_by_kind() -> Vec<Value> {
    InterruptKind::ALL.iter().map(|kind| data_schema(*kind)).collect()
}

fn data_schema(kind: InterruptKind) -> Value {
    let text = || json!({"type": "string"});
    let some = || json!({"type": "string", "minLength": 1});
    let share = || json!({"type": "number", "minimum": 0, "maximum": 1});
    let id = || json!({"type": "string", "minLength": 1, "maxLength": 256});
    let data = match kind {
        InterruptKind::Approval => json!({"type": "object"}),
        InterruptKind::Clarification => {
            closed(&["questions"], &json!({"questions": questions(), "contextType": text()}))
        }
        InterruptKind::ExternalEvent => closed(
            &["eventType", "correlation"],
            &json!({"eventType": text(), "correlation": {"type": "object"}}),
        ),
        InterruptKind::Custom => closed(&["customKind"], &json!({"customKind": some(), "payload": true})),
        InterruptKind::ConversationStart => closed(
            &["conversationId"],
            &json!({"conversationId": id(), "title": text(), "initialPrompt": text()}),
        ),
        InterruptKind::ConversationExchange => closed(
            &["conversationId", "prompt"],
            &json!({
                "conversationId": id(), "prompt": some(), "outcomeSchema": {"type": "object"},
                "turnIndex": {"type": "integer", "minimum": 0}
            }),
        ),
        InterruptKind::ConversationClose => {
            closed(&["conversationId"], &json!({"conversationId": id(), "reason": text()}))
        }
        InterruptKind::LowConfidence => closed(
            &["agentId", "threshold", "observed"],
            &json!({
                "agentId": {"type": "string", "minLength": 3, "maxLength": 256},
                "threshold": share(), "observed": share(), "decision": true
            }),
        ),
    };
    let mut then = json!({"properties": {"data": data}});
    // The engine completes the data of an approval.
    if kind != InterruptKind::Approval {
        then["required"] = json!(["data"]);
    }
    json!({"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": then})
}

fn questions() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let question =
        closed(&["id", "question"], &json!({"id": text, "question": text, "schema": {"type": "object"}}));
    json!({"type": "array", "minItems": 1, "maxItems": 100, "items": question})
}

fn questions_schema(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(questions()).expect("an object is a schema")
}

wire_enum! {
    /// What a person may do at an approval gate.
    pub enum ApprovalAction {
        Accept => "accept",
        Reject => "reject",
        /// Requests a revision.
        Refine => "refine",
        /// Edits the artifact and accepts it.
        EditAccept => "edit-accept",
        /// Asks a question first.
        Ask => "ask",
    }
}

wire_enum! {
    /// How many rejections close a gate that requires several approvals.
    #[derive(Default)]
    pub enum RejectionPolicy {
        /// One.
        #[default]
        SingleVeto => "single-veto",
        /// More than half of the required approvals.
        Majority => "majority",
    }
}

impl RejectionPolicy {
    /// The policy in the data of a recorded approval. `core.interrupt` accepts any data, so an unknown value counts as the default.
    pub(crate) fn recorded(data: &Value) -> Self {
        data.get("rejectionPolicy").and_then(|policy| Self::deserialize(policy).ok()).unwrap_or_default()
    }
}

/// `core.approvalGate`. Its serialized form is the data of the interrupt, so that people see what the author wrote.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalGateConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub actions: Option<Vec<ApprovalAction>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub approver_group_refs: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub approver_role_refs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers_list: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub artifact_data: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub audience: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub override_bypasses_quorum: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection_policy: Option<RejectionPolicy>,
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub required_approvals: Option<u64>,
    #[serde(skip_serializing)]
    #[schemars(range(min = 0, max = MAX_MILLISECONDS))]
    pub timeout_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// `core.openwop.governance.approvalGate`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GovernanceGateConfig {
    #[serde(default, deserialize_with = "present")]
    pub artifact_data: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub artifact_id: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub artifact_type: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub description: Option<Value>,
    /// Who may override the gate: `requiredRole`.
    pub r#override: Option<Map<String, Value>>,
    pub override_bypasses_quorum: Option<bool>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 1000))]
    pub quorum: Option<u64>,
    pub required_role: Option<String>,
    pub required_scope: Option<String>,
    #[schemars(range(max = 31_536_000_u64), extend("exclusiveMinimum" = 0))]
    pub timeout_sec: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    pub title: Option<Value>,
}

impl GovernanceGateConfig {
    /// The role that may override the gate, if one is named.
    pub fn overriding_role(&self) -> Option<&str> {
        self.r#override.as_ref()?.get("requiredRole")?.as_str()
    }
}

/// `core.clarificationGate`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationGateConfig {
    pub context_type: Option<String>,
    #[schemars(schema_with = "questions_schema")]
    pub questions: Vec<Value>,
    #[schemars(range(min = 0, max = MAX_MILLISECONDS))]
    pub timeout_ms: Option<f64>,
}

/// `core.conversationGate`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationGateConfig {
    #[serde(default)]
    #[schemars(schema_with = "lifecycle")]
    pub lifecycle: Option<String>,
    /// Simulates a complete conversation without a person, for conformance suites.
    #[serde(default)]
    pub mock_auto_resume: bool,
    pub prompt: Option<String>,
    /// The schema of the outcome.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub schema: Option<Value>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 0, max = 1000))]
    pub turn_count: Option<u64>,
}

fn lifecycle(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"const": "open-exchange-close"})
}
