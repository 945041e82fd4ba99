//! What the configuration of each type of node may be, as JSON Schema.
//!
//! A configuration is open unless the protocol closes it: a host that knows less than the author still runs the rest.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::node_type::{MOCK_AGENT, NodeType};
use super::{Capabilities, Problem, decision};
use crate::word::words;

words! {
    /// When the workers of a dispatch are joined.
    pub enum JoinMode {
        /// All of them have ended.
        WaitAll => "wait-all",
        /// So many have completed.
        Quorum => "quorum",
        /// One has completed.
        First => "first",
        /// One has ended, however.
        Race => "race",
    }
}

/// The longest goal of a guided node: it is repeated to the agent with every step.
const MAX_GOAL_CHARACTERS: usize = 4096;

/// Checks a configuration.
pub(super) fn check(
    kind: NodeType,
    config: &Value,
    path: &str,
    capabilities: &Capabilities,
    problems: &mut Vec<Problem>,
) {
    if let Some(validator) = validators().get(&kind) {
        for error in validator.iter_errors(config) {
            problems.push(Problem::at(format!("{path}{}", error.instance_path()), error.to_string()));
        }
    }
    match kind {
        NodeType::Dispatch => check_dispatch(config, path, capabilities, problems),
        NodeType::SubWorkflow
            if !is_empty(config.get("inputMapping")) && !capabilities.sub_workflow_input_mapping =>
        {
            let message = "`inputMapping` of a sub-workflow is not served here";
            problems.push(requires(format!("{path}/inputMapping"), message, "subWorkflow.inputMapping"));
        }
        NodeType::MockAgent => check_tool_calls(config, path, problems),
        NodeType::Guided => check_equipment(config, path, problems),
        NodeType::Exposed(exposed) => exposed.check(config, path, problems),
        NodeType::Interrupt => {
            check_schema(config.get("resumeSchema"), &format!("{path}/resumeSchema"), problems);
            let data = config.get("data");
            check_questions(data, &format!("{path}/data"), problems);
            let outcome = data.and_then(|data| data.get("outcomeSchema"));
            check_schema(outcome, &format!("{path}/data/outcomeSchema"), problems);
        }
        NodeType::ClarificationGate => check_questions(Some(config), path, problems),
        NodeType::ConversationGate => {
            check_schema(config.get("schema"), &format!("{path}/schema"), problems);
        }
        NodeType::Identity if config.get("memoryAction").is_some() => {
            problems.push(requires(
                format!("{path}/memoryAction"),
                "memory is not served here",
                "memory.supported",
            ));
        }
        _ => {}
    }
}

/// Where something to wait for is wrong that is not written in a workflow, but asked for by the work of a node. What stands there is not
/// repeated: it may be anything that the work was given.
pub(crate) fn interrupt_problem(asked: &serde_json::Map<String, Value>) -> Option<String> {
    let mut problems = Vec::new();
    check(NodeType::Interrupt, &Value::Object(asked.clone()), "", &Capabilities::OURS, &mut problems);
    problems.into_iter().next().map(|problem| problem.path)
}

/// The members by which a supervisor is a mock. Its plan is not one of them: it is how a workflow without a model decides.
const MOCK_MEMBERS: [&str; 2] = ["mockConfidence", "mockPendingDecision"];

/// Whether a configuration makes a mock of a node that is none by its type.
pub(crate) fn is_mock(kind: NodeType, config: &serde_json::Map<String, Value>) -> bool {
    kind == NodeType::Supervisor && MOCK_MEMBERS.iter().any(|member| config.contains_key(*member))
}

/// Refuses the members by which a node is a mock, on a host that serves none.
pub(super) fn check_mocks(
    kind: NodeType,
    config: &serde_json::Map<String, Value>,
    path: &str,
    problems: &mut Vec<Problem>,
) {
    if kind != NodeType::Supervisor {
        return;
    }
    for member in MOCK_MEMBERS.iter().filter(|member| config.contains_key(**member)) {
        let message = "this is for conformance suites; leave it out";
        problems.push(requires(format!("{path}/{member}"), message, MOCK_AGENT));
    }
}

fn requires(path: String, message: &str, capability: &'static str) -> Problem {
    Problem { required_capability: Some(capability), ..Problem::at(path, message) }
}

fn is_empty(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.as_object().is_none_or(serde_json::Map::is_empty))
}

fn check_dispatch(config: &Value, path: &str, capabilities: &Capabilities, problems: &mut Vec<Problem>) {
    let parallel = config.get("fanOutPolicy").and_then(Value::as_str) == Some("parallel");
    if parallel && !capabilities.fan_out {
        let message = "`parallel` is not served here; use `sequential`";
        problems.push(requires(format!("{path}/fanOutPolicy"), message, "dispatch.fanOutSupported"));
    }
    let converses = config.get("askUserRouting").and_then(Value::as_str) == Some("conversation");
    if converses && !capabilities.conversation {
        let message = "conversations are not served here; use `clarification` or `auto`";
        problems.push(requires(format!("{path}/askUserRouting"), message, "conversationPrimitive"));
    }
    if let Some(policy) = config.get("joinPolicy") {
        if !parallel {
            let message = "`joinPolicy` needs `fanOutPolicy: parallel`";
            problems.push(Problem::at(format!("{path}/joinPolicy"), message));
        }
        let quorum = policy.get("mode").and_then(Value::as_str) == Some("quorum");
        if quorum && policy.get("quorum").and_then(Value::as_u64).is_none_or(|quorum| quorum < 1) {
            let message = "`mode: quorum` needs `quorum`, an integer from 1";
            problems.push(Problem::at(format!("{path}/joinPolicy/quorum"), message));
        }
    }
    for mapping in ["inputMapping", "outputMapping", "perWorkerInputMappings", "perWorkerOutputMappings"] {
        if !is_empty(config.get(mapping)) && !capabilities.dispatch_mapping {
            let message = "mappings of a dispatch are not served here";
            problems.push(requires(format!("{path}/{mapping}"), message, "agents.dispatchMapping"));
        }
    }
}

/// A schema that could not be used later would bind nobody, so it is refused now.
fn check_schema(schema: Option<&Value>, path: &str, problems: &mut Vec<Problem>) {
    if let Some(Err(message)) = schema.map(super::schema::compiled) {
        problems.push(Problem::at(path, message));
    }
}

fn check_questions(of: Option<&Value>, path: &str, problems: &mut Vec<Problem>) {
    let questions = of.and_then(|of| of.get("questions")).and_then(Value::as_array);
    for (place, question) in questions.into_iter().flatten().enumerate() {
        check_schema(question.get("schema"), &format!("{path}/questions/{place}/schema"), problems);
    }
}

/// A tool of the mock agent has a result or an error, and never both.
fn check_tool_calls(config: &Value, path: &str, problems: &mut Vec<Problem>) {
    for (place, call) in
        config.get("mockToolCalls").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        if call.get("result").is_some() == call.get("error").is_some() {
            let message = "a tool call has either `result` or `error`";
            problems.push(Problem::at(format!("{path}/mockToolCalls/{place}"), message));
        }
    }
}

/// A workspace is a manifest and the library that its bytes come from: neither does anything alone.
fn check_equipment(config: &Value, path: &str, problems: &mut Vec<Problem>) {
    for (given, missing) in [("manifest", "library"), ("library", "manifest")] {
        if config.get(given).is_some() && config.get(missing).is_none() {
            let message = format!("`{given}` needs `{missing}` beside it");
            problems.push(Problem::at(format!("{path}/{missing}"), message));
        }
    }
}

fn validators() -> &'static BTreeMap<NodeType, Validator> {
    static VALIDATORS: OnceLock<BTreeMap<NodeType, Validator>> = OnceLock::new();
    VALIDATORS.get_or_init(|| {
        let compiled = NodeType::all().filter_map(|kind| {
            let validator =
                jsonschema::options().build(&schema(kind)?).expect("the schemas below are schemas");
            Some((kind, validator))
        });
        compiled.collect()
    })
}

/// The schema of a type's configuration; nothing where anything goes.
pub fn schema(kind: NodeType) -> Option<Value> {
    let text = || json!({"type": "string"});
    let milliseconds = || json!({"type": "number", "minimum": 0, "maximum": 31_536_000_000_u64});
    let properties = match kind {
        NodeType::Called(called) => return Some(called.config_schema()),
        NodeType::Exposed(exposed) => return Some(exposed.config_schema()),
        // The pack has its schema, and the host checks it when the node is called.
        NodeType::Pack
        | NodeType::Start
        | NodeType::End
        | NodeType::Noop
        | NodeType::Identity
        | NodeType::Parallel
        | NodeType::Merge
        | NodeType::SideEffect
        | NodeType::RequiresMissing
        | NodeType::ModelCapabilityInsufficient => return None,
        NodeType::Conditional => json!({"properties": {"expression": text()}}),
        NodeType::Loop => json!({"properties": {
            "maxIterations": {"type": "integer", "minimum": 1}, "count": true, "items": true
        }}),
        NodeType::Delay => json!({
            "properties": {"delayMs": milliseconds(), "durationMs": milliseconds(), "ms": milliseconds()}
        }),
        NodeType::SetVariable => json!({
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "variableName": {"type": "string", "minLength": 1},
                "value": true
            },
            "anyOf": [{"required": ["name"]}, {"required": ["variableName"]}]
        }),
        NodeType::GetVariable => json!({
            "properties": {"name": {"type": "string", "minLength": 1}, "variableName": {"type": "string", "minLength": 1}},
            "anyOf": [{"required": ["name"]}, {"required": ["variableName"]}]
        }),
        NodeType::Fail => {
            json!({"properties": {"code": {"type": "string", "minLength": 1}, "message": text()}})
        }
        NodeType::Interrupt => json!({
            "required": ["kind"],
            "properties": {
                "kind": {"enum": [
                    "approval", "clarification", "external-event", "custom", "conversation.start",
                    "conversation.exchange", "conversation.close", "low-confidence"
                ]},
                "key": {"type": "string", "minLength": 1, "maxLength": 256},
                "resumeSchema": {"type": "object"},
                "timeoutMs": milliseconds()
            },
            // The protocol closes what is asked, so that whoever shows it knows what to show.
            "allOf": [
                asked("approval", &json!({"type": "object"}), false),
                asked("clarification", &closed(&["questions"], &json!({
                    "questions": questions(), "contextType": text()
                })), true),
                asked("external-event", &closed(&["eventType", "correlation"], &json!({
                    "eventType": text(), "correlation": {"type": "object"}
                })), true),
                asked("custom", &closed(&["customKind"], &json!({
                    "customKind": {"type": "string", "minLength": 1}, "payload": true
                })), true),
                asked("conversation.start", &closed(&["conversationId"], &json!({
                    "conversationId": conversation_id(), "title": text(), "initialPrompt": text()
                })), true),
                asked("conversation.exchange", &closed(&["conversationId", "prompt"], &json!({
                    "conversationId": conversation_id(), "prompt": {"type": "string", "minLength": 1},
                    "outcomeSchema": {"type": "object"}, "turnIndex": {"type": "integer", "minimum": 0}
                })), true),
                asked("conversation.close", &closed(&["conversationId"], &json!({
                    "conversationId": conversation_id(), "reason": text()
                })), true),
                asked("low-confidence", &closed(&["agentId", "threshold", "observed"], &json!({
                    "agentId": {"type": "string", "minLength": 3, "maxLength": 256},
                    "threshold": {"type": "number", "minimum": 0, "maximum": 1},
                    "observed": {"type": "number", "minimum": 0, "maximum": 1},
                    "decision": true
                })), true)
            ]
        }),
        NodeType::ApprovalGate => json!({
            "properties": {
                "title": text(),
                "description": text(),
                "actions": {
                    "type": "array", "minItems": 1, "uniqueItems": true,
                    "items": {"enum": ["accept", "reject", "refine", "edit-accept", "ask"]}
                },
                "requiredApprovals": {"type": "integer", "minimum": 1, "maximum": 1000},
                "rejectionPolicy": {"enum": ["single-veto", "majority"]},
                "approversList": {"type": "array", "items": text()},
                "timeoutMs": milliseconds()
            }
        }),
        NodeType::GovernanceGate => json!({
            "properties": {
                "requiredRole": text(),
                "requiredScope": text(),
                "quorum": {"type": "integer", "minimum": 1, "maximum": 1000},
                "override": {"type": "object"},
                "overrideBypassesQuorum": {"type": "boolean"},
                "timeoutSec": {"type": "number", "exclusiveMinimum": 0, "maximum": 31_536_000}
            }
        }),
        NodeType::ClarificationGate => json!({
            "required": ["questions"],
            "properties": {"questions": questions(), "contextType": text(), "timeoutMs": milliseconds()}
        }),
        NodeType::ChannelWrite => json!({
            "required": ["channelName"],
            "properties": {
                "channelName": {"type": "string", "minLength": 1},
                "reducer": {"type": "string", "pattern": super::channel::REDUCER_PATTERN},
                "ttlMs": {"type": "integer", "minimum": 1, "maximum": 31_536_000_000_u64},
                "value": true
            }
        }),
        NodeType::SubWorkflow => json!({
            "required": ["workflowId"],
            "properties": {
                "workflowId": {"type": "string", "minLength": 1, "maxLength": 128},
                // A child that nobody waits for would outlive what its parent reports.
                "waitForCompletion": {"const": true},
                "onChildFailure": {"enum": ["fail-parent", "absorb"]},
                "inputMapping": mapping(),
                "outputMapping": mapping(),
                "propagateCancellation": {"type": "boolean"}
            }
        }),
        NodeType::Guided => json!({
            "required": ["workflow"],
            "additionalProperties": false,
            "properties": {
                "workflow": {"type": "string", "minLength": 1, "maxLength": 128},
                "goal": {"type": "string", "minLength": 1, "maxLength": MAX_GOAL_CHARACTERS},
                "manifest": {"anyOf": [file(), {"type": "object"}]},
                "library": file(),
                "preferences": closed(&[], &json!({
                    "autonomy": {"enum": ["guided", "full_auto_stop_on_user_deps", "full_auto_never_stop"]},
                    "riskPolicy": {"enum": ["conservative", "balanced", "aggressive"]}
                })),
                "inputs": {"type": "object"},
                "timeoutMs": milliseconds()
            }
        }),
        NodeType::Supervisor => json!({
            "properties": {
                "mockDispatchPlan": {"type": "array", "maxItems": 1000, "items": decision::schema()},
                "mockDecisions": {"type": "array", "maxItems": 1000, "items": decision::schema()},
                "mockPendingDecision": decision::schema(),
                "mockConfidence": true
            }
        }),
        NodeType::Dispatch => json!({
            "additionalProperties": false,
            "properties": {
                "askUserRouting": {"enum": ["conversation", "clarification", "auto"]},
                "workerDispatchModel": {"const": "child-run"},
                "fanOutPolicy": {"enum": ["sequential", "reject", "parallel"]},
                "joinPolicy": {
                    "type": "object", "additionalProperties": false,
                    "properties": {
                        "mode": {"enum": ["wait-all", "quorum", "first", "race"]},
                        "quorum": {"type": "integer", "minimum": 1},
                        "onChildFailure": {"enum": ["collect", "fail-fast", "absorb"]}
                    }
                },
                "maxConcurrency": {"type": "integer", "minimum": 1},
                "iterationCap": {"type": "integer", "minimum": 1},
                "inputMapping": mapping(),
                "outputMapping": mapping(),
                "perWorkerInputMappings": {"type": "object", "additionalProperties": mapping()},
                "perWorkerOutputMappings": {"type": "object", "additionalProperties": mapping()}
            }
        }),
        NodeType::ConversationGate => json!({
            "properties": {
                "prompt": text(),
                "schema": {"type": "object"},
                "lifecycle": {"const": "open-exchange-close"},
                "mockAutoResume": {"type": "boolean"},
                "turnCount": {"type": "integer", "minimum": 0, "maximum": 1000}
            }
        }),
        NodeType::MockAgent => super::mock_agent::schema(),
        NodeType::SecretEcho => {
            json!({"required": ["secretId"], "properties": {"secretId": {"type": "string", "minLength": 1}}})
        }
        NodeType::CostEmit => json!({"properties": {"attrs": {"type": "object"}}}),
        NodeType::ArtifactEmit => json!({"properties": {"artifactType": text(), "data": true}}),
    };
    Some(properties)
}

/// What an interrupt of a kind asks.
fn asked(kind: &str, data: &Value, required: bool) -> Value {
    let mut then = json!({"properties": {"data": data}});
    if required {
        then["required"] = json!(["data"]);
    }
    json!({"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": then})
}

pub(super) fn closed(required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object", "required": required, "additionalProperties": false, "properties": properties,
    })
}

/// The path of a file or folder that the host finds in a place of its own.
fn file() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 1024})
}

fn conversation_id() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 256})
}

fn questions() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let question =
        closed(&["id", "question"], &json!({"id": text, "question": text, "schema": {"type": "object"}}));
    json!({"type": "array", "minItems": 1, "maxItems": 100, "items": question})
}

fn mapping() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}})
}
