//! PendingRequests the client of a call the questions of its run, or of a child run, while the call waits.
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
use runs::{Caller, Refusal, RefusalKind, Runs, Waiting};
use serde_json::{Value, json};
use system::Entropy;
use tokio::sync::mpsc;

use super::form::{Form, short};
use super::pending_requests::{Client, ElicitationResponse, PendingRequest, PendingRequests};
use super::surface::{self, AnswerUrls, Elicitation};

/// How often one question is asked.
const MAX_TRIES: usize = 3;
/// The maximum number of requests to a client for one call.
const MAX_REQUESTS: usize = 50;
/// The maximum length of the reason why an answer was rejected, in characters.
const MAX_REASON_CHARACTERS: usize = 500;

/// What is needed to ask a client.
#[derive(Clone)]
pub(crate) struct ClientChannel {
    pub(crate) pending_requests: PendingRequests,
    pub(crate) client: Arc<Client>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// The channel for messages to the client.
    pub(crate) to: mpsc::Sender<Value>,
}

/// The requests of a call to its client.
pub(super) struct ClientRequests {
    client_channel: ClientChannel,
    runs: Runs,
    caller: Caller,
    urls: AnswerUrls,
    open: Option<Request>,
    /// What to ask the client for each open interrupt, by its id.
    elicitation: BTreeMap<InterruptId, Elicitation>,
    /// The interrupts that the client was notified of, each with its run.
    notified: BTreeMap<InterruptId, RunId>,
    /// The number of requests that may still be sent.
    left: usize,
}

/// An open request to the client.
struct Request {
    interrupt: InterruptKey,
    /// The question; `None` for a notice.
    question: Option<Question>,
    pending: PendingRequest,
}

/// The interrupt of a request, with its run and node.
#[derive(Clone)]
struct InterruptKey {
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
pub(super) enum NextStep {
    /// Continue to wait.
    Wait,
    /// The client answered: restart the timeout.
    RestartTimeout,
    /// Answer the call; the run still waits.
    EndCall,
}

impl ClientRequests {
    pub(super) fn new(client_channel: ClientChannel, runs: &Runs, caller: &Caller, urls: AnswerUrls) -> Self {
        let (runs, caller) = (runs.clone(), caller.clone());
        let (elicitation, notified) = (BTreeMap::new(), BTreeMap::new());
        Self { client_channel, runs, caller, urls, open: None, elicitation, notified, left: MAX_REQUESTS }
    }

    /// Checks the open interrupts of the waiting runs, and sends the next request to the client.
    pub(super) async fn update(&mut self, waiting: &[Waiting]) -> Result<NextStep, Refusal> {
        let mut open = Vec::new();
        for run in waiting {
            let asked = self.runs.queries().open_interrupts(&self.caller, &run.run_id).await?;
            open.extend(asked.into_iter().map(|asked| (&run.run_id, asked)));
        }
        let mut ids: BTreeSet<InterruptId> = open.iter().map(|(_, open)| open.id.clone()).collect();
        // While other branches of the run work, its interrupts are still open.
        let known = self.notified.values().chain(self.open.iter().map(|request| &request.interrupt.run_id));
        let known: BTreeSet<&RunId> = known.collect();
        for run_id in known.into_iter().filter(|run_id| waiting.iter().all(|run| run.run_id != **run_id)) {
            let asked = self.runs.queries().open_interrupts(&self.caller, run_id).await?;
            ids.extend(asked.into_iter().map(|asked| asked.id));
        }
        self.notified.retain(|id, _| ids.contains(id));
        self.elicitation.retain(|id, _| ids.contains(id));
        let mut then = NextStep::Wait;
        if self.open.as_ref().is_some_and(|request| !ids.contains(&request.interrupt.interrupt_id)) {
            self.withdraw("the answer is no longer needed").await;
            then = NextStep::RestartTimeout;
        }
        if self.open.as_ref().is_some_and(|request| request.question.is_some()) {
            return Ok(then);
        }
        let mut notice = None;
        for (run_id, open) in &open {
            if self.notified.contains_key(&open.id) {
                continue;
            }
            let interrupt = InterruptKey {
                run_id: (*run_id).clone(),
                node_id: open.node_id.clone(),
                interrupt_id: open.id.clone(),
            };
            match self.elicitation(run_id, open).await? {
                Elicitation::Answers { form, may_refuse } => {
                    let question = Question { form: form.clone(), may_refuse: *may_refuse, tries: 1 };
                    // Questions that can be answered come before notices.
                    self.withdraw("there is a first question").await;
                    return Ok(self.ask(interrupt, question, None).await);
                }
                Elicitation::Notice(message) if notice.is_none() => {
                    notice = Some((interrupt, message.clone()));
                }
                Elicitation::Notice(_) | Elicitation::Nothing => {}
            }
        }
        match notice {
            Some((interrupt, message)) if self.open.is_none() => {
                let params = surface::params(&message, None, &interrupt.run_id, &interrupt.node_id);
                Ok(self.send(interrupt, None, params).await)
            }
            _ => Ok(then),
        }
    }

    /// What to ask the client for an interrupt. It is computed once.
    async fn elicitation(&mut self, run_id: &RunId, open: &Interrupt) -> Result<&Elicitation, Refusal> {
        match self.elicitation.entry(open.id.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let elicitation =
                    surface::elicitation(&self.runs, &self.caller, run_id, open, &self.urls).await?;
                Ok(new.insert(elicitation))
            }
        }
    }

    /// Waits for the client's response.
    pub(super) async fn response(&mut self) -> ElicitationResponse {
        match &mut self.open {
            Some(request) => request.pending.response().await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn handle_response(
        &mut self,
        response: ElicitationResponse,
    ) -> Result<NextStep, Refusal> {
        let Some(Request { interrupt, question, .. }) = self.open.take() else { return Ok(NextStep::Wait) };
        let Some(question) = question else {
            // The response to a notice never decides anything; at most the call continues to wait.
            self.notified.insert(interrupt.interrupt_id, interrupt.run_id);
            return Ok(if matches!(response, ElicitationResponse::Accepted(_)) {
                NextStep::Wait
            } else {
                NextStep::EndCall
            });
        };
        let value = match response {
            ElicitationResponse::Accepted(content) => json!({"answers": question.form.answers(content)}),
            ElicitationResponse::Declined if question.may_refuse => json!({"action": "decline"}),
            ElicitationResponse::Dismissed if question.may_refuse => json!({"action": "cancel"}),
            ElicitationResponse::Declined | ElicitationResponse::Dismissed | ElicitationResponse::Failed => {
                return Ok(NextStep::EndCall);
            }
        };
        // The node may have another interrupt by now. The answer applies only to the one that was asked.
        let InterruptKey { run_id, node_id, interrupt_id } = &interrupt;
        let judged =
            self.runs.commands().resolve_interrupt(&self.caller, run_id, node_id, interrupt_id, value).await;
        let Err(refusal) = judged else { return Ok(NextStep::RestartTimeout) };
        match refusal.code.kind() {
            RefusalKind::Invalid | RefusalKind::Unprocessable if question.tries < MAX_TRIES => {
                let again = Question { tries: question.tries + 1, ..question };
                Ok(self.ask(interrupt, again, Some(&refusal)).await)
            }
            // It was answered elsewhere in the meantime.
            RefusalKind::NotFound | RefusalKind::Conflict | RefusalKind::Gone => Ok(NextStep::RestartTimeout),
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
            | RefusalKind::StorageFull => Ok(NextStep::EndCall),
        }
    }

    async fn ask(&mut self, interrupt: InterruptKey, question: Question, why: Option<&Refusal>) -> NextStep {
        let message = match why {
            None => question.form.message.clone(),
            Some(why) => format!("{}\n{}", reason(why), question.form.message),
        };
        let schema = Some(&question.form.schema);
        let params = surface::params(&message, schema, &interrupt.run_id, &interrupt.node_id);
        self.send(interrupt, Some(question), params).await
    }

    async fn send(&mut self, interrupt: InterruptKey, question: Option<Question>, params: Value) -> NextStep {
        let mut random = [0_u8; 16];
        // Do not send an id that could be guessed.
        if self.left == 0 || self.client_channel.entropy.fill(&mut random).is_err() {
            return NextStep::EndCall;
        }
        self.left -= 1;
        let id = format!("elicitation-{}", canon::encoding::hex(&random));
        // Register the request before sending it, because the answer may arrive immediately.
        let pending = self.client_channel.pending_requests.enter(&self.client_channel.client, &id);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
        if self.client_channel.to.send(message).await.is_err() {
            return NextStep::EndCall;
        }
        self.open = Some(Request { interrupt, question, pending });
        NextStep::RestartTimeout
    }

    /// Cancels the open request, because its answer is no longer needed.
    pub(super) async fn withdraw(&mut self, reason: &str) {
        let Some(request) = self.open.take() else { return };
        let params = json!({"requestId": request.pending.id(), "reason": reason});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        // A disconnected client need not be notified.
        drop(self.client_channel.to.send(message).await);
    }
}

/// Why an answer was rejected, on one line.
fn reason(refusal: &Refusal) -> String {
    let mut reason = format!("The answer was not accepted: {}", refusal.message);
    for (name, value) in &refusal.details {
        match (name.as_str(), value) {
            ("path", Value::String(path)) if !path.is_empty() => reason += &format!(" (at {path})"),
            ("problem", Value::String(problem)) => reason += &format!(": {problem}"),
            ("missing", missing) => reason += &format!("; missing: {missing}"),
            _ => {}
        }
    }
    short(&reason, MAX_REASON_CHARACTERS)
}
