//! The structure of one contribution.

use serde_json::{Map, Value};

use super::Versions;
use super::fields::{Bounds, Field, Fields, structure, token, type_name, wrong_type};
use crate::contribution::{Activation, Body, RenderHandle};
use crate::diagnostic::{Expected, Findings, StructureReason, Subject, VersionField};
use crate::grammar;
use crate::steps::s04_keys::Front;
use crate::vocabulary::{AppenderPosition, ContributionKind, FallbackStatus, Key, RuntimeStatus, StatusSet};

/// The six statuses in byte order.
pub(crate) const STATUS_NAMES: &[&str] =
    &["disabled", "error", "needsConfiguration", "readOnly", "ready", "unauthorized"];

const FALLBACK_STATUS_NAMES: &[&str] =
    &["anyNonReady", "disabled", "error", "needsConfiguration", "readOnly", "unauthorized"];

/// A declared contribution, as far as it is readable.
pub(crate) struct Draft<'i> {
    /// The index of the source that declares it.
    pub(crate) source: usize,
    pub(crate) kind: ContributionKind,
    pub(crate) local_id: Option<&'i str>,
    /// Its canonical key, if both parts are valid.
    pub(crate) key: Option<Key<'i>>,
    /// The sort key of step 4, computed here while the id is cached.
    pub(crate) front: Front,
    /// The text validated in step 5: a route's path, a renderer's claim, a sidebar item's route key.
    pub(crate) judged: Option<&'i str>,
    /// A required render handle is missing.
    pub(crate) lacks_handle: bool,
    pub(crate) label: Option<&'i str>,
    pub(crate) metadata: Option<&'i Value>,
    pub(crate) activation: Activation,
    /// Set if the descriptor has no invalid field.
    pub(crate) body: Option<Body<'i>>,
}

impl<'i> Draft<'i> {
    /// The contribution as a diagnostic subject; `owner` is the subject of its source.
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

/// The members of a descriptor, found in one pass: descriptors are by far the most frequent objects, and looking up
/// each member by name would cost more than all checks.
struct Members<'i> {
    id: Field<'i>,
    label: Field<'i>,
    active_when: Field<'i>,
    metadata: Field<'i>,
    path: Field<'i>,
    section: Field<'i>,
    route_key: Field<'i>,
    purpose: Field<'i>,
    claim: Field<'i>,
    target_message_type: Field<'i>,
    position: Field<'i>,
    status: Field<'i>,
    render_handle: Field<'i>,
}

impl<'i> Members<'i> {
    fn of(map: &'i Map<String, Value>) -> Self {
        let mut members = Self {
            id: Field::named("id"),
            label: Field::named("label"),
            active_when: Field::named("activeWhen"),
            metadata: Field::named("metadata"),
            path: Field::named("path"),
            section: Field::named("section"),
            route_key: Field::named("routeKey"),
            purpose: Field::named("purpose"),
            claim: Field::named("claim"),
            target_message_type: Field::named("targetMessageType"),
            position: Field::named("position"),
            status: Field::named("status"),
            render_handle: Field::named("renderHandle"),
        };
        for (name, value) in map {
            let field = match name.as_str() {
                "id" => &mut members.id,
                "label" => &mut members.label,
                "activeWhen" => &mut members.active_when,
                "metadata" => &mut members.metadata,
                "path" => &mut members.path,
                "section" => &mut members.section,
                "routeKey" => &mut members.route_key,
                "purpose" => &mut members.purpose,
                "claim" => &mut members.claim,
                "targetMessageType" => &mut members.target_message_type,
                "position" => &mut members.position,
                "status" => &mut members.status,
                "renderHandle" => &mut members.render_handle,
                _ => continue,
            };
            field.value = Some(value);
        }
        members
    }
}

/// The context of a descriptor.
#[derive(Clone, Copy)]
pub(super) struct Collection<'c, 'i> {
    /// The index of the source that declares it.
    pub(super) source: usize,
    pub(super) kind: ContributionKind,
    /// The owner part of its key, if valid.
    pub(super) owner_id: Option<&'i str>,
    /// The field path of its entries.
    pub(super) path: &'c str,
    /// The collection as a diagnostic subject.
    pub(super) subject: Subject<'i>,
}

pub(super) fn read<'i>(
    map: &'i Map<String, Value>,
    collection: Collection<'_, 'i>,
    versions: Versions,
    findings: &mut Findings<'i>,
) -> Draft<'i> {
    let Collection { source, kind, owner_id, path, subject } = collection;
    let members = Members::of(map);
    let local_id = members.id.value.and_then(Value::as_str);
    let key = owner_id.zip(local_id.filter(|id| grammar::is_id(id)));
    let key = key.map(|(owner_id, local_id)| Key::from_parts(owner_id, kind, local_id));
    let subject = Subject { key, local_id, ..subject };
    let mut fields = Fields { path, nested: "", subject, findings, confidential: false };

    let mut whole = fields.string(members.id, token::STRING).is_some();
    let label = match kind {
        ContributionKind::SidebarItems => {
            fields.bounded_string(members.label, Bounds::NonEmpty).map(Some).ok_or(())
        }
        _ => fields.optional_string(members.label, token::STRING),
    };
    let metadata = fields.optional_object(members.metadata);
    let activation = read_activation(&mut fields, members.active_when, kind);
    whole &= label.is_ok() && metadata.is_ok() && activation.is_some();

    let mut draft = Draft {
        source,
        kind,
        local_id,
        key,
        front: Front::of(local_id.unwrap_or_default()),
        judged: None,
        lacks_handle: kind != ContributionKind::SidebarItems && members.render_handle.value.is_none(),
        label: label.ok().flatten(),
        metadata: metadata.ok().flatten(),
        activation: activation.unwrap_or_default(),
        body: None,
    };
    let body = read_body(&mut draft, &members, &mut fields, versions);
    draft.body = body.filter(|_| whole);
    draft
}

fn read_body<'i>(
    draft: &mut Draft<'i>,
    members: &Members<'i>,
    fields: &mut Fields<'_, 'i>,
    versions: Versions,
) -> Option<Body<'i>> {
    use ContributionKind as K;
    // Each field is read before any `?`, so that one fault does not hide the next.
    match draft.kind {
        K::Routes => {
            draft.judged = fields.string(members.path, token::ROUTE_PATH);
            let handle = read_handle(fields, members.render_handle, versions);
            Some(Body::Route { path: draft.judged?, handle: handle? })
        }
        K::SidebarItems => {
            let section = fields.optional_string(members.section, token::STRING);
            let route_key = fields.optional_string(members.route_key, token::KEY);
            draft.judged = route_key.ok().flatten();
            Some(Body::SidebarItem { section: section.ok()?, route_key: route_key.ok()? })
        }
        K::ConfigurationSurfaces | K::IntegrationSurfaces => {
            let purpose = fields.bounded_string(members.purpose, Bounds::NonEmpty);
            let handle = read_handle(fields, members.render_handle, versions);
            Some(Body::Surface { purpose: purpose?, handle: handle? })
        }
        K::MessageRenderers | K::ToolRenderers | K::ActivityRenderers => {
            draft.judged = fields.string(members.claim, token::RENDERER_CLAIM);
            let handle = read_handle(fields, members.render_handle, versions);
            Some(Body::Renderer { claim: draft.judged?, handle: handle? })
        }
        K::MessageAppenders => {
            let target_message_type = fields.bounded_string(members.target_message_type, Bounds::Short);
            let position = fields.one_of(members.position, &["after", "before"], AppenderPosition::parse);
            let handle = read_handle(fields, members.render_handle, versions);
            Some(Body::Appender {
                target_message_type: target_message_type?,
                position: position?,
                handle: handle?,
            })
        }
        K::FallbackSurfaces => {
            let status = fields.one_of(members.status, FALLBACK_STATUS_NAMES, FallbackStatus::parse);
            let handle = read_handle(fields, members.render_handle, versions);
            Some(Body::Fallback { status: status?, handle: handle? })
        }
    }
}

fn read_activation<'i>(
    fields: &mut Fields<'_, 'i>,
    field: Field<'i>,
    kind: ContributionKind,
) -> Option<Activation> {
    if kind == ContributionKind::FallbackSurfaces {
        return fields.absent(field).map(|()| Activation::Default);
    }
    let items = match field.value {
        None => return Some(Activation::Default),
        Some(Value::Array(items)) => items,
        other => {
            let details = wrong_type(fields.path_of(field.name), token::STATUSES, other);
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
                    fields.path_of("activeWhen[]"),
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

/// The handle, if valid. An unsupported version is not examined further.
fn read_handle<'i>(
    fields: &mut Fields<'_, 'i>,
    field: Field<'i>,
    versions: Versions,
) -> Option<RenderHandle<'i>> {
    let map = match field.value {
        Some(Value::Object(map)) => map,
        other => {
            let details = wrong_type(fields.path_of(field.name), token::RENDER_HANDLE, other);
            fields.findings.report(details, fields.subject);
            return None;
        }
    };
    let mut version = None;
    let [mut kind, mut id, mut data] = ["kind", "id", "data"].map(Field::named);
    for (name, value) in map {
        match name.as_str() {
            "kind" => kind.value = Some(value),
            "id" => id.value = Some(value),
            "data" => data.value = Some(value),
            "renderHandleVersion" => version = Some(value),
            _ => {}
        }
    }
    if let Some(details) = versions.fault(VersionField::RenderHandle, version) {
        fields.findings.report(details, fields.subject);
        return None;
    }
    let mut fields = Fields {
        path: fields.path,
        nested: ".renderHandle",
        subject: fields.subject,
        findings: fields.findings,
        confidential: false,
    };
    let kind = fields.bounded_string(kind, Bounds::NonEmpty);
    let id = fields.bounded_string(id, Bounds::NonEmpty);
    let data = fields.optional_object(data);
    Some(RenderHandle { kind: kind?, id: id?, data: data.ok()? })
}
