//! Properties.

use ai::completion::recover;
use ai::envelope::{Acceptance, Counters, Kinds, Prior, RefusalMode, Strictness, accept, project};
use ai::provider::sse::SseReader;
use ai::provider::{Output, Request, anthropic, mock, openai};
use ai::redact::{Redactor, Secret};
use ai::trust::{self, Trust};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::acceptance::envelope;
use crate::protocol;
use crate::wire::{ANTHROPIC_STREAM, OPENAI_STREAM};

/// A request for a document and one for text are decoded alike, except for tool inputs.
fn asked() -> Request {
    Request::new("m", Vec::new(), Output::json("x", json!({"type": "object"})))
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c]{0,24}".prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{0,16}", inner, 0..6)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

/// Values over few letters, so that they overlap with themselves, each other and the text.
fn secrets() -> impl Strategy<Value = Vec<Secret>> {
    let secret = ("[x-z]{1,4}", "[a-c]{6,14}").prop_map(|(id, value)| Secret::new(id, value));
    prop::collection::vec(secret, 0..5)
}

fn trusts() -> impl Strategy<Value = Trust> {
    prop_oneof![Just(Trust::Trusted), Just(Trust::Untrusted)]
}

fn total(document: &Value, redactor: &Redactor, prior: &dyn Fn(&str) -> Option<Prior>) {
    let mut kinds = Kinds::only(["vendor.a".to_owned()]);
    kinds.version("error", 1);
    for kinds in [&kinds, &Kinds::any()] {
        let verdict = accept(&Acceptance {
            envelope: document,
            supported: true,
            kinds,
            strictness: Strictness::Strict,
            contract: None,
            counters: Counters::default(),
            redactor,
            run_trust: None,
            prior,
            approves: false,
            clarifications: true,
        });
        let value = verdict.outcome.to_value();
        assert!(
            ["accepted", "gated", "invalid", "breached"].contains(&value["status"].as_str().unwrap()),
            "{value}"
        );
        let projection = project(&verdict, "n", RefusalMode::FailNode);
        protocol::check(&projection.events);
        assert!(!projection.events.is_empty(), "every verdict has an event");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_part_of_a_secret_survives(text in "[a-d]{0,80}", secrets in secrets()) {
        let redactor = Redactor::new(secrets.clone());
        let (clean, count) = redactor.text(&text);
        for secret in secrets.iter().filter(|secret| secret.expose().len() >= 8) {
            prop_assert!(!clean.contains(secret.expose()), "{clean}");
        }
        prop_assert_eq!(count, clean.matches("[REDACTED:").count());
        prop_assert_eq!(redactor.text(&clean).1, 0, "redaction is idempotent");
    }

    #[test]
    fn redacting_a_document_is_idempotent(mut document in document(), secrets in secrets()) {
        let redactor = Redactor::new(secrets.clone());
        redactor.value(&mut document);
        let once = document.clone();
        prop_assert_eq!(redactor.value(&mut document), 0);
        prop_assert_eq!(&document, &once);
        for secret in secrets.iter().filter(|secret| secret.expose().len() >= 8) {
            prop_assert!(!once.to_string().contains(secret.expose()));
        }
    }

    #[test]
    fn trust_is_a_meet(a in trusts(), b in trusts(), c in trusts()) {
        prop_assert_eq!(a.meet(b), b.meet(a));
        prop_assert_eq!(a.meet(b).meet(c), a.meet(b.meet(c)));
        prop_assert_eq!(a.meet(a), a);
        prop_assert_eq!(a.meet(Trust::Trusted), a);
        prop_assert_eq!(Trust::of_all([a, b, c]) == Trust::Untrusted, [a, b, c].contains(&Trust::Untrusted));
    }

    #[test]
    fn text_cannot_close_its_marker(
        parts in prop::collection::vec(prop_oneof![
            Just("<".to_owned()), Just("</".to_owned()), Just("UNTRUSTED".to_owned()), Just("untrusted>".to_owned()),
            Just(" ".to_owned()), Just("\u{200b}".to_owned()), Just(">".to_owned()), "\\PC{0,4}",
        ], 0..12)
    ) {
        let text = parts.concat();
        let wrapped = trust::wrap(&text);
        // A reader that ignores case, spaces and zero-width characters.
        let seen: String = wrapped.chars().filter(|c| !c.is_whitespace() && *c != '\u{200b}').collect::<String>().to_lowercase();
        prop_assert_eq!(seen.matches("<untrusted").count(), 1);
        prop_assert_eq!(seen.matches("</untrusted").count(), 1);
        prop_assert!(seen.starts_with("<untrusted>") && seen.ends_with("</untrusted>"));
    }

    #[test]
    fn the_pipeline_has_an_outcome_for_everything(document in document()) {
        total(&document, &Redactor::default(), &|_| None);
    }

    #[test]
    fn the_pipeline_has_an_outcome_for_everything_that_looks_like_an_envelope(
        kind in prop_oneof![
            Just("clarification.request"), Just("schema.request"), Just("schema.response"), Just("error"), Just("vendor.a"), Just("other"),
        ],
        payload in document(), version in 0_u8..3, secrets in secrets(), extra in prop::option::of(document()),
    ) {
        let mut sent = envelope(kind, payload);
        sent["schemaVersion"] = version.into();
        if let Some(extra) = extra {
            sent["meta"]["rendering"] = extra;
        }
        total(&sent, &Redactor::new(secrets), &|_| None);
    }

    #[test]
    fn a_document_is_recovered_from_any_position(before in "[^{}\\[\\]\"`]{0,40}", after in "[^{}\\[\\]\"`]{0,40}", document in document()) {
        prop_assume!(document.is_object() || document.is_array());
        let plain = recover::read(&document.to_string()).unwrap();
        prop_assert_eq!((plain.path, &plain.value), (recover::RecoveryPath::Direct, &document));
        let inside = recover::read(&format!("{before}{document}{after}")).unwrap();
        prop_assert_eq!(&inside.value, &document);
        let fenced = recover::read(&format!("{before}\n```json\n{document}\n```\n{after}"));
        // A string in the document may contain a fence; then the document is found by its brackets.
        prop_assert_eq!(&fenced.unwrap().value, &document);
    }

    #[test]
    fn reading_a_reply_is_total(text in "[{}\\[\\]\",:`\\\\ a1\n]{0,120}") {
        if let Some(found) = recover::read(&text) {
            prop_assert!(found.offset <= text.len() && text.is_char_boundary(found.offset));
        }
    }

    #[test]
    fn sse_events_do_not_depend_on_splits(
        lines in prop::collection::vec(prop_oneof![
            Just("data: a".to_owned()), Just("event: x".to_owned()), Just(String::new()), Just(": c".to_owned()), Just("data:\u{fc}".to_owned()),
        ], 0..12),
        ends in prop::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 12),
        cuts in prop::collection::vec(1_usize..7, 1..40),
    ) {
        let text: String = lines.iter().zip(&ends).map(|(line, end)| format!("{line}{end}")).collect();
        let whole = SseReader::new().feed(text.as_bytes()).unwrap();
        let mut reader = SseReader::new();
        let mut pieces = Vec::new();
        let mut rest = text.as_bytes();
        for cut in cuts.iter().cycle() {
            let (piece, more) = rest.split_at(rest.len().min(*cut));
            pieces.extend(reader.feed(piece).unwrap());
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(pieces, whole);
    }

    #[test]
    fn streamed_replies_do_not_depend_on_splits(cut in 0_usize..OPENAI_STREAM.len(), other in 0_usize..ANTHROPIC_STREAM.len()) {
        let (first, second) = OPENAI_STREAM.as_bytes().split_at(cut);
        let mut stream = openai::Stream::new();
        let mut deltas = stream.feed(first).unwrap();
        deltas.extend(stream.feed(second).unwrap());
        let mut whole = openai::Stream::new();
        prop_assert_eq!(deltas, whole.feed(OPENAI_STREAM.as_bytes()).unwrap());
        prop_assert_eq!(stream.finish(), whole.finish());
        let (first, second) = ANTHROPIC_STREAM.as_bytes().split_at(other);
        let mut stream = anthropic::Stream::new(&asked());
        let mut deltas = stream.feed(first).unwrap();
        deltas.extend(stream.feed(second).unwrap());
        let mut whole = anthropic::Stream::new(&asked());
        prop_assert_eq!(deltas, whole.feed(ANTHROPIC_STREAM.as_bytes()).unwrap());
        prop_assert_eq!(stream.finish(), whole.finish());
    }

    #[test]
    fn readers_of_providers_are_total(bytes in prop::collection::vec(any::<u8>(), 0..200), document in document()) {
        for body in [bytes.clone(), document.to_string().into_bytes()] {
            let _ = (openai::reply(200, &|_| None, &body), anthropic::reply(&asked(), 200, &|_| None, &body));
            let _ = (openai::Stream::new().feed(&body), anthropic::Stream::new(&asked()).feed(&body));
        }
        let _ = mock::Program::read(&document);
        let _ = mock::Program::read(&json!([document]));
    }
}
