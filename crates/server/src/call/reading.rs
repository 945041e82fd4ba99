//! Reads checked arguments.

use std::path::PathBuf;

use canon::{canonical, json as strict};
use guide::delegation::ChildHandle;
use guide::record::SessionId;
use guided::api::{ContinueRequest, Handle, Intent, PreferenceDelta, ResumeRequest, StartRequest};
use serde_json::{Map, Value};

use super::{InspectMode, MAX_ARGUMENT_BYTES, SourceAction, ToolCall, refusal};
use crate::listing::Filter;
use crate::service::ServiceResult;
use crate::tool::parameter::{self, Mistake};
use crate::tool::{Alias, Definition, Tool, definition};

pub(super) fn read(tool: Tool, arguments: Map<String, Value>) -> ServiceResult<ToolCall> {
    let definition = definition(tool);
    let arguments = Value::Object(arguments);
    // The reader of the transport has the same limit; other transports may not.
    if !strict::within_depth(&arguments, strict::MAX_DEPTH) {
        let mistake = Mistake::new(
            "",
            format!("The arguments are nested more than {} levels deep.", strict::MAX_DEPTH),
        );
        return Err(Box::new(refusal::mistaken(definition, &Map::new(), &[mistake])));
    }
    let measured = canonical::string_of(&arguments).len();
    if measured > MAX_ARGUMENT_BYTES {
        return Err(Box::new(refusal::too_large(tool, measured, MAX_ARGUMENT_BYTES)));
    }
    let Value::Object(mut arguments) = arguments else {
        unreachable!("it was an object when it was wrapped")
    };
    let mut mistakes = resolve_aliases(definition, &mut arguments);
    mistakes.extend(parameter::check(definition.parameters, &[], &arguments));
    // A parameter that is `null` counts as absent.
    let given: Map<String, Value> = arguments
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let call = read_call(tool, &given, &mut mistakes);
    match call {
        Some(call) if mistakes.is_empty() => Ok(call),
        _ => {
            mistakes.truncate(parameter::MAX_MISTAKES);
            Err(Box::new(refusal::mistaken(definition, &arguments, &mistakes)))
        }
    }
}

/// Moves values from aliases to their parameters. Sending both is a mistake, because it is not clear which
/// one is meant.
fn resolve_aliases(definition: &Definition, arguments: &mut Map<String, Value>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for Alias { name, path } in definition.aliases {
        let Some(value) = arguments.remove(*name).filter(|value| !value.is_null()) else { continue };
        let (last, groups) = path.split_last().expect("an alias leads somewhere");
        // If a group is not an object, the parameter check reports it.
        let Some(place) = group(arguments, groups) else { continue };
        if place.get(*last).is_some_and(|value| !value.is_null()) {
            let path = path.join(".");
            mistakes.push(Mistake::new(
                *name,
                format!("`{name}` and `{path}` are two names for the same parameter; send only `{path}`."),
            ));
        } else {
            place.insert((*last).to_owned(), value);
        }
    }
    mistakes
}

/// The members of a group, which is created if it is missing.
fn group<'a>(arguments: &'a mut Map<String, Value>, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let Some((first, rest)) = path.split_first() else { return Some(arguments) };
    let entry = arguments.entry(*first).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    group(entry.as_object_mut()?, rest)
}

/// The typed call; `None` if a mistake that is already reported prevents it.
fn read_call(tool: Tool, given: &Map<String, Value>, mistakes: &mut Vec<Mistake>) -> Option<ToolCall> {
    match tool {
        Tool::ListWorkflows => Some(ToolCall::List {
            workspace: path(given, "workspacePath"),
            filter: Filter {
                tags: given
                    .get("tags")
                    .and_then(Value::as_array)
                    .map(|tags| tags.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
                include_sources: flag(given, "includeSources"),
            },
        }),
        Tool::InspectWorkflow => Some(ToolCall::Inspect {
            workspace: path(given, "workspacePath"),
            workflow_id: text(given, "workflowId")?,
            mode: match text(given, "mode").as_deref() {
                Some("metadata") => InspectMode::Metadata,
                _ => InspectMode::Preview,
            },
        }),
        Tool::StartWorkflow => Some(ToolCall::Start(StartRequest {
            child_handle: text(given, "parentSessionId").and_then(|text| ChildHandle::parse(&text)),
            parent_session_id: parent(given, mistakes),
            workflow_id: text(given, "workflowId")?,
            goal: text(given, "goal")?,
            workspace: path(given, "workspacePath"),
            context: object(given, "context").unwrap_or_default(),
            preferences: preferences(given),
            equipped_root: None,
        })),
        Tool::ContinueWorkflow => read_continue(given, mistakes).map(ToolCall::Continue),
        Tool::CheckpointWorkflow => Some(ToolCall::Checkpoint {
            checkpoint_token: text(given, "checkpointToken")?,
            notes: object(given, "output").and_then(|output| text(&output, "notesMarkdown")),
        }),
        Tool::ResumeSession => Some(ToolCall::Resume(ResumeRequest {
            workspace: path(given, "workspacePath"),
            query: text(given, "query"),
            run_id: text(given, "runId"),
            session_id: text(given, "sessionId"),
            git_branch: text(given, "gitBranch"),
            git_head_sha: commit(given, mistakes),
            same_workspace_only: flag(given, "sameWorkspaceOnly"),
        })),
        Tool::ManageWorkflowSource => Some(ToolCall::Manage {
            action: match text(given, "action")?.as_str() {
                "detach" => SourceAction::Detach,
                _ => SourceAction::Attach,
            },
            path: text(given, "path")?,
        }),
    }
}

fn read_continue(given: &Map<String, Value>, mistakes: &mut Vec<Mistake>) -> Option<ContinueRequest> {
    let handle = handle(given, mistakes);
    let output = object(given, "output").unwrap_or_default();
    let notes_markdown = text(&output, "notesMarkdown");
    let artifacts = output.get("artifacts").and_then(Value::as_array).cloned().unwrap_or_default();
    let has_output = notes_markdown.is_some() || !artifacts.is_empty();
    let intent = intent(given, handle.as_ref(), has_output, mistakes);
    if intent == Some(Intent::Rehydrate) {
        // A rehydrate records nothing, so any output would be lost silently.
        for name in ["output", "context", "preferences"].into_iter().filter(|name| given.contains_key(*name))
        {
            mistakes.push(Mistake::new(
                name,
                format!(
                    "`{name}` is not allowed with a rehydrate, which records nothing; send it with \
                     `intent`: \"advance\", or \
                     leave it out."
                ),
            ));
        }
    }
    Some(ContinueRequest {
        handle: handle?,
        intent: intent?,
        notes_markdown,
        artifacts,
        context: object(given, "context"),
        preferences: preferences(given),
    })
}

fn handle(given: &Map<String, Value>, mistakes: &mut Vec<Mistake>) -> Option<Handle> {
    let has = |name: &str| given.contains_key(name);
    let wrong = match (has("continueToken"), has("stateToken"), has("ackToken")) {
        (true, false, false) => return text(given, "continueToken").map(Handle::Single),
        (false, true, _) => {
            let state_token = text(given, "stateToken")?;
            return Some(Handle::Pair { state_token, ack_token: text(given, "ackToken") });
        }
        (false, false, false) => Mistake::new(
            "continueToken",
            "`continueToken` is missing; copy it from the latest reply about this run. Without one, call \
             resume_session.",
        ),
        (false, false, true) => Mistake::new(
            "stateToken",
            "`ackToken` requires the `stateToken` of the same reply; send both, or only `continueToken`.",
        ),
        (true, _, _) => Mistake::new(
            "continueToken",
            "`continueToken` replaces `stateToken` and `ackToken`; send either it or those two, not both.",
        ),
    };
    // A misspelled token is reported once, under its actual name.
    if !mistakes
        .iter()
        .any(|mistake| mistake.nearest == Some("continueToken") || mistake.nearest == Some("stateToken"))
    {
        mistakes.push(wrong);
    }
    None
}

/// The intent. It is never guessed: if an `output` was lost, an advance must not become a rehydrate.
fn intent(
    given: &Map<String, Value>,
    handle: Option<&Handle>,
    has_output: bool,
    mistakes: &mut Vec<Mistake>,
) -> Option<Intent> {
    let state_alone = matches!(handle, Some(Handle::Pair { ack_token: None, .. }));
    let acknowledged = matches!(handle, Some(Handle::Pair { ack_token: Some(_), .. }));
    let intent = match given.get("intent") {
        Some(Value::String(text)) if text == "advance" => Intent::Advance,
        Some(Value::String(text)) if text == "rehydrate" => Intent::Rehydrate,
        // Already reported as an invalid choice.
        Some(_) => return None,
        None if has_output || acknowledged => Intent::Advance,
        None if state_alone => Intent::Rehydrate,
        None => {
            let is_reported = |mistake: &Mistake| {
                matches!(mistake.nearest, Some("intent" | "output")) || mistake.path.starts_with("output")
            };
            if !mistakes.iter().any(is_reported) {
                mistakes.push(Mistake::new(
                    "intent",
                    "`intent` is missing, and cannot be inferred without `output`. If you have done the \
                     pending step, send \
                     `intent`: \"advance\" with `output.notesMarkdown`; if you only want to know where the run is, send \
                     `intent`: \"rehydrate\".",
                ));
            }
            return None;
        }
    };
    if intent == Intent::Advance && state_alone {
        mistakes.push(Mistake::new(
            "ackToken",
            "`ackToken` is missing: a `stateToken` alone cannot advance. Send the `ackToken` of the same \
             reply, or only \
             `continueToken`.",
        ));
    }
    Some(intent)
}

fn preferences(given: &Map<String, Value>) -> Option<PreferenceDelta> {
    let members = object(given, "preferences")?;
    // The names were checked against the definition, whose choices are those of the types.
    Some(PreferenceDelta {
        autonomy: members.get("autonomy").and_then(|name| serde_json::from_value(name.clone()).ok()),
        risk_policy: members.get("riskPolicy").and_then(|name| serde_json::from_value(name.clone()).ok()),
    })
}

fn parent(given: &Map<String, Value>, mistakes: &mut Vec<Mistake>) -> Option<SessionId> {
    let id = text(given, "parentSessionId")?;
    if let Some(handle) = ChildHandle::parse(&id) {
        return Some(handle.parent);
    }
    match SessionId::parse(&id) {
        Ok(id) => Some(id),
        Err(reason) => {
            mistakes.push(Mistake::new(
                "parentSessionId",
                format!(
                    "`parentSessionId` is not a session id: \
                                    {reason}."
                ),
            ));
            None
        }
    }
}

fn commit(given: &Map<String, Value>, mistakes: &mut Vec<Mistake>) -> Option<String> {
    let sha = text(given, "gitHeadSha")?;
    if matches!(sha.len(), 40 | 64) && sha.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(sha.to_ascii_lowercase());
    }
    mistakes.push(Mistake::new("gitHeadSha", "`gitHeadSha` must be 40 or 64 hexadecimal digits."));
    None
}

fn text(given: &Map<String, Value>, name: &str) -> Option<String> {
    given.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn path(given: &Map<String, Value>, name: &str) -> Option<PathBuf> {
    text(given, name).map(PathBuf::from)
}

fn flag(given: &Map<String, Value>, name: &str) -> bool {
    given.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn object(given: &Map<String, Value>, name: &str) -> Option<Map<String, Value>> {
    given.get(name).and_then(Value::as_object).cloned()
}
