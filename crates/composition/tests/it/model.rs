//! A naive reading of the composition kernel, to hold the real one against.
//!
//! Written from WCP-005 and the decisions recorded with it (D-n), step by step, and from nothing else: values
//! are cloned, groups scanned, cycles found by reachability. Comments name the rule that a line implements.

mod apply;
mod conflict;
mod cycle;
mod diagnostic;
mod emit;
mod grammar;
mod graph;
mod json;
mod namespace;
mod order;
mod policy;
mod reference;
mod shape;
mod simulation;
mod source;
mod version;

use serde_json::{Value, json};

/// The complete result object for any JSON. Diagnostic messages are empty: no comparison reads them (D-23).
pub(crate) fn compose(input: &Value) -> Value {
    // Step 1: nothing else is interpretable after either of these.
    let Value::Object(input) = input else { return failed(vec![shape::not_an_object(input)], vec![]) };
    if let Some(fault) = version::composition_fault(input) {
        let code = "WCP_VERSION_UNSUPPORTED_COMPOSITION_SCHEMA";
        let subject = diagnostic::host();
        return failed(vec![fault.diagnostic(code, "compositionSchemaVersion", subject, &["015"])], vec![]);
    }

    // Steps 1 to 5b, all of them, then barrier A.
    let sources = source::sources(input);
    let declared = source::declarations(&sources);
    let operations = policy::operations(input);
    let mut found = shape::check(input);
    found.extend(namespace::check_keys(&sources, &declared));
    found.extend(namespace::check_grammar(input, &sources, &declared));
    found.extend(policy::check_absent_handles(&operations, &declared));
    if !found.is_empty() {
        return failed(found, vec![]);
    }

    // Steps 6 to 9, then barrier B.
    let mut graph = graph::candidates(&sources);
    let found = policy::check(&operations, &graph);
    if !found.is_empty() {
        return failed(found, vec![]);
    }

    // Steps 10 to 15, then barrier C: effects recorded before the earliest failing step remain (D-17).
    let mut effects = apply::hide_and_replace(&operations, &mut graph);
    effects.extend(apply::alias_paths(&operations, &mut graph));
    let mut found = apply::route_conflicts(&operations, &graph);
    let overrides = apply::override_renderers(&operations, &mut graph);
    if found.is_empty() {
        effects.extend(overrides);
    }
    found.extend(apply::claim_conflicts(&graph));
    found.extend(apply::broken_references(&graph));
    if !found.is_empty() {
        return failed(found, effects);
    }

    // Steps 16 to 18.
    effects.extend(order::record_reorders(&operations, &mut graph));
    let effects = emit::sorted_effects(effects);
    let composition = emit::composition(&sources, &graph, &operations, &effects);
    json!({"ok": true, "composition": composition, "diagnostics": [], "policyEffects": effects})
}

fn failed(found: Vec<Value>, effects: Vec<Value>) -> Value {
    json!({
        "ok": false,
        "composition": null,
        "diagnostics": diagnostic::normalised(found),
        "policyEffects": emit::sorted_effects(effects),
    })
}
