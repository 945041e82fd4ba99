//! The envelope validation pipeline, check by check.

use std::collections::BTreeMap;

use ai::completion::Counter;
use ai::envelope::{
    Acceptance, CapKind, Contract, Counters, Kinds, Prior, RefusalMode, Strictness, Verdict, accept, kind,
    project,
};
use ai::event::EventKind;
use ai::redact::{Redactor, Secret};
use ai::trust::Trust;
use serde_json::{Value, json};

use crate::protocol;

pub(crate) fn envelope(kind: &str, payload: Value) -> Value {
    json!({
        "type": kind, "schemaVersion": 1, "envelopeId": "env-1", "correlationId": "r:n:0:1", "payload": payload,
        "meta": {"source": "ai-generation", "ts": "2026-05-18T10:00:00Z"},
    })
}

fn question() -> Value {
    envelope("clarification.request", json!({"questions": [{"id": "q1", "question": "why?"}]}))
}

/// The default host settings of a test.
struct Host {
    kinds: Kinds,
    strictness: Strictness,
    contract: Option<Contract>,
    counters: Counters,
    redactor: Redactor,
    run_trust: Option<Trust>,
    prior: BTreeMap<String, Prior>,
    approves: bool,
    supported: bool,
    clarifications: bool,
}

impl Host {
    fn new() -> Self {
        Self {
            kinds: Kinds::any(),
            strictness: Strictness::Warn,
            contract: None,
            counters: Counters::default(),
            redactor: Redactor::default(),
            run_trust: None,
            prior: BTreeMap::new(),
            approves: false,
            supported: true,
            clarifications: true,
        }
    }

    fn accept(&self, envelope: &Value) -> Verdict {
        accept(&Acceptance {
            envelope,
            supported: self.supported,
            kinds: &self.kinds,
            strictness: self.strictness,
            contract: self.contract.as_ref(),
            counters: self.counters,
            redactor: &self.redactor,
            run_trust: self.run_trust,
            prior: &|id| self.prior.get(id).cloned(),
            approves: self.approves,
            clarifications: self.clarifications,
        })
    }
}

/// The status of the outcome and the code of its reason.
fn short(verdict: &Verdict) -> String {
    let value = verdict.outcome.to_value();
    let reason = value.get("reason").and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", verdict.outcome.status(), reason.split(':').next().unwrap()).trim_end().to_owned()
}

#[test]
fn universal_kinds_are_validated() {
    let cases = [
        (
            "clarification.request",
            json!({"questions": [{"id": "q", "question": "?", "schema": {}, "context": {"a": 1}}], "contextType": "c", "reasoning": "r"}),
            "accepted",
        ),
        ("clarification.request", json!({"contextType": "form-field"}), "invalid envelope_invalid"),
        ("clarification.request", json!({"questions": []}), "invalid envelope_invalid"),
        (
            "clarification.request",
            json!({"questions": [{"id": "", "question": "?"}]}),
            "invalid envelope_invalid",
        ),
        ("schema.request", json!({"envelopeType": "vendor.acme.prd.create"}), "accepted"),
        (
            "schema.request",
            json!({"envelopeType": "x", "reason": "r".repeat(1025)}),
            "invalid envelope_invalid",
        ),
        ("schema.response", json!({"envelopeType": "x", "ack": true}), "accepted"),
        ("schema.response", json!({"envelopeType": "x", "ack": false}), "invalid envelope_invalid"),
        (
            "error",
            json!({"code": "validation_failed", "message": "I cannot", "details": {"x": 1}}),
            "accepted",
        ),
        ("error", json!({"code": "validation_failed"}), "invalid envelope_invalid"),
        ("error", json!({"code": "c", "message": "m", "extra": 1}), "invalid envelope_invalid"),
        ("media.image", json!({"bytes": 3, "url": "https://x.test/a"}), "accepted"),
        ("vendor.acme.anything", json!(null), "accepted"),
    ];
    for (kind, payload, expected) in cases {
        let verdict = Host::new().accept(&envelope(kind, payload.clone()));
        assert_eq!(short(&verdict), expected, "{kind} {payload}");
        if let Some(schema) = protocol::file(&format!("schemas/envelopes/{kind}.schema.json"))
            .filter(|_| kind.contains('.') || kind == "error")
        {
            let published = jsonschema::validator_for(&schema).unwrap();
            assert_eq!(
                published.is_valid(&payload),
                expected == "accepted",
                "the protocol schema disagrees: {kind} {payload}"
            );
        }
    }
}

#[test]
fn schemas_match_the_protocol() {
    for kind in [
        "clarification.request",
        "schema.request",
        "schema.response",
        "error",
        "media.image",
        "media.audio",
        "media.file",
    ] {
        let ours = kind::schema_of(kind).unwrap();
        let Some(theirs) = protocol::file(&format!("schemas/envelopes/{kind}.schema.json")) else { return };
        for member in ["$id", "$schema", "title", "type", "additionalProperties"] {
            assert_eq!(ours[member], theirs[member], "{kind} {member}");
        }
        let names = |schema: &Value| {
            schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(names(&ours), names(&theirs), "{kind}");
        assert_eq!(ours["required"], theirs["required"], "{kind}");
    }
    assert_eq!(kind::schema_of("vendor.acme.x"), None);
}

#[test]
fn checks_run_in_protocol_order() {
    // Each line violates one rule less than the line above; the first violated rule is reported.
    let mut bad = envelope("vendor.x.bar", json!({}));
    bad["meta"]["ts"] = "tomorrow".into();
    let mut host = Host::new();
    host.supported = false;
    host.kinds = Kinds::only(["vendor.x.foo".to_owned()]);
    host.counters.envelopes = Some(Counter { current: 32, cap: 32 });
    host.run_trust = Some(Trust::Untrusted);
    host.approves = true;
    host.contract = Some(Contract::new(["vendor.x.foo".to_owned()], RefusalMode::FailNode));
    host.prior.insert(
        "r:n:0:1".to_owned(),
        Prior { envelope_type: "vendor.x.foo".to_owned(), outcome: json!({"status": "gated"}) },
    );
    assert_eq!(short(&host.accept(&bad)), "invalid capability_required");
    host.supported = true;
    assert_eq!(short(&host.accept(&bad)), "invalid invalid_envelope_shape");
    bad["meta"]["ts"] = "2026-05-18T10:00:00Z".into();
    assert_eq!(short(&host.accept(&bad)), "invalid envelope_correlation_conflict");
    host.prior.clear();
    assert_eq!(short(&host.accept(&bad)), "gated unknown_envelope_kind");
    host.kinds = Kinds::only(["vendor.x.bar".to_owned()]);
    host.kinds.version("vendor.x.bar", 0);
    assert_eq!(short(&host.accept(&bad)), "invalid unknown_schema_version");
    host.kinds.version("vendor.x.bar", 1);
    host.kinds.schema("vendor.x.bar", &json!({"required": ["a"]})).unwrap();
    assert_eq!(short(&host.accept(&bad)), "invalid envelope_invalid");
    bad["payload"] = json!({"a": 1});
    assert_eq!(short(&host.accept(&bad)), "gated envelope_contract_violation");
    host.contract = None;
    assert_eq!(short(&host.accept(&bad)), "breached cap_breached");
    host.counters = Counters::default();
    assert_eq!(short(&host.accept(&bad)), "invalid untrusted_content_blocks_approval");
    host.approves = false;
    assert_eq!(short(&host.accept(&bad)), "accepted");
}

#[test]
fn retryable_outcomes_count_as_schema_rounds() {
    let only = || Host { kinds: Kinds::only(["vendor.x.foo".to_owned()]), ..Host::new() };
    let mut strict = Host::new();
    strict.kinds.version("error", 0);
    let cases = [
        (only(), envelope("vendor.x.bar", json!({})), "gated unknown_envelope_kind", true),
        (
            only(),
            envelope("schema.request", json!({"envelopeType": "vendor.x.bar"})),
            "invalid unknown_envelope_kind",
            true,
        ),
        (only(), envelope("error", json!({})), "invalid envelope_invalid", true),
        (
            strict,
            envelope("error", json!({"code": "c", "message": "m"})),
            "invalid unknown_schema_version",
            false,
        ),
        (only(), json!({}), "invalid invalid_envelope_shape", false),
    ];
    for (host, sent, expected, again) in cases {
        let verdict = host.accept(&sent);
        let rounds: &[CapKind] = if again { &[CapKind::Schema] } else { &[] };
        assert_eq!((short(&verdict).as_str(), verdict.retryable), (expected, again));
        assert_eq!(verdict.counts, rounds, "{expected}");
    }
}

#[test]
fn rejects_invalid_shapes() {
    let cases: [(&str, Value, &str); 12] = [
        ("/type", json!(""), "/type"),
        ("/type", json!("t".repeat(257)), "/type"),
        ("/envelopeId", json!(1), "/envelopeId"),
        ("/correlationId", json!("c".repeat(129)), "/correlationId"),
        ("/schemaVersion", json!(-1), "/schemaVersion"),
        ("/schemaVersion", json!(1.5), "/schemaVersion"),
        ("/meta/source", json!("unknown"), "/meta/source"),
        ("/meta/ts", json!("2026-02-30T00:00:00Z"), "/meta/ts"),
        ("/meta/contentTrust", json!("maybe"), "/meta/contentTrust"),
        ("/meta/extra", json!(1), "/meta"),
        ("/partial", json!({"isPartial": true, "index": 0}), "/partial"),
        ("/extra", json!(1), ""),
    ];
    let published = protocol::file("schemas/ai-envelope.schema.json")
        .map(|schema| jsonschema::validator_for(&schema).unwrap());
    for (pointer, value, path) in cases {
        let mut broken = question();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        broken.pointer_mut(parent).unwrap()[name] = value.clone();
        let outcome = Host::new().accept(&broken).outcome.to_value();
        assert_eq!(outcome["reason"], "invalid_envelope_shape", "{pointer} {value}");
        let paths: Vec<&str> = outcome["details"]
            .as_array()
            .unwrap()
            .iter()
            .map(|detail| detail["instancePath"].as_str().unwrap())
            .collect();
        assert!(paths.contains(&path), "{pointer}: {paths:?}");
        if let Some(published) = published.as_ref().filter(|_| pointer != "/meta/ts") {
            assert!(!published.is_valid(&broken), "the protocol schema accepts it: {broken}");
        }
    }
    for name in ["type", "envelopeId", "correlationId", "payload", "meta"] {
        let mut broken = question();
        broken.as_object_mut().unwrap().remove(name);
        assert_eq!(short(&Host::new().accept(&broken)), "invalid invalid_envelope_shape", "{name}");
    }
    assert_eq!(short(&Host::new().accept(&json!(7))), "invalid invalid_envelope_shape");
}

#[test]
fn checks_schema_versions() {
    use Strictness::{Strict, Warn};
    for (emitted, current, strictness, expected, drift) in [
        (json!(0), Some(1), Warn, "accepted", true),
        (Value::Null, Some(1), Warn, "accepted", true),
        (json!(1), Some(1), Warn, "accepted", false),
        (json!(1.0), Some(1), Strict, "accepted", false),
        (json!(0), Some(1), Strict, "invalid unknown_schema_version", false),
        (json!(99), Some(1), Warn, "invalid unknown_schema_version", false),
        (json!(99), Some(1), Strict, "invalid unknown_schema_version", false),
        (json!(99), None, Strict, "accepted", false),
    ] {
        let mut host = Host::new();
        host.strictness = strictness;
        if let Some(current) = current {
            host.kinds.version("clarification.request", current);
        }
        let mut sent = question();
        match &emitted {
            Value::Null => drop(sent.as_object_mut().unwrap().remove("schemaVersion")),
            version => sent["schemaVersion"] = version.clone(),
        }
        let verdict = host.accept(&sent);
        assert_eq!(
            (short(&verdict).as_str(), verdict.drift),
            (expected, drift),
            "{emitted} against {current:?}, {strictness}"
        );
        assert_eq!(verdict.attributes(current)["envelope_schema_version_drift"], drift);
        if expected != "accepted" {
            assert_eq!(verdict.outcome.to_value()["details"][0]["instancePath"], "/schemaVersion");
        }
    }
}

#[test]
fn a_kind_without_a_declared_version_only_warns() {
    let mut host = Host::new();
    host.kinds.schema("vendor.x.y", &json!({"required": ["a"]})).unwrap();
    let verdict = host.accept(&envelope("vendor.x.y", json!({})));
    assert_eq!((short(&verdict).as_str(), verdict.warnings.len()), ("accepted", 1));
    host.kinds.version("vendor.x.y", 1);
    assert_eq!(short(&host.accept(&envelope("vendor.x.y", json!({})))), "invalid envelope_invalid");
}

#[test]
fn every_contract_accepts_universal_kinds() {
    let mut host = Host::new();
    host.kinds = Kinds::only(["vendor.x.foo".to_owned()]);
    host.contract = Some(
        Contract::read(&json!({"accepts": ["vendor.x.foo"], "refusalMode": "discard-and-warn"})).unwrap(),
    );
    assert_eq!(short(&host.accept(&question())), "accepted");
    let refused = host.accept(&envelope("vendor.x.bar", json!({})));
    let allowed = refused.outcome.to_value()["allowedKinds"].clone();
    for kind in ["clarification.request", "schema.request", "schema.response", "error", "vendor.x.foo"] {
        assert!(allowed.as_array().unwrap().contains(&kind.into()), "{kind}: {allowed}");
    }
    for broken in [
        json!([]),
        json!({}),
        json!({"accepts": [1]}),
        json!({"accepts": [], "more": 1}),
        json!({"accepts": [], "refusalMode": "x"}),
        json!({"accepts": [], "alwaysAccepted": ["vendor.x"]}),
    ] {
        assert!(Contract::read(&broken).is_err(), "{broken}");
    }
}

#[test]
fn duplicates_return_the_stored_outcome() {
    let first = Host::new().accept(&question());
    let mut host = Host::new();
    let outcome = first.outcome.to_value();
    host.prior.insert(
        "r:n:0:1".to_owned(),
        Prior { envelope_type: "clarification.request".to_owned(), outcome: outcome.clone() },
    );
    let mut again = question();
    again["envelopeId"] = "env-2".into();
    let second = host.accept(&again);
    assert_eq!(second.outcome.to_value(), outcome);
    assert!(second.is_recorded() && second.counts.is_empty());
    assert_eq!(project(&second, "n", RefusalMode::FailNode).events, []);
    let gated = json!({"status": "gated", "reason": "r", "allowedKinds": []});
    host.prior.insert(
        "r:n:0:1".to_owned(),
        Prior { envelope_type: "clarification.request".to_owned(), outcome: gated.clone() },
    );
    assert_eq!(host.accept(&question()).outcome.to_value(), gated);
}

#[test]
fn trust_comes_from_the_envelope_then_the_run() {
    use Trust::{Trusted, Untrusted};
    for (own, run, expected) in [
        (None, None, Trusted),
        (None, Some(Untrusted), Untrusted),
        (Some(Untrusted), None, Untrusted),
        (Some(Trusted), Some(Untrusted), Trusted),
        (Some(Untrusted), Some(Trusted), Untrusted),
    ] {
        let mut host = Host::new();
        host.run_trust = run;
        let mut sent = question();
        if let Some(own) = own {
            sent["meta"]["contentTrust"] = own.as_str().into();
        }
        let verdict = host.accept(&sent);
        assert_eq!(verdict.outcome.to_value()["normalizedMeta"]["contentTrust"], expected.as_str());
        assert_eq!(project(&verdict, "n", RefusalMode::FailNode).content_trust, expected);
        host.approves = true;
        let approved =
            if expected == Trusted { "accepted" } else { "invalid untrusted_content_blocks_approval" };
        assert_eq!(short(&host.accept(&sent)), approved);
    }
}

#[test]
fn outcomes_and_events_are_redacted() {
    let canary = "sk-canary-DO-NOT-LEAK-9d7f3a2b";
    let mut host = Host::new();
    host.redactor = Redactor::new([Secret::new("byok-1", canary)]);
    let nested = json!({"questions": [
        {"id": "q1", "question": format!("What is {canary}?")},
        {"id": "q2", "question": "x", "context": {"trace": format!("{canary}/{canary}"), "deep": [[[]]]}},
    ]});
    let verdict = host.accept(&envelope("clarification.request", nested));
    let outcome = verdict.outcome.to_value();
    assert_eq!(outcome["redactionCount"], 3);
    assert!(outcome["redactedPayload"].to_string().contains("[REDACTED:byok-1]"));
    let clean = host.accept(&question()).outcome.to_value();
    assert_eq!(clean["redactionCount"], 0, "secrets were given, so a count of 0 is reported");
    assert_eq!(Host::new().accept(&question()).outcome.to_value().get("redactionCount"), None);
    let mut everywhere = vec![(verdict, host.kinds.clone())];
    // A rejection may contain member names, which the model chooses.
    let hostile = [
        envelope(canary, json!({})),
        envelope("error", json!({canary: 1, "code": canary})),
        envelope("schema.request", json!({"envelopeType": canary})),
        envelope("error", json!({"code": "c", "message": canary, "details": {canary: canary}})),
    ];
    for kinds in [Kinds::any(), Kinds::only(Vec::new())] {
        host.kinds = kinds;
        for sent in &hostile {
            everywhere.push((host.accept(sent), host.kinds.clone()));
        }
        host.contract = Some(Contract::new(["vendor.x".to_owned()], RefusalMode::FailNode));
    }
    for (verdict, kinds) in everywhere {
        let events = project(&verdict, "n", RefusalMode::FailNode);
        let warned = project(&verdict, "n", RefusalMode::DiscardAndWarn);
        let attributes = verdict.attributes(kinds.current("x"));
        let printed = format!(
            "{:?} {} {events:?} {warned:?} {attributes}",
            verdict.outcome,
            verdict.outcome.to_value()
        );
        assert!(!printed.contains(canary), "{printed}");
    }
}

#[test]
fn events_follow_from_outcomes() {
    let vendor = || envelope("vendor.x.bar", json!({"a": 1}));
    let full = Some(Counter { current: 3, cap: 3 });
    let cases: Vec<(&str, Value, Host, RefusalMode, Vec<&str>)> = vec![
        (
            "a question",
            question(),
            Host::new(),
            RefusalMode::FailNode,
            vec!["clarification.requested", "interrupt.requested"],
        ),
        (
            "a schema",
            envelope("schema.request", json!({"envelopeType": "x"})),
            Host::new(),
            RefusalMode::FailNode,
            vec!["log.appended debug"],
        ),
        (
            "an error",
            envelope("error", json!({"code": "c", "message": "m"})),
            Host::new(),
            RefusalMode::FailNode,
            vec!["log.appended error"],
        ),
        ("anything", vendor(), Host::new(), RefusalMode::FailNode, vec!["log.appended info"]),
        (
            "another kind",
            vendor(),
            Host { kinds: Kinds::only([]), ..Host::new() },
            RefusalMode::FailNode,
            vec!["node.failed envelope_contract_violation"],
        ),
        (
            "dropped",
            vendor(),
            Host { kinds: Kinds::only([]), ..Host::new() },
            RefusalMode::DiscardAndWarn,
            vec!["log.appended warn"],
        ),
        (
            "too many",
            question(),
            Host { counters: Counters { clarification: full, ..Counters::default() }, ..Host::new() },
            RefusalMode::FailNode,
            vec!["cap.breached clarification", "node.failed cap_breached"],
        ),
        (
            "broken",
            json!({}),
            Host::new(),
            RefusalMode::FailNode,
            vec!["node.failed envelope_validation_failed"],
        ),
    ];
    for (name, sent, host, mode, expected) in cases {
        let projection = project(&host.accept(&sent), "n", mode);
        let word = |event: &ai::event::RunEvent| {
            let payload = &event.payload;
            let more = match event.kind {
                EventKind::LogAppended => payload["level"].as_str(),
                EventKind::CapBreached => payload["kind"].as_str(),
                EventKind::NodeFailed => payload["error"]["code"].as_str(),
                _ => None,
            };
            format!("{} {}", event.kind, more.unwrap_or_default()).trim_end().to_owned()
        };
        assert_eq!(projection.events.iter().map(word).collect::<Vec<_>>(), expected, "{name}");
        protocol::check(&projection.events);
        let id = sent.get("correlationId").and_then(Value::as_str);
        assert_eq!(projection.causation_id.as_deref(), id, "{name}");
        if name == "another kind" {
            let details = &projection.events[0].payload["error"]["details"];
            assert_eq!(details["refusedType"], "vendor.x.bar");
            assert!(details["acceptedTypes"].as_array().unwrap().contains(&"error".into()));
        }
        if name == "too many" {
            let breach = &projection.events[0].payload;
            assert_eq!(
                (&breach["limit"], &breach["observed"], &breach["nodeId"]),
                (&json!(3), &json!(3), &json!("n"))
            );
        }
    }
}

#[test]
fn limits_count_by_kind_and_are_named_in_the_reason() {
    let full = Some(Counter { current: 32, cap: 32 });
    let cases = [
        (
            "error",
            json!({"code": "x", "message": "y"}),
            Counters { envelopes: full, ..Counters::default() },
            Some("envelopes"),
        ),
        (
            "schema.request",
            json!({"envelopeType": "x"}),
            Counters { schema: full, ..Counters::default() },
            Some("schema"),
        ),
        (
            "schema.response",
            json!({"envelopeType": "x", "ack": true}),
            Counters { envelopes: full, schema: full, clarification: full },
            Some("envelopes"),
        ),
        (
            "error",
            json!({"code": "x", "message": "y"}),
            Counters { schema: full, ..Counters::default() },
            None,
        ),
    ];
    for (kind, payload, counters, expected) in cases {
        let outcome = Host { counters, ..Host::new() }.accept(&envelope(kind, payload)).outcome.to_value();
        assert_eq!(outcome.get("capKind").and_then(Value::as_str), expected, "{kind}");
        if expected == Some("envelopes") {
            let reason = outcome["reason"].as_str().unwrap();
            assert!(reason.contains("envelopesPerTurn") && reason.contains("32"), "{reason}");
        }
    }
    assert_eq!(
        short(&Host { clarifications: false, ..Host::new() }.accept(&question())),
        "invalid not-applicable"
    );
}
