//! The structure of a built-in set or a module instance.

use serde_json::{Map, Value};

use super::fields::{Bounds, Field, Fields, structure, token, type_name, wrong_type};
use super::{Shape, Versions, descriptor, not_a_collection};
use crate::diagnostic::{Expected, Findings, StructureReason, Subject, VersionField};
use crate::steps::{s04_keys, s05_grammar};
use crate::vocabulary::{ContributionKind, OwnerKind};

/// A source as far as it is readable.
pub(crate) struct SourceShape<'i> {
    pub(crate) kind: OwnerKind,
    /// The source as a diagnostic subject, with strings as written.
    pub(crate) subject: Subject<'i>,
    pub(crate) package_id: PackageField<'i>,
    pub(crate) package_version: PackageField<'i>,
    /// The members of a module, for the steps that validate its runtime and version.
    pub(crate) module: Option<&'i Map<String, Value>>,
}

/// A package field, which may be missing or already reported as invalid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageField<'i> {
    Absent,
    Whole(&'i str),
    Malformed,
}

impl<'i> PackageField<'i> {
    pub(crate) const fn text(self) -> Option<&'i str> {
        match self {
            Self::Whole(text) => Some(text),
            Self::Absent | Self::Malformed => None,
        }
    }
}

/// Reads one source and its contributions.
pub(super) fn read<'i>(
    value: &'i Value,
    kind: OwnerKind,
    versions: Versions,
    shape: &mut Shape<'i>,
    findings: &mut Findings<'i>,
) {
    let unnamed = Subject { owner_kind: kind.into(), ..Subject::HOST };
    let path = match kind {
        OwnerKind::Builtin => "builtins[]",
        OwnerKind::Module => "modules[]",
    };
    let Value::Object(members) = value else {
        findings.report(wrong_type(path, token::OBJECT, Some(value)), unnamed);
        return;
    };
    let (source, contributions_count) = match kind {
        OwnerKind::Builtin => (read_builtin(members, unnamed, findings), true),
        OwnerKind::Module => read_module(members, unnamed, versions, findings),
    };
    let subject = source.subject;
    let index = shape.sources.len();
    shape.sources.push(source);
    if contributions_count {
        match members.get("contributions") {
            Some(Value::Object(contributions)) => {
                read_contributions(contributions, subject, index, versions, shape, findings);
            }
            other => {
                let details = wrong_type(format!("{path}.contributions"), token::CONTRIBUTIONS, other);
                findings.report(details, subject);
            }
        }
    }
}

fn read_builtin<'i>(
    members: &'i Map<String, Value>,
    unnamed: Subject<'i>,
    findings: &mut Findings<'i>,
) -> SourceShape<'i> {
    let mut source = SourceShape {
        kind: OwnerKind::Builtin,
        subject: unnamed,
        package_id: PackageField::Absent,
        package_version: PackageField::Absent,
        module: None,
    };
    let owner = match members.get("owner") {
        Some(Value::Object(owner)) => owner,
        other => {
            findings.report(wrong_type("builtins[].owner", token::OWNER, other), unnamed);
            return source;
        }
    };
    source.subject = named(unnamed, owner, "ownerId");
    let mut fields = Fields {
        path: "builtins[]",
        nested: ".owner",
        subject: source.subject,
        findings,
        confidential: false,
    };
    fields.one_of(Field::of(owner, "ownerKind"), &["builtin"], |text| (text == "builtin").then_some(()));
    fields.string(Field::of(owner, "ownerId"), token::STRING);
    source.package_id = optional_package_field(&mut fields, Field::of(owner, "packageId"), Bounds::Package);
    source.package_version =
        optional_package_field(&mut fields, Field::of(owner, "packageVersion"), Bounds::Short);
    source
}

/// The module, and whether its contributions should be read.
fn read_module<'i>(
    members: &'i Map<String, Value>,
    unnamed: Subject<'i>,
    versions: Versions,
    findings: &mut Findings<'i>,
) -> (SourceShape<'i>, bool) {
    let subject = named(unnamed, members, "instanceId");
    let mut fields = Fields { path: "modules[]", nested: "", subject, findings, confidential: false };
    fields.string(Field::of(members, "instanceId"), token::STRING);
    let package_id = package_field(&mut fields, Field::of(members, "packageId"), Bounds::Package);
    let package_version =
        optional_package_field(&mut fields, Field::of(members, "packageVersion"), Bounds::Short);
    let supported = versions.fault(VersionField::ModuleApi, members.get("moduleApiVersion")).is_none();
    (
        SourceShape { kind: OwnerKind::Module, subject, package_id, package_version, module: Some(members) },
        supported,
    )
}

fn optional_package_field<'i>(
    fields: &mut Fields<'_, 'i>,
    field: Field<'i>,
    bounds: Bounds,
) -> PackageField<'i> {
    if field.value.is_none() { PackageField::Absent } else { package_field(fields, field, bounds) }
}

fn package_field<'i>(fields: &mut Fields<'_, 'i>, field: Field<'i>, bounds: Bounds) -> PackageField<'i> {
    fields.bounded_string(field, bounds).map_or(PackageField::Malformed, PackageField::Whole)
}

/// The subject with all names that are strings.
fn named<'i>(unnamed: Subject<'i>, members: &'i Map<String, Value>, id: &str) -> Subject<'i> {
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    Subject {
        owner_id: text(id),
        package_id: text("packageId"),
        package_version: text("packageVersion"),
        ..unnamed
    }
}

fn read_contributions<'i>(
    contributions: &'i Map<String, Value>,
    owner: Subject<'i>,
    source: usize,
    versions: Versions,
    shape: &mut Shape<'i>,
    findings: &mut Findings<'i>,
) {
    let owner_id = s04_keys::owner_half(owner);
    for (name, value) in contributions {
        let field = || format!("contributions.{name}");
        let Some(kind) = ContributionKind::of_collection(name) else {
            let expected = Expected::Token(token::ABSENT);
            let received = type_name(Some(value));
            findings.report(structure(StructureReason::UnsupportedField, field(), expected, received), owner);
            continue;
        };
        let subject = Subject { contribution_kind: Some(kind), ..owner };
        let Value::Array(entries) = value else {
            not_a_collection(field(), Some(value), subject, findings);
            continue;
        };
        let path = format!("{}[]", field());
        let collection = descriptor::Collection { source, kind, owner_id, path: &path, subject };
        shape.drafts.reserve(entries.len());
        for entry in entries {
            match entry {
                Value::Object(members) => {
                    let draft = descriptor::read(members, collection, versions, findings);
                    s05_grammar::check_contribution(&draft, owner, findings);
                    shape.drafts.push(draft);
                }
                other => findings.report(wrong_type(path.clone(), token::OBJECT, Some(other)), subject),
            }
        }
    }
}
