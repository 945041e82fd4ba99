//! Any bytes as the reply of a model.
//!
//! * The pipeline of envelopes never panics, has one outcome, and the same one twice.
//! * No secret is in an outcome or in an event, wherever it was in the reply.
//! * A document that is found in a reply is one, and is found again.
//! * Streams give the same reply wherever they were cut.
#![no_main]

use ai::completion::recover;
use ai::envelope::{Acceptance, Counters, Kinds, RefusalMode, Strictness, Verdict, accept, project};
use ai::provider::{Output, Request, anthropic, openai};
use ai::redact::{Redactor, Secret};
use ai::trust;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

/// Letters that do not occur in our own strings.
const SECRET: &str = "qzqzqzqz";

fn judged(envelope: &Value, kinds: &Kinds, redactor: &Redactor) -> Verdict {
    accept(&Acceptance {
        envelope,
        supported: true,
        kinds,
        strictness: Strictness::Warn,
        contract: None,
        counters: Counters::default(),
        redactor,
        run_trust: None,
        prior: &|_| None,
        approves: false,
        clarifications: true,
    })
}

fn pipeline(envelope: &Value) {
    let redactor = Redactor::new([Secret::new("s", SECRET)]);
    for kinds in [Kinds::any(), Kinds::only(["vendor.a".to_owned()])] {
        let verdict = judged(envelope, &kinds, &redactor);
        assert_eq!(verdict, judged(envelope, &kinds, &redactor));
        let outcome = verdict.outcome.to_value();
        assert_eq!(outcome["status"], verdict.outcome.status());
        let projection = project(&verdict, "node", RefusalMode::FailNode);
        assert!(!projection.events.is_empty());
        let shown = format!("{outcome} {:?} {}", projection.events, verdict.attributes(None));
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(document) = canon::json::read(bytes, &canon::json::Limits::default()) {
        pipeline(&document);
        // The same bytes as the payload of an envelope of each kind.
        for kind in ["clarification.request", "schema.request", "schema.response", "error", "vendor.a"] {
            pipeline(&json!({
                "type": kind, "envelopeId": "e", "correlationId": "c", "payload": document,
                "meta": {"source": "ai-generation", "ts": "2026-05-18T10:00:00Z"},
            }));
        }
    }
    if let Some(found) = recover::read(&text) {
        assert!(text.is_char_boundary(found.offset));
        let again = recover::read(&found.value.to_string()).expect("a document is one");
        assert_eq!((again.path, again.value), (recover::Path::Direct, found.value));
    }
    let wrapped = trust::wrap(&text).to_ascii_lowercase();
    assert_eq!(wrapped.matches("<untrusted").count(), 1);
    assert_eq!(wrapped.matches("</untrusted").count(), 1);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let (mut whole, mut cut) = (openai::Stream::new(), openai::Stream::new());
    let pieces = cut
        .feed(first)
        .and_then(|mut deltas| cut.feed(second).map(|more| deltas.extend(more)).map(|()| deltas));
    assert_eq!(whole.feed(bytes), pieces);
    let asked = Request::new("m", Vec::new(), Output::Text);
    let (mut whole, mut cut) = (anthropic::Stream::new(&asked), anthropic::Stream::new(&asked));
    let pieces = cut
        .feed(first)
        .and_then(|mut deltas| cut.feed(second).map(|more| deltas.extend(more)).map(|()| deltas));
    assert_eq!(whole.feed(bytes), pieces);
});
