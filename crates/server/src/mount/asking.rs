//! Asking the client of a call what its run asks, while the call waits.
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

use flow::state::Interrupt;
use host::runs::{Caller, Refusal, Runs};
use host::system::Entropy;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::asks::{Asks, Client, Outstanding, Said};
use super::form::{Form, short};
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
    wanted: BTreeMap<String, Wanted>,
    /// What the client knows of.
    told: BTreeSet<String>,
    /// How many requests it may be sent.
    left: usize,
}

/// A request that the client has.
struct Request {
    interrupt_id: String,
    node_id: String,
    /// What is asked; nothing where the client is only told.
    question: Option<Question>,
    outstanding: Outstanding,
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
        let (wanted, told) = (BTreeMap::new(), BTreeSet::new());
        Self { means, runs, caller, places, open: None, wanted, told, left: MAX_REQUESTS }
    }

    /// Looks at what the run waits for now, and sends the client what there is to send.
    pub(super) async fn look(&mut self, run_id: &str, waits: bool) -> Result<Then, Refusal> {
        // A run whose other branches work waits for nobody, and what the client was asked is still open.
        let looks = waits || self.open.is_some() || !self.told.is_empty();
        let open = if looks { self.runs.open_interrupts(&self.caller, run_id)? } else { Vec::new() };
        let ids: BTreeSet<&str> = open.iter().map(|open| open.id.as_str()).collect();
        self.told.retain(|id| ids.contains(id.as_str()));
        self.wanted.retain(|id, _| ids.contains(id.as_str()));
        let mut then = Then::Waits;
        if self.open.as_ref().is_some_and(|request| !ids.contains(request.interrupt_id.as_str())) {
            self.withdraw("nobody waits for it any more").await;
            then = Then::Anew;
        }
        if !waits || self.open.as_ref().is_some_and(|request| request.question.is_some()) {
            return Ok(then);
        }
        let mut notice = None;
        for open in &open {
            if self.told.contains(&open.id) {
                continue;
            }
            match self.wanted(run_id, open)? {
                Wanted::Answers { form, may_refuse } => {
                    let question = Question { form: form.clone(), may_refuse: *may_refuse, tries: 1 };
                    // What is only told waits for what can be answered.
                    self.withdraw("there is something to ask first").await;
                    return Ok(self.ask(run_id, open, question, None).await);
                }
                Wanted::Notice(message) if notice.is_none() => notice = Some((open, message.clone())),
                Wanted::Notice(_) | Wanted::Nothing => {}
            }
        }
        match notice {
            Some((open, message)) if self.open.is_none() => {
                let params = surface::params(&message, None, run_id, &open.node_id);
                Ok(self.send(&open.id, &open.node_id, None, params).await)
            }
            _ => Ok(then),
        }
    }

    /// What is wanted of the client for an interrupt. It is found out once.
    fn wanted(&mut self, run_id: &str, open: &Interrupt) -> Result<&Wanted, Refusal> {
        match self.wanted.entry(open.id.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let wanted = surface::wanted(&self.runs, &self.caller, run_id, open, &self.places)?;
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
    pub(super) async fn heard(&mut self, run_id: &str, said: Said) -> Result<Then, Refusal> {
        let Some(request) = self.open.take() else { return Ok(Then::Waits) };
        let Some(question) = request.question else {
            // Whatever it says, it is not the one who decides: at most it goes on to wait.
            self.told.insert(request.interrupt_id);
            return Ok(if matches!(said, Said::Accepted(_)) { Then::Waits } else { Then::Ends });
        };
        let value = match said {
            Said::Accepted(content) => json!({"answers": question.form.answers(content)}),
            Said::Declined if question.may_refuse => json!({"action": "decline"}),
            Said::Dismissed if question.may_refuse => json!({"action": "cancel"}),
            Said::Declined | Said::Dismissed | Said::Failed => return Ok(Then::Ends),
        };
        // Another question may stand at the same node by now.
        let open = self.runs.open_interrupts(&self.caller, run_id)?;
        let Some(open) = open.iter().find(|open| open.id == request.interrupt_id) else {
            return Ok(Then::Anew);
        };
        let judged = self.runs.resolve(&self.caller, run_id, &request.node_id, value, None).await;
        let Err(refusal) = judged else { return Ok(Then::Anew) };
        match refusal.code.status() {
            400 | 422 if question.tries < MAX_TRIES => {
                let again = Question { tries: question.tries + 1, ..question };
                Ok(self.ask(run_id, open, again, Some(&refusal)).await)
            }
            // Somebody was quicker.
            404 | 409 | 410 => Ok(Then::Anew),
            _ => Ok(Then::Ends),
        }
    }

    async fn ask(
        &mut self,
        run_id: &str,
        open: &Interrupt,
        question: Question,
        why: Option<&Refusal>,
    ) -> Then {
        let message = match why {
            None => question.form.message.clone(),
            Some(why) => format!("{}\n{}", reason(why), question.form.message),
        };
        let params = surface::params(&message, Some(&question.form.schema), run_id, &open.node_id);
        self.send(&open.id, &open.node_id, Some(question), params).await
    }

    async fn send(
        &mut self,
        interrupt_id: &str,
        node_id: &str,
        question: Option<Question>,
        params: Value,
    ) -> Then {
        let mut random = [0_u8; 16];
        // An id that could be guessed is not given out.
        if self.left == 0 || self.means.entropy.fill(&mut random).is_err() {
            return Then::Ends;
        }
        self.left -= 1;
        let id = random.iter().fold("elicitation-".to_owned(), |id, byte| id + &format!("{byte:02x}"));
        // Before it is sent: the answer may be quicker than this.
        let outstanding = self.means.asks.enter(&self.means.client, &id);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
        if self.means.to.send(message).await.is_err() {
            return Then::Ends;
        }
        let (interrupt_id, node_id) = (interrupt_id.to_owned(), node_id.to_owned());
        self.open = Some(Request { interrupt_id, node_id, question, outstanding });
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
