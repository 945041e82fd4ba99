//! Manifest validation.

use packs::kind::PackKind;
use packs::manifest::{Content, Manifest, ManifestError, ManifestErrorCode as Code, Problem};
use serde_json::{Value, json};

use crate::support::{chain_pack, every_kind, node_pack, written};

fn problems(manifest: &Value) -> Vec<Problem> {
    match Manifest::from_value(manifest) {
        Ok(manifest) => panic!("{} was accepted", manifest.id()),
        Err(problems) => problems.list().to_vec(),
    }
}

/// A manifest with one member replaced, by its pointer; `null` removes it.
fn with(mut manifest: Value, pointer: &str, value: Value) -> Value {
    let (above, name) = pointer.rsplit_once('/').unwrap();
    let above = manifest.pointer_mut(above).unwrap();
    match (above, value) {
        (Value::Object(members), Value::Null) => drop(members.remove(name)),
        (Value::Object(members), value) => drop(members.insert(name.to_owned(), value)),
        (Value::Array(items), value) => items[name.parse::<usize>().unwrap()] = value,
        _ => panic!("{pointer} has no parent object"),
    }
    manifest
}

fn node() -> Value {
    node_pack("vendor.acme.tools", "1.0.0")
}

#[test]
fn reads_every_kind() {
    for (manifest, kind) in every_kind().iter().zip(PackKind::ALL) {
        let read = Manifest::read(&written(manifest)).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(read.kind(), kind);
        assert_eq!(Value::Object(read.document().clone()), *manifest);
        assert!(!read.type_ids().is_empty(), "{kind}");
    }
    let named = with(node(), "/kind", json!("node"));
    assert_eq!(Manifest::from_value(&named).unwrap().kind(), PackKind::Node);
}

#[test]
fn packs_have_one_kind() {
    let cases = [
        ("an unknown kind", with(node(), "/kind", json!("chat-card")), "/kind"),
        ("a kind that is not a string", with(node(), "/kind", json!(7)), "/kind"),
        ("chains without their kind", with(chain_pack(), "/kind", Value::Null), "/chains"),
        ("nodes beside chains", with(chain_pack(), "/nodes", json!([])), "/nodes"),
        (
            "a runtime beside chains",
            with(chain_pack(), "/runtime", json!({"language": "wasm", "entry": "x"})),
            "/runtime",
        ),
        ("even an empty runtime", with(every_kind()[6].clone(), "/runtime", json!({})), "/runtime"),
        ("a provider beside nodes", with(node(), "/provider", json!({})), "/provider"),
    ];
    for (name, manifest, pointer) in cases {
        let found = problems(&manifest);
        assert!(
            found.iter().any(|problem| problem.code == Code::KindInvalid && problem.pointer == pointer),
            "{name}: {found:?}"
        );
        let problems = Manifest::from_value(&manifest).unwrap_err();
        assert_eq!(problems.first().unwrap().code, Code::KindInvalid, "{name}");
    }
}

#[test]
fn every_rule_reports_its_position() {
    let kinds = every_kind();
    let [_, chain, prompt, artifact, card, connection, plugin] = &kinds[..] else { panic!("seven kinds") };
    let agent = json!({"agentId": "vendor.acme.agents.writer", "persona": "W", "modelClass": "writing", "systemPrompt": "Write."});
    let agents = with(node(), "/agents", json!([agent]));
    assert!(Manifest::from_value(&agents).is_ok());
    let cases: Vec<(Value, Code, &str)> = vec![
        (with(node(), "/name", json!("tools")), Code::Invalid, "/name"),
        (with(node(), "/name", json!("local.acme.tools")), Code::Invalid, "/name"),
        (with(node(), "/name", Value::Null), Code::Invalid, "/name"),
        (with(node(), "/version", json!("1.0")), Code::Invalid, "/version"),
        (with(node(), "/engines", Value::Null), Code::Invalid, "/engines"),
        (with(node(), "/engines/openwop", json!("latest")), Code::EnginesRange, "/engines/openwop"),
        (with(node(), "/description", json!("x".repeat(1025))), Code::Invalid, "/description"),
        (with(node(), "/homepage", json!("acme.example")), Code::Invalid, "/homepage"),
        (with(node(), "/keywords", json!(vec!["k"; 51])), Code::Invalid, "/keywords"),
        (with(node(), "/keywords", json!(["k".repeat(65)])), Code::Invalid, "/keywords/0"),
        (with(node(), "/dependencies", json!({"tools": "^1.0.0"})), Code::Invalid, "/dependencies/tools"),
        (
            with(node(), "/dependencies", json!({"core.a.b": "newest"})),
            Code::Invalid,
            "/dependencies/core.a.b",
        ),
        (
            with(node(), "/peerDependenciesMeta", json!({"host.fs": {"must": true}})),
            Code::Invalid,
            "/peerDependenciesMeta/host.fs/must",
        ),
        (with(node(), "/signing", json!({"method": "pgp"})), Code::Invalid, "/signing/method"),
        (with(node(), "/extra", json!(1)), Code::Invalid, "/extra"),
        (with(node(), "/nodes", json!([])), Code::Invalid, ""),
        (with(node(), "/nodes/0/typeId", json!("Acme.fetch")), Code::Invalid, "/nodes/0/typeId"),
        (with(node(), "/nodes/0/category", json!("fun")), Code::Invalid, "/nodes/0/category"),
        (
            with(node(), "/nodes/0/capabilities", json!(["cacheable", "cacheable"])),
            Code::Invalid,
            "/nodes/0/capabilities/1",
        ),
        (
            with(node(), "/nodes/0/requiresSecrets", json!([{"id": "k", "kind": "password"}])),
            Code::Invalid,
            "/nodes/0/requiresSecrets/0/kind",
        ),
        (
            with(node(), "/nodes/0/fallbackModel", json!({"provider": "acme"})),
            Code::Invalid,
            "/nodes/0/fallbackModel/model",
        ),
        (with(node(), "/nodes/0/a~b", json!(1)), Code::Invalid, "/nodes/0/a~0b"),
        (with(node(), "/runtime", Value::Null), Code::Invalid, "/runtime"),
        (with(node(), "/runtime/language", json!("perl")), Code::Invalid, "/runtime/language"),
        (with(node(), "/runtime/requires", json!(["net.raw"])), Code::Invalid, "/runtime/requires/0"),
        (with(node(), "/runtime/requires", json!(["clock", "clock"])), Code::Invalid, "/runtime/requires/1"),
        (
            with(
                node(),
                "/connector",
                json!({"id": "acme", "displayName": "A", "actions": [{"typeId": "acme.send", "displayName": "S"}]}),
            ),
            Code::ConnectorActionUnresolved,
            "/connector/actions/0/typeId",
        ),
        (
            with(node(), "/connector", json!({"id": "acme", "displayName": "A", "triggers": ["acme.on"]})),
            Code::ConnectorActionUnresolved,
            "/connector/triggers/0",
        ),
        (
            with(node(), "/connector", json!({"id": "acme", "displayName": "A", "auth": {"type": "basic"}})),
            Code::Invalid,
            "/connector/auth/type",
        ),
        (
            with(agents.clone(), "/agents/0/systemPrompt", Value::Null),
            Code::Invalid,
            "/agents/0/systemPrompt",
        ),
        (
            with(agents.clone(), "/agents/0/systemPromptRef", json!("p.md")),
            Code::Invalid,
            "/agents/0/systemPromptRef",
        ),
        (with(agents.clone(), "/agents/0/modelClass", json!("cheap")), Code::Invalid, "/agents/0/modelClass"),
        (
            with(agents.clone(), "/agents/0/toolAllowlist", json!(["fetch"])),
            Code::Invalid,
            "/agents/0/toolAllowlist/0",
        ),
        (
            with(agents.clone(), "/agents/0/confidence", json!({"defaultThreshold": 1.5})),
            Code::Invalid,
            "/agents/0/confidence/defaultThreshold",
        ),
        (
            with(agents.clone(), "/agents/0/promptOverrides", json!({"system": "summary"})),
            Code::Invalid,
            "/agents/0/promptOverrides/system",
        ),
        (with(agents, "/agents/0/agentId", json!("writer")), Code::Invalid, "/agents/0/agentId"),
        (with(chain.clone(), "/chains", Value::Null), Code::Invalid, "/chains"),
        (with(chain.clone(), "/chains", json!([])), Code::Invalid, "/chains"),
        (
            with(chain.clone(), "/chains/0/parameters", json!({"$ref": "#"})),
            Code::Invalid,
            "/chains/0/parameters",
        ),
        (
            with(chain.clone(), "/chains/0/parameters", json!({"type": "texts"})),
            Code::Invalid,
            "/chains/0/parameters",
        ),
        (with(chain.clone(), "/chains/0/dag/triggers", json!([])), Code::Invalid, "/chains/0/dag/triggers"),
        (with(chain.clone(), "/chains/0/dag/edges", Value::Null), Code::Invalid, "/chains/0/dag/edges"),
        (
            with(chain.clone(), "/chains/0/dag/edges/0/triggerRule", json!("sometimes")),
            Code::Invalid,
            "/chains/0/dag/edges/0/triggerRule",
        ),
        (
            with(chain.clone(), "/chains/0/dag/nodes/1/id", json!("fetch")),
            Code::Invalid,
            "/chains/0/dag/nodes/1/id",
        ),
        (
            with(chain.clone(), "/chains/0/dag/nodes/1/id", json!("a.b")),
            Code::Invalid,
            "/chains/0/dag/nodes/1/id",
        ),
        (
            with(prompt.clone(), "/prompts/0/kind", json!("poem")),
            Code::PromptTemplateInvalid,
            "/prompts/0/kind",
        ),
        (
            with(prompt.clone(), "/prompts/0/text", json!("x".repeat(65_537))),
            Code::PromptTemplateInvalid,
            "/prompts/0/text",
        ),
        (
            with(prompt.clone(), "/prompts/0/meta/packName", Value::Null),
            Code::PromptTemplateInvalid,
            "/prompts/0/meta/packName",
        ),
        (
            with(prompt.clone(), "/prompts/0/variables/0/name", json!("9")),
            Code::PromptTemplateInvalid,
            "/prompts/0/variables/0/name",
        ),
        (
            with(artifact.clone(), "/artifactTypes/0/schemaRef", Value::Null),
            Code::Invalid,
            "/artifactTypes/0/schemaRef",
        ),
        (
            with(artifact.clone(), "/artifactTypes/0/exportFormats", json!(["PDF"])),
            Code::Invalid,
            "/artifactTypes/0/exportFormats/0",
        ),
        (
            with(card.clone(), "/cards/0/inputs/0/type", json!("colour")),
            Code::Invalid,
            "/cards/0/inputs/0/type",
        ),
        (
            with(card.clone(), "/cards/0/prompt/temperature", json!(2.1)),
            Code::Invalid,
            "/cards/0/prompt/temperature",
        ),
        (with(connection.clone(), "/provider/apiHosts", Value::Null), Code::Invalid, "/provider/apiHosts"),
        (
            with(connection.clone(), "/provider/reach/integration", json!({"node": "x"})),
            Code::Invalid,
            "/provider/reach",
        ),
        (
            with(connection.clone(), "/provider/auth/endpoints/token", json!("http://acme.example")),
            Code::Invalid,
            "/provider/auth/endpoints/token",
        ),
        (
            with(connection.clone(), "/provider/apiHosts", json!(["localhost"])),
            Code::Invalid,
            "/provider/apiHosts/0",
        ),
        (with(connection.clone(), "/engines/node", json!("20")), Code::Invalid, "/engines/node"),
        (with(connection.clone(), "/signing", json!({})), Code::Invalid, "/signing"),
        (
            with(plugin.clone(), "/uiPlugins/0/entry", json!("dist/../../x.html")),
            Code::Invalid,
            "/uiPlugins/0/entry",
        ),
        (with(plugin.clone(), "/uiPlugins/0/entry", json!("/x.html")), Code::Invalid, "/uiPlugins/0/entry"),
        (with(plugin.clone(), "/uiPlugins/0/entry", Value::Null), Code::Invalid, "/uiPlugins/0/entry"),
        (
            with(plugin.clone(), "/uiPlugins/0/hostApi", json!(["host.exec"])),
            Code::Invalid,
            "/uiPlugins/0/hostApi/0",
        ),
        (
            with(plugin.clone(), "/uiPlugins/0/hostApi", json!(["host.toast", "host.toast"])),
            Code::Invalid,
            "/uiPlugins/0/hostApi/1",
        ),
        (with(plugin.clone(), "/uiPlugins/0/hostApi", Value::Null), Code::Invalid, "/uiPlugins/0/hostApi"),
        (
            with(plugin.clone(), "/uiPlugins/0/pluginId", json!("Viewer")),
            Code::Invalid,
            "/uiPlugins/0/pluginId",
        ),
        (with(plugin.clone(), "/uiPlugins/0/surface", json!("modal")), Code::Invalid, "/uiPlugins/0/surface"),
        (
            with(plugin.clone(), "/uiPlugins/0/connectSrc", json!(["not a URL"])),
            Code::Invalid,
            "/uiPlugins/0/connectSrc/0",
        ),
        (with(plugin.clone(), "/uiPlugins/0/more", json!(1)), Code::Invalid, "/uiPlugins/0/more"),
        (with(plugin.clone(), "/signing", json!({})), Code::Invalid, "/signing"),
        (with(plugin.clone(), "/engines/node", json!("20")), Code::Invalid, "/engines/node"),
        (with(plugin.clone(), "/description", json!("x".repeat(1025))), Code::Invalid, "/description"),
        (with(plugin.clone(), "/runtime", json!({"language": "javascript"})), Code::KindInvalid, "/runtime"),
        (with(plugin.clone(), "/uiPlugins", json!([])), Code::Invalid, "/uiPlugins"),
        (json!([]), Code::Invalid, ""),
    ];
    for (manifest, code, pointer) in cases {
        let found = problems(&manifest);
        assert!(
            found.iter().any(|problem| problem.code == code && problem.pointer == pointer),
            "expected {code} at {pointer}, found {found:?}"
        );
    }
}

#[test]
fn reports_all_problems_up_to_a_limit() {
    let nodes: Vec<Value> = (0..100).map(|_| json!({"typeId": 1})).collect();
    let refused = Manifest::from_value(&with(node(), "/nodes", json!(nodes))).unwrap_err();
    assert_eq!(refused.list().len(), packs::manifest::MAX_PROBLEMS);
    assert_eq!(refused.list().len() + refused.more(), 400, "each has four invalid members");
}

#[test]
fn rejects_ambiguous_json() {
    let twice = br#"{"name": "vendor.acme.tools", "name": "core.openwop.http"}"#;
    assert!(matches!(Manifest::read(twice), Err(ManifestError::NotJson(_))));
    let deep = [vec![b'['; 100], vec![b']'; 100]].concat();
    assert!(matches!(Manifest::read(&deep), Err(ManifestError::NotJson(_))));
    let large = vec![b' '; packs::manifest::MAX_MANIFEST_BYTES + 1];
    assert_eq!(Manifest::read(&large), Err(ManifestError::TooLarge { bytes: large.len() }));
}

#[test]
fn types_need_no_pack_prefix() {
    let manifest = Manifest::from_value(&node()).unwrap();
    assert_eq!(manifest.type_ids(), ["acme.fetch"]);
    let Content::Node(pack) = &manifest.content else { panic!("a node pack") };
    assert_eq!(pack.runtime.entry, "nodes.wasm");
}
