//! What a call heard before it waited for a person, so that it can go on from there.
//!
//! The machine of a call gives the same for the same again. So nothing of the machine is kept, only what it was fed: after the answer it is
//! fed that once more, and what it says meanwhile was said before and is dropped. What is kept goes with the record of the effect that ended
//! by waiting, and a fork takes it over.

use ai::completion::Attempt;
use ai::envelope::Prior;
use ai::redact::Redactor;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most that is kept of a call that waits, in bytes.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// All that a call was fed, in order.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Transcript {
    /// The identity of the effect that the call began with: what was asked of others for it was asked under that.
    pub(super) began: String,
    pub(super) heard: Vec<Heard>,
}

/// One thing that a call was fed.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Heard {
    /// What a model said, as it is recorded.
    Reply(Value),
    /// That the reply was this envelope, and what came of one with its correlation id before.
    Judged { document: Value, prior: Option<Kept> },
    /// What a tool gave, as it is recorded.
    Returned(Value),
    /// What a person answered.
    Answer(Value),
}

/// What came of an envelope, as it is kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kept {
    envelope_type: String,
    outcome: Value,
}

impl Transcript {
    /// What was kept, where something was.
    pub(super) fn read(kept: Option<&Value>) -> Option<Self> {
        Self::deserialize(kept?).ok()
    }

    /// What is kept while a person is waited for.
    pub(super) fn kept(&self) -> Result<Value, RunError> {
        // Nothing of it can fail to be written.
        let kept = serde_json::to_value(self).unwrap_or_default();
        let size = kept.to_string().len();
        if size <= MAX_KEPT_BYTES {
            return Ok(kept);
        }
        let message = format!(
            "the model asks a person, and what it was told so far has {size} bytes; at most {MAX_KEPT_BYTES} are kept"
        );
        Err(RunError::of(FailureCode::NodeFailed, message))
    }

    /// How often a person answered.
    pub(super) fn answers(&self) -> u64 {
        self.heard.iter().filter(|heard| matches!(heard, Heard::Answer(_))).count() as u64
    }

    /// A model said something. A failure of the network is none of its words, and is not heard again.
    pub(super) fn replied(&mut self, attempt: &Attempt, redactor: &Redactor) {
        if let Attempt::Reply(reply) | Attempt::Recorded(reply) = attempt {
            let mut record = reply.to_record();
            // What the model thought was told, and nothing follows from it.
            if let Some(members) = record.as_object_mut() {
                members.remove("reasoning");
            }
            redactor.value(&mut record);
            self.heard.push(Heard::Reply(record));
        }
    }

    /// It was this envelope.
    pub(super) fn judged(&mut self, document: Value, prior: Option<&Prior>) {
        let kept = |prior: &Prior| Kept {
            envelope_type: prior.envelope_type.clone(),
            outcome: prior.outcome.clone(),
        };
        self.heard.push(Heard::Judged { document, prior: prior.map(kept) });
    }
}

impl From<Kept> for Prior {
    fn from(Kept { envelope_type, outcome }: Kept) -> Self {
        Self { envelope_type, outcome }
    }
}
