//! Steps 1 and 3: the shape of the input, member by member.

use serde_json::{Value, json};

use crate::model::{
    diagnostic::{diagnostic, host, host_operation},
    json::{Object, received_value, text, type_name},
    source::{KINDS, Kind, contribution_subject, owner_subject},
    version,
};

/// Byte order puts `readOnly` before `ready`.
const STATUSES: &[&str] = &["disabled", "error", "needsConfiguration", "readOnly", "ready", "unauthorized"];
const FALLBACK_STATUSES: &[&str] =
    &["anyNonReady", "disabled", "error", "needsConfiguration", "readOnly", "unauthorized"];
const OPERATION_KINDS: &[&str] = &["hide", "pathAlias", "rendererOverride", "reorder", "replace"];

/// The required shape of a member.
enum Want {
    /// A string, with the type token of `expected` and the constraints in their order.
    Text(&'static str, &'static [Constraint]),
    /// A string out of a sorted list.
    Choice(&'static [&'static str]),
    /// An object, with its type token.
    Object(&'static str),
    /// An array, with its type token, and the type of its elements.
    List(&'static str, &'static Want),
}

enum Constraint {
    NonEmpty,
    AtMost(usize),
    NoControl,
}

use Constraint::{AtMost, NoControl, NonEmpty};

const ANY_TEXT: Want = Want::Text("string", &[]);
const FILLED: Want = Want::Text("string", &[NonEmpty]);
const PACKAGE_ID: Want = Want::Text("string", &[NonEmpty, AtMost(214)]);
const PACKAGE_VERSION: Want = Want::Text("string", &[NonEmpty, AtMost(128)]);
const MESSAGE_TYPE: Want = Want::Text("string", &[NonEmpty, AtMost(128)]);
const OPERATION_ID: Want = Want::Text("string", &[NonEmpty, AtMost(128), NoControl]);
const KEY: Want = Want::Text("CanonicalContributionKey", &[]);
const PATH: Want = Want::Text("RoutePath", &[]);
const CLAIM: Want = Want::Text("RendererClaim", &[]);
const DATA: Want = Want::Object("CompositionJsonObject");
const TEXTS: Want = Want::List("array", &ANY_TEXT);
const ACTIVE_WHEN: Want = Want::List("ModuleRuntimeStatus[]", &Want::Choice(STATUSES));
const ACTIONS: Want = Want::List("array", &Want::Object("RuntimeAction"));

impl Want {
    fn token(&self) -> &'static str {
        match self {
            Self::Text(token, _) | Self::Object(token) | Self::List(token, _) => token,
            // 2.6: `string`, enum members included.
            Self::Choice(_) => "string",
        }
    }
}

/// Where members are being checked: the prefix of `details.field`, and who is the subject.
struct FieldContext {
    prefix: String,
    subject: Value,
    /// D-9: under `runtime.actions[]` the received value is always a type name.
    private: bool,
}

impl FieldContext {
    fn new(prefix: impl Into<String>, subject: &Value) -> Self {
        Self { prefix: prefix.into(), subject: subject.clone(), private: false }
    }
}

fn structure(reason: &str, field: &str, expected: Value, received: &str, subject: &Value) -> Value {
    let mut details = json!({"reason": reason, "field": field, "received": received});
    details["expected"] = expected;
    diagnostic("WCP_STRUCTURE_INVALID", &details, vec![subject.clone()], &["015"])
}

/// Step 1: anything but an object ends the composition at once.
pub(crate) fn not_an_object(input: &Value) -> Value {
    let received = type_name(Some(input));
    structure("invalid-input-shape", "input", json!("ComposeWorkspaceInput"), received, &host())
}

/// Steps 1 and 3, for an input object whose composition schema version is supported.
pub(crate) fn check(input: &Object) -> Vec<Value> {
    let mut found = Vec::new();
    check_supported_versions(input, &mut found);
    for element in collection(input, "builtins", "builtins", &host(), &mut found) {
        check_builtin(input, element, &mut found);
    }
    for element in collection(input, "modules", "modules", &host(), &mut found) {
        check_module(input, element, &mut found);
    }
    match input.get("policy") {
        None => {}
        Some(Value::Object(policy)) => check_policy(input, policy, &mut found),
        Some(other) => found.push(structure(
            "invalid-field-type",
            "policy",
            json!("object"),
            type_name(Some(other)),
            &host(),
        )),
    }
    found
}

/// `builtins`, `modules` and `policy.operations`: absent or no array is `invalid-collection` (2.6).
fn collection<'a>(
    object: &'a Object,
    name: &str,
    field: &str,
    subject: &Value,
    found: &mut Vec<Value>,
) -> &'a [Value] {
    if let Some(Value::Array(elements)) = object.get(name) {
        return elements;
    }
    let received = type_name(object.get(name));
    found.push(structure("invalid-collection", field, json!("array"), received, subject));
    &[]
}

fn required(object: &Object, place: &FieldContext, name: &str, want: &Want, found: &mut Vec<Value>) {
    let field = format!("{}{name}", place.prefix);
    match object.get(name) {
        Some(value) => judge(value, place, &field, want, found),
        None => found.push(structure(
            "missing-required-field",
            &field,
            json!(want.token()),
            "undefined",
            &place.subject,
        )),
    }
}

fn optional(object: &Object, place: &FieldContext, name: &str, want: &Want, found: &mut Vec<Value>) {
    if let Some(value) = object.get(name) {
        judge(value, place, &format!("{}{name}", place.prefix), want, found);
    }
}

/// 2.6: `unsupported-field`, whatever the value is.
fn absent(object: &Object, place: &FieldContext, name: &str, found: &mut Vec<Value>) {
    if let Some(value) = object.get(name) {
        let field = format!("{}{name}", place.prefix);
        let received = type_name(Some(value));
        found.push(structure("unsupported-field", &field, json!("absent"), received, &place.subject));
    }
}

fn judge(value: &Value, place: &FieldContext, field: &str, want: &Want, found: &mut Vec<Value>) {
    let wrong_type = || {
        let expected = json!(want.token());
        structure("invalid-field-type", field, expected, type_name(Some(value)), &place.subject)
    };
    let wrong_value = |expected: Value| {
        let received =
            if place.private { type_name(Some(value)).to_owned() } else { received_value(Some(value)) };
        structure("invalid-field-value", field, expected, &received, &place.subject)
    };
    match (want, value) {
        (Want::Text(_, constraints), Value::String(text)) => {
            // First failure only.
            if let Some(token) = constraints.iter().find_map(|constraint| broken(constraint, text)) {
                found.push(wrong_value(json!(token)));
            }
        }
        (Want::Choice(choices), Value::String(text)) => {
            if !choices.contains(&text.as_str()) {
                found.push(wrong_value(json!(choices)));
            }
        }
        (Want::Object(_), Value::Object(_)) => {}
        (Want::List(_, each), Value::Array(elements)) => {
            for element in elements {
                judge(element, place, &format!("{field}[]"), each, found);
            }
        }
        _ => found.push(wrong_type()),
    }
}

/// The constraint token, when the constraint is broken.
fn broken(constraint: &Constraint, text: &str) -> Option<String> {
    match constraint {
        NonEmpty => text.is_empty().then(|| "non-empty".to_owned()),
        AtMost(bytes) => (text.len() > *bytes).then(|| format!("at-most-{bytes}-bytes")),
        NoControl => text.chars().any(|c| c < ' ').then(|| "no-control-characters".to_owned()),
    }
}

/// 2.5: when given, an object with all four lists.
fn check_supported_versions(input: &Object, found: &mut Vec<Value>) {
    let top = FieldContext::new("", &host());
    optional(input, &top, "supportedVersions", &Want::Object("object"), found);
    if let Some(Value::Object(versions)) = input.get("supportedVersions") {
        let place = FieldContext::new("supportedVersions.", &host());
        for list in
            ["compositionSchemaVersions", "moduleApiVersions", "renderHandleVersions", "policySchemaVersions"]
        {
            required(versions, &place, list, &TEXTS, found);
        }
    }
}

fn check_builtin(input: &Object, element: &Value, found: &mut Vec<Value>) {
    let Value::Object(set) = element else {
        let subject = json!({"ownerKind": "builtin"});
        let received = type_name(Some(element));
        found.push(structure("invalid-field-type", "builtins[]", json!("object"), received, &subject));
        return;
    };
    let place = FieldContext::new("builtins[].", &owner_subject(true, set));
    required(set, &place, "owner", &Want::Object("ContributionOwner"), found);
    if let Some(Value::Object(owner)) = set.get("owner") {
        let place = FieldContext::new("builtins[].owner.", &place.subject);
        required(owner, &place, "ownerKind", &Want::Choice(&["builtin"]), found);
        required(owner, &place, "ownerId", &ANY_TEXT, found);
        optional(owner, &place, "packageId", &PACKAGE_ID, found);
        optional(owner, &place, "packageVersion", &PACKAGE_VERSION, found);
    }
    required(set, &place, "contributions", &Want::Object("WorkspaceContributions"), found);
    check_contributions(input, true, set, found);
}

fn check_module(input: &Object, element: &Value, found: &mut Vec<Value>) {
    let Value::Object(module) = element else {
        let subject = json!({"ownerKind": "module"});
        let received = type_name(Some(element));
        found.push(structure("invalid-field-type", "modules[]", json!("object"), received, &subject));
        return;
    };
    let place = FieldContext::new("modules[].", &owner_subject(false, module));
    required(module, &place, "packageId", &PACKAGE_ID, found);
    optional(module, &place, "packageVersion", &PACKAGE_VERSION, found);
    required(module, &place, "instanceId", &ANY_TEXT, found);
    check_runtime(module, &place, found);
    // 2.5: the contributions of an unsupported module API are not looked at, not even for their presence.
    if version::module_api_fault(input, module).is_none() {
        required(module, &place, "contributions", &Want::Object("WorkspaceContributions"), found);
        check_contributions(input, false, module, found);
    }
}

/// Step 3.
fn check_runtime(module: &Object, owner: &FieldContext, found: &mut Vec<Value>) {
    let expected = json!("ResolvedModuleRuntime");
    let runtime = match module.get("runtime") {
        // Absent and `null` are both `missing-runtime`, received `undefined`.
        None | Some(Value::Null) => {
            let reason = "missing-runtime";
            found.push(structure(reason, "modules[].runtime", expected, "undefined", &owner.subject));
            return;
        }
        Some(Value::Object(runtime)) => runtime,
        Some(other) => {
            let received = type_name(Some(other));
            let reason = "invalid-field-type";
            found.push(structure(reason, "modules[].runtime", expected, received, &owner.subject));
            return;
        }
    };
    let place = FieldContext::new("runtime.", &owner.subject);

    // An absent or non-string status is this reason too.
    if !text(runtime, "status").is_some_and(|status| STATUSES.contains(&status)) {
        let received = received_value(runtime.get("status"));
        let reason = "invalid-runtime-status";
        found.push(structure(reason, "runtime.status", json!(STATUSES), &received, &place.subject));
    }

    required(runtime, &place, "instanceId", &ANY_TEXT, found);
    // Not compared when either is absent or no string.
    if let (Some(inner), Some(outer)) = (text(runtime, "instanceId"), text(module, "instanceId"))
        && inner != outer
    {
        let received = received_value(runtime.get("instanceId"));
        let expected = json!("same-as-instanceId");
        let field = "runtime.instanceId";
        found.push(structure("invalid-field-value", field, expected, &received, &place.subject));
    }

    required(runtime, &place, "grants", &TEXTS, found);
    required(runtime, &place, "missing", &TEXTS, found);
    required(runtime, &place, "actions", &ACTIONS, found);
    for action in runtime.get("actions").and_then(Value::as_array).into_iter().flatten() {
        if let Some(action) = action.as_object() {
            let place = FieldContext {
                prefix: "runtime.actions[].".into(),
                subject: place.subject.clone(),
                private: true,
            };
            required(action, &place, "id", &FILLED, found);
            required(action, &place, "label", &FILLED, found);
            let kinds = Want::Choice(&["authorize", "configure", "custom", "open", "retry"]);
            required(action, &place, "kind", &kinds, found);
            optional(action, &place, "data", &DATA, found);
        }
    }
    optional(runtime, &place, "message", &ANY_TEXT, found);
    optional(runtime, &place, "data", &DATA, found);
}

fn check_contributions(input: &Object, builtin: bool, source: &Object, found: &mut Vec<Value>) {
    let Some(Value::Object(contributions)) = source.get("contributions") else { return };
    // D-13: an unknown member of `contributions` is an error of the owner.
    let place = FieldContext::new("contributions.", &owner_subject(builtin, source));
    for name in contributions.keys() {
        if !KINDS.iter().any(|kind| kind.collection == name) {
            absent(contributions, &place, name, found);
        }
    }
    for kind in KINDS.iter().filter(|kind| contributions.contains_key(kind.collection)) {
        let subject = contribution_subject(builtin, source, kind, None);
        let field = format!("contributions.{}", kind.collection);
        for entry in collection(contributions, kind.collection, &field, &subject, found) {
            let Value::Object(descriptor) = entry else {
                let field = format!("{field}[]");
                let received = type_name(Some(entry));
                found.push(structure("invalid-field-type", &field, json!("object"), received, &subject));
                continue;
            };
            let subject = contribution_subject(builtin, source, kind, Some(entry));
            check_descriptor(
                input,
                kind,
                descriptor,
                &FieldContext::new(format!("{field}[]."), &subject),
                found,
            );
        }
    }
}

fn check_descriptor(
    input: &Object,
    kind: &Kind,
    item: &Object,
    place: &FieldContext,
    found: &mut Vec<Value>,
) {
    required(item, place, "id", &ANY_TEXT, found);
    optional(item, place, "metadata", &DATA, found);
    if kind.name == "sidebar-items" {
        required(item, place, "label", &FILLED, found);
        optional(item, place, "section", &ANY_TEXT, found);
        optional(item, place, "routeKey", &KEY, found);
    } else {
        optional(item, place, "label", &ANY_TEXT, found);
    }
    if kind.name == "fallback-surfaces" {
        absent(item, place, "activeWhen", found);
        required(item, place, "status", &Want::Choice(FALLBACK_STATUSES), found);
    } else {
        optional(item, place, "activeWhen", &ACTIVE_WHEN, found);
    }
    if kind.name == "routes" {
        required(item, place, "path", &PATH, found);
    }
    if kind.name == "configuration-surfaces" || kind.name == "integration-surfaces" {
        required(item, place, "purpose", &FILLED, found);
    }
    if kind.family.is_some() {
        required(item, place, "claim", &CLAIM, found);
    }
    if kind.name == "message-appenders" {
        required(item, place, "targetMessageType", &MESSAGE_TYPE, found);
        required(item, place, "position", &Want::Choice(&["after", "before"]), found);
    }
    if kind.has_handle() {
        required(item, place, "renderHandle", &Want::Object("RenderHandle"), found);
        if let Some(Value::Object(handle)) = item.get("renderHandle") {
            check_handle(input, handle, place, found);
        }
    }
}

/// The version comes first: when it is not supported the other fields are not checked (2.5).
fn check_handle(input: &Object, handle: &Object, descriptor: &FieldContext, found: &mut Vec<Value>) {
    if version::render_handle_fault(input, handle).is_some() {
        return;
    }
    let place = FieldContext::new(format!("{}renderHandle.", descriptor.prefix), &descriptor.subject);
    required(handle, &place, "kind", &FILLED, found);
    required(handle, &place, "id", &FILLED, found);
    optional(handle, &place, "data", &DATA, found);
}

fn check_policy(input: &Object, policy: &Object, found: &mut Vec<Value>) {
    // 2.5: under an unsupported version `operations` is not looked at, not even its type.
    if let Some(fault) = version::policy_fault(input, policy) {
        let code = "WCP_VERSION_UNSUPPORTED_POLICY_SCHEMA";
        found.push(fault.diagnostic(code, "policySchemaVersion", host(), &["010", "015"]));
        return;
    }
    for operation in collection(policy, "operations", "policy.operations", &host(), found) {
        found.extend(operation_faults(operation));
    }
}

/// The shape of one operation; nothing found means that it is well-formed.
pub(crate) fn operation_faults(operation: &Value) -> Vec<Value> {
    let Value::Object(operation) = operation else {
        let received = type_name(Some(operation));
        let expected = json!("CompositionPolicyOperation");
        return vec![structure("invalid-field-type", "policy.operations[]", expected, received, &host())];
    };
    let mut found = Vec::new();
    let subject = text(operation, "id").map_or_else(host, host_operation);
    let place = FieldContext::new("policy.operations[].", &subject);
    required(operation, &place, "id", &OPERATION_ID, &mut found);
    required(operation, &place, "kind", &Want::Choice(OPERATION_KINDS), &mut found);
    // Operands of an operation whose kind is malformed are not judged.
    match text(operation, "kind") {
        Some("hide") => required(operation, &place, "target", &KEY, &mut found),
        Some("reorder") => {
            required(operation, &place, "target", &KEY, &mut found);
            let positions = Want::Choice(&["after", "before", "first", "last"]);
            required(operation, &place, "position", &positions, &mut found);
            // Nor is the anchor when the position is malformed.
            match text(operation, "position") {
                Some("before" | "after") => required(operation, &place, "anchor", &KEY, &mut found),
                Some("first" | "last") => absent(operation, &place, "anchor", &mut found),
                _ => {}
            }
        }
        Some("replace") => {
            required(operation, &place, "target", &KEY, &mut found);
            required(operation, &place, "replacement", &KEY, &mut found);
        }
        Some("pathAlias") => {
            required(operation, &place, "target", &KEY, &mut found);
            required(operation, &place, "path", &PATH, &mut found);
        }
        Some("rendererOverride") => {
            required(operation, &place, "claim", &CLAIM, &mut found);
            required(operation, &place, "use", &KEY, &mut found);
        }
        _ => {}
    }
    found
}
