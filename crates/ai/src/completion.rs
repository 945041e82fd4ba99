//! The machine of one call: which request is due, and what follows from its reply.
//!
//! ```text
//!             ┌───────────────── truncated: more room, nothing said ──────────────┐
//!             ▼                                                                   │
//!  start ─▶ call ─▶ reply ─▶ refused ──────────────────────────▶ failed           │
//!             ▲        │                                                          │
//!             │        ├─▶ cut off ───────────────────────────────────────────────┤
//!             │        ├─▶ a document that fits ────────────────▶ done            │
//!             │        └─▶ no document, or one that does not fit ─┐               │
//!             └──────────── what was wrong is said ◀──────────────┤               │
//!                                                     budget spent ▼ ◀────────────┘
//!                        prose every time: one more call that only formats, else ▶ failed
//! ```
//!
//! The machine is fed replies and knows nothing of where they come from. Fed the same replies again, from a record, it
//! gives the same events; so a run that crashed, and a replay, go through it without a call.

use serde_json::Value;

use crate::event::{self, EventKind, RunEvent};
use crate::failure::FailureCode;
use crate::provider::{Message, Output, ProviderError, ProviderErrorKind, Reply, Request, Usage};
use crate::redact::Redactor;
use crate::schema::{self, Schema};
use crate::usage;
use crate::words::words;

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
pub use envelopes::{ENVELOPES_PER_TURN, Judging, Taken};

words! {
    /// Why a reply is asked for again, or is not.
    pub enum Reason {
        /// The document does not fit.
        SchemaViolation => "schema-violation",
        /// The reply was cut off.
        Truncation => "truncation",
        /// The envelope is of another kind than before.
        TypeDrift => "type-drift",
        /// A value is of another type than declared.
        TypeMismatch => "type-mismatch",
        /// The provider refused.
        Refusal => "refusal",
        /// There is no document in the reply.
        ParseError => "parse-error",
        /// Something else.
        Unknown => "unknown",
    }
}

/// What a call is made under.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node that asks.
    pub node_id: String,
    /// The provider, as events name it.
    pub provider: String,
    /// What kind of thing the reply is, as events name it.
    pub envelope_type: String,
    /// How often, and with how much room.
    pub budget: Budget,
    /// Whether prose is turned into a document by one more call, when nothing else helped.
    pub nl_to_format: bool,
    /// What must not be recorded.
    pub redactor: Redactor,
    /// How replies that are envelopes are judged. Without it they are replies as any other.
    pub envelopes: Option<Judging>,
}

impl Settings {
    /// Settings with the usual budget.
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

/// A call that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The how-many-eth call of this node this is, from 0. It is a part of the identity under which the call is paid for
    /// once; asking again after a failure of the network has the same number.
    pub ordinal: u32,
    /// The request.
    pub request: Request,
    /// Whether the request says what was wrong with the reply before.
    pub corrective: bool,
    /// How long to wait before, in milliseconds.
    pub wait_ms: u64,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// A reply.
    Reply(Reply),
    /// A reply that was recorded before: nobody was asked, and nothing was paid.
    Recorded(Reply),
    /// No reply.
    Failed(ProviderError),
}

/// The end of a call that went well.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The document; the text, where no document was asked for.
    pub value: Value,
    /// The last reply.
    pub reply: Reply,
    /// The envelope that the reply is, where it is one.
    pub envelope: Option<Taken>,
    /// What all calls together counted.
    pub usage: Usage,
}

/// The end of a call that did not. The message repeats nothing that a model or a person said.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// Why.
    pub code: FailureCode,
    /// Why, for people.
    pub message: String,
    /// More of it, for programs.
    pub details: Option<Value>,
    /// Whether the node may be tried again.
    pub retryable: bool,
    /// What all calls together counted.
    pub usage: Usage,
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Another call.
    Call(Call),
    /// The reply is this envelope. It is [judged](Completion::judge), and the judgement [taken](Completion::take).
    Judge(Value),
    /// The model asks a person. The last event says what; the [answers](Completion::answered) go on from here.
    Waits,
    /// A value.
    Done(Done),
    /// None.
    Failed(Failed),
}

/// The events of an attempt, in order, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// To be recorded before anything follows.
    pub events: Vec<RunEvent>,
    /// What follows.
    pub next: Next,
}

/// One call of a node, from its first request to its end.
#[derive(Clone, Debug)]
pub struct Completion {
    settings: Settings,
    /// What is asked, as the node asks it.
    request: Request,
    schema: Option<Schema>,
    /// The call that is under way.
    current: Call,
    /// Replies so far, those of the formatting call not counted.
    attempts: u32,
    /// Failures of the network since the last reply.
    failures: u32,
    /// Whether every reply so far was prose.
    only_prose: bool,
    formatting: bool,
    /// How many envelopes came.
    letters: envelopes::Letters,
    usage: Usage,
}

/// What is wrong with a reply.
struct Problem {
    reason: Reason,
    text: String,
    prose: bool,
}

impl Completion {
    /// A machine, and the first call that is due. Without a schema any text is a value.
    pub fn start(settings: Settings, mut request: Request, schema: Option<Schema>) -> (Self, Call) {
        request.max_output_tokens = request.max_output_tokens.clamp(1, settings.budget.output_ceiling());
        Self::begin(settings, request, schema, 0)
    }

    /// The first turn of a conversation: any text is a value.
    pub(crate) fn turn(settings: Settings, mut request: Request) -> (Self, Call) {
        request.max_output_tokens = request.max_output_tokens.clamp(1, settings.budget.output_ceiling());
        Self::begin(settings, request, None, 0)
    }

    /// The next turn of the same conversation.
    pub(crate) fn next_turn(&mut self, more: impl IntoIterator<Item = Message>) -> Call {
        self.request.messages.extend(more);
        (self.attempts, self.failures, self.usage) = (0, 0, Usage::default());
        let request = self.request.clone();
        self.current = Call { ordinal: self.current.ordinal + 1, request, corrective: false, wait_ms: 0 };
        self.current.clone()
    }

    fn begin(mut settings: Settings, request: Request, schema: Option<Schema>, ordinal: u32) -> (Self, Call) {
        if let (Some(judging), Some(schema)) = (&mut settings.envelopes, &schema) {
            judging.take_document(&settings.envelope_type, schema.clone());
        }
        let current = Call { ordinal, request: request.clone(), corrective: false, wait_ms: 0 };
        let completion = Self {
            settings,
            request,
            schema,
            current: current.clone(),
            attempts: 0,
            failures: 0,
            only_prose: true,
            formatting: false,
            letters: envelopes::Letters::default(),
            usage: Usage::default(),
        };
        (completion, current)
    }

    /// What all calls so far counted.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Takes what came of the call that is under way.
    pub fn on(&mut self, attempt: Attempt) -> Step {
        match attempt {
            Attempt::Failed(error) => self.failed(&error),
            Attempt::Reply(reply) => self.replied(reply, false),
            Attempt::Recorded(reply) => self.replied(reply, true),
        }
    }

    /// The network or the provider failed: the same call again, if that may help.
    fn failed(&mut self, error: &ProviderError) -> Step {
        self.failures += 1;
        if error.is_retryable() && self.failures <= self.settings.budget.failures {
            let doubled = 500_u64 << self.failures.min(6);
            self.current.wait_ms = error.retry_after_ms.unwrap_or(doubled);
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
        // A model may repeat what it was told. What was recorded is clean already, and stays as it is.
        let reply = redacted(reply, &self.settings.redactor);
        self.failures = 0;
        self.count(reply.usage);
        let mut events = vec![usage::event(
            usage::Call {
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
            return self.cut_off(events);
        }
        let problem = match read {
            Some(found) => {
                if found.path != recover::Path::Direct {
                    events.push(reliability::recovery_applied(&self.settings.node_id, &found));
                }
                match schema.issues(&found.value) {
                    issues if issues.is_empty() => return self.done(events, found.value, reply, None),
                    issues => Problem::of_issues(&issues),
                }
            }
            None => Problem::of_text(&reply.text),
        };
        self.unfit(events, &problem, &reply.text)
    }

    /// Refusals are final. Asking again in other words would look for a way around the provider's rules.
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

    /// A refusal may repeat what it refuses. Whoever reads the event need not be one who may read the prompt.
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

    /// A reply that was cut off needs room, not advice.
    fn cut_off(&mut self, events: Vec<RunEvent>) -> Step {
        if self.formatting {
            return self.exhausted(events, Reason::Truncation, "the reply was cut off");
        }
        self.attempts += 1;
        self.only_prose = false;
        let room = self.settings.budget.grown(self.request.max_output_tokens);
        match room {
            Some(room) if self.may_retry() => {
                self.request.max_output_tokens = room;
                let request = self.request.clone();
                self.again(events, request, false, Reason::Truncation, "the reply was cut off")
            }
            _ => self.exhausted(events, Reason::Truncation, "the reply was cut off"),
        }
    }

    fn unfit(&mut self, mut events: Vec<RunEvent>, problem: &Problem, text: &str) -> Step {
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
        self.attempts + self.letters.schemas < self.settings.budget.attempts() && !self.rounds_are_spent()
    }

    fn rounds_are_spent(&self) -> bool {
        self.rounds().is_some_and(Counter::is_reached)
    }

    /// The rounds of the run, with those that this call took: each reply that was asked for again, and each schema.
    fn rounds(&self) -> Option<Counter> {
        let taken = (self.attempts + self.letters.schemas).saturating_sub(1);
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
        self.current = Call { ordinal: self.current.ordinal + 1, request, corrective, wait_ms: 0 };
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
                let message = format!("every reply was cut off, the last one with room for {room} tokens");
                (FailureCode::EnvelopeTruncationUnrecoverable, message)
            }
            _ => (FailureCode::EnvelopeInvalid, format!("no reply was a document that fits: {error}")),
        };
        self.end(events, code, message, false)
    }

    fn end(&self, events: Vec<RunEvent>, code: FailureCode, message: String, retryable: bool) -> Step {
        let failed = Failed { code, message, details: None, retryable, usage: self.usage };
        Step { events, next: Next::Failed(failed) }
    }

    fn done(&self, events: Vec<RunEvent>, value: Value, reply: Reply, envelope: Option<Taken>) -> Step {
        Step { events, next: Next::Done(Done { value, reply, envelope, usage: self.usage }) }
    }

    fn count(&mut self, usage: Usage) {
        self.usage = self.usage.plus(usage);
    }

    /// Whether a document was asked for.
    pub const fn is_structured(&self) -> bool {
        matches!(self.request.output, Output::Json { .. })
    }

    /// The messages of the call that is under way.
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
        let text = if text.trim().is_empty() {
            "the reply is empty"
        } else {
            "there is no JSON document in the reply"
        };
        Self { reason: Reason::ParseError, text: text.to_owned(), prose }
    }
}
