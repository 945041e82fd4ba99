//! Every mistake that a caller can make, the error message, and the suggested call.

use serde_json::{Map, Value, json};
use server::call::ToolCall;
use server::tool::Tool;

use crate::client::fake;

fn refuse(tool: &str, arguments: Value) -> Value {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let envelope = ToolCall::read(Tool::parse(tool).unwrap(), arguments).unwrap_err();
    assert_eq!(envelope.code(), "VALIDATION_ERROR");
    assert!(envelope.suggestion().starts_with("Nothing was done."), "{}", envelope.suggestion());
    assert!(
        !envelope.details().contains_key("detailsTruncated"),
        "the details fit: {:?}",
        envelope.details()
    );
    json!({"message": envelope.message(), "details": envelope.details()})
}

/// The tool and its arguments; for each issue its path and a part of its message; the nearest name of the first; the arguments of
/// the suggested call.
type Case = (&'static str, Value, &'static [(&'static str, &'static str)], Option<&'static str>, Value);

fn cases() -> Vec<Case> {
    const GOAL: &str = "<what the user wants, in one sentence>";
    const TOKEN: &str = "<continueToken of the latest reply about this run>";
    const ACK: &str = "<ackToken of the latest reply about this run>";
    let output = json!({"notesMarkdown": guide::placeholder::NOTES});
    vec![
        (
            "start_workflow",
            json!({"workflowID": "wr.x", "goal": "g"}),
            &[
                ("workflowID", "is not a parameter; did you mean `workflowId`?"),
                ("workflowId", "`workflowId` is missing; send a string."),
            ],
            Some("workflowId"),
            json!({"workflowId": "wr.x", "goal": "g"}),
        ),
        (
            "start_workflow",
            json!({"workflow_id": "wr.x", "gaol": "g"}),
            &[
                ("gaol", "did you mean `goal`?"),
                ("workflow_id", "did you mean `workflowId`?"),
                ("workflowId", "is missing"),
                ("goal", "is missing"),
            ],
            Some("goal"),
            json!({"workflowId": "wr.x", "goal": "g"}),
        ),
        (
            "start_workflow",
            json!({"workflowId": 7, "goal": "  ", "workspacePath": "project"}),
            &[
                ("workflowId", "is a number; it must be a string."),
                ("goal", "`goal` is empty"),
                ("workspacePath", "is \"project\", which is not an absolute path."),
            ],
            None,
            json!({"workflowId": "<workflowId from list_workflows>", "goal": GOAL,
                   "workspacePath": "<absolute path of the folder you are working in>"}),
        ),
        (
            "start_workflow",
            json!({"workflowId": "wr.x", "goal": "g", "preferences": {"autonomy": "full_auto"}}),
            &[(
                "preferences.autonomy",
                "Allowed: `guided`, `full_auto_stop_on_user_deps`, `full_auto_never_stop`.",
            )],
            None,
            json!({"workflowId": "wr.x", "goal": "g",
                   "preferences": {"autonomy": "<guided | full_auto_stop_on_user_deps | \
                    full_auto_never_stop>"}}),
        ),
        (
            "start_workflow",
            json!({"workflowId": "wr.x", "goal": "g", "context": "{\"a\":1}"}),
            &[("context", "is JSON in a string; send the value itself, an object.")],
            None,
            json!({"workflowId": "wr.x", "goal": "g", "context": {"a": 1}}),
        ),
        (
            "start_workflow",
            json!({"workflowId": "wr.x", "goal": "g", "parentSessionId": "run_1"}),
            &[("parentSessionId", "is not a session id")],
            None,
            json!({"workflowId": "wr.x", "goal": "g", "parentSessionId": "run_1"}),
        ),
        (
            "start_workflow",
            json!({"workflowId": "wr.x", "goal": "g", "colour": "red"}),
            &[("colour", "is not a parameter. Allowed: `workflowId`, `goal`, `workspacePath`,")],
            None,
            json!({"workflowId": "wr.x", "goal": "g"}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1"}),
            &[("intent", "`intent` is missing, and cannot be inferred without `output`.")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "output": {}}),
            &[("intent", "send `intent`: \"rehydrate\"")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"continueTokn": "ct_1", "intent": "advance"}),
            &[("continueTokn", "did you mean `continueToken`?")],
            Some("continueToken"),
            json!({"continueToken": "ct_1", "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"intent": "advance"}),
            &[("continueToken", "is missing; copy it from the latest reply")],
            None,
            json!({"continueToken": TOKEN, "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "intent": "advanced"}),
            &[("intent", "Allowed: `advance`, `rehydrate`. Did you mean `advance`?")],
            Some("advance"),
            json!({"continueToken": "ct_1", "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "stateToken": "st.v1.x", "intent": "advance"}),
            &[("continueToken", "send either it or those two, not both.")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"ackToken": "ack.v1.x", "intent": "advance"}),
            &[("stateToken", "`ackToken` requires the `stateToken` of the same reply")],
            None,
            json!({"continueToken": TOKEN, "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"stateToken": "st.v1.x", "intent": "advance"}),
            &[("ackToken", "a `stateToken` alone cannot advance.")],
            None,
            json!({"stateToken": "st.v1.x", "ackToken": ACK, "intent": "advance", "output": output}),
        ),
        (
            "continue_workflow",
            json!({"stateToken": "st.v1.x", "output": {"notesMarkdown": "n"}}),
            &[("ackToken", "a `stateToken` alone cannot advance.")],
            None,
            json!({"stateToken": "st.v1.x", "ackToken": ACK, "intent": "advance",
                   "output": {"notesMarkdown": "n"}}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "intent": "rehydrate", "output": {"notesMarkdown": "n"},
                   "context": {"a": 1}}),
            &[
                ("output", "is not allowed with a rehydrate, which records nothing"),
                ("context", "is not allowed with a rehydrate, which records nothing"),
            ],
            None,
            json!({"continueToken": "ct_1", "intent": "rehydrate"}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "notes": "a", "output": {"notesMarkdown": "b"}}),
            &[("notes", "are two names for the same parameter; send only `output.notesMarkdown`.")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": {"notesMarkdown": "b"}}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "intent": "advance", "context": {}, "contextVariables": {"a": 1}}),
            &[("contextVariables", "send only `context`.")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "context": {}, "output": output}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "artifacts": [], "output": {"artifacts": [{"kind": "k"}]}}),
            &[("artifacts", "send only `output.artifacts`.")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": {"artifacts": [{"kind": "k"}]}}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "output": {"notesMarkdwn": "n", "artifacts": ["x"]}}),
            &[
                ("output.notesMarkdwn", "did you mean `output.notesMarkdown`?"),
                ("output.artifacts[0]", "is a string; it must be an object."),
            ],
            Some("notesMarkdown"),
            json!({"continueToken": "ct_1", "intent": "advance",
                   "output": {"notesMarkdown": "n", "artifacts": "<a list of objects, each with a kind>"}}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "output": "done"}),
            &[("output", "is a string; it must be an object with `notesMarkdown`, `artifacts`.")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": {"notesMarkdown": "done"}}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "output": "{\"notesMarkdown\": \"Restored it.\"}"}),
            &[("output", "is JSON in a string; send the value itself")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": {"notesMarkdown": "Restored \
                    it."}}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "output": {"artifacts": ["{\"kind\": \"k\"}"]}}),
            &[("output.artifacts[0]", "is a string; it must be an object.")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": {"artifacts": [{"kind": "k"}]}}),
        ),
        (
            "continue_workflow",
            json!({"continueToken": "ct_1", "output": {"notesMarkdown": guide::placeholder::NOTES}}),
            &[("output.notesMarkdown", "is still the placeholder")],
            None,
            json!({"continueToken": "ct_1", "intent": "advance", "output": output}),
        ),
        (
            "start_workflow",
            json!({"workflowId": "wr.x"}),
            &[("goal", "`goal` is missing; send a string.")],
            None,
            json!({"workflowId": "wr.x", "goal": GOAL}),
        ),
        (
            "list_workflows",
            json!({"tags": ["reviews", "review_audi", 3]}),
            &[
                ("tags[0]", "Allowed: `coding`, `review_audit`,"),
                ("tags[1]", "Did you mean `review_audit`?"),
                ("tags[2]", "is a number; it must be a string."),
            ],
            None,
            json!({"tags": "<a list of tags>"}),
        ),
        (
            "list_workflows",
            json!({"includeSources": "yes"}),
            &[("includeSources", "is a string; it must be true or false.")],
            None,
            json!({"includeSources": "<true or false>"}),
        ),
        (
            "inspect_workflow",
            json!({"workflowId": "wr.x", "mode": "previw"}),
            &[("mode", "Did you mean `preview`?")],
            Some("preview"),
            json!({"workflowId": "wr.x", "mode": "preview"}),
        ),
        (
            "checkpoint_workflow",
            json!({"checkpoint_token": "chk.v1.x"}),
            &[("checkpoint_token", "did you mean `checkpointToken`?"), ("checkpointToken", "is missing")],
            Some("checkpointToken"),
            json!({"checkpointToken": "chk.v1.x"}),
        ),
        (
            "resume_session",
            json!({"gitHeadSha": "main", "query": ""}),
            &[("query", "`query` is empty"), ("gitHeadSha", "must be 40 or 64 hexadecimal digits.")],
            None,
            json!({"gitHeadSha": "main", "query": "<words from the goal or the notes>"}),
        ),
        (
            "manage_workflow_source",
            json!({"action": "remove", "path": "flows"}),
            &[("action", "Allowed: `attach`, `detach`."), ("path", "which is not an absolute path.")],
            None,
            json!({"action": "<attach | detach>", "path": "<absolute path of the folder>"}),
        ),
    ]
}

/// Finding R8: messages are sentences that name the problem in the caller's terms, and a parameter in the wrong place is recognised.
#[test]
fn each_mistake_is_named_and_answered_with_the_callers_own_call() {
    for (tool, arguments, issues, nearest, example) in cases() {
        let refusal = refuse(tool, arguments.clone());
        let name = format!("{tool} {arguments}: {refusal:#}");
        let issues_found = refusal["details"]["issues"].as_array().unwrap();
        assert_eq!(issues_found.len(), issues.len(), "{name}");
        for (issues_found, (path, message)) in issues_found.iter().zip(issues) {
            assert_eq!(issues_found["path"], *path, "{name}");
            assert!(issues_found["message"].as_str().unwrap().contains(message), "{name}");
            assert!(refusal["message"].as_str().unwrap().contains(message), "{name}");
        }
        assert_eq!(issues_found[0].get("nearest").and_then(Value::as_str), nearest, "{name}");
        assert_eq!(refusal["details"]["example"], json!({"name": tool, "arguments": example}), "{name}");
    }
}

/// Finding B5: a suggested call contains only what its caller said, or it cannot be made. The token in it may be valid.
#[test]
fn a_suggested_call_contains_no_answer_of_a_person() {
    // Two mistakes are about the meaning of a string, which the suggested call repeats because the server cannot know better.
    let beyond_form = ["parentSessionId", "gitHeadSha"];
    for (tool, arguments, _, _, example) in cases() {
        if beyond_form.iter().any(|name| arguments.get(*name).is_some()) {
            continue;
        }
        let open = example.to_string().contains("\"<");
        let Value::Object(example) = example else { panic!("an example is an object") };
        let made = ToolCall::read(Tool::parse(tool).unwrap(), example.clone());
        assert_eq!(made.is_err(), open, "{tool} {example:?}");
    }
}

/// For a call of an unknown tool the suggestion has only placeholders, each of which is refused.
#[test]
fn the_suggestion_for_an_unknown_tool_has_placeholders() {
    for tool in Tool::ALL {
        for envelope in [
            server::call::unknown_tool(&format!("{}s", tool.name())),
            server::call::arguments_not_an_object(tool),
        ] {
            let Value::Object(example) = envelope.details()["example"]["arguments"].clone() else {
                panic!("an example is an object")
            };
            let asks = tool != Tool::ListWorkflows && tool != Tool::ResumeSession;
            assert_eq!(ToolCall::read(tool, example.clone()).is_err(), asks, "{tool:?} {example:?}");
        }
    }
}

#[tokio::test]
async fn aliases_and_defaults_are_normalized() {
    let cases = [
        (
            json!({"continueToken": "ct_1", "intent": "advance"}),
            "Single(\"ct_1\"), intent: Advance, notes_markdown: None",
        ),
        (json!({"continueToken": "ct_1", "intent": "rehydrate"}), "intent: Rehydrate"),
        (
            json!({"continueToken": "ct_1", "output": {"notesMarkdown": "n"}}),
            "intent: Advance, notes_markdown: Some(\"n\"), artifacts: []",
        ),
        (json!({"continueToken": "ct_1", "notes": "n"}), "intent: Advance, notes_markdown: Some(\"n\")"),
        (
            json!({"continueToken": "ct_1", "artifacts": [{"kind": "k"}]}),
            "intent: Advance, notes_markdown: None, artifacts: [Object {\"kind\": String(\"k\")}]",
        ),
        (
            json!({"continueToken": "ct_1", "intent": "advance", "contextVariables": {"a": null}}),
            "context: Some({\"a\": Null})",
        ),
        (
            json!({"stateToken": "st.v1.x"}),
            "Pair { state_token: \"st.v1.x\", ack_token: None }, intent: Rehydrate",
        ),
        (
            json!({"stateToken": "st.v1.x", "ackToken": "ack.v1.x"}),
            "ack_token: Some(\"ack.v1.x\") }, intent: Advance",
        ),
        (
            json!({"continueToken": "ct_1", "intent": "advance", "output": null, "context": null, "workspacePath": "/w"}),
            "notes_markdown: None, artifacts: [], context: None, preferences: None",
        ),
        (
            json!({"continueToken": "ct_1", "intent": "advance",
                   "preferences": {"autonomy": "full_auto_never_stop", "riskPolicy": "balanced"}}),
            "Some(PreferenceDelta { autonomy: Some(FullAutoNeverStop), risk_policy: Some(Balanced) })",
        ),
        (
            json!({"continueToken": "ct_1", "intent": "advance", "preferences": {"riskPolicy": "balanced"}}),
            "Some(PreferenceDelta { autonomy: None, risk_policy: Some(Balanced) })",
        ),
    ];
    let (connection, fake) = fake().await;
    for (arguments, expected) in cases {
        let reply = connection.call("continue_workflow", arguments.clone()).await;
        assert!(!reply.failed, "{arguments}: {}", reply.text);
        assert!(fake.last().contains(expected), "{arguments}: {}", fake.last());
    }
    connection.call("checkpoint_workflow", json!({"checkpointToken": "chk.v1.x", "notes": "half way"})).await;
    assert_eq!(fake.last(), r#"("chk.v1.x", Some("half way"))"#);
}

#[test]
fn an_error_reply_is_small_and_fast_for_any_input() {
    let long = "x".repeat(100_000);
    let many: Map<String, Value> =
        (0..50_000).map(|index| (format!("parameter{index}"), json!(index))).collect();
    let names: Vec<String> = (0..50_000).map(|index| format!("tag{index}")).collect();
    let large: Vec<Value> = (0..40).map(|_| json!({"kind": "k", "text": long})).collect();
    let cases = [
        ("start_workflow", json!({ long.clone(): 1, "workflowId": long, "goal": long })),
        ("start_workflow", Value::Object(many)),
        ("list_workflows", json!({"tags": names})),
        ("continue_workflow", json!({"continueToken": "ct_1", "output": {"artifacts": large}})),
    ];
    for (tool, arguments) in cases {
        let refusal = refuse(tool, arguments);
        assert!(refusal.to_string().len() < 12_000, "{tool}: {} bytes", refusal.to_string().len());
    }
}

#[test]
fn arguments_have_a_maximum_size() {
    let arguments =
        json!({"continueToken": "ct_1", "intent": "advance", "context": {"a": "x".repeat(4 << 20)}});
    let Value::Object(arguments) = arguments else { panic!("an object") };
    let envelope = ToolCall::read(Tool::ContinueWorkflow, arguments).unwrap_err();
    assert_eq!(envelope.code(), "VALIDATION_ERROR");
    assert_eq!(envelope.details()["maximumBytes"], 4_194_304);
    assert!(envelope.details()["measuredBytes"].as_u64().unwrap() > 4_194_304);
}
