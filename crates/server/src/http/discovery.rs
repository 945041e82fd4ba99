//! What this host says it can do: what it does, and nothing else.
//!
//! Families of capabilities stand at the root, and once more under `capabilities`, where older readers look.

mod parts;

use std::collections::BTreeSet;

use ai::completion::MAX_OUTPUT_TOKENS;
use ai::reasoning::DEFAULT_TOKEN_LIMIT;
use flow::definition::Capabilities;
use flow::definition::config::{FanOutPolicy, JoinMode, OnWorkerFailure};
use flow::engine::bounds::MAX_REASONING_TOKENS;
use flow::event::wire::LOG_SCHEMA_VERSION;
use flow::options::MAX_MODEL_BYTES;
use flow::trace::PROTOCOL_VERSION;
use host::executors::Executors;
use host::runs::Runs;
use host::runs::audit::{CHECKPOINT_EVERY, CHECKPOINT_SECONDS};
use host::runs::bulk::MAX_BULK;
use host::runs::create::ENGINE_VERSIONS;
use host::runs::keys::TEST_PREFIX;
use serde_json::{Map, Value, json};

use super::encoding::Encoding;
use super::state::{Service, Settings};

/// What the families are read from.
struct Said<'a> {
    runs: &'a Runs,
    ours: Capabilities,
    executors: Option<&'a Executors>,
    settings: &'a Settings,
    is_traced: bool,
    /// The scopes of the catalogue for tests, where there is one.
    tests: Option<Vec<&'static str>>,
}

/// What packs may ask for of a host that does not serve yet: they are loaded first.
pub fn capability_names(
    runs: &Runs,
    executors: &Executors,
    settings: &Settings,
    is_traced: bool,
) -> BTreeSet<String> {
    let ours = executors.widen(&runs.capabilities());
    let said = Said { runs, ours, executors: Some(executors), settings, is_traced, tests: None };
    names(&families_of(&said))
}

/// What packs may ask for of this host.
pub(super) fn given(state: &Service) -> BTreeSet<String> {
    names(&families(state))
}

/// The families that are not said to be off, and those of their parts that are said to be on, such as `mcp.serverMount`.
fn names(families: &Map<String, Value>) -> BTreeSet<String> {
    let says = |value: &Value, on: bool| *value == json!(on) || value["supported"] == json!(on);
    let mut names = BTreeSet::new();
    for (family, value) in families {
        let parts = value.as_object().into_iter().flatten().filter(|(_, part)| says(part, true));
        names.extend(parts.map(|(part, _)| format!("{family}.{part}")));
        if !says(value, false) {
            names.insert(family.clone());
        }
    }
    names
}

// One limit is advertised, so there is one: that of models, and of agents that pretend.
const _: () = assert!(MAX_REASONING_TOKENS == DEFAULT_TOKEN_LIMIT);

pub(super) fn document(state: &Service) -> Value {
    let families = families(state);
    let versions: Map<String, Value> =
        parts::envelopes(state).into_iter().map(|(kind, version)| (kind, version.into())).collect();
    let envelopes: Vec<String> = parts::envelopes(state).into_iter().map(|(kind, _)| kind).collect();
    let mut document = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "implementation": {"name": "interlock", "version": env!("CARGO_PKG_VERSION"), "vendor": "interlock"},
        "engineVersion": ENGINE_VERSIONS.end(),
        "eventLogSchemaVersion": LOG_SCHEMA_VERSION,
        "supportedTransports": ["rest"],
        "supportedEnvelopes": envelopes,
        "schemaVersions": versions,
        "limits": limits(state),
        "configurable": configurable(state),
        "capabilities": families,
    });
    let fixtures = state.fixtures.get();
    if !fixtures.is_empty() {
        document["fixtures"] = json!(*fixtures);
    }
    if let Value::Object(root) = &mut document {
        root.extend(families);
    }
    document
}

fn limits(state: &Service) -> Value {
    let limits = state.runs.limits();
    json!({
        "clarificationRounds": limits.clarification_rounds,
        // Where no model is called, nothing of a model is asked for again.
        "schemaRounds": parts::schema_rounds(state),
        "envelopesPerTurn": parts::envelopes_per_turn(state),
        "maxNodeExecutions": limits.max_node_executions,
        "maxRunDurationMs": limits.max_run_duration_ms,
        "maxLoopIterations": limits.max_loop_iterations,
        "maxRequestBodyBytes": state.settings.max_body_bytes,
    })
}

fn configurable(state: &Service) -> Value {
    let limits = state.runs.limits();
    let mut keys = json!({
        "recursionLimit": {"type": "integer", "min": 1, "max": limits.max_node_executions},
        "runTimeoutMs": {"type": "integer", "min": 1, "max": limits.max_run_duration_ms},
        "maxLoopIterations": {"type": "integer", "min": 1, "max": limits.max_loop_iterations},
        "escalationThreshold": {"type": "number", "min": 0, "max": 1},
        "reasoningVerbosity": {"type": "string", "enum": ["summary", "full", "off"]},
    });
    if state.runs.capabilities().models {
        keys["ai.provider"] = json!({"type": "string", "description": "One of `aiProviders.supported`."});
        for name in ["model", "ai.model"] {
            keys[name] = json!({"type": "string", "minLength": 1, "maxLength": MAX_MODEL_BYTES});
        }
        keys["promptOverrides"] = json!({"type": "object"});
        keys["temperature"] = json!({"type": "number", "min": 0, "max": 2});
        keys["maxTokens"] = json!({"type": "integer", "min": 1, "max": MAX_OUTPUT_TOKENS});
    }
    keys
}

/// The families of capabilities.
fn families(state: &Service) -> Map<String, Value> {
    let scopes = || state.shelves.rules().scopes.iter().map(|scope| scope.as_str()).collect();
    families_of(&Said {
        runs: &state.runs,
        ours: state.runs.capabilities(),
        executors: state.runs.executors(),
        settings: &state.settings,
        is_traced: state.runs.is_traced(),
        tests: state.shelves.tests().map(|_| scopes()),
    })
}

fn families_of(state: &Said<'_>) -> Map<String, Value> {
    let ours = &state.ours;
    let encodings: Vec<_> = Encoding::ALL.iter().map(|encoding| encoding.as_str()).collect();
    let mut families = json!({
        "runs": {
            "pauseResume": {"supported": true, "drainPolicies": ["immediate", "drain-current-node"]},
            "bulkCancel": {"supported": true, "maxRunIds": MAX_BULK},
        },
        "restTransport": {"conditionalRunGet": true, "contentEncodings": encodings},
        "idempotency": {
            "supported": true,
            "layer1RetentionSeconds": 86_400,
            "layer2RetentionSeconds": 1_209_600,
            "crossRegion": "single-region",
        },
        "replay": {"supported": true, "modes": ["replay", "branch"]},
        "debugBundle": {"supported": true},
        "webhooks": {"supported": true, "signatureAlgorithms": ["v1"]},
        "feedback": {
            "supported": true,
            "targets": ["run", "event", "node"],
            "signals": ["rating", "correction", "label", "flag"],
        },
        "auth": auth(state),
        "testing": {
            "testKeyPrefix": TEST_PREFIX,
            "forceEngineVersionRange": {"min": ENGINE_VERSIONS.start(), "max": ENGINE_VERSIONS.end()},
        },
        "extensions": {"interrupts": {"profiles": [
            "openwop-interrupt-quorum",
            "openwop-interrupt-auth-required",
            "openwop-interrupt-external-event",
            "openwop-interrupt-cascade-cancel",
        ]}, "interlock": {"mcp": {"url": format!("{}/mcp", state.runs.public_url()), "transport": "streamable-http"}}},
        "subWorkflow": {"inputMapping": ours.sub_workflow_input_mapping},
        "conversationPrimitive": ours.conversation,
        "orchestrator": {"supported": ours.orchestrator},
        "dispatch": dispatch(state),
        // Older readers look for the same here.
        "agents": {
            "supported": true,
            "orchestrator": ours.orchestrator,
            "dispatch": ours.dispatch,
            "dispatchMapping": ours.dispatch_mapping,
            // Those of models come as a whole; an agent that pretends tells its own in pieces.
            "reasoning": {"verbosity": "summary", "tokenLimit": MAX_REASONING_TOKENS, "streaming": true},
        },
        "multiAgent": {"executionModel": {
            "supported": ours.orchestrator && ours.dispatch,
            "version": 2,
            "confidenceEscalationFloor": 0.5,
            "crossHostCausation": {"supported": false, "ancestryEndpointSupported": true},
        }},
    });
    if state.executors.and_then(Executors::agents).is_some() {
        families["agents"]["manifestRuntime"] =
            json!({"supported": true, "handoffValidation": true, "installScope": "host"});
    }
    let sources: &[&str] = if ours.mcp_mount { &["workflow", "mcp"] } else { &["workflow"] };
    families["toolCatalog"] = json!({"supported": true, "sources": sources, "sessionLifecycle": false});
    if ours.mock_agent {
        families["conformance"] = json!({"mockAgent": true});
    }
    if ours.mcp_mount || ours.mcp_client {
        families["mcp"] = json!({"supported": ours.mcp_client, "serverUrls": []});
    }
    if ours.mcp_mount {
        families["mcp"]["serverMount"] = json!({
            "supported": true,
            "transports": ["streamable-http"],
            "samplingBridge": ours.mcp_sampling,
            "elicitationBridge": true,
        });
        families["mcp"]["serverUrls"] = json!([format!("{}/v1/mcp", state.runs.public_url())]);
    }
    if state.runs.serves_secrets() {
        families["secrets"] = json!({"supported": true, "scopes": ["tenant"], "resolution": "host-managed"});
    }
    if let (Some(surfaces), Value::Object(families)) =
        (state.executors.and_then(Executors::surfaces), &mut families)
        && let Value::Object(served) = surfaces.advertise()
    {
        families.extend(served);
    }
    if state.settings.ui_plugins {
        families["uiPlugins"] = host::plugins::advertised();
    }
    if state.is_traced {
        families["observability"] = json!({"otel": {"exportProtocols": ["http/protobuf"]}});
    }
    match families {
        Value::Object(mut families) => {
            parts::extend(state, &mut families);
            state.runs.withheld().into_iter().for_each(|flag| parts::withhold(flag, &mut families));
            families
        }
        _ => Map::new(),
    }
}

fn auth(state: &Said<'_>) -> Value {
    json!({
        "profiles": ["openwop-auth-api-key-rotation", "openwop-audit-log-integrity"],
        "rotation": {"supported": true, "minGraceSeconds": 0},
        "auditLogIntegrity": {
            "hashChain": true,
            "checkpointSignatureAlgorithm": "ed25519",
            "checkpointPublicKey": state.runs.audit_public_key(),
            "checkpointIntervalEntries": CHECKPOINT_EVERY,
            "checkpointIntervalSeconds": CHECKPOINT_SECONDS,
        },
    })
}

fn dispatch(state: &Said<'_>) -> Value {
    let ours = &state.ours;
    let mut dispatch = json!({
        "supported": ours.dispatch,
        "models": ["child-run"],
        "fanOutSupported": ours.fan_out,
        "fanOutPolicies": ["sequential", "reject"],
        "askUserRoutings": ["clarification", "auto"],
    });
    if ours.conversation {
        dispatch["askUserRoutings"] = json!(["conversation", "clarification", "auto"]);
    }
    if ours.fan_out {
        dispatch["fanOutPolicies"] = json!(FanOutPolicy::ALL);
        dispatch["joinModes"] = json!(JoinMode::ALL);
        dispatch["onChildFailureModes"] = json!(OnWorkerFailure::ALL);
        dispatch["maxFanOut"] = state.runs.limits().max_fan_out.into();
    }
    dispatch
}
