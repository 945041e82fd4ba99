//! Events of version 1 as events of version 2.

use flow::id::{RunId, Tenant};
use openwop::event::{Projection, Unprojectable};
use ports::Cause;
use runs::{ApiCode, Refusal};
use serde_json::{Map, Value};

use super::super::state::Service;

/// Translates the events of one run that a reader gets, in order.
pub(in crate::http) struct Translator {
    state: Service,
    tenant: Tenant,
    run_id: RunId,
    projection: Projection,
}

/// A translated event.
pub(in crate::http) struct Translated {
    /// The type in version 2.
    pub(in crate::http) kind: String,
    pub(in crate::http) payload: Value,
    pub(in crate::http) text: String,
}

impl Translator {
    pub(in crate::http) fn new(state: &Service, tenant: &Tenant, run_id: &RunId) -> Self {
        Self {
            state: state.clone(),
            tenant: tenant.clone(),
            run_id: run_id.clone(),
            projection: Projection::new(tenant.as_str()),
        }
    }

    /// The event with this sequence. A reader that begins in the middle of the log may get an answer to an earlier question; then the
    /// log before it is read, once.
    ///
    /// # Errors
    /// The event has no form in version 2, or the log cannot be read.
    pub(in crate::http) async fn event(&mut self, sequence: u64, text: &str) -> Result<Translated, Refusal> {
        let Ok(Value::Object(event)) = serde_json::from_str(text) else {
            return Err(Refusal::new(ApiCode::InternalError, "An event of the log cannot be read."));
        };
        if self.projection.lacks(&event) {
            self.projection = context(&self.state, &self.tenant, self.run_id.as_str(), sequence).await?;
        }
        let event = projected(&mut self.projection, event)?;
        Ok(Translated {
            kind: event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned(),
            text: Value::Object(event.clone()).to_string(),
            payload: event.get("payload").cloned().unwrap_or_default(),
        })
    }

    /// The snapshot of the run.
    pub(in crate::http) fn snapshot(&self, snapshot: &[u8]) -> String {
        let document = serde_json::from_slice(snapshot).unwrap_or_default();
        super::operations::shown(&self.state, self.tenant.as_str(), document).to_string()
    }

    /// A note about the run, which is not in its log.
    pub(in crate::http) fn note(&self, note: &str) -> String {
        let mut note: Value = serde_json::from_str(note).unwrap_or_default();
        super::reply::bind(self.tenant.as_str(), &mut note, "runId");
        if note["target"].is_object() {
            super::reply::bind(self.tenant.as_str(), &mut note["target"], "runId");
        }
        if note["payload"]["target"].is_object() {
            super::reply::bind(self.tenant.as_str(), &mut note["payload"]["target"], "runId");
        }
        note.to_string()
    }
}

/// A projection that knows the questions of a run before a sequence.
///
/// # Errors
/// The log cannot be read.
pub(super) async fn context(
    state: &Service,
    tenant: &Tenant,
    run_id: &str,
    before: u64,
) -> Result<Projection, Refusal> {
    let mut projection = Projection::new(tenant.as_str());
    let mut following = state.runs.queries().follow(tenant, &RunId::new(run_id), 0).await?;
    while following.position() < before
        && let Some(batch) = following.stored().await?
    {
        for (sequence, text) in batch.events {
            if sequence < before
                && let Ok(Value::Object(event)) = serde_json::from_str(&text)
            {
                projection.observe(&event);
            }
        }
    }
    Ok(projection)
}

/// Translates an event.
///
/// # Errors
/// The event has no form in version 2.
pub(super) fn projected(
    projection: &mut Projection,
    event: Map<String, Value>,
) -> Result<Map<String, Value>, Refusal> {
    projection.to_v2(event).map_err(|error| {
        // The reason is the code of the error in version 2.
        let reason = match error {
            Unprojectable::Type(_) => "event_type_unmapped",
            Unprojectable::Member { .. } | Unprojectable::Question { .. } | Unprojectable::Envelope(_) => {
                "payload_unprojectable"
            }
        };
        Refusal::new(
            ApiCode::InternalError,
            "An event of the run has no form in version 2 of the protocol. Read the run below /v1/.",
        )
        .detail("reason", reason)
        .because(Cause::new(error))
    })
}
