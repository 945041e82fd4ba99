//! Step 9a: the references of one operation, checked in order, stopping at the first failure.

use serde_json::{Value, json};

use crate::model::{
    diagnostic::{diagnostic, host_operation},
    grammar::{PROTECTED, path_fault},
    graph::Item,
    policy::{Existing, Invalid, Operation},
};

pub(crate) fn first_fault(operation: &Operation, graph: &[Item], existing: &Existing) -> Option<Value> {
    let fault = match operation.kind.as_str() {
        "hide" => hide(operation, graph),
        "reorder" => reorder(operation, graph),
        "replace" => replace(operation, graph),
        "pathAlias" => match path_alias(operation, graph) {
            Ok(()) => return alias_path(operation, existing),
            fault => fault,
        },
        _ => renderer_override(operation, graph),
    };
    let fault = fault.err()?;
    let mut invalid = Invalid::of(operation, fault.reason, &fault.target);
    if let Some((name, value)) = fault.extra {
        invalid = invalid.with(name, &value);
    }
    Some(invalid.diagnostic(existing))
}

/// The reason and `target` of a diagnostic, with its `field` or `use`.
struct Fault {
    reason: &'static str,
    target: String,
    extra: Option<(&'static str, String)>,
}

impl Fault {
    fn new(reason: &'static str, target: &str) -> Self {
        Self { reason, target: target.to_owned(), extra: None }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.extra = Some((name, value.to_owned()));
        self
    }
}

type Verdict<T> = Result<T, Fault>;

/// "Missing" is not declared anywhere, "inactive" is declared but not in the frozen graph.
fn find<'a>(graph: &'a [Item], key: &str, missing: Fault, inactive: Fault) -> Verdict<&'a Item> {
    match graph.iter().find(|item| item.key == key) {
        None => Err(missing),
        Some(item) if !item.active => Err(inactive),
        Some(item) => Ok(item),
    }
}

fn find_target<'a>(operation: &Operation, graph: &'a [Item]) -> Verdict<&'a Item> {
    let key = operation.target();
    let fault = |reason| Fault::new(reason, key);
    find(graph, key, fault("missing-target"), fault("inactive-target"))
}

/// The same reasons for `anchor` and `replacement`, on that operand.
fn find_operand<'a>(field: &'static str, key: &str, graph: &'a [Item]) -> Verdict<&'a Item> {
    let fault = |reason| Fault::new(reason, key).with("field", field);
    find(graph, key, fault("missing-target"), fault("inactive-target"))
}

/// D-7: the target of the diagnostic is the claim.
fn refuse_protected(target: &Item) -> Verdict<()> {
    match target.claim() {
        Some(claim) if PROTECTED.contains(&claim) => Err(Fault::new("default-renderer-protected", claim)),
        _ => Ok(()),
    }
}

fn hide(operation: &Operation, graph: &[Item]) -> Verdict<()> {
    let target = find_target(operation, graph)?;
    refuse_protected(target)
}

fn reorder(operation: &Operation, graph: &[Item]) -> Verdict<()> {
    let target = find_target(operation, graph)?;
    if !target.kind.ordered {
        return Err(Fault::new("invalid-kind", &target.key));
    }
    let Some(key) = &operation.anchor else { return Ok(()) };
    let anchor = find_operand("anchor", key, graph)?;
    if anchor.group() != target.group() {
        return Err(Fault::new("invalid-kind", key).with("field", "anchor"));
    }
    Ok(())
}

fn replace(operation: &Operation, graph: &[Item]) -> Verdict<()> {
    let target = find_target(operation, graph)?;
    let key = operation.replacement.as_deref().unwrap_or_default();
    let replacement = find_operand("replacement", key, graph)?;
    if replacement.kind != target.kind {
        return Err(Fault::new("invalid-kind", key).with("field", "replacement"));
    }
    // An absent handle was reported by step 5b, before barrier A.
    refuse_protected(target)
}

fn path_alias(operation: &Operation, graph: &[Item]) -> Verdict<()> {
    let target = find_target(operation, graph)?;
    if target.kind.name != "routes" {
        return Err(Fault::new("invalid-kind", &target.key));
    }
    Ok(())
}

/// The last check of a path alias has a code of its own; its subjects are the operation and the target.
fn alias_path(operation: &Operation, existing: &Existing) -> Option<Value> {
    let path = operation.path.as_deref().unwrap_or_default();
    let reason = path_fault(path)?;
    let mut subjects = vec![host_operation(&operation.id)];
    let target = existing.iter().filter(|(key, _)| key == operation.target());
    subjects.extend(target.map(|(_, subject)| subject.clone()));
    let details = json!({"path": path, "reason": reason, "policyId": operation.id});
    Some(diagnostic("WCP_ROUTE_INVALID_PATH", &details, subjects, &["006", "010"]))
}

fn renderer_override(operation: &Operation, graph: &[Item]) -> Verdict<()> {
    let claim = operation.claim.as_deref().unwrap_or_default();
    let key = operation.renderer.as_deref().unwrap_or_default();
    if PROTECTED.contains(&claim) {
        return Err(Fault::new("default-renderer-protected", claim));
    }
    let mut holders = graph.iter().filter(|item| item.claim() == Some(claim)).peekable();
    if holders.peek().is_none() {
        return Err(Fault::new("missing-target", claim));
    }
    if !holders.any(|item| item.active) {
        return Err(Fault::new("inactive-target", claim));
    }
    let fault = |reason| Fault::new(reason, claim).with("use", key);
    let renderer = find(graph, key, fault("missing-use"), fault("inactive-use"))?;
    if renderer.claim() != Some(claim) {
        return Err(fault("invalid-use-kind"));
    }
    Ok(())
}
