//! An attempt to acknowledge the pending step.

mod disclose;

use canon::budget;
use serde_json::{Map, Value};

use super::amend::{self, Correction, Resolution};
use super::answers::AttemptAnswers;
use super::evidence::{self, Artifact, ContextUpdate, Evidence};
use super::ledger::Ledger;
use super::notes::KeptNotes;
use super::people::{self, PeopleAnswers, SubmittedOutput};
use super::reasons::{self, GapFacts, Reason};
use super::start::exceeded_recommendation;
use super::{Additions, EngineError, NewArtifact, NewSnapshot, context, verify};
use crate::derive::{self, Cause};
use crate::interpret::{self, OnObstacle, SelectionInput, visible_context};
use crate::project::open_gaps;
use crate::record::budgets::{BLOCKED_ATTEMPTS, SUMMARY_BYTES, TRACE_BYTES, TRACE_ENTRIES};
use crate::record::{
    AdvanceIntent, AdvanceOutcome, ArtifactRef, AttemptId, Autonomy, Block, BlockReason, Blocked,
    ContextSource, EdgeCause, EdgeCauseKind, EdgeKind, EngineState, EventData, EventId, ExecutionSnapshot,
    GapSeverity, NodeId, NodeKind, OutputChannel, OutputId, OutputPayload, Pending, PreferenceChange,
    PreferenceSource, Preferences, RunId, Scope, TraceEntry, TraceId, TraceKind,
};
use crate::state::{Node, Run, SessionState};
use crate::verification::Verification;
use crate::visit::Visit;
use crate::workflow::compiled::{CompiledWorkflow, Step};

/// The input of [`advance`].
#[derive(Clone, Debug)]
pub struct Advance<'a> {
    /// The applied log.
    pub state: &'a SessionState,
    pub node_id: &'a NodeId,
    /// The attempt in the token.
    pub attempt_id: &'a AttemptId,
    /// The pinned workflow.
    pub workflow: &'a CompiledWorkflow,
    /// The snapshot of the node.
    pub snapshot: &'a EngineState,
    /// The output of the step.
    pub output: Output,
    /// The changes to the context.
    pub context: Option<Map<String, Value>>,
    /// The new preferences, if they change.
    pub preferences: Option<Preferences>,
    /// The answers of people who were asked during this call.
    pub people: PeopleAnswers,
    /// The result of the host's verification, for a step that demands evidence.
    pub verification: Option<Verification>,
    /// The clock time in milliseconds. Informational.
    pub now_ms: u64,
}

/// The output of a step.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Notes about this step only.
    pub notes_markdown: Option<String>,
    /// Structured results.
    pub artifacts: Vec<Value>,
}

impl Advance<'_> {
    /// The preferences that this attempt is evaluated with.
    pub(super) fn effective_preferences(&self, node: &Node) -> Preferences {
        self.preferences.unwrap_or_else(|| self.state.current_preferences(node))
    }
}

/// Evaluates an attempt: the result is the next step, or a blocked attempt that says what is missing.
///
/// For a step that demands evidence, [`required_verification`](super::required_verification) returns what the
/// host must verify first.
///
/// # Errors
/// The attempt cannot be recorded at all; see [`EngineError`].
pub fn advance(request: &Advance<'_>) -> Result<Additions, EngineError> {
    let state = request.state;
    let judged = EvaluatedAttempt::of(request)?;
    let demand = judged.demand();
    let resent_keys = judged.resent_keys(request);
    let EvaluatedAttempt {
        node,
        run,
        step,
        preferences,
        merged,
        artifacts,
        values,
        notes,
        mut evidence,
        delegations: _,
    } = judged;
    let never_stops = preferences.autonomy == Autonomy::FullAutoNeverStop;
    if let Some(demand) = &demand {
        match &request.verification {
            Some(verification) => evidence.take_verification(demand, verification, &step.step_id)?,
            // Do not run commands for an attempt that is blocked anyway.
            None if evidence.blocks(preferences) => {}
            None => {
                let reason = "a step that requires verification was evaluated without it";
                return Err(EngineError::Inconsistent { reason });
            }
        }
    }
    let current = merged.as_ref().unwrap_or_else(|| state.context(&run.id));
    let resolutions = amend::resolutions(state, run, request.workflow, &values)?;
    let correction = amend::correction(request, node, current, &values)?;

    let wanted = request.preferences.filter(|wanted| *wanted != state.current_preferences(node));
    let exceeded = wanted.and_then(|wanted| exceeded_recommendation(request.workflow, wanted));
    let mut changes = Changes {
        context: merged.clone().filter(|merged| merged != state.context(&run.id)),
        resent_keys,
        // A branch from an earlier node records that stricter preferences of the run apply to it.
        preferences: Some(preferences).filter(|preferences| *preferences != node.preferences),
        gaps: exceeded.map(GapFacts::beyond_recommendation).into_iter().collect(),
    };
    let attempt = Attempt { state, node, run, attempt_id: request.attempt_id, now_ms: request.now_ms };
    let (tolerated, reasons): (Vec<&Reason>, Vec<&Reason>) =
        evidence.reasons.iter().partition(|reason| reasons::is_tolerated(&reason.reason, preferences));
    let block = |reasons: Vec<Reason>, artifacts, changes| {
        // A person reads the notes before they answer, or has answered about them.
        let awaits = |reason: &Reason| matches!(reason.reason, BlockReason::UserOnlyDependency { .. });
        let is_approval = reasons.iter().any(awaits) || !request.people.answers.is_empty();
        let notes = notes.as_ref().filter(|_| is_approval).map_or(Ok(None), KeptNotes::for_approval)?;
        let output = BlockedOutput { artifacts, notes };
        attempt.block(request.snapshot, &evidence, output, &reasons, changes)
    };
    if !reasons.is_empty() && !never_stops {
        return block(reasons.into_iter().cloned().collect(), artifacts, changes);
    }

    let input = SelectionInput {
        workflow: request.workflow,
        context: current,
        decision: evidence.decision,
        on_obstacle: if never_stops { OnObstacle::PassOver } else { OnObstacle::Stop },
    };
    let next = match interpret::proceed(input, request.snapshot) {
        Ok(next) => next,
        Err(obstacle) => {
            return block(Reason::of_obstacle(&obstacle, &step.step_id), artifacts, changes);
        }
    };
    let mut gaps: Vec<GapFacts> = Vec::new();
    gaps.extend(reasons::disclosed(&reasons).iter().map(|reason| reason.gap(GapSeverity::Critical)));
    gaps.extend(tolerated.into_iter().chain(&evidence.waived).map(|reason| reason.gap(GapSeverity::Warning)));
    let passed_over =
        next.passed_over.iter().flat_map(|obstacle| Reason::of_obstacle(obstacle, &step.step_id));
    let passed_over = passed_over.filter(|passed| !is_disclosed(state, run, &reasons, passed));
    gaps.extend(passed_over.map(|reason| reason.gap(GapSeverity::Critical)));
    gaps.append(&mut changes.gaps);
    changes.gaps = gaps;
    let whole_notes = notes.as_ref().map_or(Ok(None), KeptNotes::whole)?;
    let success = SuccessOutput { notes, whole_notes, resolutions, correction };
    Ok(attempt.succeed(next, &evidence, artifacts, changes, success))
}

/// An attempt, evaluated with everything that the caller sent.
pub(super) struct EvaluatedAttempt<'a> {
    node: &'a Node,
    run: &'a Run,
    pub(super) step: &'a Step,
    pub(super) preferences: Preferences,
    /// The context after the attempt, if it changes.
    merged: Option<Map<String, Value>>,
    artifacts: Vec<Artifact>,
    /// The artifacts that are evaluated.
    values: Vec<Value>,
    pub(super) notes: Option<KeptNotes<'a>>,
    pub(super) evidence: Evidence,
    /// Index and workflow of each delegation that applies.
    pub(super) delegations: Vec<(usize, String)>,
}

impl<'a> EvaluatedAttempt<'a> {
    pub(super) fn of(request: &'a Advance<'a>) -> Result<Self, EngineError> {
        let state = request.state;
        let missing = EngineError::Inconsistent { reason: "the node in the token is not in the log" };
        let node = state.node(request.node_id).ok_or_else(|| missing.clone())?;
        let run = state.run(&node.run_id).ok_or(missing)?;
        if let EngineState::Blocked(Blocked { blocked: Block::TerminalBlock { .. }, .. }) = request.snapshot {
            return Err(EngineError::TerminalBlock);
        }
        let pending = request.snapshot.pending().ok_or(EngineError::Complete)?;
        let step = request
            .workflow
            .step(&pending.step_id)
            .ok_or(EngineError::Inconsistent { reason: "the pending step is not in the pinned workflow" })?;

        let preferences = request.effective_preferences(node);
        let notes = request.output.notes_markdown.as_deref().and_then(KeptNotes::of);
        let mut artifacts = evidence::measure(people::claimed(request.output.artifacts.clone()))?;
        let submitted = SubmittedOutput::of_attempt(notes.as_ref(), &artifacts);
        // The host wrote it, so the caller's limit does not apply.
        artifacts.append(&mut evidence::measure(request.people.artifacts(submitted))?);
        let values: Vec<Value> = artifacts.iter().map(|artifact| artifact.value.clone()).collect();
        let before = state.context(&run.id);
        let mut merged = match &request.context {
            Some(delta) => Some(context::merge(before, delta)?),
            None => None,
        };
        let stack = stack_of(request);
        let visit = Visit::at(state, request.workflow, node, request.snapshot, before);
        if let Some(after) = &merged {
            let (before, after) = (
                visible_context(request.workflow, before, stack),
                visible_context(request.workflow, after, stack),
            );
            if let Some(key) = visit.replaced_list(step, &before, &after) {
                return Err(EngineError::HandedOutList { key: key.to_owned() });
            }
        }
        let update = ContextUpdate {
            declared: request.workflow.declared_keys(),
            context: before,
            sent: request.context.as_ref(),
            visit: &visit,
            autonomy: preferences.autonomy,
        };
        // A run that never stops continues without the keys that were not sent. Their earlier values must not
        // decide which steps it skips.
        let context = merged.as_ref().unwrap_or(before);
        let earlier = ContextUpdate { context, ..update }.earlier_keys(step);
        if preferences.autonomy == Autonomy::FullAutoNeverStop && !earlier.is_empty() {
            merged.get_or_insert_with(|| before.clone()).retain(|key, _| !earlier.contains(key));
        }
        let current = merged.as_ref().unwrap_or(before);
        let visible = visible_context(request.workflow, current, stack);
        let known = |capability| state.capability_at(&node.id, capability).strong.map(|seen| seen.status);
        let innermost = stack.last().map(|frame| &frame.loop_id);
        // Evaluate exactly what will be stored. Otherwise truncated evidence would be accepted but not
        // recorded.
        let kept = notes.as_ref().map(|notes| notes.judged(preferences.autonomy));
        let mut evidence = evidence::judge(request.workflow, step, innermost, kept, &values, &visible, known);
        evidence.take_context(step, &ContextUpdate { context: current, ..update });
        // An invalid list is a reason to block, and nothing is delegated.
        let delegations = visit.delegations(step, &visible).unwrap_or_else(|fault| {
            evidence.reasons.push(verify::list_reason(fault, &step.step_id));
            Vec::new()
        });
        let delegations =
            delegations.iter().map(|one| (one.index, one.delegation.workflow_id.clone())).collect();
        evidence.reasons.extend(notes.as_ref().and_then(|notes| notes.too_long(&step.step_id)));
        let lacks_notes =
            evidence.reasons.iter().any(|reason| matches!(reason.reason, BlockReason::MissingNotes { .. }));
        let answered = AttemptAnswers {
            sent: values.iter().collect(),
            recorded: people::recorded(state, node),
            unanswered: request.people.unanswered,
            session_id: state.session_id(),
            output: (!lacks_notes).then_some(submitted),
        };
        evidence.take_answers(step, &answered, &visible, preferences.autonomy);
        Ok(Self { node, run, step, preferences, merged, artifacts, values, notes, evidence, delegations })
    }

    /// The keys of the step that the caller sent with the value that they already had.
    fn resent_keys(&self, request: &Advance<'_>) -> Vec<String> {
        let before = request.state.context(&self.run.id);
        let sent = request.context.iter().flatten();
        let resent = sent.filter(|(key, value)| {
            self.step.produces_context.contains_key(*key) && before.get(*key) == Some(value)
        });
        resent.map(|(key, _)| key.clone()).collect()
    }
}

/// The loops around the pending step.
fn stack_of<'r>(request: &Advance<'r>) -> &'r [crate::record::LoopFrame] {
    request.snapshot.progress().map(|(_, stack)| stack.as_slice()).unwrap_or_default()
}

/// Whether a missing context key is already disclosed as a gap, by this call or by an open gap. Otherwise
/// every step that requires the key would record it again.
fn is_disclosed(state: &SessionState, run: &Run, reasons: &[&Reason], passed: &Reason) -> bool {
    matches!(passed.reason, BlockReason::MissingContextKey { .. })
        && (reasons.iter().any(|reason| reason.reason == passed.reason)
            || open_gaps(state, run).any(|gap| {
                gap.severity == GapSeverity::Critical && gap.pointer.as_ref() == Some(&passed.blocker.pointer)
            }))
}

/// A validated attempt.
struct Attempt<'a> {
    state: &'a SessionState,
    node: &'a Node,
    run: &'a Run,
    attempt_id: &'a AttemptId,
    now_ms: u64,
}

/// What an attempt changes, whether or not its step is accepted.
struct Changes {
    context: Option<Map<String, Value>>,
    /// The keys of the step that were sent with the value that they already had.
    resent_keys: Vec<String>,
    preferences: Option<Preferences>,
    /// The reasons that the session continues in spite of.
    gaps: Vec<GapFacts>,
}

/// What a blocked attempt submitted.
struct BlockedOutput {
    artifacts: Vec<Artifact>,
    /// The notes, if a person has to approve them.
    notes: Option<Artifact>,
}

/// What only a successful attempt adds.
struct SuccessOutput<'a> {
    notes: Option<KeptNotes<'a>>,
    /// The complete notes as an artifact, if they are longer than a recap.
    whole_notes: Option<Artifact>,
    resolutions: Vec<Resolution>,
    correction: Option<Correction>,
}

impl Attempt<'_> {
    /// Adds a blocked node that says what is missing. Artifacts, context and preferences are kept and apply
    /// from now on. Notes are kept only for the person who has to approve them, because the step is not done.
    fn block(
        &self,
        snapshot: &EngineState,
        evidence: &Evidence,
        output: BlockedOutput,
        reasons: &[Reason],
        changes: Changes,
    ) -> Result<Additions, EngineError> {
        if self.node.blocked_chain >= BLOCKED_ATTEMPTS {
            return Err(EngineError::TooManyBlocks { count: self.node.blocked_chain });
        }
        let inconsistent = |reason| EngineError::Inconsistent { reason };
        let first = reasons.first().ok_or(inconsistent("a block without a reason"))?;
        let (completed, loop_stack) = snapshot.progress().ok_or(inconsistent("no step is pending"))?;
        let pending = snapshot.pending().cloned().ok_or(inconsistent("no step is pending"))?;
        let blockers = reasons::report(reasons).map_err(|_| inconsistent("a blocker exceeds its budget"))?;
        let to = self.next_node();
        let validation_ref = evidence.validation.as_ref().map(|_| derive::validation_id(self.attempt_id, 0));
        let blocked = if reasons::is_retryable(&first.reason) {
            Block::RetryableBlock {
                reason: first.reason.clone(),
                retry_attempt_id: derive::retry_attempt_id(self.state.session_id(), &to),
                validation_ref,
                blockers,
            }
        } else {
            Block::TerminalBlock { reason: first.reason.clone(), validation_ref, blockers }
        };
        let snapshot = NewSnapshot::new(
            ExecutionSnapshot::new(EngineState::Blocked(Blocked {
                completed: completed.clone(),
                loop_stack: loop_stack.clone(),
                pending: Pending::Some { step: pending },
                blocked,
            })),
            Some(self.node.snapshot_ref),
        );

        let mut ledger = self.ledger();
        let recorded = self.record_outcome(&mut ledger, &to);
        self.add_validation(&mut ledger, evidence);
        self.add_gaps(&mut ledger, changes.gaps, Vec::new(), &recorded);
        // The visit continues, so the log has to say which keys it need not send again.
        let context = changes.context.or_else(|| {
            let current = || self.state.context(&self.run.id).clone();
            (!changes.resent_keys.is_empty()).then(current)
        });
        self.add_context(&mut ledger, context, changes.resent_keys);
        self.add_observations(&mut ledger, evidence);
        self.add_node(&mut ledger, &to, NodeKind::BlockedAttempt, &snapshot, recorded);
        self.add_preferences(&mut ledger, &to, changes.preferences);
        let mut artifacts = self.add_artifacts(&mut ledger, &to, output.artifacts);
        self.add_whole_notes(&mut ledger, &to, output.notes, &mut artifacts.stored);
        self.add_verification(&mut ledger, &to, evidence, &mut artifacts.stored);
        self.add_assessments(&mut ledger, &to, evidence, &artifacts.ids);
        Ok(Additions {
            events: ledger.into_events(),
            snapshots: vec![snapshot],
            artifacts: artifacts.stored,
            node_id: to,
        })
    }

    fn succeed(
        &self,
        next: interpret::Next,
        evidence: &Evidence,
        artifacts: Vec<Artifact>,
        changes: Changes,
        success: SuccessOutput<'_>,
    ) -> Additions {
        let to = self.next_node();
        let complete = next.state.is_complete();
        let snapshot = NewSnapshot::new(ExecutionSnapshot::new(next.state), Some(self.node.snapshot_ref));
        let cause = Cause::Attempt(self.attempt_id);
        let at_node = || Scope::Node(self.run.id.clone(), self.node.id.clone());

        let mut ledger = self.ledger();
        let recorded = self.record_outcome(&mut ledger, &to);
        self.add_validation(&mut ledger, evidence);
        let open_critical_gaps =
            changes.open_critical_gaps(self.run.open_critical_gaps, &success.resolutions);
        self.add_gaps(&mut ledger, changes.gaps, success.resolutions, &recorded);
        self.add_context(&mut ledger, changes.context, Vec::new());
        self.add_observations(&mut ledger, evidence);
        for (index, divergence) in evidence.divergences.iter().enumerate() {
            let divergence_id = derive::divergence_id(self.attempt_id, index);
            ledger.add(
                at_node(),
                &[&divergence_id],
                EventData::DivergenceRecorded {
                    divergence_id: divergence_id.clone(),
                    reason: divergence.reason,
                    summary: budget::truncate(&divergence.summary, SUMMARY_BYTES).into_owned(),
                    related_step_id: divergence.related_step_id.clone(),
                },
            );
        }
        let mut trace = next.trace;
        if self.node.child_count(EdgeKind::AckedStep) > 0 {
            trace.push(TraceEntry {
                kind: TraceKind::DetectedNonTipAdvance,
                summary: "this node was advanced before: a new branch begins here".to_owned(),
                refs: Vec::new(),
            });
        }
        add_trace(&mut ledger, &self.run.id, &self.node.id, cause, trace);
        if let Some(correction) = success.correction {
            self.add_correction(&mut ledger, correction);
        }
        self.add_node(&mut ledger, &to, NodeKind::Step, &snapshot, recorded);
        self.add_preferences(&mut ledger, &to, changes.preferences);
        if let Some(notes) = success.notes {
            let output_id = derive::recap_output_id(self.attempt_id);
            ledger.add(
                Scope::Node(self.run.id.clone(), to.clone()),
                &[output_id.as_str()],
                EventData::NodeOutputAppended {
                    output_id: output_id.clone(),
                    supersedes_output_id: None,
                    output_channel: OutputChannel::Recap,
                    payload: notes.payload(),
                },
            );
        }
        let mut artifacts = self.add_artifacts(&mut ledger, &to, artifacts);
        self.add_whole_notes(&mut ledger, &to, success.whole_notes, &mut artifacts.stored);
        self.add_verification(&mut ledger, &to, evidence, &mut artifacts.stored);
        self.add_assessments(&mut ledger, &to, evidence, &artifacts.ids);
        if complete {
            ledger.add(
                Scope::Run(self.run.id.clone()),
                &[self.run.id.as_str(), to.as_str()],
                EventData::RunCompleted { tip_node_id: to.clone(), open_critical_gaps },
            );
        }
        Additions {
            events: ledger.into_events(),
            snapshots: vec![snapshot],
            artifacts: artifacts.stored,
            node_id: to,
        }
    }

    fn next_node(&self) -> NodeId {
        derive::advance_node_id(self.state.session_id(), &self.run.id, &self.node.id, self.attempt_id)
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(self.state.session_id().clone(), self.state.next_index(), self.now_ms)
    }

    fn record_outcome(&self, ledger: &mut Ledger, to: &NodeId) -> EventId {
        ledger.add(
            Scope::Node(self.run.id.clone(), self.node.id.clone()),
            &[self.node.id.as_str(), self.attempt_id.as_str()],
            EventData::AdvanceRecorded {
                attempt_id: self.attempt_id.clone(),
                intent: AdvanceIntent::AckPending,
                outcome: AdvanceOutcome::Advanced { to_node_id: to.clone() },
            },
        )
    }

    fn add_context(
        &self,
        ledger: &mut Ledger,
        context: Option<Map<String, Value>>,
        resent_keys: Vec<String>,
    ) {
        if let Some(context) = context {
            let context_id = derive::context_id(Cause::Attempt(self.attempt_id));
            ledger.add(
                Scope::Run(self.run.id.clone()),
                &[context_id.as_str()],
                EventData::ContextSet {
                    context_id: context_id.clone(),
                    context,
                    source: ContextSource::AgentDelta,
                    resent_keys,
                },
            );
        }
    }

    /// Records the preferences that apply from the node `to` on.
    fn add_preferences(&self, ledger: &mut Ledger, to: &NodeId, wanted: Option<Preferences>) {
        if let Some(wanted) = wanted {
            let change_id = derive::preference_change_id(Cause::Attempt(self.attempt_id));
            ledger.add(
                Scope::Node(self.run.id.clone(), to.clone()),
                &[&change_id],
                EventData::PreferencesChanged {
                    change_id: change_id.clone(),
                    source: PreferenceSource::User,
                    delta: changed(self.node.preferences, wanted),
                    effective: wanted,
                },
            );
        }
    }

    fn add_validation(&self, ledger: &mut Ledger, evidence: &Evidence) {
        if let Some((contract_ref, result)) = &evidence.validation {
            let validation_id = derive::validation_id(self.attempt_id, 0);
            ledger.add(
                Scope::Node(self.run.id.clone(), self.node.id.clone()),
                &[&validation_id],
                EventData::ValidationPerformed {
                    validation_id: validation_id.clone(),
                    attempt_id: self.attempt_id.clone(),
                    contract_ref: contract_ref.clone(),
                    result: result.clone(),
                },
            );
        }
    }

    fn add_observations(&self, ledger: &mut Ledger, evidence: &Evidence) {
        for (index, seen) in evidence.capabilities.iter().enumerate() {
            let cap_obs_id = derive::capability_observation_id(self.attempt_id, index);
            ledger.add(
                Scope::Node(self.run.id.clone(), self.node.id.clone()),
                &[&cap_obs_id],
                EventData::CapabilityObserved {
                    cap_obs_id: cap_obs_id.clone(),
                    capability: seen.capability,
                    status: seen.status,
                    provenance: seen.provenance.clone(),
                },
            );
        }
    }

    fn add_node(
        &self,
        ledger: &mut Ledger,
        to: &NodeId,
        kind: NodeKind,
        snapshot: &NewSnapshot,
        cause: EventId,
    ) {
        ledger.add(
            Scope::Node(self.run.id.clone(), to.clone()),
            &[self.run.id.as_str(), to.as_str()],
            EventData::NodeCreated {
                node_kind: kind,
                parent_node_id: Some(self.node.id.clone()),
                workflow_hash: self.run.workflow_hash,
                snapshot_ref: snapshot.named.reference(),
            },
        );
        // Only advances count: a checkpoint of a node does not make its first advance a fork.
        let cause_kind = match self.node.child_count(EdgeKind::AckedStep) {
            0 => EdgeCauseKind::FirstAdvance,
            _ => EdgeCauseKind::NonTipAdvance,
        };
        ledger.add(
            Scope::Run(self.run.id.clone()),
            &[self.run.id.as_str(), &format!("{}->{to}", self.node.id), EdgeKind::AckedStep.as_str()],
            EventData::EdgeCreated {
                edge_kind: EdgeKind::AckedStep,
                from_node_id: self.node.id.clone(),
                to_node_id: to.clone(),
                cause: EdgeCause { kind: cause_kind, event_id: cause },
            },
        );
    }

    /// Adds artifacts in the order of their digests. Small ones are stored inside the event.
    fn add_artifacts(&self, ledger: &mut Ledger, to: &NodeId, artifacts: Vec<Artifact>) -> AddedArtifacts {
        let mut ordered: Vec<(usize, Artifact)> = artifacts.into_iter().enumerate().collect();
        ordered.sort_by(|(a, one), (b, other)| one.sha256.cmp(&other.sha256).then(a.cmp(b)));
        let mut added = AddedArtifacts { ids: Vec::new(), stored: Vec::new() };
        for (index, artifact) in ordered {
            let output_id = derive::artifact_output_id(self.attempt_id, index);
            self.add_artifact(ledger, to, &output_id, artifact, &mut added.stored);
            added.ids.push((index, output_id));
        }
        added
    }

    /// Records complete notes: those that a recap truncates, or those that a person has to approve.
    fn add_whole_notes(
        &self,
        ledger: &mut Ledger,
        to: &NodeId,
        notes: Option<Artifact>,
        stored: &mut Vec<NewArtifact>,
    ) {
        if let Some(notes) = notes {
            let output_id = derive::whole_notes_output_id(self.attempt_id);
            self.add_artifact(ledger, to, &output_id, notes, stored);
        }
    }

    /// Records the host's verification, whether or not it passed.
    fn add_verification(
        &self,
        ledger: &mut Ledger,
        to: &NodeId,
        evidence: &Evidence,
        stored: &mut Vec<NewArtifact>,
    ) {
        if let Some(verification) = &evidence.verification {
            let output_id = derive::verification_output_id(self.attempt_id);
            self.add_artifact(ledger, to, &output_id, verification.clone(), stored);
        }
    }

    fn add_artifact(
        &self,
        ledger: &mut Ledger,
        to: &NodeId,
        output_id: &OutputId,
        artifact: Artifact,
        stored: &mut Vec<NewArtifact>,
    ) {
        let inline = artifact.is_inline();
        ledger.add(
            Scope::Node(self.run.id.clone(), to.clone()),
            &[output_id.as_str()],
            EventData::NodeOutputAppended {
                output_id: output_id.clone(),
                supersedes_output_id: None,
                output_channel: OutputChannel::Artifact,
                payload: OutputPayload::ArtifactRef(ArtifactRef {
                    sha256: artifact.sha256,
                    content_type: "application/json".to_owned(),
                    byte_length: artifact.bytes.len() as u64,
                    content: inline.then_some(artifact.value),
                }),
            },
        );
        if !inline && !stored.iter().any(|stored| stored.sha256 == artifact.sha256) {
            stored.push(NewArtifact { sha256: artifact.sha256, bytes: artifact.bytes });
        }
    }

    fn add_assessments(
        &self,
        ledger: &mut Ledger,
        to: &NodeId,
        evidence: &Evidence,
        outputs: &[(usize, OutputId)],
    ) {
        let scope = || Scope::Node(self.run.id.clone(), to.clone());
        for assessed in &evidence.assessments {
            let Some((_, output_id)) = outputs.iter().find(|(index, _)| *index == assessed.artifact_index)
            else {
                continue;
            };
            let key = assessment_key(&assessed.assessment_id);
            ledger.add(
                scope(),
                &[self.attempt_id.as_str(), &key],
                EventData::AssessmentRecorded {
                    assessment_id: assessed.assessment_id.clone(),
                    attempt_id: self.attempt_id.clone(),
                    artifact_output_id: output_id.clone(),
                    summary: assessed.summary.clone(),
                    normalization_notes: assessed.normalization_notes.clone(),
                    dimensions: assessed.dimensions.clone(),
                },
            );
        }
        for (index, fired) in evidence.followups.iter().enumerate() {
            let trigger = [(fired.dimension_id.clone(), fired.level.clone())].into_iter().collect();
            ledger.add(
                scope(),
                &[self.attempt_id.as_str(), &index.to_string()],
                EventData::AssessmentConsequenceApplied {
                    attempt_id: self.attempt_id.clone(),
                    assessment_id: fired.assessment_id.clone(),
                    trigger,
                    guidance: fired.guidance.clone(),
                },
            );
        }
    }
}

struct AddedArtifacts {
    /// The output of each artifact, by its index in the call.
    ids: Vec<(usize, OutputId)>,
    stored: Vec<NewArtifact>,
}

/// An author's id, encoded for a dedupe key.
fn assessment_key(id: &str) -> String {
    canon::digest::Digest::of_bytes(id.as_bytes()).to_hex()[..16].to_owned()
}

/// Records why the engine decided as it did, in as many events as the budget requires.
pub(super) fn add_trace(
    ledger: &mut Ledger,
    run: &RunId,
    node: &NodeId,
    cause: Cause<'_>,
    mut entries: Vec<TraceEntry>,
) {
    let first = derive::trace_id(cause);
    for entry in &mut entries {
        entry.summary = budget::truncate(&entry.summary, TRACE_BYTES / TRACE_ENTRIES / 2).into_owned();
    }
    for (number, chunk) in within_budget(entries).into_iter().enumerate() {
        let trace_id = match number {
            0 => first.clone(),
            _ => TraceId::derived(&["more", first.as_str(), &number.to_string()]),
        };
        ledger.add(
            Scope::Node(run.clone(), node.clone()),
            &[trace_id.as_str()],
            EventData::DecisionTraceAppended { trace_id: trace_id.clone(), entries: chunk },
        );
    }
}

/// Divides entries into events of at most 25 entries and 8192 bytes.
fn within_budget(entries: Vec<TraceEntry>) -> Vec<Vec<TraceEntry>> {
    let mut chunks: Vec<Vec<TraceEntry>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let more = canon::canonical::to_string(&entry).map_or(0, |text| text.len() + 1);
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < TRACE_ENTRIES && bytes + more < TRACE_BYTES => {
                bytes += more;
                chunk.push(entry);
            }
            Some(_) | None => {
                bytes = more;
                chunks.push(vec![entry]);
            }
        }
    }
    chunks
}

fn changed(from: Preferences, to: Preferences) -> Vec<PreferenceChange> {
    let mut delta = Vec::new();
    if from.autonomy != to.autonomy {
        delta.push(PreferenceChange::Autonomy(to.autonomy));
    }
    if from.risk_policy != to.risk_policy {
        delta.push(PreferenceChange::RiskPolicy(to.risk_policy));
    }
    delta
}
