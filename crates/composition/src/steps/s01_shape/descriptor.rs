//! The shape of one contribution.

use serde_json::{Map, Value};

use super::fields::{Bounds, Fields, structure, token, type_name, wrong_type};
use super::{VERSION, Versions};
use crate::contribution::{Activation, Body, RenderHandle};
use crate::diagnostic::{Expected, Findings, StructureReason, Subject, VersionField};
use crate::vocabulary::{AppenderPosition, ContributionKind, FallbackStatus, Key, RuntimeStatus, StatusSet};

/// The six statuses in byte order.
pub(crate) const STATUS_NAMES: &[&str] =
    &["disabled", "error", "needsConfiguration", "readOnly", "ready", "unauthorized"];

const FALLBACK_STATUS_NAMES: &[&str] =
    &["anyNonReady", "disabled", "error", "needsConfiguration", "readOnly", "unauthorized"];

/// A contribution as declared: whatever could be read of it.
pub(crate) struct Draft<'i> {
    /// The index of the source that declares it.
    pub(crate) source: usize,
    pub(crate) kind: ContributionKind,
    pub(crate) local_id: Option<&'i str>,
    /// Derived in step 4, when both halves are grammatical.
    pub(crate) key: Option<Key<'i>>,
    /// The text whose grammar step 5 judges: a route's path, a renderer's claim, a sidebar item's route key.
    pub(crate) judged: Option<&'i str>,
    /// It should have a render handle, and there is none at all.
    pub(crate) lacks_handle: bool,
    pub(crate) label: Option<&'i str>,
    pub(crate) metadata: Option<&'i Value>,
    pub(crate) activation: Activation,
    /// Whole, if nothing in the descriptor was malformed.
    pub(crate) body: Option<Body<'i>>,
}

impl<'i> Draft<'i> {
    /// The contribution as diagnostics name it; `owner` is the subject of its source.
    pub(crate) fn subject(&self, owner: Subject<'i>) -> Subject<'i> {
        Subject {
            contribution_kind: Some(self.kind),
            key: self.key,
            local_id: self.local_id,
            policy_id: None,
            ..owner
        }
    }
}

/// Reads one descriptor. `collection` is the subject of the collection it stands in.
pub(super) fn read<'i>(
    members: &'i Map<String, Value>,
    kind: ContributionKind,
    source: usize,
    path: &str,
    collection: Subject<'i>,
    versions: Versions,
    findings: &mut Findings<'i>,
) -> Draft<'i> {
    let local_id = members.get("id").and_then(Value::as_str);
    let key = crate::steps::s04_keys::derive(collection, kind, local_id);
    let subject = Subject { key, local_id, ..collection };
    let mut fields = Fields { map: members, path, nested: "", subject, findings, confidential: false };

    let mut whole = fields.string("id", token::STRING).is_some();
    let label = match kind {
        ContributionKind::SidebarItems => {
            fields.bounded_string("label", Bounds::NonEmpty).map(Some).ok_or(())
        }
        _ => fields.optional_string("label", token::STRING),
    };
    let metadata = fields.optional_object("metadata");
    let activation = read_activation(&mut fields, kind);
    whole &= label.is_ok() && metadata.is_ok() && activation.is_some();

    let mut draft = Draft {
        source,
        kind,
        local_id,
        key,
        judged: None,
        lacks_handle: kind != ContributionKind::SidebarItems && !members.contains_key("renderHandle"),
        label: label.ok().flatten(),
        metadata: metadata.ok().flatten(),
        activation: activation.unwrap_or_default(),
        body: None,
    };
    let body = read_body(&mut draft, &mut fields, versions);
    draft.body = body.filter(|_| whole);
    draft
}

fn read_body<'i>(draft: &mut Draft<'i>, fields: &mut Fields<'_, 'i>, versions: Versions) -> Option<Body<'i>> {
    use ContributionKind as K;
    // Each field is read before any `?`, so that one fault does not hide the next.
    match draft.kind {
        K::Routes => {
            draft.judged = fields.string("path", token::ROUTE_PATH);
            let handle = read_handle(fields, versions);
            Some(Body::Route { path: draft.judged?, handle: handle? })
        }
        K::SidebarItems => {
            let section = fields.optional_string("section", token::STRING);
            let route_key = fields.optional_string("routeKey", token::KEY);
            draft.judged = route_key.ok().flatten();
            Some(Body::SidebarItem { section: section.ok()?, route_key: route_key.ok()? })
        }
        K::ConfigurationSurfaces | K::IntegrationSurfaces => {
            let purpose = fields.bounded_string("purpose", Bounds::NonEmpty);
            let handle = read_handle(fields, versions);
            Some(Body::Surface { purpose: purpose?, handle: handle? })
        }
        K::MessageRenderers | K::ToolRenderers | K::ActivityRenderers => {
            draft.judged = fields.string("claim", token::RENDERER_CLAIM);
            let handle = read_handle(fields, versions);
            Some(Body::Renderer { claim: draft.judged?, handle: handle? })
        }
        K::MessageAppenders => {
            let target_message_type = fields.bounded_string("targetMessageType", Bounds::Short);
            let position = fields.one_of("position", &["after", "before"], AppenderPosition::parse);
            let handle = read_handle(fields, versions);
            Some(Body::Appender {
                target_message_type: target_message_type?,
                position: position?,
                handle: handle?,
            })
        }
        K::FallbackSurfaces => {
            let status = fields.one_of("status", FALLBACK_STATUS_NAMES, FallbackStatus::parse);
            let handle = read_handle(fields, versions);
            Some(Body::Fallback { status: status?, handle: handle? })
        }
    }
}

fn read_activation(fields: &mut Fields<'_, '_>, kind: ContributionKind) -> Option<Activation> {
    const NAME: &str = "activeWhen";
    if kind == ContributionKind::FallbackSurfaces {
        return fields.absent(NAME).map(|()| Activation::Default);
    }
    let items = match fields.map.get(NAME) {
        None => return Some(Activation::Default),
        Some(Value::Array(items)) => items,
        other => {
            let details = wrong_type(fields.field(NAME), token::STATUSES, other);
            fields.findings.report(details, fields.subject);
            return None;
        }
    };
    let mut statuses = Some(StatusSet::EMPTY);
    for item in items {
        let status = match item {
            Value::String(text) => RuntimeStatus::parse(text).or_else(|| {
                fields.value_fault("activeWhen[]", Expected::OneOf(STATUS_NAMES), super::quoted(text))
            }),
            other => {
                let details = structure(
                    StructureReason::InvalidFieldType,
                    fields.field("activeWhen[]"),
                    Expected::Token(token::STRING),
                    type_name(Some(other)),
                );
                fields.findings.report(details, fields.subject);
                None
            }
        };
        statuses = statuses.zip(status).map(|(statuses, status)| statuses.with(status));
    }
    statuses.map(Activation::Explicit)
}

/// The handle, if it is whole. One of an unsupported version is not looked into.
fn read_handle<'i>(fields: &mut Fields<'_, 'i>, versions: Versions) -> Option<RenderHandle<'i>> {
    let members = match fields.map.get("renderHandle") {
        Some(Value::Object(members)) => members,
        other => {
            let details = wrong_type(fields.field("renderHandle"), token::RENDER_HANDLE, other);
            fields.findings.report(details, fields.subject);
            return None;
        }
    };
    if let Some(details) = versions.fault(VersionField::RenderHandle, members.get("renderHandleVersion")) {
        fields.findings.report(details, fields.subject);
        return None;
    }
    let mut fields = Fields {
        map: members,
        path: fields.path,
        nested: ".renderHandle",
        subject: fields.subject,
        findings: fields.findings,
        confidential: false,
    };
    let kind = fields.bounded_string("kind", Bounds::NonEmpty);
    let id = fields.bounded_string("id", Bounds::NonEmpty);
    let data = fields.optional_object("data");
    Some(RenderHandle { render_handle_version: VERSION, kind: kind?, id: id?, data: data.ok()? })
}
