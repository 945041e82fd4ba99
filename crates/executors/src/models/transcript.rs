//! The transcript of a call that waits for a person, so that it can continue after the answer.
//!
//! The state machine of a call is deterministic. Therefore only its inputs are stored, not its state: after the answer, they are passed to a new
//! machine, and the events of these steps are dropped, because they were recorded before. The transcript is stored with the record of the effect
//! that ended by waiting, and forks copy it.

use ai::completion::Attempt;
use ai::envelope::Prior;
use ai::redact::Redactor;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum size of a stored transcript, in bytes.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// All inputs of a call, in order.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Transcript {
    /// The id of the effect with which the call started. Requests for descriptions of tools are recorded under it.
    pub(super) began: String,
    pub(super) heard: Vec<Entry>,
}

/// An input of a call. The names of the variants are stored.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Entry {
    /// A recorded reply of a model.
    Reply(Value),
    /// The reply was this envelope; with the result of an earlier envelope with its correlation id.
    Judged { document: Value, prior: Option<StoredPrior> },
    /// A recorded result of a tool.
    Returned(Value),
    /// The answer of a person.
    Answer(Value),
}

/// The stored result of an envelope.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredPrior {
    envelope_type: String,
    outcome: Value,
}

impl Transcript {
    /// Reads a stored transcript.
    pub(super) fn read(kept: Option<&Value>) -> Option<Self> {
        Self::deserialize(kept?).ok()
    }

    /// The transcript to store.
    pub(super) fn kept(&self) -> Result<Value, RunError> {
        // Serialization cannot fail.
        let kept = serde_json::to_value(self).unwrap_or_default();
        let size = kept.to_string().len();
        if size <= MAX_KEPT_BYTES {
            return Ok(kept);
        }
        let message = format!(
            "the model asks a person, but the transcript of its call has {size} bytes; the limit is {MAX_KEPT_BYTES}"
        );
        Err(RunError::of(FailureCode::NodeFailed, message))
    }

    /// The number of answers of people.
    pub(super) fn answers(&self) -> u64 {
        self.heard.iter().filter(|entry| matches!(entry, Entry::Answer(_))).count() as u64
    }

    /// Adds the reply of a model. A network failure is not an input, and is not repeated.
    pub(super) fn replied(&mut self, attempt: &Attempt, redactor: &Redactor) {
        if let Attempt::Reply(reply) | Attempt::Recorded(reply) = attempt {
            let mut record = reply.to_record();
            // Reasoning was reported, and does not affect the state machine.
            if let Some(members) = record.as_object_mut() {
                members.remove("reasoning");
            }
            redactor.value(&mut record);
            self.heard.push(Entry::Reply(record));
        }
    }

    /// Adds that the reply was an envelope.
    pub(super) fn judged(&mut self, document: Value, prior: Option<&Prior>) {
        let kept = |prior: &Prior| StoredPrior {
            envelope_type: prior.envelope_type.clone(),
            outcome: prior.outcome.clone(),
        };
        self.heard.push(Entry::Judged { document, prior: prior.map(kept) });
    }
}

impl From<StoredPrior> for Prior {
    fn from(StoredPrior { envelope_type, outcome }: StoredPrior) -> Self {
        Self { envelope_type, outcome }
    }
}
