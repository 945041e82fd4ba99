//! One call of a model, from its first request to what comes of it.

use std::time::Duration;

use ai::completion::{Attempt, Completion, Failed, Next};
use ai::node::Node;
use ai::provider::{Output, Reply};
use ai::reasoning::{Block, DEFAULT_TOKEN_LIMIT, Settings, Verbosity};
use ai::redact::Redactor;
use flow::engine::Reported;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::Value;

use super::super::ledger::{Claim, Ledger, Unwritable};
use super::super::{Asked, Performed};
use super::live::Live;
use super::transcript::{Heard, Transcript};
use super::{Models, Provider, Trouble, event, outputs};

/// One call on its way.
pub(super) struct Gateway<'a> {
    pub(super) models: &'a Models,
    pub(super) asked: Asked<'a>,
    /// Nobody where one pretends.
    pub(super) provider: Option<&'a Provider>,
    pub(super) credential: Option<&'a str>,
    /// What takes the credential out of whatever is told or recorded.
    pub(super) redactor: Redactor,
    /// How much of what the model thinks is recorded.
    pub(super) verbosity: Verbosity,
}

impl Gateway<'_> {
    /// Feeds the machine until it is at its end, or waits for a person.
    pub(super) async fn drive(
        &self,
        node: &Node,
        mut completion: Completion,
        first: ai::completion::ModelCall,
        told: Vec<Reported>,
    ) -> Result<Performed, Trouble> {
        let Resumed { mut transcript, mut told, mut next } =
            self.resumed(told, Next::Call(first), |next, heard| feed(&mut completion, next, heard))?;
        loop {
            let step = match next {
                Next::Call(_) if !transcript.heard.is_empty() && !self.asked.ledger.is_wanted() => {
                    let message = "the run has ended; no more is asked for it";
                    return Err(Trouble { told, error: RunError::of(FailureCode::NodeFailed, message) });
                }
                Next::Call(call) => {
                    let live = (node.is_streaming() && call.request.output == Output::Text)
                        .then(|| Live::new(self.asked, &self.redactor, told.clone()));
                    let attempt = self.attempt(&call, live).await;
                    let attempt = attempt.map_err(|error| Trouble { told: told.clone(), error })?;
                    transcript.replied(&attempt, &self.redactor);
                    completion.on(attempt)
                }
                Next::Judge(document) => {
                    let replies = transcript.heard.len();
                    let trouble = |error| Trouble { told: told.clone(), error };
                    let mut prior = self.recall(&document, replies).await.map_err(trouble)?;
                    let mut verdict =
                        completion.judge(&document, prior.as_ref(), self.questions(&transcript));
                    if let Some(other) = self.keep(&document, &verdict, replies).await.map_err(trouble)? {
                        verdict = completion.judge(&document, Some(&other), self.questions(&transcript));
                        prior = Some(other);
                    }
                    transcript.judged(document, prior.as_ref());
                    completion.take(&verdict)
                }
                Next::Waits => return Ok(waiting(told, &transcript)),
                Next::Done(done) => {
                    told.extend(self.thoughts(&done.reply));
                    told.extend(outputs::chunks(node, self.asked, &done));
                    return Ok(Performed { told, outcome: Ok(outputs::of(node, &done)) });
                }
                Next::Failed(failed) => return Ok(Performed { told, outcome: Err(failure(failed)) }),
            };
            told.extend(step.events.into_iter().map(event));
            next = step.next;
        }
    }

    /// Where a call stands: at its beginning, or behind the answer that it waited for. `feed` gives the machine, which is where it is,
    /// one thing that it heard before, and gives what follows from it.
    pub(super) fn resumed<N>(
        &self,
        told: Vec<Reported>,
        first: N,
        mut feed: impl FnMut(N, &Heard) -> Option<N>,
    ) -> Result<Resumed<N>, RunError> {
        let transcript = Transcript { began: self.asked.invocation.to_string(), heard: Vec::new() };
        let anew = |first| Resumed { transcript, told, next: first };
        let Some(resumption) = &self.asked.call.resumption else { return Ok(anew(first)) };
        // Nothing is left of what it did before: it is begun anew, and may ask again.
        let Some(mut transcript) = Transcript::read(self.asked.kept) else { return Ok(anew(first)) };
        transcript.heard.push(Heard::Answer(resumption.value.clone()));
        let mut next = first;
        for heard in &transcript.heard {
            next = feed(next, heard).ok_or_else(|| {
                let message =
                    "what was kept of the call does not lead to where it waited; run the node again";
                RunError::of(FailureCode::NodeFailed, message)
            })?;
        }
        // All that happened before was told then.
        Ok(Resumed { transcript, told: Vec::new(), next })
    }

    /// What comes of a call: what was recorded, or else what the provider says now.
    pub(super) async fn attempt(
        &self,
        call: &ai::completion::ModelCall,
        live: Option<Live<'_>>,
    ) -> Result<Attempt, RunError> {
        let Some(provider) = self.provider else {
            let reply = self.models.programs().answer(self.asked.node_id.as_str(), &call.request);
            return Ok(Attempt::Reply(reply));
        };
        let id = format!("{}.{}", self.asked.invocation, call.ordinal);
        let ledger = self.asked.ledger;
        match ledger.claim(&id).await.map_err(|error| unrecorded(&error))? {
            Claim::New => {}
            Claim::Done(recorded) => {
                let record: Value = serde_json::from_slice(&recorded).unwrap_or_default();
                if let Some(reply) = Reply::from_record(&record) {
                    return Ok(Attempt::Recorded(reply));
                }
                return Err(unknown());
            }
            // A call that failed on the way is the same call again, in this life; in another one nobody knows.
            Claim::Unknown if call.wait_ms > 0 => {}
            Claim::Unknown => return Err(unknown()),
        }
        if call.wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(call.wait_ms)).await;
        }
        let outbound = &self.models.options.outbound;
        let sent = provider.send(outbound, &call.request, self.credential, &id, live).await;
        match sent {
            Ok(reply) => {
                self.record(ledger, &id, &reply).await?;
                Ok(Attempt::Reply(reply))
            }
            Err(error) => Ok(Attempt::Failed(error)),
        }
    }

    /// What the model thought, as events.
    fn thoughts(&self, reply: &Reply) -> Vec<Reported> {
        let pinned = self.asked.call.agent.as_ref().and_then(|agent| agent["agentId"].as_str());
        let block = Block::new(Settings {
            agent_id: pinned.map_or_else(|| format!("node:{}", self.asked.node_id), str::to_owned),
            verbosity: self.verbosity,
            token_limit: DEFAULT_TOKEN_LIMIT,
            streaming: false,
            redactor: self.redactor.clone(),
        });
        block.close(reply.reasoning.as_deref()).into_iter().map(event).collect()
    }

    async fn record(&self, ledger: &dyn Ledger, id: &str, reply: &Reply) -> Result<(), RunError> {
        let mut record = reply.to_record();
        self.redactor.value(&mut record);
        ledger.finish(id, record.to_string().into_bytes()).await.map_err(|error| unrecorded(&error))
    }
}

/// Where a call stands.
pub(super) struct Resumed<N> {
    pub(super) transcript: Transcript,
    pub(super) told: Vec<Reported>,
    pub(super) next: N,
}

fn feed(completion: &mut Completion, next: Next, heard: &Heard) -> Option<Next> {
    let step = match (next, heard) {
        (Next::Call(_), Heard::Reply(record)) => {
            completion.on(Attempt::Recorded(Reply::from_record(record)?))
        }
        (Next::Judge(_), Heard::Judged { document, prior }) => {
            let prior = prior.clone().map(Into::into);
            let verdict = completion.judge(document, prior.as_ref(), None);
            completion.take(&verdict)
        }
        (Next::Waits, Heard::Answer(answer)) => completion.answered(answer),
        _ => return None,
    };
    Some(step.next)
}

/// The work waits for a person, and what it heard is kept. Where that cannot be, nobody is asked.
pub(super) fn waiting(mut told: Vec<Reported>, transcript: &Transcript) -> Performed {
    let outcome = transcript.kept();
    if outcome.is_err() {
        told.pop();
    }
    Performed { told, outcome }
}

pub(super) fn failure(failed: Failed) -> RunError {
    let error = RunError::new(failed.code.as_str(), failed.message);
    match failed.details {
        Some(details) => error.with(details),
        None => error,
    }
}

fn unknown() -> RunError {
    let message =
        "the host ended while a model was asked, and its answer was not recorded; it is not asked again";
    RunError::of(FailureCode::EffectOutcomeUnknown, message)
}

fn unrecorded(error: &Unwritable) -> RunError {
    RunError::of(FailureCode::NodeFailed, format!("no model was asked: {error}"))
}
