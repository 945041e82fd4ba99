//! A provider that generates replies locally.
//!
//! [`Programs`] holds scripted replies of nodes, one for each call. Without a script, the reply is derived from the
//! request: a document that matches its schema, or a text. [`StreamMock`] is selected by a run with
//! `configurable.mockProvider`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    DEFAULT_OUTPUT_TOKENS, MAX_TOOL_CALLS, Output, Refusal, Reply, Request, StopReason, ToolCall, Usage,
};
use crate::schema::Schema;

mod sample;
mod stream;

pub use stream::{MockFailure, MockId, StreamMock, StreamMockError};

/// The provider name in events.
pub const PROVIDER: &str = "mock";
/// The maximum number of replies in a script.
pub const MAX_REPLIES: usize = 256;
/// The maximum number of nodes with a script.
pub const MAX_PROGRAMS: usize = 1024;
/// The maximum size of a scripted reply, in bytes.
pub const MAX_CONTENT_BYTES: usize = 1 << 20;

/// An invalid script and the position of the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct ProgramError {
    /// A JSON Pointer.
    pub pointer: String,
    pub message: String,
}

/// The scripted replies of one node, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    replies: Vec<Reply>,
}

impl Program {
    /// Reads a script. Each reply is `{content?, stopReason?, refusalText?, inputTokens?, outputTokens?, reasoning?,
    /// toolCalls?}`, `{mode: "envelope", envelope}` or `{mode: "refusal", refusalReason?}`. A tool call is `{name,
    /// arguments?, id?}`. `arguments` is a document, or a string if a test needs invalid arguments.
    ///
    /// # Errors
    /// The script is not a list, has too many replies, or contains an invalid one.
    pub fn read(value: &Value) -> Result<Self, ProgramError> {
        let error = |message: String| ProgramError { pointer: "/program".to_owned(), message };
        let entries =
            value.as_array().ok_or_else(|| error("a program must be a list of replies".to_owned()))?;
        if entries.len() > MAX_REPLIES {
            return Err(error(format!("a program can have at most {MAX_REPLIES} replies")));
        }
        let replies = entries.iter().enumerate().map(|(place, entry)| reply(place, entry));
        Ok(Self { replies: replies.collect::<Result<_, _>>()? })
    }

    pub fn len(&self) -> usize {
        self.replies.len()
    }

    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }
}

fn reply(place: usize, entry: &Value) -> Result<Reply, ProgramError> {
    let error = |name: &str, message: &str| ProgramError {
        pointer: format!("/program/{place}{}{name}", if name.is_empty() { "" } else { "/" }),
        message: message.to_owned(),
    };
    let members = entry.as_object().ok_or_else(|| error("", "a reply must be an object"))?;
    let text = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= MAX_CONTENT_BYTES => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(error(name, "the content is larger than 1 MiB")),
        Some(_) => Err(error(name, "must be a string")),
    };
    let count = |name: &str| match members.get(name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| error(name, "must be a non-negative integer")),
    };
    let known = |allowed: &[&str]| match members.keys().find(|name| !allowed.contains(&name.as_str())) {
        Some(name) => Err(error(name, "unknown field")),
        None => Ok(()),
    };
    let usage = || {
        Ok::<_, ProgramError>(Usage {
            input_tokens: count("inputTokens")?.unwrap_or(100),
            output_tokens: count("outputTokens")?.unwrap_or(50),
            ..Usage::default()
        })
    };
    let refused = |text: Option<String>| Reply {
        stop: StopReason::Safety,
        refusal: Some(Refusal { text, category: None }),
        ..Reply::text("")
    };
    match text("mode")?.as_deref() {
        Some("envelope") => {
            known(&["mode", "envelope", "inputTokens", "outputTokens"])?;
            let envelope = members.get("envelope").ok_or_else(|| error("envelope", "required"))?;
            let text = match envelope {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Ok(Reply { usage: usage()?, ..Reply::text(text) })
        }
        Some("refusal") => {
            known(&["mode", "refusalReason", "refusalText", "inputTokens", "outputTokens"])?;
            let words = text("refusalReason")?.or(text("refusalText")?);
            Ok(Reply { usage: usage()?, ..refused(words) })
        }
        Some(_) => Err(error("mode", "must be `envelope` or `refusal`")),
        None => {
            let plain = [
                "content",
                "stopReason",
                "refusalText",
                "reasoning",
                "inputTokens",
                "outputTokens",
                "toolCalls",
            ];
            known(&plain)?;
            let tool_calls = tool_calls(place, members.get("toolCalls"))?;
            let stop = match text("stopReason")? {
                Some(word) => {
                    StopReason::parse(&word).ok_or_else(|| error("stopReason", "unknown stop reason"))?
                }
                None if !tool_calls.is_empty() => StopReason::ToolUse,
                None => StopReason::EndTurn,
            };
            let refusal = text("refusalText")?;
            let base = if refusal.is_some() { refused(refusal) } else { Reply { stop, ..Reply::text("") } };
            Ok(Reply {
                text: text("content")?.unwrap_or_default(),
                reasoning: text("reasoning")?,
                tool_calls,
                usage: usage()?,
                ..base
            })
        }
    }
}

/// The requested tool calls of a reply. Calls without an id get one from their position.
fn tool_calls(place: usize, calls: Option<&Value>) -> Result<Vec<ToolCall>, ProgramError> {
    let pointer = format!("/program/{place}/toolCalls");
    let wrong = |message: &str| ProgramError { pointer: pointer.clone(), message: message.to_owned() };
    let calls = match calls {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(calls)) if calls.len() <= MAX_TOOL_CALLS => calls,
        Some(_) => return Err(wrong("must be a list of at most 128 calls")),
    };
    let read = |(number, call): (usize, &Value)| {
        let members = call.as_object().filter(|members| members.get("name").is_some_and(Value::is_string));
        let members = members.ok_or_else(|| wrong("a call must be `{name, arguments?, id?}`"))?;
        if members.keys().any(|name| !["id", "name", "arguments"].contains(&name.as_str())) {
            return Err(wrong("a call must be `{name, arguments?, id?}`"));
        }
        let mut call = ToolCall::from_record(call);
        if call.arguments.len() > MAX_CONTENT_BYTES {
            return Err(wrong("the arguments are larger than 1 MiB"));
        }
        if call.id.is_empty() {
            call.id = format!("call_{place}_{number}");
        }
        if call.arguments.is_empty() {
            call.arguments.push_str("{}");
        }
        Ok(call)
    };
    calls.iter().enumerate().map(read).collect()
}

/// The scripted replies of the nodes of all runs. A small value that the caller owns.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    nodes: BTreeMap<String, Playing>,
}

#[derive(Clone, Debug, Default)]
struct Playing {
    program: Program,
    next: usize,
    last_room: Option<u32>,
}

impl Programs {
    /// Sets the replies of a node and replaces earlier ones. Removes the oldest script if there are too many.
    pub fn program(&mut self, node_id: &str, program: Program) {
        if self.nodes.len() >= MAX_PROGRAMS && !self.nodes.contains_key(node_id) {
            self.nodes.pop_first();
        }
        self.nodes.insert(node_id.to_owned(), Playing { program, next: 0, last_room: None });
    }

    /// Removes all scripts.
    pub fn reset(&mut self) {
        self.nodes.clear();
    }

    /// The output-token limit of a node's last call.
    pub fn last_room(&self, node_id: &str) -> Option<u32> {
        self.nodes.get(node_id)?.last_room
    }

    /// The next reply of a node. Without a script, it is derived from the request.
    pub fn answer(&mut self, node_id: &str, request: &Request) -> Reply {
        let Some(playing) = self.nodes.get_mut(node_id) else {
            return default_reply(request);
        };
        playing.last_room = Some(request.max_output_tokens);
        let reply = playing.program.replies.get(playing.next).cloned();
        playing.next = playing.next.saturating_add(1);
        let mut reply = reply.unwrap_or_else(|| default_reply(request));
        reply.model = Some(request.model.clone());
        reply
    }
}

/// The reply derived from a request; always the same one.
pub fn default_reply(request: &Request) -> Reply {
    let text = match &request.output {
        Output::Text => {
            let asked = request.conversation().last().map_or("", |message| message.content.as_str());
            format!("mock reply to: {}", canon::budget::truncate(asked, 1024))
        }
        Output::Json { schema, .. } => document(schema).to_string(),
    };
    let words = |text: &str| u64::try_from(text.split_whitespace().count()).unwrap_or(u64::MAX);
    let usage = Usage {
        input_tokens: request.messages.iter().map(|message| words(&message.content)).sum(),
        output_tokens: words(&text).min(u64::from(DEFAULT_OUTPUT_TOKENS)),
        ..Usage::default()
    };
    Reply { usage, model: Some(request.model.clone()), ..Reply::text(text) }
}

/// A document that matches a schema, if one is easy to find.
fn document(schema: &Value) -> Value {
    let sampled = sample::sample(schema);
    match Schema::compile(schema) {
        Ok(compiled) if compiled.is_valid(&sampled) => sampled,
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Message;

    #[test]
    fn rejects_invalid_scripts() {
        let cases = [
            (json!({}), "/program"),
            (json!([1]), "/program/0"),
            (json!([{"content": 1}]), "/program/0/content"),
            (json!([{}, {"stopReason": "tired"}]), "/program/1/stopReason"),
            (json!([{"mode": "other"}]), "/program/0/mode"),
            (json!([{"mode": "envelope"}]), "/program/0/envelope"),
            (json!([{"text": "x"}]), "/program/0/text"),
            (json!([{"outputTokens": -1}]), "/program/0/outputTokens"),
            (json!([{"toolCalls": {}}]), "/program/0/toolCalls"),
            (json!([{"toolCalls": [{"arguments": {}}]}]), "/program/0/toolCalls"),
            (json!([{"toolCalls": [{"name": "x", "handler": 1}]}]), "/program/0/toolCalls"),
        ];
        for (program, pointer) in cases {
            assert_eq!(Program::read(&program).unwrap_err().pointer, pointer, "{program}");
        }
    }

    #[test]
    fn plays_the_script_then_derived_replies() {
        let program = Program::read(&json!([
            {"mode": "envelope", "envelope": {"valid": true}},
            {"mode": "refusal", "refusalReason": "no"},
            {"stopReason": "max_tokens", "content": "{\"valid\":"},
        ]))
        .unwrap();
        let mut programs = Programs::default();
        programs.program("n", program);
        let schema =
            json!({"type": "object", "required": ["valid"], "properties": {"valid": {"type": "boolean"}}});
        let mut request = Request::new("m", vec![Message::user("?")], Output::json("x", schema));
        request.max_output_tokens = 50;
        assert_eq!(programs.answer("n", &request).text, "{\"valid\":true}");
        let refused = programs.answer("n", &request);
        assert_eq!(refused.refusal.unwrap().text.as_deref(), Some("no"));
        assert!(programs.answer("n", &request).stop.is_truncation());
        assert_eq!(programs.answer("n", &request).text, "{\"valid\":true}");
        assert_eq!(programs.last_room("n"), Some(50));
        assert_eq!(programs.answer("other", &request), programs.answer("other", &request));
        assert_eq!(programs.last_room("other"), None);
    }
}
