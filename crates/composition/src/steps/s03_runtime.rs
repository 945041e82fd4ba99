//! Step 3: every module has a runtime resolved by the host.
//!
//! The summary copies the host's data without redaction, which is the host's duty. Diagnostics therefore never contain
//! its values.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::s01_shape::{
    Bounds, Field, Fields, STATUS_NAMES, SourceShape, quoted, structure, token, type_name, wrong_type,
};
use super::s02_sources::Source;
use crate::composition::{ActionKind, RuntimeAction, RuntimeSummary};
use crate::diagnostic::{Expected, Findings, StructureReason, Subject};
use crate::vocabulary::RuntimeStatus;

/// Attaches a summary to each module with a valid runtime, and reports the others.
pub(crate) fn resolve<'i>(
    sources: &mut [Source<'i>],
    shapes: &[SourceShape<'i>],
    findings: &mut Findings<'i>,
) {
    for (source, shape) in sources.iter_mut().zip(shapes) {
        if let Some(module) = shape.module {
            source.runtime = read(module, source.subject, findings).map(Arc::new);
        }
    }
}

fn read<'i>(
    module: &'i Map<String, Value>,
    subject: Subject<'i>,
    findings: &mut Findings<'i>,
) -> Option<RuntimeSummary<'i>> {
    const FIELD: &str = "modules[].runtime";
    let members = match module.get("runtime") {
        Some(Value::Object(members)) => members,
        None | Some(Value::Null) => {
            let expected = Expected::Token(token::RUNTIME);
            findings
                .report(structure(StructureReason::MissingRuntime, FIELD, expected, "undefined"), subject);
            return None;
        }
        other => {
            findings.report(wrong_type(FIELD, token::RUNTIME, other), subject);
            return None;
        }
    };
    let status = read_status(members.get("status"), subject, findings);
    let mut fields = Fields { path: "runtime", nested: "", subject, findings, confidential: false };
    check_instance(&mut fields, members, module);
    let grants = fields.strings(Field::of(members, "grants"));
    let missing = fields.strings(Field::of(members, "missing"));
    let actions = read_actions(&mut fields, members);
    let message = fields.optional_string(Field::of(members, "message"), token::STRING);
    let data = fields.optional_object(Field::of(members, "data"));
    let status = status?;
    Some(RuntimeSummary {
        status,
        grants: grants?,
        missing: missing?,
        actions: actions?,
        message: message.ok()?,
        data: data.ok()?,
        read_only: status == RuntimeStatus::ReadOnly,
    })
}

fn read_status<'i>(
    value: Option<&'i Value>,
    subject: Subject<'i>,
    findings: &mut Findings<'i>,
) -> Option<RuntimeStatus> {
    let text = value.and_then(Value::as_str);
    let status = text.and_then(RuntimeStatus::parse);
    if status.is_none() {
        let received = text.map_or_else(|| type_name(value).into(), quoted);
        let expected = Expected::OneOf(STATUS_NAMES);
        findings.report(
            structure(StructureReason::InvalidRuntimeStatus, "runtime.status", expected, received),
            subject,
        );
    }
    status
}

/// The runtime must belong to this instance.
fn check_instance<'i>(
    fields: &mut Fields<'_, 'i>,
    members: &'i Map<String, Value>,
    module: &'i Map<String, Value>,
) {
    let resolved_for = fields.string(Field::of(members, "instanceId"), token::STRING);
    let instance = module.get("instanceId").and_then(Value::as_str);
    if let (Some(resolved_for), Some(instance)) = (resolved_for, instance)
        && resolved_for != instance
    {
        fields.value_fault::<()>("instanceId", Expected::Token("same-as-instanceId"), quoted(resolved_for));
    }
}

fn read_actions<'i>(
    fields: &mut Fields<'_, 'i>,
    members: &'i Map<String, Value>,
) -> Option<Vec<RuntimeAction<'i>>> {
    let items = fields.array(Field::of(members, "actions"))?;
    let actions: Vec<_> = items.iter().filter_map(|item| read_action(item, fields)).collect();
    (actions.len() == items.len()).then_some(actions)
}

fn read_action<'i>(value: &'i Value, runtime: &mut Fields<'_, 'i>) -> Option<RuntimeAction<'i>> {
    const PATH: &str = "runtime.actions[]";
    const KINDS: &[&str] = &["authorize", "configure", "custom", "open", "retry"];
    let Value::Object(map) = value else {
        runtime.findings.report(wrong_type(PATH, token::ACTION, Some(value)), runtime.subject);
        return None;
    };
    let mut fields = Fields {
        path: PATH,
        nested: "",
        subject: runtime.subject,
        findings: runtime.findings,
        confidential: true,
    };
    let id = fields.bounded_string(Field::of(map, "id"), Bounds::NonEmpty);
    let label = fields.bounded_string(Field::of(map, "label"), Bounds::NonEmpty);
    let kind = fields.one_of(Field::of(map, "kind"), KINDS, ActionKind::parse);
    let data = fields.optional_object(Field::of(map, "data"));
    Some(RuntimeAction { id: id?, label: label?, kind: kind?, data: data.ok()? })
}
