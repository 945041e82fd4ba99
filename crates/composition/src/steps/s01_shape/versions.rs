//! The four version fields: exact matches, which `supportedVersions` can narrow but not widen.

use serde_json::{Map, Value};

use super::fields::{structure, token, type_name, version_received, wrong_type};
use crate::diagnostic::{Details, Expected, Findings, StructureReason, Subject, VersionField};

/// The only version so far.
pub(crate) const VERSION: &str = "0.1";

const SUPPORTED: &[&str] = &[VERSION];
const UNSUPPORTED: &[&str] = &[];

/// Which of the four versions are still supported.
#[derive(Clone, Copy)]
pub(crate) struct Versions {
    composition_schema: bool,
    policy_schema: bool,
    module_api: bool,
    render_handle: bool,
}

impl Versions {
    /// Reads `supportedVersions`. Invalid values are reported and count as the default.
    pub(super) fn read<'i>(input: &'i Map<String, Value>, findings: &mut Findings<'i>) -> Self {
        const ALL: Versions =
            Versions { composition_schema: true, policy_schema: true, module_api: true, render_handle: true };
        let lists = match input.get("supportedVersions") {
            None => return ALL,
            Some(Value::Object(lists)) => lists,
            other => {
                findings.report(wrong_type("supportedVersions", token::OBJECT, other), Subject::HOST);
                return ALL;
            }
        };
        let mut supports = |name: &str| {
            let field = || format!("supportedVersions.{name}");
            let versions = match lists.get(name) {
                Some(Value::Array(versions)) => versions,
                other => {
                    findings.report(wrong_type(field(), token::ARRAY, other), Subject::HOST);
                    return true;
                }
            };
            let mut malformed = false;
            for other in versions.iter().filter(|version| !version.is_string()) {
                let details = structure(
                    StructureReason::InvalidFieldType,
                    format!("{}[]", field()),
                    Expected::Token(token::STRING),
                    type_name(Some(other)),
                );
                findings.report(details, Subject::HOST);
                malformed = true;
            }
            malformed || versions.iter().any(|version| version == VERSION)
        };
        Self {
            composition_schema: supports("compositionSchemaVersions"),
            policy_schema: supports("policySchemaVersions"),
            module_api: supports("moduleApiVersions"),
            render_handle: supports("renderHandleVersions"),
        }
    }

    /// The fault of the value of `field`, if any. Only the input's own version is optional.
    pub(crate) fn fault<'i>(self, field: VersionField, value: Option<&'i Value>) -> Option<Details<'i>> {
        let supported = match field {
            VersionField::CompositionSchema => self.composition_schema,
            VersionField::PolicySchema => self.policy_schema,
            VersionField::ModuleApi => self.module_api,
            VersionField::RenderHandle => self.render_handle,
        };
        let defaulted = matches!(field, VersionField::CompositionSchema) && value.is_none();
        if supported && (defaulted || value.is_some_and(|value| value == VERSION)) {
            return None;
        }
        Some(Details::Version {
            field,
            received: if defaulted { VERSION.into() } else { version_received(value) },
            supported: if supported { SUPPORTED } else { UNSUPPORTED },
        })
    }
}
