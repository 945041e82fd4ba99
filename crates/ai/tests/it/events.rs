//! Events that no other test makes, against the schemas of the protocol.

use ai::chunks::Chunks;
use ai::completion::divergence::{At, at_refusal};
use ai::gate::{Question, evaluate, known_capabilities};
use ai::provider::mock::StreamMock;
use ai::provider::{Refusal, Reply, StopReason};
use ai::reasoning::{Block, Settings, Verbosity};
use ai::redact::{Redactor, Secret};
use serde_json::json;

use crate::protocol;

#[test]
fn a_reply_that_comes_piece_by_piece_has_the_chunks_of_the_protocol() {
    let mock = StreamMock::read("stream-text", &json!({"tokens": ["a", "b", "c"]})).unwrap();
    let mut chunks = Chunks::new("run_1", "ai", Redactor::default());
    let (last, first) = mock.tokens.split_last().unwrap();
    let mut events: Vec<_> = first.iter().filter_map(|token| chunks.piece(token)).collect();
    events.push(chunks.last(last, mock.meta()));
    protocol::check(&events);
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.payload["chunk"].clone(), event.payload["isLast"].clone()))
        .collect();
    assert_eq!(told, [(json!("a"), json!(false)), (json!("b"), json!(false)), (json!("c"), json!(true))]);
    assert_eq!(events[2].payload["meta"]["usage"]["completionTokens"], 3);
}

#[test]
fn thoughts_have_the_events_of_the_protocol() {
    for verbosity in Verbosity::ALL {
        let settings = Settings {
            agent_id: "host:ai".to_owned(),
            verbosity: *verbosity,
            token_limit: 8,
            streaming: true,
            redactor: Redactor::default(),
        };
        let mut block = Block::new(settings);
        let mut events: Vec<_> =
            ["first, ", "second"].iter().filter_map(|piece| block.piece(piece)).collect();
        events.extend(block.close(None));
        protocol::check(&events);
        assert_eq!(events.len(), if *verbosity == Verbosity::Off { 0 } else { 3 });
    }
}

#[test]
fn a_replay_that_is_refused_where_the_run_was_not_is_told() {
    let valid = Reply::text("{}");
    let words = Some("because of hunter2-hunter2".to_owned());
    let refused = Reply {
        stop: StopReason::Safety,
        refusal: Some(Refusal { text: words, category: None }),
        ..Reply::text("")
    };
    let redactor = Redactor::new([Secret::new("k", "hunter2-hunter2")]);
    let at = At { source_run_id: "run_1", sequence: 4, node_id: "ask" };
    for (original, replay, expected) in [
        (&valid, &valid, None),
        (&refused, &refused, None),
        (&valid, &refused, Some(("valid", "refusal"))),
        (&refused, &valid, Some(("refusal", "valid"))),
    ] {
        let event = at_refusal(at, original, replay, &redactor);
        let kinds = event.as_ref().map(|event| {
            let word = |name: &str| event.payload[name].as_str().unwrap();
            assert_eq!(event.payload["refusalReason"], "because of [REDACTED:k]");
            (word("originalEnvelopeKind"), word("replayEnvelopeKind"))
        });
        assert_eq!(kinds, expected);
        protocol::check(event.as_slice());
    }
}

#[test]
fn the_gate_has_the_events_of_the_protocol() {
    for substitution in [true, false] {
        let question = Question::read(&json!({
            "module": {"requiredModelCapabilities": ["long-context", "long-context"], "fallbackModel": {"provider": "anthropic", "model": "m"}},
            "activeProvider": "unknown-vendor", "activeModel": "u", "substitutionSupported": substitution,
            "supportedProviders": ["anthropic"],
        }))
        .unwrap();
        let event = evaluate(&question, known_capabilities).event(&question).unwrap();
        protocol::check(std::slice::from_ref(&event));
        assert_eq!(event.payload["missingCapabilities"], json!(["long-context"]));
    }
}
