//! Bodies for resolving interrupts.

use canon::time::Timestamp;
use flow::id::{NodeId, RunId};
use flow::interrupt::InterruptKind;
use flow::run::RunStatus;
use runs::interrupts::{AnsweredInterrupt, TokenInterrupt};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::body;
use super::fields::Any;
use super::runs::Status;

body! {
    /// An answer.
    #[schemars(rename = "Resolution")]
    open Resolution {
        /// The answer.
        resume_value = "resumeValue": Any,
    }
}

/// An interrupt after its answer was accepted, and the status of its run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// The name of the schema in the OpenAPI document.
#[schemars(rename = "Answered")]
pub(in crate::http) struct ResolvedInterrupt<'a> {
    #[schemars(with = "String")]
    node_id: &'a NodeId,
    #[schemars(with = "String")]
    run_id: &'a RunId,
    #[schemars(with = "Status")]
    status: RunStatus,
}

impl<'a> ResolvedInterrupt<'a> {
    pub(in crate::http) fn of(answered: &'a AnsweredInterrupt) -> Self {
        let AnsweredInterrupt { run_id, node_id, status } = answered;
        Self { node_id, run_id, status: *status }
    }
}

/// What a token refers to.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenInterrupt")]
pub(in crate::http) struct Inspected<'i> {
    #[schemars(with = "super::fields::Any")]
    data: &'i Value,
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    key: &'i str,
    #[schemars(with = "String")]
    kind: InterruptKind,
    resolved: bool,
    #[schemars(with = "super::fields::Any")]
    resume_schema: Option<&'i Value>,
}

impl<'i> Inspected<'i> {
    pub(in crate::http) fn of(TokenInterrupt { interrupt, expires_at }: &'i TokenInterrupt) -> Self {
        Self {
            data: &interrupt.data,
            expires_at: Timestamp::to_rfc3339(*expires_at),
            key: &interrupt.key,
            kind: interrupt.kind,
            resolved: false,
            resume_schema: interrupt.resume_schema.as_ref(),
        }
    }
}
