//! Building the answer from recorded facts.

use std::sync::Arc;

use guide::derive;
use guide::interpret::visible_context;
use guide::project::preferred_tip;
use guide::project::recap::{
    BranchSummary, RecapEntry, ancestor_recap, branch_summary, has_moved_on, is_newest_place,
};
use guide::record::{AttemptId, Autonomy, Block, EngineState, ExecutionSnapshot, NodeKind};
use guide::render::{self, Citing, Facts, Occasion, Recovery};
use guide::state::{Node, Run};
use guide::token::{self, AckPayload, CheckpointPayload, Keyring, Position, StatePayload, Token};
use guide::workflow::compiled::CompiledWorkflow;
use guide::workflow::needs::needs;
use serde_json::{Map, Value, json};

use super::api::{BlockedReply, NextCall, NextIntent, PendingStep, Reply, ReplyKind, RunWords, Validation};
use super::sessions::Session;
use super::{cut_notes, gaps, missing_context};

/// How much of a goal a description repeats.
const GOAL_CHARACTERS: usize = 120;

/// When a reply is given, which decides what it is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The run began.
    Start,
    /// A step was acknowledged, now or earlier: a replay gives the same bytes.
    Advance,
    /// Somebody came back.
    Return,
}

/// Everything that a reply is made of.
pub(super) struct Ingredients<'a> {
    pub(super) session: &'a Session,
    pub(super) run: &'a Run,
    pub(super) node: &'a Node,
    pub(super) workflow: &'a CompiledWorkflow,
    pub(super) snapshot: &'a ExecutionSnapshot,
    pub(super) keyring: &'a Keyring,
    pub(super) moment: Moment,
}

/// The answer about a node.
pub(super) fn reply(ingredients: &Ingredients<'_>) -> Reply {
    let Ingredients { session, run, node, workflow, snapshot, moment, .. } = *ingredients;
    let state = snapshot.state();
    // What was true then is what a replay tells; who comes back wants to know what is true now.
    let context: Arc<Map<String, Value>> = match moment {
        Moment::Start | Moment::Advance => session.context_of(node),
        Moment::Return => Arc::new(session.state.context(&run.id).clone()),
    };
    let recovery = (moment == Moment::Return).then(|| recovery(ingredients));
    let occasion = match (&recovery, moment) {
        (Some(recovery), _) => Occasion::Return(recovery),
        (None, Moment::Start) => Occasion::Start,
        (None, _) => Occasion::Advance,
    };
    let pending =
        render::pending(Facts { workflow, state, context: &context, occasion }).map(|step| PendingStep {
            step_id: step.step_id,
            title: step.title,
            prompt: step.prompt,
            agent_role: step.agent_role,
            model_tier: step.model_tier,
        });
    let terminal = matches!(
        state,
        EngineState::Blocked(guide::record::Blocked { blocked: Block::TerminalBlock { .. }, .. })
    );
    let tokens = Tokens::of(ingredients, pending.is_some() && !terminal);
    let is_complete = state.is_complete();
    let blocked = blocked(ingredients, &tokens);
    let next_intent = if is_complete || pending.is_none() {
        NextIntent::Complete
    } else if terminal {
        // Only a person can help now.
        NextIntent::AwaitUserConfirmation
    } else if moment == Moment::Return {
        NextIntent::RehydrateOnly
    } else if awaits_user(workflow, state, &context, node.preferences.autonomy) {
        NextIntent::AwaitUserConfirmation
    } else {
        NextIntent::PerformPendingThenContinue
    };
    let wanted = missing_context::wanted(workflow, state, &context);
    let next_call = tokens.short.as_ref().map(|token| {
        let mut params = json!({"continueToken": token, "intent": "advance"});
        if !wanted.is_empty() {
            params["context"] = wanted.into();
        }
        NextCall { tool: "continue_workflow", params }
    });
    let mut warnings = gaps::warnings(ingredients);
    warnings.extend(cut_notes::warnings(ingredients));
    Reply {
        // Somebody who only asks where the run is was refused nothing.
        kind: if blocked.is_some() && moment == Moment::Advance { ReplyKind::Blocked } else { ReplyKind::Ok },
        run: run_words(session, run, node, workflow, state),
        continue_token: tokens.short,
        state_token: tokens.state,
        ack_token: tokens.ack,
        checkpoint_token: tokens.checkpoint,
        is_complete,
        pending,
        preferences: node.preferences,
        next_intent,
        next_call,
        latest_call: latest_call(ingredients),
        blocked,
        step_context: step_context(node),
        open_gaps: gaps::open(ingredients),
        warnings,
    }
}

/// A run in words.
pub(super) fn run_words(
    session: &Session,
    run: &Run,
    node: &Node,
    workflow: &CompiledWorkflow,
    state: &EngineState,
) -> RunWords {
    let goal = session.context_of(node).get("goal").and_then(Value::as_str).unwrap_or_default().to_owned();
    let steps = u32::try_from(workflow.steps.len()).unwrap_or(u32::MAX);
    let shown: String = goal.chars().take(GOAL_CHARACTERS).collect();
    let pending = state.pending().map(|pending| &pending.step_id);
    let place = pending.and_then(|id| workflow.step_place(id));
    let step = place.map_or(steps, |place| u32::try_from(place + 1).unwrap_or(u32::MAX));
    let progress =
        if state.is_complete() { "complete".to_owned() } else { format!("step {step} of {steps}") };
    RunWords {
        session_id: session.state.session_id().to_string(),
        run_id: run.id.to_string(),
        workflow_id: run.workflow_id.clone(),
        workflow_name: workflow.name.clone(),
        description: format!("{} (goal: {shown}), {progress}", workflow.name),
        goal,
        step,
        steps,
    }
}

struct Tokens {
    short: Option<String>,
    state: String,
    ack: Option<String>,
    checkpoint: Option<String>,
}

impl Tokens {
    fn of(ingredients: &Ingredients<'_>, goes_on: bool) -> Self {
        let Ingredients { session, run, node, keyring, moment, .. } = *ingredients;
        let session_id = session.state.session_id().clone();
        // A reply to an advance offers the first attempt on the new node, however often it was made since.
        let (attempts, checkpoints) = match moment {
            Moment::Start | Moment::Advance => (0, 0),
            Moment::Return => (node.attempts() as u64, u64::from(node.checkpoint_count())),
        };
        let attempt_id = derive::attempt_id(&session_id, &node.id, attempts);
        let state = Token::State(StatePayload {
            session_id: session_id.clone(),
            run_id: run.id.clone(),
            node_id: node.id.clone(),
            workflow_hash: run.workflow_hash,
        });
        let ack = |attempt_id: AttemptId| {
            Token::Ack(AckPayload {
                session_id: session_id.clone(),
                run_id: run.id.clone(),
                node_id: node.id.clone(),
                attempt_id,
            })
        };
        let checkpoint = Token::Checkpoint(CheckpointPayload {
            session_id: session_id.clone(),
            run_id: run.id.clone(),
            node_id: node.id.clone(),
            attempt_id: derive::checkpoint_attempt_id(&session_id, &node.id, checkpoints),
        });
        let position = Position {
            session_id: session_id.clone(),
            run_id: run.id.clone(),
            node_id: node.id.clone(),
            attempt_id: attempt_id.clone(),
        };
        Self {
            short: goes_on.then(|| token::mint_short(keyring, &position)),
            state: token::mint(keyring, &state),
            ack: goes_on.then(|| token::mint(keyring, &ack(attempt_id))),
            checkpoint: goes_on.then(|| token::mint(keyring, &checkpoint)),
        }
    }
}

fn blocked(ingredients: &Ingredients<'_>, tokens: &Tokens) -> Option<BlockedReply> {
    let EngineState::Blocked(state) = ingredients.snapshot.state() else { return None };
    let (blockers, validation_ref, retryable) = match &state.blocked {
        Block::RetryableBlock { blockers, validation_ref, .. } => (blockers.clone(), validation_ref, true),
        Block::TerminalBlock { blockers, validation_ref, .. } => (blockers.clone(), validation_ref, false),
    };
    // The very check of this attempt: its node may have been attempted again since.
    let checks = ingredients.session.state.parent_of(ingredients.node).map(|parent| &parent.validations);
    let validation = checks
        .into_iter()
        .flatten()
        .find(|check| validation_ref.as_ref() == Some(&check.validation_id) && !check.result.valid)
        .map(|check| Validation {
            issues: check.result.issues.clone(),
            suggestions: check.result.suggestions.clone(),
        });
    Some(BlockedReply {
        blockers,
        retryable: retryable.then_some(true),
        retry_continue_token: tokens.short.clone().filter(|_| retryable),
        validation,
    })
}

/// The call that shows the newest place of the run, for somebody who came back to an earlier one.
fn latest_call(ingredients: &Ingredients<'_>) -> Option<NextCall> {
    let Ingredients { session, run, node, keyring, moment, .. } = *ingredients;
    if moment != Moment::Return || is_newest_place(&session.state, run, node) {
        return None;
    }
    let state = StatePayload {
        session_id: session.state.session_id().clone(),
        run_id: run.id.clone(),
        node_id: preferred_tip(&session.state, run)?.id.clone(),
        workflow_hash: run.workflow_hash,
    };
    let token = token::mint(keyring, &Token::State(state));
    Some(NextCall {
        tool: "continue_workflow",
        params: json!({"continueToken": token, "intent": "rehydrate"}),
    })
}

/// Whether a run of this autonomy stops for what the pending step needs of the user.
fn awaits_user(
    workflow: &CompiledWorkflow,
    state: &EngineState,
    context: &Map<String, Value>,
    autonomy: Autonomy,
) -> bool {
    let Some((pending, (_, stack))) = state.pending().zip(state.progress()) else { return false };
    let context = visible_context(workflow, context, stack);
    workflow
        .step(&pending.step_id)
        .is_some_and(|step| needs(step, &context).iter().any(|need| need.stops(autonomy)))
}

/// Facts about the step just completed; only assessments so far.
fn step_context(node: &Node) -> Option<Value> {
    if node.assessments.is_empty() {
        return None;
    }
    let assessments: Vec<Value> = node
        .assessments
        .iter()
        .map(|assessment| json!({"assessmentId": assessment.assessment_id, "dimensions": assessment.dimensions}))
        .collect();
    Some(json!({"assessments": assessments}))
}

/// What somebody needs who comes back.
fn recovery(ingredients: &Ingredients<'_>) -> Recovery {
    let Ingredients { session, run, node, workflow, snapshot, .. } = *ingredients;
    let budget = guide::record::budgets::RECOVERY_BYTES;
    let summary = branch_summary(&session.state, run, node, budget / 4);
    let downstream: Vec<&str> = summary
        .iter()
        .flat_map(|summary| &summary.downstream.entries)
        .map(|entry| entry.text.as_str())
        .collect();
    let branches = summary.as_ref().and_then(|summary| branches(node, summary));
    let entitled = |entry: RecapEntry| {
        // Notes stand on the node that they led to; they are about the step before it.
        let led_to = session.state.node(&entry.node_id).is_some_and(|node| node.kind == NodeKind::Step);
        let step = if led_to { entry.step_ordinal.saturating_sub(1) } else { entry.step_ordinal };
        (format!("step {step} of this path"), entry.text)
    };
    let recap = ancestor_recap(&session.state, node, budget);
    let notes = recap.entries.into_iter().map(entitled).collect();
    let pending = snapshot.state().pending();
    let loops: Vec<&str> =
        pending.iter().flat_map(|pending| &pending.loop_path).map(|entry| entry.loop_id.as_str()).collect();
    let step = pending.and_then(|pending| workflow.step(&pending.step_id));
    let citing = step.map(|step| Citing { step, loops: &loops });
    let functions = render::recovered_functions(workflow, citing, &downstream.join("\n"));
    let later = summary.map(|summary| summary.downstream.entries).unwrap_or_default();
    let later = later.into_iter().map(entitled).collect();
    Recovery { branches, later, notes, functions }
}

/// What was made from a node, and what advancing it means now.
fn branches(node: &Node, summary: &BranchSummary) -> Option<String> {
    let counted = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {many}")),
    };
    let mut sentences = Vec::new();
    if has_moved_on(node) {
        let made = [
            counted(summary.steps, "step", "steps"),
            counted(summary.blocked_attempts, "blocked attempt", "blocked attempts"),
        ];
        let made: Vec<String> = made.into_iter().flatten().collect();
        sentences.push(format!(
            "This place was advanced before ({}). Advancing it again makes a new branch.",
            made.join(" and ")
        ));
    }
    if let Some(checkpoints) = counted(summary.checkpoints, "checkpoint", "checkpoints") {
        sentences.push(format!("It has {checkpoints}; checkpoints make no branch."));
    }
    if !summary.on_preferred_branch {
        sentences.push("It is not on the branch that was worked on last.".to_owned());
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}
