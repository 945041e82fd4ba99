//! Agents of installed packs, over HTTP: listed, required by workflows, and run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ai::provider::mock::Program;
use canon::time::Timestamp;
use executors::agents::Agents;
use executors::installed::{host_facts, load_agents};
use executors::models::{Models, Options as ModelOptions};
use executors::{Executors, Options};
use flow::definition::Capabilities;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::path::EntryPath;
use packs::trust::TrustPolicy;
use serde_json::{Value, json};
use server::http::Settings;
use system::secrets::NoSecrets;

use super::service::{Host, OTHER, protocol_folder, workflow};

const WRITER: &str = "vendor.acme.agents.writer";
const STRICT: &str = "vendor.acme.agents.strict";
/// The text of a prompt, which must never be exposed.
const PROMPT: &str = "You are the writer, and this is between us.";

pub(crate) fn packs_of(host: &Host) -> PathBuf {
    host.workspaces.with_file_name("packs")
}

/// Installs a pack with two agents: one that accepts and returns anything, and one with schemas.
fn install(packs: &Path, version: &str) {
    let manifest = json!({
        "name": "vendor.acme.crew", "version": version, "engines": {"openwop": ">=1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "https://acme.example/agents"},
        "agents": [
            {
                "agentId": WRITER, "persona": "Writer", "modelClass": "writing", "systemPrompt": PROMPT,
                "toolAllowlist": ["openwop:fetch"], "description": "Writes.", "memoryShape": {"longTerm": true},
                // Every host with a mount has an `mcp` family, which says that no other server is called.
                "requiresCapabilities": ["host.nothing-of-the-kind", "host.mcp", "host.webhooks"],
            },
            {
                "agentId": STRICT, "persona": "Strict", "modelClass": "general", "systemPromptRef": "prompts/strict.md",
                "handoff": {"taskSchemaRef": "task.json", "returnSchemaRef": "return.json"},
                "confidence": {"defaultThreshold": 0.2},
            },
        ],
    });
    install_pack(packs, &manifest);
}

/// Installs a pack, with the schemas and the prompt that its agents may refer to.
fn install_pack(packs: &Path, manifest: &Value) {
    let task = json!({"required": ["text"], "additionalProperties": false, "properties": {"text": {"type": "string"}}});
    let returned = json!({"type": "object", "required": ["extracted"]});
    let manifest = manifest.to_string();
    let (task, returned) = (task.to_string(), returned.to_string());
    install_at(
        packs,
        &[
            ("pack.json", manifest.as_bytes()),
            ("prompts/strict.md", PROMPT.as_bytes()),
            ("task.json", task.as_bytes()),
            ("return.json", returned.as_bytes()),
        ],
    );
}

/// Installs a pack of these files.
pub(crate) fn install_files(host: &Host, files: &[(&str, &[u8])]) {
    install_at(&packs_of(host), files);
}

fn install_at(folder: &Path, files: &[(&str, &[u8])]) {
    let files: BTreeMap<EntryPath, (&[u8], bool)> =
        files.iter().map(|(path, content)| (EntryPath::parse(path).unwrap(), (*content, false))).collect();
    let archive = packs::archive::write(&files).unwrap();
    let capabilities = ["fs", "uiPlugins"].map(str::to_owned);
    let (policy, facts) = (TrustPolicy::open(), HostFacts::everything(capabilities));
    let install = Install {
        archive: &archive,
        expected: None,
        policy: &policy,
        host: &facts,
        limits: Limits::DEFAULT,
        now: Timestamp(0),
    };
    InstalledPacks::open(folder).unwrap().install(&install).unwrap();
}

/// The agents of a host with one agent.
pub(crate) fn one_agent() -> Agents {
    let folder = tempfile::TempDir::new().unwrap();
    install_at(
        folder.path(),
        &[("pack.json", crew("vendor.acme.elsewhere", &json!({})).to_string().as_bytes())],
    );
    load_agents(&InstalledPacks::open(folder.path()).unwrap(), &host_facts(false)).unwrap().0
}

/// A host with the agent that the protocol fixtures name, which has schemas.
pub(crate) async fn with_the_structured_fixture() -> Host {
    let mocks = Capabilities { mock_agent: true, ..Capabilities::OURS };
    let manifest = json!({
        "name": "core.openwop.agent-examples", "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "https://acme.example/agents"},
        "agents": [{
            "agentId": "core.openwop.agent-examples.structured-fixture", "persona": "Structured",
            "modelClass": "general", "systemPrompt": PROMPT,
            "handoff": {"taskSchemaRef": "task.json", "returnSchemaRef": "return.json"},
        }],
    });
    Host::start_executing(mocks, |folder| {
        let packs = folder.join("packs");
        install_pack(&packs, &manifest);
        executors_of(&packs, &[])
    })
    .await
}

/// A host with the agents, and a mock model that returns these texts at the node `n`.
async fn equipped(replies: &[&str]) -> Host {
    // Some workflows here have mock nodes, like those of a suite.
    let mocks = Capabilities { mock_agent: true, ..Capabilities::OURS };
    Host::start_executing(mocks, |folder| {
        let packs = folder.join("packs");
        install(&packs, "1.0.0");
        executors_of(&packs, replies)
    })
    .await
}

/// Executors with the installed agents, and a mock model that returns these texts at the node `n`.
fn executors_of(packs: &Path, replies: &[&str]) -> Executors {
    let installed = InstalledPacks::open(packs).unwrap();
    let (agents, unserved) = load_agents(&installed, &host_facts(false)).unwrap();
    assert_eq!(unserved, []);
    let models = Models::new(ModelOptions {
        providers: BTreeMap::new(),
        default: None,
        library: ai::prompt::library::Library::new("host"),
        secrets: Arc::new(NoSecrets),
        outbound: outbound::Client::new(outbound::Reach::Public),
        kinds: ai::envelope::Kinds::only([]),
        mock: true,
    });
    let replies: Vec<Value> = replies.iter().map(|text| json!({"content": text})).collect();
    models.programs().program("n", Program::read(&json!(replies)).unwrap());
    Executors::new(Options { agents: Some(agents), models: Some(models), ..Options::default() })
}

async fn events(host: &Host, run_id: &str) -> Vec<Value> {
    let answer =
        host.get(&format!("/v1/runs/{run_id}/events/poll?lastSequence=-1&timeout=1")).await.expect(200);
    answer["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_agents_of_installed_packs_are_listed_and_their_prompts_are_not() {
    let host = Host::start_executing(Capabilities::OURS, |folder| {
        let packs = folder.join("packs");
        install(&packs, "1.0.0");
        // Of two versions, the higher one is used.
        install(&packs, "1.1.0");
        executors_of(&packs, &[])
    })
    .await;
    let listed = host.get("/v1/agents").await.expect(200);
    assert_eq!(listed["total"], 2);
    let entry = |place: usize| listed["agents"][place].clone();
    assert_eq!(
        (&entry(0)["agentId"], &entry(1)["agentId"]),
        (&json!(STRICT), &json!(WRITER)),
        "sorted by id"
    );
    assert_eq!(
        (&entry(0)["hasHandoffSchemas"], &entry(1)["hasHandoffSchemas"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (&entry(1)["packVersion"], &entry(1)["toolAllowlist"]),
        (&json!("1.1.0"), &json!(["openwop:fetch"]))
    );
    assert_eq!(entry(1)["degraded"], json!(["host.nothing-of-the-kind", "host.mcp"]));
    assert_eq!(
        (&entry(1)["memoryDegraded"], &entry(1)["degradedMemoryDimensions"]),
        (&json!(true), &json!(["long-term-durability"]))
    );
    assert_eq!((entry(0).get("memoryDegraded"), &entry(1)["description"]), (None, &json!("Writes.")));
    assert_eq!(host.get(&format!("/v1/agents/{WRITER}")).await.expect(200), entry(1));
    host.get("/v1/agents/vendor.acme.agents.unknown").await.refused(404, "agent_not_found");
    host.send("GET", "/v1/agents", &[], None).await.refused(401, "unauthenticated");
    // The inventory is the same for all tenants.
    assert_eq!(host.get_as(OTHER, "/v1/agents").await.expect(200), listed);
    let packs = host.get("/v1/packs").await.expect(200);
    assert_eq!(packs["packs"][0]["agents"].as_array().unwrap().len(), 2);
    for shown in [&listed, &packs] {
        assert!(!shown.to_string().contains("between us"), "{shown}");
    }
    if let Some(schemas) = protocol_folder("schemas") {
        let id = "https://openwop.dev/spec/v1/agent-inventory-response.schema.json";
        let schema = schemas.into_iter().find(|schema| schema["$id"] == id).unwrap();
        let problems = jsonschema::options().offline().build(&schema).unwrap();
        assert_eq!(problems.iter_errors(&listed).map(|problem| problem.to_string()).next(), None);
    }
}

/// A pack with one agent, with these fields in its manifest.
fn crew(name: &str, members: &Value) -> Value {
    let mut manifest = json!({
        "name": name, "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "https://acme.example/agents"},
        "agents": [{
            "agentId": format!("{name}.one"), "persona": "One", "modelClass": "general", "systemPrompt": PROMPT,
        }],
    });
    manifest.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    manifest
}

#[tokio::test]
async fn packs_that_cannot_be_loaded_are_listed_and_hide_no_others() {
    let settings = Settings { test_seams: true, ..Default::default() };
    let host = Host::start_equipped_with(settings, &[], Some(one_agent()), None).await;
    let needs = json!({"peerDependencies": {"host.uiPlugins": "^1"}});
    let mut could_use = needs.clone();
    could_use["peerDependenciesMeta"] = json!({"host.uiPlugins": {"optional": true}});
    for (name, members) in [
        ("vendor.acme.changed", json!({})),
        ("vendor.acme.good", could_use),
        ("vendor.acme.needs", needs),
        ("vendor.acme.unread", json!({})),
    ] {
        install_pack(&packs_of(&host), &crew(name, &members));
    }
    let place = |name: &str| packs_of(&host).join(name).join("1.0.0");
    std::fs::write(place("vendor.acme.changed").join("pack.json"), b"{}").unwrap();
    std::fs::write(place("vendor.acme.unread").join(".interlock/installed.json"), b"{").unwrap();
    let listed = host.get("/v1/packs").await.expect(200);
    let shown = |place: usize| {
        let pack = &listed["packs"][place];
        (pack["name"].clone(), pack["agents"].as_array().unwrap().len(), pack["degraded"].clone())
    };
    assert_eq!(shown(0), (json!("vendor.acme.good"), 1, json!(["host.uiPlugins"])));
    assert_eq!(shown(1), (json!("vendor.acme.needs"), 0, json!([])));
    let mut unserved: Vec<_> = listed["unserved"].as_array().unwrap().iter().collect();
    unserved.sort_by_key(|pack| pack["pack"].to_string());
    let listed: Vec<_> =
        unserved.iter().map(|pack| (&pack["pack"], pack["code"].as_str().unwrap())).collect();
    let expected = [
        (&json!("vendor.acme.changed@1.0.0"), "pack_load_failure"),
        (&json!("vendor.acme.needs@1.0.0"), "pack_peer_dependency_missing"),
        (&json!("vendor.acme.unread@1.0.0"), "pack_load_failure"),
    ];
    assert_eq!(listed, expected);
    let agents = host.get("/v1/agents").await.expect(200);
    assert_eq!(
        (&agents["total"], &agents["agents"][0]["agentId"]),
        (&json!(1), &json!("vendor.acme.good.one"))
    );
    let exported = host.get("/v1/packs/export").await.expect(200);
    assert_eq!(exported["manifests"].as_array().unwrap().len(), 2);
    let asked = json!({"packName": "vendor.acme.good", "chainId": "vendor.acme.good.none", "parameters": {}});
    let expanded = host.post("/v1/host/sample/workflow-chain:expand", &asked).await;
    assert_ne!(
        expanded.expect(expanded.status)["error"],
        "pack_load_failure",
        "it asks for a pack that is whole"
    );
}

#[tokio::test]
async fn a_run_for_an_agent_is_validated_against_the_agents_schemas() {
    let host = equipped(&[]).await;
    let runtime = &host.get("/.well-known/openwop").await.expect(200)["agents"]["manifestRuntime"];
    assert_eq!(*runtime, json!({"supported": true, "handoffValidation": true, "installScope": "host"}));
    let mut document = workflow(
        "extract",
        &[("first", "core.noop", json!({})), ("end", "core.end", json!({}))],
        &json!([{"name": "text", "type": "string"}]),
    );
    document["metadata"]["requiresAgentId"] = STRICT.into();
    document["nodes"][1]["inputs"] = json!({"body": {"type": "static", "value": "off-schema"}});
    host.register(&document).await;
    let run_id = host.create("extract").await;
    let run = host.end_of(&run_id).await;
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&json!("failed"), &json!("handoff_task_schema_violation"))
    );
    let log = events(&host, &run_id).await;
    assert!(log.iter().all(|event| event["type"] != "node.started"), "no node began: {log:?}");

    let run_id = host.create_with(&json!({"workflowId": "extract", "inputs": {"text": "x"}})).await;
    let run = host.end_of(&run_id).await;
    assert_eq!(run["error"]["code"], "handoff_return_schema_violation", "{run}");
    assert!(!json!(events(&host, &run_id).await).to_string().contains("off-schema"));
}

/// Finding 7 of the review against the current suite: a workflow ran unchecked if the agent that it is written for was missing.
#[tokio::test]
async fn a_workflow_whose_required_agent_is_missing_is_rejected() {
    let host = equipped(&[]).await;
    let mut document = workflow("extract", &[("end", "core.end", json!({}))], &json!([]));
    document["metadata"]["requiresAgentId"] = "vendor.acme.agents.unknown".into();
    let refused = host.post("/v1/workflows", &document).await.refused(400, "validation_error");
    assert_eq!(refused["details"]["requiredCapability"], "agents.manifestRuntime");
    assert_eq!(refused["details"]["fields"][0]["path"], "/metadata/requiresAgentId");
    document["metadata"]["requiresAgentId"] = STRICT.into();
    host.register(&document).await;
}

/// Finding 7: `agents.manifestRuntime` promises at least one agent, and `/v1/agents` is 404 where it is not advertised.
#[tokio::test]
async fn agents_are_advertised_and_listed_only_if_one_is_installed() {
    let without = Host::start_equipped_with(Settings::default(), &[], Some(Agents::default()), None).await;
    let said = without.get("/.well-known/openwop").await.expect(200);
    assert!(said["agents"]["manifestRuntime"].is_null(), "{said}");
    without.get("/v1/agents").await.refused(404, "not_found");
    without.get(&format!("/v1/agents/{STRICT}")).await.refused(404, "not_found");
    let with = equipped(&[]).await;
    let said = with.get("/.well-known/openwop").await.expect(200);
    assert_eq!(said["agents"]["manifestRuntime"]["supported"], true);
    assert_eq!(with.get_as(super::service::READER, "/v1/agents").await.expect(200)["total"], 2);
}

#[tokio::test]
async fn an_agent_of_a_pack_does_a_task_with_a_model() {
    let host = equipped(&[r#"{"extracted": 1}"#, r#"{"secret-body": 1}"#, "no JSON, secret-body"]).await;
    let mut document = workflow(
        "run-agent",
        &[("n", "core.agents.run", json!({"agentId": STRICT, "provider": "mock"}))],
        &json!([{"name": "text", "type": "string"}]),
    );
    document["nodes"][0]["inputs"] =
        json!({"text": {"type": "variable", "variableName": "text", "optional": true}});
    host.register(&document).await;
    let asked = json!({"workflowId": "run-agent", "inputs": {"text": "x"}});
    let run_id = host.create_with(&asked).await;
    let run = host.end_of(&run_id).await;
    assert_eq!(run["status"], "completed", "{run}");
    let log = events(&host, &run_id).await;
    let decided = log.iter().find(|event| event["type"] == "agent.decided").unwrap();
    assert_eq!(decided["payload"], json!({"agentId": STRICT, "decision": {"extracted": 1}}));
    assert!(log.iter().any(|event| event["type"] == "provider.usage"));
    assert!(!json!(log).to_string().contains("between us"), "the prompt of an agent is not shown");

    for _ in 0..2 {
        let run_id = host.create_with(&asked).await;
        let run = host.end_of(&run_id).await;
        assert_eq!(run["error"]["code"], "handoff_return_schema_violation", "{run}");
        let log = json!(events(&host, &run_id).await).to_string();
        assert!(!log.contains("secret-body") && log.contains("provider.usage"), "{log}");
    }
    // The input is validated before the model is called.
    let run_id = host.create("run-agent").await;
    assert_eq!(host.end_of(&run_id).await["error"]["code"], "handoff_task_schema_violation");
}

#[tokio::test]
async fn tools_of_an_agent_are_names_on_its_list_and_nothing_else() {
    let host = equipped(&[]).await;
    let tool = |name: &str| json!({"name": name, "kind": "connector"});
    let cases = [
        (
            json!([{"name": "openwop:fetch", "kind": "connector", "handler": "() => 1"}]),
            "INVALID_TOOL_DECLARATION",
        ),
        (
            json!([{"name": "openwop:fetch", "kind": "connector", "handler": null}]),
            "INVALID_TOOL_DECLARATION",
        ),
        (json!([{"kind": "connector"}]), "INVALID_TOOL_DECLARATION"),
        (json!([{"name": "openwop:fetch"}]), "INVALID_TOOL_DECLARATION"),
        (json!(["openwop:fetch"]), "INVALID_TOOL_DECLARATION"),
        (json!([tool("openwop:delete")]), "tool_not_allowed"),
        (json!([tool("openwop:fetch"), tool("openwop:fetch/../delete")]), "tool_not_allowed"),
        (json!([tool("fetch")]), "tool_not_allowed"),
        (json!([{"name": "openwop:fetch", "kind": "connector", "url": "x"}]), "INVALID_TOOL_DECLARATION"),
        // Allowed, but not implemented on this host.
        (json!([tool("openwop:fetch")]), "unknown_tool"),
    ];
    for (tools, code) in cases {
        let config = json!({"agentId": WRITER, "provider": "mock", "tools": tools});
        let document = workflow("tools", &[("n", "core.agents.run", config)], &json!([]));
        let refused = host.post("/v1/workflows", &document).await;
        assert_eq!(refused.status, 400, "{tools}");
        assert!(refused.text().contains(code), "{tools}: {}", refused.text());
    }
    // Without tools nothing is refused.
    let config = json!({"agentId": WRITER, "provider": "mock", "tools": []});
    host.register(&workflow("plain", &[("n", "core.agents.run", config)], &json!([]))).await;
    let run_id = host.create("plain").await;
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
}

#[tokio::test]
async fn a_workflow_with_an_invalid_agent_is_rejected_at_registration() {
    let host = equipped(&[]).await;
    let with = |config: Value, inputs: Value| {
        let mut document = workflow("wrong", &[("n", "core.agents.run", config)], &json!([]));
        document["nodes"][0]["inputs"] = inputs;
        document
    };
    let cases = [
        (with(json!({}), json!({})), "names no agent"),
        (with(json!({"agentId": "vendor.acme.agents.unknown"}), json!({})), "no installed pack"),
        (with(json!({"agentId": STRICT}), json!({"text": {"type": "static", "value": 1}})), "the task"),
        (with(json!({"agentId": WRITER, "unknown": 1}), json!({})), "unknown"),
    ];
    for (document, message) in cases {
        let refused = host.post("/v1/workflows", &document).await;
        assert_eq!(refused.status, 400, "{document}");
        assert!(refused.text().contains(message), "{message}: {}", refused.text());
    }
    for pin in [json!({"agentId": WRITER, "unknown": 1}), json!({"agentId": WRITER, "modelClass": "wizard"})]
    {
        let mut document = workflow("pinned", &[("n", "core.noop", json!({}))], &json!([]));
        document["nodes"][0]["agent"] = pin.clone();
        let refused = host.post("/v1/workflows", &document).await;
        assert!(
            refused.status == 400 && refused.text().contains("/nodes/0/agent"),
            "{pin}: {}",
            refused.text()
        );
    }
    // A host without agents does not support the node type.
    let bare = Host::start().await;
    let refused = bare.post("/v1/workflows", &with(json!({"agentId": WRITER}), json!({}))).await;
    assert!(refused.text().contains("agents.manifestRuntime.supported"), "{}", refused.text());
}

#[tokio::test]
async fn the_confidence_threshold_is_the_packs_unless_the_caller_sets_one() {
    let host = equipped(&[]).await;
    let mock = |agent_id: &str| json!({"agentId": agent_id, "mockConfidence": 0.5});
    for (id, agent_id) in [("conformance-strict", STRICT), ("conformance-writer", WRITER)] {
        host.register(&workflow(id, &[("m", "core.conformance.mock-agent", mock(agent_id))], &json!([])))
            .await;
    }
    // 0.2 from the pack, 0.7 from the protocol, and the value of the caller.
    let cases = [
        (json!({"workflowId": "conformance-strict"}), "completed"),
        (json!({"workflowId": "conformance-writer"}), "waiting-approval"),
        (
            json!({"workflowId": "conformance-strict", "configurable": {"escalationThreshold": 0.9}}),
            "waiting-approval",
        ),
    ];
    for (body, status) in cases {
        let run_id = host.create_with(&body).await;
        assert_eq!(host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"], status, "{body}");
    }
}
