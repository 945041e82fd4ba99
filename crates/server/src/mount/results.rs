//! Converts the state of a run to the result of a tool, a resource or a prompt.

use flow::id::RunId;
use runs::exposed::Exposure;
use serde_json::{Map, Value, json};

use super::message::RpcError;
use super::run::{End, WaitingNode};
use super::surface::AnswerUrls;

/// The maximum size of a text in a result, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// The maximum number of messages of a prompt.
const MAX_MESSAGES: usize = 100;

/// The output of a run; otherwise the error code, the message and the run.
fn given(urls: &AnswerUrls, end: End) -> Result<Value, (String, String, RunId)> {
    match end {
        End::Completed(outputs) => Ok(outputs),
        End::Failed { run_id, code, message } => Err((code, message, run_id)),
        End::Cancelled { run_id } => Err((
            "tool_canceled".to_owned(),
            "the run was cancelled before it had a result".to_owned(),
            run_id,
        )),
        End::Waiting { run_id, waiting_at: WaitingNode { run_id: at, status, node_id } } => {
            let which = if at == run_id {
                "is".to_owned()
            } else {
                format!("waits for its child run {at}, which is")
            };
            let message = format!(
                "the run {which} {status} and needs a person at node `{node_id}`. It cannot be answered \
                 through this call. A person with a key for approvals can answer at {}. The result will be \
                 at {}",
                urls.answer(&at, &node_id),
                urls.run(&run_id),
            );
            Err(("run_waiting".to_owned(), message, run_id))
        }
        End::TimedOut { run_id } => {
            let message = format!("the call timed out, but the run continues; see {}", urls.run(&run_id));
            Err(("run_under_way".to_owned(), message, run_id))
        }
    }
}

/// The result of `tools/call`: the outputs of the run, as text and as data. Outputs that do not match the
/// author's schema are an error of the workflow, because clients would reject them.
pub(super) fn of_tool(urls: &AnswerUrls, tool: &Exposure, end: End) -> Value {
    let result = |text: String, is_error: bool| json!({"content": [{"type": "text", "text": text}], "isError": is_error});
    let failed = |code: &str, message: &str, run_id: &str| {
        result(json!({"error": code, "message": message, "runId": run_id}).to_string(), true)
    };
    match given(urls, end) {
        Ok(outputs) => {
            let outputs = if outputs.is_null() { json!({}) } else { outputs };
            let text = outputs.to_string();
            if text.len() > MAX_TEXT_BYTES {
                let message = format!("the result is {} bytes; the limit is {MAX_TEXT_BYTES}", text.len());
                return failed("result_too_large", &message, "");
            }
            let violations = tool.output_violations(&outputs);
            if let Some(first) = violations.first() {
                let (count, path, why) = (violations.len(), &first["path"], &first["message"]);
                let message = format!(
                    "the outputs of the run do not match the `outputSchema` of the tool in {count} places; \
                     the first is {path}: {why}"
                );
                return failed("result_invalid", &message, "");
            }
            let mut shown = result(text, false);
            if outputs.is_object() {
                shown["structuredContent"] = outputs;
            }
            shown
        }
        Err((code, message, run_id)) => failed(&code, &message, run_id.as_str()),
    }
}

/// The result of `resources/read`.
pub(super) fn of_resource(
    urls: &AnswerUrls,
    uri: &str,
    media: Option<&str>,
    end: End,
) -> Result<Value, RpcError> {
    let outputs = given(urls, end).map_err(refused)?;
    let text = text(&outputs);
    if text.len() > MAX_TEXT_BYTES {
        return Err(RpcError::failed("the resource is too large", json!({"maxBytes": MAX_TEXT_BYTES})));
    }
    let mut content = json!({"uri": uri, "text": text});
    if let Some(media) = media {
        content["mimeType"] = media.into();
    }
    Ok(json!({"contents": [content]}))
}

/// The template of a prompt with the values of its declared arguments. Each is inserted once: a value is
/// never read as a template. A missing argument is empty.
pub(super) fn filled(prompt: &Exposure, given: &Map<String, Value>) -> String {
    let declared = prompt.config.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = declared.filter_map(|argument| argument["name"].as_str()).collect();
    let mut rest = prompt.text("template").unwrap_or_default();
    let mut text = String::with_capacity(rest.len());
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start..].find("}}") else { break };
        let (before, waiting_at) = (&rest[..start], &rest[start..start + length + 2]);
        let name = waiting_at[2..length].trim();
        text.push_str(before);
        match given.get(name).and_then(Value::as_str) {
            _ if !names.contains(&name) => text.push_str(waiting_at),
            value => text.push_str(value.unwrap_or_default()),
        }
        rest = &rest[start + length + 2..];
    }
    text.push_str(rest);
    text
}

/// The result of `prompts/get`: the messages that the run produced, or its text as one message of the user;
/// the author's own text if it produced none.
pub(super) fn of_prompt(urls: &AnswerUrls, about: &str, template: &str, end: End) -> Result<Value, RpcError> {
    let outputs = given(urls, end).map_err(refused)?;
    let user = |text: &str| json!([{"role": "user", "content": {"type": "text", "text": text}}]);
    let messages = match member(&outputs, "messages").map(messages) {
        Some(Some(messages)) => messages,
        Some(None) => {
            return Err(RpcError::failed("the outputs of the run are not prompt messages", json!({})));
        }
        None if outputs.as_object().is_none_or(Map::is_empty) => user(template),
        None => user(&text(&outputs)),
    };
    if messages.to_string().len() > MAX_TEXT_BYTES {
        return Err(RpcError::failed("the prompt is too large", json!({"maxBytes": MAX_TEXT_BYTES})));
    }
    Ok(json!({"description": about, "messages": messages}))
}

/// The result of `elicitation/create`. It is pending until a person answers.
pub(super) fn of_elicitation(end: End) -> Result<Value, RpcError> {
    match end {
        End::Waiting { waiting_at: WaitingNode { run_id, node_id, .. }, .. } => {
            Ok(json!({"action": "pending", "content": {}, "_meta": {"runId": run_id, "nodeId": node_id}}))
        }
        End::TimedOut { run_id } => {
            Ok(json!({"action": "pending", "content": {}, "_meta": {"runId": run_id}}))
        }
        End::Completed(outputs) => {
            let action = member(&outputs, "action").and_then(Value::as_str).unwrap_or("accept");
            let content = member(&outputs, "content").cloned().unwrap_or_else(|| json!({}));
            Ok(json!({"action": action, "content": content}))
        }
        End::Cancelled { .. } => Ok(json!({"action": "cancel", "content": {}})),
        End::Failed { run_id, code, .. } => {
            Err(RpcError::failed("the run failed", json!({"error": code, "runId": run_id})))
        }
    }
}

/// The result of `sampling/createMessage`: the handler's result, or the text that the workflow produced from
/// it.
pub(super) fn of_sampling(urls: &AnswerUrls, end: End) -> Result<Value, RpcError> {
    let outputs = given(urls, end).map_err(refused)?;
    let named = |name: &str| member(&outputs, name).and_then(Value::as_str);
    let text_body = member(&outputs, "content").filter(|content| content["type"] == "text");
    let text_body = text_body.and_then(|content| content["text"].as_str()).map(str::to_owned);
    let text_body = text_body.unwrap_or_else(|| text(&outputs));
    if text_body.len() > MAX_TEXT_BYTES {
        return Err(RpcError::failed("the reply is too large", json!({"maxBytes": MAX_TEXT_BYTES})));
    }
    let mut result = json!({
        "role": "assistant", "content": {"type": "text", "text": text_body}, "model": named("model").unwrap_or("unknown"),
    });
    if let Some(reason) = named("stopReason") {
        result["stopReason"] = reason.into();
    }
    Ok(result)
}

fn refused((code, message, run_id): (String, String, RunId)) -> RpcError {
    RpcError::failed(&message, json!({"error": code, "runId": run_id}))
}

/// A field of the run's outputs, or of the outputs of its only last node.
fn member<'o>(outputs: &'o Value, name: &str) -> Option<&'o Value> {
    let outputs = outputs.as_object()?;
    let inner = outputs.values().next().filter(|_| outputs.len() == 1).and_then(|only| only.get(name));
    outputs.get(name).or(inner)
}

/// The outputs of a run as text: its text field, or all of it as JSON.
fn text(outputs: &Value) -> String {
    let named = ["text", "content", "output"].into_iter().find_map(|name| member(outputs, name)?.as_str());
    match named {
        Some(text) => text.to_owned(),
        None if outputs.is_null() => String::new(),
        None => outputs.to_string(),
    }
}

/// The messages of a prompt, with only the fields that the protocol defines.
fn messages(given: &Value) -> Option<Value> {
    let given = given.as_array().filter(|given| (1..=MAX_MESSAGES).contains(&given.len()))?;
    let messages = given.iter().map(|message| {
        let role = message["role"].as_str().filter(|role| ["user", "assistant"].contains(role))?;
        let text = message["content"].as_str().or_else(|| message["content"]["text"].as_str())?;
        Some(json!({"role": role, "content": {"type": "text", "text": text}}))
    });
    messages.collect::<Option<Vec<_>>>().map(Value::from)
}
