//! A host in memory: it executes effects, has a clock that tests advance, and checks every decision.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use canon::time::Timestamp;
use flow::definition::{Capabilities, Definition, PackTypes, ServedSurfaces};
use flow::engine::{
    self, Activity, Decision, Effect, Guide, Input, Limits, Refusal, Reported, RunEnvironment, TimerKey,
    decide,
};
use flow::event::{Event, EventData, EventKind, event_id, wire};
use flow::id::{EffectId, NodeId, Principal, RunId, Tenant, WorkflowId};
use flow::interrupt::Via;
use flow::run::{Genesis, RunStatus, SharedGenesis};
use flow::snapshot::{RunView, snapshot};
use flow::state::{RunError, RunState};
use serde_json::{Map, Value, json};

use crate::schemas;

/// A run as a host stores it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) definition: Arc<Definition>,
    pub(crate) genesis: SharedGenesis,
    pub(crate) state: RunState,
    pub(crate) events: Vec<Event>,
}

/// All runs, and the clock.
pub(crate) struct World {
    pub(crate) definitions: BTreeMap<WorkflowId, Arc<Definition>>,
    pub(crate) runs: BTreeMap<RunId, Run>,
    pub(crate) now: Timestamp,
    pub(crate) limits: Limits,
    pub(crate) timers: BTreeSet<(Timestamp, RunId, TimerKey)>,
    /// The results of effects by node. Effects of other nodes wait for [`World::perform`].
    pub(crate) outcomes: BTreeMap<NodeId, VecDeque<Result<Value, RunError>>>,
    /// How often each effect was requested, by id.
    pub(crate) asked: BTreeMap<EffectId, u32>,
    /// The requested effects, in order.
    pub(crate) activities: Vec<Activity>,
    /// The installed agents: the schemas of their inputs and outputs.
    pub(crate) agents: BTreeMap<String, (Value, Value)>,
    /// The workflows whose runs are not started. Tests report their end.
    pub(crate) by_hand: BTreeSet<WorkflowId>,
    /// Whether conversations are supported.
    pub(crate) converses: bool,
    /// Whether mock nodes are supported.
    pub(crate) mocks: bool,
    pub(crate) started: Vec<WorkflowId>,
    pub(crate) cancelled: Vec<RunId>,
    /// The requested guided sessions in order, and those that are no longer awaited.
    pub(crate) guides: Vec<Guide>,
    pub(crate) ended_guides: Vec<String>,
    queue: VecDeque<(RunId, Effect)>,
}

/// The environment of the runs of a world.
pub(crate) struct Environment<'w> {
    pub(crate) definitions: &'w BTreeMap<WorkflowId, Arc<Definition>>,
    pub(crate) agents: &'w BTreeMap<String, (Value, Value)>,
    pub(crate) converses: bool,
    pub(crate) mocks: bool,
}

impl RunEnvironment for Environment<'_> {
    fn exists(&self, workflow_id: &WorkflowId) -> bool {
        self.definitions.contains_key(workflow_id)
    }

    fn agent(&self, workflow_id: &WorkflowId) -> Option<String> {
        self.definitions.get(workflow_id)?.agent_id().map(str::to_owned)
    }

    fn converses(&self) -> bool {
        self.converses
    }

    fn mocks(&self) -> bool {
        self.mocks
    }

    fn check_task(&self, agent_id: &str, task: &Value) -> Result<(), String> {
        fits(self.agents.get(agent_id).map(|schemas| &schemas.0), task)
    }

    fn check_return(&self, agent_id: &str, returned: &Value) -> Result<(), String> {
        fits(self.agents.get(agent_id).map(|schemas| &schemas.1), returned)
    }
}

fn fits(schema: Option<&Value>, value: &Value) -> Result<(), String> {
    match schema {
        Some(schema) if !jsonschema::is_valid(schema, value) => Err("not as the schema says".to_owned()),
        _ => Ok(()),
    }
}

/// The status of a run as reported to its parent.
fn for_parent(status: RunStatus) -> RunStatus {
    if status.is_waiting() { status } else { RunStatus::Running }
}

/// A node type of a pack.
pub(crate) const PACK_TYPE: &str = "vendor.acme.ask";

pub(crate) const START: Timestamp = Timestamp(1_793_000_000_000);

impl World {
    pub(crate) fn new(documents: &[Value]) -> Self {
        let read = |document: &Value| {
            let pack_types = PackTypes::These(Arc::new([PACK_TYPE.to_owned()].into()));
            let capabilities = Capabilities {
                mock_agent: true,
                surfaces: ServedSurfaces::ALL,
                pack_types,
                ..Capabilities::OURS
            };
            let definition = Definition::check(document, &capabilities);
            Arc::new(definition.unwrap_or_else(|problems| panic!("{}: {problems:#?}", document["id"])))
        };
        let definitions = documents.iter().map(read);
        Self {
            definitions: definitions.map(|definition| (definition.id.clone(), definition)).collect(),
            runs: BTreeMap::new(),
            now: START,
            limits: Limits::default(),
            timers: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            asked: BTreeMap::new(),
            activities: Vec::new(),
            agents: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            converses: true,
            mocks: true,
            started: Vec::new(),
            cancelled: Vec::new(),
            guides: Vec::new(),
            ended_guides: Vec::new(),
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn genesis(
        &self,
        run_id: &str,
        workflow_id: &str,
        inputs: Value,
        configurable: Value,
    ) -> Genesis {
        let object = |value: Value| value.as_object().unwrap().clone();
        Genesis {
            run_id: RunId::new(run_id),
            tenant: Tenant::new("tenant"),
            principal: Principal::new("somebody"),
            workflow_id: WorkflowId::new(workflow_id),
            definition: self.definitions[workflow_id].digest,
            scope_id: None,
            inputs: object(inputs),
            configurable: object(configurable),
            tags: Vec::new(),
            metadata: Map::new(),
            callback_url: None,
            parent: None,
            fork: None,
            created_at: self.now,
            forced_engine_version: None,
            test: false,
            trace: None,
            trigger: None,
        }
    }

    /// Adds a run without events.
    pub(crate) fn put(&mut self, genesis: Genesis) {
        let definition = self.definitions[&genesis.workflow_id].clone();
        let genesis = Arc::new(genesis);
        let state = RunState::new(&definition, genesis.clone());
        let id = genesis.run_id.clone();
        self.runs.insert(id, Run { definition, genesis, state, events: Vec::new() });
    }

    /// Creates a run `r` of a workflow.
    pub(crate) fn create(&mut self, workflow_id: &str) -> &Run {
        self.create_with(workflow_id, json!({}), json!({}))
    }

    pub(crate) fn create_with(&mut self, workflow_id: &str, inputs: Value, configurable: Value) -> &Run {
        self.put(self.genesis("r", workflow_id, inputs, configurable));
        self.give("r", Input::Create).unwrap();
        self.run()
    }

    pub(crate) fn environment(&self) -> Environment<'_> {
        Environment {
            definitions: &self.definitions,
            agents: &self.agents,
            converses: self.converses,
            mocks: self.mocks,
        }
    }

    pub(crate) fn run(&self) -> &Run {
        &self.runs["r"]
    }

    /// Passes an input to a run, and executes the effects that follow in all runs.
    pub(crate) fn give(&mut self, run_id: &str, input: Input) -> Result<Vec<Event>, Refusal> {
        let events = self.take(run_id, input)?;
        while let Some((run_id, effect)) = self.queue.pop_front() {
            self.execute(&run_id, effect);
        }
        Ok(events)
    }

    fn take(&mut self, run_id: &str, input: Input) -> Result<Vec<Event>, Refusal> {
        let (limits, now) = (self.limits, self.now);
        let environment = Environment {
            definitions: &self.definitions,
            agents: &self.agents,
            converses: self.converses,
            mocks: self.mocks,
        };
        let run = self.runs.get_mut(run_id).unwrap();
        let before = run.state.clone();
        let decided = decide(&run.definition, &mut run.state, input, now, &limits, &environment);
        if decided.is_err() {
            assert_eq!(run.state, before, "a refusal changes nothing");
        }
        let decision = decided?;
        Ok(self.append(run_id, decision))
    }

    /// Appends the events of a decision, checks them, and queues its effects.
    pub(crate) fn append(&mut self, run_id: &str, decision: Decision) -> Vec<Event> {
        let run = self.runs.get_mut(run_id).unwrap();
        let was_over = run.events.last().is_some_and(|event| event.kind().is_terminal());
        for event in &decision.events {
            let bytes = wire::encode(&run.genesis.run_id, event);
            assert_eq!(wire::decode(bytes.as_bytes()).unwrap(), *event, "an event survives the disk");
            schemas::check_event(event);
        }
        run.events.extend(decision.events.iter().cloned());
        check_log(&run.events);
        let folded = RunState::fold(&run.definition, run.genesis.clone(), &run.events).unwrap();
        assert_eq!(folded, run.state, "the fold of the events is the state");
        let shown = snapshot(&run.definition, &run.state, self.now);
        schemas::check_snapshot(&shown);
        check_shown(&shown, run.state.status);
        check_view(&shown);
        let (status, parent) = (run.state.status, run.genesis.parent.clone());
        if status.is_terminal()
            && !was_over
            && let Some(parent) = parent
        {
            self.report_end(parent.run_id.as_str(), run_id);
        } else if let Some(parent) = self.runs[run_id].genesis.parent.clone()
            && for_parent(decision.before) != for_parent(status)
        {
            self.report_waiting(parent.run_id.as_str(), run_id);
        }
        self.queue.extend(decision.effects.into_iter().map(|effect| (RunId::new(run_id), effect)));
        decision.events
    }

    fn report_waiting(&mut self, parent: &str, child: &str) {
        let status = for_parent(self.runs[child].state.status);
        self.take(parent, Input::ChildWaits { run_id: RunId::new(child), status }).unwrap();
    }

    fn report_end(&mut self, parent: &str, child: &str) {
        let child = &self.runs[child];
        let input = Input::ChildEnded {
            run_id: child.genesis.run_id.clone(),
            status: child.state.status,
            variables: child.state.variables.clone(),
            error: child.state.error.clone(),
        };
        self.take(parent, input).unwrap();
    }

    fn execute(&mut self, run_id: &RunId, effect: Effect) {
        match effect {
            Effect::SetTimer { timer, at } => {
                self.timers.insert((at, run_id.clone(), timer));
            }
            Effect::ClearTimer { timer } => {
                self.timers.retain(|(_, run, key)| run != run_id || *key != timer);
            }
            Effect::StartChild(start) => self.start_child(start),
            Effect::CancelChild { run_id: child } => {
                self.cancelled.push(child.clone());
                let cancel = Input::Cancel {
                    reason: None,
                    by: Principal::new("host"),
                    parent_run_id: Some(run_id.clone()),
                };
                if self.runs.contains_key(&child) {
                    let _ = self.take(child.as_str(), cancel);
                }
            }
            Effect::Activity(activity) => self.perform_if_known(run_id.as_str(), &activity),
            Effect::Guide(guide) => self.guides.push(*guide),
            Effect::EndGuide { session_id, .. } => self.ended_guides.push(session_id),
            Effect::InterruptRaised { .. }
            | Effect::InterruptClosed { .. }
            | Effect::StoreArtifact { .. } => {}
        }
    }

    fn perform_if_known(&mut self, run_id: &str, activity: &Activity) {
        *self.asked.entry(activity.logical_invocation_id.clone()).or_default() += 1;
        self.activities.push(activity.clone());
        let known = self.outcomes.get_mut(&activity.node_id).and_then(VecDeque::pop_front);
        if let Some(outcome) = known {
            let (node_id, ordinal) = (activity.node_id.clone(), activity.ordinal);
            self.take(run_id, Input::ActivityDone { node_id, ordinal, reports: Vec::new(), outcome })
                .unwrap();
        }
    }

    fn start_child(&mut self, start: engine::StartChild) {
        self.started.push(start.workflow_id.clone());
        if let Some(child) = self.runs.get(&start.run_id) {
            if child.state.status.is_terminal() {
                self.report_end(start.parent.run_id.as_str(), start.run_id.as_str());
            } else {
                self.report_waiting(start.parent.run_id.as_str(), start.run_id.as_str());
            }
            return;
        }
        let mut genesis =
            self.genesis(start.run_id.as_str(), start.workflow_id.as_str(), json!({}), json!({}));
        genesis.inputs = start.inputs;
        genesis.parent = Some(start.parent);
        self.put(genesis);
        if !self.by_hand.contains(&start.workflow_id) {
            self.take(start.run_id.as_str(), Input::Create).unwrap();
        }
    }

    /// Advances the clock, and fires every due timer at its time.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        let until = self.now.plus(milliseconds);
        while let Some((at, run_id, timer)) = self.timers.first().cloned().filter(|(at, _, _)| *at <= until) {
            self.timers.remove(&(at, run_id.clone(), timer.clone()));
            self.now = self.now.max(at);
            let input = if timer == TimerKey::Run { Input::RunDeadline } else { Input::TimerDue { timer } };
            self.give(run_id.as_str(), input).unwrap();
        }
        self.now = until;
    }

    /// Reports the end of a child to its parent.
    pub(crate) fn end_child(&mut self, child: &str, status: RunStatus, variables: Value) {
        let error = (status == RunStatus::Failed).then(|| RunError::new("broken", "it broke"));
        let variables = variables.as_object().unwrap().clone();
        let input = Input::ChildEnded { run_id: RunId::new(child), status, variables, error };
        self.give("r", input).unwrap();
    }

    pub(crate) fn resolve(&mut self, node_id: &str, value: Value) -> Result<Vec<Event>, Refusal> {
        self.resolve_as("r", node_id, value, "somebody", Via::Key)
    }

    pub(crate) fn resolve_as(
        &mut self,
        run_id: &str,
        node_id: &str,
        value: Value,
        by: &str,
        via: Via,
    ) -> Result<Vec<Event>, Refusal> {
        let grants = vec!["approver".to_owned()];
        let node_id = NodeId::new(node_id);
        let (interrupt_id, resume_value, by) = (None, value, Principal::new(by));
        self.give(run_id, Input::Resolve { node_id, interrupt_id, resume_value, by, grants, via })
    }

    pub(crate) fn snapshot(&self, run_id: &str) -> Value {
        let run = &self.runs[run_id];
        snapshot(&run.definition, &run.state, self.now)
    }

    pub(crate) fn status(&self) -> RunStatus {
        self.run().state.status
    }

    /// The kinds of a run's events, with their nodes: `node.started a`.
    pub(crate) fn shape(&self, run_id: &str) -> Vec<String> {
        shape(&self.runs[run_id].events)
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.run().events.iter().map(|event| event.data.name()).collect()
    }

    pub(crate) fn find(&self, kind: EventKind) -> Vec<&Event> {
        self.run().events.iter().filter(|event| event.kind() == kind).collect()
    }

    /// The children of `r` with their workflows, in the order in which they were started.
    pub(crate) fn children(&self) -> Vec<(WorkflowId, RunId)> {
        let children = self.run().state.children.iter();
        children.map(|child| (child.workflow_id.clone(), child.run_id.clone())).collect()
    }
}

pub(crate) fn shape(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match &event.node_id {
        Some(node) => format!("{} {node}", event.kind()),
        None => event.kind().to_string(),
    };
    events.iter().map(line).collect()
}

/// Checks the invariants of snapshots.
fn check_shown(shown: &Value, status: RunStatus) {
    let error = shown.get("error");
    assert_eq!(error.is_some(), status == RunStatus::Failed, "an error is what a run failed with");
    let members = error.and_then(Value::as_object).into_iter().flat_map(Map::keys);
    assert!(
        members.into_iter().all(|name| ["code", "message", "details"].contains(&name.as_str())),
        "{error:?}"
    );
    let waits = shown.get("interrupt").map(|open| &open["nodeId"]);
    let current = shown.get("currentNodeId");
    let mut children = shown.get("childRuns").and_then(Value::as_array).into_iter().flatten();
    let by_child =
        children.any(|child| Some(&child["nodeId"]) == current && child["status"] == shown["status"]);
    assert!(
        !status.is_waiting() || waits == current || (waits.is_none() && by_child),
        "the node that waits is the current one, or its child waits"
    );
}

/// Checks that a snapshot is read into types without loss, except for members that the program does not use.
fn check_view(shown: &Value) {
    const UNUSED: [&str; 4] = ["agent", "engineVersion", "eventLogSchemaVersion", "runOrchestrator"];
    let view = RunView::read(shown.to_string().as_bytes()).unwrap();
    let mut expected = shown.as_object().unwrap().clone();
    expected.retain(|name, _| !UNUSED.contains(&name.as_str()));
    assert_eq!(serde_json::to_value(&view).unwrap(), Value::Object(expected));
}

/// Checks the invariants of logs.
fn check_log(events: &[Event]) {
    let mut begun = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for (place, event) in events.iter().enumerate() {
        assert_eq!(event.sequence, u64::try_from(place).unwrap());
        assert_eq!(event.kind() == EventKind::RunStarted, place == 0, "a log begins with run.started");
        assert!(!event.kind().is_terminal() || place + 1 == events.len(), "nothing follows the end");
        if let Some(cause) = &event.causation_id
            && place > 0
        {
            let earlier = (0..place).any(|earlier| {
                cause.ends_with(&event_id(&RunId::new(""), u64::try_from(earlier).unwrap())[4..])
            });
            assert!(earlier, "{cause} is not an earlier event than {place}");
        }
        let node = event.node_id.clone().map(|id| id.to_string()).unwrap_or_default();
        match event.kind() {
            EventKind::NodeStarted => {
                begun.insert(node);
            }
            EventKind::NodeCompleted | EventKind::NodeSuspended | EventKind::NodeCancelled => {
                assert!(begun.contains(&node), "{node} ended without a beginning");
            }
            EventKind::InterruptRequested => {
                asked.insert(event.payload()["interruptId"].clone().to_string());
            }
            EventKind::InterruptResolved => {
                assert!(asked.contains(&event.payload()["interruptId"].to_string()));
            }
            EventKind::RunFailed => {
                let explained = events[..place].iter().any(|earlier| {
                    matches!(
                        earlier.kind(),
                        EventKind::NodeFailed | EventKind::CapBreached | EventKind::LoopbackLimit
                    )
                });
                assert!(explained, "a failure is explained before it");
            }
            _ => {}
        }
    }
}

/// A workflow of nodes `(id, type, config)` and edges `(from, to)`.
pub(crate) fn workflow(id: &str, nodes: &[(&str, &str, Value)], edges: &[(&str, &str)]) -> Value {
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(id, kind, config)| {
            json!({
                "id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config,
                "inputs": {},
            })
        })
        .collect();
    let edges: Vec<Value> = edges
        .iter()
        .enumerate()
        .map(|(place, (from, to))| {
            json!({"id": format!("e{place:05}"), "sourceNodeId": from, "targetNodeId": to})
        })
        .collect();
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    })
}

/// A report of the host, from its kind and payload.
pub(crate) fn report(kind: EventKind, payload: &Value) -> Reported {
    Reported::read(kind, payload.as_object().unwrap().clone()).unwrap()
}

/// Replaces a payload member, as if another version had written it.
pub(crate) fn rewrite(event: &mut Event, member: &str, value: Value) {
    let mut payload = event.payload();
    payload.insert(member.to_owned(), value);
    (event.data, event.extra) = EventData::read(event.kind(), payload).unwrap();
}
