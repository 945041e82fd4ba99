//! A session that grows, made of the events that the engine would record.

use canon::canonical;
use canon::digest::Digest;
use guide::derive;
use guide::engine::NewSnapshot;
use guide::plan::{AppendPlan, Planned};
use guide::record::{
    AdvanceIntent, AdvanceOutcome, ArtifactRef, CompletedSteps, DedupeKey, EdgeCause, EdgeCauseKind,
    EdgeKind, EngineState, Event, EventData, EventIndex, ExecutionSnapshot, NodeId, NodeKind, OutputChannel,
    OutputId, OutputPayload, Pending, PendingStep, RunId, Running, Scope, SessionId, SnapshotRef,
    StepInstanceKey, StepName, StepSet, WorkflowSourceKind,
};
use guide::snapshot_digest::NamedSnapshot;
use guide::state::SessionState;
use serde_json::json;

use crate::sessions::{Append, Creation, NewObject, NewObjects, Projection};

/// A session under way. Each method gives the next append, and assumes that it is made.
#[derive(Debug)]
pub struct SampleSession {
    pub session: SessionId,
    /// All events so far.
    pub events: Vec<Event>,
    /// The time of the next event.
    pub now_ms: u64,
    state: SessionState,
    run: RunId,
    node: NodeId,
    done: StepSet,
    last: Option<SnapshotRef>,
    workflow: Vec<u8>,
}

impl SampleSession {
    pub fn new(name: &str) -> Self {
        let session = SessionId::derived(&[name]);
        let run = derive::run_id(&session, 0);
        let node = derive::root_node_id(&session, &run);
        let workflow = json!({"schemaVersion": 1, "workflowId": "wr.test", "name": format!("Test {name}")});
        Self {
            state: SessionState::new(session.clone()),
            session,
            run,
            node,
            done: StepSet::default(),
            last: None,
            workflow: canonical::to_vec(&workflow).expect("a small document"),
            events: Vec::new(),
            now_ms: 1_000,
        }
    }

    /// The state after all events so far.
    pub const fn state(&self) -> &SessionState {
        &self.state
    }

    /// The node that the run is at.
    pub const fn node(&self) -> &NodeId {
        &self.node
    }

    /// The snapshot of the last append.
    pub const fn last_snapshot(&self) -> Option<SnapshotRef> {
        self.last
    }

    pub fn workflow_hash(&self) -> Digest {
        Digest::of_bytes(&self.workflow)
    }

    /// The creation of the session.
    pub fn start(&mut self) -> Creation {
        let snapshot = NamedSnapshot::new(self.snapshot());
        let session = self.session.as_str().to_owned();
        let events = vec![
            self.event(
                0,
                Scope::Session,
                DedupeKey::of("session_created", &[&session]),
                EventData::SessionCreated { parent_session_id: None },
            ),
            self.event(
                1,
                Scope::Run(self.run.clone()),
                DedupeKey::of("run_started", &[&session, self.run.as_str()]),
                EventData::RunStarted {
                    workflow_id: "wr.test".to_owned(),
                    workflow_hash: self.workflow_hash(),
                    workflow_source_kind: WorkflowSourceKind::Bundled,
                    workflow_source_ref: "wr.test".to_owned(),
                },
            ),
            self.node_created(2, &self.node, None, snapshot.reference()),
        ];
        let workflow = NewObject { digest: self.workflow_hash(), bytes: self.workflow.as_slice().into() };
        let append = self.append(events, snapshot);
        Creation {
            plans: vec![append.plan],
            objects: NewObjects { workflows: vec![workflow], ..append.objects },
            projection: append.projection,
            salvaged: None,
            imported_ms: None,
        }
    }

    /// The next step, with notes.
    pub fn advance(&mut self, notes: &str) -> Append {
        self.advance_with(notes, None)
    }

    /// The next step, with an artifact that is not part of its event.
    pub fn advance_with_artifact(&mut self, content: &[u8]) -> Append {
        self.advance_with("with an artifact", Some(content))
    }

    fn advance_with(&mut self, notes: &str, artifact: Option<&[u8]>) -> Append {
        let attempt = derive::attempt_id(&self.session, &self.node, 0);
        let next = derive::advance_node_id(&self.session, &self.run, &self.node, &attempt);
        self.done.insert(StepInstanceKey::new(&format!("step-{}", self.done.len()), &[]));
        let snapshot = NamedSnapshot::new(self.snapshot());
        let session = self.session.as_str();
        let output = derive::recap_output_id(&attempt);
        let here = Scope::Node(self.run.clone(), self.node.clone());
        let mut events = vec![
            self.event(
                0,
                here.clone(),
                DedupeKey::of("advance_recorded", &[session, self.node.as_str(), attempt.as_str()]),
                EventData::AdvanceRecorded {
                    attempt_id: attempt,
                    intent: AdvanceIntent::AckPending,
                    outcome: AdvanceOutcome::Advanced { to_node_id: next.clone() },
                },
            ),
            self.node_created(1, &next, Some(&self.node), snapshot.reference()),
            self.edge_created(2, &next),
            self.event(
                3,
                here.clone(),
                DedupeKey::of("node_output_appended", &[session, output.as_str()]),
                EventData::NodeOutputAppended {
                    output_id: output,
                    supersedes_output_id: None,
                    output_channel: OutputChannel::Recap,
                    payload: OutputPayload::Notes { notes_markdown: notes.to_owned(), sent_bytes: None },
                },
            ),
        ];
        if let Some(content) = artifact {
            let output = OutputId::derived(&[self.node.as_str(), "artifact"]);
            events.push(self.event(
                4,
                here,
                DedupeKey::of("node_output_appended", &[session, output.as_str()]),
                EventData::NodeOutputAppended {
                    output_id: output,
                    supersedes_output_id: None,
                    output_channel: OutputChannel::Artifact,
                    payload: OutputPayload::ArtifactRef(ArtifactRef {
                        sha256: Digest::of_bytes(content),
                        content_type: "application/json".to_owned(),
                        byte_length: content.len() as u64,
                        content: None,
                    }),
                },
            ));
        }
        let mut append = self.append(events, snapshot);
        let stored =
            artifact.map(|content| NewObject { digest: Digest::of_bytes(content), bytes: content.into() });
        append.objects.artifacts.extend(stored);
        self.node = next;
        append
    }

    fn append(&mut self, events: Vec<Event>, snapshot: NamedSnapshot) -> Append {
        let parent = self.last.replace(snapshot.reference());
        let plan = match AppendPlan::new(&mut self.state, events) {
            Ok(Planned::Append(plan)) => plan,
            other => panic!("the events are new and follow: {other:?}"),
        };
        self.events.extend_from_slice(plan.events());
        Append {
            plan,
            objects: NewObjects {
                snapshots: vec![NewSnapshot { named: snapshot, parent }],
                ..NewObjects::default()
            },
            projection: Projection::of(&self.state, None, |_| None),
        }
    }

    fn event(&self, offset: u64, scope: Scope, dedupe_key: DedupeKey, data: EventData) -> Event {
        let index = EventIndex(self.state.next_index().0 + offset);
        Event {
            event_id: derive::event_id(&self.session, index),
            event_index: index,
            session_id: self.session.clone(),
            scope,
            dedupe_key,
            timestamp_ms: self.now_ms,
            data,
        }
    }

    fn node_created(&self, offset: u64, node: &NodeId, parent: Option<&NodeId>, at: SnapshotRef) -> Event {
        self.event(
            offset,
            Scope::Node(self.run.clone(), node.clone()),
            DedupeKey::of("node_created", &[self.session.as_str(), self.run.as_str(), node.as_str()]),
            EventData::NodeCreated {
                node_kind: NodeKind::Step,
                parent_node_id: parent.cloned(),
                workflow_hash: self.workflow_hash(),
                snapshot_ref: at,
            },
        )
    }

    fn edge_created(&self, offset: u64, to: &NodeId) -> Event {
        let (kind, arrow) = (EdgeKind::AckedStep, format!("{}->{to}", self.node));
        self.event(
            offset,
            Scope::Run(self.run.clone()),
            DedupeKey::of("edge_created", &[self.session.as_str(), self.run.as_str(), &arrow, kind.as_str()]),
            EventData::EdgeCreated {
                edge_kind: kind,
                from_node_id: self.node.clone(),
                to_node_id: to.clone(),
                cause: EdgeCause {
                    kind: EdgeCauseKind::FirstAdvance,
                    event_id: derive::event_id(&self.session, self.state.next_index()),
                },
            },
        )
    }

    /// The state after the steps that are done.
    fn snapshot(&self) -> ExecutionSnapshot {
        let step_id = StepName::parse(&format!("step-{}", self.done.len())).expect("a valid name");
        ExecutionSnapshot::new(EngineState::Running(Running {
            completed: CompletedSteps { values: self.done.clone() },
            loop_stack: Vec::new(),
            pending: Pending::Some { step: PendingStep { step_id, loop_path: Vec::new() } },
        }))
    }
}
