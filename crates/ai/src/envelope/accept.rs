//! The pipeline: an envelope comes in, and one outcome comes out.
//!
//! The order is the protocol's: what it is, whether it came before, whether its kind is known, what it says, who takes it, how
//! many there were, what must not be kept, who may believe it. Looking up what came before stands second, so that an
//! envelope that comes again under another kind is told so, whatever else is wrong with it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::caps::{CapKind, Counters};
use super::contract::Contract;
use super::document::Envelope;
use super::kind::{Kinds, Universal};
use super::outcome::{Detail, Outcome};
use crate::redact::Redactor;
use crate::schema;
use crate::trust::Trust;
use crate::words::words;

words! {
    /// What happens when an envelope is of an older version of its kind.
    pub enum Strictness {
        /// It is held to the current one, and the difference is noted.
        Warn => "warn",
        /// It is refused.
        Strict => "strict",
    }
}

/// What came of an envelope before.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// Its kind.
    pub envelope_type: String,
    /// The outcome as it was kept.
    pub outcome: Value,
}

/// An envelope, and everything that it is judged by.
#[derive(Clone, Copy)]
pub struct Acceptance<'a> {
    /// The envelope.
    pub envelope: &'a Value,
    /// Whether the host takes envelopes at all.
    pub supported: bool,
    /// The kinds that the host knows.
    pub kinds: &'a Kinds,
    /// What happens to older versions.
    pub strictness: Strictness,
    /// The kinds that the node takes; all of them without a contract.
    pub contract: Option<&'a Contract>,
    /// How many there were.
    pub counters: Counters,
    /// What must not be kept.
    pub redactor: &'a Redactor,
    /// Whether the run may be believed.
    pub run_trust: Option<Trust>,
    /// What came of an envelope before, by its correlation id.
    pub prior: &'a dyn Fn(&str) -> Option<Prior>,
    /// Whether the envelope answers somebody who has to approve.
    pub approves: bool,
    /// Whether people can be asked here.
    pub clarifications: bool,
}

/// What comes of an envelope, and what whoever asked has to know beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What comes of it.
    pub outcome: Outcome,
    /// The envelope without secrets, where its outside was as it has to be.
    pub envelope: Option<Envelope>,
    /// Whether it may be believed.
    pub trust: Trust,
    /// The limits that it counts against.
    pub counts: Vec<CapKind>,
    /// Whether the model may be asked for another one.
    pub retryable: bool,
    /// Whether it is of an older version of its kind.
    pub drift: bool,
    /// What is wrong with what it says, where that is only noted.
    pub warnings: Vec<String>,
}

/// Judges an envelope.
pub fn accept(acceptance: &Acceptance<'_>) -> Verdict {
    let mut verdict = judge(acceptance);
    // Whatever is said of an envelope may repeat its kind or names in it.
    verdict.outcome.redact(acceptance.redactor);
    if let Some(envelope) = &mut verdict.envelope {
        verdict.trust = Trust::resolve(envelope.content_trust, acceptance.run_trust);
        for text in [&mut envelope.kind, &mut envelope.envelope_id, &mut envelope.correlation_id] {
            *text = acceptance.redactor.clean(text);
        }
    }
    verdict
}

fn judge(acceptance: &Acceptance<'_>) -> Verdict {
    // 0. A host that takes none takes none.
    if !acceptance.supported {
        return Verdict::invalid("capability_required", Vec::new());
    }
    // 1. Its outside.
    let mut envelope = match Envelope::read(acceptance.envelope) {
        Ok(envelope) => envelope,
        Err(details) => return Verdict::invalid("invalid_envelope_shape", details),
    };
    let kind = envelope.kind.clone();
    let universal = Universal::parse(&kind);
    // 2. Whether it came before.
    if let Some(prior) = (acceptance.prior)(&envelope.correlation_id) {
        if prior.envelope_type != kind {
            let detail = Detail::new(
                "/type",
                "/properties/type",
                "const",
                "it came before under another kind".to_owned(),
            );
            return Verdict::invalid("envelope_correlation_conflict", vec![detail]).of(envelope);
        }
        return Verdict::new(Outcome::Recorded(prior.outcome)).of(envelope);
    }
    // 3. Whether its kind is known.
    if !acceptance.kinds.is_known(&kind) {
        let reason = format!("unknown_envelope_kind: `{kind}` is not taken here");
        return Verdict::gated(reason, acceptance.kinds.known()).counted(CapKind::Schema).of(envelope);
    }
    // 4. What it says, under the version that is current.
    let mut drift = false;
    if let Some(current) = acceptance.kinds.current(&kind) {
        drift = envelope.schema_version < current;
        if envelope.schema_version > current || (drift && acceptance.strictness == Strictness::Strict) {
            let message = format!("the current version is {current}");
            let detail = Detail::new("/schemaVersion", "/properties/schemaVersion", "const", message);
            return Verdict::invalid("unknown_schema_version", vec![detail]).of(envelope);
        }
    }
    let mut warnings = Vec::new();
    let issues = acceptance.kinds.issues(&kind, &envelope.payload);
    if !issues.is_empty() {
        // Nobody promised a version of this kind, so nobody is held to it.
        if universal.is_none() && acceptance.kinds.current(&kind).is_none() {
            warnings.push(schema::summary(&issues));
        } else {
            let detail = |issue: &schema::Issue| {
                let mut detail = Detail::of(issue);
                detail.instance_path.insert_str(0, "/payload");
                detail
            };
            let details = issues.iter().map(detail).collect();
            return Verdict::invalid("envelope_invalid", details).counted(CapKind::Schema).of(envelope);
        }
    }
    if universal == Some(Universal::ClarificationRequest)
        && let Some(detail) = unanswerable(&envelope.payload)
    {
        return Verdict::invalid("envelope_invalid", vec![detail]).counted(CapKind::Schema).of(envelope);
    }
    if universal == Some(Universal::SchemaRequest) {
        let asked = envelope.payload.get("envelopeType").and_then(Value::as_str).unwrap_or_default();
        if !acceptance.kinds.is_known(asked) {
            let detail =
                Detail::new("/payload/envelopeType", "", "enum", "there is no such kind here".to_owned());
            return Verdict::invalid("unknown_envelope_kind", vec![detail])
                .counted(CapKind::Schema)
                .of(envelope);
        }
    }
    // 5. Whether the node takes it.
    if let Some(contract) = acceptance.contract.filter(|contract| !contract.takes(&kind)) {
        let reason = format!("envelope_contract_violation: the node does not take `{kind}`");
        return Verdict::gated(reason, contract.kinds()).of(envelope);
    }
    // 6. How many there were: of its own sort first, then of all.
    let own = universal.and_then(Universal::cap);
    let counts: Vec<CapKind> = own.into_iter().chain([CapKind::Envelopes]).collect();
    if let Some((cap, counter)) = acceptance.counters.breached(&counts) {
        return Verdict::breached(cap, counter.cap, counter.current).of(envelope);
    }
    // 7. What must not be kept.
    let count = acceptance.redactor.value(&mut envelope.payload);
    let redacted = acceptance.redactor.was_asked().then(|| (envelope.payload.clone(), count));
    // 8. Who may believe it.
    let trust = Trust::resolve(envelope.content_trust, acceptance.run_trust);
    if acceptance.approves && trust == Trust::Untrusted {
        return Verdict { trust, ..Verdict::invalid("untrusted_content_blocks_approval", Vec::new()) }
            .of(envelope);
    }
    // 9. Whether there is somebody to do what it asks for.
    if universal == Some(Universal::ClarificationRequest) && !acceptance.clarifications {
        return Verdict { trust, ..Verdict::invalid("not-applicable", Vec::new()) }.of(envelope);
    }
    let envelope_id = envelope.envelope_id.clone();
    let outcome = Outcome::Accepted { recorded_event_ids: Vec::new(), envelope_id, trust, redacted };
    Verdict { trust, counts, drift, warnings, ..Verdict::new(outcome) }.of(envelope)
}

/// The most questions that a person is asked at once.
const MAX_QUESTIONS: usize = 100;

/// What nobody could answer: too many questions, two with one id, or one whose answer is to fit what is no schema.
fn unanswerable(payload: &Value) -> Option<Detail> {
    let questions = payload.get("questions").and_then(Value::as_array)?;
    let wrong = |keyword, message: String| Some(Detail::new("/payload/questions", "", keyword, message));
    if questions.len() > MAX_QUESTIONS {
        return wrong("maxItems", format!("at most {MAX_QUESTIONS} questions are asked at once"));
    }
    let ids: std::collections::BTreeSet<_> =
        questions.iter().filter_map(|one| one.get("id")?.as_str()).collect();
    if ids.len() < questions.len() {
        return wrong("uniqueItems", "each question has an id of its own".to_owned());
    }
    questions.iter().enumerate().find_map(|(place, question)| {
        schema::Schema::compile(question.get("schema")?).err()?;
        let path = format!("/payload/questions/{place}/schema");
        Some(Detail::new(&path, "", "schema", "it is no JSON Schema that can be used".to_owned()))
    })
}

impl Verdict {
    fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            envelope: None,
            trust: Trust::Trusted,
            counts: Vec::new(),
            retryable: false,
            drift: false,
            warnings: Vec::new(),
        }
    }

    fn invalid(code: &str, details: Vec<Detail>) -> Self {
        Self::new(Outcome::Invalid { reason: code.to_owned(), details })
    }

    fn gated(reason: String, allowed_kinds: Vec<String>) -> Self {
        Self::new(Outcome::Gated { reason, allowed_kinds })
    }

    fn breached(cap: CapKind, limit: u64, observed: u64) -> Self {
        let mut reason = String::new();
        // Writing to a text cannot fail.
        let _ = write!(reason, "cap_breached: `{}` is {limit}, and there were {observed}", cap.limit());
        Self::new(Outcome::Breached { reason, cap, limit, observed })
    }

    /// The model may try again, which counts.
    fn counted(self, cap: CapKind) -> Self {
        Self { counts: vec![cap], retryable: true, ..self }
    }

    fn of(self, envelope: Envelope) -> Self {
        Self { envelope: Some(envelope), ..self }
    }

    /// Whether the outcome is one of before.
    pub const fn is_recorded(&self) -> bool {
        matches!(self.outcome, Outcome::Recorded(_))
    }

    /// What the span of the acceptance says: names, numbers and words, nothing that the envelope says.
    pub fn attributes(&self, current: Option<u64>) -> Value {
        let mut attributes = json!({
            "envelope_outcome": self.outcome.status(), "envelope_content_trust": self.trust.as_str(),
            "envelope_schema_version_drift": self.drift,
        });
        if let Some(envelope) = &self.envelope {
            attributes["envelope_type"] = envelope.kind.as_str().into();
            attributes["envelope_id"] = envelope.envelope_id.as_str().into();
            attributes["envelope_correlation_id"] = envelope.correlation_id.as_str().into();
            attributes["envelope_schema_version"] = envelope.schema_version.into();
        }
        if let Some(current) = current {
            attributes["envelope_schema_version_floor"] = current.into();
        }
        attributes
    }
}
