//! Modules and policy.

use serde_json::{Value, json};

use crate::support::{KEY, READER, Site};

const DIAGNOSTICS: &str = "/diagnostics";

fn module(id: &str, more: Value) -> String {
    let mut module = json!({
        "instanceId": id, "packageId": "@example/desk", "packageVersion": "1.0.0", "moduleApiVersion": "0.1",
        "contributions": {
            "routes": [{
                "id": "home", "path": format!("/{id}"), "activeWhen": ["ready", "readOnly"], "label": "Release desk",
                "renderHandle": {"renderHandleVersion": "0.1", "kind": "page", "id": "interlock.text", "data": {"text": "# Welcome\n\n<script>alert(1)</script>"}},
            }],
            "sidebarItems": [{"id": "home", "activeWhen": ["ready", "readOnly"], "label": "Desk", "section": "Teams", "routeKey": format!("{id}:routes/home")}],
            "fallbackSurfaces": [{
                "id": "sorry", "status": "anyNonReady", "label": "Release desk",
                "renderHandle": {"renderHandleVersion": "0.1", "kind": "panel", "id": "interlock.text", "data": {"text": "The desk is closed."}},
            }],
        },
    });
    if let (Value::Object(members), Value::Object(more)) = (&mut module, more) {
        members.extend(more);
    }
    module.to_string()
}

#[tokio::test]
async fn a_new_module_file_adds_a_page_and_a_sidebar_entry() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    assert_eq!(browser.get("/desk").await.status, 404);
    site.write("modules/desk.json", &module("desk", json!({})));
    let page = browser.get("/desk").await;
    assert_eq!(page.status, 200);
    page.shows(&["Release desk", "<h1>Welcome</h1>", ">Desk</a>", "Teams"]);
    page.hides(&["<script>alert"]);
    browser.get(DIAGNOSTICS).await.shows(&["desk:routes/home", "@example/desk 1.0.0", "ready"]);
}

#[tokio::test]
async fn module_status_follows_from_its_requirements_and_shows_fallbacks() {
    let cases = [
        ("off", json!({"enabled": false}), "disabled"),
        (
            "unset",
            json!({"requires": {"settings": ["tracker.url"]}, "settings": {"tracker.url": " "}}),
            "needsConfiguration",
        ),
        (
            "set",
            json!({"requires": {"settings": ["tracker.url"]}, "settings": {"tracker.url": "x"}}),
            "ready",
        ),
        ("locked", json!({"requires": {"scopes": ["host:admin"]}}), "unauthorized"),
        ("looking", json!({"requires": {"writeScopes": ["runs:create"]}}), "readOnly"),
        ("fixed", json!({"readOnly": true}), "readOnly"),
    ];
    for (id, more, status) in cases {
        let site = Site::open().await;
        site.write(&format!("modules/{id}.json"), &module(id, more));
        let reader = site.signed_in(READER).await;
        let page = reader.get(DIAGNOSTICS).await;
        page.shows(&[&format!("{}</span> <strong>{id}</strong>", status.replace('-', " "))]);
        let home = reader.get(&format!("/{id}")).await;
        if matches!(status, "ready" | "readOnly") {
            assert_eq!(home.status, 200, "{id}");
        } else {
            assert_eq!(home.status, 404, "{id}");
            home.shows(&["belongs to the module", id, status, "The desk is closed."]);
            reader.get("/").await.shows(&["The desk is closed."]);
        }
    }
}

#[tokio::test]
async fn an_unreadable_module_is_an_error_that_affects_no_other() {
    let site = Site::open().await;
    site.write("modules/broken.json", "{\"instanceId\": ");
    site.write("modules/desk.json", &module("desk", json!({})));
    let browser = site.signed_in(KEY).await;
    let page = browser.get(DIAGNOSTICS).await;
    page.shows(&["CONSOLE_FILE_UNREADABLE", "broken.json", "What to do"]);
    assert_eq!(browser.get("/desk").await.status, 200, "the other modules work");
}

#[tokio::test]
async fn the_policy_hides_moves_and_renames_and_links_follow() {
    let site = Site::open().await;
    let run = site.run(&crate::pages::waiting("w"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let policy = json!({"policySchemaVersion": "0.1", "operations": [
        {"id": "a", "kind": "pathAlias", "target": "builtin-interlock-runs:routes/run", "path": "/executions/:runId"},
        {"id": "b", "kind": "hide", "target": "builtin-interlock-console:sidebar-items/diagnostics"},
        {"id": "c", "kind": "reorder", "target": "builtin-interlock-approvals:sidebar-items/inbox", "position": "first"},
    ]});
    site.write("policy.json", &policy.to_string());
    let page = browser.get("/runs").await;
    page.shows(&[&format!("href=\"/console/executions/{run}\"")]);
    page.hides(&[">Diagnostics</a>", "configuration has errors"]);
    assert!(page.text.find(">Approvals</a>").unwrap() < page.text.find(">Overview</a>").unwrap());
    assert!(
        page.text.find(">Overview</a>").unwrap() < page.text.find(">Runs</a>").unwrap(),
        "the other entries keep their order"
    );
    assert_eq!(browser.get(&format!("/executions/{run}")).await.status, 200);
    assert_eq!(browser.get(&format!("/runs/{run}")).await.status, 404);
    browser.get(DIAGNOSTICS).await.shows(&["pathAlias", "No problems"]);
}

#[tokio::test]
async fn a_broken_policy_shows_its_errors_and_only_the_built_ins() {
    let site = Site::open().await;
    site.write("modules/desk.json", &module("desk", json!({})));
    let browser = site.signed_in(KEY).await;
    assert_eq!(browser.get("/desk").await.status, 200);
    let dangling = json!({"policySchemaVersion": "0.1", "operations": [{"id": "x", "kind": "hide", "target": "desk:routes/none"}]});
    let cases = [
        ("not JSON", "{".to_owned(), "CONSOLE_FILE_UNREADABLE"),
        (
            "another version",
            "{\"policySchemaVersion\": \"9\", \"operations\": []}".to_owned(),
            "WCP_VERSION_UNSUPPORTED_POLICY_SCHEMA",
        ),
        ("a target that is not there", dangling.to_string(), "WCP_POLICY_INVALID"),
        ("not an object", "[]".to_owned(), "WCP_STRUCTURE_INVALID"),
    ];
    for (name, policy, code) in cases {
        site.write("policy.json", &policy);
        let page = browser.get("/runs").await;
        assert_eq!(page.status, 200, "{name}");
        page.shows(&["configuration has errors", "Show errors"]);
        assert_eq!(browser.get("/desk").await.status, 404, "{name}: an unreadable policy may hide things");
        browser.get(DIAGNOSTICS).await.shows(&[code, "What to do"]);
    }
    site.write("policy.json", "{\"policySchemaVersion\": \"0.1\", \"operations\": []}");
    browser.get("/runs").await.hides(&["configuration has errors"]);
    assert_eq!(browser.get("/desk").await.status, 200, "the fixed file is read again");
}

#[tokio::test]
async fn operations_on_inactive_targets_are_skipped() {
    let site = Site::open().await;
    site.write("modules/desk.json", &module("desk", json!({"requires": {"scopes": ["host:admin"]}})));
    let policy = json!({"policySchemaVersion": "0.1", "operations": [
        {"id": "rename", "kind": "pathAlias", "target": "desk:routes/home", "path": "/bureau"},
    ]});
    site.write("policy.json", &policy.to_string());
    assert_eq!(site.signed_in(KEY).await.get("/bureau").await.status, 200);
    let reader = site.signed_in(READER).await;
    reader.get("/runs").await.hides(&["configuration has errors"]);
    reader.get(DIAGNOSTICS).await.shows(&["CONSOLE_POLICY_POSTPONED", "rename"]);
}

#[tokio::test]
async fn module_metadata_is_redacted() {
    let site = Site::open().await;
    let more = json!({
        "enabled": false, "message": "use Bearer abcdefghijklmnop",
        "data": {"password": "hunter2", "see": "https://me:pw@example.org/x?y=1"},
        "actions": [
            {"id": "bad", "label": "Bad", "kind": "open", "data": {"href": "javascript:alert(1)"}},
            {"id": "good", "label": "Good", "kind": "open", "data": {"href": "https://example.org/setup"}},
        ],
    });
    site.write("modules/desk.json", &module("desk", more));
    let page = site.signed_in(KEY).await.get(DIAGNOSTICS).await;
    page.shows(&[
        "[redacted]",
        "WCP_TRUST_UNSAFE_ACTION",
        "WCP_TRUST_UNREDACTED_VALUE",
        "href=\"https://example.org/setup\"",
    ]);
    page.hides(&["abcdefghijklmnop", "hunter2", "me:pw", "javascript:alert"]);
}

#[tokio::test]
async fn a_handle_without_a_renderer_shows_an_error_panel() {
    let site = Site::open().await;
    let text = module("desk", json!({})).replace("interlock.text", "desk.own");
    site.write("modules/desk.json", &text);
    let browser = site.signed_in(KEY).await;
    let page = browser.get("/desk").await;
    assert_eq!(page.status, 500);
    page.shows(&["could not be rendered", "WCP_RENDER_HANDLE_MISSING", "Retry", ">Runs</a>"]);
    browser.get(DIAGNOSTICS).await.shows(&["WCP_RENDER_HANDLE_MISSING", "desk:routes/home"]);
    assert_eq!(browser.get("/runs").await.status, 200);
}
