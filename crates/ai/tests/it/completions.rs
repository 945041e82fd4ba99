//! The state machine of one model call.

use ai::completion::{Attempt, Budget, Completion, Counter, Failed, ModelCall, Next, Settings, Step};
use ai::event::{EventKind, RunEvent};
use ai::failure::FailureCode;
use ai::provider::{
    Message, Output, ProviderError, ProviderErrorKind, Refusal, Reply, Request, StopReason, Usage, mock,
};
use ai::redact::{Redactor, Secret};
use ai::schema::Schema;
use serde_json::{Value, json};

use crate::protocol;

fn schema() -> Value {
    json!({"type": "object", "required": ["valid"], "properties": {"valid": {"type": "boolean"}}, "title": "TestEnvelope"})
}

fn request() -> Request {
    let mut request = Request::new(
        "mock-mini",
        vec![Message::user("Please emit a valid envelope.")],
        Output::json("t", schema()),
    );
    request.max_output_tokens = 50;
    request
}

fn start(settings: Settings) -> (Completion, ModelCall) {
    Completion::start(settings, request(), Some(Schema::compile(&schema()).unwrap()))
}

/// Plays scripted replies to the end: the events, the calls, and the result.
fn play(settings: Settings, program: Value) -> (Vec<RunEvent>, Vec<ModelCall>, Next) {
    let mut programs = mock::Programs::default();
    programs.program("structured-call", mock::Program::read(&program).unwrap());
    let (mut completion, first) = start(settings);
    let mut calls = vec![first];
    let mut events = Vec::new();
    loop {
        let reply = programs.answer("structured-call", &calls.last().unwrap().request);
        let Step { events: more, next } = completion.on(Attempt::Reply(reply));
        events.extend(more);
        match next {
            Next::Call(call) => calls.push(call),
            end => {
                protocol::check(&events);
                return (events, calls, end);
            }
        }
    }
}

fn settings() -> Settings {
    Settings::new("structured-call", "mock")
}

/// The events in short, without usage events, which come first for each call.
fn short(events: &[RunEvent]) -> Vec<String> {
    let word = |event: &RunEvent| {
        let member = |name: &str| event.payload.get(name).map(ToString::to_string).unwrap_or_default();
        match event.kind {
            EventKind::RetryAttempted => format!("again {} {}", member("attempt"), member("reason")),
            EventKind::RetryExhausted => {
                format!("over {} {}", member("totalAttempts"), member("finalReason"))
            }
            EventKind::CapBreached => {
                format!("cap {} {} {}", member("kind"), member("limit"), member("observed"))
            }
            EventKind::RecoveryApplied => format!("recovered {} {}", member("path"), member("byteOffset")),
            EventKind::Truncated => format!("cut {}", member("stopReason")),
            EventKind::NlToFormatEngaged => format!("format {}", member("originalEnvelopeType")),
            other => other.to_string(),
        }
    };
    events.iter().filter(|event| event.kind != EventKind::ProviderUsage).map(word).collect()
}

fn code(next: &Next) -> Option<FailureCode> {
    match next {
        Next::Failed(Failed { code, .. }) => Some(*code),
        _ => None,
    }
}

#[test]
fn scripted_replies_produce_events() {
    let cut = json!({"stopReason": "max_tokens", "content": "{\"valid\":"});
    let good = json!({"content": "{\"valid\":true}"});
    let cases = [
        ("valid at once", json!([good]), vec![], 1, None),
        ("not JSON once", json!([{"content": "{not json"}, good]), vec!["again 2 \"parse-error\""], 2, None),
        ("invalid once", json!([{"content": "{}"}, good]), vec!["again 2 \"schema-violation\""], 2, None),
        (
            "wrong type",
            json!([{"content": "{\"valid\":1}"}, good]),
            vec!["again 2 \"type-mismatch\""],
            2,
            None,
        ),
        (
            "in a code fence",
            json!([{"content": "```json\n{\"valid\":true}\n```"}]),
            vec!["recovered \"markdown-fence\" 8"],
            1,
            None,
        ),
        ("truncated once", json!([cut, good]), vec!["cut \"max_tokens\"", "again 2 \"truncation\""], 2, None),
        (
            "always truncated",
            json!([cut, cut, cut, cut]),
            vec![
                "cut \"max_tokens\"",
                "again 2 \"truncation\"",
                "cut \"max_tokens\"",
                "again 3 \"truncation\"",
                "cut \"max_tokens\"",
                "over 3 \"truncation\"",
                "cap \"schema\" 3 3",
            ],
            3,
            Some(FailureCode::EnvelopeTruncationUnrecoverable),
        ),
        (
            "always invalid",
            json!([{"content": "{}"}, {"content": "{}"}, {"content": "{}"}, good]),
            vec![
                "again 2 \"schema-violation\"",
                "again 3 \"schema-violation\"",
                "over 3 \"schema-violation\"",
                "cap \"schema\" 3 3",
            ],
            3,
            Some(FailureCode::EnvelopeInvalid),
        ),
        (
            "prose, then the formatting call",
            json!([{"content": "Sure, a."}, {"content": "Of course, b."}, {"content": "I think c."}, good]),
            vec!["again 2 \"parse-error\"", "again 3 \"parse-error\"", "format \"TestEnvelope\""],
            4,
            None,
        ),
        (
            "only prose",
            json!([{"content": "x"}, {"content": "y"}, {"content": "z"}, {"content": "w"}]),
            vec![
                "again 2 \"parse-error\"",
                "again 3 \"parse-error\"",
                "format \"TestEnvelope\"",
                "over 3 \"parse-error\"",
            ],
            4,
            Some(FailureCode::EnvelopeInvalid),
        ),
        (
            "not only prose",
            json!([{"content": "x"}, {"content": "{"}, {"content": "z"}]),
            vec!["again 2 \"parse-error\"", "again 3 \"parse-error\"", "over 3 \"parse-error\""],
            3,
            Some(FailureCode::EnvelopeInvalid),
        ),
        (
            "refused",
            json!([{"stopReason": "safety", "refusalText": "I cannot help with that."}, good]),
            vec!["envelope.refusal"],
            1,
            Some(FailureCode::EnvelopeRefusal),
        ),
        (
            "refused later",
            json!([{"content": "{}"}, {"mode": "refusal", "refusalReason": "no"}, good]),
            vec!["again 2 \"schema-violation\"", "envelope.refusal"],
            2,
            Some(FailureCode::EnvelopeRefusal),
        ),
    ];
    for (name, program, expected, calls, failure) in cases {
        let settings = Settings { envelope_type: "TestEnvelope".to_owned(), ..settings() };
        let (events, made, end) = play(settings, program);
        assert_eq!(short(&events), expected, "{name}");
        assert_eq!(made.len(), calls, "{name}");
        assert_eq!(code(&end), failure, "{name}");
        let usage = events.iter().filter(|event| event.kind == EventKind::ProviderUsage).count();
        assert_eq!(usage, calls, "{name}: one usage event per call");
        let ordinals: Vec<u32> = made.iter().map(|call| call.ordinal).collect();
        assert_eq!(ordinals, (0..u32::try_from(calls).unwrap()).collect::<Vec<_>>(), "{name}");
        match end {
            Next::Done(done) => {
                assert_eq!(done.value, json!({"valid": true}), "{name}");
                assert_eq!(done.usage.input_tokens, 100 * u64::try_from(calls).unwrap(), "{name}");
            }
            Next::Failed(failed) => {
                assert!(!failed.message.contains("cannot help"), "{name}: {}", failed.message);
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn truncation_raises_the_token_limit_without_correction() {
    let cut = json!({"stopReason": "max_tokens", "content": "{"});
    let (_, calls, _) = play(settings(), json!([cut, cut, cut]));
    let rooms: Vec<u32> = calls.iter().map(|call| call.request.max_output_tokens).collect();
    assert_eq!(rooms, [50, 100, 200]);
    assert!(calls.iter().all(|call| !call.corrective && call.request.messages == request().messages));
}

#[test]
fn invalid_reply_gets_a_correction_and_the_same_limit() {
    let (_, calls, _) =
        play(settings(), json!([{"content": "{\"CANARY\": 1}"}, {"content": "{}"}, {"content": "{}"}]));
    assert!(calls.iter().all(|call| call.request.max_output_tokens == 50));
    for call in &calls[1..] {
        assert!(call.corrective);
        let [advice, asked] = call.request.messages.as_slice() else { panic!("{:?}", call.request.messages) };
        assert!(
            advice.content.contains("`valid` is required") && !advice.content.contains("CANARY"),
            "{}",
            advice.content
        );
        assert_eq!(asked, &request().messages[0]);
    }
}

#[test]
fn events_and_errors_do_not_quote_the_model() {
    let canary = "RESPONSE-CANARY-8f3a";
    let programs = [
        json!([{"content": format!("not json {canary}")}, {"content": format!("{{\"{canary}\": 1}}")}, {"content": format!("[\"{canary}\"]")}]),
        json!([{"content": canary}, {"content": canary}, {"content": canary}, {"content": canary}]),
        json!([{"content": format!("```\n{{\"valid\": \"{canary}\"}}\n```")}, {"content": "{}"}, {"content": "{}"}]),
    ];
    for program in programs {
        let (events, _, end) = play(settings(), program);
        assert!(!format!("{events:?}{end:?}").contains(canary), "{events:?} {end:?}");
    }
}

#[test]
fn refusals_contain_neither_secrets_nor_the_prompt() {
    let redactor = Redactor::new([Secret::new("key", "hunter2-hunter2")]);
    let settings = Settings { redactor, ..settings() };
    let words = "No: Please emit a valid envelope. and hunter2-hunter2";
    let (events, _, end) = play(settings, json!([{"refusalText": words}]));
    let refusal = events.iter().find(|event| event.kind == EventKind::Refusal).unwrap();
    assert_eq!(refusal.payload["refusalText"], "No: [PROMPT] and [REDACTED:key]");
    assert!(!format!("{end:?}").contains("No:"), "{end:?}");
}

#[test]
fn run_rounds_limit_retries() {
    let bad = json!([{"content": "{}"}, {"content": "{}"}, {"content": "{}"}]);
    for (current, cap, calls, expected) in [
        (0, 8, 3, "cap \"schema\" 3 3"),
        (0, 1, 2, "cap \"schema\" 1 1"),
        (4, 5, 2, "cap \"schema\" 5 5"),
        (5, 5, 1, "cap \"schema\" 5 5"),
        (0, 0, 1, "cap \"schema\" 0 0"),
    ] {
        let budget = Budget::default().with_schema_rounds(Counter { current, cap });
        let (events, made, end) = play(Settings { budget, ..settings() }, bad.clone());
        assert_eq!(made.len(), calls, "{current} of {cap}");
        assert_eq!(short(&events).last().unwrap(), expected);
        assert_eq!(code(&end), Some(FailureCode::EnvelopeInvalid));
    }
}

#[test]
fn failed_calls_are_retried_with_the_same_ordinal() {
    let (mut completion, first) = start(settings());
    let limited = ProviderError {
        kind: ProviderErrorKind::RateLimited,
        retry_after_ms: Some(1500),
        ..ProviderError::unavailable()
    };
    let mut waits = Vec::new();
    for error in [limited, ProviderError::unavailable(), ProviderError::unavailable()] {
        let step = completion.on(Attempt::Failed(error));
        let Next::Call(call) = step.next else { panic!("{step:?}") };
        assert_eq!((call.ordinal, &call.request), (first.ordinal, &first.request));
        waits.push(call.wait_ms);
    }
    assert_eq!(waits, [1500, 2000, 4000]);
    let step = completion.on(Attempt::Failed(ProviderError::unavailable()));
    assert_eq!(code(&step.next), Some(FailureCode::ProviderUnavailable));
    for (kind, expected) in [
        (ProviderErrorKind::Unauthorized, FailureCode::CredentialRequired),
        (ProviderErrorKind::Rejected, FailureCode::ProviderRejected),
        (ProviderErrorKind::InvalidReply, FailureCode::ProviderReplyInvalid),
    ] {
        let (mut completion, _) = start(settings());
        let step = completion.on(Attempt::Failed(ProviderError { kind, ..ProviderError::unavailable() }));
        assert_eq!(code(&step.next), Some(expected), "a retry would not help");
    }
}

#[test]
fn recorded_replies_reproduce_the_events_as_cache_hits() {
    let replies = [
        Reply {
            usage: Usage {
                input_tokens: 3,
                output_tokens: 4,
                cache_read_tokens: Some(1),
                cache_write_tokens: None,
            },
            ..Reply::text("{}")
        },
        Reply {
            reasoning: Some("hm".to_owned()),
            model: Some("m".to_owned()),
            ..Reply::text("{\"valid\":true}")
        },
    ];
    let play = |attempt: fn(Reply) -> Attempt| {
        let (mut completion, _) = start(settings());
        let steps: Vec<Step> = replies
            .iter()
            .map(|reply| {
                let recorded = Reply::from_record(&reply.to_record()).unwrap();
                assert_eq!(&recorded, reply);
                completion.on(attempt(recorded))
            })
            .collect();
        steps
    };
    let (live, replayed) = (play(Attempt::Reply), play(Attempt::Recorded));
    for (live, replayed) in live.iter().zip(&replayed) {
        assert_eq!(live.next, replayed.next);
        let without = |events: &[RunEvent]| {
            let mut events = events.to_vec();
            events.iter_mut().for_each(|event| drop(event.payload.remove("cacheHit")));
            events
        };
        assert_eq!(without(&live.events), without(&replayed.events));
        assert_eq!(replayed.events[0].payload["cacheHit"], true);
        protocol::check(&replayed.events);
    }
}

#[test]
fn text_is_a_value_unless_refused() {
    let text = |reply: Reply| {
        let request = Request::new("m", vec![Message::user("hello")], Output::Text);
        let (mut completion, _) = Completion::start(settings(), request, None);
        completion.on(Attempt::Reply(reply)).next
    };
    let Next::Done(done) = text(Reply { stop: StopReason::MaxTokens, ..Reply::text("cut of") }) else {
        panic!()
    };
    assert_eq!(done.value, "cut of");
    let refused = Reply { refusal: Some(Refusal::default()), ..Reply::text("") };
    assert_eq!(code(&text(refused)), Some(FailureCode::EnvelopeRefusal));
    assert_eq!(
        code(&text(Reply { stop: StopReason::Safety, ..Reply::text("") })),
        Some(FailureCode::EnvelopeRefusal)
    );
}
