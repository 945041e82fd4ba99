//! Steps 5b and 9: policy validation. Nothing is applied here.

use serde_json::{Value, json};

use crate::model::{
    conflict, cycle,
    diagnostic::{diagnostic, host_operation, set},
    graph::Item,
    json::{Object, canonical, text},
    reference, shape, simulation,
    source::Declared,
    version,
};

/// A well-formed operation with the operands of its kind; members of other kinds are unknown members.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) target: Option<String>,
    pub(crate) position: Option<String>,
    pub(crate) anchor: Option<String>,
    pub(crate) replacement: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) claim: Option<String>,
    pub(crate) renderer: Option<String>,
}

impl Operation {
    fn read(operation: &Object) -> Self {
        let kind = text(operation, "kind").unwrap_or_default();
        let of = |kinds: &[&str], name: &str| {
            text(operation, name).filter(|_| kinds.contains(&kind)).map(str::to_owned)
        };
        Self {
            id: text(operation, "id").unwrap_or_default().to_owned(),
            kind: kind.to_owned(),
            target: of(&["hide", "reorder", "replace", "pathAlias"], "target"),
            position: of(&["reorder"], "position"),
            anchor: of(&["reorder"], "anchor"),
            replacement: of(&["replace"], "replacement"),
            path: of(&["pathAlias"], "path"),
            claim: of(&["rendererOverride"], "claim"),
            renderer: of(&["rendererOverride"], "use"),
        }
    }

    /// `target`, `anchor`, `replacement` and `use`, as far as the kind has them.
    pub(crate) fn operands(&self) -> Vec<&str> {
        let operands = [&self.target, &self.anchor, &self.replacement, &self.renderer];
        operands.into_iter().flatten().map(String::as_str).collect()
    }

    pub(crate) fn target(&self) -> &str {
        self.target.as_deref().unwrap_or_default()
    }

    pub(crate) fn removes(&self) -> bool {
        self.kind == "hide" || self.kind == "replace"
    }
}

/// The well-formed operations of a policy whose version is supported. An omitted policy has none (step 6).
pub(crate) fn operations(input: &Object) -> Vec<Operation> {
    let Some(Value::Object(policy)) = input.get("policy") else { return vec![] };
    if version::policy_fault(input, policy).is_some() {
        return vec![];
    }
    let operations = policy.get("operations").and_then(Value::as_array).into_iter().flatten();
    operations
        .filter(|operation| shape::operation_faults(operation).is_empty())
        .filter_map(Value::as_object)
        .map(Operation::read)
        .collect()
}

/// Contributions that exist, by key, with their subject.
pub(crate) type Existing = Vec<(String, Value)>;

/// `WCP_POLICY_INVALID` in the making.
pub(crate) struct Invalid {
    pub(crate) reason: &'static str,
    pub(crate) policy_id: String,
    pub(crate) target: String,
    /// `use`, `from` and `field`, where the rule has them.
    pub(crate) extra: Vec<(&'static str, String)>,
    pub(crate) related: Option<Vec<String>>,
    /// Keys whose contributions are subjects, as far as they exist.
    pub(crate) named: Vec<String>,
}

impl Invalid {
    /// About one operation: its operands are named (2.4).
    pub(crate) fn of(operation: &Operation, reason: &'static str, target: &str) -> Self {
        Self {
            reason,
            policy_id: operation.id.clone(),
            target: target.to_owned(),
            extra: vec![],
            related: None,
            named: operation.operands().into_iter().map(str::to_owned).collect(),
        }
    }

    /// About several operations, with a related id for each.
    pub(crate) fn of_all(
        operations: &[&Operation],
        reason: &'static str,
        policy_id: &str,
        target: &str,
    ) -> Self {
        let named = operations.iter().flat_map(|operation| operation.operands()).map(str::to_owned).collect();
        Self {
            reason,
            policy_id: policy_id.to_owned(),
            target: target.to_owned(),
            extra: vec![],
            related: Some(set(operations.iter().map(|operation| operation.id.as_str()))),
            named,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.extra.push((name, value.to_owned()));
        self
    }

    pub(crate) fn diagnostic(self, existing: &Existing) -> Value {
        let mut subjects = vec![host_operation(&self.policy_id)];
        subjects.extend(self.related.iter().flatten().map(|id| host_operation(id)));
        let named = existing.iter().filter(|(key, _)| self.named.contains(key));
        subjects.extend(named.map(|(_, subject)| subject.clone()));

        let mut details = json!({"reason": self.reason, "policyId": self.policy_id, "target": self.target});
        for (name, value) in self.extra {
            details[name] = json!(value);
        }
        if let Some(related) = self.related {
            details["relatedPolicyIds"] = json!(related);
        }
        let protected = self.reason == "default-renderer-protected";
        let decisions: &[&str] = if protected { &["010", "012"] } else { &["010"] };
        diagnostic("WCP_POLICY_INVALID", &details, subjects, decisions)
    }
}

/// Step 5b: well-formed operations that select a contribution whose `renderHandle` is absent.
pub(crate) fn check_absent_handles(operations: &[Operation], declared: &[Declared]) -> Vec<Value> {
    // A key that is declared several times is there by the first of its subjects.
    let mut existing: Existing =
        declared.iter().filter_map(|item| Some((item.key.clone()?, item.subject.clone()))).collect();
    existing.sort_by_key(|(key, subject)| (key.clone(), canonical(subject)));
    existing.dedup_by(|(next, _), (first, _)| next == first);
    let lacks_handle = |key: &str| {
        declared.iter().any(|item| {
            item.key.as_deref() == Some(key)
                && item.kind.has_handle()
                && !item.descriptor.contains_key("renderHandle")
        })
    };
    let mut found = Vec::new();
    for operation in operations {
        if let Some(key) = operation.replacement.as_deref().filter(|key| lacks_handle(key)) {
            let invalid = Invalid::of(operation, "missing-render-handle", key).with("field", "replacement");
            found.push(invalid.diagnostic(&existing));
        }
        if let Some(key) = operation.renderer.as_deref().filter(|key| lacks_handle(key)) {
            let claim = operation.claim.as_deref().unwrap_or_default();
            let invalid = Invalid::of(operation, "missing-render-handle", claim).with("use", key);
            found.push(invalid.diagnostic(&existing));
        }
    }
    found
}

/// Step 9, over the frozen candidate graph.
pub(crate) fn check(operations: &[Operation], graph: &[Item]) -> Vec<Value> {
    let existing: Existing = graph.iter().map(|item| (item.key.clone(), item.subject.clone())).collect();
    let mut found = Vec::new();
    // 9a, and D-26: the later passes over single operations see only those that passed.
    let mut passed: Vec<&Operation> = Vec::new();
    for operation in operations {
        match reference::first_fault(operation, graph, &existing) {
            Some(diagnostic) => found.push(diagnostic),
            None => passed.push(operation),
        }
    }
    // 9b
    found.extend(conflict::check(operations, &existing));
    found.extend(cycle::check_replaces(&passed, &existing));
    found.extend(cycle::check_reorders(&passed, operations, &existing));
    // 9c
    found.extend(simulation::check(&passed, graph, &existing));
    found
}
