//! A conversation with tools, from its first request to its end: the [machine](ai::tools) is fed what the provider and
//! the tools say.

use ai::completion::{Call, Done};
use ai::event::{EventKind as Kind, RunEvent};
use ai::node::Node;
use ai::tools::{Conversation, Next, Returned, Status, Step};
use flow::engine::{Cause, Told};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::Value;

use super::super::Performed;
use super::super::agents::belt::Belt;
use super::door::Door;
use super::{Trouble, event, outputs};

impl Door<'_> {
    /// Feeds the machine until it is at its end, or the run is. Nothing more is paid for or done for a run that has
    /// ended.
    pub(super) async fn converse(
        &self,
        node: &Node,
        mut conversation: Conversation,
        first: Call,
        belt: &Belt<'_>,
        mut told: Vec<Told>,
    ) -> Result<Performed, Trouble> {
        let mut next = Next::Model(first);
        loop {
            let step = match next {
                Next::Done(finished) => {
                    let value = Value::String(finished.reply.text.clone());
                    let done = Done { value, reply: finished.reply, usage: finished.usage };
                    let mut gave = outputs::of(node, &done);
                    gave["contentTrust"] = finished.trust.into();
                    return Ok(Performed { told, outcome: Ok(gave) });
                }
                Next::Failed(failed) => {
                    let error = RunError::new(failed.code.as_str(), failed.message);
                    return Ok(Performed { told, outcome: Err(error) });
                }
                Next::Model(_) | Next::Tool(_) if !self.asked.ledger.is_wanted() => {
                    let message = "the run has ended; no more is asked or done for it";
                    return Err(Trouble { told, error: RunError::of(FailureCode::NodeFailed, message) });
                }
                Next::Model(call) => match self.attempt(&call, None).await {
                    Ok(attempt) => conversation.on_reply(attempt),
                    Err(error) => return Err(Trouble { told, error }),
                },
                Next::Tool(due) => match belt.call(self.asked, &due, conversation.redactor()).await {
                    Ok(returned) => conversation.on_returned(&returned),
                    Err(error) => {
                        // The call stands in the log, so its end does too.
                        let returned = Returned {
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

/// Adds an event. What came of a call is caused by the call.
fn tell(told: &mut Vec<Told>, happened: RunEvent) {
    let cause = (happened.kind == Kind::ToolReturned).then(|| {
        let is_call = |other: &Told| {
            other.kind == EventKind::AgentToolCalled
                && other.payload.get("callId") == happened.payload.get("callId")
        };
        told.iter().rposition(is_call)
    });
    let event = event(happened);
    told.push(match cause.flatten() {
        Some(place) => event.because(Cause::Told(place)),
        None => event,
    });
}
