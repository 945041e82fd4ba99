//! Guided sessions: how they start, and what follows from their end.
//!
//! ```text
//! node.started ─ Effect::Guide ─► the host prepares the workspace and starts the session
//!      GuideStarted ─► node.suspended, interrupt.requested with the id of the session
//!      GuideEnded   ─► interrupt.resolved, artifact.created for each deliverable, node.completed
//! ```
//!
//! The id of a session is derived from the attempt of its node, so the effect can be requested again after every restart. The interrupt
//! cannot be answered: only the end of the session, a deadline or a cancellation closes it.

use serde_json::{Map, Value, json};

use super::ask::{HOST, Question, SuspendReason};
use super::children::replay_source_missing;
use super::drain::{Failure, Step};
use super::turn::Turn;
use super::{Effect, ids};
use crate::definition::config::{GuidedConfig, Manifest};
use crate::definition::{NodeConfig, NodeIndex, NodeType};
use crate::event::data::node::NodeResumed;
use crate::event::data::value::ArtifactCreated;
use crate::id::{ArtifactId, NodeId};
use crate::interrupt::{Decided, InterruptKind};
use crate::state::{AnswerState, NodeStatus, Resolution, ResolutionOutcome, RunError};

/// The event type of the interrupt.
pub const EVENT_TYPE: &str = "interlock.session.ended";
/// The artifact type of delivered files.
pub const DELIVERABLE: &str = "deliverable";
/// The maximum time to wait for a session: one year, like all other waiting times.
const MAX_WAIT_MS: u64 = 31_536_000_000;

/// A session to start, or to wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Guide {
    /// The node that requests it.
    pub node_id: NodeId,
    pub iteration: u32,
    pub attempt: u32,
    pub session_id: String,
    /// Whether the node already waits for it. It is then not started again. In a fork, it belongs to the source run.
    pub is_started: bool,
    pub workflow: String,
    pub goal: String,
    /// How independently the agent works, if configured.
    pub autonomy: Option<String>,
    /// The risk policy, if configured.
    pub risk_policy: Option<String>,
    /// The workspace, if configured.
    pub equipment: Option<Equipment>,
    /// The agent that the host starts, if configured.
    pub agent: Option<String>,
    /// The inputs of the node.
    pub inputs: Map<String, Value>,
    /// The artifacts of preceding nodes.
    pub artifacts: Vec<UpstreamArtifact>,
}

/// The sources of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Equipment {
    /// The manifest of the workspace.
    pub manifest: ManifestSource,
    /// The directory with the files of the manifest, below the host's library directory.
    pub library: String,
}

/// The location of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum ManifestSource {
    /// A file below the host's manifest directory.
    File(String),
    /// Inside the workflow.
    Inline(Value),
}

/// An artifact of a preceding node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamArtifact {
    pub artifact_id: ArtifactId,
    pub node_id: NodeId,
}

/// The result of a completed session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuideResult {
    /// The outputs of the node.
    pub outputs: Map<String, Value>,
    /// The delivered files, sorted by path.
    pub deliverables: Vec<Deliverable>,
}

/// A file that an agent delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Deliverable {
    /// Its path in its slot.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The digest of its contents.
    pub sha256: String,
    /// The contents of its artifact.
    pub data: Value,
}

/// Why a session has no result that the node can use.
#[derive(Clone, Debug, PartialEq)]
pub struct GuideFailure {
    pub error: RunError,
    /// Whether a retry may help.
    pub is_retryable: bool,
}

impl GuideFailure {
    /// A failure that a retry would repeat.
    pub const fn lasting(error: RunError) -> Self {
        Self { error, is_retryable: false }
    }
}

impl GuideResult {
    /// The result as recorded in the outputs of a node, without the contents of the artifacts.
    pub(super) fn recorded(mut outputs: Map<String, Value>) -> Self {
        let recorded = outputs.remove("deliverables");
        let deliverable = |recorded: &Value| {
            let text = |name: &str| recorded.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let bytes = recorded.get("bytes").and_then(Value::as_u64).unwrap_or_default();
            Deliverable { path: text("path"), bytes, sha256: text("sha256"), data: Value::Null }
        };
        let recorded = recorded.as_ref().and_then(Value::as_array).into_iter().flatten();
        let deliverables = recorded.map(deliverable).collect();
        Self { outputs, deliverables }
    }
}

/// The session id in the data of an interrupt.
pub fn session_of(data: &Value) -> Option<&str> {
    data.get("correlation")?.get("sessionId")?.as_str()
}

impl Turn<'_> {
    /// Starts a guided node.
    pub(super) fn guide(
        &mut self,
        node: NodeIndex,
        config: &GuidedConfig,
        inputs: Map<String, Value>,
    ) -> Step {
        if self.is_past_recording() {
            return Step::failed(replay_source_missing());
        }
        let session_id = self.own_session(node);
        self.request_guide(node, config, inputs, session_id, false);
        Step::Waits
    }

    /// The id of the session of the current attempt.
    fn own_session(&self, node: NodeIndex) -> String {
        let state = &self.state.nodes[node];
        ids::session_id(&self.state.genesis, &self.node(node).id, state.iteration, state.attempt)
    }

    /// The session that a node waits for.
    fn awaited_session(&self, node: NodeIndex) -> Option<String> {
        let open = self.state.interrupts.get(&self.node(node).id).map(|open| &open.data);
        let given = match &self.state.nodes[node].answer {
            AnswerState::Given(resolution) => Some(&resolution.interrupt.data),
            AnswerState::None | AnswerState::Taken | AnswerState::Gone => None,
        };
        open.or(given).and_then(session_of).map(str::to_owned)
    }

    fn request_guide(
        &mut self,
        node: NodeIndex,
        config: &GuidedConfig,
        inputs: Map<String, Value>,
        session_id: String,
        is_started: bool,
    ) {
        let (subject, state) = (self.node(node), &self.state.nodes[node]);
        let mut given = config.inputs.clone();
        given.extend(inputs);
        let goal = given.get("goal").and_then(Value::as_str).map(str::to_owned);
        let manifest = config.manifest.as_ref().map(|manifest| match manifest {
            Manifest::File(path) => ManifestSource::File(path.clone()),
            Manifest::Inline(inline) => ManifestSource::Inline(Value::Object(inline.clone())),
        });
        let preferences = config.preferences;
        let guide = Guide {
            node_id: subject.id.clone(),
            iteration: state.iteration,
            attempt: state.attempt,
            session_id,
            is_started,
            workflow: config.workflow.clone(),
            goal: goal.or_else(|| config.goal.clone()).unwrap_or_else(|| subject.name.clone()),
            autonomy: preferences.autonomy.map(|autonomy| autonomy.as_str().to_owned()),
            risk_policy: preferences.risk_policy.map(|policy| policy.as_str().to_owned()),
            equipment: manifest
                .map(|manifest| Equipment { manifest, library: config.library.clone().unwrap_or_default() }),
            agent: config.agent.clone(),
            inputs: given,
            artifacts: self.upstream_artifacts(node),
        };
        self.ask_host(Effect::Guide(Box::new(guide)));
    }

    /// The artifacts of all nodes that lead to this one, sorted by id.
    fn upstream_artifacts(&self, node: NodeIndex) -> Vec<UpstreamArtifact> {
        let graph = &self.definition.graph;
        let mut is_upstream = vec![false; self.definition.nodes.len()];
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            for edge in &graph.incoming[at] {
                let source = self.definition.edges[*edge].source;
                if !std::mem::replace(&mut is_upstream[source], true) {
                    open.push(source);
                }
            }
        }
        let artifacts = self.state.artifacts.values().filter_map(|artifact| {
            let index = self.state.node_index(&artifact.node_id)?;
            is_upstream[index].then(|| UpstreamArtifact {
                artifact_id: artifact.artifact_id.clone(),
                node_id: artifact.node_id.clone(),
            })
        });
        artifacts.collect()
    }

    /// The session exists.
    pub(super) fn guide_started(&mut self, node_id: &NodeId, session_id: &str) {
        let Some(node) = self.state.node_index(node_id) else { return };
        let state = &self.state.nodes[node];
        // A node can be suspended without an interrupt if a fork starts between the two events.
        let NodeConfig::Guided(config) = &self.node(node).config else { return };
        let awaited = matches!(state.status, NodeStatus::Running | NodeStatus::Suspended)
            && state.retry_at.is_none()
            && self.awaited_session(node).is_none()
            && (self.recorded.is_some() || self.own_session(node) == session_id);
        if !awaited || self.is_halted() {
            return;
        }
        let data = json!({"eventType": EVENT_TYPE, "correlation": {"sessionId": session_id}});
        let question = Question {
            timeout_ms: config.timeout_ms.filter(|milliseconds| *milliseconds >= 1.0).map(whole),
            why: SuspendReason::reason("guided-session"),
            cause: state.last_sequence,
            ..Question::new(InterruptKind::ExternalEvent, data)
        };
        self.raise(node, question);
    }

    /// The session ended, or failed.
    pub(super) fn guide_ended(
        &mut self,
        node_id: &NodeId,
        session_id: &str,
        outcome: Result<GuideResult, GuideFailure>,
    ) {
        let Some(node) = self.state.node_index(node_id) else { return };
        let state = &self.state.nodes[node];
        let is_active = matches!(state.status, NodeStatus::Running | NodeStatus::Suspended)
            && state.retry_at.is_none()
            && self.node(node).kind == NodeType::Guided;
        if !is_active || self.is_halted() {
            return;
        }
        let is_expected = match (self.awaited_session(node), &outcome) {
            (Some(awaited), _) => awaited == session_id,
            // A session that was never started can only fail.
            (None, Err(_)) => self.recorded.is_some() || self.own_session(node) == session_id,
            (None, Ok(_)) => false,
        };
        if !is_expected {
            return;
        }
        let decided = Decided {
            value: json!({"sessionId": session_id}),
            outcome: if outcome.is_ok() { ResolutionOutcome::Accepted } else { ResolutionOutcome::Rejected },
            by: if outcome.is_ok() { session_id.to_owned() } else { HOST.to_owned() },
            ballot: None,
            turn: None,
        };
        self.close(node, &decided, None);
        let resolved = match &self.state.nodes[node].answer {
            AnswerState::Given(resolution) => Some((resolution.interrupt.id.clone(), resolution.sequence)),
            AnswerState::None | AnswerState::Taken | AnswerState::Gone => None,
        };
        if let Some((interrupt_id, sequence)) = &resolved
            && self.state.nodes[node].status == NodeStatus::Suspended
        {
            let resumed = NodeResumed {
                interrupt_id: interrupt_id.clone(),
                node_id: self.node_id(node),
                resume_value: decided.value.clone(),
            };
            self.emit(resumed, Some(node), Some(*sequence));
        }
        let cause = resolved.map(|(_, sequence)| sequence);
        let step = match outcome {
            Ok(result) => Step::Done(self.record_deliverables(node, result, cause)),
            Err(GuideFailure { error, is_retryable }) => {
                Step::Failed(Failure { error, retryable: is_retryable })
            }
        };
        self.settle(node, step, cause);
        self.drain();
    }

    /// Creates artifacts for the delivered files, and returns the outputs of the node.
    fn record_deliverables(
        &mut self,
        node: NodeIndex,
        result: GuideResult,
        cause: Option<u64>,
    ) -> Map<String, Value> {
        let mut recorded = Vec::with_capacity(result.deliverables.len());
        for Deliverable { path, bytes, sha256, data } in result.deliverables {
            let (run_id, node_id) = (self.state.genesis.run_id.clone(), self.node(node).id.clone());
            let state = &self.state.nodes[node];
            let id = self.recorded_artifact().unwrap_or_else(|| {
                ids::deliverable_id(&run_id, &node_id, state.iteration, state.attempt, &path)
            });
            let created = ArtifactCreated {
                artifact_id: id.clone(),
                artifact_type: DELIVERABLE.to_owned(),
                node_id: node_id.clone(),
                summary: Some(path.clone()),
            };
            self.emit(created, Some(node), cause);
            recorded.push(json!({"artifactId": id, "path": path, "bytes": bytes, "sha256": sha256}));
            let document = json!({
                "artifactId": id, "artifactType": DELIVERABLE, "runId": run_id, "nodeId": node_id, "data": data,
            });
            self.ask_host(Effect::StoreArtifact { artifact_id: id, document });
        }
        let mut outputs = result.outputs;
        outputs.insert("deliverables".to_owned(), recorded.into());
        outputs
    }

    /// Requests the session again that a suspended node waits for.
    pub(super) fn guide_again(&mut self, node: NodeIndex, config: &GuidedConfig) {
        let Some(session_id) = self.awaited_session(node) else { return };
        if self.is_past_recording() {
            if let Some(open) = self.state.interrupts.get(&self.node(node).id) {
                let (interrupt_id, timed) = (open.id.clone(), open.deadline.is_some());
                self.close_interrupt(interrupt_id, timed);
            }
            self.settle(node, Step::failed(replay_source_missing()), None);
            return;
        }
        let inputs = self.inputs(node).unwrap_or_default();
        self.request_guide(node, config, inputs, session_id, true);
    }

    /// Continues a node whose log ends between the end of its session and the end of the node, as at the start of a fork.
    pub(super) fn guide_answered(
        &mut self,
        node: NodeIndex,
        config: &GuidedConfig,
        resolution: &Resolution,
    ) -> Step {
        if self.is_past_recording() {
            return Step::failed(replay_source_missing());
        }
        if let Some(session_id) = session_of(&resolution.interrupt.data) {
            self.request_guide(node, config, Map::new(), session_id.to_owned(), true);
        }
        Step::Waits
    }

    /// Tells the host to stop waiting for the session of a node.
    pub(super) fn end_guide(&mut self, node: NodeIndex) {
        if self.node(node).kind != NodeType::Guided || self.state.nodes[node].retry_at.is_some() {
            return;
        }
        let session_id = self.awaited_session(node).unwrap_or_else(|| self.own_session(node));
        self.ask_host(Effect::EndGuide { node_id: self.node(node).id.clone(), session_id });
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is at least one, and the cast saturates"
)]
const fn whole(milliseconds: f64) -> u64 {
    let milliseconds = milliseconds as u64;
    if milliseconds < MAX_WAIT_MS { milliseconds } else { MAX_WAIT_MS }
}
