//! Packs of nodes and agents.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::{AGENT, AgentManifest};
use super::common::{CAPABILITIES, Capability, MODEL_CAPABILITIES, TEXTS, TYPE_ID};
use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{
    NON_EMPTY, Rule, Shape, TEXT, check, closed, kind_of, list, matching, optional, refuse_twice, required,
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

/// What a runtime may ask its host for.
pub const REQUIREMENTS: [&str; 8] =
    ["net.dns", "net.outbound", "crypto", "subprocess", "fs.read", "fs.write", "env.read", "clock"];

pub(super) fn check_content(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let filled =
        |name: &str| value.get(name).and_then(Value::as_array).is_some_and(|items| !items.is_empty());
    if !filled("nodes") && !filled("agents") {
        problems.invalid(at, "needs `nodes` or `agents`, with something in one of them");
    }
    for (name, shape, id) in [("nodes", &NODE, "typeId"), ("agents", &AGENT, "agentId")] {
        let Some(items) = value.get(name) else { continue };
        let at = at.member(name);
        match items.as_array() {
            None => problems.invalid(&at, format!("is {}, and has to be a list", kind_of(items))),
            Some(list) => {
                for (place, item) in list.iter().enumerate() {
                    super::shape::check_object(item, shape, &at.item(place), problems);
                    if name == "agents" {
                        super::agent::check_prompt(item, &at.item(place), problems);
                    }
                }
            }
        }
        refuse_twice(items, id, ManifestErrorCode::Invalid, &at, problems);
    }
    match value.get("runtime") {
        Some(runtime) => check(runtime, &Rule::Object(&RUNTIME), &at.member("runtime"), problems),
        None => problems.invalid(&at.member("runtime"), "is required and missing"),
    }
    if let Some(connector) = value.get("connector") {
        let at = at.member("connector");
        check(connector, &Rule::Object(&CONNECTOR), &at, problems);
        check_connector(value, connector, &at, problems);
    }
}

/// Everything that a connector offers is a node of the same pack.
fn check_connector(value: &Value, connector: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let nodes = value.get("nodes").and_then(Value::as_array).into_iter().flatten();
    let known: HashSet<&str> = nodes.filter_map(|node| node.get("typeId")?.as_str()).collect();
    let mut resolve = |id: Option<&Value>, at: &Pointer<'_>| {
        if let Some(id) = id.and_then(Value::as_str)
            && !known.contains(id)
        {
            let message = format!("`{}` is no node of this pack", crate::name::shown(id));
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

/// A pack of nodes and agents.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodePack {
    /// Types of nodes.
    #[serde(default)]
    pub nodes: Vec<PackNode>,
    /// Agents.
    #[serde(default)]
    pub agents: Vec<AgentManifest>,
    /// What runs the nodes.
    pub runtime: Runtime,
    /// The pack as a connector to a service.
    pub connector: Option<Map<String, Value>>,
}

/// A type of node that a pack brings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackNode {
    /// The type, as workflows write it. It need not begin with the name of the pack.
    pub type_id: String,
    /// The version of the node.
    pub version: String,
    /// What people see.
    pub label: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Where editors show it.
    pub category: String,
    /// What it is there for.
    pub role: String,
    /// What it is like.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// The schema of its configuration, as a path in the archive.
    pub config_schema_ref: Option<String>,
    /// The schema of its inputs, as a path in the archive.
    pub input_schema_ref: Option<String>,
    /// The schema of its outputs, as a path in the archive.
    pub output_schema_ref: Option<String>,
    /// Which of its outputs are kept from readers.
    #[serde(default)]
    pub outputs: BTreeMap<String, Value>,
    /// The secrets that it needs.
    #[serde(default)]
    pub requires_secrets: Vec<SecretRequirement>,
}

/// A secret that a node needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SecretRequirement {
    /// What the node calls it.
    pub id: String,
    /// What it is for.
    pub kind: String,
    /// Whose it is.
    pub provider: Option<String>,
    /// For whom it is kept.
    pub scope: Option<String>,
}

/// What runs the nodes of a pack.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// The language.
    pub language: Language,
    /// The file that is loaded, as a path in the archive; an address when the language is `remote`.
    pub entry: String,
    /// The form of that file.
    pub format: Option<String>,
    /// The lowest version of the runtime.
    pub min_runtime_version: Option<String>,
    /// What it asks its host for; some of [`REQUIREMENTS`].
    #[serde(default)]
    pub requires: Vec<String>,
    /// For modules of WebAssembly.
    pub wasm: Option<WasmRuntime>,
}

/// The languages that packs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Language {
    Javascript,
    Python,
    Go,
    Wasm,
    WasmComponent,
    Remote,
}

impl Language {
    /// The language as manifests write it.
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

/// What a module of WebAssembly says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WasmRuntime {
    /// The version of the calls between host and module.
    pub abi_version: u64,
    /// Pages of 64 KiB at the start.
    pub memory_pages_initial: Option<u64>,
    /// The most pages of 64 KiB.
    pub memory_pages_max: Option<u64>,
}

impl NodePack {
    /// The schemas that nodes and agents refer to, each with its place in the manifest.
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
