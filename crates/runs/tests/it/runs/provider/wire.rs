//! Replies in the formats of the two kinds of providers.

use serde_json::{Value, json};

use super::Request;

#[derive(Clone, Copy)]
pub(super) enum Wire {
    Completions,
    Messages,
}

impl Wire {
    /// The format of a request.
    pub(super) fn of(request: &Request) -> Self {
        let path = request.head.split(' ').nth(1).unwrap_or_default();
        match path.rsplit('/').next() {
            Some("messages") => Self::Messages,
            _ => Self::Completions,
        }
    }

    pub(super) fn whole(self, text: &str, calls: &[(String, Value)]) -> Value {
        let id = |place: usize| format!("call_{place}");
        let calls = calls.iter().enumerate();
        match self {
            Self::Completions => {
                let call = |(place, (name, arguments)): (usize, &(String, Value))| {
                    let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
                    json!({"id": id(place), "type": "function", "function": {"name": name, "arguments": arguments}})
                };
                let calls: Vec<Value> = calls.map(call).collect();
                let choice = if calls.is_empty() {
                    json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"})
                } else {
                    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
                    json!({"index": 0, "message": message, "finish_reason": "tool_calls"})
                };
                json!({
                    "id": "c", "object": "chat.completion", "model": "small-1", "choices": [choice],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
                })
            }
            Self::Messages => {
                let call = |(place, (name, input)): (usize, &(String, Value))| json!({"type": "tool_use", "id": id(place), "name": name, "input": input});
                let mut content: Vec<Value> = calls.map(call).collect();
                let stop = if content.is_empty() { "end_turn" } else { "tool_use" };
                if content.is_empty() {
                    content.push(json!({"type": "text", "text": text}));
                }
                json!({
                    "id": "m", "type": "message", "role": "assistant", "model": "small-1", "content": content,
                    "stop_reason": stop, "usage": {"input_tokens": 3, "output_tokens": 2},
                })
            }
        }
    }

    /// What precedes the chunks.
    pub(super) fn begin(self) -> String {
        match self {
            Self::Completions => String::new(),
            Self::Messages => {
                let message = json!({"model": "small-1", "usage": {"input_tokens": 3, "output_tokens": 0}});
                let block = json!({"type": "text", "text": ""});
                event(&json!({"type": "message_start", "message": message}))
                    + &event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
            }
        }
    }

    pub(super) fn piece(self, text: &str) -> String {
        match self {
            Self::Completions => chunk(&json!({"content": text}), &Value::Null),
            Self::Messages => {
                let delta = json!({"type": "text_delta", "text": text});
                event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
            }
        }
    }

    /// What follows the chunks.
    pub(super) fn end(self) -> String {
        match self {
            Self::Completions => {
                let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
                let usage = event(&json!({"choices": [], "usage": usage}));
                format!("{}{usage}data: [DONE]\n\n", chunk(&json!({}), &json!("stop")))
            }
            Self::Messages => {
                let delta = json!({"stop_reason": "end_turn"});
                event(&json!({"type": "content_block_stop", "index": 0}))
                    + &event(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}))
                    + &event(&json!({"type": "message_stop"}))
            }
        }
    }

    pub(super) fn failure(self) -> String {
        match self {
            Self::Completions => event(&json!({"error": {"type": "overloaded"}})),
            Self::Messages => event(&json!({"type": "error", "error": {"type": "overloaded_error"}})),
        }
    }
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn chunk(delta: &Value, stop: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
    event(&json!({"id": "c", "model": "small-1", "choices": [choice]}))
}
