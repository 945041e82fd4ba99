//! Asking the client of a call what its run asks, or a run below it, while the call waits.
//!
//! ```text
//!  the run waits ─► something to ask? ─► elicitation/create ─► accept: the answer is judged ─► the run goes on
//!                                              │                    └─ not as it has to be: asked again, with why
//!                                              ├─ decline, cancel, error ─► the call is answered; the run still waits
//!                                              └─ somebody else answered ─► notifications/cancelled
//! ```
//!
//! One request at a time. A client is asked what it may answer before it is told of what it may not, and of each interrupt it is told
//! once. Whatever it says of an approval, the approval stays where it is.

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
/// How many requests a client is sent for one call.
const MAX_REQUESTS: usize = 50;
/// The longest reason why an answer was not taken, in characters.
const MAX_REASON_CHARACTERS: usize = 500;

/// With what a client is asked.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) asks: Asks,
    pub(crate) client: Arc<Client>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Where messages for the client go.
    pub(crate) to: mpsc::Sender<Value>,
}

/// What a call has asked its client.
pub(super) struct Asking {
    means: Means,
    runs: Runs,
    caller: Caller,
    places: Places,
    /// The request that the client has.
    open: Option<Request>,
    /// What is wanted of the client for each interrupt that is open, by its id.
    wanted: BTreeMap<InterruptId, Wanted>,
    /// What the client knows of, each with its run.
    told: BTreeMap<InterruptId, RunId>,
    /// How many requests it may be sent.
    left: usize,
}

/// A request that the client has.
struct Request {
    place: Place,
    /// What is asked; nothing where the client is only told.
    question: Option<Question>,
    outstanding: Outstanding,
}

/// What a request is about: an interrupt, and where it is.
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

/// What follows for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It goes on to wait.
    Waits,
    /// The client did what was asked of it: its time begins anew.
    Anew,
    /// It is answered, and the run still waits.
    Ends,
}

impl Asking {
    pub(super) fn new(means: Means, runs: &Runs, caller: &Caller, places: Places) -> Self {
        let (runs, caller) = (runs.clone(), caller.clone());
        let (wanted, told) = (BTreeMap::new(), BTreeMap::new());
        Self { means, runs, caller, places, open: None, wanted, told, left: MAX_REQUESTS }
    }

    /// Looks at what is waited for now in the runs that wait, and sends the client what there is to send.
    pub(super) async fn look(&mut self, waiting: &[Waiting]) -> Result<Then, Refusal> {
        let mut open = Vec::new();
        for run in waiting {
            let asked = self.runs.open_interrupts(&self.caller, &run.run_id).await?;
            open.extend(asked.into_iter().map(|asked| (&run.run_id, asked)));
        }
        let mut ids: BTreeSet<InterruptId> = open.iter().map(|(_, open)| open.id.clone()).collect();
        // A run whose other branches work waits for nobody, and what the client was asked is still open.
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
                    // What is only told waits for what can be answered.
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

    /// What is wanted of the client for an interrupt. It is found out once.
    async fn wanted(&mut self, run_id: &RunId, open: &Interrupt) -> Result<&Wanted, Refusal> {
        match self.wanted.entry(open.id.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let wanted = surface::wanted(&self.runs, &self.caller, run_id, open, &self.places).await?;
                Ok(new.insert(wanted))
            }
        }
    }

    /// What the client says, as soon as it does.
    pub(super) async fn said(&mut self) -> Said {
        match &mut self.open {
            Some(request) => request.outstanding.said().await,
            None => std::future::pending().await,
        }
    }

    /// Does what follows from what the client said.
    pub(super) async fn heard(&mut self, said: Said) -> Result<Then, Refusal> {
        let Some(Request { place, question, .. }) = self.open.take() else { return Ok(Then::Waits) };
        let Some(question) = question else {
            // Whatever it says, it is not the one who decides: at most it goes on to wait.
            self.told.insert(place.interrupt_id, place.run_id);
            return Ok(if matches!(said, Said::Accepted(_)) { Then::Waits } else { Then::Ends });
        };
        let value = match said {
            Said::Accepted(content) => json!({"answers": question.form.answers(content)}),
            Said::Declined if question.may_refuse => json!({"action": "decline"}),
            Said::Dismissed if question.may_refuse => json!({"action": "cancel"}),
            Said::Declined | Said::Dismissed | Said::Failed => return Ok(Then::Ends),
        };
        // Another question may stand at the same node by now: this is the answer to one of them alone.
        let Place { run_id, node_id, interrupt_id } = &place;
        let judged = self.runs.resolve_interrupt(&self.caller, run_id, node_id, interrupt_id, value).await;
        let Err(refusal) = judged else { return Ok(Then::Anew) };
        match refusal.code.kind() {
            RefusalKind::Invalid | RefusalKind::Unprocessable if question.tries < MAX_TRIES => {
                let again = Question { tries: question.tries + 1, ..question };
                Ok(self.ask(place, again, Some(&refusal)).await)
            }
            // Somebody was quicker.
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
        // An id that could be guessed is not given out.
        if self.left == 0 || self.means.entropy.fill(&mut random).is_err() {
            return Then::Ends;
        }
        self.left -= 1;
        let id = format!("elicitation-{}", canon::encoding::hex(&random));
        // Before it is sent: the answer may be quicker than this.
        let outstanding = self.means.asks.enter(&self.means.client, &id);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
        if self.means.to.send(message).await.is_err() {
            return Then::Ends;
        }
        self.open = Some(Request { place, question, outstanding });
        Then::Anew
    }

    /// Takes back the request that the client has: nobody waits for its answer any more.
    pub(super) async fn withdraw(&mut self, reason: &str) {
        let Some(request) = self.open.take() else { return };
        let params = json!({"requestId": request.outstanding.id(), "reason": reason});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        // Whoever hung up needs to know nothing.
        drop(self.means.to.send(message).await);
    }
}

/// Why an answer was not taken, in a line.
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
