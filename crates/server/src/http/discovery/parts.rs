//! The families for models, pack modules, chains and the test catalogue. Each is advertised only if it is served.

use ai::completion::{DEFAULT_ATTEMPTS, ENVELOPES_PER_TURN, reliability};
use ai::envelope::Kinds;
use ai::prompt::PromptKind;
use ai::prompt::template::{MAX_CHARACTERS, Source};
use ai::provider::mock::MockId;
use executors::Executors;
use executors::installed::ABI_VERSIONS;
use executors::models::{Models, UNIVERSAL_VERSION};
use executors::modules::Modules;
use sandbox::Limits;
use serde_json::{Map, Value, json};

use super::super::state::Service;
use super::FamilyInput;

/// The host functions that pack modules may call.
const HOST_CALLS: [&str; 8] = [
    "openwop_channel_read",
    "openwop_channel_write",
    "openwop_variable_get",
    "openwop_variable_set",
    "openwop_interrupt",
    "openwop_log",
    "openwop_now_ms",
    "openwop_random",
];

fn models(state: &Service) -> Option<&Models> {
    served(state.runs.features().executors()).filter(|_| state.runs.features().capabilities().models)
}

fn served(executors: Option<&Executors>) -> Option<&Models> {
    executors.and_then(Executors::models).filter(|models| models.is_served())
}

fn modules<'a>(state: &FamilyInput<'a>) -> Option<&'a Modules> {
    state.executors.and_then(Executors::modules)
}

/// The envelope kinds that are accepted, with their versions: the universal ones and those of the settings.
pub(super) fn envelopes(state: &Service) -> Vec<(String, u64)> {
    let own = models(state).map(|models| models.kinds().clone());
    let kinds = own.unwrap_or_else(|| Kinds::only([]));
    let current = |kind: String| {
        let version = kinds.current(&kind).unwrap_or(UNIVERSAL_VERSION);
        (kind, version)
    };
    kinds.known().into_iter().map(current).collect()
}

/// The maximum number of envelopes that a model may return in one call.
pub(super) fn envelopes_per_turn(state: &Service) -> u64 {
    models(state).map_or(0, |_| u64::from(ENVELOPES_PER_TURN))
}

/// The maximum number of times that a model is asked again after an invalid reply.
pub(super) fn schema_rounds(state: &Service) -> u64 {
    models(state).map_or(0, |_| u64::from(DEFAULT_ATTEMPTS - 1))
}

/// Adds the families.
pub(super) fn extend(state: &FamilyInput<'_>, families: &mut Map<String, Value>) {
    if let Some(models) = served(state.executors).filter(|_| state.ours.models) {
        let supported: Vec<&str> = models.choosable().collect();
        put(families, "aiProviders", json!({"supported": supported}));
        if models.is_mocked()
            && let Some(Value::Object(testing)) = families.get_mut("testing")
        {
            let mocks: Vec<&str> = MockId::ALL.iter().map(|mock| mock.as_str()).collect();
            testing.insert("mockProviders".to_owned(), json!(mocks));
        }
        put(families, "providerUsage", json!({"supported": true, "costEstimates": false}));
        let events: Vec<&str> = reliability::KINDS.iter().map(|kind| kind.as_str()).collect();
        let reliability = json!({
            "supported": true, "events": events, "maxRetryAttempts": DEFAULT_ATTEMPTS,
            "completion": {"distinguishesTruncation": true},
        });
        put(families, "envelopes", json!({"reliability": reliability}));
        put(families, "prompts", prompts(state, models));
    }
    if let Some(modules) = modules(state) {
        let limits = Limits::DEFAULT;
        let most_ms = u64::try_from(limits.wall_clock.as_millis()).unwrap_or(u64::MAX);
        let wasm = json!({
            "supported": true, "abiVersions": ABI_VERSIONS, "engine": "wasmtime", "loadedPacks": modules.packs(),
            "maxMemoryBytes": limits.memory_bytes, "maxExecutionMs": most_ms,
        });
        put(families, "nodePackRuntimes", json!({"wasm": wasm}));
        let sandbox = json!({
            "supported": true, "isolationModel": "wasm", "allowedHostCalls": HOST_CALLS,
            "memoryLimitBytes": limits.memory_bytes, "wallClockLimitMs": most_ms,
        });
        put(families, "sandbox", sandbox);
    }
    if state.settings.test_seams {
        let seams = json!({"otelScrape": state.settings.test_spans, "debugBundleExport": true});
        let observability = families.entry("observability").or_insert_with(|| json!({}));
        observability["testSeams"] = seams;
    }
    // Only the test seam expands chains.
    if state.settings.test_seams {
        put(families, "workflowChainPacks", json!({"supported": true}));
    }
    if let Some(scopes) = &state.tests {
        let test_mode = json!({
            "supported": true, "isolated": true, "catalogResetEndpoint": "/v1/packs-test/reset", "scopes": scopes,
        });
        put(families, "packs", json!({"testMode": test_mode}));
    }
}

/// Marks a flag as not supported. If the value is not a boolean, its family is removed.
pub(super) fn withhold(flag: &str, families: &mut Map<String, Value>) {
    let (family, _) = flag.split_once('.').unwrap_or((flag, ""));
    let found = families.get_mut(family).and_then(|value| match flag.split_once('.') {
        None => Some(value),
        Some((_, rest)) => value.pointer_mut(&format!("/{}", rest.replace('.', "/"))),
    });
    match found {
        Some(Value::Bool(served)) => *served = false,
        Some(_) => drop(families.remove(family)),
        None => {}
    }
}

/// Nodes resolve and compose prompts. There are no routes for templates, and agents contribute none.
fn prompts(state: &FamilyInput<'_>, models: &Models) -> Value {
    let kinds: Vec<&str> = PromptKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let secrets = state.facts.serves_secrets;
    let sources = Source::ALL.iter().filter(|source| match source {
        Source::Input | Source::Variable => true,
        Source::Secret => secrets,
        Source::Context => false,
    });
    let sources: Vec<&str> = sources.map(|source| source.as_str()).collect();
    json!({
        "supported": true, "endpointsSupported": false, "templateKinds": kinds, "variableSources": sources,
        "maxTemplateBytes": MAX_CHARACTERS, "observability": models.observability().as_str(),
        "packsSupported": false, "mutableLibrary": false, "agentBindings": false,
    })
}

fn put(families: &mut Map<String, Value>, name: &str, family: Value) {
    families.insert(name.to_owned(), family);
}
