//! Guided nodes on real files: a run prepares a workspace, guides an agent, and continues with its results.

mod crash;
mod fuse;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use flow::event::EventKind;
use flow::id::{ArtifactId, NodeId, RunId};
use guide::record::SessionId;
use guided::api::{ContinueRequest, Handle, Intent, Reply};
use guided::{Guided, Tenants, TenantsOptions, Verifier};
use guided_node::{Gate, GuidedNodes, Options, SessionKeys};
use ports::runs::RunStore;
use runs::{ApiCode, Caller, Direct, Runs, Scope};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::FileTenants;
use system::{Clock, ManualClock, SystemClock, SystemEntropy};
use tempfile::TempDir;

use crate::runs::requests::new_fork;
use crate::runs::{
    SECRET, Setup, anonymous_token, begin, caller, create, events, keep_time, kinds, open, snapshot, status,
    to_the_end, until,
};
use crate::wait::{Wait as _, wait};

const MANIFEST: &str = "
apiVersion: interlock.dev/workspace/v1
kind: WorkspaceManifest
extends: interlock://manifest/primary-agent-base@1.0.0
metadata: {slug: reviewer, version: 1.0.0, surfaceCompat: [workflow]}
spec:
  inputs:
    version: {type: string, default: 1.0.0}
  mounts: {inputs: true, deliverables: true}
  agent: {slug: reviewer, stage: review, role: engineer}
  seedFiles:
    - {path: 'notes-${input.version}.md', slot: deliverables, content: \"To do.\\n\"}
";

/// A folder with everything that a host needs: guided workflows, a manifest, a library.
pub(crate) fn furnish(folder: &Path) {
    let place = folder.join("place");
    std::fs::create_dir_all(place.join("library/agents/review")).unwrap();
    std::fs::write(place.join("library/agents/review/reviewer.md"), "# Reviewer\n\nReviews.\n").unwrap();
    std::fs::write(place.join("agent.yaml"), MANIFEST).unwrap();
    std::fs::write(place.join("broken.yaml"), MANIFEST.replace("role: engineer", "role: emperor")).unwrap();
    let step = |id: &str| json!({"id": id, "title": id, "prompt": format!("Do {id} for {{{{goal}}}}.")});
    let needs = json!({
        "id": "ask", "title": "ask", "prompt": "Ask.",
        "validationCriteria": [{"type": "contains", "value": "APPROVED", "message": "Write APPROVED."}],
    });
    for (id, steps) in
        [("project.review", json!([step("read"), step("write")])), ("project.strict", json!([needs]))]
    {
        let workflow = json!({
            "id": id, "name": id, "description": "For tests.", "version": "1.0.0", "steps": steps,
        });
        std::fs::write(place.join(format!("{id}.json")), workflow.to_string()).unwrap();
    }
}

/// The guided sessions of the folder, as another process sees them.
pub(crate) fn tenants(folder: &Path, clock: Arc<dyn Clock>) -> Arc<Tenants> {
    let disk = Arc::new(RealDisk::open(&folder.join("data")).unwrap());
    let options =
        CatalogueOptions { configured_dirs: vec![folder.join("place")], ..CatalogueOptions::default() };
    let options = TenantsOptions {
        stores: Arc::new(FileTenants::new(disk)),
        catalogue: Catalogue::new(options),
        clock,
        entropy: Arc::new(SystemEntropy),
        verifier: Verifier::none(),
    };
    Arc::new(wait(Tenants::open(options)).unwrap())
}

fn guided_nodes(folder: &Path, clock: Arc<dyn Clock>, gate: Option<Gate>) -> GuidedNodes {
    GuidedNodes::new(Options {
        tenants: tenants(folder, Arc::clone(&clock)),
        keys: SessionKeys::new(vec![SECRET]),
        places: vec![folder.join("place")],
        workspaces: folder.join("data/workspaces"),
        clock,
        gate,
        agents: None,
    })
}

fn guided_workflow(id: &str, nodes: &[(&str, Value)], edges: &[(&str, &str)]) -> Value {
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(id, config)| {
            let kind = config.get("typeId").and_then(Value::as_str).unwrap_or("interlock.guided");
            let mut config = config.clone();
            config.as_object_mut().unwrap().remove("typeId");
            json!({
                "id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {},
            })
        })
        .collect();
    let edges: Vec<Value> = edges
        .iter()
        .map(|(from, to)| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to}))
        .collect();
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges,
        "triggers": [{"id": "manual", "type": "manual", "enabled": true}], "variables": [], "metadata": {},
        "settings": {"timeout": 0},
    })
}

fn equipped() -> Value {
    json!({
        "workflow": "project.review", "goal": "Review it", "manifest": "agent.yaml", "library": "library",
        "inputs": {"version": "2.0.0"},
    })
}

pub(crate) fn workflows() -> Vec<Value> {
    let plain = json!({"workflow": "project.review"});
    let emit = json!({"typeId": "core.identity"});
    let with = |more: Value| {
        let mut config = plain.clone();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    vec![
        guided_workflow("equipped", &[("guide", equipped())], &[]),
        guided_workflow("plain", &[("guide", plain.clone()), ("end", emit)], &[("guide", "end")]),
        guided_workflow("strict", &[("guide", json!({"workflow": "project.strict"}))], &[]),
        guided_workflow(
            "never-stops",
            &[(
                "guide",
                json!({"workflow": "project.strict", "preferences": {"autonomy": "full_auto_never_stop"}}),
            )],
            &[],
        ),
        guided_workflow("brief", &[("guide", with(json!({"timeoutMs": 60_000})))], &[]),
        guided_workflow("unknown", &[("guide", json!({"workflow": "project.unknown"}))], &[]),
        guided_workflow(
            "broken",
            &[("guide", with(json!({"manifest": "broken.yaml", "library": "library"})))],
            &[],
        ),
        guided_workflow(
            "outside",
            &[("guide", with(json!({"manifest": "../secret.yaml", "library": "library"})))],
            &[],
        ),
        guided_workflow("twins", &[("one", plain.clone()), ("two", plain)], &[]),
        guided_workflow(
            "rounds",
            &[("guide", equipped()), ("again", json!({"typeId": "core.noop"}))],
            &[("guide", "again"), ("again", "guide")],
        ),
        guided_workflow("relay", &[("first", equipped()), ("second", equipped())], &[("first", "second")]),
    ]
}

/// A host with guided nodes, a running clock and a running watch.
pub(crate) struct House {
    pub(crate) runs: Runs,
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<ManualClock>,
}

impl House {
    pub(crate) async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        furnish(folder.path());
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let guided_nodes = Some(guided_nodes(folder.path(), Arc::clone(&clock) as _, None));
        let setup = Setup { clock: Arc::clone(&clock) as _, guided_nodes, ..Setup::default() };
        let (runs, store) = open(folder.path(), setup);
        for workflow in workflows() {
            runs.definitions().register(&caller("acme"), &workflow).await.unwrap();
        }
        keep(&runs);
        Self { runs, store, folder, clock }
    }

    /// The sessions, as the process of an agent sees them.
    pub(crate) fn agent(&self) -> Arc<Guided> {
        wait(tenants(self.folder.path(), Arc::new(SystemClock)).guided("acme")).unwrap()
    }

    /// Waits until a node waits for its session, and returns the session.
    pub(crate) async fn session(&self, run_id: &RunId, node_id: &str) -> SessionId {
        let found = until(&self.runs, run_id, |event| {
            event.kind == EventKind::InterruptRequested
                && event.node_id.as_ref().map(NodeId::as_str) == Some(node_id)
        });
        session_of(&found.await.expect("the node waits"))
    }

    fn workspace(&self, run_id: &RunId, node_id: &str) -> PathBuf {
        self.folder.path().join("data/workspaces").join(run_id.as_str()).join(node_id)
    }
}

pub(crate) fn session_of(event: &flow::event::wire::RawEvent) -> SessionId {
    let id = event.payload["data"]["correlation"]["sessionId"].as_str().unwrap();
    SessionId::parse(id).unwrap()
}

pub(crate) fn keep(runs: &Runs) {
    keep_time(runs);
    let runs = runs.clone();
    tokio::spawn(async move { runs.engine().keep_sessions().await });
}

/// One step of an agent.
fn step(guided: &Guided, token: &str, notes: &str) -> Result<Reply, guided::Refusal> {
    wait(guided.proceed(ContinueRequest {
        handle: Handle::Single(token.to_owned()),
        intent: Intent::Advance,
        notes_markdown: Some(notes.to_owned()),
        artifacts: vec![json!({"kind": "finding", "text": notes})],
        context: None,
        preferences: None,
    }))
}

/// A refused step, as soon as the session is no longer locked by the process that marks it.
fn refused(guided: &Guided, token: &str) -> guided::Refusal {
    loop {
        let refused = step(guided, token, "Too late.").unwrap_err();
        if refused.envelope().code() != "TOKEN_SESSION_LOCKED" {
            return refused;
        }
        std::thread::yield_now();
    }
}

/// An agent that performs all remaining steps of a session.
pub(crate) fn work(guided: &Guided, session: &SessionId) {
    let mut reply = wait(guided.rejoin(session)).unwrap();
    let mut steps = 0;
    while let Some(token) = reply.continue_token.clone() {
        steps += 1;
        assert!(steps < 20, "a session of two steps");
        reply = step(guided, &token, &format!("Did step {}.", reply.run.step)).unwrap();
    }
    assert!(reply.is_complete);
}

fn completed<'e>(events: &'e [Value], node_id: &str) -> &'e Value {
    let found: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "node.completed" && event["nodeId"] == node_id)
        .collect();
    assert_eq!(found.len(), 1, "{node_id} completes once: {:?}", kinds(events));
    &found[0]["payload"]["outputs"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_equipped_and_guided_and_its_work_is_the_runs() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "equipped").await;
    let session = house.session(&run_id, "guide").await;
    assert_eq!(status(&house.runs, &run_id), "waiting-external");

    let root = house.workspace(&run_id, "guide");
    assert!(std::fs::read_to_string(root.join("AGENTS.md")).unwrap().contains("Review it"));
    let inputs: Value =
        serde_json::from_slice(&std::fs::read(root.join("inputs/inputs.json")).unwrap()).unwrap();
    assert_eq!(inputs, json!({"version": "2.0.0"}));
    std::fs::write(root.join("deliverables/notes-2.0.0.md"), "Reviewed.\n").unwrap();
    std::fs::create_dir(root.join("deliverables/more")).unwrap();
    std::fs::write(root.join("deliverables/more/picture.bin"), [0xff, 0x00]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("deliverables/link")).unwrap();

    // Another process, which shares only the folder with the host.
    work(&house.agent(), &session);
    let events = to_the_end(&house.runs, &run_id).await;
    let outputs = completed(&events, "guide");
    assert_eq!(outputs["status"], "complete");
    assert_eq!(outputs["sessionId"], session.as_str());
    assert_eq!(outputs["recap"]["notes"], json!(["Did step 1.", "Did step 2."]));
    assert_eq!(outputs["summary"], "Did step 2.");
    assert_eq!(outputs["artifacts"][0]["content"]["text"], "Did step 1.");
    assert_eq!(outputs["gaps"], json!([]));
    let delivered = outputs["deliverables"].as_array().unwrap();
    let paths: Vec<_> = delivered.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["more/picture.bin", "notes-2.0.0.md"]);
    assert_eq!(outputs["omittedDeliverables"][0]["path"], "link");
    let artifact = |place: usize| -> Value {
        let id = delivered[place]["artifactId"].as_str().unwrap();
        serde_json::from_slice(
            &house.runs.artifacts().read(&caller("acme"), &run_id, &ArtifactId::new(id)).wait().unwrap(),
        )
        .unwrap()
    };
    assert_eq!(artifact(1)["data"]["text"], "Reviewed.\n");
    assert_eq!(artifact(0)["data"]["base64"], "/wA=");
    assert_eq!(status(&house.runs, &run_id), "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_knows_its_run_and_what_the_node_was_given() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "equipped").await;
    let session = house.session(&run_id, "guide").await;
    let standing = wait(house.agent().standing(&session)).unwrap();
    let link = standing.link.unwrap();
    assert_eq!((link.run_id, link.node_id), (run_id.clone(), NodeId::new("guide")));
    assert!(link.is_equipped);
    assert!(wait(house.agent().rejoin(&session)).unwrap().run.goal.contains("Review it"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_reader_who_may_respond_learns_how_an_agent_connects() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "equipped").await;
    let session = house.session(&run_id, "guide").await;
    let reader = Caller { scopes: vec![Scope::RunsRead], ..caller("acme") };
    let shown = snapshot(&house.runs, &reader, &run_id);
    assert!(shown["interrupt"].get("connect").is_none() && shown["interrupt"].get("session").is_none());
    assert_eq!(shown["interrupt"]["data"]["correlation"]["sessionId"], session.as_str());

    let shown = snapshot(&house.runs, &caller("acme"), &run_id);
    let connect = &shown["interrupt"]["connect"];
    assert_eq!(connect["endpoint"], "http://127.0.0.1:7717/mcp");
    assert_eq!(
        connect["workspaceRoot"],
        house.workspace(&run_id, "guide").display().to_string(),
        "{connect}"
    );
    let key = connect["key"].as_str().unwrap();
    let now = canon::time::Timestamp(house.clock.now_ms());
    let grant = house.runs.keys().session_keys().verify(key, now).unwrap();
    assert_eq!((grant.tenant.as_str(), grant.session_id.as_str()), ("acme", session.as_str()));
    assert_eq!(shown["interrupt"]["session"]["status"], "in_progress");

    // The tokens open the session, and are not stored.
    let token = connect["continueToken"].as_str().unwrap();
    let secrets =
        [key, token, connect["stateToken"].as_str().unwrap(), connect["ackToken"].as_str().unwrap()];
    let row = house.store.run(None, &run_id).await.unwrap().unwrap();
    let reported =
        format!("{}{}", String::from_utf8_lossy(&row.snapshot), json!(events(&house.runs, "acme", &run_id)));
    let bundle = house.runs.queries().debug_bundle(&caller("acme"), &run_id, None).await.unwrap().to_string();
    let (_, tag) = house.runs.queries().read_tagged(&caller("acme"), &run_id).await.unwrap();
    let by_token = shown["interrupt"]["interruptToken"].as_str().unwrap();
    let inspected = format!("{:?}", house.runs.commands().inspect_token(by_token).await.unwrap());
    for secret in secrets {
        for (place, text) in [("log", &reported), ("bundle", &bundle), ("tag", &tag), ("token", &inspected)] {
            assert!(!text.contains(secret), "{place}");
        }
    }
    step(&house.agent(), token, "One.").unwrap();
    let (_, later) = house.runs.queries().read_tagged(&caller("acme"), &run_id).await.unwrap();
    assert_ne!(tag, later, "the ETag changes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ways_to_answer_are_refused_with_the_session() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "plain").await;
    let session = house.session(&run_id, "guide").await;
    let interrupt = snapshot(&house.runs, &caller("acme"), &run_id)["interrupt"].clone();
    let answer = json!({"sessionId": session.as_str()});
    let by_key = house
        .runs
        .commands()
        .resolve(&caller("acme"), &run_id, &NodeId::new("guide"), answer.clone(), Direct)
        .await;
    // A token to answer with would be refused, so none is issued. Earlier versions issued one.
    let issued = interrupt["interruptToken"].as_str().unwrap();
    let refused = house.runs.commands().resolve_token(issued, answer.clone(), Direct).await.unwrap_err();
    assert_eq!(refused.code, ApiCode::Forbidden);
    let earlier = anonymous_token(&run_id, &interrupt);
    let by_token = house.runs.commands().resolve_token(&earlier, answer, Direct).await;
    for refused in [by_key.unwrap_err(), by_token.unwrap_err()] {
        assert_eq!(refused.code, ApiCode::Conflict);
        assert_eq!(refused.details["sessionId"], session.as_str());
    }
    assert_eq!(status(&house.runs, &run_id), "waiting-external");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_session_keeps_its_run_waiting_and_says_so() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "strict").await;
    let session = house.session(&run_id, "guide").await;
    let agent = house.agent();
    let token = wait(agent.rejoin(&session)).unwrap().continue_token.unwrap();
    let blocked = step(&agent, &token, "Not yet.").unwrap();
    let shown = snapshot(&house.runs, &caller("acme"), &run_id);
    assert_eq!(shown["status"], "waiting-external");
    assert_eq!(shown["interrupt"]["session"]["status"], "blocked");
    let retry = blocked.blocked.unwrap().retry_continue_token.unwrap();
    assert_eq!(shown["interrupt"]["connect"]["continueToken"], retry.as_str());
    step(&agent, &retry, "APPROVED").unwrap();
    let events = to_the_end(&house.runs, &run_id).await;
    assert_eq!(completed(&events, "guide")["status"], "complete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_never_stops_leaves_its_gaps_in_the_run() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "never-stops").await;
    let session = house.session(&run_id, "guide").await;
    work(&house.agent(), &session);
    let events = to_the_end(&house.runs, &run_id).await;
    let outputs = completed(&events, "guide");
    assert_eq!(outputs["status"], "complete_with_gaps");
    assert!(outputs["gapCount"].as_u64().unwrap() > 0, "{outputs}");
    assert_eq!(outputs["gaps"][0]["severity"], "critical");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_run_was_cancelled_or_failed_must_stop() {
    for (workflow_id, ends, run_status) in
        [("plain", "run.cancelled", "cancelled"), ("brief", "run.failed", "failed")]
    {
        let house = House::open().await;
        let run_id = begin(&house.runs, workflow_id).await;
        let session = house.session(&run_id, "guide").await;
        let agent = house.agent();
        let token = wait(agent.rejoin(&session)).unwrap().continue_token.unwrap();
        let second = step(&agent, &token, "One.").unwrap().continue_token.unwrap();
        if workflow_id == "plain" {
            house.runs.commands().cancel(&caller("acme"), &run_id, None, Direct).await.unwrap();
        } else {
            house.clock.advance(60_000);
            // Setting a timer makes the clock check again.
            begin(&house.runs, "brief").await;
        }
        let events = to_the_end(&house.runs, &run_id).await;
        assert_eq!(kinds(&events).last(), Some(&ends));
        // The mark follows the commit.
        let refused = loop {
            match wait(agent.store().ended(session.clone())).unwrap() {
                None => tokio::task::yield_now().await,
                Some(_) => break refused(&agent, &second),
            }
        };
        assert_eq!(refused.envelope().code(), "SESSION_ENDED");
        assert_eq!(refused.envelope().details()["runId"], run_id.as_str());
        assert_eq!(refused.envelope().details()["runStatus"], run_status);
        let again = step(&agent, &token, "One.").unwrap().continue_token.unwrap();
        assert_eq!(again, second, "what was recorded is still answered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_begin_fails_its_node_with_a_closed_code() {
    let house = House::open().await;
    let cases = [
        ("unknown", "guided_start_failed", "NOT_FOUND"),
        ("broken", "workspace_failed", "VALIDATION_ERROR"),
        ("outside", "workspace_failed", "RESOLVE_DENIED"),
    ];
    for (workflow_id, code, inner) in cases {
        let run_id = begin(&house.runs, workflow_id).await;
        to_the_end(&house.runs, &run_id).await;
        let shown = snapshot(&house.runs, &caller("acme"), &run_id);
        assert_eq!(shown["status"], "failed", "{workflow_id}");
        assert_eq!(shown["error"]["code"], code, "{workflow_id}: {}", shown["error"]);
        assert_eq!(shown["error"]["details"]["code"], inner, "{workflow_id}: {}", shown["error"]);
    }
    assert_eq!(wait(house.agent().store().sessions()).unwrap(), [], "no session was started");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_guided_sessions_fails_guided_nodes() {
    let host = crate::runs::Host::start().await;
    host.runs.definitions().register(&caller("acme"), &workflows()[1]).await.unwrap();
    let run_id = begin(&host.runs, "plain").await;
    to_the_end(&host.runs, &run_id).await;
    let shown = snapshot(&host.runs, &caller("acme"), &run_id);
    assert_eq!(shown["error"]["code"], "capability_not_provided");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_of_a_run_have_sessions_of_their_own() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "twins").await;
    let (one, two) = (house.session(&run_id, "one").await, house.session(&run_id, "two").await);
    assert_ne!(one, two);
    for node in ["one", "two"] {
        let shown = house.runs.connections().of(&caller("acme"), &run_id, &NodeId::new(node)).await.unwrap();
        assert!(shown["connect"]["key"].is_string(), "{node}");
    }
    let reader = Caller { scopes: vec![Scope::RunsRead], ..caller("acme") };
    assert_eq!(
        house.runs.connections().of(&reader, &run_id, &NodeId::new("one")).await.unwrap_err().code,
        ApiCode::Forbidden
    );
    work(&house.agent(), &two);
    until(&house.runs, &run_id, |event| event.kind == EventKind::NodeCompleted).await.unwrap();
    assert_eq!(status(&house.runs, &run_id), "waiting-external");
    work(&house.agent(), &one);
    let events = to_the_end(&house.runs, &run_id).await;
    completed(&events, "one");
    completed(&events, "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_agent_hands_over_the_next_one_finds_in_its_inputs() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "relay").await;
    let first = house.session(&run_id, "first").await;
    let root = house.workspace(&run_id, "first");
    std::fs::write(root.join("deliverables/notes-2.0.0.md"), "From the first.\n").unwrap();
    work(&house.agent(), &first);
    let second = house.session(&run_id, "second").await;
    let inputs = house.workspace(&run_id, "second").join("inputs/first/notes-2.0.0.md");
    assert_eq!(std::fs::read_to_string(inputs).unwrap(), "From the first.\n");
    work(&house.agent(), &second);
    let events = to_the_end(&house.runs, &run_id).await;
    completed(&events, "first");
    completed(&events, "second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_guides_again_in_the_same_workspace() {
    let house = House::open().await;
    let mut document = workflows().into_iter().find(|document| document["id"] == "rounds").unwrap();
    document["settings"]["maxLoopbackIterations"] = 1.into();
    house.runs.definitions().register(&caller("acme"), &document).await.unwrap();
    let run_id = begin(&house.runs, "rounds").await;
    let first = house.session(&run_id, "guide").await;
    let notes = house.workspace(&run_id, "guide").join("deliverables/notes-2.0.0.md");
    std::fs::write(&notes, "First round.\n").unwrap();
    work(&house.agent(), &first);
    let asked = until(&house.runs, &run_id, |event| {
        event.kind == EventKind::InterruptRequested && session_of(event) != first
    });
    let second = session_of(&asked.await.unwrap());
    assert_eq!(
        std::fs::read_to_string(&notes).unwrap(),
        "First round.\n",
        "the agent works on what is there"
    );
    std::fs::write(&notes, "Second round.\n").unwrap();
    work(&house.agent(), &second);
    let events = to_the_end(&house.runs, &run_id).await;
    let made: Vec<&Value> = events.iter().filter(|event| event["type"] == "artifact.created").collect();
    let texts = made.iter().map(|event| -> Value {
        let id = event["payload"]["artifactId"].as_str().unwrap();
        let artifact =
            house.runs.artifacts().read(&caller("acme"), &run_id, &ArtifactId::new(id)).wait().unwrap();
        serde_json::from_slice::<Value>(&artifact).unwrap()["data"]["text"].clone()
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["First round.\n", "Second round.\n"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_gone_fails_its_node() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "plain").await;
    let session = house.session(&run_id, "guide").await;
    let folder = house.folder.path().join("data/tenants/acme/sessions").join(session.as_str());
    std::fs::remove_dir_all(folder).unwrap();
    to_the_end(&house.runs, &run_id).await;
    let shown = snapshot(&house.runs, &caller("acme"), &run_id);
    assert_eq!(shown["error"]["code"], "guided_session_lost");
    assert_eq!(shown["error"]["details"]["sessionId"], session.as_str());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_the_documentation_can_be_run() {
    let house = House::open().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/runs/guided.json");
    let document: Value = serde_json::from_slice(&std::fs::read(example).unwrap()).unwrap();
    house.runs.definitions().register(&caller("acme"), &document).await.unwrap();
    let run_id = begin(&house.runs, "guided").await;
    let session = house.session(&run_id, "review").await;
    let reply = wait(house.agent().rejoin(&session)).unwrap();
    assert_eq!(reply.run.goal, "Review the change on the current branch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_run_gets_the_end_of_its_session_when_it_is_resumed() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "plain").await;
    let session = house.session(&run_id, "guide").await;
    let by = caller("acme");
    house
        .runs
        .commands()
        .pause(&by, &run_id, None, flow::engine::DrainPolicy::Immediate, Direct)
        .await
        .unwrap();
    work(&house.agent(), &session);
    assert_eq!(status(&house.runs, &run_id), "paused");
    house.runs.commands().resume(&by, &run_id, None, Direct).await.unwrap();
    let events = to_the_end(&house.runs, &run_id).await;
    completed(&events, "guide");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_waits_for_the_session_of_its_source_and_leaves_it_alone_when_it_ends() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "plain").await;
    let session = house.session(&run_id, "guide").await;
    let by = caller("acme");
    let from = events(&house.runs, "acme", &run_id).len();
    let mut branches = Vec::new();
    for _ in 0..2 {
        let request = json!({"mode": "branch", "fromSeq": from});
        branches
            .push(house.runs.commands().fork(&by, &run_id, new_fork(&request), Direct).await.unwrap().run_id);
    }
    house.runs.commands().cancel(&by, &branches[0], None, Direct).await.unwrap();
    work(&house.agent(), &session);
    for waiting in [&run_id, &branches[1]] {
        let events = to_the_end(&house.runs, waiting).await;
        assert_eq!(completed(&events, "guide")["sessionId"], session.as_str());
    }
    assert_eq!(status(&house.runs, &branches[0]), "cancelled");
    assert_eq!(wait(house.agent().store().ended(session.clone())).unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_repeats_the_run_without_a_session() {
    let house = House::open().await;
    let run_id = begin(&house.runs, "plain").await;
    let session = house.session(&run_id, "guide").await;
    work(&house.agent(), &session);
    let events = to_the_end(&house.runs, &run_id).await;
    let request = json!({"mode": "replay", "fromSeq": 0});
    let fork =
        house.runs.commands().fork(&caller("acme"), &run_id, new_fork(&request), Direct).await.unwrap();
    let repeated = to_the_end(&house.runs, &fork.run_id).await;
    assert_eq!(kinds(&repeated), kinds(&events));
    assert_eq!(wait(house.agent().store().sessions()).unwrap(), [session]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_more_than_a_session_takes_is_refused_with_its_bound() {
    let house = House::open().await;
    let mut document = guided_workflow("large", &[("guide", json!({"workflow": "project.review"}))], &[]);
    document["nodes"][0]["inputs"] = json!({"text": {"type": "static", "value": "x".repeat(300_000)}});
    house.runs.definitions().register(&caller("acme"), &document).await.unwrap();
    let run_id = create(&house.runs, &caller("acme"), &json!({"workflowId": "large"})).await;
    to_the_end(&house.runs, &run_id).await;
    let error = &snapshot(&house.runs, &caller("acme"), &run_id)["error"];
    assert_eq!(error["code"], "guided_start_failed");
    assert!(error["message"].as_str().unwrap().contains("262144"), "{error}");
}
