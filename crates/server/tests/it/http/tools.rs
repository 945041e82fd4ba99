//! The tool catalogue.

use jsonschema::Validator;
use serde_json::{Value, json};

use super::service::{Host, KEY, OTHER, READER, gate, noop, protocol_file, workflow};

fn exposed(name: &str, schema: &Value) -> Value {
    let config = json!({"name": name, "description": "Does it.", "inputSchema": schema});
    workflow("exposing", &[("says", "core.openwop.mcp.expose-tool", config)], &json!([]))
}

fn published() -> Option<Validator> {
    Some(jsonschema::validator_for(&protocol_file("schemas/tool-descriptor.schema.json")?).unwrap())
}

#[tokio::test]
async fn every_tool_of_the_tenant_is_described_and_no_other() {
    let host = Host::start().await;
    let mut wants = noop();
    wants["variables"] = json!([{"name": "text", "type": "string", "required": true}]);
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string", "anyOf": [{"minLength": 1}]}},
        "oneOf": [{"required": ["a"]}],
    });
    for workflow in [wants, gate(), exposed("greet", &schema)] {
        host.register(&workflow).await;
    }
    let listed = host.get("/v1/tools").await.expect(200);
    let tools = listed["tools"].as_array().unwrap();
    let ids: Vec<&str> = tools.iter().map(|tool| tool["toolId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mcp:greet", "workflow:exposing", "workflow:gate", "workflow:noop"]);
    assert_eq!(tools[0]["description"], "Does it.");
    assert_eq!(tools[2]["approval"], "conditional");
    assert_eq!(tools[3]["inputSchema"]["required"], json!(["text"]));
    if let Some(published) = published() {
        for tool in tools {
            assert!(published.is_valid(tool), "{tool}");
        }
    }
    let compact = host.get("/v1/tools?view=compact").await.expect(200);
    let compact = compact["tools"].as_array().unwrap();
    assert_eq!(compact.iter().map(|tool| tool["toolId"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    for compact in compact {
        assert!(compact.as_object().unwrap().len() <= 6, "{compact}");
        assert!(!compact.to_string().contains("Of\""), "no composition: {compact}");
    }
    assert_eq!(host.get("/v1/tools?view=standard").await.expect(200), listed);
    assert_eq!(&host.get(&format!("/v1/tools/{}?view=compact", ids[0])).await.expect(200), &compact[0]);
    for (source, many) in [("mcp", 1), ("workflow", 3), ("connector", 0)] {
        let listed = host.get(&format!("/v1/tools?source={source}")).await.expect(200);
        assert_eq!(listed["tools"].as_array().unwrap().len(), many, "{source}");
    }
    for query in ["source=none", "view=none"] {
        host.get(&format!("/v1/tools?{query}")).await.refused(400, "validation_error");
    }
    assert_eq!(host.get_as(OTHER, "/v1/tools").await.expect(200)["tools"], json!([]));
    for (id, tool) in ids.iter().zip(tools) {
        assert_eq!(&host.get(&format!("/v1/tools/{id}")).await.expect(200), tool);
        assert_eq!(&host.get(&format!("/v1/tools/{}", id.replace(':', "%3A"))).await.expect(200), tool);
        let unknown = host.get("/v1/tools/mcp:none").await.refused(404, "not_found");
        assert_eq!(host.get_as(OTHER, &format!("/v1/tools/{id}")).await.refused(404, "not_found"), unknown);
    }
    assert_eq!(host.get_as(READER, "/v1/tools").await.expect(200), listed, "the scope runs:read is enough");
    let discovered = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    assert_eq!(discovered["toolCatalog"]["supported"], true);
    assert_eq!(discovered["toolCatalog"]["sources"], json!(["workflow", "mcp"]));
}

#[tokio::test]
async fn tools_of_clients_of_mcp_are_there_as_long_as_such_clients_are_served() {
    let host = Host::start().await;
    host.register(&exposed("greet", &json!({"type": "object"}))).await;
    for (withheld, ids, sources) in [
        (None, json!(["mcp:greet", "workflow:exposing"]), json!(["workflow", "mcp"])),
        (Some("mcp.serverMount.supported"), json!(["workflow:exposing"]), json!(["workflow"])),
    ] {
        host.runs.features().withhold(withheld.into_iter().collect());
        let listed = host.get("/v1/tools").await.expect(200);
        let listed: Value =
            listed["tools"].as_array().unwrap().iter().map(|tool| tool["toolId"].clone()).collect();
        assert_eq!(listed, ids);
        let expected = if withheld.is_some() { 404 } else { 200 };
        assert_eq!(host.get("/v1/tools/mcp:greet").await.status, expected);
        let discovered = host.get("/.well-known/openwop").await.expect(200);
        assert_eq!(discovered["toolCatalog"]["sources"], sources);
    }
}

#[tokio::test]
async fn a_long_catalogue_comes_in_pages_that_hold_everything_once() {
    let host = Host::start().await;
    let caller = host.runs.keys().authenticate(KEY).await.unwrap();
    for place in 0..250 {
        let flow = workflow(&format!("w-{place:04}"), &[("n", "core.noop", json!({}))], &json!([]));
        host.runs.definitions().register(&caller, &flow).await.unwrap();
    }
    host.register(&exposed("greet", &json!({"type": "object"}))).await;
    let (mut found, mut path) = (Vec::new(), "/v1/tools".to_owned());
    loop {
        let page = host.get(&path).await.expect(200);
        let ids = page["tools"].as_array().unwrap().iter();
        found.extend(ids.map(|tool| tool["toolId"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => path = format!("/v1/tools?cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found.len(), 252);
    assert!(found.is_sorted());
}
