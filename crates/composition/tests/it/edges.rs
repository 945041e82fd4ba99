//! Cases beyond the fixtures: typed declarations, and values that did not come from bytes.

use composition::composition::ActionKind;
use composition::declare::{
    Appender, Builtin, Contributions, Fallback, Handle, Module, Policy, Renderer, Route, Runtime,
    SidebarItem, Surface, Workspace,
};
use composition::{
    AppenderPosition, Code, ContributionKind, FallbackStatus, Input, Key, NonReadyStatus, RendererKind,
    RuntimeStatus, TooDeep, compose,
};
use serde_json::{Value, json};

#[test]
fn typed_declarations_compose() {
    let handle = |id: &str| Handle::new("page", id).data(json!({"n": 1}));
    let metadata = json!({"tier": 1});
    let contributions = Contributions::new()
        .route(
            Route::new("home", "/lab/:id", handle("home"))
                .label("Lab")
                .active_when(&[RuntimeStatus::Ready, RuntimeStatus::ReadOnly])
                .metadata(metadata.clone()),
        )
        .sidebar_item(
            SidebarItem::new("home", "Lab")
                .route_key("lab:routes/home")
                .section("tools")
                .active_when(&[RuntimeStatus::ReadOnly]),
        )
        .configuration_surface(Surface::new("settings", "settings", handle("settings")))
        .integration_surface(Surface::new("connect", "connect", handle("connect")))
        .renderer(
            RendererKind::Tool,
            Renderer::new("q", "tool:lab.q", handle("q")).active_when(&[RuntimeStatus::ReadOnly]),
        )
        .appender(
            Appender::new("note", "assistant", AppenderPosition::After, handle("note"))
                .active_when(&[RuntimeStatus::ReadOnly]),
        )
        .fallback(Fallback::new(
            "read-only",
            FallbackStatus::Concrete(NonReadyStatus::ReadOnly),
            handle("fallback"),
        ));
    let runtime = Runtime::new(RuntimeStatus::ReadOnly)
        .grant("lab.query")
        .missing("lab.write")
        .action("ask", "Ask for access", ActionKind::Authorize)
        .message("You may look")
        .data(json!({"region": "eu"}));
    let builtins = Contributions::new()
        .sidebar_item(SidebarItem::new("a", "A"))
        .sidebar_item(SidebarItem::new("b", "B"));
    let workspace = Workspace::new()
        .builtin(Builtin::new("builtin-x", builtins).package("@example/x", "1.0.0"))
        .module(Module::new("lab", "@example/lab", runtime, contributions).package_version("2.0.0"))
        .policy(
            Policy::new()
                .first("o1", "lab:sidebar-items/home")
                .before("o2", "builtin-x:sidebar-items/b", "builtin-x:sidebar-items/a")
                .path_alias("o3", "lab:routes/home", "/lab/:name/home")
                .renderer_override("o4", "tool:lab.q", "lab:tool-renderers/q")
                .hide("o5", "lab:integration-surfaces/connect"),
        );
    let input = Input::declare(&workspace).unwrap();
    let outcome = compose(&input);
    assert!(outcome.is_ok(), "{:?}", outcome.diagnostics);
    let composition = outcome.composition.unwrap();
    let labels: Vec<_> = composition.sidebar_items.iter().filter_map(|item| item.entry.label).collect();
    assert_eq!(labels, ["Lab", "B", "A"]);
    assert_eq!(composition.routes[0].effective_path, "/lab/:name/home");
    assert_eq!(composition.routes[0].entry.metadata, Some(&metadata));
    assert_eq!(composition.routes[0].entry.runtime.as_ref().unwrap().actions[0].kind, ActionKind::Authorize);
    assert_eq!(composition.count(ContributionKind::IntegrationSurfaces), 0);
    assert_eq!(composition.entries().count(), 8);
    let key = Key::parse("lab:fallback-surfaces/read-only").unwrap();
    assert_eq!(composition.find(key).map(|(place, _)| place), Some(0));
}

#[test]
fn deep_values_are_rejected() {
    let mut value = Value::Null;
    for _ in 0..canon::json::MAX_DEPTH + 1 {
        value = json!([value]);
    }
    assert_eq!(Input::from_value(value), Err(TooDeep));
}

#[test]
fn diagnostics_never_contain_runtime_data() {
    let secret = "hunter2";
    let input = json!({"builtins": [], "modules": [{
        "instanceId": "lab", "packageId": "p", "moduleApiVersion": "0.1", "contributions": {},
        "runtime": {
            "instanceId": "lab", "status": "ready", "grants": [], "missing": [],
            "actions": [{"id": "", "label": secret, "kind": secret, "data": secret}],
            "message": {"token": secret}, "data": [secret],
        },
    }]});
    let input = Input::from_value(input).unwrap();
    let outcome = compose(&input);
    let text = serde_json::to_string(&outcome).unwrap();
    assert_eq!(outcome.diagnostics.len(), 5);
    assert!(outcome.diagnostics.iter().all(|diagnostic| diagnostic.code() == Code::StructureInvalid));
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn diagnostics_have_a_readable_form() {
    let input = Input::read(
        br#"{"builtins": [], "modules": [], "policy": {"policySchemaVersion": "0.1",
        "operations": [{"id": "hide-1", "kind": "hide", "target": "lab:routes/home"}]}}"#,
    )
    .unwrap();
    assert_eq!(
        compose(&input).diagnostics[0].to_string(),
        "error[WCP_POLICY_INVALID]: operation \"hide-1\": the contribution that it names is not declared: lab:routes/home\n  \
         at policy operation hide-1\n  \
         help: fix or remove the named policy operations; the policy was not applied",
    );
}
