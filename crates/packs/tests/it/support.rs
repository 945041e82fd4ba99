//! Test packs.

use std::collections::BTreeMap;

use packs::path::EntryPath;
use packs::signature::{PUBLIC_KEY_PATH, PrivateKey, SIGNATURE_PATH};
use serde_json::{Value, json};

/// A manifest with one WebAssembly node.
pub(crate) fn node_pack(name: &str, version: &str) -> Value {
    json!({
        "name": name, "version": version, "engines": {"openwop": ">=1.0 <2.0.0"},
        "nodes": [{"typeId": "acme.fetch", "version": "1.0.0", "category": "data", "role": "pure"}],
        "runtime": {"language": "wasm", "entry": "nodes.wasm"},
    })
}

/// A manifest with one chain of two nodes.
pub(crate) fn chain_pack() -> Value {
    json!({
        "name": "vendor.acme.chains", "version": "1.2.0", "kind": "workflow-chain", "engines": {"openwop": "^1.0.0"},
        "chains": [{
            "chainId": "vendor.acme.fetch-and-wait", "version": "1.0.0", "label": "Fetch", "description": "Fetches, then waits.",
            "parameters": {
                "type": "object", "required": ["url"], "additionalProperties": false,
                "properties": {
                    "url": {"type": "string"}, "ms": {"type": "integer", "default": 250}, "headers": {"type": "object"},
                },
            },
            "dag": {
                "nodes": [
                    {"id": "fetch", "typeId": "core.http", "name": "Fetch", "position": {"x": 1, "y": 2},
                     "config": {"url": "{{params.url}}", "headers": "{{params.headers}}", "deep": [{"note": "to {{params.url}}!"}]}},
                    {"id": "wait", "typeId": "core.delay", "config": {"ms": "{{params.ms}}"},
                     "inputs": {"body": {"type": "connection", "nodeId": "fetch", "outputKey": "body"}, "plain": "{{params.ms}}"}},
                ],
                "edges": [
                    {"from": "fetch.body", "to": "wait", "condition": "status == 'completed'", "triggerRule": "any_success"},
                    {"from": "wait", "to": "outside.in"},
                ],
            },
            "outputs": {"body": {"type": "string", "description": "What was fetched."}},
            "capabilities": ["side-effectful"],
        }],
    })
}

/// One manifest of each kind.
pub(crate) fn every_kind() -> Vec<Value> {
    let head = |kind: &str, member: &str, content: Value| {
        let name = format!("vendor.acme.{kind}");
        let mut manifest =
            json!({"name": name, "version": "1.0.0", "kind": kind, "engines": {"openwop": "^1.0.0"}});
        manifest[member] = content;
        manifest
    };
    vec![
        node_pack("vendor.acme.nodes", "1.0.0"),
        chain_pack(),
        head(
            "prompt",
            "prompts",
            json!([{
                "templateId": "summary.short", "version": "1.0.0", "kind": "user", "text": "Sum up {{text}}.",
                "variables": [{"name": "text", "type": "string", "required": true, "source": "input"}],
                "meta": {"source": "pack", "packName": "vendor.acme.prompt", "packVersion": "1.0.0"},
            }]),
        ),
        head(
            "artifact-type",
            "artifactTypes",
            json!([{"artifactTypeId": "vendor.acme.report", "schemaRef": "schemas/report.json", "exportFormats": ["pdf", "x-acme"]}]),
        ),
        head(
            "card",
            "cards",
            json!([{
                "cardTypeId": "vendor.acme.cards.ask", "prompt": {"template": "Ask {q}", "placeholderMapping": {"q": "question"}},
                "inputs": [{"id": "question", "type": "longtext", "required": true}],
            }]),
        ),
        head(
            "connection",
            "provider",
            json!({
                "id": "acme", "displayName": "Acme", "category": "crm", "auth": {"kind": "oauth2", "endpoints": {"token": "https://acme.example/token"}},
                "reach": {"openapi": {"ref": "openapi.json"}}, "apiHosts": ["api.acme.example"],
            }),
        ),
        head(
            "frontend-plugin",
            "uiPlugins",
            json!([{"pluginId": "chart", "surface": "artifact-viewer", "entry": "dist/chart.html", "hostApi": ["artifact.read"]}]),
        ),
    ]
}

/// The serialized manifest.
pub(crate) fn written(manifest: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(manifest).unwrap();
    bytes.push(b'\n');
    bytes
}

/// An archive of a manifest and files.
pub(crate) fn packed(manifest: &Value, files: &[(&str, &[u8])]) -> Vec<u8> {
    packed_bytes(&written(manifest), files)
}

/// An archive of manifest bytes and files.
pub(crate) fn packed_bytes(manifest: &[u8], files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut all = BTreeMap::from([(EntryPath::parse("pack.json").unwrap(), (manifest, false))]);
    for (path, content) in files {
        all.insert(EntryPath::parse(path).unwrap(), (*content, false));
    }
    packs::archive::write(&all).unwrap()
}

/// A node pack with its module.
pub(crate) fn node_archive(name: &str, version: &str) -> Vec<u8> {
    packed(&node_pack(name, version), &[("nodes.wasm", b"\0asm")])
}

/// A node pack with its module, signed by the key, which is included.
pub(crate) fn signed_archive(name: &str, version: &str, key: &PrivateKey) -> Vec<u8> {
    let manifest = written(&node_pack(name, version));
    let signature = key.sign(&manifest);
    let pem = key.public().to_pem();
    packed_bytes(
        &manifest,
        &[("nodes.wasm", b"\0asm"), (SIGNATURE_PATH, &signature), (PUBLIC_KEY_PATH, pem.as_bytes())],
    )
}

/// A test key.
pub(crate) fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_entropy(&[seed; 32])
}

/// A folder of the published protocol, if available.
pub(crate) fn protocol(path: &str) -> Option<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = ["../../../shared/openwop", "../../../../shared/openwop"];
    places.iter().map(|place| root.join(place).join(path)).find(|path| path.exists())
}
