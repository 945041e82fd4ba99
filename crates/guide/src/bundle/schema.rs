//! The JSON Schema of a bundle.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{BUNDLE_TEXT_BYTES, BUNDLE_VERSION, Bundle, INTEGRITY_KIND, SALVAGED_PROBLEM_BYTES};
use crate::record::{Event, ExecutionSnapshot, ManifestRecord, SessionId};
use crate::workflow::compiled::CompiledWorkflow;

impl JsonSchema for Bundle {
    fn schema_name() -> Cow<'static, str> {
        "Bundle".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let digest = json_schema!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"});
        json_schema!({
            "description": "An exported session.",
            "type": "object",
            "properties": {
                "bundleSchemaVersion": {"const": BUNDLE_VERSION},
                "bundleId": {"description": "Derived from the content.", "type": "string"},
                "exportedAt": {"description": "When the bundle was made. Informational.", "type": "string"},
                "producer": {
                    "description": "The program that made the bundle. Informational.",
                    "type": "object",
                    "properties": {"appVersion": {"type": "string"}, "appliedConfigHash": digest},
                    "additionalProperties": false,
                    "required": ["appVersion"],
                },
                "salvaged": {
                    "description": "Present if the session is only the intact part of a damaged one: which session, and why.",
                    "type": "object",
                    "properties": {
                        "sessionId": generator.subschema_for::<SessionId>(),
                        "reason": {"type": "string", "maxLength": BUNDLE_TEXT_BYTES},
                        "problem": {"type": "string", "maxLength": SALVAGED_PROBLEM_BYTES},
                    },
                    "additionalProperties": false,
                    "required": ["sessionId", "reason", "problem"],
                },
                "integrity": {
                    "description": "The digest of each part.",
                    "type": "object",
                    "properties": {
                        "kind": {"const": INTEGRITY_KIND},
                        "entries": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "path": {"type": "string"},
                                    "sha256": digest,
                                    "bytes": {"type": "integer", "minimum": 0},
                                },
                                "additionalProperties": false,
                                "required": ["path", "sha256", "bytes"],
                            },
                        },
                    },
                    "additionalProperties": false,
                    "required": ["kind", "entries"],
                },
                "session": {
                    "description": "The session.",
                    "type": "object",
                    "properties": {
                        "sessionId": generator.subschema_for::<SessionId>(),
                        "events": {"type": "array", "items": generator.subschema_for::<Event>()},
                        "manifest": {"type": "array", "items": generator.subschema_for::<ManifestRecord>()},
                        "snapshots": {
                            "description": "By digest.",
                            "type": "object",
                            "propertyNames": digest,
                            "additionalProperties": generator.subschema_for::<ExecutionSnapshot>(),
                        },
                        "pinnedWorkflows": {
                            "description": "By digest.",
                            "type": "object",
                            "propertyNames": digest,
                            "additionalProperties": generator.subschema_for::<CompiledWorkflow>(),
                        },
                        "artifacts": {
                            "description": "By digest: the artifacts whose content is not stored in their events.",
                            "type": "object",
                            "propertyNames": digest,
                        },
                    },
                    "additionalProperties": false,
                    "required": ["sessionId", "events", "manifest", "snapshots", "pinnedWorkflows"],
                },
            },
            "additionalProperties": false,
            "required": ["bundleSchemaVersion", "bundleId", "exportedAt", "producer", "integrity", "session"],
        })
    }
}
