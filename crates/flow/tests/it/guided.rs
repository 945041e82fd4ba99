//! Guided nodes: the recorded events and the requested effects.

use std::sync::Arc;

use flow::definition::{Capabilities, Definition};
use flow::engine::replay::{Source, replay};
use flow::engine::{
    Deliverable, DrainPolicy, GuideFailure, GuideResult, Input, ManifestSource, Refusal, UpstreamArtifact,
};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::id::{NodeId, Principal, RunId, WorkflowId};
use flow::interrupt::Via;
use flow::run::{Fork, ForkMode, RunStatus};
use flow::state::{RunError, RunState};
use serde_json::{Value, json};

use crate::driver::{World, shape, workflow};

/// A run at its guided node, with a requested session that does not exist yet.
fn requested() -> World {
    with(json!({"workflow": "project.review"}))
}

fn with(config: Value) -> World {
    let document = workflow(
        "w",
        &[("guide", "interlock.guided", config), ("end", "core.noop", json!({}))],
        &[("guide", "end")],
    );
    let mut world = World::new(&[document]);
    world.create("w");
    world
}

/// Like [`requested`], with an existing session.
fn waiting() -> World {
    let mut world = requested();
    start(&mut world);
    world
}

fn session(world: &World) -> String {
    world.guides.last().unwrap().session_id.clone()
}

fn start(world: &mut World) {
    let session_id = session(world);
    world.give("r", Input::GuideStarted { node_id: NodeId::new("guide"), session_id }).unwrap();
}

fn result() -> GuideResult {
    let outputs = json!({"status": "complete", "summary": "Done."}).as_object().unwrap().clone();
    let notes = Deliverable {
        path: "notes.md".into(),
        bytes: 2,
        sha256: "sha256:00".into(),
        data: json!({"path": "notes.md", "text": "Hi"}),
    };
    GuideResult { outputs, deliverables: vec![notes] }
}

fn end(world: &mut World, outcome: Result<GuideResult, GuideFailure>) {
    let session_id = session(world);
    world.give("r", Input::GuideEnded { node_id: NodeId::new("guide"), session_id, outcome }).unwrap();
}

fn failure(is_retryable: bool) -> GuideFailure {
    let error = RunError::of(FailureCode::WorkspaceFailed, "no").with(json!({"code": "RESOLVE_UPSTREAM"}));
    GuideFailure { error, is_retryable }
}

#[test]
fn a_session_starts_and_ends_and_its_result_becomes_the_outputs() {
    let mut world = requested();
    assert_eq!(world.status(), RunStatus::Running);
    start(&mut world);
    assert_eq!(world.status(), RunStatus::WaitingExternal);
    let requested = world.find(EventKind::InterruptRequested)[0];
    assert_eq!(requested.payload()["kind"], "external-event");
    assert_eq!(
        requested.payload()["data"],
        json!({"eventType": "interlock.session.ended", "correlation": {"sessionId": session(&world)}}),
        "the session's id, and nothing else"
    );
    end(&mut world, Ok(result()));
    assert_eq!(
        world.shape("r"),
        [
            "run.started",
            "node.started guide",
            "node.suspended guide",
            "interrupt.requested guide",
            "interrupt.resolved guide",
            "node.resumed guide",
            "artifact.created guide",
            "node.completed guide",
            "node.started end",
            "node.completed end",
            "run.completed",
        ]
    );
    let outputs = &world.find(EventKind::NodeCompleted)[0].payload()["outputs"];
    assert_eq!(outputs["summary"], "Done.");
    assert_eq!(outputs["deliverables"][0]["path"], "notes.md");
    assert_eq!(
        outputs["deliverables"][0]["artifactId"],
        world.find(EventKind::ArtifactCreated)[0].payload()["artifactId"]
    );
}

#[test]
fn repeated_late_and_foreign_reports_of_sessions_change_nothing() {
    type Play = fn(&mut World);
    let cases: [(&str, Play, Play); 7] = [
        ("started twice", |world| start(world), |world| start(world)),
        (
            "another session starts",
            |_| {},
            |world| {
                let input =
                    Input::GuideStarted { node_id: NodeId::new("guide"), session_id: "sess_other".into() };
                world.give("r", input).unwrap();
            },
        ),
        (
            "another session ends",
            |world| start(world),
            |world| {
                let (node_id, session_id) = ("guide".to_owned(), "sess_other".to_owned());
                world
                    .give(
                        "r",
                        Input::GuideEnded {
                            node_id: NodeId::new(node_id),
                            session_id,
                            outcome: Ok(result()),
                        },
                    )
                    .unwrap();
            },
        ),
        ("ended before it began", |_| {}, |world| end(world, Ok(result()))),
        (
            "ended twice",
            |world| {
                start(world);
                end(world, Ok(result()));
            },
            |world| end(world, Ok(result())),
        ),
        (
            "ended after the run was cancelled",
            |world| {
                start(world);
                world
                    .give("r", Input::Cancel { reason: None, by: Principal::new("x"), parent_run_id: None })
                    .unwrap();
            },
            |world| end(world, Ok(result())),
        ),
        (
            "a session of a node that is not guided",
            |_| {},
            |world| {
                let input = Input::GuideStarted { node_id: NodeId::new("end"), session_id: session(world) };
                world.give("r", input).unwrap();
            },
        ),
    ];
    for (name, before, late) in cases {
        let mut world = requested();
        before(&mut world);
        let (events, state) = (world.run().events.len(), world.run().state.clone());
        late(&mut world);
        assert_eq!(world.run().events.len(), events, "{name}");
        assert_eq!(world.run().state, state, "{name}");
    }
}

#[test]
fn the_interrupt_of_a_guided_node_cannot_be_answered() {
    let mut world = waiting();
    let refused = world.resolve("guide", json!({"sessionId": session(&world)})).unwrap_err();
    assert_eq!(refused, Refusal::Guided { session_id: session(&world) });
    let by_token = world.resolve_as("r", "guide", json!({}), "token", Via::Token).unwrap_err();
    assert_eq!(by_token, Refusal::Guided { session_id: session(&world) });
}

#[test]
fn the_host_stops_waiting_for_a_session_when_its_node_does() {
    type Play = fn(&mut World);
    let cases: [(&str, Value, Play, RunStatus, bool); 5] = [
        (
            "the run is cancelled",
            json!({}),
            |world| {
                let cancel = Input::Cancel { reason: None, by: Principal::new("x"), parent_run_id: None };
                world.give("r", cancel).unwrap();
            },
            RunStatus::Cancelled,
            true,
        ),
        (
            "the node's time is over",
            json!({"timeoutMs": 50}),
            |world| world.pass(50),
            RunStatus::Failed,
            true,
        ),
        ("the session completes", json!({}), |world| end(world, Ok(result())), RunStatus::Completed, false),
        ("the session is lost", json!({}), |world| end(world, Err(failure(false))), RunStatus::Failed, false),
        (
            "nothing happens",
            json!({"timeoutMs": 50}),
            |world| world.pass(49),
            RunStatus::WaitingExternal,
            false,
        ),
    ];
    for (name, more, play, status, is_ended) in cases {
        let mut config = json!({"workflow": "project.review"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut world = with(config);
        start(&mut world);
        let session_id = session(&world);
        play(&mut world);
        assert_eq!(world.status(), status, "{name}");
        let expected: Vec<String> = if is_ended { vec![session_id] } else { Vec::new() };
        assert_eq!(world.ended_guides, expected, "{name}");
    }
}

#[test]
fn a_run_that_times_out_ends_its_session() {
    let mut document = workflow("w", &[("guide", "interlock.guided", json!({"workflow": "x"}))], &[]);
    document["settings"] = json!({"timeout": 500});
    let mut world = World::new(&[document]);
    world.create("w");
    start(&mut world);
    world.pass(500);
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(world.snapshot("r")["error"]["code"], "run_timeout");
    assert_eq!(world.ended_guides, [session(&world)]);
}

#[test]
fn a_run_that_is_cancelled_while_the_workspace_is_prepared_ends_the_session() {
    let mut world = requested();
    world.give("r", Input::Cancel { reason: None, by: Principal::new("x"), parent_run_id: None }).unwrap();
    assert_eq!(world.ended_guides, [session(&world)]);
    let events = world.run().events.len();
    start(&mut world);
    assert_eq!(world.run().events.len(), events);
}

#[test]
fn a_retry_starts_another_session() {
    let mut document = workflow("w", &[("guide", "interlock.guided", json!({"workflow": "x"}))], &[]);
    document["settings"] = json!({"maxRetries": 1});
    let mut world = World::new(&[document]);
    world.create("w");
    let first = session(&world);
    end(&mut world, Err(failure(true)));
    assert_eq!(world.status(), RunStatus::Running);
    world.pass(1000);
    assert_ne!(session(&world), first);
    assert_eq!((world.guides[1].iteration, world.guides[1].attempt), (0, 1));
    start(&mut world);
    end(&mut world, Err(failure(true)));
    assert_eq!(world.status(), RunStatus::Failed, "twice is as often as it is tried");
    assert_eq!(world.snapshot("r")["error"]["code"], "workspace_failed");
    assert_eq!(world.snapshot("r")["error"]["details"]["code"], "RESOLVE_UPSTREAM");
}

#[test]
fn another_iteration_starts_another_session() {
    let document = workflow(
        "w",
        &[("guide", "interlock.guided", json!({"workflow": "x"})), ("again", "core.noop", json!({}))],
        &[("guide", "again"), ("again", "guide")],
    );
    let mut world = World::new(&[document]);
    world.create("w");
    let first = session(&world);
    start(&mut world);
    end(&mut world, Ok(result()));
    assert_ne!(session(&world), first);
    assert_eq!(world.guides.last().unwrap().iteration, 1);
    let artifacts = |world: &World| world.run().state.artifacts.len();
    assert_eq!(artifacts(&world), 1);
    start(&mut world);
    end(&mut world, Ok(result()));
    assert_eq!(artifacts(&world), 2, "each round hands over its own");
}

#[test]
fn a_restart_requests_the_same_session_again() {
    let mut world = requested();
    world.give("r", Input::Recover).unwrap();
    assert_eq!(world.guides.len(), 2);
    assert_eq!(world.guides[0], world.guides[1], "not there yet: asked for as it was");
    start(&mut world);
    let events = world.run().events.len();
    world.give("r", Input::Recover).unwrap();
    assert_eq!(world.run().events.len(), events, "who waits was not interrupted by a stop");
    let again = world.guides.last().unwrap();
    assert!(again.is_started);
    assert_eq!(again.session_id, world.guides[0].session_id);
    end(&mut world, Ok(result()));
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_pause_ignores_the_start_and_end_of_a_session_and_resume_requests_it_again() {
    for policy in [DrainPolicy::Immediate, DrainPolicy::DrainCurrentNode] {
        let mut world = requested();
        world.give("r", Input::Pause { reason: None, policy }).unwrap();
        start(&mut world);
        // Preparing a workspace counts as execution, waiting for a session does not.
        let begun = usize::from(policy == DrainPolicy::DrainCurrentNode);
        assert_eq!(world.find(EventKind::NodeSuspended).len(), begun);
        assert_eq!(world.status(), RunStatus::Paused);
        world.give("r", Input::Resume { reason: None }).unwrap();
        assert_eq!(world.guides.len(), 2);
        start(&mut world);
        world.give("r", Input::Pause { reason: None, policy }).unwrap();
        end(&mut world, Ok(result()));
        assert_eq!(world.status(), RunStatus::Paused);
        world.give("r", Input::Resume { reason: None }).unwrap();
        assert_eq!(world.guides.len(), 3);
        end(&mut world, Ok(result()));
        assert_eq!(world.status(), RunStatus::Completed);
        assert_eq!(world.find(EventKind::NodeCompleted).len(), 2);
    }
}

#[test]
fn the_guide_effect_contains_the_configuration_and_the_inputs() {
    let config = json!({
        "workflow": "project.review", "goal": "Review", "library": "lib", "manifest": "agent.yaml",
        "agent": "claude", "preferences": {"autonomy": "full_auto_never_stop", "riskPolicy": "balanced"},
        "inputs": {"version": "1.0.0", "tone": "dry"},
    });
    let mut document = workflow(
        "w",
        &[
            ("notes", "conformance.artifact.emit", json!({"artifactType": "text", "data": "x"})),
            ("beside", "conformance.artifact.emit", json!({"data": "y"})),
            ("guide", "interlock.guided", config),
        ],
        &[("notes", "guide")],
    );
    document["nodes"][2]["inputs"] = json!({
        "tone": {"type": "static", "value": "warm"}, "goal": {"type": "static", "value": "Review 1.0.0"},
    });
    let mut world = World::new(&[document]);
    world.create("w");
    let guide = &world.guides[0];
    assert_eq!((guide.workflow.as_str(), guide.goal.as_str()), ("project.review", "Review 1.0.0"));
    assert_eq!(guide.autonomy.as_deref(), Some("full_auto_never_stop"));
    assert_eq!(guide.risk_policy.as_deref(), Some("balanced"));
    let equipment = guide.equipment.as_ref().unwrap();
    assert_eq!(equipment.manifest, ManifestSource::File("agent.yaml".into()));
    assert_eq!(equipment.library, "lib");
    assert_eq!(guide.agent.as_deref(), Some("claude"));
    assert_eq!(guide.inputs["version"], "1.0.0");
    assert_eq!(guide.inputs["tone"], "warm", "what the node is given wins over what is written down");
    let upstream: Vec<&UpstreamArtifact> = guide.artifacts.iter().collect();
    assert_eq!(upstream.len(), 1, "those of nodes that lead here");
    assert_eq!(upstream[0].node_id, "notes");
}

#[test]
fn invalid_configurations_are_refused() {
    let cases = [
        ("no workflow", json!({}), "workflow"),
        ("an unknown member", json!({"workflow": "x", "manifst": "a"}), "manifst"),
        ("an unknown autonomy", json!({"workflow": "x", "preferences": {"autonomy": "wild"}}), "wild"),
        ("a manifest without a library", json!({"workflow": "x", "manifest": "a.yaml"}), "library"),
        ("a library without a manifest", json!({"workflow": "x", "library": "a"}), "manifest"),
        ("an agent without a workspace", json!({"workflow": "x", "agent": "claude"}), "manifest"),
        ("a manifest that is a number", json!({"workflow": "x", "manifest": 1, "library": "a"}), "1"),
    ];
    for (name, config, word) in cases {
        let document = workflow("w", &[("guide", "interlock.guided", config)], &[]);
        let problems = Definition::check(&document, &Capabilities::OURS).unwrap_err();
        assert!(problems.iter().any(|problem| format!("{problem:?}").contains(word)), "{name}: {problems:?}");
    }
}

fn fork(world: &World, from: usize, mode: ForkMode) -> flow::run::Genesis {
    let mut genesis = (*world.run().genesis).clone();
    genesis.run_id = RunId::new(format!("fork-{from}"));
    let from_sequence = u64::try_from(from).unwrap();
    genesis.fork = Some(Fork { source_run_id: RunId::new("r"), from_sequence, mode });
    genesis
}

#[test]
fn a_replay_repeats_the_record_and_requests_no_session() {
    let mut ended = waiting();
    end(&mut ended, Ok(result()));
    let mut failed = waiting();
    end(&mut failed, Err(failure(false)));
    let mut never = requested();
    end(&mut never, Err(failure(false)));
    let mut late = with(json!({"workflow": "x", "timeoutMs": 10}));
    start(&mut late);
    late.pass(10);
    for (name, world) in [("ended", ended), ("failed", failed), ("never began", never), ("late", late)] {
        let (definition, events) = (world.run().definition.clone(), &world.run().events);
        for from in 0..events.len() {
            let genesis = Arc::new(fork(&world, from, ForkMode::Replay));
            let source = Source { run_id: &RunId::new("r"), events };
            let copied = source.copied(&genesis.run_id, from as u64);
            let (state, decision) = replay(
                &definition,
                genesis,
                source,
                from as u64,
                world.now,
                &world.limits,
                &|_: &WorkflowId| false,
            );
            let all: Vec<_> = copied.into_iter().chain(decision.events).collect();
            assert_eq!(shape(&all), shape(events), "{name} from {from}");
            assert_eq!(state.status, world.status(), "{name} from {from}");
            assert_eq!(decision.effects, [], "{name} from {from}");
        }
    }
}

#[test]
fn a_replay_of_a_waiting_run_fails_where_its_source_still_waits() {
    let world = waiting();
    let genesis = Arc::new(fork(&world, 0, ForkMode::Replay));
    let source = Source { run_id: &RunId::new("r"), events: &world.run().events };
    let (state, _) =
        replay(&world.run().definition, genesis, source, 0, world.now, &world.limits, &|_: &WorkflowId| {
            false
        });
    assert_eq!(state.status, RunStatus::Failed);
    assert_eq!(state.error.unwrap().code, "replay_source_missing");
}

#[test]
fn a_branch_shares_an_existing_session_and_otherwise_starts_its_own() {
    let mut world = waiting();
    end(&mut world, Ok(result()));
    let recorded = session(&world);
    let events = world.run().events.clone();
    for from in 0..events.len() {
        let genesis = fork(&world, from, ForkMode::Branch);
        let run_id = genesis.run_id.clone();
        let copied = Source { run_id: &RunId::new("r"), events: &events }.copied(&run_id, from as u64);
        world.put(genesis);
        let definition = world.run().definition.clone();
        let state = RunState::fold(&definition, world.runs[&run_id].genesis.clone(), &copied).unwrap();
        let branch = world.runs.get_mut(&run_id).unwrap();
        branch.state = state;
        branch.events = copied;
        let asked_before = world.guides.len();
        world.give(run_id.as_str(), Input::Fork).unwrap();
        let guides: Vec<_> = world.guides[asked_before..].to_vec();
        let place = |kind: EventKind| events.iter().position(|event| event.kind() == kind).unwrap();
        if from > place(EventKind::NodeCompleted) {
            assert_eq!(guides, [], "{from}: it is over");
            continue;
        }
        let guide = &guides[0];
        let shares = from > place(EventKind::InterruptRequested);
        assert_eq!(guide.is_started, shares, "{from}");
        assert_eq!(guide.session_id == recorded, shares, "{from}");
        let (node_id, session_id) = ("guide".to_owned(), guide.session_id.clone());
        if !shares {
            let started = Input::GuideStarted {
                node_id: NodeId::new(node_id.as_str()),
                session_id: session_id.clone(),
            };
            world.give(run_id.as_str(), started).unwrap();
        }
        world
            .give(
                run_id.as_str(),
                Input::GuideEnded { node_id: NodeId::new(node_id), session_id, outcome: Ok(result()) },
            )
            .unwrap();
        assert_eq!(world.runs[&run_id].state.status, RunStatus::Completed, "{from}");
    }
}
