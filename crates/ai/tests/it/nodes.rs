//! Node configurations, and the protocol fixtures from configuration to result.

use ai::completion::{Attempt, Budget, Next};
use ai::event::EventKind;
use ai::node::{Calling, Node, NodeType, Overrides, messages};
use ai::provider::mock;
use ai::redact::Redactor;
use ai::trust::Trust;
use serde_json::{Map, Value, json};

use crate::protocol;

fn pointers(kind: NodeType, config: Value) -> Vec<String> {
    Node::read(kind, &config)
        .map_or_else(|problems| problems.into_iter().map(|problem| problem.pointer).collect(), |_| Vec::new())
}

#[test]
fn prompt_id_is_used_unless_a_reference_is_set() {
    let cases = [
        (json!({"promptId": "writer"}), Some("prompt:writer")),
        (json!({"promptId": "writer@1.0.0"}), Some("prompt:writer@1.0.0")),
        (json!({"promptId": "prompt:writer@1.0.0"}), Some("prompt:writer@1.0.0")),
        (json!({"promptId": "writer", "userPromptRef": "prompt:other"}), Some("prompt:other")),
        (json!({}), None),
    ];
    for (config, expected) in cases {
        let node = Node::read(NodeType::CallPrompt, &config).unwrap();
        let user = node.call().prompts.user.as_ref().map(ToString::to_string);
        assert_eq!(user.as_deref(), expected, "{config}");
    }
}

#[test]
fn every_problem_has_a_pointer() {
    let schema = json!({"type": "object"});
    let cases = [
        (NodeType::CallPrompt, json!({}), vec![]),
        (NodeType::CallPrompt, json!([]), vec![""]),
        (
            NodeType::CallPrompt,
            json!({"promptId": "", "expectsStreaming": 1}),
            vec!["/promptId", "/expectsStreaming"],
        ),
        (NodeType::CallPrompt, json!({"promptId": "no prompt"}), vec!["/promptId"]),
        (NodeType::CallPrompt, json!({"mcp": {"tool": "echo", "arguments": {"text": "x"}}}), vec![]),
        (NodeType::CallPrompt, json!({"mcp": {"arguments": {}}}), vec!["/mcp"]),
        (NodeType::CallPrompt, json!({"credentialRef": "sk-proj-abcdefgh"}), vec!["/credentialRef"]),
        (NodeType::CallPrompt, json!({"apiKey": "x"}), vec!["/apiKey"]),
        (NodeType::CallPrompt, json!({"baseUrl": "http://169.254.169.254"}), vec!["/baseUrl"]),
        (
            NodeType::CallPrompt,
            json!({"temperature": 2.1, "topP": -0.1, "stop": [""], "seed": -1}),
            vec!["/temperature", "/topP", "/stop", "/seed"],
        ),
        (
            NodeType::CallPrompt,
            json!({"fallbackModel": {"provider": "p"}, "requiredModelCapabilities": [1]}),
            vec!["/requiredModelCapabilities", "/fallbackModel"],
        ),
        (NodeType::StructuredOutput, json!({}), vec!["/outputSchema"]),
        (NodeType::StructuredOutput, json!({"outputSchema": {"type": 1}}), vec!["/outputSchema"]),
        (NodeType::StructuredOutput, json!({"outputSchema": schema, "maxTokens": 0}), vec!["/maxTokens"]),
        (
            NodeType::StructuredOutput,
            json!({"outputSchema": schema, "retryOnInvalidJson": 17}),
            vec!["/retryOnInvalidJson"],
        ),
        (
            NodeType::StructuredOutput,
            json!({"outputSchema": schema, "outputSchemas": {}}),
            vec!["/outputSchemas"],
        ),
        (
            NodeType::MockAi,
            json!({"systemPromptRef": "writer", "fewShotPromptRefs": ["prompt:a", 1]}),
            vec!["/systemPromptRef", "/fewShotPromptRefs"],
        ),
    ];
    for (kind, config, expected) in cases {
        assert_eq!(pointers(kind, config.clone()), expected, "{kind} {config}");
    }
    let problems = Node::read(NodeType::CallPrompt, &json!({"modle": "x", "a/b~c": 1})).unwrap_err();
    assert_eq!(problems[0].pointer, "/a~1b~0c");
    assert!(problems[1].message.contains("`model`"), "{problems:?}");
}

#[test]
fn reads_protocol_configurations() {
    let mut read = 0;
    for workflow in protocol::files("fixtures") {
        for node in workflow.get("nodes").and_then(Value::as_array).into_iter().flatten() {
            if let Some(kind) = node["typeId"].as_str().and_then(NodeType::parse) {
                Node::read(kind, &node["config"])
                    .unwrap_or_else(|problems| panic!("{}: {problems:?}", workflow["id"]));
                read += 1;
            }
        }
    }
    assert!(read == 0 || read >= 12, "{read}");
}

/// The event types of a node, its result, and the token limit of its last call.
type Driven = (Vec<EventKind>, Result<Value, String>, Option<u32>);

/// Runs a protocol fixture with scripted replies.
fn drive(fixture: &str, program: Value) -> Option<Driven> {
    let workflow = protocol::file(&format!("fixtures/{fixture}.json"))?;
    let node = &workflow["nodes"][0];
    let parsed =
        Node::read(NodeType::parse(node["typeId"].as_str().unwrap()).unwrap(), &node["config"]).unwrap();
    let inputs = Map::from_iter([("messages".to_owned(), node["inputs"]["messages"]["value"].clone())]);
    let config = parsed.call();
    let overrides = Overrides::default();
    let (mut completion, mut call) = parsed.start(Calling {
        node_id: "structured-call",
        provider: config.provider.as_deref().unwrap(),
        model: config.model.as_deref().unwrap(),
        prompts: Vec::new(),
        inputs: messages(&inputs, Trust::Trusted).unwrap(),
        overrides: &overrides,
        budget: Budget::default(),
        redactor: Redactor::default(),
        envelopes: None,
    });
    let mut programs = mock::Programs::default();
    programs.program("structured-call", mock::Program::read(&program).unwrap());
    let mut events = Vec::new();
    loop {
        let step = completion.on(Attempt::Reply(programs.answer("structured-call", &call.request)));
        protocol::check(&step.events);
        events.extend(
            step.events.iter().map(|event| event.kind).filter(|kind| *kind != EventKind::ProviderUsage),
        );
        let end = match step.next {
            Next::Call(next) => {
                call = next;
                continue;
            }
            Next::Done(done) => Ok(done.value),
            Next::Failed(failed) => Err(failed.code.to_string()),
            other => panic!("expected an envelope: {other:?}"),
        };
        return Some((events, end, programs.last_room("structured-call")));
    }
}

#[test]
fn protocol_fixtures_have_the_expected_results() {
    use EventKind::{
        CapBreached, NlToFormatEngaged, RecoveryApplied, Refusal, RetryAttempted, RetryExhausted, Truncated,
    };
    let good = json!({"content": "{\"valid\":true}"});
    let cut = json!({"stopReason": "max_tokens", "content": "{\"partial"});
    let prose =
        ["Sure, here is the result: the answer is OK.", "Of course! The result is okay.", "I think ok-ish."];
    let said: Vec<Value> = prose.iter().map(|text| json!({"content": text})).collect();
    let with = |mut entries: Vec<Value>, last: Value| {
        entries.push(last);
        Value::Array(entries)
    };
    let ended = |value: Value| Ok::<_, String>(value);
    let cases = [
        (
            "conformance-envelope-retry-attempted",
            json!([{"content": "not valid json"}, good]),
            vec![RetryAttempted],
            ended(json!({"valid": true})),
            4096,
        ),
        (
            "conformance-envelope-retry-exhausted",
            json!([{"content": "{a"}, {"content": "{b"}, {"content": "{c"}, {"content": "{d"}]),
            vec![RetryAttempted, RetryAttempted, RetryExhausted],
            Err("envelope_payload_invalid".to_owned()),
            4096,
        ),
        (
            "conformance-envelope-refusal",
            json!([{"stopReason": "safety", "refusalText": "no"}]),
            vec![Refusal],
            Err("envelope_refused_by_provider".to_owned()),
            4096,
        ),
        (
            "conformance-envelope-truncated",
            json!([cut, good]),
            vec![Truncated, RetryAttempted],
            ended(json!({"valid": true})),
            100,
        ),
        (
            "conformance-envelope-truncation-cap-exhaustion",
            Value::Array(vec![cut; 16]),
            vec![
                Truncated,
                RetryAttempted,
                Truncated,
                RetryAttempted,
                Truncated,
                RetryExhausted,
                CapBreached,
            ],
            Err("envelope_truncation_unrecoverable".to_owned()),
            200,
        ),
        (
            "conformance-envelope-recovery-applied",
            json!([{"content": "```json\n{\"result\":\"ok\"}\n```"}]),
            vec![RecoveryApplied],
            ended(json!({"result": "ok"})),
            4096,
        ),
        (
            "conformance-envelope-nl-to-format-engaged",
            with(said, json!({"content": "{\"result\":\"coerced-ok\"}"})),
            vec![RetryAttempted, RetryAttempted, NlToFormatEngaged],
            ended(json!({"result": "coerced-ok"})),
            4096,
        ),
        ("conformance-phase4-replay-divergence", json!([]), vec![], ended(json!({"valid": true})), 4096),
    ];
    for (fixture, program, events, end, room) in cases {
        let Some((seen, ended, last)) = drive(fixture, program) else { return };
        assert_eq!((seen, ended, last), (events, end, Some(room)), "{fixture}");
    }
}

#[test]
fn texts_are_ignored_with_a_warning_if_a_reference_is_set() {
    let config = json!({"systemPrompt": "inline", "systemPromptRef": "prompt:s", "userPrompt": "ask"});
    let node = Node::read(NodeType::CallPrompt, &config).unwrap();
    let warnings = node.warnings("n");
    protocol::check(&warnings);
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].payload["fields"]["code"], "prompt_ref_supersedes_inline");
    let overrides = Overrides { temperature: Some(0.25), ..Overrides::default() };
    let (_, call) = node.start(Calling {
        node_id: "n",
        provider: "p",
        model: "m",
        prompts: vec![ai::provider::Message::system("composed")],
        inputs: Vec::new(),
        overrides: &overrides,
        budget: Budget::default(),
        redactor: Redactor::default(),
        envelopes: None,
    });
    let said: Vec<&str> = call.request.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(said, ["composed", "ask"]);
    assert_eq!(call.request.temperature, Some(0.25));
}
