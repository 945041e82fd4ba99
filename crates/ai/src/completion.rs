//! The state machine of one model call: which request to send next, and what follows from its reply.
//!
//! ```text
//!             ┌───────── truncated: larger token limit, no correction ────────────┐
//!             ▼                                                                   │
//!  start ─▶ call ─▶ reply ─▶ refused ──────────────────────────▶ failed           │
//!             ▲        │                                                          │
//!             │        ├─▶ truncated ─────────────────────────────────────────────┤
//!             │        ├─▶ valid document ──────────────────────▶ done            │
//!             │        └─▶ no document, or an invalid one ────────┐               │
//!             └──────────── correction message ◀──────────────────┤               │
//!                                                 budget exhausted ▼ ◀────────────┘
//!                        only prose so far: one formatting call, otherwise ▶ failed
//! ```
//!
//! The machine receives replies and does no I/O. The same replies, read from a record, produce the same events, so
//! recovery after a crash and replay need no model call.

use serde_json::Value;

use crate::event::{self, EventKind, RunEvent};
use crate::failure::FailureCode;
use crate::provider::{Message, Output, ProviderError, ProviderErrorKind, Reply, Request, Usage};
use crate::redact::Redactor;
use crate::schema::{self, Schema};
use crate::usage;
use crate::wire_enum::wire_enum;

mod budget;
mod clean;
mod correct;
pub mod divergence;
pub mod envelopes;
pub mod recover;
pub mod reliability;

pub use budget::{Budget, Counter, DEFAULT_ATTEMPTS, MAX_ATTEMPTS, MAX_OUTPUT_TOKENS};
pub use clean::redacted;
pub(crate) use correct::instruction;
pub use envelopes::{AcceptedEnvelope, ENVELOPES_PER_TURN, EnvelopeRules};

wire_enum! {
    /// Why a reply is requested again, or why retries stop.
    pub enum Reason {
        /// The document does not match the schema.
        SchemaViolation => "schema-violation",
        /// The provider truncated the reply.
        Truncation => "truncation",
        /// The envelope has a different kind than the previous one.
        TypeDrift => "type-drift",
        /// A value has a different type than declared.
        TypeMismatch => "type-mismatch",
        /// The provider refused to answer.
        Refusal => "refusal",
        /// The reply contains no JSON document.
        ParseError => "parse-error",
        Unknown => "unknown",
    }
}

/// Configuration of one model call.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node that makes the call.
    pub node_id: String,
    /// The provider name used in events.
    pub provider: String,
    /// The kind of the reply, used in events.
    pub envelope_type: String,
    /// The retry and output-token budget.
    pub budget: Budget,
    /// Whether to send one more call that converts prose to a document after all retries failed.
    pub nl_to_format: bool,
    /// Removes secrets from everything that is recorded.
    pub redactor: Redactor,
    /// How to validate replies that are envelopes. If `None`, an envelope is treated as any other reply.
    pub envelopes: Option<EnvelopeRules>,
}

impl Settings {
    /// Settings with the default budget.
    pub fn new(node_id: impl Into<String>, provider: impl Into<String>) -> Self {
        Self {
            node_id: node_id.into(),
            provider: provider.into(),
            envelope_type: "structured-output".to_owned(),
            budget: Budget::default(),
            nl_to_format: true,
            redactor: Redactor::default(),
            envelopes: None,
        }
    }
}

/// A model call to make now.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// Zero-based index of this call in the node. It is part of the idempotency key: a retry after a network failure
    /// keeps the number, so the call is billed once.
    pub ordinal: u32,
    pub request: Request,
    /// Whether the request includes a correction of the previous reply.
    pub corrective: bool,
    /// How long to wait before the call, in milliseconds.
    pub wait_ms: u64,
}

/// The result of a model call.
#[derive(Clone, Debug)]
pub enum Attempt {
    Reply(Reply),
    /// A reply from the record. No call was made and nothing was billed.
    Recorded(Reply),
    Failed(ProviderError),
}

/// A successful completion.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The document, or the text if no document was requested.
    pub value: Value,
    pub reply: Reply,
    /// The envelope, if the reply is one.
    pub envelope: Option<AcceptedEnvelope>,
    /// Total usage of all calls.
    pub usage: Usage,
}

/// A failed completion. The message never quotes text of a model or a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    pub code: FailureCode,
    pub message: String,
    pub details: Option<Value>,
    /// Whether the node may be retried.
    pub retryable: bool,
    /// Total usage of all calls.
    pub usage: Usage,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Make another model call.
    Call(ModelCall),
    /// The reply is this envelope: call [`Completion::judge`], then [`Completion::take`] with the verdict.
    Judge(Value),
    /// The model asks a person; the last event has the questions. Continue with [`Completion::answered`].
    Waits,
    Done(Done),
    Failed(Failed),
}

/// The events of one attempt, in order, and what to do next.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Record these before acting on `next`.
    pub events: Vec<RunEvent>,
    pub next: Next,
}

/// The state of one model call of a node, from the first request to the end.
#[derive(Clone, Debug)]
pub struct Completion {
    settings: Settings,
    /// The request as the node configured it.
    request: Request,
    schema: Option<Schema>,
    /// The call in progress.
    current: ModelCall,
    /// Replies so far, without the formatting call.
    attempts: u32,
    /// Network failures since the last reply.
    failures: u32,
    only_prose: bool,
    formatting: bool,
    /// How many envelopes arrived.
    envelope_count: envelopes::EnvelopeCount,
    usage: Usage,
}

struct Problem {
    reason: Reason,
    text: String,
    prose: bool,
}

impl Completion {
    /// Creates the machine and the first call. Without a schema, any text is a valid value.
    pub fn start(settings: Settings, mut request: Request, schema: Option<Schema>) -> (Self, ModelCall) {
        request.max_output_tokens = request.max_output_tokens.clamp(1, settings.budget.output_ceiling());
        Self::begin(settings, request, schema, 0)
    }

    /// Starts the first turn of a conversation. Any text is a valid value.
    pub(crate) fn turn(settings: Settings, mut request: Request) -> (Self, ModelCall) {
        request.max_output_tokens = request.max_output_tokens.clamp(1, settings.budget.output_ceiling());
        Self::begin(settings, request, None, 0)
    }

    /// Starts the next turn of the same conversation.
    pub(crate) fn next_turn(&mut self, more: impl IntoIterator<Item = Message>) -> ModelCall {
        self.request.messages.extend(more);
        (self.attempts, self.failures, self.usage) = (0, 0, Usage::default());
        let request = self.request.clone();
        self.current =
            ModelCall { ordinal: self.current.ordinal + 1, request, corrective: false, wait_ms: 0 };
        self.current.clone()
    }

    fn begin(
        mut settings: Settings,
        request: Request,
        schema: Option<Schema>,
        ordinal: u32,
    ) -> (Self, ModelCall) {
        if let (Some(judging), Some(schema)) = (&mut settings.envelopes, &schema) {
            judging.take_document(&settings.envelope_type, schema.clone());
        }
        let current = ModelCall { ordinal, request: request.clone(), corrective: false, wait_ms: 0 };
        let completion = Self {
            settings,
            request,
            schema,
            current: current.clone(),
            attempts: 0,
            failures: 0,
            only_prose: true,
            formatting: false,
            envelope_count: envelopes::EnvelopeCount::default(),
            usage: Usage::default(),
        };
        (completion, current)
    }

    /// Total usage of all calls so far.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Processes the result of the call in progress.
    pub fn on(&mut self, attempt: Attempt) -> Step {
        match attempt {
            Attempt::Failed(error) => self.failed(&error),
            Attempt::Reply(reply) => self.replied(reply, false),
            Attempt::Recorded(reply) => self.replied(reply, true),
        }
    }

    /// Retries the same call after a network or provider failure, if the failure is retryable.
    fn failed(&mut self, error: &ProviderError) -> Step {
        self.failures += 1;
        if error.is_retryable() && self.failures <= self.settings.budget.failures {
            let doubled = 500_u64 << self.failures.min(6);
            // A provider may ask for a retry at once. That is still a retry, and never mistaken for the first request.
            self.current.wait_ms = error.retry_after_ms.unwrap_or(doubled).max(1);
            return Step { events: Vec::new(), next: Next::Call(self.current.clone()) };
        }
        let code = match error.kind {
            ProviderErrorKind::RateLimited => FailureCode::ProviderRateLimited,
            ProviderErrorKind::Unavailable => FailureCode::ProviderUnavailable,
            ProviderErrorKind::Unauthorized => FailureCode::CredentialRequired,
            ProviderErrorKind::Rejected => FailureCode::ProviderRejected,
            ProviderErrorKind::InvalidReply => FailureCode::ProviderReplyInvalid,
        };
        self.end(Vec::new(), code, error.to_string(), error.is_retryable())
    }

    fn replied(&mut self, reply: Reply, recorded: bool) -> Step {
        // A model may repeat secrets from its prompt. A recorded reply is already redacted and does not change.
        let reply = redacted(reply, &self.settings.redactor);
        self.failures = 0;
        self.count(reply.usage);
        let mut events = vec![usage::event(
            usage::CallRecord {
                provider: &self.settings.provider,
                model: &self.current.request.model,
                node_id: Some(&self.settings.node_id),
                cache_hit: recorded,
            },
            reply.usage,
        )];
        if reply.is_refusal() {
            return self.refused(events, &reply);
        }
        if let Some((document, recovered)) = self.envelope_in(&reply) {
            events.extend(recovered);
            return self.hold(events, reply, document);
        }
        let Some(schema) = &self.schema else {
            let value = Value::String(reply.text.clone());
            return self.done(events, value, reply, None);
        };
        let read = recover::read(&reply.text);
        if reply.stop.is_truncation() {
            events.push(self.truncated(&reply, read.is_some()));
            return self.retry_truncated(events);
        }
        let problem = match read {
            Some(found) => {
                if found.path != recover::RecoveryPath::Direct {
                    events.push(reliability::recovery_applied(&self.settings.node_id, &found));
                }
                match schema.issues(&found.value) {
                    issues if issues.is_empty() => return self.done(events, found.value, reply, None),
                    issues => Problem::of_issues(&issues),
                }
            }
            None => Problem::of_text(&reply.text),
        };
        self.retry_invalid(events, &problem, &reply.text)
    }

    /// A refusal is final. Rephrasing the request would try to circumvent the provider's rules.
    fn refused(&self, mut events: Vec<RunEvent>, reply: &Reply) -> Step {
        let refusal = reply.refusal.clone().unwrap_or_default();
        let text = refusal.text.map(|text| self.settings.redactor.clean(&text));
        events.push(RunEvent::new(
            EventKind::Refusal,
            [
                ("nodeId", self.settings.node_id.as_str().into()),
                ("provider", self.settings.provider.as_str().into()),
                ("model", self.current.request.model.as_str().into()),
                ("refusalText", text.map(|text| self.without_prompt(&text)).into()),
                ("safetyCategory", refusal.category.map(|text| self.settings.redactor.clean(&text)).into()),
            ],
        ));
        self.end(events, FailureCode::EnvelopeRefusal, "the provider refused to answer".to_owned(), false)
    }

    /// Removes quotes of the prompt from a refusal: readers of the event may not be allowed to read the prompt.
    fn without_prompt(&self, text: &str) -> String {
        const LONGEST: usize = 1024;
        const TELLING: usize = 16;
        let mut text = canon::budget::truncate(text, LONGEST).into_owned();
        for message in &self.current.request.messages {
            for line in message.content.lines().map(str::trim).filter(|line| line.len() >= TELLING) {
                if line.len() <= text.len() && text.contains(line) {
                    text = text.replace(line, "[PROMPT]");
                }
            }
        }
        text
    }

    fn truncated(&self, reply: &Reply, partial: bool) -> RunEvent {
        RunEvent::new(
            EventKind::Truncated,
            [
                ("nodeId", self.settings.node_id.as_str().into()),
                ("provider", self.settings.provider.as_str().into()),
                ("model", self.current.request.model.as_str().into()),
                ("stopReason", reply.stop.into()),
                ("partialPayloadAvailable", partial.into()),
                ("outputTokenCount", reply.usage.output_tokens.into()),
            ],
        )
    }

    /// A truncated reply needs a larger token limit, not a correction.
    fn retry_truncated(&mut self, events: Vec<RunEvent>) -> Step {
        if self.formatting {
            return self.exhausted(events, Reason::Truncation, "the reply was truncated");
        }
        self.attempts += 1;
        self.only_prose = false;
        let room = self.settings.budget.grown(self.request.max_output_tokens);
        match room {
            Some(room) if self.may_retry() => {
                self.request.max_output_tokens = room;
                let request = self.request.clone();
                self.again(events, request, false, Reason::Truncation, "the reply was truncated")
            }
            _ => self.exhausted(events, Reason::Truncation, "the reply was truncated"),
        }
    }

    fn retry_invalid(&mut self, mut events: Vec<RunEvent>, problem: &Problem, text: &str) -> Step {
        if self.formatting {
            return self.exhausted(events, problem.reason, &problem.text);
        }
        self.attempts += 1;
        self.only_prose &= problem.prose;
        if self.may_retry() {
            let request =
                correct::corrected(&self.request, &problem.text, self.schema.as_ref().map(Schema::source));
            return self.again(events, request, true, problem.reason, &problem.text);
        }
        if self.settings.nl_to_format && self.only_prose && !self.rounds_are_spent() {
            self.formatting = true;
            events.push(reliability::nl_to_format(&self.settings.node_id, &self.settings.envelope_type));
            let schema = self.schema.as_ref().map(Schema::source);
            return self.call(events, correct::formatting(&self.request, text, schema), true);
        }
        self.exhausted(events, problem.reason, &problem.text)
    }

    fn may_retry(&self) -> bool {
        self.attempts + self.envelope_count.schemas < self.settings.budget.attempts()
            && !self.rounds_are_spent()
    }

    fn rounds_are_spent(&self) -> bool {
        self.rounds().is_some_and(Counter::is_reached)
    }

    /// The schema rounds of the run, including the retries and schema requests of this call.
    fn rounds(&self) -> Option<Counter> {
        let taken = (self.attempts + self.envelope_count.schemas).saturating_sub(1);
        self.settings.budget.schema_rounds.map(|rounds| rounds.plus(taken))
    }

    fn again(
        &mut self,
        mut events: Vec<RunEvent>,
        request: Request,
        corrective: bool,
        reason: Reason,
        error: &str,
    ) -> Step {
        let attempt = self.attempts + 1;
        events.push(reliability::retry_attempted(&self.settings.node_id, attempt, reason, error));
        self.call(events, request, corrective)
    }

    fn call(&mut self, events: Vec<RunEvent>, request: Request, corrective: bool) -> Step {
        self.current = ModelCall { ordinal: self.current.ordinal + 1, request, corrective, wait_ms: 0 };
        Step { events, next: Next::Call(self.current.clone()) }
    }

    fn exhausted(&self, mut events: Vec<RunEvent>, reason: Reason, error: &str) -> Step {
        let node_id = self.settings.node_id.as_str();
        events.push(reliability::retry_exhausted(node_id, self.attempts, reason, error));
        let breach = match self.rounds() {
            Some(rounds) if rounds.is_reached() => Some((rounds.cap, rounds.current)),
            _ => matches!(reason, Reason::Truncation | Reason::SchemaViolation | Reason::TypeMismatch)
                .then(|| (u64::from(self.settings.budget.attempts()), u64::from(self.attempts))),
        };
        if let Some((limit, observed)) = breach {
            events.push(event::cap_breached("schema", limit, observed, Some(node_id)));
        }
        let (code, message) = match reason {
            Reason::Truncation => {
                let room = self.request.max_output_tokens;
                let message = format!("every reply was truncated, the last one at a limit of {room} tokens");
                (FailureCode::EnvelopeTruncationUnrecoverable, message)
            }
            _ => (FailureCode::EnvelopeInvalid, format!("no reply was a valid document: {error}")),
        };
        self.end(events, code, message, false)
    }

    fn end(&self, events: Vec<RunEvent>, code: FailureCode, message: String, retryable: bool) -> Step {
        let failed = Failed { code, message, details: None, retryable, usage: self.usage };
        Step { events, next: Next::Failed(failed) }
    }

    fn done(
        &self,
        events: Vec<RunEvent>,
        value: Value,
        reply: Reply,
        envelope: Option<AcceptedEnvelope>,
    ) -> Step {
        Step { events, next: Next::Done(Done { value, reply, envelope, usage: self.usage }) }
    }

    fn count(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    /// Whether a document was requested.
    pub const fn is_structured(&self) -> bool {
        matches!(self.request.output, Output::Json { .. })
    }

    /// The messages of the call in progress.
    pub fn messages(&self) -> &[Message] {
        &self.current.request.messages
    }
}

impl Problem {
    fn of_issues(issues: &[schema::Issue]) -> Self {
        let types = issues.iter().all(|issue| issue.keyword == "type");
        let reason = if types { Reason::TypeMismatch } else { Reason::SchemaViolation };
        Self { reason, text: schema::summary(issues), prose: false }
    }

    fn of_text(text: &str) -> Self {
        let prose = recover::is_prose(text);
        let text =
            if text.trim().is_empty() { "the reply is empty" } else { "the reply contains no JSON document" };
        Self { reason: Reason::ParseError, text: text.to_owned(), prose }
    }
}
