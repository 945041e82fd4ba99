//! A session that grows, with the events that the engine would record.

use std::sync::Arc;

use canon::canonical;
use canon::digest::Digest;
use guide::derive;
use guide::plan::{AppendPlan, Planned};
use guide::record::{
    AdvanceIntent, AdvanceOutcome, AttemptId, CompletedSteps, DedupeKey, EdgeCause, EdgeCauseKind, EdgeKind,
    EngineState, Event, EventData, ExecutionSnapshot, NodeId, NodeKind, OutputChannel, OutputPayload,
    Pending, PendingStep, RunId, Running, Scope, SessionId, SnapshotRef, StepInstanceKey, StepName, StepSet,
    WorkflowSourceKind,
};
use guide::snapshot_digest::{NamedSnapshot, snapshot_ref};
use guide::state::SessionState;
use serde_json::json;
use storage::StoreError;
use storage::disk::{Disk, FaultyDisk};
use storage::files::{Appended, Attachments, Cursor, NewObject, NewSnapshot, SessionFiles};

/// One prepared append.
pub(crate) struct Step {
    pub(crate) plan: AppendPlan,
    snapshot: NamedSnapshot,
    parent: Option<SnapshotRef>,
    workflow: Option<Vec<u8>>,
    artifact: Option<Vec<u8>>,
}

impl Step {
    pub(crate) fn attachments(&self) -> Attachments<'_> {
        let object = |bytes: &'_ Vec<u8>| Digest::of_bytes(bytes);
        Attachments {
            snapshots: vec![NewSnapshot { named: &self.snapshot, parent: self.parent }],
            workflows: self.workflow.iter().map(|bytes| NewObject { digest: object(bytes), bytes }).collect(),
            artifacts: self.artifact.iter().map(|bytes| NewObject { digest: object(bytes), bytes }).collect(),
        }
    }

    pub(crate) fn create(&self, files: &SessionFiles) -> Result<Appended, StoreError> {
        files.create(std::slice::from_ref(&self.plan), &self.attachments())
    }

    pub(crate) fn append(
        &self,
        files: &SessionFiles,
        known: Option<&Cursor>,
    ) -> Result<Appended, StoreError> {
        files.lock(self.plan.session_id(), known)?.append(&self.plan, &self.attachments())
    }
}

/// A session and its progress.
pub(crate) struct SampleSession {
    pub(crate) session: SessionId,
    log: SessionState,
    run: RunId,
    node: NodeId,
    done: StepSet,
    last: Option<SnapshotRef>,
    workflow: Vec<u8>,
    pub(crate) events: Vec<Event>,
    pub(crate) now_ms: u64,
}

impl SampleSession {
    pub(crate) fn new(name: &str) -> Self {
        let session = SessionId::derived(&[name]);
        let run = derive::run_id(&session, 0);
        let node = derive::root_node_id(&session, &run);
        let workflow = canonical::to_vec(&json!({"schemaVersion": 1, "workflowId": "wr.test"})).unwrap();
        Self {
            log: SessionState::new(session.clone()),
            session,
            run,
            node,
            done: StepSet::default(),
            last: None,
            workflow,
            events: Vec::new(),
            now_ms: 1_000,
        }
    }

    fn event(&self, offset: usize, scope: Scope, dedupe_key: DedupeKey, data: EventData) -> Event {
        let index = guide::record::EventIndex(self.log.next_index().0 + offset as u64);
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

    fn node_created(
        &self,
        offset: usize,
        node: &NodeId,
        parent: Option<&NodeId>,
        kind: NodeKind,
        at: SnapshotRef,
    ) -> Event {
        self.event(
            offset,
            Scope::Node(self.run.clone(), node.clone()),
            DedupeKey::of("node_created", &[self.session.as_str(), self.run.as_str(), node.as_str()]),
            EventData::NodeCreated {
                node_kind: kind,
                parent_node_id: parent.cloned(),
                workflow_hash: Digest::of_bytes(&self.workflow),
                snapshot_ref: at,
            },
        )
    }

    fn edge_created(&self, offset: usize, to: &NodeId, kind: EdgeKind, cause: EdgeCauseKind) -> Event {
        let (from, arrow) = (&self.node, format!("{}->{}", self.node, to));
        self.event(
            offset,
            Scope::Run(self.run.clone()),
            DedupeKey::of("edge_created", &[self.session.as_str(), self.run.as_str(), &arrow, kind.as_str()]),
            EventData::EdgeCreated {
                edge_kind: kind,
                from_node_id: from.clone(),
                to_node_id: to.clone(),
                cause: EdgeCause {
                    kind: cause,
                    event_id: derive::event_id(&self.session, self.log.next_index()),
                },
            },
        )
    }

    /// The state after the completed steps.
    pub(crate) fn snapshot(&self) -> ExecutionSnapshot {
        let step_id = StepName::parse(&format!("step-{}", self.done.len())).unwrap();
        ExecutionSnapshot::new(EngineState::Running(Running {
            completed: CompletedSteps { values: self.done.clone() },
            loop_stack: Vec::new(),
            pending: Pending::Some { step: PendingStep { step_id, loop_path: Vec::new() } },
        }))
    }

    fn planned(&mut self, events: Vec<Event>) -> AppendPlan {
        let Planned::Append(plan) = AppendPlan::new(&mut self.log, events).unwrap() else {
            panic!("new events")
        };
        self.events.extend_from_slice(plan.events());
        plan
    }

    fn step(&mut self, events: Vec<Event>, snapshot: ExecutionSnapshot) -> Step {
        let first = self.events.is_empty();
        let snapshot = NamedSnapshot::new(snapshot);
        let parent = self.last.replace(snapshot.reference());
        let plan = self.planned(events);
        let workflow = first.then(|| self.workflow.clone());
        Step { plan, snapshot, parent, workflow, artifact: None }
    }

    pub(crate) fn start(&mut self) -> Step {
        let snapshot = self.snapshot();
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
                    workflow_hash: Digest::of_bytes(&self.workflow),
                    workflow_source_kind: WorkflowSourceKind::Bundled,
                    workflow_source_ref: "wr.test".to_owned(),
                },
            ),
            self.node_created(2, &self.node, None, NodeKind::Step, snapshot_ref(&snapshot)),
        ];
        self.step(events, snapshot)
    }

    fn attempt(&self) -> AttemptId {
        derive::attempt_id(&self.session, &self.node, 0)
    }

    pub(crate) fn advance(&mut self, notes: &str) -> Step {
        let attempt = self.attempt();
        let next = derive::advance_node_id(&self.session, &self.run, &self.node, &attempt);
        self.done.insert(StepInstanceKey::new(&format!("step-{}", self.done.len()), &[]));
        let snapshot = self.snapshot();
        let session = self.session.as_str();
        let output = derive::recap_output_id(&attempt);
        let here = Scope::Node(self.run.clone(), self.node.clone());
        let events = vec![
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
            self.node_created(1, &next, Some(&self.node), NodeKind::Step, snapshot_ref(&snapshot)),
            self.edge_created(2, &next, EdgeKind::AckedStep, EdgeCauseKind::FirstAdvance),
            self.event(
                3,
                here,
                DedupeKey::of("node_output_appended", &[session, output.as_str()]),
                EventData::NodeOutputAppended {
                    output_id: output,
                    supersedes_output_id: None,
                    output_channel: OutputChannel::Recap,
                    payload: OutputPayload::Notes { notes_markdown: notes.to_owned(), sent_bytes: None },
                },
            ),
        ];
        let step = self.step(events, snapshot);
        self.node = next;
        step
    }

    pub(crate) fn checkpoint(&mut self) -> Step {
        let recorded = self.events.len() as u64;
        let attempt = derive::checkpoint_attempt_id(&self.session, &self.node, recorded);
        let node = derive::checkpoint_node_id(&self.session, &self.run, &self.node, &attempt);
        let snapshot = self.snapshot();
        let events = vec![
            self.node_created(0, &node, Some(&self.node), NodeKind::Checkpoint, snapshot_ref(&snapshot)),
            self.edge_created(1, &node, EdgeKind::Checkpoint, EdgeCauseKind::CheckpointCreated),
        ];
        self.step(events, snapshot)
    }

    /// An advance that also stores a large artifact.
    pub(crate) fn advance_with_artifact(&mut self, content: &[u8]) -> Step {
        let node = self.node.clone();
        let mut step = self.advance("with an artifact");
        let output = guide::record::OutputId::derived(&[node.as_str(), "artifact"]);
        let event = self.event(
            0,
            Scope::Node(self.run.clone(), node),
            DedupeKey::of("node_output_appended", &[self.session.as_str(), output.as_str()]),
            EventData::NodeOutputAppended {
                output_id: output,
                supersedes_output_id: None,
                output_channel: OutputChannel::Artifact,
                payload: OutputPayload::ArtifactRef(guide::record::ArtifactRef {
                    sha256: Digest::of_bytes(content),
                    content_type: "application/json".to_owned(),
                    byte_length: content.len() as u64,
                    content: None,
                }),
            },
        );
        // Planned together: the events of the advance are planned again with one more event.
        let mut events = step.plan.events().to_vec();
        self.events.truncate(self.events.len() - events.len());
        self.log = SessionState::fold(self.session.clone(), &self.events).unwrap();
        events.push(event);
        step.plan = self.planned(events);
        step.artifact = Some(content.to_vec());
        step
    }
}

pub(crate) fn open(disk: &FaultyDisk) -> SessionFiles {
    SessionFiles::open(Arc::new(disk.clone()) as Arc<dyn Disk>).unwrap()
}

/// A session with a start and `advances` advances, on a healthy disk.
pub(crate) fn session(disk: &FaultyDisk, name: &str, advances: usize) -> SampleSession {
    let files = open(disk);
    let mut walk = SampleSession::new(name);
    let mut cursor = walk.start().create(&files).unwrap().cursor;
    for number in 0..advances {
        cursor = walk.advance(&format!("notes {number}")).append(&files, Some(&cursor)).unwrap().cursor;
    }
    walk
}

/// The events of a session as a new process reads them; `None` if the session does not exist.
pub(crate) fn events(disk: &FaultyDisk, session: &SessionId) -> Option<Vec<Event>> {
    match open(disk).load(session) {
        Ok(loaded) => Some(loaded.events),
        Err(StoreError::Unknown { .. }) => None,
        Err(error) => panic!("the session must be readable: {error}"),
    }
}
