//! The validation pipeline: envelope in, one outcome out.
//!
//! The protocol defines the order: shape, duplicates, known kind, payload, contract, limits, redaction, trust.
//! Duplicates come second so that an envelope that is sent again with a different kind is reported as such, whatever
//! else is wrong with it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::caps::{CapKind, Counters};
use super::contract::Contract;
use super::document::Envelope;
use super::kind::{Kinds, Universal};
use super::outcome::{Detail, EnvelopeOutcome};
use crate::redact::Redactor;
use crate::schema;
use crate::trust::Trust;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// How an envelope with an older schema version is handled.
    pub enum Strictness {
        /// Validate against the current version and log the difference.
        Warn => "warn",
        /// Reject.
        Strict => "strict",
    }
}

/// The earlier outcome for a correlation id.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    pub envelope_type: String,
    /// The stored outcome.
    pub outcome: Value,
}

/// An envelope and everything needed to validate it.
#[derive(Clone, Copy)]
pub struct Acceptance<'a> {
    pub envelope: &'a Value,
    /// Whether the host supports envelopes.
    pub supported: bool,
    /// The kinds that the host supports.
    pub kinds: &'a Kinds,
    /// How older schema versions are handled.
    pub strictness: Strictness,
    /// The kinds that the node accepts. Without a contract, all kinds.
    pub contract: Option<&'a Contract>,
    pub counters: Counters,
    /// Removes secrets before anything is stored.
    pub redactor: &'a Redactor,
    /// Whether the content of the run is trusted.
    pub run_trust: Option<Trust>,
    /// Looks up the earlier outcome for a correlation id.
    pub prior: &'a dyn Fn(&str) -> Option<Prior>,
    /// Whether the envelope answers an approval request.
    pub approves: bool,
    /// Whether the host supports clarification requests.
    pub clarifications: bool,
}

/// The outcome of an envelope, and facts that the caller needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub outcome: EnvelopeOutcome,
    /// The redacted envelope, if its shape is valid.
    pub envelope: Option<Envelope>,
    pub trust: Trust,
    /// The limits that it counts against.
    pub counts: Vec<CapKind>,
    /// Whether the model may send another envelope.
    pub retryable: bool,
    /// Whether the schema version is older than the current one.
    pub drift: bool,
    /// Problems of the payload that are only logged.
    pub warnings: Vec<String>,
}

/// Validates an envelope.
pub fn accept(acceptance: &Acceptance<'_>) -> Verdict {
    let mut verdict = judge(acceptance);
    // Messages may contain the kind or member names of the envelope.
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
    // 0. Does the host support envelopes?
    if !acceptance.supported {
        return Verdict::invalid("capability_required", Vec::new());
    }
    // 1. Shape.
    let mut envelope = match Envelope::read(acceptance.envelope) {
        Ok(envelope) => envelope,
        Err(details) => return Verdict::invalid("invalid_envelope_shape", details),
    };
    let kind = envelope.kind.clone();
    let universal = Universal::parse(&kind);
    // 2. Duplicates.
    if let Some(prior) = (acceptance.prior)(&envelope.correlation_id) {
        if prior.envelope_type != kind {
            let detail = Detail::new(
                "/type",
                "/properties/type",
                "const",
                "an envelope with this correlation id and a different kind was already processed".to_owned(),
            );
            return Verdict::invalid("envelope_correlation_conflict", vec![detail]).of(envelope);
        }
        return Verdict::new(EnvelopeOutcome::Recorded(prior.outcome)).of(envelope);
    }
    // 3. Known kind.
    if !acceptance.kinds.is_known(&kind) {
        let reason = format!("unknown_envelope_kind: `{kind}` is not accepted here");
        return Verdict::gated(reason, acceptance.kinds.known()).counted(CapKind::Schema).of(envelope);
    }
    // 4. Payload, with the current schema version.
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
        // No version of this kind is declared, so none is enforced.
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
            let detail = Detail::new("/payload/envelopeType", "", "enum", "unknown kind".to_owned());
            return Verdict::invalid("unknown_envelope_kind", vec![detail])
                .counted(CapKind::Schema)
                .of(envelope);
        }
    }
    // 5. Contract of the node.
    if let Some(contract) = acceptance.contract.filter(|contract| !contract.takes(&kind)) {
        let reason = format!("envelope_contract_violation: the node does not accept `{kind}`");
        return Verdict::gated(reason, contract.kinds()).of(envelope);
    }
    // 6. Limits: of its kind first, then of all envelopes.
    let own = universal.and_then(Universal::cap);
    let counts: Vec<CapKind> = own.into_iter().chain([CapKind::Envelopes]).collect();
    if let Some((cap, counter)) = acceptance.counters.breached(&counts) {
        return Verdict::breached(cap, counter.cap, counter.current).of(envelope);
    }
    // 7. Redaction.
    let count = acceptance.redactor.value(&mut envelope.payload);
    let redacted = acceptance.redactor.has_secrets().then(|| (envelope.payload.clone(), count));
    // 8. Trust.
    let trust = Trust::resolve(envelope.content_trust, acceptance.run_trust);
    if acceptance.approves && trust == Trust::Untrusted {
        return Verdict { trust, ..Verdict::invalid("untrusted_content_blocks_approval", Vec::new()) }
            .of(envelope);
    }
    // 9. Can the request be fulfilled?
    if universal == Some(Universal::ClarificationRequest) && !acceptance.clarifications {
        return Verdict { trust, ..Verdict::invalid("not-applicable", Vec::new()) }.of(envelope);
    }
    let envelope_id = envelope.envelope_id.clone();
    let outcome = EnvelopeOutcome::Accepted { recorded_event_ids: Vec::new(), envelope_id, trust, redacted };
    Verdict { trust, counts, drift, warnings, ..Verdict::new(outcome) }.of(envelope)
}

/// The maximum number of questions in one request.
const MAX_QUESTIONS: usize = 100;

/// Reports questions that cannot be answered: too many, duplicate ids, or an invalid answer schema.
fn unanswerable(payload: &Value) -> Option<Detail> {
    let questions = payload.get("questions").and_then(Value::as_array)?;
    let wrong = |keyword, message: String| Some(Detail::new("/payload/questions", "", keyword, message));
    if questions.len() > MAX_QUESTIONS {
        return wrong("maxItems", format!("at most {MAX_QUESTIONS} questions are allowed per request"));
    }
    let ids: std::collections::BTreeSet<_> =
        questions.iter().filter_map(|one| one.get("id")?.as_str()).collect();
    if ids.len() < questions.len() {
        return wrong("uniqueItems", "question ids must be unique".to_owned());
    }
    questions.iter().enumerate().find_map(|(place, question)| {
        schema::Schema::compile(question.get("schema")?).err()?;
        let path = format!("/payload/questions/{place}/schema");
        Some(Detail::new(&path, "", "schema", "the value is not a supported JSON Schema".to_owned()))
    })
}

impl Verdict {
    fn new(outcome: EnvelopeOutcome) -> Self {
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
        Self::new(EnvelopeOutcome::Invalid { reason: code.to_owned(), details })
    }

    fn gated(reason: String, allowed_kinds: Vec<String>) -> Self {
        Self::new(EnvelopeOutcome::Gated { reason, allowed_kinds })
    }

    fn breached(cap: CapKind, limit: u64, observed: u64) -> Self {
        let mut reason = String::new();
        // Writing to a string cannot fail.
        let _ = write!(reason, "cap_breached: the limit `{}` is {limit}, observed {observed}", cap.limit());
        Self::new(EnvelopeOutcome::Breached { reason, cap, limit, observed })
    }

    /// Allows a retry, which counts against the limit.
    fn counted(self, cap: CapKind) -> Self {
        Self { counts: vec![cap], retryable: true, ..self }
    }

    fn of(self, envelope: Envelope) -> Self {
        Self { envelope: Some(envelope), ..self }
    }

    /// Whether the outcome was stored earlier.
    pub const fn is_recorded(&self) -> bool {
        matches!(self.outcome, EnvelopeOutcome::Recorded(_))
    }

    /// The attributes of the tracing span: names, numbers and enum values, nothing from the payload.
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
