//! Replies that are envelopes: messages from the model to the engine instead of the requested output.
//!
//! ```text
//!  reply ─▶ an envelope? ── no ─▶ normal reply
//!              │ yes: validated, with the history of its correlation id
//!              ▼
//!  accepted ─┬─ clarification.request ─▶ waits for a person; the answers go to the model
//!            ├─ schema.request ────────▶ the model is called again, with the schema
//!            ├─ schema.response ───────▶ the model is called again
//!            ├─ the document ──────────▶ done: the document arrived in an envelope
//!            └─ an error, or a kind of the contract ─▶ recorded; done if text was requested, otherwise call again
//!  refused ──┬─ retryable, or to be discarded ─▶ correction message, as for any invalid reply
//!            └─ otherwise ─▶ failed
//! ```
//!
//! A document counts as an envelope if it has a kind and a payload, no member that envelopes do not have, and a kind
//! that is accepted here. Metadata that the model cannot know is filled in.
//!
//! The caller passes the history and the number of questions asked so far to the validation, so the machine stays
//! deterministic.

use canon::digest::Digest;
use serde_json::{Map, Value, json};

use super::{Completion, Counter, Next, Reason, Step, correct, recover, reliability};
use crate::envelope::{
    Acceptance, Contract, Counters, Detail, Envelope, EnvelopeDefaults, EnvelopeOutcome, Kinds, Prior,
    RefusalMode, Strictness, Universal, Verdict, accept, project,
};
use crate::event::{self, EventKind, RunEvent};
use crate::failure::FailureCode;
use crate::provider::{Message, Reply, Role};
use crate::schema::Schema;
use crate::trust::{self, Trust};

/// The maximum number of envelopes per model turn.
pub const ENVELOPES_PER_TURN: u32 = 5;

/// The maximum length of a correlation id, in bytes.
const MAX_CORRELATION_BYTES: usize = 128;

/// How replies that are envelopes are validated.
#[derive(Clone, Debug)]
pub struct EnvelopeRules {
    /// The kinds that the host supports.
    pub kinds: Kinds,
    /// The kinds that the node accepts. Without a contract, only the universal kinds.
    pub contract: Option<Contract>,
    /// How older schema versions are handled.
    pub strictness: Strictness,
    /// Whether the content of the run is trusted.
    pub run_trust: Option<Trust>,
    /// Prefix of generated correlation ids: the run and the node.
    pub prefix: String,
    /// When the call is made, as an RFC 3339 timestamp.
    pub at: String,
}

impl EnvelopeRules {
    /// Allows the requested document to arrive in an envelope.
    pub(super) fn take_document(&mut self, kind: &str, schema: Schema) {
        if Universal::parse(kind).is_none() {
            self.kinds.add(kind, schema, 1);
            self.contract = self.contract.take().map(|contract| contract.with(kind));
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedEnvelope {
    pub kind: String,
    pub envelope_id: String,
    /// Identifies the envelope if it arrives again.
    pub correlation_id: String,
    /// The redacted payload.
    pub payload: Value,
    pub trust: Trust,
}

/// How many envelopes arrived, and the one being validated.
#[derive(Clone, Debug, Default)]
pub(super) struct EnvelopeCount {
    /// All kinds.
    taken: u32,
    /// Schema requests.
    pub(super) schemas: u32,
    held: Option<(Reply, Vec<RunEvent>)>,
}

impl Completion {
    /// Returns the envelope in a reply, and how it was recovered if that should be recorded.
    pub(super) fn envelope_in(&self, reply: &Reply) -> Option<(Value, Option<RunEvent>)> {
        let judging = self.settings.envelopes.as_ref()?;
        if reply.stop.is_truncation() || !reply.tool_calls.is_empty() || self.formatting {
            return None;
        }
        // An envelope in the middle of a text is an example, not a message.
        let text = reply.text.trim();
        let alone = text.starts_with('{') || (text.starts_with("```") && text.ends_with("```"));
        if self.schema.is_none() && !alone {
            return None;
        }
        let found = recover::read(&reply.text)?;
        let (kind, whole) = Envelope::meant(&found.value)?;
        let universal = Universal::parse(kind).is_some();
        let document = self.schema.is_some() && kind == self.settings.envelope_type;
        let contracted = judging.contract.as_ref().is_some_and(|contract| whole || contract.takes(kind));
        if !(universal || document || contracted) {
            return None;
        }
        // The requested document may look like the payload of an envelope.
        if !whole && self.schema.as_ref().is_some_and(|schema| schema.issues(&found.value).is_empty()) {
            return None;
        }
        let recovered = (found.path != recover::RecoveryPath::Direct)
            .then(|| reliability::recovery_applied(&self.settings.node_id, &found));
        let correlation_id = judging.correlation(self.current.ordinal, kind);
        let envelope_id = format!("env-{}", &Digest::of_bytes(correlation_id.as_bytes()).to_hex()[..32]);
        let version = judging.kinds.current(kind).filter(|_| !whole);
        let (correlation_id, envelope_id) = (correlation_id.as_str(), envelope_id.as_str());
        let around = EnvelopeDefaults { correlation_id, envelope_id, at: &judging.at, version };
        let mut document = found.value;
        // The run assigns the event ids.
        let given = document.get("correlationId").and_then(Value::as_str);
        if given.is_some_and(|id| id.starts_with("evt_")) {
            document["correlationId"] = correlation_id.into();
        }
        Envelope::complete(&mut document, around);
        // The model cannot claim more trust than its prompt had.
        if judging.run_trust == Some(Trust::Untrusted)
            && let Some(meta) = document.get_mut("meta").and_then(Value::as_object_mut)
        {
            meta.insert("contentTrust".to_owned(), Trust::Untrusted.into());
        }
        Some((document, recovered))
    }

    /// Marks the conversation as untrusted: the prompt contains untrusted text.
    pub(crate) fn distrust(&mut self) {
        if let Some(judging) = &mut self.settings.envelopes {
            judging.run_trust = Some(Trust::Untrusted);
        }
    }

    /// Keeps a reply until it is validated.
    pub(super) fn hold(&mut self, events: Vec<RunEvent>, reply: Reply, document: Value) -> Step {
        self.envelope_count.held = Some((reply, events));
        Step { events: Vec::new(), next: Next::Judge(document) }
    }

    /// Validates an envelope. `prior` is the earlier outcome for its correlation id; `questions` counts the questions
    /// asked so far. Without a counter there is no limit, for example when an envelope is validated again.
    pub fn judge(&self, document: &Value, prior: Option<&Prior>, questions: Option<Counter>) -> Verdict {
        let judging = self.settings.envelopes.as_ref();
        let unknown = Kinds::only([]);
        let budget = self.settings.budget;
        let rounds = self.attempts + self.envelope_count.schemas;
        let schema = budget.schema_rounds.map_or_else(
            || Counter { current: rounds.into(), cap: u64::from(budget.attempts().saturating_sub(1)) },
            |counter| counter.plus(rounds),
        );
        accept(&Acceptance {
            envelope: document,
            supported: judging.is_some(),
            kinds: judging.map_or(&unknown, |judging| &judging.kinds),
            strictness: judging.map_or(Strictness::Warn, |judging| judging.strictness),
            contract: judging.and_then(|judging| judging.contract.as_ref()),
            counters: Counters {
                envelopes: Some(Counter {
                    current: self.envelope_count.taken.into(),
                    cap: ENVELOPES_PER_TURN.into(),
                }),
                schema: Some(schema),
                clarification: questions,
            },
            redactor: &self.settings.redactor,
            run_trust: judging.and_then(|judging| judging.run_trust),
            prior: &|_| prior.cloned(),
            // A model cannot give an approval that a person must give.
            approves: false,
            clarifications: true,
        })
    }

    /// Applies the verdict on the envelope in the last reply.
    pub fn take(&mut self, verdict: &Verdict) -> Step {
        let Some((reply, mut events)) = self.envelope_count.held.take() else {
            let message = "a verdict arrived without a pending envelope".to_owned();
            return self.end(Vec::new(), FailureCode::EnvelopeValidationFailed, message, false);
        };
        let mode = self.refusal_mode();
        let mut projection = project(verdict, &self.settings.node_id, mode);
        for event in &mut events {
            event.causation_id.clone_from(&projection.causation_id);
        }
        // The engine itself reports failed nodes and announces questions.
        let said = projection.events.iter().find(|event| event.kind == EventKind::NodeFailed);
        let failure = said.and_then(|event| event.payload.get("error").cloned());
        projection
            .events
            .retain(|event| !matches!(event.kind, EventKind::NodeFailed | EventKind::ClarificationRequested));
        let mut follows: Vec<RunEvent> = self.notes(verdict);
        follows.append(&mut projection.events);
        for mut event in follows {
            event.causation_id.clone_from(&projection.causation_id);
            event.payload.insert("contentTrust".to_owned(), projection.content_trust.into());
            events.push(event);
        }
        match (&verdict.outcome, &verdict.envelope) {
            (EnvelopeOutcome::Accepted { .. }, Some(envelope)) => {
                self.accepted(events, envelope, verdict.trust, reply)
            }
            (EnvelopeOutcome::Recorded(_), _) => self.ask_again(
                events,
                Reason::TypeDrift,
                "an envelope with this correlation id was already processed",
            ),
            (EnvelopeOutcome::Gated { .. } | EnvelopeOutcome::Invalid { .. }, _) if verdict.retryable => {
                let reason = match &verdict.outcome {
                    EnvelopeOutcome::Invalid { .. } => Reason::SchemaViolation,
                    _ => Reason::TypeDrift,
                };
                self.ask_again(events, reason, &why(verdict))
            }
            (EnvelopeOutcome::Gated { .. }, _) if mode == RefusalMode::DiscardAndWarn => {
                self.ask_again(events, Reason::TypeDrift, &why(verdict))
            }
            _ => self.refuse(events, verdict, failure.as_ref()),
        }
    }

    /// Sends the answers of a person to the model.
    pub fn answered(&mut self, answers: &Value) -> Step {
        let answers = answers.get("answers").unwrap_or(answers);
        let mut said = answers.to_string();
        if self.settings.envelopes.as_ref().and_then(|judging| judging.run_trust) == Some(Trust::Untrusted) {
            said = trust::wrap(&said);
        }
        self.continue_with(Vec::new(), format!("The answers to your questions, by their ids:\n{said}"))
    }

    fn accepted(
        &mut self,
        mut events: Vec<RunEvent>,
        envelope: &Envelope,
        trust: Trust,
        reply: Reply,
    ) -> Step {
        self.envelope_count.taken += 1;
        let said = Message::new(Role::Assistant, reply.text.clone());
        match Universal::parse(&envelope.kind) {
            Some(Universal::ClarificationRequest) => {
                self.request.messages.push(said);
                Step { events, next: Next::Waits }
            }
            Some(Universal::SchemaRequest) => {
                self.envelope_count.schemas += 1;
                self.request.messages.push(said);
                let kind = envelope.payload.get("envelopeType").and_then(Value::as_str).unwrap_or_default();
                let kinds = self.settings.envelopes.as_ref().map(|judging| &judging.kinds);
                let schema = match kinds.and_then(|kinds| kinds.source(kind)) {
                    Some(schema) => format!("must match this JSON Schema:\n{schema}"),
                    None => "can be any JSON value.".to_owned(),
                };
                self.continue_with(events, format!("The payload of an envelope of this kind {schema}"))
            }
            Some(Universal::SchemaResponse) => {
                self.request.messages.push(said);
                self.continue_with(events, "Continue: reply with what was requested.".to_owned())
            }
            Some(Universal::Error) | None => {
                let taken = AcceptedEnvelope {
                    kind: envelope.kind.clone(),
                    envelope_id: envelope.envelope_id.clone(),
                    correlation_id: envelope.correlation_id.clone(),
                    payload: envelope.payload.clone(),
                    trust,
                };
                match &self.schema {
                    None => self.done(events, Value::String(reply.text.clone()), reply, Some(taken)),
                    Some(_) if envelope.kind == self.settings.envelope_type => {
                        // The document is the node's output; do not log it as well.
                        events.retain(|event| event.kind != EventKind::LogAppended);
                        self.done(events, envelope.payload.clone(), reply, Some(taken))
                    }
                    Some(_) => {
                        let problem = "an envelope was recorded, but the reply contains no document";
                        self.ask_again(events, Reason::TypeDrift, problem)
                    }
                }
            }
        }
    }

    /// Sends a message to the model and calls it again.
    fn continue_with(&mut self, events: Vec<RunEvent>, text: String) -> Step {
        self.request.messages.push(Message::user(text));
        let request = self.request.clone();
        self.call(events, request, false)
    }

    /// Treats the reply as invalid.
    fn ask_again(&mut self, events: Vec<RunEvent>, reason: Reason, problem: &str) -> Step {
        self.attempts += 1;
        self.only_prose = false;
        if self.may_retry() {
            let request = correct::refused(&self.request, problem, self.schema.as_ref().map(Schema::source));
            return self.again(events, request, true, reason, problem);
        }
        self.exhausted(events, reason, problem)
    }

    fn refuse(&self, events: Vec<RunEvent>, verdict: &Verdict, failure: Option<&Value>) -> Step {
        let text = |name: &str| failure.and_then(|failure| failure.get(name)?.as_str());
        let code = text("code").and_then(FailureCode::parse).unwrap_or(FailureCode::EnvelopeValidationFailed);
        let message = text("message").map_or_else(|| why(verdict), str::to_owned);
        let mut step = self.end(events, code, message, false);
        if let Next::Failed(failed) = &mut step.next {
            failed.details = failure.and_then(|failure| failure.get("details").cloned());
        }
        step
    }

    fn refusal_mode(&self) -> RefusalMode {
        let judging = self.settings.envelopes.as_ref();
        let contract = judging.and_then(|judging| judging.contract.as_ref());
        contract.map_or(RefusalMode::FailNode, |contract| contract.refusal_mode)
    }

    /// Log events: the envelope has an older schema version, or its payload has problems that are not errors.
    fn notes(&self, verdict: &Verdict) -> Vec<RunEvent> {
        let node_id = Some(self.settings.node_id.as_str());
        let kind = verdict.envelope.as_ref().map(|envelope| envelope.kind.as_str());
        let fields = |code: &str| {
            Map::from_iter([("code".to_owned(), code.into()), ("envelopeType".to_owned(), json!(kind))])
        };
        let drift = verdict.drift.then(|| {
            let message = "the envelope uses an older version of its kind".to_owned();
            event::log("warn", message, node_id, fields("envelope_schema_version_drift"))
        });
        let warnings = verdict.warnings.iter().map(|warning| {
            event::log("warn", format!("envelope payload: {warning}"), node_id, fields("envelope_invalid"))
        });
        drift.into_iter().chain(warnings).collect()
    }
}

impl EnvelopeRules {
    /// The correlation id for an envelope without one. The same call and kind always get the same id.
    fn correlation(&self, ordinal: u32, kind: &str) -> String {
        let kind = &Digest::of_bytes(kind.as_bytes()).to_hex()[..8];
        let id = format!("{}:{ordinal}:{kind}", self.prefix);
        if id.len() <= MAX_CORRELATION_BYTES { id } else { Digest::of_bytes(id.as_bytes()).to_hex() }
    }
}

/// The reason of a rejection. It does not quote the payload.
fn why(verdict: &Verdict) -> String {
    const MOST: usize = 3;
    const LONGEST: usize = 120;
    match &verdict.outcome {
        EnvelopeOutcome::Gated { reason, allowed_kinds } => {
            let code = reason.split(':').next().unwrap_or_default();
            format!("{code}: the accepted kinds are {}", allowed_kinds.join(", "))
        }
        EnvelopeOutcome::Invalid { reason, details } => {
            // Member names come from the model and are not quoted; schema paths are.
            let detail = |detail: &Detail| {
                let place: String = detail.schema_path.chars().take(LONGEST).collect();
                match &detail.message {
                    Some(message) => message.clone(),
                    None => format!("{} at {place}", detail.keyword),
                }
            };
            let details: Vec<String> = details.iter().take(MOST).map(detail).collect();
            format!("{reason}: {}", details.join("; "))
        }
        EnvelopeOutcome::Breached { reason, .. } => reason.clone(),
        EnvelopeOutcome::Accepted { .. } | EnvelopeOutcome::Recorded(_) => String::new(),
    }
}
