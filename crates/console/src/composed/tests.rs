//! Composition of modules and policy.

use super::*;

fn scopes() -> BTreeSet<Scope> {
    Scope::ALL.iter().copied().collect()
}

#[test]
fn built_ins_compose_and_every_handle_has_a_provider() {
    let shell = composed(&Sources::default(), &scopes());
    assert_eq!(shell.findings, []);
    assert!(!shell.is_alone);
    assert_eq!(shell.routes.len(), builtins::ALL.len());
    let labels: Vec<String> = shell.sidebar.iter().map(|item| item.label.clone()).collect();
    assert_eq!(labels[..3], ["Overview", "Runs", "Approvals"]);
}

#[test]
fn the_operators_sidebar_order_overrides_the_default() {
    let keys = builtins::sidebar_order();
    for position in ["first", "last"] {
        for key in &keys {
            let operations = json!([{"id": "x", "kind": "reorder", "target": key, "position": position}]);
            let policy = json!({"policySchemaVersion": "0.1", "operations": operations});
            assert!(!composed(&Sources::of(&[], Some(policy)), &scopes()).is_alone, "{key} {position}");
        }
    }
    for (target, anchor) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))).filter(|(a, b)| a != b)
    {
        for position in ["before", "after"] {
            let operations = json!([{"id": "x", "kind": "reorder", "target": target, "position": position, "anchor": anchor}]);
            let policy = json!({"policySchemaVersion": "0.1", "operations": operations});
            let shell = composed(&Sources::of(&[], Some(policy)), &scopes());
            assert_eq!(shell.findings, [], "{target} {position} {anchor}");
        }
    }
}

#[test]
fn literal_path_segments_win_over_parameters() {
    let module = json!({
        "instanceId": "lab", "packageId": "p", "moduleApiVersion": "0.1",
        "contributions": {"routes": [{"id": "new", "path": "/runs/new", "renderHandle": {"renderHandleVersion": "0.1", "kind": "page", "id": "interlock.text"}}]},
    });
    let shell = composed(&Sources::of(&[("lab", module)], None), &scopes());
    let found = |path: &str| shell.find(path).map(|(route, params)| (route.key.clone(), params));
    assert_eq!(found("/runs/new").unwrap().0, "lab:routes/new");
    let (key, params) = found("/runs/a%20b").unwrap();
    assert_eq!(
        (key.as_str(), params),
        ("builtin-interlock-runs:routes/run", vec![("runId".to_owned(), "a b".to_owned())])
    );
    for path in ["", "/runs/", "//runs", "/runs/x/none", "/runs/%ff"] {
        assert_eq!(found(path), None, "{path}");
    }
}

#[test]
fn reserved_paths_are_reported() {
    let module = json!({
        "instanceId": "lab", "packageId": "p", "moduleApiVersion": "0.1",
        "contributions": {"routes": [{"id": "a", "path": "/assets/x", "renderHandle": {"renderHandleVersion": "0.1", "kind": "page", "id": "interlock.text"}}]},
    });
    let shell = composed(&Sources::of(&[("lab", module)], None), &scopes());
    assert_eq!(shell.findings[0].code, "CONSOLE_PATH_RESERVED");
}
