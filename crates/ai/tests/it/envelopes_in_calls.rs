//! Model calls whose replies are envelopes.

use ai::completion::{Attempt, Completion, Counter, EnvelopeRules, ModelCall, Next, Settings, Step};
use ai::envelope::{Contract, Kinds, Prior, RefusalMode, Strictness};
use ai::event::{EventKind, RunEvent};
use ai::provider::{Message, Output, Reply, Request, Role};
use ai::redact::{Redactor, Secret};
use ai::schema::Schema;
use ai::trust::Trust;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::acceptance::envelope;
use crate::protocol;

fn judging() -> EnvelopeRules {
    let mut kinds = Kinds::only(["vendor.acme.note".to_owned()]);
    for kind in ["clarification.request", "schema.request", "schema.response", "error", "vendor.acme.note"] {
        kinds.version(kind, 1);
    }
    kinds.schema("vendor.acme.note", &json!({"type": "object", "required": ["text"]})).unwrap();
    EnvelopeRules {
        kinds,
        contract: None,
        strictness: Strictness::Warn,
        run_trust: None,
        prefix: "run:ask".to_owned(),
        at: "2026-05-18T10:00:00Z".to_owned(),
    }
}

fn contract(mode: RefusalMode) -> EnvelopeRules {
    let contract = Contract::new(["vendor.acme.note".to_owned()], mode);
    EnvelopeRules { contract: Some(contract), ..judging() }
}

fn document() -> Value {
    json!({"type": "object", "required": ["valid"], "properties": {"valid": {"type": "boolean"}}, "title": "RoutingDecision"})
}

fn begin(judging: EnvelopeRules, asks_for_document: bool) -> (Completion, ModelCall) {
    let redactor = Redactor::new([Secret::new("key", "hunter2hunter2")]);
    let settings = Settings {
        envelopes: Some(judging),
        envelope_type: if asks_for_document { "RoutingDecision" } else { "text" }.to_owned(),
        redactor,
        ..Settings::new("ask", "local")
    };
    let output = if asks_for_document { Output::json("RoutingDecision", document()) } else { Output::Text };
    let request = Request::new("m", vec![Message::user("Say it.")], output);
    let schema = asks_for_document.then(|| Schema::compile(&document()).unwrap());
    Completion::start(settings, request, schema)
}

const FREE: Option<Counter> = Some(Counter { current: 0, cap: 3 });

/// Feeds a reply and validates it if it is an envelope.
fn feed(completion: &mut Completion, text: &str) -> Step {
    fed(completion, Reply::text(text), None, FREE)
}

fn fed(completion: &mut Completion, reply: Reply, prior: Option<&Prior>, asked: Option<Counter>) -> Step {
    let Step { events, next } = completion.on(Attempt::Reply(reply));
    match next {
        Next::Judge(document) => {
            assert!(events.is_empty(), "no event before the verdict");
            let verdict = completion.judge(&document, prior, asked);
            let step = completion.take(&verdict);
            let mut recorded = step.events.clone();
            // Clarification events have a closed schema: the engine records the trust separately.
            let asks = recorded.iter_mut().filter(|event| event.kind == EventKind::InterruptRequested);
            asks.for_each(|event| drop(event.payload.remove("contentTrust")));
            protocol::check(&recorded);
            step
        }
        next => Step { events, next },
    }
}

/// A step in short: its events, the next action, and the reason.
fn short(step: &Step) -> String {
    let event = |event: &RunEvent| {
        let member = |name: &str| event.payload.get(name).and_then(Value::as_str).unwrap_or_default();
        match event.kind {
            EventKind::ProviderUsage => "usage".to_owned(),
            EventKind::LogAppended => format!("log:{}", member("level")),
            EventKind::RetryAttempted => format!("again:{}", member("reason")),
            EventKind::RetryExhausted => format!("over:{}", member("finalReason")),
            EventKind::CapBreached => format!("cap:{}", member("kind")),
            EventKind::InterruptRequested => format!("ask:{}", member("kind")),
            other => other.to_string(),
        }
    };
    let events: Vec<String> = step.events.iter().map(event).collect();
    let next = match &step.next {
        Next::Call(call) => format!("call {}", call.ordinal),
        Next::Judge(_) => "judge".to_owned(),
        Next::Waits => "waits".to_owned(),
        Next::Done(done) => format!("done {}", done.envelope.as_ref().map_or("-", |taken| &taken.kind)),
        Next::Failed(failed) => format!("failed {}", failed.code),
    };
    format!("{} > {next}", events.join(" "))
}

fn question() -> Value {
    json!({"questions": [{"id": "b", "question": "Which?"}, {"id": "a", "question": "When?"}]})
}

#[test]
fn every_kind_has_its_effect_in_text_and_document_calls() {
    let note = json!({"text": "hi"});
    let cases: &[(&str, Value, &str, &str)] = &[
        (
            "clarification.request",
            question(),
            "usage ask:clarification > waits",
            "usage ask:clarification > waits",
        ),
        (
            "schema.request",
            json!({"envelopeType": "error"}),
            "usage log:debug > call 1",
            "usage log:debug > call 1",
        ),
        (
            "schema.response",
            json!({"envelopeType": "error", "ack": true}),
            "usage log:debug > call 1",
            "usage log:debug > call 1",
        ),
        (
            "error",
            json!({"code": "ambiguous_intent", "message": "no"}),
            "usage log:error > done error",
            "usage log:error again:type-drift > call 1",
        ),
        (
            "vendor.acme.note",
            note,
            "usage log:info > done vendor.acme.note",
            "usage log:info again:type-drift > call 1",
        ),
        (
            "clarification.request",
            json!({"questions": []}),
            "usage again:schema-violation > call 1",
            "usage again:schema-violation > call 1",
        ),
        (
            "clarification.request",
            json!({"questions": [{"id": "a", "question": "?", "schema": {"type": "nothing"}}]}),
            "usage again:schema-violation > call 1",
            "usage again:schema-violation > call 1",
        ),
        (
            "clarification.request",
            json!({"questions": [{"id": "a", "question": "?"}, {"id": "a", "question": "!"}]}),
            "usage again:schema-violation > call 1",
            "usage again:schema-violation > call 1",
        ),
        (
            "schema.request",
            json!({"envelopeType": "vendor.acme.other"}),
            "usage again:schema-violation > call 1",
            "usage again:schema-violation > call 1",
        ),
        (
            "vendor.other.kind",
            json!({}),
            "usage again:type-drift > call 1",
            "usage again:type-drift > call 1",
        ),
    ];
    for (kind, payload, text, structured) in cases {
        for (document, expected) in [(false, text), (true, structured)] {
            let (mut completion, _) = begin(contract(RefusalMode::FailNode), document);
            let step = feed(&mut completion, &envelope(kind, payload.clone()).to_string());
            assert_eq!(&short(&step), expected, "{kind}, document: {document}");
        }
    }
}

#[test]
fn missing_metadata_is_added_deterministically() {
    let bare = json!({"type": "clarification.request", "payload": question()});
    let asked = |text: &str| {
        let (mut completion, _) = begin(judging(), false);
        let Next::Judge(document) = completion.on(Attempt::Reply(Reply::text(text))).next else { panic!() };
        document
    };
    let document = asked(&bare.to_string());
    assert_eq!(document, asked(&format!("```json\n{bare}\n```")));
    assert!(document["correlationId"].as_str().unwrap().starts_with("run:ask:0:"), "{document}");
    assert_eq!(document["schemaVersion"], 1);
    assert_eq!(document["meta"], json!({"source": "ai-generation", "ts": "2026-05-18T10:00:00Z"}));
    // Existing members are kept and validated.
    let named = json!({"type": "error", "payload": {"code": "c", "message": "m"}, "correlationId": ""});
    assert_eq!(asked(&named.to_string())["correlationId"], "");
    let long = EnvelopeRules { prefix: "r".repeat(200), ..judging() };
    let (mut completion, _) = begin(long, false);
    let Next::Judge(document) = completion.on(Attempt::Reply(Reply::text(bare.to_string()))).next else {
        panic!()
    };
    assert_eq!(document["correlationId"].as_str().unwrap().len(), 64);
}

#[test]
fn lookalikes_are_normal_output() {
    let inside = json!({"type": "error", "payload": {"code": "c", "message": "m"}});
    let texts = [
        format!("An envelope looks like this: {inside}"),
        format!("Look:\n```json\n{inside}\n```\nThat is all."),
        json!({"type": "error", "payload": {}, "more": 1}).to_string(),
        json!({"type": "error"}).to_string(),
        json!({"type": "vendor.acme.note", "payload": {"text": "no contract has it"}}).to_string(),
        envelope("vendor.acme.note", json!({"text": "no contract has it"})).to_string(),
        "{}".to_owned(),
    ];
    for text in texts {
        let (mut completion, _) = begin(judging(), false);
        assert_eq!(short(&feed(&mut completion, &text)), "usage > done -", "{text}");
    }
    // A document that matches the requested schema is the output, whatever it looks like.
    let schema = json!({"type": "object", "required": ["type", "payload"]});
    let settings = Settings { envelopes: Some(judging()), ..Settings::new("ask", "local") };
    let request = Request::new("m", vec![Message::user("Say it.")], Output::json("t", schema.clone()));
    let (mut completion, _) = Completion::start(settings, request, Some(Schema::compile(&schema).unwrap()));
    let step = feed(&mut completion, &inside.to_string());
    assert_eq!(short(&step), "usage > done -");
    // Without envelope support, an envelope is plain text.
    let settings = Settings::new("ask", "local");
    let request = Request::new("m", vec![Message::user("Say it.")], Output::Text);
    let (mut completion, _) = Completion::start(settings, request, None);
    assert_eq!(short(&feed(&mut completion, &inside.to_string())), "usage > done -");
}

#[test]
fn the_requested_document_may_arrive_in_an_envelope() {
    let (mut completion, _) = begin(judging(), true);
    let step =
        feed(&mut completion, &json!({"type": "RoutingDecision", "payload": {"valid": true}}).to_string());
    assert_eq!(short(&step), "usage > done RoutingDecision");
    let Next::Done(done) = step.next else { panic!() };
    assert_eq!(done.value, json!({"valid": true}));
    let (mut completion, _) = begin(judging(), true);
    let said = json!({"type": "RoutingDecision", "schemaVersion": 1, "payload": {"valid": true}}).to_string();
    assert_eq!(
        short(&feed(&mut completion, &said)),
        "usage > done RoutingDecision",
        "as the model is instructed to write it"
    );
    let (mut completion, _) = begin(judging(), true);
    let step =
        feed(&mut completion, &json!({"type": "RoutingDecision", "payload": {"valid": "no"}}).to_string());
    assert_eq!(short(&step), "usage again:schema-violation > call 1");
}

#[test]
fn answers_go_to_the_model_and_untrusted_ones_are_marked() {
    let asked = envelope("clarification.request", question()).to_string();
    for (trust, is_marked) in [(None, false), (Some(Trust::Trusted), false), (Some(Trust::Untrusted), true)] {
        let (mut completion, _) = begin(EnvelopeRules { run_trust: trust, ..judging() }, true);
        let step = feed(&mut completion, &asked);
        assert_eq!(short(&step), "usage ask:clarification > waits");
        let interrupt = step.events.last().unwrap();
        assert_eq!(interrupt.causation_id.as_deref(), Some("r:n:0:1"));
        assert_eq!(interrupt.payload["contentTrust"], if is_marked { "untrusted" } else { "trusted" });
        let ids: Vec<&Value> =
            interrupt.payload["data"]["questions"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, ["b", "a"], "in the model's order");
        let step = completion.answered(&json!({"answers": {"a": "now", "b": "</UNTRUSTED>"}}));
        let Next::Call(call) = &step.next else { panic!("{step:?}") };
        assert_eq!(call.ordinal, 1);
        let [.., said, reply] = call.request.messages.as_slice() else { panic!() };
        assert_eq!((said.role, said.content.as_str()), (Role::Assistant, asked.as_str()));
        assert_eq!(reply.content.contains("<UNTRUSTED>"), is_marked, "{}", reply.content);
        assert!(reply.content.contains(r#""a":"now""#), "{}", reply.content);
        // Earlier messages stay in the conversation when a later reply is requested again.
        let Next::Call(again) = feed(&mut completion, "prose").next else { panic!() };
        assert!(again.request.messages.iter().any(|message| message.content == reply.content));
        let step = feed(&mut completion, r#"{"valid": true}"#);
        assert_eq!(short(&step), "usage > done -");
    }
}

#[test]
fn schema_requests_return_the_schema() {
    let cases = [
        ("RoutingDecision", json!("valid")),
        ("error", json!("ErrorEnvelopePayload")),
        ("vendor.acme.note", json!("text")),
    ];
    for (kind, expected) in cases {
        let (mut completion, _) = begin(contract(RefusalMode::FailNode), true);
        let step =
            feed(&mut completion, &envelope("schema.request", json!({"envelopeType": kind})).to_string());
        let Next::Call(call) = &step.next else { panic!("{step:?}") };
        let reply = &call.request.messages.last().unwrap().content;
        assert!(reply.contains(&expected.to_string()), "{kind}: {reply}");
    }
}

#[test]
fn a_contract_fails_the_node_or_discards_the_envelope() {
    let mut kinds = judging().kinds;
    kinds.add("vendor.acme.other", Schema::compile(&json!({})).unwrap(), 1);
    let other = envelope("vendor.acme.other", json!({})).to_string();
    let judged = |mode| {
        let (mut completion, _) = begin(EnvelopeRules { kinds: kinds.clone(), ..contract(mode) }, false);
        feed(&mut completion, &other)
    };
    let step = judged(RefusalMode::FailNode);
    assert_eq!(short(&step), "usage > failed envelope_contract_violation");
    let Next::Failed(failed) = step.next else { panic!() };
    let details = failed.details.unwrap();
    assert_eq!(details["refusedType"], "vendor.acme.other");
    assert_eq!(
        details["acceptedTypes"],
        json!(["clarification.request", "schema.request", "schema.response", "error", "vendor.acme.note"])
    );
    let step = judged(RefusalMode::DiscardAndWarn);
    assert_eq!(short(&step), "usage log:warn again:type-drift > call 1");
}

#[test]
fn every_limit_fails_the_call_with_its_name() {
    // The limit on questions is reached.
    let (mut completion, _) = begin(judging(), false);
    let reply = Reply::text(envelope("clarification.request", question()).to_string());
    let step = fed(&mut completion, reply, None, Some(Counter { current: 3, cap: 3 }));
    assert_eq!(short(&step), "usage cap:clarification > failed cap_breached");
    let Next::Failed(failed) = step.next else { panic!() };
    assert_eq!(failed.details.unwrap(), json!({"capKind": "clarification", "limit": 3, "observed": 3}));
    // Schema requests count together with invalid replies.
    let (mut completion, _) = begin(judging(), true);
    let request = envelope("schema.request", json!({"envelopeType": "error"})).to_string();
    let said: Vec<String> =
        [request.as_str(), "{}", &request].map(|text| short(&feed(&mut completion, text))).to_vec();
    assert_eq!(
        said,
        [
            "usage log:debug > call 1",
            "usage again:schema-violation > call 2",
            "usage cap:schema > failed cap_breached"
        ]
    );
    // Envelopes of any kind.
    let (mut completion, _) = begin(judging(), false);
    let ack = envelope("schema.response", json!({"envelopeType": "error", "ack": true})).to_string();
    for round in 1..=5 {
        assert_eq!(short(&feed(&mut completion, &ack)), format!("usage log:debug > call {round}"));
    }
    assert_eq!(short(&feed(&mut completion, &ack)), "usage cap:envelopes > failed cap_breached");
}

#[test]
fn duplicates_have_no_effect_and_another_kind_conflicts() {
    let text = envelope("error", json!({"code": "c", "message": "m"})).to_string();
    for (kind, expected) in [
        ("error", "usage again:type-drift > call 1"),
        ("schema.response", "usage > failed envelope_validation_failed"),
    ] {
        let (mut completion, _) = begin(judging(), false);
        let prior = Prior { envelope_type: kind.to_owned(), outcome: json!({"status": "accepted"}) };
        let step = fed(&mut completion, Reply::text(&*text), Some(&prior), FREE);
        assert_eq!(short(&step), expected);
    }
}

#[test]
fn an_older_version_is_logged_and_a_newer_one_rejected() {
    let mut old = envelope("error", json!({"code": "c", "message": "m"}));
    old["schemaVersion"] = 0.into();
    let (mut completion, _) = begin(judging(), false);
    let step = feed(&mut completion, &old.to_string());
    assert_eq!(short(&step), "usage log:warn log:error > done error");
    assert_eq!(step.events[1].payload["fields"]["code"], "envelope_schema_version_drift");
    old["schemaVersion"] = 2.into();
    let (mut completion, _) = begin(judging(), false);
    let step = feed(&mut completion, &old.to_string());
    assert_eq!(short(&step), "usage > failed envelope_validation_failed");
}

#[test]
fn events_have_the_envelope_as_cause_and_are_redacted() {
    let payload =
        json!({"code": "c", "message": "the key is hunter2hunter2", "details": {"hunter2hunter2": 1}});
    let (mut completion, _) = begin(judging(), false);
    let step = feed(&mut completion, &envelope("error", payload).to_string());
    assert!(step.events.iter().all(|event| event.causation_id.as_deref() == Some("r:n:0:1")), "{step:?}");
    assert!(!format!("{:?}", step.events).contains("hunter2"), "{step:?}");
    let Next::Done(done) = step.next else { panic!() };
    let taken = done.envelope.unwrap();
    assert!(!taken.payload.to_string().contains("hunter2"));
    assert_eq!(taken.payload["message"], "the key is [REDACTED:key]");
}

proptest! {
    /// A call always ends, and the same input produces the same result.
    #[test]
    fn a_call_ends_whatever_envelopes_come_and_goes_the_same_way_again(
        kinds in proptest::collection::vec(0_usize..7, 0..24), asks_for_document: bool,
    ) {
        let texts: Vec<String> = kinds.iter().enumerate().map(|(place, kind)| {
            let mut document = match kind {
                0 => envelope("clarification.request", question()),
                1 => envelope("schema.request", json!({"envelopeType": "error"})),
                2 => envelope("schema.response", json!({"envelopeType": "error", "ack": true})),
                3 => envelope("error", json!({"code": "c", "message": "m"})),
                4 => envelope("vendor.acme.note", json!({})),
                5 => envelope("vendor.acme.unknown", json!({})),
                _ => json!({"neither": true}),
            };
            document["correlationId"] = format!("c{place}").into();
            document.to_string()
        }).collect();
        let run = || {
            let (mut completion, first) = begin(contract(RefusalMode::DiscardAndWarn), asks_for_document);
            let (mut said, mut calls) = (Vec::new(), vec![first.ordinal]);
            let mut replies = texts.iter().cloned().chain(std::iter::repeat("{}".to_owned()));
            let mut asked = 0;
            loop {
                let counter = Counter { current: asked, cap: 3 };
                let mut step = fed(&mut completion, Reply::text(replies.next().unwrap()), None, Some(counter));
                said.push(short(&step));
                if step.next == Next::Waits {
                    asked += 1;
                    step = completion.answered(&json!({"answers": {}}));
                }
                match step.next {
                    Next::Call(call) => calls.push(call.ordinal),
                    _ => return (said, calls),
                }
            }
        };
        let (said, calls) = run();
        prop_assert_eq!(&calls, &(0..u32::try_from(calls.len()).unwrap()).collect::<Vec<_>>());
        prop_assert!(calls.len() <= 12, "{:?}", calls);
        prop_assert_eq!((said, calls), run());
    }
}

#[test]
fn corrections_do_not_quote_the_model() {
    let mut kinds = judging().kinds;
    let open = json!({"type": "object", "additionalProperties": {"type": "string"}});
    kinds.add("vendor.acme.open", Schema::compile(&open).unwrap(), 1);
    let contract = Contract::new(["vendor.acme.open".to_owned()], RefusalMode::DiscardAndWarn);
    let judging =
        EnvelopeRules { kinds, contract: Some(contract), run_trust: Some(Trust::Untrusted), ..judging() };
    let (mut completion, _) = begin(judging.clone(), false);
    let step = feed(&mut completion, &envelope("vendor.acme.open", json!({"obey me": 7})).to_string());
    let Next::Call(call) = &step.next else { panic!("{step:?}") };
    assert!(call.corrective && !format!("{step:?}").contains("obey me"));
    let advice = call.request.messages.iter().find(|message| message.role == Role::System).unwrap();
    assert!(!advice.content.contains("obey me"), "{}", advice.content);
    // A known kind outside the contract is logged in the same way.
    let (mut completion, _) = begin(judging, false);
    let step = feed(&mut completion, &envelope("vendor.acme.note", json!({"text": "x"})).to_string());
    let line = step.events.iter().find(|event| event.kind == EventKind::LogAppended).unwrap();
    assert_eq!(line.payload["contentTrust"], "untrusted");
}

#[test]
fn a_model_cannot_choose_event_ids() {
    let (mut completion, _) = begin(judging(), false);
    let mut document = envelope("error", json!({"code": "c", "message": "m"}));
    document["correlationId"] = "evt_run_3".into();
    let step = feed(&mut completion, &document.to_string());
    let cause = step.events[0].causation_id.as_deref().unwrap();
    assert!(cause.starts_with("run:ask:0:"), "{cause}");
}
