//! Events that other tests do not produce, validated with the protocol schemas.

use ai::chunks::Chunks;
use ai::completion::divergence::{DivergencePoint, at_refusal};
use ai::gate::{CapabilityQuery, evaluate, known_capabilities};
use ai::provider::mock::StreamMock;
use ai::provider::{Refusal, Reply, StopReason};
use ai::reasoning::{Block, Settings, Verbosity};
use ai::redact::{Redactor, Secret};
use serde_json::json;

use crate::protocol;

#[test]
fn streamed_chunks_match_the_protocol() {
    let mock = StreamMock::read("stream-text", &json!({"tokens": ["a", "b", "c"]})).unwrap();
    let mut chunks = Chunks::new("run_1", "ai", Redactor::default());
    let (last, first) = mock.tokens.split_last().unwrap();
    let mut events: Vec<_> = first.iter().filter_map(|token| chunks.piece(token)).collect();
    events.push(chunks.last(last, mock.meta()));
    protocol::check(&events);
    let chunks: Vec<_> = events
        .iter()
        .map(|event| (event.payload["chunk"].clone(), event.payload["isLast"].clone()))
        .collect();
    assert_eq!(chunks, [(json!("a"), json!(false)), (json!("b"), json!(false)), (json!("c"), json!(true))]);
    assert_eq!(events[2].payload["meta"]["usage"]["completionTokens"], 3);
}

#[test]
fn reasoning_events_match_the_protocol() {
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
fn divergence_at_a_refusal_is_reported() {
    let valid = Reply::text("{}");
    let words = Some("because of hunter2-hunter2".to_owned());
    let refused = Reply {
        stop: StopReason::Safety,
        refusal: Some(Refusal { text: words, category: None }),
        ..Reply::text("")
    };
    let redactor = Redactor::new([Secret::new("k", "hunter2-hunter2")]);
    let at = DivergencePoint { source_run_id: "run_1", sequence: 4, node_id: "ask" };
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
fn capability_events_match_the_protocol() {
    for substitution in [true, false] {
        let question = CapabilityQuery::read(&json!({
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
