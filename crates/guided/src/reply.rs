//! Builds a reply from recorded facts.

use std::sync::Arc;

use guide::derive;
use guide::interpret::visible_context;
use guide::project::arrival::{self, StepPlace};
use guide::project::preferred_tip;
use guide::project::recap::{
    BranchSummary, RecapEntry, ancestor_recap, branch_summary, has_moved_on, is_newest_place,
};
use guide::record::{
    AttemptId, Autonomy, Block, BlockerCode, EngineState, ExecutionSnapshot, LoopFrame, NodeId, NodeKind,
};
use guide::render::{self, Citing, Occasion, PromptInput, Recovery};
use guide::state::{Node, Run, SessionState};
use guide::token::{self, AckPayload, CheckpointPayload, Keyring, Position, StatePayload, Token};
use guide::visit::Visit;
use guide::workflow::compiled::{CompiledWorkflow, Step};
use guide::workflow::needs::needs;
use serde_json::{Map, Value, json};

use super::api::{
    BlockedReply, KeyWords, NextCall, NextIntent, PendingStep, Reply, ReplyKind, RunWords, SkippedWords,
    TOKEN_NOTE, Validation,
};
use super::sessions::Session;
use super::{children, cut_notes, gaps, missing_context, people};

/// The maximum number of characters of a goal in a description.
const GOAL_CHARACTERS: usize = 120;

/// The kind of call that a reply answers. It determines the content of the reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The run was started.
    Start,
    /// A step was acknowledged, now or earlier. A replay returns the same bytes.
    Advance,
    /// The run was rehydrated.
    Return,
}

/// The inputs for building a reply.
pub(super) struct Ingredients<'a> {
    pub(super) session: &'a Session,
    pub(super) run: &'a Run,
    pub(super) node: &'a Node,
    pub(super) workflow: &'a CompiledWorkflow,
    pub(super) snapshot: &'a ExecutionSnapshot,
    pub(super) keyring: &'a Keyring,
    pub(super) moment: Moment,
}

/// Builds the reply for a node.
pub(super) fn reply(ingredients: &Ingredients<'_>) -> Reply {
    let Ingredients { session, run, node, workflow, snapshot, moment, .. } = *ingredients;
    let state = snapshot.state();
    // A replay uses the context of the time of the call. A rehydrate call uses the current context.
    let context: Arc<Map<String, Value>> = match moment {
        Moment::Start | Moment::Advance => session.state.context_of(node),
        Moment::Return => Arc::new(session.state.context(&run.id).clone()),
    };
    let preferences = match moment {
        Moment::Start | Moment::Advance => node.preferences,
        Moment::Return => session.state.current_preferences(node),
    };
    let visit = Visit::at(&session.state, workflow, node, state, &context);
    let recovery = (moment == Moment::Return).then(|| recovery(ingredients));
    let occasion = match (&recovery, moment) {
        (Some(recovery), _) => Occasion::Return(recovery),
        (None, Moment::Start) => Occasion::Start,
        (None, _) => Occasion::Advance,
    };
    let blockers = match state {
        EngineState::Blocked(guide::record::Blocked { blocked, .. }) => blocked.blockers().blockers(),
        EngineState::Init | EngineState::Running(_) | EngineState::Complete => &[],
    };
    let pending = render::pending(PromptInput {
        workflow,
        state,
        context: &context,
        visit: &visit,
        occasion,
        blockers,
    })
    .map(|step| PendingStep {
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
        // Only a person can unblock the run.
        NextIntent::AwaitUserConfirmation
    } else if moment == Moment::Return {
        NextIntent::RehydrateOnly
    } else if awaits_user(workflow, state, &context, preferences.autonomy) {
        NextIntent::AwaitUserConfirmation
    } else {
        NextIntent::PerformPendingThenContinue
    };
    let wanted = missing_context::wanted(workflow, state, &visit, &context);
    let advance_call = tokens.short.as_ref().map(|token| {
        let mut params = json!({"continueToken": token, "intent": "advance"});
        if !wanted.is_empty() {
            params["context"] = wanted.into();
        }
        NextCall { tool: "continue_workflow", params }
    });
    let next_call = advance_call.or_else(|| terminal.then(|| unblocked_call(ingredients)).flatten());
    let mut warnings = gaps::warnings(ingredients);
    warnings.extend(cut_notes::warnings(ingredients));
    warnings.extend(people::answered_since(ingredients));
    Reply {
        // A rehydrate call is never blocked.
        kind: if blocked.is_some() && moment == Moment::Advance { ReplyKind::Blocked } else { ReplyKind::Ok },
        run: run_words(session, run, node, workflow, state),
        continue_token: tokens.short,
        state_token: tokens.state,
        ack_token: tokens.ack,
        checkpoint_token: tokens.checkpoint,
        is_complete,
        pending,
        preferences,
        next_intent,
        next_call,
        latest_call: latest_call(ingredients),
        token_note: TOKEN_NOTE,
        blocked,
        verification: None,
        delegations: children::delegated(ingredients, &visit, &context),
        return_call: session
            .state
            .parent_session_id()
            .filter(|_| is_complete)
            .map(|parent| NextCall { tool: "resume_session", params: json!({"sessionId": parent}) }),
        step_context: step_context(node),
        skipped: skipped(ingredients),
        open_gaps: gaps::open(ingredients),
        warnings,
    }
}

/// The steps that were skipped before a node. They are recorded, so a rehydrate call returns the same.
fn skipped(ingredients: &Ingredients<'_>) -> Vec<SkippedWords> {
    let Ingredients { session, node, workflow, .. } = *ingredients;
    let skipped = arrival::skipped_before(&session.state, workflow, node).into_iter();
    let words = skipped.map(|skipped| SkippedWords {
        id: skipped.item.id().to_owned(),
        title: skipped.title,
        keys: skipped
            .keys
            .into_iter()
            .map(|deciding| KeyWords { key: deciding.key, allowed: deciding.allowed })
            .collect(),
    });
    words.collect()
}

pub(super) fn run_words(
    session: &Session,
    run: &Run,
    node: &Node,
    workflow: &CompiledWorkflow,
    state: &EngineState,
) -> RunWords {
    let context = session.state.context_of(node);
    let goal = context.get("goal").and_then(Value::as_str).unwrap_or_default().to_owned();
    let steps = u32::try_from(workflow.steps.len()).unwrap_or(u32::MAX);
    let shown: String = goal.chars().take(GOAL_CHARACTERS).collect();
    let place = state.pending().zip(state.progress()).and_then(|(pending, (_, stack))| {
        let innermost = pending.loop_path.last().map(|at| (&at.loop_id, at.iteration));
        let visible = visible_context(workflow, &context, stack);
        StepPlace::of(workflow, &pending.step_id, innermost, &visible)
    });
    let step = place.map_or(steps, |place| place.step);
    let progress = match place {
        Some(place) if !state.is_complete() => place.to_string(),
        _ => "complete".to_owned(),
    };
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
    fn of(ingredients: &Ingredients<'_>, is_pending: bool) -> Self {
        let Ingredients { session, run, node, keyring, moment, .. } = *ingredients;
        let session_id = session.state.session_id().clone();
        // A reply to an advance offers the first attempt on the new node, however many attempts were made since.
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
        let position = |attempt_id: AttemptId| Position {
            session_id: session_id.clone(),
            run_id: run.id.clone(),
            node_id: node.id.clone(),
            attempt_id,
        };
        let checkpoint = || match u16::try_from(checkpoints) {
            Ok(number) => {
                let first = position(derive::attempt_id(&session_id, &node.id, 0));
                token::mint_short_checkpoint(keyring, &first, number)
            }
            // The counter exceeds the short token format. Use the long format.
            Err(_) => token::mint(
                keyring,
                &Token::Checkpoint(CheckpointPayload {
                    session_id: session_id.clone(),
                    run_id: run.id.clone(),
                    node_id: node.id.clone(),
                    attempt_id: derive::checkpoint_attempt_id(&session_id, &node.id, checkpoints),
                }),
            ),
        };
        Self {
            short: is_pending.then(|| token::mint_short(keyring, &position(attempt_id.clone()))),
            state: token::mint(keyring, &state),
            ack: is_pending.then(|| token::mint(keyring, &ack(attempt_id))),
            checkpoint: is_pending.then(checkpoint),
        }
    }
}

fn blocked(ingredients: &Ingredients<'_>, tokens: &Tokens) -> Option<BlockedReply> {
    let EngineState::Blocked(state) = ingredients.snapshot.state() else { return None };
    let (blockers, validation_ref, retryable) = match &state.blocked {
        Block::RetryableBlock { blockers, validation_ref, .. } => (blockers.clone(), validation_ref, true),
        Block::TerminalBlock { blockers, validation_ref, .. } => (blockers.clone(), validation_ref, false),
    };
    // Select the check of this attempt, because its node may have been attempted again since. Do not repeat what a
    // blocker already says.
    let checks = ingredients.session.state.parent_of(ingredients.node).map(|parent| &parent.validations);
    let validation = checks
        .into_iter()
        .flatten()
        .find(|check| validation_ref.as_ref() == Some(&check.validation_id) && !check.result.valid)
        .and_then(|check| {
            let listed = blockers.blockers();
            let issues = check.result.issues.iter();
            let issues =
                issues.filter(|issue| !listed.iter().any(|one| one.message.contains(issue.as_str())));
            let suggestions = check.result.suggestions.iter();
            let suggestions =
                suggestions.filter(|fix| !listed.iter().any(|one| one.suggested_fix.as_ref() == Some(fix)));
            let rest =
                Validation { issues: issues.cloned().collect(), suggestions: suggestions.cloned().collect() };
            (!rest.issues.is_empty() || !rest.suggestions.is_empty()).then_some(rest)
        });
    Some(BlockedReply {
        blockers,
        retryable: retryable.then_some(true),
        retry_continue_token: tokens.short.clone().filter(|_| retryable),
        validation,
    })
}

/// The call that returns the latest position of the run, for a rehydrate call at an earlier position.
fn latest_call(ingredients: &Ingredients<'_>) -> Option<NextCall> {
    let Ingredients { session, run, node, keyring, moment, .. } = *ingredients;
    if moment != Moment::Return || is_newest_place(&session.state, run, node) {
        return None;
    }
    rehydrate_call(session, keyring, preferred_tip(&session.state, run)?)
}

/// The call that returns to the step of a permanently blocked attempt. Its token is that of the first attempt, so that
/// the reply does not change when the step is attempted again.
fn unblocked_call(ingredients: &Ingredients<'_>) -> Option<NextCall> {
    let Ingredients { session, node, keyring, .. } = *ingredients;
    let step = session.state.lineage(node).find(|node| node.kind == NodeKind::Step)?;
    let session_id = session.state.session_id();
    let position = Position {
        session_id: session_id.clone(),
        run_id: step.run_id.clone(),
        node_id: step.id.clone(),
        attempt_id: derive::attempt_id(session_id, &step.id, 0),
    };
    Some(rehydrate(keyring, &position))
}

/// The call that rehydrates a node, with a token that is short enough to copy.
pub(super) fn rehydrate_call(session: &Session, keyring: &Keyring, node: &Node) -> Option<NextCall> {
    let position = session.positions_of(node).pop()?;
    Some(rehydrate(keyring, &position))
}

fn rehydrate(keyring: &Keyring, position: &Position) -> NextCall {
    NextCall {
        tool: "continue_workflow",
        params: json!({"continueToken": token::mint_short(keyring, position), "intent": "rehydrate"}),
    }
}

/// Whether a run with this autonomy waits for the user at the pending step.
pub(super) fn awaits_user(
    workflow: &CompiledWorkflow,
    state: &EngineState,
    context: &Map<String, Value>,
    autonomy: Autonomy,
) -> bool {
    let Some((pending, (_, stack))) = state.pending().zip(state.progress()) else { return false };
    if let EngineState::Blocked(guide::record::Blocked { blocked, .. }) = state
        && blocked.blockers().blockers().iter().any(|one| one.code == BlockerCode::UserOnlyDependency)
    {
        return true;
    }
    let context = visible_context(workflow, context, stack);
    // If only a person can answer, the person is asked once there is something to approve.
    let is_blocked = matches!(state, EngineState::Blocked(_));
    let step = workflow.step(&pending.step_id).filter(|step| is_blocked || !step.require_person);
    step.is_some_and(|step| needs(step, &context).iter().any(|need| need.stops(autonomy)))
}

/// The title of the pending step on one line, with the variables of the loops around it.
pub(super) fn step_title(
    workflow: &CompiledWorkflow,
    state: &EngineState,
    step: &Step,
    context: &Map<String, Value>,
) -> String {
    let stack = state.progress().map(|(_, stack)| stack.as_slice()).unwrap_or_default();
    render::one_line(&render::resolve(&step.title, &visible_context(workflow, context, stack)))
}

/// Facts about the step that was just completed. Only assessments so far.
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

/// The information that a rehydrate reply contains in addition.
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
    let context = session.state.context(&run.id);
    let entitled =
        |entry: RecapEntry| (entitled(&session.state, workflow, context, &entry.node_id), entry.text);
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

/// The step that the notes of a node belong to. The notes of a step are recorded at the node that they led to.
fn entitled(
    state: &SessionState,
    workflow: &CompiledWorkflow,
    context: &Map<String, Value>,
    node_id: &NodeId,
) -> String {
    let node = state.node(node_id);
    let about = node.and_then(|node| match node.kind {
        NodeKind::Step => state.parent_of(node),
        NodeKind::Checkpoint | NodeKind::BlockedAttempt => Some(node),
    });
    let titled = about.and_then(|about| {
        let selected = arrival::selected_at(state, about)?;
        let innermost = selected.innermost.as_ref().map(|(loop_id, iteration)| (loop_id, *iteration));
        let frame = innermost.map(|(loop_id, iteration)| LoopFrame {
            loop_id: loop_id.clone(),
            iteration,
            body_index: 0,
        });
        let context = visible_context(workflow, context, frame.as_slice());
        let place = StepPlace::of(workflow, &selected.step_id, innermost, &context)?;
        let title = render::resolve(&workflow.step(&selected.step_id)?.title, &context);
        Some(format!("{place}, {}", render::one_line(&title)))
    });
    titled.unwrap_or_else(|| "an earlier step".to_owned())
}

/// Describes the branches that start at a node, and what advancing the node does now.
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
            "This step was already advanced ({}). Advancing it again starts a new branch.",
            made.join(" and ")
        ));
    }
    if let Some(checkpoints) = counted(summary.checkpoints, "checkpoint", "checkpoints") {
        sentences.push(format!("It has {checkpoints}; checkpoints do not start a branch."));
    }
    if !summary.on_preferred_branch {
        sentences.push("It is not on the most recent branch.".to_owned());
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}
