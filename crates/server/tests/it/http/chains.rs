//! The seam that expands chains, with installed packs.

use packs::signature::{PUBLIC_KEY_PATH, PrivateKey, SIGNATURE_PATH};
use serde_json::{Value, json};
use server::http::Settings;

use super::agents::{install_files, packs_of};
use super::client::Answer;
use super::service::Host;

const PACK: &str = "vendor.acme.chains";
const CHAIN: &str = "vendor.acme.chains.wait";

/// A manifest with one chain of two nodes: a delay, and a node of this type.
fn manifest(version: &str, type_id: &str) -> Vec<u8> {
    let document = json!({
        "name": PACK, "version": version, "kind": "workflow-chain", "engines": {"openwop": "^1.0.0"},
        "chains": [{
            "chainId": CHAIN, "version": "1.0.0", "label": "Wait", "description": "Waits.",
            "parameters": {"type": "object", "properties": {"ms": {"type": "integer", "default": 5}}},
            "dag": {
                "nodes": [
                    {"id": "wait", "typeId": "core.delay", "config": {"ms": "{{params.ms}}"}},
                    {"id": "after", "typeId": type_id},
                ],
                "edges": [{"from": "wait", "to": "after"}],
            },
        }],
    });
    serde_json::to_vec_pretty(&document).unwrap()
}

/// Installs it, signed with the key that it contains.
fn install_signed(host: &Host, manifest: &[u8], key: &PrivateKey) {
    let (signature, pem) = (key.sign(manifest), key.public().to_pem());
    install_files(
        host,
        &[("pack.json", manifest), (SIGNATURE_PATH, &signature), (PUBLIC_KEY_PATH, pem.as_bytes())],
    );
}

async fn seams() -> Host {
    Host::start_with(Settings { test_seams: true, ..Settings::default() }).await
}

async fn expand(host: &Host, body: &Value) -> Answer {
    host.post("/v1/host/sample/workflow-chain:expand", body).await
}

fn asked(version: Option<&str>) -> Value {
    let mut body = json!({"packName": PACK, "chainId": CHAIN, "parameters": {"ms": 7}});
    if let Some(version) = version {
        body["version"] = version.into();
    }
    body
}

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_entropy(&[seed; 32])
}

#[tokio::test]
async fn a_chain_of_an_installed_pack_is_expanded_while_its_signature_holds() {
    let host = seams().await;
    expand(&host, &asked(None)).await.refused(404, "pack_not_found");
    install_signed(&host, &manifest("1.0.0", "core.noop"), &key(1));
    let expanded = expand(&host, &asked(None)).await.expect(200);
    assert_eq!(
        (&expanded["packName"], &expanded["packVersion"], &expanded["nodes"][0]["config"]["ms"]),
        (&json!(PACK), &json!("1.0.0"), &json!(7))
    );
    let at = packs_of(&host).join(PACK).join("1.0.0");
    let (was, signature) =
        (std::fs::read(at.join("pack.json")).unwrap(), std::fs::read(at.join(SIGNATURE_PATH)).unwrap());
    // The chain is modified after the install.
    std::fs::write(at.join("pack.json"), manifest("1.0.0", "core.fail")).unwrap();
    let refused = expand(&host, &asked(None)).await;
    refused.refused(422, "pack_signature_invalid");
    assert!(refused.json()["error"].is_string(), "flat: {}", refused.text());
    std::fs::write(at.join("pack.json"), &was).unwrap();
    expand(&host, &asked(None)).await.expect(200);
    // The manifest is signed with another key.
    std::fs::write(at.join(SIGNATURE_PATH), key(2).sign(&was)).unwrap();
    expand(&host, &asked(None)).await.refused(422, "pack_signature_invalid");
    // The signature is malformed or missing.
    std::fs::write(at.join(SIGNATURE_PATH), b"none").unwrap();
    expand(&host, &asked(None)).await.refused(500, "pack_signature_unverifiable");
    std::fs::remove_file(at.join(SIGNATURE_PATH)).unwrap();
    expand(&host, &asked(None)).await.refused(500, "pack_signature_unverifiable");
    std::fs::write(at.join(SIGNATURE_PATH), signature).unwrap();
    expand(&host, &asked(None)).await.expect(200);
}

#[tokio::test]
async fn a_chain_is_read_from_the_requested_version_only() {
    let host = seams().await;
    install_signed(&host, &manifest("1.0.0", "core.noop"), &key(1));
    install_signed(&host, &manifest("1.1.0", "vendor.acme.nodes.nothing"), &key(1));
    let version = async |version: Option<&str>| expand(&host, &asked(version)).await;
    assert_eq!(version(Some("1.0.0")).await.expect(200)["packVersion"], "1.0.0");
    // The highest version has a node type that this host does not support.
    let unserved = version(None).await;
    unserved.refused(422, "chain_unresolvable_typeid");
    assert_eq!(unserved.json()["details"]["typeId"], "vendor.acme.nodes.nothing");
    for none in ["2.0.0", "v1", "../1.0.0"] {
        version(Some(none)).await.refused(404, "pack_not_found");
    }
    expand(&host, &json!({"packName": "../../etc", "chainId": CHAIN})).await.refused(404, "pack_not_found");
    // A damaged pack does not affect other packs.
    let nodes = json!({
        "name": "vendor.acme.broken", "version": "1.0.0", "engines": {"openwop": "^1.0.0"},
        "agents": [{"agentId": "vendor.acme.broken.agent", "persona": "B", "modelClass": "general", "systemPrompt": "B"}],
        "runtime": {"language": "remote", "entry": "https://acme.example/"},
    });
    install_files(&host, &[("pack.json", nodes.to_string().as_bytes())]);
    let broken = packs_of(&host).join("vendor.acme.broken/1.0.0");
    for damaged in ["pack.json", ".interlock/installed.json"] {
        std::fs::write(broken.join(damaged), b"{").unwrap();
        version(Some("1.0.0")).await.expect(200);
    }
    // The pack has no chains. Other problems of it do not matter.
    std::fs::remove_dir_all(&broken).unwrap();
    install_files(&host, &[("pack.json", nodes.to_string().as_bytes())]);
    let other = json!({"packName": "vendor.acme.broken", "chainId": CHAIN});
    expand(&host, &other).await.refused(422, "pack_kind_invalid");
}
