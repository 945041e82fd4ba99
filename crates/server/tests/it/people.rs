//! Input that only the user can give, requested from the user through the client (finding G2).

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalogue::{Catalogue, CatalogueOptions};
use guided::{Guided, GuidedOptions, Verifier};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationCapability, Implementation, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RequestContext, RoleClient, RunningService};
use rmcp::{ClientHandler, ErrorData, ServiceExt as _, serve_server};
use serde_json::{Value, json};
use server::{GuideService, Mcp};
use storage::disk::RealDisk;
use storage::files::{FileSessions, SessionFiles};
use system::{ManualClock, SeededEntropy};

use crate::client::{Reply, reply};
use crate::real::next;

/// A user at a client: each question gets the next answer; when none is left, there is no answer.
#[derive(Clone, Default)]
struct Person {
    answers: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Person {
    fn who_says(answers: &[Value]) -> Self {
        let mut answers = answers.to_vec();
        answers.reverse();
        Self { answers: Arc::new(Mutex::new(answers)), asked: Arc::default() }
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let able =
            ClientCapabilities::builder().enable_elicitation_with(ElicitationCapability::new()).build();
        ClientConfig::new(able, Implementation::new("person", "1"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Err(ErrorData::invalid_params("only forms", None));
        };
        self.asked.lock().unwrap().push((message, serde_json::to_value(requested_schema).unwrap()));
        let answer = self.answers.lock().unwrap().pop();
        match answer {
            Some(answer) => Ok(serde_json::from_value(answer).unwrap()),
            None => std::future::pending().await,
        }
    }
}

fn open(directory: &Path) -> Arc<dyn GuideService> {
    let flows = directory.join("flows");
    fs::create_dir_all(&flows).unwrap();
    let workflow = json!({
        "id": "team.release", "name": "Release", "description": "Released by people.", "version": "1.0.0",
        "steps": [
            {"id": "ship", "title": "Ship {{goal}}", "prompt": "Ship it.", "requireConfirmation": true, "requirePerson": true,
             "userDependencies": [{"id": "when", "reason": "needs_user_choice", "choiceKind": "external_side_effect",
                "what": "Today or tomorrow?"}]},
            {"id": "tell", "title": "Tell", "prompt": "Tell them."},
        ],
    });
    fs::write(flows.join("release.json"), workflow.to_string()).unwrap();
    let files = SessionFiles::open(Arc::new(RealDisk::open(&directory.join("data")).unwrap())).unwrap();
    let catalogue =
        Catalogue::new(CatalogueOptions { configured_dirs: vec![flows], ..CatalogueOptions::default() });
    Arc::new(Guided::new(GuidedOptions {
        store: Arc::new(FileSessions::new(files)),
        catalogue,
        clock: Arc::new(ManualClock::at(1)),
        entropy: Arc::new(SeededEntropy::new(7)),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    }))
}

fn pipe(service: Arc<dyn GuideService>, patience: Duration) -> tokio::io::DuplexStream {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let handler = Mcp::new(service).with_answer_timeout(patience);
        let running = serve_server(handler, far).await.unwrap();
        running.waiting().await.unwrap();
    });
    near
}

async fn connect(
    directory: &Path,
    person: &Person,
    patience: Duration,
) -> RunningService<RoleClient, Person> {
    person.clone().serve(pipe(open(directory), patience)).await.unwrap()
}

const LONG: Duration = Duration::from_secs(60);

fn params(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

async fn call<P: ClientHandler>(
    client: &RunningService<RoleClient, P>,
    tool: &'static str,
    arguments: Value,
) -> Reply {
    reply(client.call_tool(params(tool, arguments)).await.unwrap())
}

async fn started<P: ClientHandler>(client: &RunningService<RoleClient, P>) -> Reply {
    call(client, "start_workflow", json!({"workflowId": "team.release", "goal": "2.4"})).await
}

fn log(directory: &Path) -> String {
    fn read(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, text);
            } else {
                text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap()));
            }
        }
    }
    let mut text = String::new();
    read(&directory.join("data/sessions"), &mut text);
    text
}

fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

#[tokio::test]
async fn the_user_of_a_client_with_elicitation_is_asked_and_the_answer_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let person = Person::who_says(&[
        accept(&json!({"answer": "Tomorrow."})),
        accept(&json!({"decision": "approve", "comment": "Looks good."})),
    ]);
    let client = connect(directory.path(), &person, LONG).await;
    let started = started(&client).await;
    assert_eq!(
        started.facts["nextIntent"], "perform_pending_then_continue",
        "the person is asked once there is a result"
    );
    assert!(started.text.contains("Only a person can give them"), "{}", started.text);

    let sloppy = call(&client, "continue_workflow", next(&started.facts, None)).await;
    assert_eq!(sloppy.facts["blockers"]["blockers"][0]["code"], "MISSING_REQUIRED_NOTES");
    assert_eq!(person.asked(), [], "no person is asked before the step is done");

    let arguments = next(&sloppy.facts, Some("Built and signed 2.4."));
    let advanced = call(&client, "continue_workflow", arguments.clone()).await;
    assert_eq!(advanced.facts["pending"]["stepId"], "tell", "{}", advanced.text);
    let asked = person.asked();
    assert_eq!(asked.len(), 2);
    let (message, schema) = &asked[0];
    for shown in ["Release (goal: 2.4)", "Step: Ship 2.4", "Today or tomorrow?", "> Built and signed 2.4."] {
        assert!(message.contains(shown), "{shown} in {message}");
    }
    assert_eq!(schema["required"], json!(["answer"]));
    assert_eq!(asked[1].1["properties"]["decision"]["enum"], json!(["approve", "refuse"]));

    let again = call(&client, "continue_workflow", arguments).await;
    assert_eq!(
        (again.facts, again.text),
        (advanced.facts, advanced.text),
        "a replay is the same to the \
        byte"
    );
    assert_eq!(person.asked().len(), 2, "and asks no person");
    let log = log(directory.path());
    assert_eq!(log.matches(r#""provenance":"elicited""#).count(), 2, "{log}");
    assert!(log.contains("Tomorrow.") && log.contains("Looks good."), "{log}");
}

#[tokio::test]
async fn no_claim_passes_and_a_question_that_is_not_answered_blocks_and_says_where_to_answer() {
    let claim = |id: &str| {
        json!({"kind": "wr.user_answer", "dependencyId": id, "answeredBy": "user", "outcome": "given",
            "answer": "They said yes."})
    };
    let cases = [
        (vec![], Duration::from_millis(50), "did not answer within"),
        (vec![json!({"action": "cancel"})], LONG, "closed the question without an answer"),
        (vec![json!({"action": "decline"})], Duration::from_millis(50), "the answer is no"),
    ];
    for (answers, patience, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let person = Person::who_says(&answers);
        let client = connect(directory.path(), &person, patience).await;
        let started = started(&client).await;
        let mut arguments = next(&started.facts, Some("Built."));
        arguments["output"]["artifacts"] = json!([claim("when"), claim("confirmation")]);
        let blocked = call(&client, "continue_workflow", arguments).await;
        let blocker = &blocked.facts["blockers"]["blockers"][0];
        assert_eq!(blocker["code"], "USER_ONLY_DEPENDENCY", "{}", blocked.text);
        assert!(blocker["message"].as_str().unwrap().contains(expected), "{expected}: {}", blocked.text);
        let session = blocked.facts["run"]["sessionId"].as_str().unwrap();
        assert!(blocked.text.contains(&format!("`/console/sessions/{session}`")), "{}", blocked.text);
        assert!(!blocked.text.contains("Example: `{\"answer\""), "nothing to paste: {}", blocked.text);
        assert!(!log(directory.path()).contains(r#""provenance":"console""#));
    }
}

/// A client of edition 2026-07-28 gets the questions as a result, and repeats the call with the answers.
#[tokio::test]
async fn the_newest_edition_gets_its_questions_as_a_result() {
    let directory = tempfile::tempdir().unwrap();
    let lifecycle =
        || ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let person = Person::who_says(&[]);
    let stream = pipe(open(directory.path()), LONG);
    let client = person.clone().serve_with_lifecycle(stream, lifecycle()).await.unwrap();
    let started = started(&client).await;
    let arguments = next(&started.facts, Some("Built."));
    let asks = |request: CallToolRequestParams| async {
        match client.call_tool_once(request).await.unwrap() {
            CallToolResponse::InputRequired(asks) => asks,
            other => panic!("nothing is asked: {other:?}"),
        }
    };
    let first = asks(params("continue_workflow", arguments.clone())).await;
    let questions: Vec<String> = first.input_requests.unwrap().into_keys().collect();
    assert_eq!(questions, ["confirmation", "when"]);
    let answers = || {
        let mut responses = rmcp::model::InputResponses::new();
        responses.insert("when".to_owned(), accept(&json!({"answer": "Today."})));
        responses.insert("confirmation".to_owned(), accept(&json!({"decision": "approve"})));
        Some(responses)
    };
    let before = log(directory.path());
    // Answers about other notes, and answers without a question, do not count.
    for (notes, state) in [
        ("Built something else.", first.request_state.clone()),
        ("Built.", None),
        ("Built.", Some("x".to_owned())),
    ] {
        let mut request = params("continue_workflow", next(&started.facts, Some(notes)));
        request.input_responses = answers();
        request.request_state = state;
        asks(request).await;
    }
    assert_eq!(log(directory.path()), before, "nothing was recorded");
    let mut request = params("continue_workflow", arguments);
    request.input_responses = answers();
    request.request_state = first.request_state;
    let CallToolResponse::Complete(done) = client.call_tool_once(request.clone()).await.unwrap() else {
        panic!("the call is made")
    };
    assert_eq!(done.structured_content.as_ref().unwrap()["pending"]["stepId"], "tell");
    let CallToolResponse::Complete(again) = client.call_tool_once(request).await.unwrap() else {
        panic!("a replay asks no person")
    };
    assert_eq!(again.structured_content, done.structured_content);
    assert_eq!(log(directory.path()).matches(r#""provenance":"elicited""#).count(), 2);
}
