//! A scripted agent plays every bundled workflow through the service, from its start to its end.
//!
//! The table in `plays.rs` says which choices are made and which steps are then shown. The agent does the rest as an
//! agent that follows its prompt exactly would (`agent.rs`).

mod agent;
mod page;
mod plays;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guide::delegation::ChildHandle;
use guide::record::SessionId;
use guide::state::SessionState;
use guide::workflow::compiled::Step;
use guide::workflow::context_keys::ContextType;
use guide::workflow::pinned::PinnedWorkflow;
use guide::workflow::registry;
use guided::api::{ContinueRequest, DelegatedRun, Handle, Intent, Reply, StartRequest};
use serde_json::{Map, Value};
use storage::disk::FaultyDisk;
use storage::files::SessionFiles;
use system::{ManualClock, SeededEntropy};

use self::agent::{Agent, Output};
use self::plays::{PLAYS, Play};

use crate::sync::Guided;

/// How an agent works on a step.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// It sends what the step requires.
    Honest,
    /// It first claims to be done, without evidence, artifacts, approval or context.
    Careless,
}

/// The service, shared by all plays of a test.
struct Stage(Guided);

impl Stage {
    fn set() -> Self {
        let files = SessionFiles::open(Arc::new(FaultyDisk::default())).unwrap();
        let clock = Arc::new(ManualClock::at(1_700_000_000_000));
        let catalogue = Catalogue::new(CatalogueOptions::default());
        Self(Guided::new(files, catalogue, clock, Arc::new(SeededEntropy::new(7))))
    }

    fn start(&self, play: &Play, context: Map<String, Value>) -> Reply {
        let request = StartRequest {
            workflow_id: play.workflow.to_owned(),
            goal: "play it".to_owned(),
            context,
            ..StartRequest::default()
        };
        self.0.start(request).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn send(&self, token: String, output: Output) -> Reply {
        let request = ContinueRequest {
            handle: Handle::Single(token),
            intent: Intent::Advance,
            notes_markdown: Some(output.notes),
            artifacts: output.artifacts,
            context: (!output.context.is_empty()).then_some(output.context),
            preferences: None,
        };
        self.0.proceed(request).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn workflow(&self, id: &str) -> Arc<PinnedWorkflow> {
        self.0.catalogue().find(None, id).unwrap().workflow.clone()
    }

    /// Plays to the end, and returns the shown steps and the recorded context.
    fn play(&self, play: &Play, manner: Manner) -> (Vec<String>, Map<String, Value>) {
        // Some plays set the rigor at the start, the others when they are asked for it.
        let given =
            if play.choice("rigor") == Some("standard") { play.context(&["rigor"]) } else { Map::new() };
        let known: BTreeSet<String> = given.keys().cloned().collect();
        let reply = self.start(play, given);
        self.follow(play, reply, &known, manner)
    }

    /// Does the work of a delegated run, like an agent without helpers.
    fn play_child(&self, delegated: &DelegatedRun, manner: Manner) {
        let params = &delegated.start_call.params;
        let text = |name: &str| params[name].as_str().unwrap().to_owned();
        let play = PLAYS.iter().find(|play| params["workflowId"] == play.workflow).unwrap();
        let context = params["context"].as_object().cloned().unwrap_or_default();
        let known: BTreeSet<String> = context.keys().cloned().collect();
        let request = StartRequest {
            workflow_id: text("workflowId"),
            goal: text("goal"),
            context,
            child_handle: ChildHandle::parse(&text("parentSessionId")),
            ..StartRequest::default()
        };
        let reply = self.0.start(request).unwrap_or_else(|refusal| panic!("{refusal}"));
        self.follow(play, reply, &known, manner);
    }

    fn follow(
        &self,
        play: &Play,
        mut reply: Reply,
        // The keys that the run was started with. Every step sends what it produces itself.
        known: &BTreeSet<String>,
        manner: Manner,
    ) -> (Vec<String>, Map<String, Value>) {
        let workflow = self.workflow(play.workflow);
        let mut agent = Agent::of(play);
        let mut shown = Vec::new();
        while let Some(pending) = &reply.pending {
            let (id, prompt) = (pending.step_id.clone(), pending.prompt.clone());
            assert!(shown.len() < 40, "{play}: no end in sight: {shown:?}");
            let step = workflow.steps.iter().find(|step| step.step_id.as_str() == id).unwrap();
            let mut token = reply.continue_token.clone().unwrap();
            let expected = objections(step, known);
            assert!(!expected.is_empty(), "{play}: {id} asks for nothing");
            if manner == Manner::Careless {
                let blocked = self.send(token, Output::claim()).blocked;
                let blocked = blocked.unwrap_or_else(|| panic!("{play}: {id} is content with a claim"));
                let report = serde_json::to_value(&blocked.blockers).unwrap();
                let codes: BTreeSet<&str> = report["blockers"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| it["code"].as_str().unwrap())
                    .collect();
                assert_eq!(codes, expected, "{play}: {id}");
                token = blocked.retry_continue_token.unwrap();
            }
            for delegated in &reply.delegations {
                self.play_child(delegated, manner);
            }
            let output = agent.work(&workflow, step, &prompt, known);
            shown.push(id.clone());
            reply = self.send(token, output);
            assert!(reply.blocked.is_none(), "{play}: {id}: {:#?}", reply.blocked);
        }
        assert!(reply.is_complete, "{play}");
        assert_eq!(reply.open_gaps, None, "{play}");
        let id = SessionId::parse(&reply.run.session_id).unwrap();
        let state = SessionState::fold(id.clone(), &self.0.files().load(&id).unwrap().events).unwrap();
        let context = state.context(&state.runs()[0].id).clone();
        (shown, context)
    }
}

/// The codes that block a claim without evidence.
fn objections(step: &Step, known: &BTreeSet<String>) -> BTreeSet<&'static str> {
    let has_contract = step.output_contract.is_some();
    let missing = [
        ("MISSING_CONTEXT_KEY", step.produces_context.keys().any(|key| !known.contains(key))),
        (
            "MISSING_REQUIRED_OUTPUT",
            has_contract || !step.assessment_refs.is_empty() || !step.delegations.is_empty(),
        ),
        ("INVALID_REQUIRED_OUTPUT", !has_contract && step.validation_criteria.is_some()),
        ("USER_ONLY_DEPENDENCY", step.require_confirmation.is_some()),
    ];
    missing.into_iter().filter(|(_, is_missing)| *is_missing).map(|(code, _)| code).collect()
}

#[test]
fn every_play_shows_its_steps_and_reaches_its_end() {
    let stage = Stage::set();
    for play in PLAYS {
        let (shown, context) = stage.play(play, Manner::Honest);
        assert_eq!(shown.join(" "), play.shown, "{play}");
        for (key, value) in play.context(&[]) {
            assert_eq!(context.get(&key), Some(&value), "{play}: {key}");
        }
    }
}

/// A claim without evidence is blocked at every step, with a code for each thing that is missing.
#[test]
fn a_careless_agent_is_blocked_at_every_step() {
    // The longest play of each workflow shows every kind of step.
    let mut longest: BTreeMap<&str, &Play> = BTreeMap::new();
    for play in PLAYS {
        let known = longest.entry(play.workflow).or_insert(play);
        if play.shown.len() > known.shown.len() {
            *known = play;
        }
    }
    let stage = Stage::set();
    for play in longest.into_values() {
        let (shown, _) = stage.play(play, Manner::Careless);
        assert_eq!(shown.join(" "), play.shown, "{play}");
    }
}

#[test]
fn every_workflow_is_played_and_every_step_and_every_value_is_reached() {
    let stage = Stage::set();
    for bundled in registry::bundled() {
        let workflow = stage.workflow(bundled.id);
        let plays: Vec<&Play> = PLAYS.iter().filter(|play| play.workflow == bundled.id).collect();
        let shown: BTreeSet<&str> = plays.iter().flat_map(|play| play.shown.split(' ')).collect();
        let steps: BTreeSet<&str> = workflow.steps.iter().map(|step| step.step_id.as_str()).collect();
        assert_eq!(shown, steps, "{}: a step that no play shows, or a play of no step", bundled.id);
        for (key, allowed) in workflow.steps.iter().flat_map(|step| &step.produces_context) {
            let ContextType::OneOf(allowed) = allowed else {
                panic!("{}: {key} is not a choice", bundled.id)
            };
            for value in allowed {
                let chosen = plays.iter().any(|play| play.choice(key) == Some(value));
                assert!(chosen, "{}: no play chooses {key}={value}", bundled.id);
            }
        }
    }
    let unknown = PLAYS.iter().find(|play| registry::bundled_workflow(play.workflow).is_none());
    assert!(unknown.is_none(), "{}", unknown.unwrap());
}

/// Every workflow that users start directly has the key `rigor`, and no level of it skips an approval.
#[test]
fn rigor_never_skips_an_approval() {
    let stage = Stage::set();
    for bundled in registry::bundled().iter().filter(|bundled| !bundled.id.starts_with("wr.routine-")) {
        let workflow = stage.workflow(bundled.id);
        let declared = workflow.steps.iter().find_map(|step| step.produces_context.get("rigor"));
        let levels = ["small", "standard", "thorough"].map(str::to_owned).to_vec();
        assert_eq!(declared, Some(&ContextType::OneOf(levels)), "{}", bundled.id);
        for step in workflow.steps.iter().filter(|step| step.require_confirmation.is_some()) {
            let condition = step.run_condition.as_ref().map(|condition| condition.0.to_string());
            let decides = condition.is_some_and(|condition| condition.contains("rigor"));
            assert!(!decides, "{}: {} waits for a person", bundled.id, step.step_id);
        }
    }
}
