//! The outputs of nodes that call models, and the chunks of a reply.

use ai::completion::Done;
use ai::node::{Node, sampling};
use ai::provider::StopReason;
use flow::engine::Reported;
use flow::event::data::value::OutputChunk;
use serde_json::{Value, json};

use super::super::NodeRequest;

/// The maximum number of recorded chunks of a reply. The last one contains the rest.
const MAX_PIECES: usize = 1000;
/// The approximate size of a chunk, in bytes.
const PIECE_BYTES: usize = 256;

pub(super) fn of(node: &Node, done: &Done) -> Value {
    let usage = json!({
        "inputTokens": done.usage.input_tokens,
        "outputTokens": done.usage.output_tokens,
        "totalTokens": done.usage.input_tokens.saturating_add(done.usage.output_tokens),
    });
    let mut outputs = match node {
        Node::StructuredOutput(_) => json!({"data": done.value, "usage": usage}),
        Node::CallPrompt(_) | Node::MockAi(_) => json!({
            "content": done.value, "usage": usage, "finishReason": done.reply.stop.finish_reason(),
        }),
    };
    if let Some(model) = &done.reply.model {
        outputs["model"] = model.as_str().into();
    }
    if let Some(taken) = &done.envelope {
        outputs["envelope"] = json!({
            "type": taken.kind, "envelopeId": taken.envelope_id, "correlationId": taken.correlation_id,
            "payload": taken.payload, "contentTrust": taken.trust.as_str(),
        });
    }
    outputs
}

/// The reply to an MCP client, from the outputs of a node.
pub(super) fn sampled(given: &Value) -> Value {
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    let stop = StopReason::ALL.iter().copied().find(|stop| stop.finish_reason() == text("finishReason"));
    let stop = stop.filter(|_| text("finishReason").is_some());
    sampling::answer(text("content").unwrap_or_default(), text("model").unwrap_or("unknown"), stop)
}

/// The chunks of a reply, if the author enabled streaming.
pub(super) fn chunks(node: &Node, asked: NodeRequest<'_>, done: &Done) -> Vec<Reported> {
    let reply = &done.reply;
    // An envelope is addressed to the engine and not shown to readers.
    if !node.is_streaming() || reply.text.is_empty() || done.envelope.is_some() {
        return Vec::new();
    }
    let mut texts = Vec::new();
    let mut rest = reply.text.as_str();
    while rest.len() > PIECE_BYTES && texts.len() + 1 < MAX_PIECES {
        let end = (PIECE_BYTES..rest.len()).find(|index| rest.is_char_boundary(*index)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        texts.push(piece.to_owned());
        rest = after;
    }
    texts.push(rest.to_owned());
    pieces(asked, &texts, &json!({"finishReason": reply.stop.finish_reason(), "model": reply.model}))
}

/// One event for each chunk. The last one is marked, and contains the finish reason.
pub(super) fn pieces(asked: NodeRequest<'_>, texts: &[String], meta: &Value) -> Vec<Reported> {
    let last = texts.len().saturating_sub(1);
    let piece = |(index, text): (usize, &String)| {
        let is_last = index == last;
        Reported::event(OutputChunk {
            channel: None,
            chunk: text.clone(),
            is_last,
            meta: (is_last && !meta.is_null()).then(|| meta.clone()),
            node_id: asked.node_id.to_owned(),
            run_id: asked.run_id.to_owned(),
        })
    };
    texts.iter().enumerate().map(piece).collect()
}
