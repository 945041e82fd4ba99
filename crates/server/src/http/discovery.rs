//! The discovery document. It advertises exactly what this host serves; `tests/it/http/served.rs` compares the two.
//!
//! The capability families are at the root, and repeated under `capabilities` for older clients.

mod parts;

use std::collections::BTreeSet;

use ai::completion::MAX_OUTPUT_TOKENS;
use ai::reasoning::DEFAULT_TOKEN_LIMIT;
use executors::Executors;
use flow::definition::Capabilities;
use flow::definition::config::{FanOutPolicy, HttpMethod, HttpRequestConfig, JoinMode, OnWorkerFailure};
use flow::engine::Limits;
use flow::engine::bounds::MAX_REASONING_TOKENS;
use flow::event::wire::LOG_SCHEMA_VERSION;
use flow::options::MAX_MODEL_BYTES;
use runs::Runs;
use runs::audit::{CHECKPOINT_EVERY, CHECKPOINT_SECONDS};
use runs::bulk::MAX_BULK;
use runs::create::ENGINE_VERSIONS;
use runs::keys::TEST_PREFIX;
use runs::webhooks::SignatureAlgorithm;
use runs::webhooks::rotate::OVERLAP_SECONDS;
use serde_json::{Map, Value, json};

use super::encoding::Encoding;
use super::handlers::mount;
use super::state::{Service, Settings};
use super::version::{PREFERRED_VERSION, PROTOCOL_VERSIONS};

/// The input from which the families are computed.
struct FamilyInput<'a> {
    facts: RunFacts<'a>,
    ours: Capabilities,
    executors: Option<&'a Executors>,
    settings: &'a Settings,
    is_traced: bool,
    /// Whether agents of packs are served.
    agents: bool,
    /// The scopes of the test catalogue, if there is one.
    tests: Option<Vec<&'static str>>,
}

/// What is advertised of the runs of this host.
pub struct RunFacts<'a> {
    capabilities: Capabilities,
    limits: &'a Limits,
    public_url: &'a str,
    serves_secrets: bool,
    audit_public_key: String,
    /// The discovery flags that tests withhold.
    withheld: BTreeSet<&'static str>,
}

impl<'a> RunFacts<'a> {
    pub fn of(runs: &'a Runs) -> Self {
        Self {
            capabilities: runs.features().capabilities(),
            limits: runs.features().limits(),
            public_url: runs.public_url(),
            serves_secrets: runs.records().serves_secrets(),
            audit_public_key: runs.audit().public_key(),
            withheld: runs.features().withheld(),
        }
    }

    /// The same for runs that do not exist yet.
    pub fn planned(options: &'a runs::Options) -> Self {
        Self {
            capabilities: options.capabilities.clone(),
            limits: &options.limits,
            public_url: &options.public_url,
            serves_secrets: !options.secrets.known().is_empty(),
            audit_public_key: options.audit_key.public(),
            withheld: BTreeSet::new(),
        }
    }
}

/// The capabilities that packs may require, before the packs are loaded. Agents count although none is installed yet: the pack that
/// requires them may contain the first one.
pub fn capability_names(
    facts: RunFacts<'_>,
    executors: &Executors,
    settings: &Settings,
    is_traced: bool,
) -> BTreeSet<String> {
    let ours = executors.widen(&facts.capabilities);
    let agents = executors.agents().is_some();
    let input =
        FamilyInput { facts, ours, executors: Some(executors), settings, is_traced, agents, tests: None };
    names(&families_of(&input))
}

/// The capabilities that this host provides to packs.
pub(super) fn given(state: &Service) -> BTreeSet<String> {
    let agents = state.runs.features().executors().and_then(Executors::agents).is_some();
    names(&families(state, agents))
}

/// The names of enabled families, and of their enabled parts, such as `mcp.serverMount`.
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

// Models and mock agents have the same limit, because only one is advertised.
const _: () = assert!(MAX_REASONING_TOKENS == DEFAULT_TOKEN_LIMIT);

pub(super) fn document(state: &Service) -> Value {
    let families = families(state, serves_agents(state));
    let versions: Map<String, Value> =
        parts::envelopes(state).into_iter().map(|(kind, version)| (kind, version.into())).collect();
    let envelopes: Vec<String> = parts::envelopes(state).into_iter().map(|(kind, _)| kind).collect();
    let mut document = json!({
        "protocolVersion": PREFERRED_VERSION,
        "protocolVersions": PROTOCOL_VERSIONS,
        "preferredVersion": PREFERRED_VERSION,
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
    let limits = state.runs.features().limits();
    json!({
        "clarificationRounds": limits.clarification_rounds,
        // 0 on a host without models.
        "schemaRounds": parts::schema_rounds(state),
        "envelopesPerTurn": parts::envelopes_per_turn(state),
        "maxNodeExecutions": limits.max_node_executions,
        "maxRunDurationMs": limits.max_run_duration_ms,
        "maxLoopIterations": limits.max_loop_iterations,
        "maxRequestBodyBytes": state.settings.max_body_bytes,
    })
}

fn configurable(state: &Service) -> Value {
    let limits = state.runs.features().limits();
    let mut keys = json!({
        "recursionLimit": {"type": "integer", "min": 1, "max": limits.max_node_executions},
        "runTimeoutMs": {"type": "integer", "min": 1, "max": limits.max_run_duration_ms},
        "maxLoopIterations": {"type": "integer", "min": 1, "max": limits.max_loop_iterations},
        "escalationThreshold": {"type": "number", "min": 0, "max": 1},
        "reasoningVerbosity": {"type": "string", "enum": ["summary", "full", "off"]},
    });
    if state.runs.features().capabilities().models {
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

/// Whether an agent is installed. Without one there is nothing to list or to dispatch to, so agents are neither advertised nor listed.
pub(super) fn serves_agents(state: &Service) -> bool {
    state.runs.features().executors().and_then(Executors::agents).is_some_and(|agents| !agents.is_empty())
}

/// The families of capabilities.
fn families(state: &Service, agents: bool) -> Map<String, Value> {
    let scopes = || state.pack_registries.rules().scopes.iter().map(|scope| scope.as_str()).collect();
    families_of(&FamilyInput {
        facts: RunFacts::of(&state.runs),
        ours: state.runs.features().capabilities(),
        executors: state.runs.features().executors(),
        settings: &state.settings,
        is_traced: state.runs.traces().are_enabled(),
        agents,
        tests: state.pack_registries.tests().map(|_| scopes()),
    })
}

fn families_of(state: &FamilyInput<'_>) -> Map<String, Value> {
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
        // A replay reads recorded results; a node without one fails with `replay_source_missing`.
        "replay": {"supported": true, "modes": ["replay", "branch"], "sideEffectSuppression": "recorded-outcome"},
        "debugBundle": {"supported": true},
        "webhooks": {
            "supported": true,
            "signatureAlgorithms": SignatureAlgorithm::ALL.map(SignatureAlgorithm::as_str),
            "secretRotation": {"overlapSeconds": OVERLAP_SECONDS},
        },
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
        ]}, "interlock": {"mcp": {"url": format!("{}/mcp", state.facts.public_url), "transport": "streamable-http"}}},
        "subWorkflow": {"inputMapping": ours.sub_workflow_input_mapping},
        "conversationPrimitive": ours.conversation,
        "orchestrator": {"supported": ours.orchestrator},
        "dispatch": dispatch(state),
        // The same for older clients.
        "agents": {
            "supported": true,
            "orchestrator": ours.orchestrator,
            "dispatch": ours.dispatch,
            "dispatchMapping": ours.dispatch_mapping,
            // Models report their reasoning as a whole, mock agents in pieces.
            "reasoning": {"verbosity": "summary", "tokenLimit": MAX_REASONING_TOKENS, "streaming": true},
        },
        "multiAgent": {"executionModel": {
            "supported": ours.orchestrator && ours.dispatch,
            "version": 2,
            "confidenceEscalationFloor": 0.5,
            "crossHostCausation": {"supported": false, "ancestryEndpointSupported": true},
        }},
    });
    if state.agents {
        families["agents"]["manifestRuntime"] =
            json!({"supported": true, "handoffValidation": true, "installScope": "host"});
    }
    let sources: &[&str] = if ours.mcp_mount { &["workflow", "mcp"] } else { &["workflow"] };
    families["toolCatalog"] = json!({
        "supported": true, "sources": sources, "compactView": true, "sessionLifecycle": false,
    });
    if ours.mock_agent {
        families["conformance"] = json!({"mockAgent": true});
    }
    if ours.http_client {
        families["httpClient"] = json!({
            "supported": true,
            "ssrfGuard": true,
            "maxResponseBodyBytes": HttpRequestConfig::MAX_RESPONSE_BYTES,
            "requestTimeoutMs": HttpRequestConfig::MAX_TIMEOUT_MS,
            "methods": HttpMethod::ALL,
        });
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
        families["mcp"]["protocolVersions"] = json!(mount::editions());
        families["mcp"]["serverUrls"] = json!([format!("{}/v1/mcp", state.facts.public_url)]);
    }
    if state.facts.serves_secrets {
        families["secrets"] = json!({"supported": true, "scopes": ["tenant"], "resolution": "host-managed"});
    }
    if let (Some(surfaces), Value::Object(families)) =
        (state.executors.and_then(Executors::surfaces), &mut families)
        && let Value::Object(served) = surfaces.advertise()
    {
        families.extend(served);
    }
    if state.settings.ui_plugins {
        families["uiPlugins"] = plugins::advertised();
    }
    if state.is_traced {
        families["observability"] = json!({"otel": {"exportProtocols": ["http/protobuf"]}});
    }
    match families {
        Value::Object(mut families) => {
            parts::extend(state, &mut families);
            state.facts.withheld.iter().for_each(|flag| parts::withhold(flag, &mut families));
            families
        }
        _ => Map::new(),
    }
}

fn auth(state: &FamilyInput<'_>) -> Value {
    json!({
        "profiles": ["openwop-auth-api-key-rotation", "openwop-audit-log-integrity"],
        "rotation": {"supported": true, "minGraceSeconds": 0},
        "auditLogIntegrity": {
            "hashChain": true,
            "checkpointSignatureAlgorithm": "ed25519",
            "checkpointPublicKey": state.facts.audit_public_key,
            "checkpointIntervalEntries": CHECKPOINT_EVERY,
            "checkpointIntervalSeconds": CHECKPOINT_SECONDS,
        },
    })
}

fn dispatch(state: &FamilyInput<'_>) -> Value {
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
        dispatch["maxFanOut"] = state.facts.limits.max_fan_out.into();
    }
    dispatch
}
