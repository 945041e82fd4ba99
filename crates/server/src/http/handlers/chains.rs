//! Expands chains for conformance suites: those of installed packs, and of a built-in sample pack.

use std::sync::OnceLock;

use flow::definition::{Capabilities, NodeType};
use packs::chain::{ExpansionId, expand as expand_chain, find};
use packs::manifest::Manifest;
use packs::name::PackName;
use packs::{PackError, PackErrorCode};
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::errors::{self, flat, on_a_thread};

/// The name of the sample pack.
const SAMPLE: &str = "vendor.openwop.workflow-chain-sample";

/// `POST /v1/host/sample/workflow-chain:expand`
pub(in super::super) async fn expand(call: CheckedRequest) -> HandlerResult {
    let text = |name: &str| call.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let (pack, chain_id) = (text("packName"), text("chainId"));
    if pack.is_empty() || chain_id.is_empty() {
        let message = "`packName` and `chainId` are required and must be strings";
        return Ok(flat(422, "invalid_request", message, Map::new()));
    }
    let manifest = match manifest(&call, pack, text("version")).await? {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Ok(flat(404, "pack_not_found", "this pack is not installed", Map::new())),
        Err(error) => return Ok(errors::pack(&error)),
    };
    let mut entropy = [0; 2];
    if call.state.entropy.fill(&mut entropy).is_err() {
        return Ok(flat(500, "internal_error", "the system's random number generator failed", Map::new()));
    }
    let capabilities = call.state.runs.features().capabilities();
    let parameters = call.body.get("parameters").cloned().unwrap_or_else(|| json!({}));
    let expanded = find(&manifest, chain_id).and_then(|chain| {
        let id = ExpansionId::from_entropy(entropy);
        expand_chain(chain, &parameters, &id, |type_id| is_served(type_id, &capabilities))
    });
    match expanded {
        Ok(expansion) => {
            let mut body = json!(expansion);
            body["packName"] = pack.into();
            body["packVersion"] = manifest.common.version.to_string().into();
            Ok(response::json(200, &body))
        }
        Err(error) => Ok(errors::pack(&error)),
    }
}

/// Whether workflows on this host may have nodes of this type.
fn is_served(type_id: &str, capabilities: &Capabilities) -> bool {
    match NodeType::parse(type_id) {
        Some(kind) => kind.missing_capability(capabilities).is_none(),
        None => capabilities.pack_types.contains(type_id),
    }
}

/// The manifest of a version of a pack, or of the highest one, after its stored signature was verified. Other packs are not read, so a
/// damaged one does not matter.
async fn manifest(
    call: &CheckedRequest,
    name: &str,
    version: &str,
) -> Result<Result<Option<Manifest>, PackError>, runs::Refusal> {
    let built_in = || {
        let manifest = sample();
        let is_asked = version.is_empty() || version == manifest.common.version.to_string();
        (name == SAMPLE && is_asked).then(|| manifest.clone())
    };
    let built_in = built_in();
    let Some(installed) = call.state.pack_registries.installed().cloned() else { return Ok(Ok(built_in)) };
    let Ok(name) = PackName::parse(name) else { return Ok(Ok(None)) };
    let version = match version {
        "" => None,
        text => match packs::version::parse(text) {
            Some(version) => Some(version),
            None => return Ok(Ok(None)),
        },
    };
    on_a_thread(move || match installed.load_verified(&name, version.as_ref(), &[]) {
        Ok(pack) => Ok(Some(pack.manifest)),
        // If the suite installed its own pack of that name, that one is used.
        Err(error) if error.code() == PackErrorCode::NotFound => Ok(built_in),
        Err(error) => Err(error),
    })
    .await
}

/// Two chains: summarize a text, or look up a page first.
fn sample() -> &'static Manifest {
    static READ: OnceLock<Manifest> = OnceLock::new();
    READ.get_or_init(|| Manifest::from_value(&document()).expect("the document below is a manifest"))
}

fn document() -> Value {
    // A number of words, or a phrase such as `one-sentence`.
    let length = json!({"type": ["integer", "string"], "minimum": 1, "maximum": 2000, "maxLength": 64, "default": "one-paragraph"});
    let prompt = |text: &str| {
        json!({
            "systemPrompt": "You summarize texts. You add nothing that is not in them.",
            "userPrompt": format!("Summarize. Target length: {{{{params.targetLength}}}}. Text: {text}"),
        })
    };
    let mut summarize = prompt("{{params.sourceText}}");
    summarize["systemPrompt"] =
        json!("You summarize texts in a {{params.tone}} tone. You add nothing that is not in them.");
    json!({
        "name": SAMPLE, "version": "1.0.0", "kind": "workflow-chain", "engines": {"openwop": ">=1.0.0 \
         <2.0.0"},
        "description": "Two workflow chains that summarize texts.", "license": "Apache-2.0",
        "chains": [
            {
                "chainId": format!("{SAMPLE}.summarize-text"), "version": "1.0.0", "label": "Summarize a \
                 text",
                "description": "Asks a model for a summary of a text.",
                "parameters": {
                    "type": "object", "required": ["sourceText"], "additionalProperties": false,
                    "properties": {
                        "sourceText": {"type": "string", "minLength": 1}, "targetLength": length,
                        "tone": {"enum": ["neutral", "friendly", "formal"], "default": "neutral"},
                    },
                },
                "dag": {"nodes": [
                    {"id": "summarize", "typeId": "core.ai.callPrompt", "name": "Sum up", "config": summarize},
                ]},
                "outputs": {"summary": {"type": "string", "description": "The summary."}},
                "capabilities": ["cacheable"],
            },
            {
                "chainId": format!("{SAMPLE}.fetch-and-summarize"), "version": "1.0.0", "label": "Look up \
                 and summarize",
                "description": "Reads the page that is cached for a URL, and asks a model for a summary.",
                "parameters": {
                    "type": "object", "required": ["url"], "additionalProperties": false,
                    "properties": {"url": {"type": "string", "minLength": 1}, "targetLength": length},
                },
                "dag": {
                    "nodes": [
                        {"id": "fetch", "typeId": "core.storage.kv-get", "name": "Look up",
                         "config": {"namespace": "pages"}, "inputs": {"key": "{{params.url}}"}},
                        {"id": "summarize", "typeId": "core.ai.callPrompt", "name": "Sum up", "config": prompt("{{params.url}}"),
                         "inputs": {"page": {"type": "connection", "nodeId": "fetch", "outputKey": "value"}}},
                    ],
                    "edges": [{"from": "fetch.value", "to": "summarize.page"}],
                },
                "outputs": {"summary": {"type": "string", "description": "The summary."}},
                "capabilities": ["side-effectful"],
            },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chains_of_the_sample_expand_on_a_host_that_serves_everything() {
        let everything = |type_id: &str| is_served(type_id, &Capabilities::EVERYTHING);
        let id = ExpansionId::from_entropy([1, 2]);
        for (name, parameters, nodes, capability) in [
            (
                "summarize-text",
                json!({"sourceText": "Long.", "targetLength": "one-sentence", "tone": "formal"}),
                1,
                "cacheable",
            ),
            (
                "fetch-and-summarize",
                json!({"url": "https://example.com/", "targetLength": 5}),
                2,
                "side-effectful",
            ),
        ] {
            let chain = find(sample(), &format!("{SAMPLE}.{name}")).unwrap();
            let expansion = expand_chain(chain, &parameters, &id, everything).unwrap();
            assert_eq!(expansion.nodes.len(), nodes);
            let shown = json!(expansion);
            assert_eq!(shown["nodes"][0]["capabilities"], json!([capability]));
            assert!(!shown.to_string().contains("{{"), "{shown}");
        }
        let chain = find(sample(), &format!("{SAMPLE}.summarize-text")).unwrap();
        let wrong = expand_chain(chain, &json!({"sourceText": 1}), &id, everything).unwrap_err();
        assert_eq!(wrong.code().as_str(), "chain_parameter_invalid");
        let unserved =
            expand_chain(chain, &json!({}), &id, |type_id| is_served(type_id, &Capabilities::OURS));
        assert_eq!(unserved.unwrap_err().code().as_str(), "chain_unresolvable_typeid");
    }
}
