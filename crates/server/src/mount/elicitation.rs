//! Asks the client of a call the questions of its run, or of a child run, while the call waits.
//!
//! ```text
//!  the run waits ─► a question? ─► elicitation/create ─► accept: the answer is validated ─► the run
//!  continues
//!                                        │                    └─ invalid: asked again, with the reason
//!                                        ├─ decline, cancel, error ─► the call is answered; the run still
//!                                        waits
//!                                        └─ answered elsewhere ─► notifications/cancelled
//! ```
//!
//! At most one request is open at a time. Questions that the client may answer come before notices about
//! interrupts that it may not, and there is one notice per interrupt. The client's response to a notice never
//! decides an approval.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flow::id::{InterruptId, NodeId, RunId};
use flow::state::Interrupt;
use host::runs::{Caller, Refusal, RefusalKind, Runs, Waiting};
use host::system::Entropy;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::form::{Form, short};
use super::pending_requests::{Asks, Client, Outstanding, Said};
use super::surface::{self, Places, Wanted};

/// How often one question is asked.
const MAX_TRIES: usize = 3;
/// The maximum number of requests to a client for one call.
const MAX_REQUESTS: usize = 50;
/// The maximum length of the reason why an answer was rejected, in characters.
const MAX_REASON_CHARACTERS: usize = 500;

/// What is needed to ask a client.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) asks: Asks,
    pub(crate) client: Arc<Client>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// The channel for messages to the client.
    pub(crate) to: mpsc::Sender<Value>,
}

/// The requests of a call to its client.
pub(super) struct Asking {
    means: Means,
    runs: Runs,
    caller: Caller,
    places: Places,
    /// The open request.
    open: Option<Request>,
    /// What to ask the client for each open interrupt, by its id.
    wanted: BTreeMap<InterruptId, Wanted>,
    /// The interrupts that the client was notified of, each with its run.
    told: BTreeMap<InterruptId, RunId>,
    /// The number of requests that may still be sent.
    left: usize,
}

/// An open request to the client.
struct Request {
    place: Place,
    /// The question; `None` for a notice.
    question: Option<Question>,
    outstanding: Outstanding,
}

/// The interrupt of a request, with its run and node.
#[derive(Clone)]
struct Place {
    run_id: RunId,
    node_id: NodeId,
    interrupt_id: InterruptId,
}

#[derive(Clone)]
struct Question {
    form: Form,
    may_refuse: bool,
    tries: usize,
}

/// What the call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Continue to wait.
    Waits,
    /// The client answered: restart the timeout.
    Anew,
    /// Answer the call; the run still waits.
    Ends,
}

impl Asking {
    pub(super) fn new(means: Means, runs: &Runs, caller: &Caller, places: Places) -> Self {
        let (runs, caller) = (runs.clone(), caller.clone());
        let (wanted, told) = (BTreeMap::new(), BTreeMap::new());
        Self { means, runs, caller, places, open: None, wanted, told, left: MAX_REQUESTS }
    }

    /// Checks the open interrupts of the waiting runs, and sends the next request to the client.
    pub(super) async fn look(&mut self, waiting: &[Waiting]) -> Result<Then, Refusal> {
        let mut open = Vec::new();
        for run in waiting {
            let asked = self.runs.open_interrupts(&self.caller, &run.run_id).await?;
            open.extend(asked.into_iter().map(|asked| (&run.run_id, asked)));
        }
        let mut ids: BTreeSet<InterruptId> = open.iter().map(|(_, open)| open.id.clone()).collect();
        // While other branches of the run work, its interrupts are still open.
        let known = self.told.values().chain(self.open.iter().map(|request| &request.place.run_id));
        let known: BTreeSet<&RunId> = known.collect();
        for run_id in known.into_iter().filter(|run_id| waiting.iter().all(|run| run.run_id != **run_id)) {
            let asked = self.runs.open_interrupts(&self.caller, run_id).await?;
            ids.extend(asked.into_iter().map(|asked| asked.id));
        }
        self.told.retain(|id, _| ids.contains(id));
        self.wanted.retain(|id, _| ids.contains(id));
        let mut then = Then::Waits;
        if self.open.as_ref().is_some_and(|request| !ids.contains(&request.place.interrupt_id)) {
            self.withdraw("nobody waits for it any more").await;
            then = Then::Anew;
        }
        if self.open.as_ref().is_some_and(|request| request.question.is_some()) {
            return Ok(then);
        }
        let mut notice = None;
        for (run_id, open) in &open {
            if self.told.contains_key(&open.id) {
                continue;
            }
            let place = Place {
                run_id: (*run_id).clone(),
                node_id: open.node_id.clone(),
                interrupt_id: open.id.clone(),
            };
            match self.wanted(run_id, open).await? {
                Wanted::Answers { form, may_refuse } => {
                    let question = Question { form: form.clone(), may_refuse: *may_refuse, tries: 1 };
                    // Questions that can be answered come before notices.
                    self.withdraw("there is something to ask first").await;
                    return Ok(self.ask(place, question, None).await);
                }
                Wanted::Notice(message) if notice.is_none() => notice = Some((place, message.clone())),
                Wanted::Notice(_) | Wanted::Nothing => {}
            }
        }
        match notice {
            Some((place, message)) if self.open.is_none() => {
                let params = surface::params(&message, None, &place.run_id, &place.node_id);
                Ok(self.send(place, None, params).await)
            }
            _ => Ok(then),
        }
    }

    /// What to ask the client for an interrupt. It is computed once.
    async fn wanted(&mut self, run_id: &RunId, open: &Interrupt) -> Result<&Wanted, Refusal> {
        match self.wanted.entry(open.id.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let wanted = surface::wanted(&self.runs, &self.caller, run_id, open, &self.places).await?;
                Ok(new.insert(wanted))
            }
        }
    }

    /// Waits for the client's response.
    pub(super) async fn said(&mut self) -> Said {
        match &mut self.open {
            Some(request) => request.outstanding.said().await,
            None => std::future::pending().await,
        }
    }

    /// Handles the client's response.
    pub(super) async fn heard(&mut self, said: Said) -> Result<Then, Refusal> {
        let Some(Request { place, question, .. }) = self.open.take() else { return Ok(Then::Waits) };
        let Some(question) = question else {
            // The response to a notice never decides anything; at most the call continues to wait.
            self.told.insert(place.interrupt_id, place.run_id);
            return Ok(if matches!(said, Said::Accepted(_)) { Then::Waits } else { Then::Ends });
        };
        let value = match said {
            Said::Accepted(content) => json!({"answers": question.form.answers(content)}),
            Said::Declined if question.may_refuse => json!({"action": "decline"}),
            Said::Dismissed if question.may_refuse => json!({"action": "cancel"}),
            Said::Declined | Said::Dismissed | Said::Failed => return Ok(Then::Ends),
        };
        // The node may have another interrupt by now. The answer applies only to the one that was asked.
        let Place { run_id, node_id, interrupt_id } = &place;
        let judged = self.runs.resolve_interrupt(&self.caller, run_id, node_id, interrupt_id, value).await;
        let Err(refusal) = judged else { return Ok(Then::Anew) };
        match refusal.code.kind() {
            RefusalKind::Invalid | RefusalKind::Unprocessable if question.tries < MAX_TRIES => {
                let again = Question { tries: question.tries + 1, ..question };
                Ok(self.ask(place, again, Some(&refusal)).await)
            }
            // It was answered elsewhere in the meantime.
            RefusalKind::NotFound | RefusalKind::Conflict | RefusalKind::Gone => Ok(Then::Anew),
            RefusalKind::Invalid
            | RefusalKind::Unprocessable
            | RefusalKind::Unauthenticated
            | RefusalKind::Forbidden
            | RefusalKind::MethodNotAllowed
            | RefusalKind::UnsupportedVersion
            | RefusalKind::TimedOut
            | RefusalKind::TooLarge
            | RefusalKind::UnsupportedMedia
            | RefusalKind::RateLimited
            | RefusalKind::Failed
            | RefusalKind::NotImplemented
            | RefusalKind::Unavailable
            | RefusalKind::StorageFull => Ok(Then::Ends),
        }
    }

    async fn ask(&mut self, place: Place, question: Question, why: Option<&Refusal>) -> Then {
        let message = match why {
            None => question.form.message.clone(),
            Some(why) => format!("{}\n{}", reason(why), question.form.message),
        };
        let schema = Some(&question.form.schema);
        let params = surface::params(&message, schema, &place.run_id, &place.node_id);
        self.send(place, Some(question), params).await
    }

    async fn send(&mut self, place: Place, question: Option<Question>, params: Value) -> Then {
        let mut random = [0_u8; 16];
        // Do not send an id that could be guessed.
        if self.left == 0 || self.means.entropy.fill(&mut random).is_err() {
            return Then::Ends;
        }
        self.left -= 1;
        let id = format!("elicitation-{}", canon::encoding::hex(&random));
        // Register the request before sending it, because the answer may arrive immediately.
        let outstanding = self.means.asks.enter(&self.means.client, &id);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
        if self.means.to.send(message).await.is_err() {
            return Then::Ends;
        }
        self.open = Some(Request { place, question, outstanding });
        Then::Anew
    }

    /// Cancels the open request, because its answer is no longer needed.
    pub(super) async fn withdraw(&mut self, reason: &str) {
        let Some(request) = self.open.take() else { return };
        let params = json!({"requestId": request.outstanding.id(), "reason": reason});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        // A disconnected client need not be notified.
        drop(self.means.to.send(message).await);
    }
}

/// Why an answer was rejected, on one line.
fn reason(refusal: &Refusal) -> String {
    let mut reason = format!("That could not be taken: {}", refusal.message);
    for (name, value) in &refusal.details {
        match (name.as_str(), value) {
            ("path", Value::String(path)) if !path.is_empty() => reason += &format!(" (at {path})"),
            ("problem", Value::String(problem)) => reason += &format!(": {problem}"),
            ("missing", missing) => reason += &format!(", and {missing} have none"),
            _ => {}
        }
    }
    short(&reason, MAX_REASON_CHARACTERS)
}
