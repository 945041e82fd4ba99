//! The tool definitions of `tools/list`.

use serde_json::{Value, json};
use server::tool::parameter::{Kind, Parameter};
use server::tool::{Tool, definition};

use crate::client::fake;

#[tokio::test]
async fn the_list_is_the_seven_tools_as_documented() {
    let (connection, _) = fake().await;
    let tools = connection.0.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(
        names,
        [
            "list_workflows",
            "inspect_workflow",
            "start_workflow",
            "continue_workflow",
            "checkpoint_workflow",
            "resume_session",
            "manage_workflow_source"
        ]
    );
    let documents = server::documents::all();
    for tool in tools {
        let path = format!("schemas/tools/{}.json", tool.name);
        let (_, document) = documents.iter().find(|(name, _)| *name == path).unwrap();
        let document: Value = serde_json::from_str(document).unwrap();
        assert_eq!(json!(tool), document, "{}: what is sent is what is documented", tool.name);
    }
}

#[test]
fn hints_say_what_a_call_does() {
    let table: Vec<(&str, bool, bool)> = Tool::ALL
        .map(definition)
        .iter()
        .map(|definition| (definition.tool.name(), definition.read_only, definition.idempotent))
        .collect();
    assert_eq!(
        table,
        [
            ("list_workflows", true, true),
            ("inspect_workflow", true, true),
            ("start_workflow", false, false),
            ("continue_workflow", false, true),
            ("checkpoint_workflow", false, true),
            ("resume_session", true, true),
            ("manage_workflow_source", false, true),
        ]
    );
}

#[test]
fn every_example_keeps_its_own_schema() {
    for definition in Tool::ALL.map(definition) {
        let schema = Value::Object(definition.input_schema());
        let validator = jsonschema::validator_for(&schema).unwrap();
        let example = Value::Object(definition.example_arguments());
        assert!(validator.is_valid(&example), "{}", definition.tool.name());
        server::call::ToolCall::read(definition.tool, definition.example_arguments()).unwrap();
        examples(definition.parameters, definition.tool.name());
    }
}

fn examples(parameters: &'static [Parameter], place: &str) {
    for parameter in parameters {
        let place = format!("{place}.{}", parameter.name);
        let text = parameter.placeholder();
        assert!(text.starts_with('<') && text.ends_with('>'), "{place}: {text}");
        let mut given = serde_json::Map::new();
        given.insert(parameter.name.to_owned(), Value::String(text));
        let mistakes = server::tool::parameter::check(std::slice::from_ref(parameter), &[], &given);
        assert_eq!(mistakes.len(), 1, "{place}: a placeholder is refused");
        if let Kind::Group(members) = parameter.kind {
            examples(members, &place);
        }
    }
}

/// Clients validate replies against the schema, some of them also error replies.
#[tokio::test]
async fn every_reply_keeps_its_schema() {
    let (connection, _) = fake().await;
    let calls = [
        ("list_workflows", json!({})),
        ("list_workflows", json!({"tags": ["coding", "documentation"], "includeSources": true})),
        ("inspect_workflow", json!({"workflowId": "wr.bug_investigation"})),
        ("inspect_workflow", json!({"workflowId": "wr.bug_investigation", "mode": "metadata"})),
        ("inspect_workflow", json!({"workflowId": "wr.bug_investigatoin"})),
        ("start_workflow", json!({"workflowId": "wr.bug_investigation", "goal": "the import hangs"})),
        ("start_workflow", json!({})),
        ("continue_workflow", json!({"continueToken": "ct_1", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_blocked", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_terminal", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_done", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_confirm", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_user", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_gaps", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_done_with_gaps", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_busy", "intent": "advance"})),
        ("continue_workflow", json!({"continueToken": "ct_earlier", "intent": "rehydrate"})),
        ("checkpoint_workflow", json!({"checkpointToken": "chk.v1.x"})),
        ("resume_session", json!({"query": "import"})),
        ("manage_workflow_source", json!({"action": "attach", "path": "/team/flows/"})),
    ];
    for (name, arguments) in calls {
        let reply = connection.call(name, arguments.clone()).await;
        let definition = definition(Tool::parse(name).unwrap());
        let form = if reply.failed { server::tool::error_schema() } else { definition.success_schema() };
        for schema in [form, Value::Object(definition.output_schema())] {
            let validator = jsonschema::validator_for(&schema).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&reply.facts).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{name} {arguments}: {errors:?}");
        }
    }
}

/// Finding R4: a model reads the whole list first, in every conversation.
#[tokio::test]
async fn the_list_of_tools_is_short() {
    let (connection, _) = fake().await;
    let tools = connection.0.list_all_tools().await.unwrap();
    let measured = serde_json::to_string(&tools).unwrap().len();
    assert!(measured <= 16_000, "tools/list is {measured} bytes; the limit is 16,000");
}

#[test]
fn the_instructions_are_short() {
    assert!(server::mcp::INSTRUCTIONS.len() <= 1500, "{}", server::mcp::INSTRUCTIONS.len());
}
