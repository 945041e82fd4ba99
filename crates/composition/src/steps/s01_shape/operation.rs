//! The structure of the policy and its operations.

use serde_json::{Map, Value};

use super::fields::{Bounds, Field, Fields, token, wrong_type};
use super::{Versions, not_a_collection};
use crate::diagnostic::{Findings, Subject, VersionField};

/// The policy as far as it is readable.
#[derive(Default)]
pub(crate) struct PolicyDraft<'i> {
    /// `None` if the input has no policy.
    pub(crate) operations: Option<Vec<Operation<'i>>>,
}

/// A well-formed operation; step 9 resolves its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'i> {
    pub(crate) id: &'i str,
    pub(crate) kind: OperationKind<'i>,
}

/// The action of an operation, with its operands as written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationKind<'i> {
    Hide { target: &'i str },
    Reorder { target: &'i str, place: RequestedPosition<'i> },
    Replace { target: &'i str, replacement: &'i str },
    PathAlias { target: &'i str, path: &'i str },
    RendererOverride { claim: &'i str, used: &'i str },
}

/// Where a reorder moves its target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestedPosition<'i> {
    First,
    Last,
    Before(&'i str),
    After(&'i str),
}

impl<'i> RequestedPosition<'i> {
    /// The anchor key.
    pub(crate) const fn anchor(self) -> Option<&'i str> {
        match self {
            Self::Before(anchor) | Self::After(anchor) => Some(anchor),
            Self::First | Self::Last => None,
        }
    }
}

impl<'i> Operation<'i> {
    /// Every key in the operation: its target or used renderer, then its other operand.
    pub(crate) fn named_keys(&self) -> impl Iterator<Item = &'i str> {
        let (first, second) = match self.kind {
            OperationKind::Hide { target } | OperationKind::PathAlias { target, .. } => (target, None),
            OperationKind::Reorder { target, place } => (target, place.anchor()),
            OperationKind::Replace { target, replacement } => (target, Some(replacement)),
            OperationKind::RendererOverride { used, .. } => (used, None),
        };
        std::iter::once(first).chain(second)
    }
}

/// Reads the policy. An unsupported version is not examined further.
pub(super) fn read_policy<'i>(
    value: Option<&'i Value>,
    versions: Versions,
    findings: &mut Findings<'i>,
) -> PolicyDraft<'i> {
    let members = match value {
        None => return PolicyDraft { operations: None },
        Some(Value::Object(members)) => members,
        other => {
            findings.report(wrong_type("policy", token::OBJECT, other), Subject::HOST);
            return PolicyDraft::default();
        }
    };
    if let Some(details) = versions.fault(VersionField::PolicySchema, members.get("policySchemaVersion")) {
        findings.report(details, Subject::HOST);
        return PolicyDraft::default();
    }
    match members.get("operations") {
        Some(Value::Array(operations)) => PolicyDraft {
            operations: Some(operations.iter().filter_map(|value| read_operation(value, findings)).collect()),
        },
        other => {
            not_a_collection("policy.operations", other, Subject::HOST, findings);
            PolicyDraft::default()
        }
    }
}

fn read_operation<'i>(value: &'i Value, findings: &mut Findings<'i>) -> Option<Operation<'i>> {
    let Value::Object(members) = value else {
        findings.report(wrong_type("policy.operations[]", token::OPERATION, Some(value)), Subject::HOST);
        return None;
    };
    let subject = Subject { policy_id: members.get("id").and_then(Value::as_str), ..Subject::HOST };
    let mut fields =
        Fields { path: "policy.operations[]", nested: "", subject, findings, confidential: false };
    let id = fields.bounded_string(Field::of(members, "id"), Bounds::OperationId);
    let kind = read_kind(&mut fields, members);
    Some(Operation { id: id?, kind: kind? })
}

/// The kinds, determined before their operands are read.
#[derive(Clone, Copy)]
enum Tag {
    Hide,
    PathAlias,
    RendererOverride,
    Reorder,
    Replace,
}

fn read_kind<'i>(fields: &mut Fields<'_, 'i>, members: &'i Map<String, Value>) -> Option<OperationKind<'i>> {
    const KINDS: &[&str] = &["hide", "pathAlias", "rendererOverride", "reorder", "replace"];
    let at = |name| Field::of(members, name);
    let tag = fields.one_of(at("kind"), KINDS, |text| match text {
        "hide" => Some(Tag::Hide),
        "pathAlias" => Some(Tag::PathAlias),
        "rendererOverride" => Some(Tag::RendererOverride),
        "reorder" => Some(Tag::Reorder),
        "replace" => Some(Tag::Replace),
        _ => None,
    })?;
    // All operands are read before any `?`, so that one fault does not hide the next.
    Some(match tag {
        Tag::Hide => OperationKind::Hide { target: fields.string(at("target"), token::KEY)? },
        Tag::PathAlias => {
            let target = fields.string(at("target"), token::KEY);
            let path = fields.string(at("path"), token::ROUTE_PATH);
            OperationKind::PathAlias { target: target?, path: path? }
        }
        Tag::RendererOverride => {
            let claim = fields.string(at("claim"), token::RENDERER_CLAIM);
            let used = fields.string(at("use"), token::KEY);
            OperationKind::RendererOverride { claim: claim?, used: used? }
        }
        Tag::Replace => {
            let target = fields.string(at("target"), token::KEY);
            let replacement = fields.string(at("replacement"), token::KEY);
            OperationKind::Replace { target: target?, replacement: replacement? }
        }
        Tag::Reorder => {
            let target = fields.string(at("target"), token::KEY);
            let place = read_place(fields, members);
            OperationKind::Reorder { target: target?, place: place? }
        }
    })
}

fn read_place<'i>(
    fields: &mut Fields<'_, 'i>,
    members: &'i Map<String, Value>,
) -> Option<RequestedPosition<'i>> {
    const POSITIONS: &[&str] = &["after", "before", "first", "last"];
    let position = fields.one_of(Field::of(members, "position"), POSITIONS, |text| {
        POSITIONS.iter().position(|name| *name == text)
    })?;
    let anchor = Field::of(members, "anchor");
    match POSITIONS[position] {
        "after" => fields.string(anchor, token::KEY).map(RequestedPosition::After),
        "before" => fields.string(anchor, token::KEY).map(RequestedPosition::Before),
        "first" => fields.absent(anchor).map(|()| RequestedPosition::First),
        _ => fields.absent(anchor).map(|()| RequestedPosition::Last),
    }
}
