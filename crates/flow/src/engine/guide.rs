//! Guided sessions: how they begin, and what is made of their end.
//!
//! ```text
//! node.started ─ Effect::Guide ─► the host equips the agent and starts the session
//!      GuideStarted ─► node.suspended, interrupt.requested: the session's id, and nothing else
//!      GuideEnded   ─► interrupt.resolved, artifact.created for what was handed over, node.completed
//! ```
//!
//! The id of a session is derived from the attempt that it is for, so the effect can be asked for again after every stop. The
//! interrupt is one that nobody answers: the session's end, a deadline or a cancellation closes it.

use serde_json::{Map, Value, json};

use super::ask::{HOST, Question, Why};
use super::children::no_source;
use super::drain::{Failure, Step};
use super::turn::Turn;
use super::{Effect, ids};
use crate::definition::config::{GuidedConfig, Manifest};
use crate::definition::{NodeConfig, NodeIndex, NodeType};
use crate::event::data::node::NodeResumed;
use crate::event::data::value::ArtifactCreated;
use crate::id::{ArtifactId, NodeId};
use crate::interrupt::{Decided, InterruptKind};
use crate::state::{AnswerState, NodeStatus, Outcome, Resolution, RunError};

/// What a run waits for, as the interrupt calls it.
pub const EVENT_TYPE: &str = "interlock.session.ended";
/// The type of the artifacts that files become which an agent handed over.
pub const DELIVERABLE: &str = "deliverable";
/// The longest time that a session is waited for: a year, as for everything else that waits.
const MAX_WAIT_MS: u64 = 31_536_000_000;

/// A session to start, or to wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Guide {
    /// The node that asks for it.
    pub node_id: NodeId,
    pub iteration: u32,
    pub attempt: u32,
    pub session_id: String,
    /// Whether the node waits for it already. It is then not started again, and is another run's where this one was forked.
    pub is_started: bool,
    /// The guided workflow.
    pub workflow: String,
    pub goal: String,
    /// How far the agent goes without a person, where the author says.
    pub autonomy: Option<String>,
    /// What it may risk, where the author says.
    pub risk_policy: Option<String>,
    /// The workspace, where there is to be one.
    pub equipment: Option<Equipment>,
    /// What the node was given.
    pub inputs: Map<String, Value>,
    /// The artifacts that the nodes before this one made.
    pub artifacts: Vec<Upstream>,
}

/// What a workspace is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Equipment {
    /// What the agent needs.
    pub manifest: ManifestSource,
    /// Where the bytes come from, below a place of the host.
    pub library: String,
}

/// Where a manifest is.
#[derive(Clone, Debug, PartialEq)]
pub enum ManifestSource {
    /// In a file below a place of the host.
    File(String),
    /// In the workflow itself.
    Inline(Value),
}

/// An artifact of a node before this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    pub artifact_id: ArtifactId,
    pub node_id: NodeId,
}

/// What a session that is complete leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuideResult {
    /// What the node gives.
    pub outputs: Map<String, Value>,
    /// The files that the agent handed over, by path.
    pub deliverables: Vec<Deliverable>,
}

/// A file that an agent handed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Deliverable {
    /// Where it was in its slot.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// The digest of its bytes.
    pub sha256: String,
    /// What is kept of it as an artifact.
    pub data: Value,
}

/// Why a session did not come to an end that the node can use.
#[derive(Clone, Debug, PartialEq)]
pub struct GuideFailure {
    pub error: RunError,
    /// Whether another attempt may help.
    pub is_retryable: bool,
}

impl GuideFailure {
    /// A failure that another attempt would repeat.
    pub const fn lasting(error: RunError) -> Self {
        Self { error, is_retryable: false }
    }
}

impl GuideResult {
    /// The result as the outputs of a node recorded it, without what the artifacts hold.
    pub(super) fn recorded(mut outputs: Map<String, Value>) -> Self {
        let told = outputs.remove("deliverables");
        let deliverable = |told: &Value| {
            let text = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let bytes = told.get("bytes").and_then(Value::as_u64).unwrap_or_default();
            Deliverable { path: text("path"), bytes, sha256: text("sha256"), data: Value::Null }
        };
        let told = told.as_ref().and_then(Value::as_array).into_iter().flatten();
        let deliverables = told.map(deliverable).collect();
        Self { outputs, deliverables }
    }
}

/// The session that the data of an interrupt names.
pub fn session_of(data: &Value) -> Option<&str> {
    data.get("correlation")?.get("sessionId")?.as_str()
}

impl Turn<'_> {
    /// Begins the work of a guided node.
    pub(super) fn guide(
        &mut self,
        node: NodeIndex,
        config: &GuidedConfig,
        inputs: Map<String, Value>,
    ) -> Step {
        if self.has_no_source() {
            return Step::failed(no_source());
        }
        let session_id = self.own_session(node);
        self.ask_for_guide(node, config, inputs, session_id, false);
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

    fn ask_for_guide(
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
            inputs: given,
            artifacts: self.upstream(node),
        };
        self.ask_host(Effect::Guide(Box::new(guide)));
    }

    /// The artifacts of the nodes that lead to this one, by id.
    fn upstream(&self, node: NodeIndex) -> Vec<Upstream> {
        let graph = &self.definition.graph;
        let mut before = vec![false; self.definition.nodes.len()];
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            for edge in &graph.incoming[at] {
                let source = self.definition.edges[*edge].source;
                if !std::mem::replace(&mut before[source], true) {
                    open.push(source);
                }
            }
        }
        let made = self.state.artifacts.values().filter_map(|artifact| {
            let place = self.state.node_index(&artifact.node_id)?;
            before[place].then(|| Upstream {
                artifact_id: artifact.artifact_id.clone(),
                node_id: artifact.node_id.clone(),
            })
        });
        made.collect()
    }

    /// The session is there.
    pub(super) fn guide_started(&mut self, node_id: &NodeId, session_id: &str) {
        let Some(node) = self.state.node_index(node_id) else { return };
        let state = &self.state.nodes[node];
        // Suspended without a question is a log that was cut between the two, as at the place of a fork.
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
            why: Why::reason("guided-session"),
            cause: state.last_sequence,
            ..Question::new(InterruptKind::ExternalEvent, data)
        };
        self.raise(node, question);
    }

    /// The session came to its end, or to none.
    pub(super) fn guide_ended(
        &mut self,
        node_id: &NodeId,
        session_id: &str,
        outcome: Result<GuideResult, GuideFailure>,
    ) {
        let Some(node) = self.state.node_index(node_id) else { return };
        let state = &self.state.nodes[node];
        let under_way = matches!(state.status, NodeStatus::Running | NodeStatus::Suspended)
            && state.retry_at.is_none()
            && self.node(node).kind == NodeType::Guided;
        if !under_way || self.is_halted() {
            return;
        }
        let fits = match (self.awaited_session(node), &outcome) {
            (Some(awaited), _) => awaited == session_id,
            // A session that never was there can only have failed.
            (None, Err(_)) => self.recorded.is_some() || self.own_session(node) == session_id,
            (None, Ok(_)) => false,
        };
        if !fits {
            return;
        }
        let decided = Decided {
            value: json!({"sessionId": session_id}),
            outcome: if outcome.is_ok() { Outcome::Accepted } else { Outcome::Rejected },
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
            Ok(result) => Step::Done(self.hand_over(node, result, cause)),
            Err(GuideFailure { error, is_retryable }) => {
                Step::Failed(Failure { error, retryable: is_retryable })
            }
        };
        self.settle(node, step, cause);
        self.drain();
    }

    /// Makes artifacts of what the agent handed over, and gives what the node gives.
    fn hand_over(&mut self, node: NodeIndex, result: GuideResult, cause: Option<u64>) -> Map<String, Value> {
        let mut told = Vec::with_capacity(result.deliverables.len());
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
            told.push(json!({"artifactId": id, "path": path, "bytes": bytes, "sha256": sha256}));
            let document = json!({
                "artifactId": id, "artifactType": DELIVERABLE, "runId": run_id, "nodeId": node_id, "data": data,
            });
            self.ask_host(Effect::StoreArtifact { artifact_id: id, document });
        }
        let mut outputs = result.outputs;
        outputs.insert("deliverables".to_owned(), told.into());
        outputs
    }

    /// Asks again for the session that a suspended node waits for.
    pub(super) fn guide_again(&mut self, node: NodeIndex, config: &GuidedConfig) {
        let Some(session_id) = self.awaited_session(node) else { return };
        if self.has_no_source() {
            if let Some(open) = self.state.interrupts.get(&self.node(node).id) {
                let (interrupt_id, timed) = (open.id.clone(), open.deadline.is_some());
                self.close_interrupt(interrupt_id, timed);
            }
            self.settle(node, Step::failed(no_source()), None);
            return;
        }
        let inputs = self.inputs(node).unwrap_or_default();
        self.ask_for_guide(node, config, inputs, session_id, true);
    }

    /// What follows where the log ends between the end of a session and what the node makes of it, as at the place of a fork.
    pub(super) fn guide_answered(
        &mut self,
        node: NodeIndex,
        config: &GuidedConfig,
        resolution: &Resolution,
    ) -> Step {
        if self.has_no_source() {
            return Step::failed(no_source());
        }
        if let Some(session_id) = session_of(&resolution.interrupt.data) {
            self.ask_for_guide(node, config, Map::new(), session_id.to_owned(), true);
        }
        Step::Waits
    }

    /// Tells the host that a session is not waited for any more, where a node waits for one.
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
    reason = "it is at least one, and the cast saturates"
)]
const fn whole(milliseconds: f64) -> u64 {
    let milliseconds = milliseconds as u64;
    if milliseconds < MAX_WAIT_MS { milliseconds } else { MAX_WAIT_MS }
}
