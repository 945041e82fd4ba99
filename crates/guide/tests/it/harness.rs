//! A session in memory: every addition goes through the plan that a store would append.

use std::collections::BTreeMap;
use std::sync::Arc;

use canon::digest::Digest;
use guide::derive;
use guide::engine::{
    self, Additions, Advance, AnswerOutcome, Checkpoint, EngineError, Output, PeopleAnswers, PersonAnswer,
    Question, Start,
};
use guide::plan::{AppendPlan, Planned};
use guide::record::{
    AttemptId, EngineState, Event, EventData, ExecutionSnapshot, NodeId, Preferences, SnapshotRef, TraceKind,
    WorkflowSourceKind,
};
use guide::render::{self, Occasion, PromptInput};
use guide::state::SessionState;
use guide::verification::{Verification, VerificationRequest};
use guide::visit::Visit;
use guide::workflow::compile::{self, Bindings};
use guide::workflow::compiled::CompiledWorkflow;
use guide::workflow::pinned::PinnedWorkflow;
use guide::workflow::source::{self, Format};
use serde_json::{Map, Value, json};

/// Compiles a valid workflow.
pub(crate) fn compiled(source: &Value) -> CompiledWorkflow {
    let text = serde_json::to_vec(source).unwrap();
    let source = source::parse(&text, Format::Json).unwrap_or_else(|problems| panic!("{problems:#?}"));
    compile::compile(&source, &Bindings::default())
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
        .workflow
}

/// A workflow with these steps.
pub(crate) fn workflow(steps: Value) -> CompiledWorkflow {
    compiled(&json!({
        "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0", "steps": steps,
    }))
}

/// A step that needs no notes.
pub(crate) fn plain(id: &str) -> Value {
    json!({"id": id, "title": id, "prompt": "Do it.", "notesOptional": true})
}

/// One session under test.
pub(crate) struct Harness {
    pub(crate) workflow: CompiledWorkflow,
    pub(crate) state: SessionState,
    pub(crate) events: Vec<Event>,
    snapshots: BTreeMap<SnapshotRef, Arc<ExecutionSnapshot>>,
    pub(crate) artifacts: BTreeMap<Digest, Vec<u8>>,
    pub(crate) root: NodeId,
}

impl Harness {
    pub(crate) fn start(
        workflow: CompiledWorkflow,
        context: Value,
        preferences: Option<Preferences>,
    ) -> Self {
        Self::try_start(workflow, context, preferences).unwrap()
    }

    pub(crate) fn try_start(
        workflow: CompiledWorkflow,
        context: Value,
        preferences: Option<Preferences>,
    ) -> Result<Self, EngineError> {
        let session_id = derive::session_id(&[7; 16]);
        let additions = engine::start(Start {
            session_id: session_id.clone(),
            parent_session_id: None,
            workflow: &PinnedWorkflow::new(workflow.clone()),
            source_kind: WorkflowSourceKind::Project,
            source_ref: "workflows/test.json".to_owned(),
            goal: "test".to_owned(),
            context: context.as_object().cloned().unwrap_or_default(),
            preferences,
            observations: Vec::new(),
            now_ms: 1,
        })?;
        let mut harness = Self {
            workflow,
            state: SessionState::new(session_id),
            events: Vec::new(),
            snapshots: BTreeMap::new(),
            artifacts: BTreeMap::new(),
            root: additions.node_id.clone(),
        };
        harness.commit(additions);
        Ok(harness)
    }

    /// Does what a store does with additions.
    fn commit(&mut self, additions: Additions) -> NodeId {
        for new in additions.snapshots {
            let named = new.named;
            assert_eq!(named.reference(), named.snapshot().snapshot_ref(), "the streamed digest is correct");
            self.snapshots.insert(named.reference(), named.snapshot().clone());
        }
        self.artifacts.extend(additions.artifacts.into_iter().map(|new| (new.sha256, new.bytes)));
        let Planned::Append(plan) = AppendPlan::new(&mut self.state, additions.events).unwrap() else {
            panic!("the call was recorded before")
        };
        self.events.extend(plan.into_events());
        additions.node_id
    }

    pub(crate) fn snapshot(&self, node: &NodeId) -> &EngineState {
        self.snapshots[&self.state.node(node).unwrap().snapshot_ref].state()
    }

    /// The id of the pending step, prefixed with its loop path.
    pub(crate) fn pending(&self, node: &NodeId) -> Option<String> {
        let pending = self.snapshot(node).pending()?;
        Some(
            guide::record::StepInstanceKey::new(pending.step_id.as_str(), &pending.loop_path)
                .as_str()
                .to_owned(),
        )
    }

    /// The prompt of the pending step, as a reply shows it.
    pub(crate) fn prompt(&self, node: &NodeId) -> String {
        let (found, engine) = (self.state.node(node).unwrap(), self.snapshot(node));
        let context = self.state.context(&found.run_id);
        let visit = Visit::at(&self.state, &self.workflow, found, engine, context);
        let facts = PromptInput {
            workflow: &self.workflow,
            state: engine,
            context,
            visit: &visit,
            occasion: Occasion::Start,
            blockers: &[],
        };
        render::pending(facts).unwrap().prompt
    }

    /// The next attempt on a node.
    pub(crate) fn attempt(&self, node: &NodeId) -> AttemptId {
        derive::attempt_id(self.state.session_id(), node, self.state.node(node).unwrap().attempts() as u64)
    }

    /// What the host must verify for this call.
    pub(crate) fn wanted(
        &self,
        node: &NodeId,
        call: Call,
    ) -> Result<Option<VerificationRequest>, EngineError> {
        let attempt_id = self.attempt(node);
        engine::required_verification(&Advance {
            state: &self.state,
            node_id: node,
            attempt_id: &attempt_id,
            workflow: &self.workflow,
            snapshot: self.snapshot(node),
            output: Output { notes_markdown: call.notes.map(str::to_owned), artifacts: call.artifacts },
            context: call.context,
            preferences: call.preferences,
            people: call.people,
            verification: None,
            now_ms: 2,
        })
    }

    pub(crate) fn try_advance(&mut self, node: &NodeId, call: Call) -> Result<NodeId, EngineError> {
        let attempt_id = self.attempt(node);
        let additions = engine::advance(&Advance {
            state: &self.state,
            node_id: node,
            attempt_id: &attempt_id,
            workflow: &self.workflow,
            snapshot: self.snapshot(node),
            output: Output { notes_markdown: call.notes.map(str::to_owned), artifacts: call.artifacts },
            context: call.context,
            preferences: call.preferences,
            people: call.people,
            verification: call.verification,
            now_ms: 2,
        })?;
        Ok(self.commit(additions))
    }

    /// The questions to a person before this attempt.
    pub(crate) fn questions(&self, node: &NodeId, call: Call) -> Vec<Question> {
        let attempt_id = self.attempt(node);
        let request = Advance {
            state: &self.state,
            node_id: node,
            attempt_id: &attempt_id,
            workflow: &self.workflow,
            snapshot: self.snapshot(node),
            output: Output { notes_markdown: call.notes.map(str::to_owned), artifacts: call.artifacts },
            context: call.context,
            preferences: call.preferences,
            people: call.people,
            verification: call.verification,
            now_ms: 2,
        };
        engine::questions(&request).unwrap()
    }

    /// The questions that a person can answer in the console about a node.
    pub(crate) fn waiting(&self, node: &NodeId) -> Vec<(Question, Option<AnswerOutcome>)> {
        let found = self.state.node(node).unwrap();
        engine::waiting_for_people(&self.state, found, &self.workflow, self.snapshot(node))
    }

    pub(crate) fn answer_in_console(&mut self, node: &NodeId, answer: &PersonAnswer) {
        let found = self.state.node(node).unwrap();
        let additions = engine::answer_in_console(&self.state, found, answer, 4).unwrap();
        assert_eq!(additions.events.len(), 1, "one event, so one append");
        self.commit(additions);
    }

    pub(crate) fn advance(&mut self, node: &NodeId, call: Call) -> NodeId {
        self.try_advance(node, call).unwrap()
    }

    /// Advances without output until no step is pending, and returns the steps that were pending.
    pub(crate) fn walk(&mut self, mut answer: impl FnMut(&str) -> Call) -> (Vec<String>, NodeId) {
        let (mut node, mut seen) = (self.root.clone(), Vec::new());
        while let Some(pending) = self.pending(&node) {
            let call = answer(&pending);
            seen.push(pending);
            node = self.advance(&node, call);
            assert!(seen.len() < 1000, "the run does not end");
        }
        (seen, node)
    }

    pub(crate) fn checkpoint(&mut self, node: &NodeId, notes: Option<&str>) -> NodeId {
        let recorded = u64::from(self.state.node(node).unwrap().checkpoint_count());
        let attempt_id = derive::checkpoint_attempt_id(self.state.session_id(), node, recorded);
        let additions = engine::checkpoint(Checkpoint {
            state: &self.state,
            node_id: node,
            attempt_id: &attempt_id,
            notes,
            now_ms: 3,
        })
        .unwrap();
        self.commit(additions)
    }

    /// The kinds of the events since an index.
    pub(crate) fn kinds_since(&self, from: usize) -> Vec<&'static str> {
        self.events[from..].iter().map(|event| event.data.kind()).collect()
    }

    /// The kinds of all trace entries about loops, in order.
    pub(crate) fn loop_trace(&self) -> Vec<TraceKind> {
        self.events
            .iter()
            .filter_map(|event| match &event.data {
                EventData::DecisionTraceAppended { entries, .. } => Some(entries),
                _ => None,
            })
            .flatten()
            .map(|entry| entry.kind)
            .filter(|kind| *kind != TraceKind::SelectedNextStep)
            .collect()
    }
}

/// The arguments of an advance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) notes: Option<&'static str>,
    pub(crate) artifacts: Vec<Value>,
    pub(crate) context: Option<Map<String, Value>>,
    pub(crate) people: PeopleAnswers,
    pub(crate) preferences: Option<Preferences>,
    pub(crate) verification: Option<Verification>,
}

impl Call {
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    pub(crate) fn notes(notes: &'static str) -> Self {
        Self { notes: Some(notes), ..Self::default() }
    }

    pub(crate) fn artifact(artifact: Value) -> Self {
        Self { artifacts: vec![artifact], ..Self::default() }
    }

    pub(crate) fn context(context: Value) -> Self {
        Self { context: context.as_object().cloned(), ..Self::default() }
    }

    pub(crate) fn decide(decision: &str) -> Self {
        Self::artifact(json!({"kind": "wr.loop_control", "decision": decision}))
    }
}
