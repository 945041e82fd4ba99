//! What the agent that pretends may be told, as the protocol closes it at every level.

use serde_json::{Value, json};

use super::config::closed;

/// The schema of its configuration.
pub(super) fn schema() -> Value {
    let text = || json!({"type": "string"});
    let count = || json!({"type": "integer", "minimum": 0});
    let share = || json!({"type": "number", "minimum": 0, "maximum": 1});
    let name = || json!({"type": "string", "minLength": 3});
    let some = || json!({"type": "string", "minLength": 1});
    let reasoning = closed(
        &["summary"],
        &json!({
            "summary": text(), "trace": text(), "tokenCount": count(),
            "streamChunks": {"type": "array", "items": text()}
        }),
    );
    let error = closed(
        &["error", "message"],
        &json!({"error": some(), "message": some(), "details": {"type": "object"}}),
    );
    let call = closed(
        &["toolId"],
        &json!({"toolId": text(), "arguments": true, "result": true, "error": error, "durationMs": count()}),
    );
    let handoff = closed(&["toAgentId"], &json!({"toAgentId": name(), "reason": text(), "context": true}));
    let decision =
        closed(&["decision"], &json!({"decision": true, "confidence": share(), "reasoning": text()}));
    closed(
        &[],
        &json!({
            "agentId": name(),
            "mockReasoning": {"anyOf": [{"type": "boolean"}, reasoning]},
            "mockToolCalls": {"type": "array", "maxItems": 1000, "items": call},
            "mockHandoff": handoff,
            "mockDecision": decision,
            "mockConfidence": share()
        }),
    )
}
