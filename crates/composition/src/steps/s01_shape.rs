//! Step 1: validate the structure of the input and its schema versions.
//!
//! Every field of every source, descriptor, handle and operation is checked, and each invalid one is reported once. The
//! result has everything readable: a [`Draft`] has a body only if none of it was invalid.

mod descriptor;
mod fields;
mod operation;
mod source;
mod versions;

use serde_json::Value;

pub(crate) use descriptor::{Draft, STATUS_NAMES};
pub(crate) use fields::{Bounds, Field, Fields, quoted, structure, token, type_name, wrong_type};
pub(crate) use operation::{Operation, OperationKind, PolicyDraft, RequestedPosition};
pub(crate) use source::{PackageField, SourceShape};
pub(crate) use versions::{VERSION, Versions};

use crate::diagnostic::{Expected, Findings, StructureReason, Subject, VersionField};
use crate::input::Input;
use crate::vocabulary::OwnerKind;

/// Everything readable in an input.
pub(crate) struct Shape<'i> {
    pub(crate) versions: Versions,
    pub(crate) sources: Vec<SourceShape<'i>>,
    pub(crate) drafts: Vec<Draft<'i>>,
    pub(crate) policy: PolicyDraft<'i>,
}

/// Reads the whole input. `None` if none of it can be interpreted.
pub(crate) fn read<'i>(input: &'i Input, findings: &mut Findings<'i>) -> Option<Shape<'i>> {
    let Value::Object(members) = input.as_value() else {
        let expected = Expected::Token("ComposeWorkspaceInput");
        let received = type_name(Some(input.as_value()));
        findings.report(
            structure(StructureReason::InvalidInputShape, "input", expected, received),
            Subject::HOST,
        );
        return None;
    };
    let mut version_findings = Findings::default();
    let versions = Versions::read(members, &mut version_findings);
    if let Some(details) =
        versions.fault(VersionField::CompositionSchema, members.get("compositionSchemaVersion"))
    {
        // Without a schema version nothing else can be interpreted, not even the list of versions.
        findings.report(details, Subject::HOST);
        return None;
    }
    findings.append(version_findings);

    let mut shape =
        Shape { versions, sources: Vec::new(), drafts: Vec::new(), policy: PolicyDraft::default() };
    for (kind, name) in [(OwnerKind::Builtin, "builtins"), (OwnerKind::Module, "modules")] {
        match members.get(name) {
            Some(Value::Array(sources)) => {
                for source in sources {
                    source::read(source, kind, versions, &mut shape, findings);
                }
            }
            other => not_a_collection(name, other, Subject::HOST, findings),
        }
    }
    shape.policy = operation::read_policy(members.get("policy"), versions, findings);
    Some(shape)
}

/// Reports a collection that is not an array.
fn not_a_collection<'i>(
    field: impl Into<std::borrow::Cow<'i, str>>,
    value: Option<&Value>,
    subject: Subject<'i>,
    findings: &mut Findings<'i>,
) {
    let expected = Expected::Token(token::ARRAY);
    findings
        .report(structure(StructureReason::InvalidCollection, field, expected, type_name(value)), subject);
}
