//! Drives one model call, from its first request to its result.

use std::time::Duration;

use ai::completion::{Attempt, Completion, Failed, Next};
use ai::node::Node;
use ai::provider::{Output, ProviderError, Reply};
use ai::reasoning::{Block, DEFAULT_TOKEN_LIMIT, Settings, Verbosity};
use ai::redact::Redactor;
use flow::engine::Reported;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::Value;

use super::super::ledger::{Claim, Ledger, Unwritable};
use super::super::reach::Reach;
use super::super::{NodeRequest, Performed};
use super::live::Live;
use super::transcript::{Entry, Transcript};
use super::{Failure, Models, Provider, event, outputs};

/// A model call in progress.
pub(super) struct Gateway<'a> {
    pub(super) models: &'a Models,
    pub(super) asked: NodeRequest<'a>,
    /// `None` for the mock provider.
    pub(super) provider: Option<&'a Provider>,
    pub(super) credential: Option<&'a str>,
    /// Removes the credential from everything that is recorded or reported.
    pub(super) redactor: Redactor,
    /// How much of the model's reasoning is recorded.
    pub(super) verbosity: Verbosity,
}

impl Gateway<'_> {
    /// Drives the state machine until it ends, or waits for a person.
    pub(super) async fn drive(
        &self,
        node: &Node,
        mut completion: Completion,
        first: ai::completion::ModelCall,
        reports: Vec<Reported>,
    ) -> Result<Performed, Failure> {
        let Resumed { mut transcript, mut reports, mut next } =
            self.resumed(reports, Next::Call(first), |next, entry| feed(&mut completion, next, entry))?;
        loop {
            let step = match next {
                Next::Call(_) if !transcript.heard.is_empty() && !self.asked.ledger.is_wanted().await => {
                    let message = "the run has ended; no further model is called for it";
                    return Err(Failure { reports, error: RunError::of(FailureCode::NodeFailed, message) });
                }
                Next::Call(call) => {
                    let live = (node.is_streaming() && call.request.output == Output::Text)
                        .then(|| Live::new(self.asked, &self.redactor, reports.clone()));
                    let attempt = self.attempt(&call, live).await;
                    let attempt = attempt.map_err(|error| Failure { reports: reports.clone(), error })?;
                    transcript.replied(&attempt, &self.redactor);
                    completion.on(attempt)
                }
                Next::Judge(document) => {
                    let replies = transcript.heard.len();
                    let failure = |error| Failure { reports: reports.clone(), error };
                    let mut prior = self.recall(&document, replies).await.map_err(failure)?;
                    let mut verdict =
                        completion.judge(&document, prior.as_ref(), self.questions(&transcript));
                    if let Some(other) = self.keep(&document, &verdict, replies).await.map_err(failure)? {
                        verdict = completion.judge(&document, Some(&other), self.questions(&transcript));
                        prior = Some(other);
                    }
                    transcript.judged(document, prior.as_ref());
                    completion.take(&verdict)
                }
                Next::Waits => return Ok(waiting(reports, &transcript)),
                Next::Done(done) => {
                    reports.extend(self.reasoning(&done.reply));
                    reports.extend(outputs::chunks(node, self.asked, &done));
                    return Ok(Performed { reports, outcome: Ok(outputs::of(node, &done)) });
                }
                Next::Failed(failed) => return Ok(Performed { reports, outcome: Err(failure(failed)) }),
            };
            reports.extend(step.events.into_iter().map(event));
            next = step.next;
        }
    }

    /// The state of a call: at its start, or after the answer that it waited for. `feed` passes one recorded entry to the state machine and
    /// returns its next step.
    pub(super) fn resumed<N>(
        &self,
        reports: Vec<Reported>,
        first: N,
        mut feed: impl FnMut(N, &Entry) -> Option<N>,
    ) -> Result<Resumed<N>, RunError> {
        let transcript = Transcript { began: self.asked.invocation.to_string(), heard: Vec::new() };
        let from_start = |first| Resumed { transcript, reports, next: first };
        let Some(resumption) = &self.asked.call.resumption else { return Ok(from_start(first)) };
        // The transcript is missing: the call starts again, and may ask again.
        let Some(mut transcript) = Transcript::read(self.asked.saved_state) else {
            return Ok(from_start(first));
        };
        transcript.heard.push(Entry::Answer(resumption.value.clone()));
        let mut next = first;
        for entry in &transcript.heard {
            next = feed(next, entry).ok_or_else(|| {
                let message =
                    "the recorded transcript of the call does not match the call; run the node again";
                RunError::of(FailureCode::NodeFailed, message)
            })?;
        }
        // Earlier events were recorded before the wait.
        Ok(Resumed { transcript, reports: Vec::new(), next })
    }

    /// The result of a request: the recorded one, or else the reply of the provider.
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
        let reach = Reach::Outside { provider_key: Some(&id) };
        match ledger.claim(&id, reach).await.map_err(|error| unrecorded(&error))? {
            Claim::New => {}
            Claim::Done(recorded) => {
                let record: Value = serde_json::from_slice(&recorded).unwrap_or_default();
                if let Some(reply) = Reply::from_record(&record) {
                    return Ok(Attempt::Recorded(reply));
                }
                return Err(unknown());
            }
            // A request that failed in transit can be repeated within this process. After a restart, its result is unknown.
            Claim::Unknown if call.wait_ms > 0 => {
                ledger.retry(&id).await.map_err(|error| unrecorded(&error))?;
            }
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
            Err(error) => {
                if did_nothing(&error) {
                    ledger.release(&id).await.map_err(|error| unrecorded(&error))?;
                }
                Ok(Attempt::Failed(error))
            }
        }
    }

    /// The reasoning of the model, as events.
    fn reasoning(&self, reply: &Reply) -> Vec<Reported> {
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

/// Whether the provider said that it did not process the request. A gateway may have passed on a request that it reports as failed, and
/// without a response it is unknown what happened.
fn did_nothing(error: &ProviderError) -> bool {
    error.status.is_some_and(|status| matches!(status, 400..500 | 503))
}

/// The state of a resumed call.
pub(super) struct Resumed<N> {
    pub(super) transcript: Transcript,
    pub(super) reports: Vec<Reported>,
    pub(super) next: N,
}

fn feed(completion: &mut Completion, next: Next, entry: &Entry) -> Option<Next> {
    let step = match (next, entry) {
        (Next::Call(_), Entry::Reply(record)) => {
            completion.on(Attempt::Recorded(Reply::from_record(record)?))
        }
        (Next::Judge(_), Entry::Judged { document, prior }) => {
            let prior = prior.clone().map(Into::into);
            let verdict = completion.judge(document, prior.as_ref(), None);
            completion.take(&verdict)
        }
        (Next::Waits, Entry::Answer(answer)) => completion.answered(answer),
        _ => return None,
    };
    Some(step.next)
}

/// The result of a call that waits for a person, with its transcript. If the transcript is too large, no question is asked.
pub(super) fn waiting(mut reports: Vec<Reported>, transcript: &Transcript) -> Performed {
    let outcome = transcript.kept();
    if outcome.is_err() {
        reports.pop();
    }
    Performed { reports, outcome }
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
        "the host stopped during a model call, and its reply was not recorded; the call is not repeated";
    RunError::of(FailureCode::EffectOutcomeUnknown, message)
}

fn unrecorded(error: &Unwritable) -> RunError {
    RunError::of(FailureCode::NodeFailed, format!("no model was called: {error}"))
}
