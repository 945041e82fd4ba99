//! Envelopes of models in runs: what they are judged by, and what is known of those that came before.
//!
//! What came of an envelope is written down under the run and its correlation id, before anything follows from it. Another envelope with
//! that id, of whichever node, finds it there; the call that wrote it, when it is made again after a crash, knows it for its own.

use ai::completion::{Counter, EnvelopeRules};
use ai::envelope::{Contract, Kinds, Outcome, Prior, Strictness, Verdict};
use ai::trust::Trust;
use canon::digest::Digest;
use flow::definition::{Definition, Problem};
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::{Value, json};

use super::super::Asked;
use super::super::ledger::Unwritable;
use super::gateway::Gateway;
use super::transcript::Transcript;
use super::{Models, trust_of};

impl Models {
    /// The kinds of envelopes that are taken, with their versions.
    pub fn kinds(&self) -> &Kinds {
        &self.options.kinds
    }

    /// What replies of a node that are envelopes are judged by.
    pub(super) fn judging(&self, asked: Asked<'_>) -> EnvelopeRules {
        let contract = asked.call.envelope_contract.as_ref();
        EnvelopeRules {
            kinds: self.options.kinds.clone(),
            // It was read when the workflow was registered.
            contract: contract.and_then(|contract| Contract::read(contract).ok()),
            strictness: Strictness::Warn,
            run_trust: Some(trust_of(asked)).filter(|trust| *trust == Trust::Untrusted),
            // The same node asks again in each round of a loop.
            prefix: format!(
                "{}:{}:{}",
                asked.run_id,
                asked.node_id,
                &Digest::of_bytes(asked.invocation.as_str().as_bytes()).to_hex()[..8]
            ),
            at: asked.now.to_rfc3339(),
        }
    }

    /// What is wrong with the contracts of the nodes of a workflow.
    pub(in super::super) fn contract_problems(&self, definition: &Definition) -> Vec<Problem> {
        let mut found = Vec::new();
        for (place, node) in definition.nodes.iter().enumerate() {
            let Some(contract) = &node.envelope_contract else { continue };
            let mut tell = |pointer: &str, message: String, required_capability| {
                let pointer = format!("/nodes/{place}/envelopeContract{pointer}");
                let node_id = Some(node.id.clone());
                found.push(Problem { node_id, required_capability, ..Problem::at(pointer, message) });
            };
            match Contract::read(contract) {
                Err(error) => tell(error.pointer, error.message.to_owned(), None),
                Ok(contract) => {
                    for kind in contract.named().filter(|kind| !self.options.kinds.is_known(kind)) {
                        let message = format!(
                            "`{kind}` is no kind of envelope that is taken here; the settings name those that are"
                        );
                        tell("/accepts", message, Some("supportedEnvelopes"));
                    }
                }
            }
        }
        found
    }
}

impl Gateway<'_> {
    /// How often the call asked people, and how often it may.
    pub(super) fn questions(&self, transcript: &Transcript) -> Option<Counter> {
        let cap = self.asked.call.clarification_rounds.into();
        Some(Counter { current: transcript.answers(), cap })
    }

    /// What came of an envelope with the same correlation id before. `reply` is the how-many-eth of this call it came with.
    pub(super) async fn recall(&self, document: &Value, reply: usize) -> Result<Option<Prior>, RunError> {
        let Some(id) = self.identity(document) else { return Ok(None) };
        let noted = self.asked.ledger.recall(&id).await.map_err(unknown)?;
        Ok(noted.and_then(|noted| self.not_own(&noted, reply)))
    }

    /// Writes down what came of an envelope that was taken, and gives what another one came to that was faster.
    pub(super) async fn keep(
        &self,
        document: &Value,
        verdict: &Verdict,
        reply: usize,
    ) -> Result<Option<Prior>, RunError> {
        let (Some(id), Outcome::Accepted { .. }) = (self.identity(document), &verdict.outcome) else {
            return Ok(None);
        };
        let noted =
            json!({"by": self.own(reply), "type": document["type"], "outcome": verdict.outcome.to_value()});
        let there = self.asked.ledger.note(&id, noted.to_string().into_bytes()).await.map_err(unknown)?;
        Ok(there.and_then(|there| self.not_own(&there, reply)))
    }

    fn identity(&self, document: &Value) -> Option<String> {
        let correlation_id = document.get("correlationId")?.as_str()?;
        let named = format!("{}\0{correlation_id}", self.asked.run_id);
        Some(format!("envelope-{}", Digest::of_bytes(named.as_bytes()).to_hex()))
    }

    fn own(&self, reply: usize) -> String {
        format!("{}#{reply}", self.asked.invocation)
    }

    fn not_own(&self, noted: &[u8], reply: usize) -> Option<Prior> {
        let noted: Value = serde_json::from_slice(noted).ok()?;
        let other = noted["by"].as_str() != Some(&self.own(reply));
        let envelope_type = noted["type"].as_str().unwrap_or_default().to_owned();
        other.then(|| Prior { envelope_type, outcome: noted["outcome"].clone() })
    }
}

fn unknown(error: Unwritable) -> RunError {
    RunError::of(FailureCode::NodeFailed, format!("nobody knows whether an envelope came before: {error}"))
}
