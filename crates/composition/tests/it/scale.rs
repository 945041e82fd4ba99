//! Large and hostile inputs, in sizes for a debug build. The tests check results, not times.

#[path = "../../benches/shapes.rs"]
mod shapes;

use composition::diagnostic::{Code, Details, PolicyReason};
use composition::{Effect, Input, Key, compose};
use serde_json::Value;

const SIZE: usize = 2_000;

fn input(value: Value) -> Input {
    Input::from_value(value).expect("every shape is shallow")
}

#[test]
fn a_realistic_workspace_composes_and_every_operation_takes_effect() {
    let size = 10_000;
    let input = input(shapes::realistic(size));
    let outcome = compose(&input);
    assert_eq!(outcome.diagnostics, []);
    let composition = outcome.composition.expect("no problems");
    assert_eq!(composition.owners.len(), size / 100);
    assert_eq!(outcome.policy_effects.len(), size / 10);
    let count = |wanted: fn(&Effect<'_>) -> bool| outcome.policy_effects.iter().filter(|e| wanted(e)).count();
    let counts = [
        count(|effect| matches!(effect, Effect::Hide { .. })),
        count(|effect| matches!(effect, Effect::Replace { .. })),
        count(|effect| matches!(effect, Effect::PathAlias { .. })),
        count(|effect| matches!(effect, Effect::RendererOverride { .. })),
        count(|effect| matches!(effect, Effect::Reorder { .. })),
    ];
    assert!(counts.iter().all(|count| *count > 50), "some of every kind: {counts:?}");
    let collections = [
        composition.routes.len(),
        composition.sidebar_items.len(),
        composition.configuration_surfaces.len(),
        composition.integration_surfaces.len(),
        composition.message_renderers.len(),
        composition.message_appenders.len(),
        composition.tool_renderers.len(),
        composition.activity_renderers.len(),
        composition.fallback_surfaces.len(),
    ];
    assert!(collections.iter().all(|length| *length > 50), "some in every collection: {collections:?}");
    assert!(composition.routes.is_sorted_by_key(|route| route.effective_path));
}

#[test]
fn one_claim_of_many_renderers_is_one_diagnostic() {
    let input = input(shapes::shared_claim(SIZE));
    let outcome = compose(&input);
    let [diagnostic] = &outcome.diagnostics[..] else { panic!("one group, one diagnostic") };
    let Details::DuplicateClaim { claim, keys, .. } = diagnostic.details() else { panic!("{diagnostic}") };
    assert_eq!((*claim, keys.len(), diagnostic.subjects().len()), ("tool:web.search", SIZE, SIZE));
    assert!(keys.is_sorted() && diagnostic.subjects().is_sorted_by_key(|subject| subject.key));
    assert!(outcome.composition.is_none());
}

#[test]
fn one_path_of_many_routes_is_one_diagnostic() {
    let input = input(shapes::shared_path(SIZE));
    let outcome = compose(&input);
    let [diagnostic] = &outcome.diagnostics[..] else { panic!("one group, one diagnostic") };
    let Details::DuplicatePath { keys, path, policy_ids, shape } = diagnostic.details() else {
        panic!("{diagnostic}")
    };
    assert_eq!((*path, shape.as_ref()), ("/projects/:projectId/runs", "/projects/:/runs"));
    assert_eq!((keys.len(), policy_ids.len(), diagnostic.subjects().len()), (SIZE, 0, SIZE));
    assert!(keys.is_sorted());
}

#[test]
fn a_chain_of_moves_reverses_the_sidebar() {
    let input = input(shapes::reversed_chain(SIZE));
    let outcome = compose(&input);
    assert_eq!(outcome.policy_effects.len(), SIZE);
    let composition = outcome.composition.expect("a chain is not a cycle");
    let shown: Vec<&str> = composition.sidebar_items.iter().map(|item| item.entry.key.local_id()).collect();
    let expected: Vec<String> = (0..=SIZE).rev().map(shapes::item).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_circular_chain_is_one_cycle() {
    let mut chain = shapes::reversed_chain(SIZE);
    let key = |index| format!("builtin-console:sidebar-items/{}", shapes::item(index));
    let operations = chain["policy"]["operations"].as_array_mut().expect("a list");
    operations.push(serde_json::json!({
        "id": "bite", "kind": "reorder", "target": key(0), "position": "before", "anchor": key(SIZE),
    }));
    let input = input(chain);
    let outcome = compose(&input);
    let [diagnostic] = &outcome.diagnostics[..] else { panic!("one cycle, one diagnostic") };
    let Details::Policy(fault) = diagnostic.details() else { panic!("{diagnostic}") };
    assert_eq!(fault.reason, PolicyReason::ReorderCycle);
    assert_eq!(fault.related_policy_ids.as_ref().map(Vec::len), Some(SIZE + 1));
    assert_eq!(diagnostic.subjects().len(), 2 * (SIZE + 1), "every operation and every item");
}

#[test]
fn one_replacement_for_many_targets() {
    let input = input(shapes::one_replacement(SIZE));
    let outcome = compose(&input);
    assert_eq!(outcome.policy_effects.len(), SIZE);
    let composition = outcome.composition.expect("a replacement may be shared");
    let [left] = &composition.configuration_surfaces[..] else { panic!("all others are replaced") };
    assert_eq!(Some(left.entry.key), Key::parse("builtin-console:configuration-surfaces/item-000000"));
    assert_eq!(left.entry.policy_ids.len(), SIZE);
    assert!(left.entry.policy_ids.is_sorted());
    assert_eq!(composition.required_render_handles.len(), 1);
}

#[test]
fn one_id_of_many_operations_is_one_diagnostic() {
    let input = input(shapes::equal_operation_ids(SIZE));
    let outcome = compose(&input);
    let [diagnostic] = &outcome.diagnostics[..] else { panic!("one id, one diagnostic") };
    let Details::Policy(fault) = diagnostic.details() else { panic!("{diagnostic}") };
    assert_eq!(fault.reason, PolicyReason::DuplicateOperationId);
    assert_eq!(fault.target, "operation:same");
    assert_eq!(fault.related_policy_ids.as_deref(), Some(&["same"][..]));
    assert_eq!(diagnostic.subjects().len(), SIZE + 1, "every target, and the id once");
    assert_eq!(outcome.policy_effects, []);
}

#[test]
fn many_bad_ids_are_as_many_diagnostics() {
    let input = input(shapes::bad_local_ids(SIZE));
    let outcome = compose(&input);
    assert_eq!(outcome.diagnostics.len(), SIZE);
    assert!(outcome.diagnostics.iter().all(|found| found.code() == Code::NamespaceInvalidLocalId));
    assert!(outcome.diagnostics.is_sorted_by_key(|found| found.subjects()[0].local_id));
}

#[test]
fn composing_is_deterministic() {
    for shape in shapes::ALL {
        let [once, twice] = [(); 2].map(|()| {
            let input = input((shape.build)(shape.full / 100));
            serde_json::to_vec(&compose(&input)).expect("a result is JSON")
        });
        assert!(once == twice, "{}", shape.name);
    }
}
