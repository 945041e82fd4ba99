//! Packs of nodes and agents.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::{AGENT, AgentManifest};
use super::common::{CAPABILITIES, Capability, MODEL_CAPABILITIES, TEXTS, TYPE_ID};
use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{
    NON_EMPTY, Rule, Shape, TEXT, check, closed, kind_of, list, matching, optional, reject_duplicates,
    required,
};

const NODE: Shape = closed(&[
    required("typeId", TYPE_ID),
    required("version", TEXT),
    required("category", Rule::OneOf(&["chat", "control", "data", "canvas", "coordination", "integration"])),
    required("role", TEXT),
    optional("label", NON_EMPTY),
    optional("description", TEXT),
    optional("capabilities", CAPABILITIES),
    optional("configSchemaRef", TEXT),
    optional("inputSchemaRef", TEXT),
    optional("outputSchemaRef", TEXT),
    optional("outputs", Rule::Map(&Rule::Object(&OUTPUT))),
    optional("envelopeContractRef", TEXT),
    optional("artifact", Rule::Object(&ARTIFACT)),
    optional("mcp", Rule::Object(&MCP)),
    optional("requiresSecrets", list(&Rule::Object(&SECRET))),
    optional("requiredCredentials", list(&Rule::Object(&CREDENTIAL))),
    optional("auth", Rule::Object(&NODE_AUTH)),
    optional("requiredModelCapabilities", MODEL_CAPABILITIES),
    optional("fallbackModel", Rule::Object(&FALLBACK_MODEL)),
]);

const OUTPUT: Shape = Shape { members: &[optional("sensitive", Rule::Bool)], open: true };
const ARTIFACT: Shape = closed(&[
    optional("typeId", TEXT),
    optional("syncOn", Rule::OneOf(&["completion", "approval", "manual"])),
    optional("supportsCheckpoint", Rule::Bool),
]);
const MCP: Shape = closed(&[optional("exposeAsTool", Rule::Bool), optional("toolName", TEXT)]);
const SECRET: Shape = closed(&[
    required("id", NON_EMPTY),
    required("kind", Rule::OneOf(&["ai-provider", "api-key", "oauth-token", "custom"])),
    optional("provider", TEXT),
    optional("scope", Rule::OneOf(&["tenant", "user", "run"])),
]);
const CREDENTIAL_SCOPE: Rule = Rule::OneOf(&["user", "workspace", "tenant"]);
const CREDENTIAL: Shape =
    closed(&[required("key", NON_EMPTY), optional("scope", CREDENTIAL_SCOPE), optional("displayName", TEXT)]);
const NODE_AUTH: Shape = closed(&[
    required("type", Rule::OneOf(&["oauth2"])),
    required("provider", NON_EMPTY),
    optional("scopes", TEXTS),
]);
const KEY_AUTH: Shape = closed(&[
    required("type", Rule::OneOf(&["credential"])),
    required("key", NON_EMPTY),
    optional("scope", CREDENTIAL_SCOPE),
]);
const FALLBACK_MODEL: Shape = closed(&[
    required("provider", matching(256, grammar::slug, "a provider such as `acme`")),
    required("model", NON_EMPTY),
]);
const RUNTIME: Shape = closed(&[
    required("language", Rule::OneOf(&["javascript", "python", "go", "wasm", "wasm-component", "remote"])),
    required("entry", TEXT),
    optional(
        "format",
        Rule::OneOf(&["esm", "cjs", "wheel", "binary", "shared-library", "wasm", "wasm-component"]),
    ),
    optional("minRuntimeVersion", TEXT),
    optional(
        "requires",
        Rule::List { item: &Rule::OneOf(&REQUIREMENTS), min: 0, max: usize::MAX, unique: true },
    ),
    optional("wasm", Rule::Object(&WASM)),
]);
const WASM: Shape = closed(&[
    required("abiVersion", Rule::Integer { min: 0 }),
    optional("memoryPagesInitial", Rule::Integer { min: 0 }),
    optional("memoryPagesMax", Rule::Integer { min: 1 }),
]);
const CONNECTOR: Shape = closed(&[
    required("id", matching(256, grammar::dotted_slug, "an id such as `acme.mail`")),
    required("displayName", NON_EMPTY),
    optional("auth", Rule::Custom(connector_auth)),
    optional("actions", list(&Rule::Object(&ACTION))),
    optional("triggers", list(&NON_EMPTY)),
]);
const ACTION: Shape = closed(&[
    required("typeId", NON_EMPTY),
    required("displayName", NON_EMPTY),
    optional("idempotent", Rule::Bool),
    optional("rateLimit", Rule::Object(&RATE_LIMIT)),
    optional("paginated", Rule::Bool),
]);
const RATE_LIMIT: Shape = closed(&[
    optional("requests", Rule::Integer { min: 1 }),
    optional("perSeconds", Rule::Integer { min: 1 }),
]);

/// Runtime requirements of a host.
pub const REQUIREMENTS: [&str; 8] =
    ["net.dns", "net.outbound", "crypto", "subprocess", "fs.read", "fs.write", "env.read", "clock"];

pub(super) fn check_content(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let filled =
        |name: &str| value.get(name).and_then(Value::as_array).is_some_and(|items| !items.is_empty());
    if !filled("nodes") && !filled("agents") {
        problems.invalid(at, "requires non-empty `nodes` or `agents`");
    }
    for (name, shape, id) in [("nodes", &NODE, "typeId"), ("agents", &AGENT, "agentId")] {
        let Some(items) = value.get(name) else { continue };
        let at = at.member(name);
        match items.as_array() {
            None => problems.invalid(&at, format!("must be a list, not {}", kind_of(items))),
            Some(list) => {
                for (place, item) in list.iter().enumerate() {
                    super::shape::check_object(item, shape, &at.item(place), problems);
                    if name == "agents" {
                        super::agent::check_prompt(item, &at.item(place), problems);
                    }
                }
            }
        }
        reject_duplicates(items, id, ManifestErrorCode::Invalid, &at, problems);
    }
    match value.get("runtime") {
        Some(runtime) => check(runtime, &Rule::Object(&RUNTIME), &at.member("runtime"), problems),
        None => problems.invalid(&at.member("runtime"), "required"),
    }
    if let Some(connector) = value.get("connector") {
        let at = at.member("connector");
        check(connector, &Rule::Object(&CONNECTOR), &at, problems);
        check_connector(value, connector, &at, problems);
    }
}

/// Every connector action is a node of the same pack.
fn check_connector(value: &Value, connector: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let nodes = value.get("nodes").and_then(Value::as_array).into_iter().flatten();
    let known: HashSet<&str> = nodes.filter_map(|node| node.get("typeId")?.as_str()).collect();
    let mut resolve = |id: Option<&Value>, at: &Pointer<'_>| {
        if let Some(id) = id.and_then(Value::as_str)
            && !known.contains(id)
        {
            let message = format!("`{}` is not a node of this pack", crate::name::shown(id));
            problems.add(ManifestErrorCode::ConnectorActionUnresolved, at, message);
        }
    };
    let items = |name: &str| connector.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
    for (place, action) in items("actions") {
        resolve(action.get("typeId"), &at.member("actions").item(place).member("typeId"));
    }
    for (place, trigger) in items("triggers") {
        resolve(Some(trigger), &at.member("triggers").item(place));
    }
}

fn connector_auth(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let shape = match value.get("type").and_then(Value::as_str) {
        Some("credential") => &KEY_AUTH,
        _ => &NODE_AUTH,
    };
    super::shape::check_object(value, shape, at, problems);
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodePack {
    #[serde(default)]
    pub nodes: Vec<PackNode>,
    #[serde(default)]
    pub agents: Vec<AgentManifest>,
    pub runtime: Runtime,
    /// Set if the pack is a service connector.
    pub connector: Option<Map<String, Value>>,
}

/// A node type in a pack.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackNode {
    /// The type used in workflows. It need not start with the pack name.
    pub type_id: String,
    pub version: String,
    pub label: Option<String>,
    pub description: Option<String>,
    pub category: String,
    pub role: String,
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// The archive path of the configuration schema.
    pub config_schema_ref: Option<String>,
    /// The archive path of the input schema.
    pub input_schema_ref: Option<String>,
    /// The archive path of the output schema.
    pub output_schema_ref: Option<String>,
    /// Output properties, such as sensitivity.
    #[serde(default)]
    pub outputs: BTreeMap<String, Value>,
    #[serde(default)]
    pub requires_secrets: Vec<SecretRequirement>,
}

/// A secret that a node requires.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SecretRequirement {
    /// The name used by the node.
    pub id: String,
    pub kind: String,
    pub provider: Option<String>,
    /// Who owns the secret.
    pub scope: Option<String>,
}

/// The runtime of a pack's nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    pub language: Language,
    /// The archive path of the loaded file; a URL if the language is `remote`.
    pub entry: String,
    pub format: Option<String>,
    /// The minimum runtime version.
    pub min_runtime_version: Option<String>,
    /// Requirements; some of [`REQUIREMENTS`].
    #[serde(default)]
    pub requires: Vec<String>,
    /// For WebAssembly modules.
    pub wasm: Option<WasmRuntime>,
}

/// The languages of packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    Javascript,
    Python,
    Go,
    Wasm,
    WasmComponent,
    Remote,
}

impl Language {
    /// The spelling in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Javascript => "javascript",
            Self::Python => "python",
            Self::Go => "go",
            Self::Wasm => "wasm",
            Self::WasmComponent => "wasm-component",
            Self::Remote => "remote",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WasmRuntime {
    pub abi_version: u64,
    /// Initial memory, in pages of 64 KiB.
    pub memory_pages_initial: Option<u64>,
    /// Maximum memory, in pages of 64 KiB.
    pub memory_pages_max: Option<u64>,
}

impl NodePack {
    /// The schemas of nodes and agents, each with its position in the manifest.
    pub fn schema_refs(&self) -> Vec<(String, &str)> {
        let mut refs = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            for (name, reference) in [
                ("configSchemaRef", &node.config_schema_ref),
                ("inputSchemaRef", &node.input_schema_ref),
                ("outputSchemaRef", &node.output_schema_ref),
            ] {
                refs.extend(reference.as_deref().map(|path| (format!("/nodes/{place}/{name}"), path)));
            }
        }
        for (place, agent) in self.agents.iter().enumerate() {
            for (name, reference) in agent.file_refs() {
                refs.push((format!("/agents/{place}/{name}"), reference));
            }
        }
        refs
    }
}
