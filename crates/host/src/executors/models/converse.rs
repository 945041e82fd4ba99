//! A conversation with tools, from its first request to its end: the [machine](ai::tools) is fed what the provider and
//! the tools say.

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
use super::transcript::Heard;
use super::{Trouble, event, outputs};

impl Gateway<'_> {
    /// Feeds the machine until it is at its end, or waits for a person, or the run is at its end. Nothing more is paid for or done for a run that has
    /// ended.
    pub(super) async fn converse(
        &self,
        node: &Node,
        mut conversation: Conversation,
        first: ModelCall,
        toolset: &Toolset<'_>,
        told: Vec<Reported>,
    ) -> Result<Performed, Trouble> {
        let Resumed { mut transcript, mut told, mut next } =
            self.resumed(told, Next::Model(first), |next, heard| feed(&mut conversation, next, heard))?;
        loop {
            let step = match next {
                Next::Done(finished) => {
                    let value = Value::String(finished.reply.text.clone());
                    let Finished { reply, envelope, usage, trust } = finished;
                    let done = Done { value, reply, envelope, usage };
                    let mut gave = outputs::of(node, &done);
                    gave["contentTrust"] = trust.into();
                    return Ok(Performed { told, outcome: Ok(gave) });
                }
                Next::Failed(failed) => return Ok(Performed { told, outcome: Err(failure(failed)) }),
                Next::Waits => return Ok(waiting(told, &transcript)),
                Next::Judge(document) => {
                    let replies = transcript.heard.len();
                    let trouble = |error| Trouble { told: told.clone(), error };
                    let mut prior = self.recall(&document, replies).await.map_err(trouble)?;
                    let mut verdict =
                        conversation.judge(&document, prior.as_ref(), self.questions(&transcript));
                    if let Some(other) = self.keep(&document, &verdict, replies).await.map_err(trouble)? {
                        verdict = conversation.judge(&document, Some(&other), self.questions(&transcript));
                        prior = Some(other);
                    }
                    transcript.judged(document, prior.as_ref());
                    conversation.take(&verdict)
                }
                Next::Model(_) | Next::Tool(_) if !self.asked.ledger.is_wanted() => {
                    let message = "the run has ended; no more is asked or done for it";
                    return Err(Trouble { told, error: RunError::of(FailureCode::NodeFailed, message) });
                }
                Next::Model(call) => match self.attempt(&call, None).await {
                    Ok(attempt) => {
                        transcript.replied(&attempt, &self.redactor);
                        conversation.on_reply(attempt)
                    }
                    Err(error) => return Err(Trouble { told, error }),
                },
                Next::Tool(due) => match toolset.call(self.asked, &due, conversation.redactor()).await {
                    Ok(returned) => {
                        transcript.heard.push(Heard::Returned(returned.to_record(&due)));
                        conversation.on_returned(&returned)
                    }
                    Err(error) => {
                        // The call stands in the log, so its end does too.
                        let returned = ToolResult {
                            status: Status::Error,
                            text: error.message.clone(),
                            code: Some(error.code.clone()),
                            duration_ms: None,
                            cut_from: None,
                        };
                        let ended = conversation.on_returned(&returned).events.into_iter().next();
                        ended.into_iter().for_each(|ended| tell(&mut told, ended));
                        return Err(Trouble { told, error });
                    }
                },
            };
            let Step { events, next: after } = step;
            for event in events {
                tell(&mut told, event);
            }
            next = after;
        }
    }
}

fn feed(conversation: &mut Conversation, next: Next, heard: &Heard) -> Option<Next> {
    let step = match (next, heard) {
        (Next::Model(_), Heard::Reply(record)) => {
            conversation.on_reply(Attempt::Recorded(Reply::from_record(record)?))
        }
        (Next::Tool(_), Heard::Returned(record)) => conversation.on_returned(&ToolResult::read(record)?),
        (Next::Judge(_), Heard::Judged { document, prior }) => {
            let prior = prior.clone().map(Into::into);
            let verdict = conversation.judge(document, prior.as_ref(), None);
            conversation.take(&verdict)
        }
        (Next::Waits, Heard::Answer(answer)) => conversation.answered(answer),
        _ => return None,
    };
    Some(step.next)
}

/// Adds an event. What came of a call is caused by the call.
fn tell(told: &mut Vec<Reported>, happened: RunEvent) {
    let cause = (happened.kind == Kind::ToolReturned).then(|| {
        let call_id = happened.payload.get("callId").and_then(Value::as_str);
        let is_call = |other: &Reported| match other.data() {
            Some(EventData::AgentToolCalled(called)) => Some(called.call_id.as_str()) == call_id,
            _ => false,
        };
        told.iter().rposition(is_call)
    });
    let event = event(happened);
    told.push(match cause.flatten() {
        Some(place) => event.because(Cause::Reported(place)),
        None => event,
    });
}
