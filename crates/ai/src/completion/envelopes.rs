//! Replies that are envelopes: what a model says to the engine, in the place of what it was asked for.
//!
//! ```text
//!  reply ─▶ an envelope? ── no ─▶ as ever
//!              │ yes: judged, by what is known here and by what came before
//!              ▼
//!  accepted ─┬─ clarification.request ─▶ waits for a person; with the answers the model is asked again
//!            ├─ schema.request ────────▶ the model is asked again, with the schema
//!            ├─ schema.response ───────▶ the model is asked again
//!            ├─ the document ──────────▶ done: it came in an envelope
//!            └─ an error, or a kind that the node takes ─▶ recorded; done where a text was asked for, else asked again
//!  refused ──┬─ it may be tried again, or is to be dropped ─▶ what was wrong is said, as of any reply that does not fit
//!            └─ else ─▶ failed
//! ```
//!
//! A document is meant as an envelope when it has a kind and a payload and nothing that an envelope does not have, and its kind is one
//! that is taken here. What else stands around an envelope a model cannot know; it is added where it is missing.
//!
//! Whoever feeds the machine knows what came before, and how often people were asked: both are given with the judgement, so that
//! the machine gives the same for the same again.

use canon::digest::Digest;
use serde_json::{Map, Value, json};

use super::{Completion, Counter, Next, Reason, Step, correct, recover, reliability};
use crate::envelope::{
    Acceptance, Around, Contract, Counters, Detail, Envelope, Kinds, Outcome, Prior, RefusalMode, Strictness,
    Universal, Verdict, accept, project,
};
use crate::event::{self, EventKind, RunEvent};
use crate::failure::FailureCode;
use crate::provider::{Message, Reply, Role};
use crate::schema::Schema;
use crate::trust::{self, Trust};

/// The most envelopes that one call of a model may give.
pub const ENVELOPES_PER_TURN: u32 = 5;

/// The longest correlation id.
const MAX_CORRELATION_BYTES: usize = 128;

/// How replies that are envelopes are judged.
#[derive(Clone, Debug)]
pub struct Judging {
    /// The kinds that the host knows.
    pub kinds: Kinds,
    /// Those that the node takes; without a contract, only those that everybody does.
    pub contract: Option<Contract>,
    /// What happens to older versions of a kind.
    pub strictness: Strictness,
    /// Whether the run may be believed.
    pub run_trust: Option<Trust>,
    /// What a correlation id begins with that the model did not give: the run and the node.
    pub prefix: String,
    /// When the call is made, as envelopes say it.
    pub at: String,
}

impl Judging {
    /// The document that the node asks for may come in an envelope.
    pub(super) fn take_document(&mut self, kind: &str, schema: Schema) {
        if Universal::parse(kind).is_none() {
            self.kinds.add(kind, schema, 1);
            self.contract = self.contract.take().map(|contract| contract.with(kind));
        }
    }
}

/// An envelope that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub envelope_id: String,
    /// What it is known by when it comes again.
    pub correlation_id: String,
    /// What it says, without secrets.
    pub payload: Value,
    /// Whether it may be believed.
    pub trust: Trust,
}

/// How many envelopes came, and the one that is being judged.
#[derive(Clone, Debug, Default)]
pub(super) struct Letters {
    /// Of all kinds.
    taken: u32,
    /// Of those that asked for a schema.
    pub(super) schemas: u32,
    held: Option<(Reply, Vec<RunEvent>)>,
}

impl Completion {
    /// The envelope that a reply is, where it is one, and how it was found, where that is worth telling.
    pub(super) fn envelope_in(&self, reply: &Reply) -> Option<(Value, Option<RunEvent>)> {
        let judging = self.settings.envelopes.as_ref()?;
        if reply.stop.is_truncation() || !reply.tool_calls.is_empty() || self.formatting {
            return None;
        }
        // An envelope in the middle of a text is an example, and part of the text.
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
        // A document of the author's may look like the inside of an envelope.
        if !whole && self.schema.as_ref().is_some_and(|schema| schema.issues(&found.value).is_empty()) {
            return None;
        }
        let recovered = (found.path != recover::Path::Direct)
            .then(|| reliability::recovery_applied(&self.settings.node_id, &found));
        let correlation_id = judging.correlation(self.current.ordinal, kind);
        let envelope_id = format!("env-{}", &Digest::of_bytes(correlation_id.as_bytes()).to_hex()[..32]);
        let version = judging.kinds.current(kind).filter(|_| !whole);
        let (correlation_id, envelope_id) = (correlation_id.as_str(), envelope_id.as_str());
        let around = Around { correlation_id, envelope_id, at: &judging.at, version };
        let mut document = found.value;
        // Ids of events are the run's to give.
        let given = document.get("correlationId").and_then(Value::as_str);
        if given.is_some_and(|id| id.starts_with("evt_")) {
            document["correlationId"] = correlation_id.into();
        }
        Envelope::complete(&mut document, around);
        // Nothing that a model says of itself raises it above what it was told.
        if judging.run_trust == Some(Trust::Untrusted)
            && let Some(meta) = document.get_mut("meta").and_then(Value::as_object_mut)
        {
            meta.insert("contentTrust".to_owned(), Trust::Untrusted.into());
        }
        Some((document, recovered))
    }

    /// The model was told what may not be believed.
    pub(crate) fn distrust(&mut self) {
        if let Some(judging) = &mut self.settings.envelopes {
            judging.run_trust = Some(Trust::Untrusted);
        }
    }

    /// Keeps a reply until it is judged.
    pub(super) fn hold(&mut self, events: Vec<RunEvent>, reply: Reply, document: Value) -> Step {
        self.letters.held = Some((reply, events));
        Step { events: Vec::new(), next: Next::Judge(document) }
    }

    /// Judges an envelope. `prior` is what came of one with its correlation id before; `questions` counts how often people were asked.
    /// Without a counter nobody is asked too often, as when an envelope is judged again that was judged before.
    pub fn judge(&self, document: &Value, prior: Option<&Prior>, questions: Option<Counter>) -> Verdict {
        let judging = self.settings.envelopes.as_ref();
        let unknown = Kinds::only([]);
        let budget = self.settings.budget;
        let rounds = self.attempts + self.letters.schemas;
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
                    current: self.letters.taken.into(),
                    cap: ENVELOPES_PER_TURN.into(),
                }),
                schema: Some(schema),
                clarification: questions,
            },
            redactor: &self.settings.redactor,
            run_trust: judging.and_then(|judging| judging.run_trust),
            prior: &|_| prior.cloned(),
            // What a model says decides nothing that a person has to decide.
            approves: false,
            clarifications: true,
        })
    }

    /// Takes the judgement of the envelope that the last reply is.
    pub fn take(&mut self, verdict: &Verdict) -> Step {
        let Some((reply, mut events)) = self.letters.held.take() else {
            let message = "an envelope was judged that nobody gave".to_owned();
            return self.end(Vec::new(), FailureCode::EnvelopeValidationFailed, message, false);
        };
        let mode = self.refusal_mode();
        let mut projection = project(verdict, &self.settings.node_id, mode);
        for event in &mut events {
            event.causation_id.clone_from(&projection.causation_id);
        }
        // The engine itself says that a node failed, and announces what people are asked.
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
            (Outcome::Accepted { .. }, Some(envelope)) => {
                self.accepted(events, envelope, verdict.trust, reply)
            }
            (Outcome::Recorded(_), _) => self.ask_again(
                events,
                Reason::TypeDrift,
                "an envelope with its correlation id came before, and nothing follows from it a second time",
            ),
            (Outcome::Gated { .. } | Outcome::Invalid { .. }, _) if verdict.retryable => {
                let reason = match &verdict.outcome {
                    Outcome::Invalid { .. } => Reason::SchemaViolation,
                    _ => Reason::TypeDrift,
                };
                self.ask_again(events, reason, &why(verdict))
            }
            (Outcome::Gated { .. }, _) if mode == RefusalMode::DiscardAndWarn => {
                self.ask_again(events, Reason::TypeDrift, &why(verdict))
            }
            _ => self.refuse(events, verdict, failure.as_ref()),
        }
    }

    /// Takes the answers to what the model asked a person, and asks the model again.
    pub fn answered(&mut self, answers: &Value) -> Step {
        let answers = answers.get("answers").unwrap_or(answers);
        let mut said = answers.to_string();
        if self.settings.envelopes.as_ref().and_then(|judging| judging.run_trust) == Some(Trust::Untrusted) {
            said = trust::wrap(&said);
        }
        self.go_on(Vec::new(), format!("The answers to your questions, by their ids:\n{said}"))
    }

    fn accepted(
        &mut self,
        mut events: Vec<RunEvent>,
        envelope: &Envelope,
        trust: Trust,
        reply: Reply,
    ) -> Step {
        self.letters.taken += 1;
        let said = Message::new(Role::Assistant, reply.text.clone());
        match Universal::parse(&envelope.kind) {
            Some(Universal::ClarificationRequest) => {
                self.request.messages.push(said);
                Step { events, next: Next::Waits }
            }
            Some(Universal::SchemaRequest) => {
                self.letters.schemas += 1;
                self.request.messages.push(said);
                let kind = envelope.payload.get("envelopeType").and_then(Value::as_str).unwrap_or_default();
                let kinds = self.settings.envelopes.as_ref().map(|judging| &judging.kinds);
                let schema = match kinds.and_then(|kinds| kinds.source(kind)) {
                    Some(schema) => format!("has to fit this JSON Schema:\n{schema}"),
                    None => "may be anything.".to_owned(),
                };
                self.go_on(events, format!("The payload of an envelope of this kind {schema}"))
            }
            Some(Universal::SchemaResponse) => {
                self.request.messages.push(said);
                self.go_on(events, "Go on: reply with what was asked for.".to_owned())
            }
            Some(Universal::Error) | None => {
                let taken = Taken {
                    kind: envelope.kind.clone(),
                    envelope_id: envelope.envelope_id.clone(),
                    correlation_id: envelope.correlation_id.clone(),
                    payload: envelope.payload.clone(),
                    trust,
                };
                match &self.schema {
                    None => self.done(events, Value::String(reply.text.clone()), reply, Some(taken)),
                    Some(_) if envelope.kind == self.settings.envelope_type => {
                        // The document is what the node gives, and is not told beside that.
                        events.retain(|event| event.kind != EventKind::LogAppended);
                        self.done(events, envelope.payload.clone(), reply, Some(taken))
                    }
                    Some(_) => {
                        let problem = "an envelope came and was recorded, and no document";
                        self.ask_again(events, Reason::TypeDrift, problem)
                    }
                }
            }
        }
    }

    /// The model is told something, and asked again.
    fn go_on(&mut self, events: Vec<RunEvent>, told: String) -> Step {
        self.request.messages.push(Message::user(told));
        let request = self.request.clone();
        self.call(events, request, false)
    }

    /// The reply counts as one that does not fit.
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

    /// What is only noted: that the version of an envelope is an older one, and what is wrong with one of which nobody promised anything.
    fn notes(&self, verdict: &Verdict) -> Vec<RunEvent> {
        let node_id = Some(self.settings.node_id.as_str());
        let kind = verdict.envelope.as_ref().map(|envelope| envelope.kind.as_str());
        let fields = |code: &str| {
            Map::from_iter([("code".to_owned(), code.into()), ("envelopeType".to_owned(), json!(kind))])
        };
        let drift = verdict.drift.then(|| {
            let message = "the envelope is of an older version of its kind".to_owned();
            event::log("warn", message, node_id, fields("envelope_schema_version_drift"))
        });
        let warnings = verdict.warnings.iter().map(|warning| {
            event::log(
                "warn",
                format!("what the envelope says: {warning}"),
                node_id,
                fields("envelope_invalid"),
            )
        });
        drift.into_iter().chain(warnings).collect()
    }
}

impl Judging {
    /// What an envelope is known by whose model gave no correlation id: the same call and kind have the same.
    fn correlation(&self, ordinal: u32, kind: &str) -> String {
        let kind = &Digest::of_bytes(kind.as_bytes()).to_hex()[..8];
        let id = format!("{}:{ordinal}:{kind}", self.prefix);
        if id.len() <= MAX_CORRELATION_BYTES { id } else { Digest::of_bytes(id.as_bytes()).to_hex() }
    }
}

/// Why an envelope was refused, in words that repeat nothing that it says.
fn why(verdict: &Verdict) -> String {
    const MOST: usize = 3;
    const LONGEST: usize = 120;
    match &verdict.outcome {
        Outcome::Gated { reason, allowed_kinds } => {
            let code = reason.split(':').next().unwrap_or_default();
            format!("{code}: the kinds that are taken are {}", allowed_kinds.join(", "))
        }
        Outcome::Invalid { reason, details } => {
            // Names in the envelope are the model's words; places of the schema are not.
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
        Outcome::Breached { reason, .. } => reason.clone(),
        Outcome::Accepted { .. } | Outcome::Recorded(_) => String::new(),
    }
}
