//! Starts a session.

use serde_json::{Map, Value};

use super::ledger::Ledger;
use super::reasons::{GapFacts, Reason};
use super::{Additions, EngineError, NewSnapshot, context};
use crate::derive::{self, Cause};
use crate::interpret::{self, Obstacle, OnObstacle, SelectionInput};
use crate::record::{
    Autonomy, Confidence, ContextSource, EventData, EventIndex, ExecutionSnapshot, GapResolution,
    GapSeverity, NodeKind, ObservationKey, ObservationValue, PreferenceChange, PreferenceSource, Preferences,
    Scope, SessionId, WorkflowSourceKind,
};
use crate::workflow::compiled::CompiledWorkflow;
use crate::workflow::context_keys::{self, ContextFault};
use crate::workflow::pinned::PinnedWorkflow;

/// The input of [`start`].
#[derive(Clone, Debug)]
pub struct Start<'a> {
    pub session_id: SessionId,
    /// The session that delegated this one.
    pub parent_session_id: Option<SessionId>,
    pub workflow: &'a PinnedWorkflow,
    /// Where the workflow came from.
    pub source_kind: WorkflowSourceKind,
    pub source_ref: String,
    /// The goal of the run; becomes the context key `goal`.
    pub goal: String,
    /// Further inputs.
    pub context: Map<String, Value>,
    /// The preferences that the caller requested; `None` for the defaults.
    pub preferences: Option<Preferences>,
    /// Observations of the workspace.
    pub observations: Vec<(ObservationKey, ObservationValue)>,
    /// The clock time in milliseconds. Informational.
    pub now_ms: u64,
}

/// Creates a session: session, run, root node, preferences, context, observations.
///
/// # Errors
/// The context is invalid, or the workflow starts with a loop whose input is missing.
pub fn start(request: Start<'_>) -> Result<Additions, EngineError> {
    let mut initial = request.context;
    initial.insert("goal".to_owned(), Value::String(request.goal));
    context::check(&initial)?;
    let preferences = request.preferences.unwrap_or_default();
    // A rejected start records nothing, so a value of the wrong type is rejected at any level of autonomy.
    let never_stops = preferences.autonomy == Autonomy::FullAutoNeverStop;
    let is_refused = |fault: &ContextFault| {
        fault.is_invalid() || (!never_stops && request.workflow.inputs.contains_key(&fault.key))
    };
    let faults = context_keys::faults(request.workflow.declared_keys(), &initial);
    let (faults, missing): (Vec<_>, Vec<_>) = faults.into_iter().partition(is_refused);
    if !faults.is_empty() {
        return Err(EngineError::MissingInputs { faults });
    }
    let next = interpret::begin(SelectionInput {
        workflow: request.workflow,
        context: &initial,
        decision: None,
        on_obstacle: if never_stops { OnObstacle::PassOver } else { OnObstacle::Stop },
    })
    .map_err(|obstacle| match &obstacle {
        Obstacle::MissingContext { faults, .. } => EngineError::MissingInputs { faults: faults.clone() },
        other => EngineError::CannotBegin { reason: other.to_string() },
    })?;
    let Some(first_step) = next.state.pending().map(|pending| pending.step_id.clone()) else {
        return Err(EngineError::CannotBegin { reason: "no step can run with this context".to_owned() });
    };

    let session = request.session_id;
    let run = derive::run_id(&session, 0);
    let root = derive::root_node_id(&session, &run);
    let workflow_hash = request.workflow.hash();
    let snapshot = NewSnapshot::new(ExecutionSnapshot::new(next.state), None);
    let in_run = || Scope::Run(run.clone());
    let at_root = || Scope::Node(run.clone(), root.clone());
    let cause = Cause::Start(&run);

    let mut ledger = Ledger::new(session, EventIndex::FIRST, request.now_ms);
    ledger.add(
        Scope::Session,
        &[],
        EventData::SessionCreated { parent_session_id: request.parent_session_id },
    );
    ledger.add(
        in_run(),
        &[run.as_str()],
        EventData::RunStarted {
            workflow_id: request.workflow.workflow_id.clone(),
            workflow_hash,
            workflow_source_kind: request.source_kind,
            workflow_source_ref: request.source_ref,
        },
    );
    ledger.add(
        at_root(),
        &[run.as_str(), root.as_str()],
        EventData::NodeCreated {
            node_kind: NodeKind::Step,
            parent_node_id: None,
            workflow_hash,
            snapshot_ref: snapshot.named.reference(),
        },
    );
    let change_id = derive::preference_change_id(cause);
    ledger.add(
        at_root(),
        &[&change_id],
        EventData::PreferencesChanged {
            change_id: change_id.clone(),
            source: if request.preferences.is_some() {
                PreferenceSource::User
            } else {
                PreferenceSource::System
            },
            delta: vec![
                PreferenceChange::Autonomy(preferences.autonomy),
                PreferenceChange::RiskPolicy(preferences.risk_policy),
            ],
            effective: preferences,
        },
    );
    let context_id = derive::context_id(cause);
    ledger.add(
        in_run(),
        &[context_id.as_str()],
        EventData::ContextSet {
            context_id: context_id.clone(),
            context: initial,
            source: ContextSource::Initial,
            resent_keys: Vec::new(),
        },
    );
    for (key, value) in request.observations {
        let digest = canon::digest::Digest::of_bytes(value.text().as_bytes()).to_hex();
        ledger.add(
            Scope::Session,
            &[key.as_str(), &digest],
            EventData::ObservationRecorded { key, value, confidence: Confidence::High },
        );
    }
    super::advance::add_trace(&mut ledger, &run, &root, cause, next.trace);
    let why = "Send it with `start_workflow`.";
    let of_inputs = missing
        .iter()
        .filter(|fault| request.workflow.inputs.contains_key(&fault.key))
        .map(|fault| Reason::of_context(fault, why, &first_step));
    let passed_over = next.passed_over.iter().flat_map(|obstacle| Reason::of_obstacle(obstacle, &first_step));
    let mut reasons: Vec<Reason> = of_inputs.collect();
    // Otherwise a step that requires an input would record the same key again.
    for reason in passed_over {
        if !reasons.iter().any(|known| known.reason == reason.reason) {
            reasons.push(reason);
        }
    }
    let passed_over = reasons.into_iter().map(|reason| reason.gap(GapSeverity::Critical));
    let exceeded = exceeded_recommendation(request.workflow, preferences);
    let gaps = passed_over.chain(exceeded.map(GapFacts::beyond_recommendation));
    for (index, GapFacts { severity, reason, summary, pointer }) in gaps.enumerate() {
        let gap_id = derive::gap_id(cause, index);
        ledger.add(
            at_root(),
            &[gap_id.as_str()],
            EventData::GapRecorded {
                gap_id: gap_id.clone(),
                severity,
                reason,
                summary,
                pointer,
                resolution: GapResolution::Unresolved,
                evidence_refs: Vec::new(),
            },
        );
    }
    Ok(Additions {
        events: ledger.into_events(),
        snapshots: vec![snapshot],
        artifacts: Vec::new(),
        node_id: root.clone(),
    })
}

/// The warning if the preferences exceed the author's recommendation. It never blocks.
pub(super) fn exceeded_recommendation(
    workflow: &CompiledWorkflow,
    preferences: Preferences,
) -> Option<String> {
    let autonomy = workflow.recommended_autonomy.is_some_and(|most| preferences.autonomy > most);
    let risk = workflow.recommended_risk_policy.is_some_and(|most| preferences.risk_policy > most);
    let what = match (autonomy, risk) {
        (false, false) => return None,
        (true, false) => "autonomy is",
        (false, true) => "risk policy is",
        (true, true) => "autonomy and risk policy are",
    };
    Some(format!("The {what} beyond what the workflow recommends."))
}
