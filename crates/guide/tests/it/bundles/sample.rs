//! A session to bundle, built by hand so that changes of the engine do not affect it.

use std::collections::BTreeMap;

use canon::digest::Digest;
use guide::bundle::BundledSession;
use guide::derive::{self, Cause};
use guide::record::*;
use guide::workflow::compiled::CompiledWorkflow;
use serde_json::{Value, json};

/// A session in progress: events and manifest grow one append at a time.
struct Writer {
    session: BundledSession,
    pending: Vec<(Scope, DedupeKey, EventData)>,
}

impl Writer {
    fn push(&mut self, scope: Scope, parts: &[&str], data: EventData) -> EventId {
        let session = self.session.session_id.as_str();
        let key = DedupeKey::of(data.kind(), &[&[session], parts].concat());
        let index = self.session.events.len() + self.pending.len();
        self.pending.push((scope, key, data));
        derive::event_id(&self.session.session_id, EventIndex(index as u64))
    }

    fn snapshot(&mut self, state: EngineState) -> SnapshotRef {
        let snapshot = ExecutionSnapshot::new(state);
        let key = snapshot.snapshot_ref();
        self.session.snapshots.insert(key, snapshot);
        key
    }

    fn append(&mut self) {
        let session_id = self.session.session_id.clone();
        let first = EventIndex(self.session.events.len() as u64);
        let mut bytes = Vec::new();
        let mut pins = Vec::new();
        for (offset, (scope, dedupe_key, data)) in self.pending.drain(..).enumerate() {
            let event_index = EventIndex(first.0 + offset as u64);
            let event_id = derive::event_id(&session_id, event_index);
            if let EventData::NodeCreated { snapshot_ref, .. } = &data {
                pins.push((event_index, *snapshot_ref, event_id.clone()));
            }
            let timestamp_ms = 1_700_000_000_000 + event_index.0;
            let event = Event {
                event_id,
                event_index,
                session_id: session_id.clone(),
                scope,
                dedupe_key,
                timestamp_ms,
                data,
            };
            bytes.extend(event.encode());
            bytes.push(b'\n');
            self.session.events.push(event);
        }
        let last = EventIndex(self.session.events.len() as u64 - 1);
        let manifest = &mut self.session.manifest;
        manifest.push(ManifestRecord::SegmentClosed(SegmentRecord {
            v: MANIFEST_VERSION,
            manifest_index: ManifestIndex(manifest.len() as u64),
            session_id: session_id.clone(),
            first_event_index: first,
            last_event_index: last,
            segment_rel_path: segment_rel_path(first, last),
            sha256: Digest::of_bytes(&bytes),
            bytes: bytes.len() as u64,
        }));
        for (event_index, snapshot_ref, created_by_event_id) in pins {
            manifest.push(ManifestRecord::SnapshotPinned(PinRecord {
                v: MANIFEST_VERSION,
                manifest_index: ManifestIndex(manifest.len() as u64),
                session_id: session_id.clone(),
                event_index,
                snapshot_ref,
                created_by_event_id,
            }));
        }
    }
}

fn workflow() -> CompiledWorkflow {
    serde_json::from_value(json!({
        "schemaVersion": 1,
        "workflowId": "project.release_notes",
        "name": "Release notes",
        "description": "Write the notes of a release.",
        "version": "1.0.0",
        "steps": [{
            "stepId": "draft",
            "title": "Draft",
            "prompt": "Draft the notes.",
            "provenance": {"source": "authored"},
        }],
        "sequence": [{"kind": "step", "stepId": "draft"}],
    }))
    .unwrap()
}

/// A state with a pending step.
pub(super) fn running(step: &str) -> EngineState {
    EngineState::Running(Running {
        pending: Pending::Some {
            step: PendingStep { step_id: StepName::parse(step).unwrap(), loop_path: Vec::new() },
        },
        ..Running::default()
    })
}

/// A session of one run: a start, a checkpoint, and `advances` advances, the last of which completes it.
pub(super) fn session(advances: usize) -> BundledSession {
    let session_id = derive::session_id(&[5; 16]);
    let workflow = workflow();
    let hash = workflow.hash();
    let mut writer = Writer {
        session: BundledSession {
            session_id: session_id.clone(),
            events: Vec::new(),
            manifest: Vec::new(),
            snapshots: BTreeMap::new(),
            pinned_workflows: BTreeMap::from([(hash, workflow)]),
            artifacts: BTreeMap::new(),
        },
        pending: Vec::new(),
    };
    let run = derive::run_id(&session_id, 0);
    let root = derive::root_node_id(&session_id, &run);
    start(&mut writer, &run, &root, hash);
    checkpoint(&mut writer, &run, &root, hash);
    let mut node = root;
    for step in 0..advances {
        node = advance(&mut writer, &run, &node, hash, (step, step + 1 == advances));
    }
    writer.session
}

fn start(writer: &mut Writer, run: &RunId, root: &NodeId, hash: WorkflowHash) {
    let (in_run, at_root) = (Scope::Run(run.clone()), Scope::Node(run.clone(), root.clone()));
    writer.push(Scope::Session, &[], EventData::SessionCreated { parent_session_id: None });
    let started = EventData::RunStarted {
        workflow_id: "project.release_notes".into(),
        workflow_hash: hash,
        workflow_source_kind: WorkflowSourceKind::Project,
        workflow_source_ref: "workflows/release_notes.json".into(),
    };
    writer.push(in_run.clone(), &[run.as_str()], started);
    let snapshot_ref = writer.snapshot(running("draft"));
    let created = EventData::NodeCreated {
        node_kind: NodeKind::Step,
        parent_node_id: None,
        workflow_hash: hash,
        snapshot_ref,
    };
    writer.push(at_root.clone(), &[run.as_str(), root.as_str()], created);
    let change_id = derive::preference_change_id(Cause::Start(run));
    let preferences = EventData::PreferencesChanged {
        change_id: change_id.clone(),
        source: PreferenceSource::System,
        delta: vec![PreferenceChange::Autonomy(Autonomy::Guided)],
        effective: Preferences::default(),
    };
    writer.push(at_root, &[&change_id], preferences);
    let context_id = derive::context_id(Cause::Start(run));
    let context = json!({"goal": "write the notes of 2.4", "ratio": 0.5, "wide": "€ü"});
    let set = EventData::ContextSet {
        context_id: context_id.clone(),
        context: context.as_object().unwrap().clone(),
        source: ContextSource::Initial,
        resent_keys: Vec::new(),
    };
    writer.push(in_run, &[context_id.as_str()], set);
    let branch = EventData::ObservationRecorded {
        key: ObservationKey::GitBranch,
        value: ObservationValue::ShortString("main".into()),
        confidence: Confidence::High,
    };
    writer.push(Scope::Session, &["git_branch", &Digest::of_bytes(b"main").to_hex()], branch);
    writer.append();
}

fn checkpoint(writer: &mut Writer, run: &RunId, node: &NodeId, hash: WorkflowHash) {
    let session = writer.session.session_id.clone();
    let attempt = derive::checkpoint_attempt_id(&session, node, 0);
    let bookmark = derive::checkpoint_node_id(&session, run, node, &attempt);
    let snapshot_ref = writer.snapshot(running("draft"));
    let created = EventData::NodeCreated {
        node_kind: NodeKind::Checkpoint,
        parent_node_id: Some(node.clone()),
        workflow_hash: hash,
        snapshot_ref,
    };
    let parts = [run.as_str(), bookmark.as_str(), attempt.as_str()];
    let event_id = writer.push(Scope::Node(run.clone(), bookmark.clone()), &parts, created);
    let edge = EventData::EdgeCreated {
        edge_kind: EdgeKind::Checkpoint,
        from_node_id: node.clone(),
        to_node_id: bookmark.clone(),
        cause: EdgeCause { kind: EdgeCauseKind::CheckpointCreated, event_id },
    };
    writer.push(Scope::Run(run.clone()), &parts, edge);
    writer.append();
}

fn advance(
    writer: &mut Writer,
    run: &RunId,
    from: &NodeId,
    hash: WorkflowHash,
    (step, last): (usize, bool),
) -> NodeId {
    let session = writer.session.session_id.clone();
    let attempt = derive::attempt_id(&session, from, 0);
    let to = derive::advance_node_id(&session, run, from, &attempt);
    let at_from = Scope::Node(run.clone(), from.clone());
    let recorded = EventData::AdvanceRecorded {
        attempt_id: attempt.clone(),
        intent: AdvanceIntent::AckPending,
        outcome: AdvanceOutcome::Advanced { to_node_id: to.clone() },
    };
    let event_id = writer.push(at_from.clone(), &[from.as_str(), attempt.as_str()], recorded);
    let gap_id = derive::gap_id(Cause::Attempt(&attempt), 0);
    let gap = EventData::GapRecorded {
        gap_id: gap_id.clone(),
        severity: GapSeverity::Info,
        reason: GapReason::Unexpected(GapDetail::EvaluationError),
        summary: "a rule was skipped".into(),
        pointer: None,
        resolution: GapResolution::Unresolved,
        evidence_refs: vec![EvidenceRef::Event { event_id: event_id.clone() }],
    };
    writer.push(at_from.clone(), &[gap_id.as_str()], gap);
    let snapshot_ref =
        writer.snapshot(if last { EngineState::Complete } else { running(&format!("step_{step}")) });
    let created = EventData::NodeCreated {
        node_kind: NodeKind::Step,
        parent_node_id: Some(from.clone()),
        workflow_hash: hash,
        snapshot_ref,
    };
    writer.push(Scope::Node(run.clone(), to.clone()), &[run.as_str(), to.as_str()], created);
    let edge = EventData::EdgeCreated {
        edge_kind: EdgeKind::AckedStep,
        from_node_id: from.clone(),
        to_node_id: to.clone(),
        cause: EdgeCause { kind: EdgeCauseKind::FirstAdvance, event_id },
    };
    writer.push(Scope::Run(run.clone()), &[run.as_str(), from.as_str(), to.as_str()], edge);
    let notes = OutputPayload::Notes {
        notes_markdown: format!("Did step {step}. \"Quoted\", and a line\nend."),
        sent_bytes: None,
    };
    let inline = artifact(writer, &json!({"kind": "wr.small", "items": [1, 2.5, "three"]}), false);
    let large = artifact(writer, &json!({"kind": "wr.large", "step": step, "text": "x".repeat(3000)}), true);
    let outputs = [
        (derive::recap_output_id(&attempt), OutputChannel::Recap, notes),
        (derive::artifact_output_id(&attempt, 0), OutputChannel::Artifact, inline),
        (derive::artifact_output_id(&attempt, 1), OutputChannel::Artifact, large),
    ];
    for (output_id, output_channel, payload) in outputs {
        let id = output_id.to_string();
        let output =
            EventData::NodeOutputAppended { output_id, supersedes_output_id: None, output_channel, payload };
        writer.push(at_from.clone(), &[&id], output);
    }
    writer.append();
    to
}

fn artifact(writer: &mut Writer, value: &Value, stored: bool) -> OutputPayload {
    let bytes = canon::canonical::to_vec(value).unwrap();
    let sha256 = Digest::of_bytes(&bytes);
    if stored {
        writer.session.artifacts.insert(sha256, value.clone());
    }
    OutputPayload::ArtifactRef(ArtifactRef {
        sha256,
        content_type: "application/json".into(),
        byte_length: bytes.len() as u64,
        content: (!stored).then(|| value.clone()),
    })
}
