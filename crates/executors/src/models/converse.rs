//! Drives a conversation with tools to its end: passes replies of the provider and results of tools to the
//! [state machine](ai::tools).

use ai::completion::{Attempt, Done, ModelCall};
use ai::event::{EventKind as Kind, RunEvent};
use ai::node::Node;
use ai::provider::Reply;
use ai::tools::{Conversation, Finished, Next, Status, Step, ToolResult};
use flow::engine::{Cause, Reported};
use flow::event::EventData;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::Value;

use super::super::Performed;
use super::super::agents::toolset::Toolset;
use super::gateway::{Gateway, Resumed, failure, waiting};
use super::transcript::Entry;
use super::{Failure, event, outputs};

impl Gateway<'_> {
    /// Drives the state machine until it ends, or waits for a person, or the run ends. No model or tool is called for a run that has
    /// ended.
    pub(super) async fn converse(
        &self,
        node: &Node,
        mut conversation: Conversation,
        first: ModelCall,
        toolset: &Toolset<'_>,
        reports: Vec<Reported>,
    ) -> Result<Performed, Failure> {
        let Resumed { mut transcript, mut reports, mut next } =
            self.resumed(reports, Next::Model(first), |next, entry| feed(&mut conversation, next, entry))?;
        loop {
            let step = match next {
                Next::Done(finished) => {
                    let value = Value::String(finished.reply.text.clone());
                    let Finished { reply, envelope, usage, trust } = finished;
                    let done = Done { value, reply, envelope, usage };
                    let mut gave = outputs::of(node, &done);
                    gave["contentTrust"] = trust.into();
                    return Ok(Performed { reports, outcome: Ok(gave) });
                }
                Next::Failed(failed) => return Ok(Performed { reports, outcome: Err(failure(failed)) }),
                Next::Waits => return Ok(waiting(reports, &transcript)),
                Next::Judge(document) => {
                    let replies = transcript.heard.len();
                    let failure = |error| Failure { reports: reports.clone(), error };
                    let mut prior = self.recall(&document, replies).await.map_err(failure)?;
                    let mut verdict =
                        conversation.judge(&document, prior.as_ref(), self.questions(&transcript));
                    if let Some(other) = self.keep(&document, &verdict, replies).await.map_err(failure)? {
                        verdict = conversation.judge(&document, Some(&other), self.questions(&transcript));
                        prior = Some(other);
                    }
                    transcript.judged(document, prior.as_ref());
                    conversation.take(&verdict)
                }
                Next::Model(_) | Next::Tool(_) if !self.asked.ledger.is_wanted().await => {
                    let message = "the run has ended; no further model or tool is called for it";
                    return Err(Failure { reports, error: RunError::of(FailureCode::NodeFailed, message) });
                }
                Next::Model(call) => match self.attempt(&call, None).await {
                    Ok(attempt) => {
                        transcript.replied(&attempt, &self.redactor);
                        conversation.on_reply(attempt)
                    }
                    Err(error) => return Err(Failure { reports, error }),
                },
                Next::Tool(due) => match toolset.call(self.asked, &due, conversation.redactor()).await {
                    Ok(returned) => {
                        transcript.heard.push(Entry::Returned(returned.to_record(&due)));
                        conversation.on_returned(&returned)
                    }
                    Err(error) => {
                        // The log contains the call, so it must also contain its end.
                        let returned = ToolResult {
                            status: Status::Error,
                            text: error.message.clone(),
                            code: Some(error.code.clone()),
                            duration_ms: None,
                            cut_from: None,
                        };
                        let ended = conversation.on_returned(&returned).events.into_iter().next();
                        ended.into_iter().for_each(|ended| add(&mut reports, ended));
                        return Err(Failure { reports, error });
                    }
                },
            };
            let Step { events, next: after } = step;
            for event in events {
                add(&mut reports, event);
            }
            next = after;
        }
    }
}

fn feed(conversation: &mut Conversation, next: Next, entry: &Entry) -> Option<Next> {
    let step = match (next, entry) {
        (Next::Model(_), Entry::Reply(record)) => {
            conversation.on_reply(Attempt::Recorded(Reply::from_record(record)?))
        }
        (Next::Tool(_), Entry::Returned(record)) => conversation.on_returned(&ToolResult::read(record)?),
        (Next::Judge(_), Entry::Judged { document, prior }) => {
            let prior = prior.clone().map(Into::into);
            let verdict = conversation.judge(document, prior.as_ref(), None);
            conversation.take(&verdict)
        }
        (Next::Waits, Entry::Answer(answer)) => conversation.answered(answer),
        _ => return None,
    };
    Some(step.next)
}

/// Adds an event. The cause of a tool result is its call.
fn add(reports: &mut Vec<Reported>, happened: RunEvent) {
    let cause = (happened.kind == Kind::ToolReturned).then(|| {
        let call_id = happened.payload.get("callId").and_then(Value::as_str);
        let is_call = |other: &Reported| match other.data() {
            Some(EventData::AgentToolCalled(called)) => Some(called.call_id.as_str()) == call_id,
            _ => false,
        };
        reports.iter().rposition(is_call)
    });
    let event = event(happened);
    reports.push(match cause.flatten() {
        Some(index) => event.because(Cause::Reported(index)),
        None => event,
    });
}
