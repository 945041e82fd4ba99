//! `interlock workflow expand`: from an installed chain pack to a run.

use std::path::Path;

use serde_json::{Value, json};

use crate::home::TestHome;
use crate::program::root;
use crate::serve::{KEY, Served};

const PACK: &str = "vendor.acme.second-look";
const PARAMETERS: &str = r#"{"title": "Really ship it?", "waitMs": 1}"#;

fn example(name: &str) -> String {
    root().join("examples/packs").join(name).to_str().unwrap().to_owned()
}

/// A data directory with the installed chain pack, signed by its key.
fn signed_home() -> TestHome {
    let test_home = TestHome::new();
    let folder = test_home.path("second-look");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(example("second-look/pack.json"), folder.join("pack.json")).unwrap();
    let (folder, key) = (folder.to_str().unwrap().to_owned(), key_of(&test_home));
    test_home.json(&["pack", "sign", "--new-key", &key], 0);
    test_home.json(&["pack", "sign", &folder, "--key", &key], 0);
    test_home.json(&["pack", "install", &folder, "--key", &format!("{key}.pub")], 0);
    test_home
}

fn key_of(test_home: &TestHome) -> String {
    test_home.path("acme.pem").to_str().unwrap().to_owned()
}

fn installed(test_home: &TestHome) -> std::path::PathBuf {
    test_home.data_dir().join("packs").join(PACK).join("1.0.0")
}

/// The same workflow written by hand, without a chain.
fn by_hand() -> Value {
    let node = |id: &str, type_id: &str, name: &str, x: f64, y: f64, config: Value, inputs: Value| json!({"id": id, "typeId": type_id, "name": name, "position": {"x": x, "y": y}, "config": config, "inputs": inputs});
    let (wait, ask) = ("vendor_acme_second-look_0001_wait", "vendor_acme_second-look_0001_ask");
    let edge = |id: &str, from: &str, to: &str| json!({"id": id, "sourceNodeId": from, "targetNodeId": to});
    json!({
        "id": "order", "name": "Order", "version": "1.0",
        "description": "Takes an order and ships it. A chain can be put into the edge `packed`.",
        "nodes": [
            node("pack", "core.setVariable", "Pack it", 0.0, 0.0, json!({"name": "packed"}),
                json!({"value": {"type": "variable", "variableName": "item"}})),
            node("ship", "core.setVariable", "Ship it", 600.0, 0.0, json!({"name": "shipped", "value": true}), json!({})),
            node(wait, "core.delay", "Sleep on it", 200.0, 120.0, json!({"ms": 1}), json!({})),
            node(ask, "core.approvalGate", "Look again", 400.0, 120.0, json!({
                "title": "Really ship it?", "description": "A second look, by 1.", "requiredApprovals": 1,
                "actions": ["accept", "reject"],
            }), json!({})),
        ],
        "edges": [
            edge("vendor_acme_second-look_0001_edge_0", wait, ask),
            edge("vendor_acme_second-look_0001_in_0", "pack", wait),
            edge("packed", ask, "ship"),
        ],
        "triggers": [{"id": "manual", "type": "manual"}],
        "variables": [
            {"name": "item", "type": "string", "defaultValue": "lamp"},
            {"name": "packed", "type": "string"},
            {"name": "shipped", "type": "boolean", "defaultValue": false},
        ],
        "metadata": {"tags": ["example"]}, "settings": {},
    })
}

/// Registers and runs a workflow, accepts its approval, and returns the complete log and the last
/// state.
async fn run_to_the_end(served: &Served, workflow: &Value) -> (Vec<Value>, Value) {
    let (status, registered) = served.ask("POST", "/v1/workflows", Some(workflow.clone()), KEY, None).await;
    assert!([200, 201].contains(&status), "{registered}");
    let run_id = served.create("order", json!({"item": "chair"})).await;
    let waits = served.settled(&run_id).await;
    assert_eq!(waits["status"], "waiting-approval", "{waits}");
    let path = format!("/v1/runs/{run_id}/interrupts/vendor_acme_second-look_0001_ask");
    let accept = json!({"resumeValue": {"action": "accept"}});
    let (status, answered) = served.ask("POST", &path, Some(accept), KEY, None).await;
    assert_eq!(status, 200, "{answered}");
    let run = served.settled(&run_id).await;
    assert_eq!((&run["status"], &run["variables"]["shipped"]), (&json!("completed"), &json!(true)), "{run}");
    let poll = format!("/v1/runs/{run_id}/events/poll?lastSequence=-1&timeout=1");
    let (_, polled) = served.ask("GET", &poll, None, KEY, None).await;
    let mut names = Names::default();
    let events = polled["events"].as_array().unwrap().iter();
    let events = events.map(|event| names.plain(event, &run_id)).collect();
    (events, names.plain(&run, &run_id))
}

/// Replaces the ids of a run by their order, so that references can still be compared.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn of(&mut self, id: &str) -> String {
        let place = self.0.iter().position(|known| known == id).unwrap_or_else(|| {
            self.0.push(id.to_owned());
            self.0.len() - 1
        });
        format!("id {place}")
    }

    /// A document without run ids and times.
    fn plain(&mut self, value: &Value, run_id: &str) -> Value {
        match value {
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| {
                    let plain = match (name.as_str(), value) {
                        ("eventId" | "causationId" | "interruptId", Value::String(id)) => self.of(id).into(),
                        ("timestamp" | "durationMs", _) => json!("by the clock"),
                        (name, Value::String(_)) if name.ends_with("At") => json!("by the clock"),
                        _ => self.plain(value, run_id),
                    };
                    (name.clone(), plain)
                })
                .collect(),
            Value::Array(items) => items.iter().map(|item| self.plain(item, run_id)).collect(),
            Value::String(text) => text.replace(run_id, "run").into(),
            Value::Number(_) | Value::Bool(_) | Value::Null => value.clone(),
        }
    }
}

#[tokio::test]
async fn a_run_of_an_expanded_workflow_equals_one_written_by_hand() {
    let test_home = signed_home();
    let file = test_home.path("careful.json").to_str().unwrap().to_owned();
    let order = example("order.json");
    let arguments = ["workflow", "expand", &order, PACK, "--on", "packed", "--parameters", PARAMETERS];
    let report = test_home.json(&[&arguments[..], &["-o", &file]].concat(), 0);
    assert_eq!(
        (&report["expansionId"], &report["idMap"]["ask"], &report["proof"]["kind"]),
        (&json!("0001"), &json!("vendor_acme_second-look_0001_ask"), &json!("signed"))
    );
    let expanded: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let hidden = expanded.to_string();
    assert!(!hidden.contains(PACK) && !hidden.contains("params"), "nothing of the chain is left: {hidden}");
    let served = Served::on(&test_home.data_dir(), &test_home.path("nothing"));
    let (log, state) = run_to_the_end(&served, &expanded).await;
    let (log_by_hand, state_by_hand) = run_to_the_end(&served, &by_hand()).await;
    assert!(log.len() > 10, "{log:?}");
    assert!(log.iter().any(|event| event["nodeId"] == "vendor_acme_second-look_0001_ask"), "{log:?}");
    assert_eq!(log, log_by_hand);
    assert_eq!(state, state_by_hand);
}

#[test]
fn a_chain_is_expanded_only_if_its_pack_signature_is_valid() {
    let test_home = signed_home();
    let (order, key) = (example("order.json"), format!("{}.pub", key_of(&test_home)));
    let expand = |more: &[&str], code: i32| {
        let arguments = ["workflow", "expand", &order, PACK, "--on", "packed", "--parameters", PARAMETERS];
        test_home.json(&[&arguments[..], more].concat(), code)
    };
    let workflow = expand(&[], 0)["workflow"].clone();
    assert_eq!(expand(&["--key", &key], 0)["workflow"], workflow, "the same command gives the same workflow");
    let other = test_home.path("other.pem").to_str().unwrap().to_owned();
    test_home.json(&["pack", "sign", "--new-key", &other], 0);
    assert_eq!(expand(&["--key", &format!("{other}.pub")], 1)["code"], "pack_signature_invalid");
    let manifest = installed(&test_home).join("pack.json");
    let was = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, was.replace("core.delay", "core.fail")).unwrap();
    let file = test_home.path("never.json");
    let refused = expand(&["-o", file.to_str().unwrap()], 1);
    assert_eq!(refused["code"], "pack_signature_invalid", "{refused}");
    assert!(refused.to_string().contains("install it again"), "{refused}");
    assert!(!file.exists(), "nothing was written");
    std::fs::write(&manifest, was).unwrap();
    std::fs::write(installed(&test_home).join("keys/pack.json.sig"), b"none").unwrap();
    assert_eq!(expand(&[], 1)["code"], "pack_signature_unverifiable");
}

#[test]
fn expansion_errors_have_a_fix() {
    let test_home = signed_home();
    let order = example("order.json");
    let file = |name: &str, content: &str| {
        std::fs::write(test_home.path(name), content).unwrap();
        test_home.path(name).to_str().unwrap().to_owned()
    };
    let broken =
        file("broken.json", &std::fs::read_to_string(&order).unwrap().replace("\"version\": \"1.0\",", ""));
    let list = file("list.json", "[1]");
    let unwired =
        file("unwired.json", &std::fs::read_to_string(&order).unwrap().replace("\"ship\" }", "\"shop\" }"));
    let tiny = test_home.workspace().join("workflows/tiny.json").to_str().unwrap().to_owned();
    /// A case: name, workflow, pack, other arguments; then the exit code, the error code, and a
    /// part of the message.
    type Row<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], i32, &'a str, &'a str);
    let rows: [Row<'_>; 15] = [
        ("unknown pack", &order, "vendor.acme.unknown", &[], 1, "pack_not_found", "interlock pack install"),
        (
            "no version",
            &order,
            "vendor.acme.second-look@9.0.0",
            &[],
            1,
            "pack_not_found",
            "interlock pack list",
        ),
        ("not a name", &order, "unknown", &[], 2, "INPUT_UNREADABLE", "not a pack name, such as"),
        (
            "no chain",
            &order,
            PACK,
            &["--chain", "other"],
            1,
            "chain_not_found",
            "it has `vendor.acme.second-look`",
        ),
        (
            "no title",
            &order,
            PACK,
            &["--parameters", "{}"],
            1,
            "chain_parameter_invalid",
            "title (required, string)",
        ),
        (
            "a wrong type",
            &order,
            PACK,
            &["--parameters", r#"{"title": 7}"#],
            1,
            "chain_parameter_invalid",
            "/title",
        ),
        ("not an object", &order, PACK, &["--parameters", &list], 2, "INPUT_UNREADABLE", "not a JSON object"),
        ("not JSON", &order, PACK, &["--parameters", "{x"], 2, "JSON_SYNTAX", "--parameters"),
        ("a slip", &order, PACK, &["--on", "pakced"], 1, "CHAIN_MISPLACED", "did you mean `packed`?"),
        ("no node", &order, PACK, &["--before", "elsewhere"], 1, "CHAIN_MISPLACED", "it has `pack`, `ship`"),
        ("no id", &order, PACK, &["--id", "A-1"], 2, "INPUT_UNREADABLE", "1 to 32 lower-case"),
        ("no JSON file", &order, PACK, &["-o", "x.yaml"], 2, "INPUT_UNREADABLE", ".json"),
        ("steps", &tiny, PACK, &[], 2, "INPUT_UNREADABLE", "`steps` for an agent"),
        ("no file", "nowhere.json", PACK, &[], 2, "INPUT_UNREADABLE", "nowhere.json"),
        ("no workflow", &broken, PACK, &[], 1, "HOST_REFUSED", "/version"),
    ];
    for (what, file, pack, more, code, expected, report) in rows {
        let mut arguments = vec!["workflow", "expand", file, pack];
        if !more.contains(&"--parameters") {
            arguments.extend(["--parameters", PARAMETERS]);
        }
        arguments.extend(more);
        let refused = test_home.json(&arguments, code);
        assert_eq!(refused["code"], expected, "{what}: {refused}");
        assert!(refused.to_string().contains(report), "{what}: {refused}");
    }
    let arguments = ["workflow", "expand", &unwired, PACK, "--on", "packed", "--parameters", PARAMETERS];
    let words = test_home.refused(&arguments, 1);
    assert!(
        words.contains("expanded workflow is invalid") && words.contains("no node has this id"),
        "{words}"
    );
}

#[test]
fn a_chain_requires_its_node_types_to_be_installed() {
    let test_home = TestHome::new();
    let folder = test_home.path("counted");
    std::fs::create_dir(&folder).unwrap();
    let chain = |id: &str| {
        json!({
            "chainId": format!("vendor.acme.counted.{id}"), "version": "1.0.0", "label": id, "description": "", "parameters": {},
            "dag": {"nodes": [{"id": "count", "typeId": "vendor.acme.word-count.count", "inputs": {"text": "two words"}}]},
        })
    };
    let manifest = json!({
        "name": "vendor.acme.counted", "version": "1.0.0", "kind": "workflow-chain", "engines": {"openwop": "^1.0.0"},
        "chains": [chain("one"), chain("other")],
    });
    std::fs::write(folder.join("pack.json"), manifest.to_string()).unwrap();
    test_home.json(&["pack", "install", folder.to_str().unwrap()], 0);
    let order = example("order.json");
    let arguments = ["workflow", "expand", &order, "vendor.acme.counted", "--after", "ship"];
    let refused = test_home.json(&arguments, 2);
    assert!(refused.to_string().contains("choose one with --chain"), "{refused}");
    let arguments = [&arguments[..], &["--chain", "vendor.acme.counted.one"]].concat();
    let refused = test_home.json(&arguments, 1);
    assert_eq!(
        (&refused["code"], &refused["details"]["typeId"]),
        (&json!("chain_unresolvable_typeid"), &json!("vendor.acme.word-count.count"))
    );
    test_home.json(&["pack", "install", &example("word-count")], 0);
    let once = test_home.json(&arguments, 0);
    assert_eq!((&once["expansionId"], &once["proof"]["kind"]), (&json!("0001"), &json!("unsigned")));
    // Expanded again, the ids differ.
    let file = test_home.path("once.json");
    std::fs::write(&file, once["workflow"].to_string()).unwrap();
    let again =
        test_home.json(&[&["workflow", "expand", file.to_str().unwrap()], &arguments[3..]].concat(), 0);
    assert_eq!(again["expansionId"], "0002");
    assert_eq!(again["workflow"]["nodes"].as_array().unwrap().len(), 4);
    // Without --json, standard output has only the workflow, which is valid.
    let printed = test_home.run(&arguments);
    std::fs::write(&file, &printed.stdout).unwrap();
    assert!(crate::program::text(&printed.stderr).contains("vendor_acme_counted_one_0001_count"));
    test_home.expect(&["workflow", "validate", file.to_str().unwrap()], 0);
    assert!(Path::new(&file).exists());
}
