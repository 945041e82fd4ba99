//! The error envelope, its bounds, and its shape in each protocol.

use canon::{
    budget::TRUNCATION_MARKER,
    canonical,
    error::{
        Envelope, ErrorCode, MAX_DETAILS, MAX_DETAILS_BYTES, MAX_MESSAGE_BYTES, MAX_SUGGESTION_BYTES, Retry,
        render,
    },
};
use serde_json::{Value, json};

canon::error_codes! {
    /// Codes for these tests.
    pub enum SampleCode {
        /// The session is in use.
        Locked => "TOKEN_SESSION_LOCKED",
        /// Nothing of that name.
        NotFound => "NOT_FOUND",
    }
}

fn locked() -> Envelope {
    Envelope::new(SampleCode::Locked, "Session is busy.")
        .suggest("Wait a moment and retry this call.")
        .retry(Retry::AfterMs(250))
}

fn not_found() -> Envelope {
    Envelope::new(SampleCode::NotFound, "There is no workflow `a`.").detail("known", json!(["b", "c"]))
}

#[test]
fn renders_every_format() {
    let immediate = Envelope::new(SampleCode::NotFound, "").retry(Retry::Immediate);
    let cases = [
        (
            "a wait and a suggestion",
            locked(),
            json!({
                "code": "TOKEN_SESSION_LOCKED", "message": "Session is busy.",
                "suggestion": "Wait a moment and retry this call.",
                "retry": {"kind": "retryable_after_ms", "afterMs": 250},
            }),
            json!({
                "code": "TOKEN_SESSION_LOCKED", "message": "Session is busy.",
                "retry": {"kind": "retryable_after_ms", "afterMs": 250},
                "details": {"suggestion": "Wait a moment and retry this call."},
            }),
            json!({
                "code": "TOKEN_SESSION_LOCKED", "message": "Session is busy.", "retryable": true,
                "details": {"suggestion": "Wait a moment and retry this call.", "retryAfterMs": 250},
                "causes": [],
            }),
            json!({
                "error": "token_session_locked", "message": "Session is busy.",
                "details": {"suggestion": "Wait a moment and retry this call.", "retryAfterMs": 250},
            }),
        ),
        (
            "details and no suggestion",
            not_found(),
            json!({
                "code": "NOT_FOUND", "message": "There is no workflow `a`.", "suggestion": "",
                "retry": {"kind": "not_retryable"}, "details": {"known": ["b", "c"]},
            }),
            json!({
                "code": "NOT_FOUND", "message": "There is no workflow `a`.",
                "retry": {"kind": "not_retryable"}, "details": {"known": ["b", "c"]},
            }),
            json!({
                "code": "NOT_FOUND", "message": "There is no workflow `a`.", "retryable": false,
                "details": {"known": ["b", "c"]}, "causes": [],
            }),
            json!({
                "error": "not_found", "message": "There is no workflow `a`.", "details": {"known": ["b", "c"]},
            }),
        ),
        (
            "minimal",
            immediate,
            json!({
                "code": "NOT_FOUND", "message": "", "suggestion": "", "retry": {"kind": "retryable_immediate"},
            }),
            json!({"code": "NOT_FOUND", "message": "", "retry": {"kind": "retryable_immediate"}}),
            json!({"code": "NOT_FOUND", "message": "", "retryable": true, "details": {}, "causes": []}),
            json!({"error": "not_found", "message": "not_found"}),
        ),
    ];
    for (name, envelope, own, mcp, workspace, openwop) in cases {
        assert_eq!(serde_json::to_value(&envelope).unwrap(), own, "{name}");
        assert_eq!(render::mcp_tool_error(&envelope), mcp, "{name}, as an MCP tool error");
        assert_eq!(render::workspace_error(&envelope, &[]), workspace, "{name}, as a workspace error");
        assert_eq!(render::openwop_error(&envelope), openwop, "{name}, as an OpenWOP error");
    }
}

#[test]
fn members_are_in_reading_order() {
    let text = serde_json::to_string(&locked().detail("a", 1)).unwrap();
    let places: Vec<usize> = ["\"code\"", "\"message\"", "\"suggestion\"", "\"retry\"", "\"details\""]
        .iter()
        .map(|member| text.find(member).unwrap())
        .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn workspace_causes_are_limited() {
    let body = render::workspace_error(&locked(), &[not_found()]);
    assert_eq!(body["causes"], json!([render::workspace_error(&not_found(), &[])]));
    let many = vec![not_found(); render::MAX_CAUSES + 1];
    assert_eq!(
        render::workspace_error(&locked(), &many)["causes"].as_array().unwrap().len(),
        render::MAX_CAUSES
    );
}

#[test]
fn an_existing_delay_is_kept() {
    let envelope = locked().detail("retryAfterMs", 9000).detail("suggestion", "another");
    let details = &render::openwop_error(&envelope)["details"];
    assert_eq!(details["retryAfterMs"], 9000);
    assert_eq!(details["suggestion"], "Wait a moment and retry this call.");
}

#[test]
fn display_has_code_message_and_help() {
    assert_eq!(
        locked().to_string(),
        "error[TOKEN_SESSION_LOCKED]: Session is busy.\n  help: Wait a moment and retry this call.\n  retry: after 250 ms"
    );
    assert_eq!(not_found().to_string(), "error[NOT_FOUND]: There is no workflow `a`.");
}

#[test]
fn messages_and_suggestions_are_truncated() {
    let long = "é".repeat(5000);
    let envelope = Envelope::new(SampleCode::Locked, &long).suggest(&long);
    for (text, maximum) in
        [(envelope.message(), MAX_MESSAGE_BYTES), (envelope.suggestion(), MAX_SUGGESTION_BYTES)]
    {
        assert!(text.len() <= maximum && text.len() + 1 >= maximum, "{}", text.len());
        assert!(text.ends_with(TRUNCATION_MARKER));
    }
}

#[test]
fn details_are_limited_in_number() {
    let with = |count: usize| {
        (0..count).fold(not_found(), |envelope, index| envelope.detail(format!("m{index:02}"), index))
    };
    // `known` is the first of them.
    let full = with(MAX_DETAILS - 1);
    assert_eq!(full.details().len(), MAX_DETAILS);
    assert!(!full.details().contains_key("detailsTruncated"));

    let over = with(MAX_DETAILS + 5);
    assert_eq!(over.details().len(), MAX_DETAILS + 1);
    assert_eq!(over.details()["detailsTruncated"], true);
    assert!(over.details().contains_key("m30") && !over.details().contains_key("m31"));
}

#[test]
fn details_are_limited_in_size() {
    let size = |envelope: &Envelope| canonical::string_of(&Value::Object(envelope.details().clone())).len();
    let base = Envelope::new(SampleCode::Locked, "text");
    // The longest text that fits alone leaves exactly the space for the mark.
    let mark = ",\"detailsTruncated\":true".len();
    let text = "x".repeat(MAX_DETAILS_BYTES - mark - "{\"a\":\"\"}".len());
    let fits = base.clone().detail("a", text.as_str());
    assert_eq!(size(&fits), MAX_DETAILS_BYTES - mark);
    let marked = fits.detail("b", 1);
    assert_eq!(size(&marked), MAX_DETAILS_BYTES);
    assert!(marked.details().contains_key("a") && !marked.details().contains_key("b"));

    let too_long = base.detail("a", format!("{text}x")).detail("b", 1);
    assert_eq!(Value::Object(too_long.details().clone()), json!({"b": 1, "detailsTruncated": true}));
}

#[test]
fn repeated_details_are_replaced() {
    let text = "x".repeat(5000);
    let envelope = (0..5).fold(not_found(), |envelope, _| envelope.detail("a", text.as_str()));
    assert!(!envelope.details().contains_key("detailsTruncated"));
    assert_eq!(envelope.detail("a", 1).details()["a"], 1);
}

#[test]
fn the_name_of_the_mark_is_reserved() {
    let envelope = not_found().detail("detailsTruncated", false).detail("detailsTruncated", "again");
    assert_eq!(
        Value::Object(envelope.details().clone()),
        json!({"known": ["b", "c"], "detailsTruncated": true})
    );
}

#[test]
fn deep_details_are_dropped() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let envelope = locked().detail("deep", deep);
    assert_eq!(Value::Object(envelope.details().clone()), json!({"detailsTruncated": true}));
}

#[test]
fn codes_reach_generic_code_through_the_trait() {
    fn names<C: ErrorCode>() -> Vec<&'static str> {
        C::ALL.iter().map(|code| code.as_str()).collect()
    }
    assert_eq!(names::<SampleCode>(), ["TOKEN_SESSION_LOCKED", "NOT_FOUND"]);
}
