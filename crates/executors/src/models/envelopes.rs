//! Envelopes of models in runs: the rules for them, and the results of earlier ones.
//!
//! The result of an envelope is recorded under the run and its correlation id, before anything follows from it. A later envelope with that id,
//! from any node, gets this result. A call that is repeated after a crash recognizes its own result.

use ai::completion::{Counter, EnvelopeRules};
use ai::envelope::{Contract, EnvelopeOutcome, Kinds, Prior, Strictness, Verdict};
use ai::trust::Trust;
use canon::digest::Digest;
use flow::definition::{Definition, Problem};
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::{Value, json};

use super::super::NodeRequest;
use super::super::ledger::Unwritable;
use super::gateway::Gateway;
use super::transcript::Transcript;
use super::{Models, trust_of};

impl Models {
    /// The accepted kinds of envelopes, with their versions.
    pub fn kinds(&self) -> &Kinds {
        &self.options.kinds
    }

    /// The rules for envelopes in replies to a node.
    pub(super) fn envelope_rules(&self, asked: NodeRequest<'_>) -> EnvelopeRules {
        let contract = asked.call.envelope_contract.as_ref();
        EnvelopeRules {
            kinds: self.options.kinds.clone(),
            // The contract was validated at registration.
            contract: contract.and_then(|contract| Contract::read(contract).ok()),
            strictness: Strictness::Warn,
            run_trust: Some(trust_of(asked)).filter(|trust| *trust == Trust::Untrusted),
            // The prefix includes the effect, because a node calls a model in each iteration of a loop.
            prefix: format!(
                "{}:{}:{}",
                asked.run_id,
                asked.node_id,
                &Digest::of_bytes(asked.invocation.as_str().as_bytes()).to_hex()[..8]
            ),
            at: asked.now.to_rfc3339(),
        }
    }

    /// Problems of the envelope contracts of a workflow's nodes.
    pub(in super::super) fn contract_problems(&self, definition: &Definition) -> Vec<Problem> {
        let mut found = Vec::new();
        for (index, node) in definition.nodes.iter().enumerate() {
            let Some(contract) = &node.envelope_contract else { continue };
            let mut add = |pointer: &str, message: String, required_capability| {
                let pointer = format!("/nodes/{index}/envelopeContract{pointer}");
                let node_id = Some(node.id.clone());
                found.push(Problem { node_id, required_capability, ..Problem::at(pointer, message) });
            };
            match Contract::read(contract) {
                Err(error) => add(error.pointer, error.message.to_owned(), None),
                Ok(contract) => {
                    for kind in contract.named().filter(|kind| !self.options.kinds.is_known(kind)) {
                        let message = format!(
                            "this host does not accept envelopes of kind `{kind}`; the settings name the accepted ones"
                        );
                        add("/accepts", message, Some("supportedEnvelopes"));
                    }
                }
            }
        }
        found
    }
}

impl Gateway<'_> {
    /// How often the call has asked people, and the limit.
    pub(super) fn questions(&self, transcript: &Transcript) -> Option<Counter> {
        let cap = self.asked.call.clarification_rounds.into();
        Some(Counter { current: transcript.answers(), cap })
    }

    /// The result of an earlier envelope with the same correlation id. `reply` is the zero-based index of the reply in this call.
    pub(super) async fn recall(&self, document: &Value, reply: usize) -> Result<Option<Prior>, RunError> {
        let Some(id) = self.identity(document) else { return Ok(None) };
        let noted = self.asked.ledger.recall(&id).await.map_err(unknown)?;
        Ok(noted.and_then(|noted| self.not_own(&noted, reply)))
    }

    /// Records the result of an accepted envelope. If a concurrent envelope was faster, its result is returned.
    pub(super) async fn keep(
        &self,
        document: &Value,
        verdict: &Verdict,
        reply: usize,
    ) -> Result<Option<Prior>, RunError> {
        let (Some(id), EnvelopeOutcome::Accepted { .. }) = (self.identity(document), &verdict.outcome) else {
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
    RunError::of(
        FailureCode::NodeFailed,
        format!("it is unknown whether an earlier envelope exists: {error}"),
    )
}
