//! Child runs: starts one by its handle, and reads the status of the child runs of a step.

use canon::error::{Envelope, Retry};
use guide::delegation::ChildHandle;
use guide::engine::EngineErrorCode;
use guide::interpret::visible_context;
use guide::project::RunStatus;
use guide::record::SessionId;
use guide::verification::ChildStatus;
use guide::visit::Visit;
use ports::sessions::StoreErrorCode;
use serde_json::{Map, Value, json};

use super::Guided;
use super::api::{DelegatedRun, NextCall, Reply, StartRequest};
use super::refusal::{self, Refusal};
use super::reply::Ingredients;

impl Guided {
    /// Starts the child run of a handle. If it exists, returns it.
    pub(super) async fn start_child(
        &self,
        handle: &ChildHandle,
        mut request: StartRequest,
    ) -> Result<Reply, Refusal> {
        if self.store.revision(handle.parent.clone()).await?.is_none() {
            return Err(refusal::unknown_parent(&handle.parent));
        }
        let wanted = self.handed_out(handle).await?.ok_or_else(|| not_handed_out(handle))?;
        if request.workflow_id != wanted.workflow_id {
            let message = format!(
                "This child handle is for the workflow `{}`, but the call names `{}`.",
                wanted.workflow_id,
                request.workflow_id.chars().take(128).collect::<String>()
            );
            return Err(invalid(&message, "Make the call of the delegating step exactly as given."));
        }
        wanted.check(&request)?;
        let child = handle.session_id();
        request.parent_session_id = Some(handle.parent.clone());
        let started = match self.store.revision(child.clone()).await? {
            Some(_) => None,
            None => match self.start_as(&child, request).await {
                // A concurrent call with the same handle created the session first.
                Err(refusal) if refusal.envelope().has_code(StoreErrorCode::SessionExists) => None,
                other => Some(other?),
            },
        };
        match started {
            Some(reply) => Ok(reply),
            None => {
                let mut reply = self.rejoin(&child).await?;
                reply.warnings.push(
                    "This delegated run was already started; this is its pending \
                                     step."
                        .to_owned(),
                );
                Ok(reply)
            }
        }
    }

    /// The work of a handle, or `None` if no step delegates it.
    async fn handed_out(&self, handle: &ChildHandle) -> Result<Option<HandedOut>, Refusal> {
        let session = self.sessions.current(&*self.store, &handle.parent).await?;
        let session = session.lock().await;
        let state = &session.state;
        let Some(node) = state.node(&handle.node) else { return Ok(None) };
        let Some(run) = state.run(&node.run_id) else { return Ok(None) };
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let engine = snapshot.state();
        let Some((pending, (_, stack))) = engine.pending().zip(engine.progress()) else { return Ok(None) };
        let Some(step) = workflow.step(&pending.step_id) else { return Ok(None) };
        let context = state.context(&run.id);
        let visit = Visit::at(state, &workflow, node, engine, context);
        if visit.delegating_node() != Some(&node.id) {
            return Ok(None);
        }
        let delegations = visit.delegations(step, &visible_context(&workflow, context, stack));
        let found = delegations.unwrap_or_default().into_iter().find(|one| one.index == handle.index);
        Ok(found.map(|one| HandedOut {
            workflow_id: one.delegation.workflow_id.clone(),
            goal: one.goal(),
            inputs: one.inputs(),
        }))
    }

    pub(super) async fn child_status(&self, child: &SessionId) -> ChildStatus {
        match self.store.revision(child.clone()).await {
            Ok(None) => ChildStatus::NotStarted,
            Ok(Some(_)) => match self.standing(child).await.map(|standing| standing.status) {
                Ok(RunStatus::InProgress) => ChildStatus::InProgress,
                Ok(RunStatus::Blocked) => ChildStatus::Blocked,
                Ok(RunStatus::Complete) => ChildStatus::Complete,
                Ok(RunStatus::CompleteWithGaps) => ChildStatus::CompleteWithGaps,
                Err(_) => ChildStatus::Unreadable,
            },
            Err(_) => ChildStatus::Unreadable,
        }
    }
}

/// One piece of delegated work.
struct HandedOut {
    workflow_id: String,
    goal: String,
    inputs: Map<String, Value>,
}

impl HandedOut {
    /// A run counts for the work that it was started for, so the call must have its goal and inputs.
    fn check(&self, request: &StartRequest) -> Result<(), Refusal> {
        let is_goal_changed = request.goal.trim() != self.goal.trim();
        let changed = self.inputs.iter().find(|(key, value)| request.context.get(*key) != Some(value));
        let changed_input = changed.map(|(key, _)| format!("context.{key}"));
        let Some(member) = is_goal_changed.then(|| "goal".to_owned()).or(changed_input) else {
            return Ok(());
        };
        let expected = json!({"goal": self.goal, "context": self.inputs});
        Err(invalid(
            &format!("`{member}` is not the one that the delegating step handed out with this child handle."),
            &format!(
                "Nothing was started. Make the call of the delegating step exactly as given: {expected}"
            ),
        ))
    }
}

fn invalid(message: &str, suggestion: &str) -> Refusal {
    Envelope::new(EngineErrorCode::Validation, message).suggest(suggestion).retry(Retry::NotRetryable).into()
}

fn not_handed_out(handle: &ChildHandle) -> Refusal {
    invalid(
        &format!("`parentSessionId` is the child handle {handle}, but no step of that run delegates it."),
        "Nothing was started. Copy `parentSessionId` from the delegating run; continue_workflow with \
         `intent: rehydrate` shows it again.",
    )
}

/// The runs that the pending step delegates, each with its start call. They are derived from the node, so a replay
/// returns the same.
pub(super) fn delegated(
    ingredients: &Ingredients<'_>,
    visit: &Visit,
    context: &Map<String, Value>,
) -> Vec<DelegatedRun> {
    let Ingredients { session, workflow, snapshot, .. } = *ingredients;
    let state = snapshot.state();
    let Some((pending, (_, stack))) = state.pending().zip(state.progress()) else { return Vec::new() };
    let Some(step) = workflow.step(&pending.step_id) else { return Vec::new() };
    let context = visible_context(workflow, context, stack);
    // A missing or too long list blocks the step, and nothing is delegated.
    let Some(at) = visit.delegating_node() else { return Vec::new() };
    let handed_out = visit.delegations(step, &context).unwrap_or_default().into_iter();
    handed_out
        .map(|piece| {
            let parent = session.state.session_id().clone();
            let handle = ChildHandle { parent, node: at.clone(), index: piece.index };
            let mut params = json!({
                "workflowId": piece.delegation.workflow_id,
                "goal": piece.goal(),
                "parentSessionId": handle.to_string(),
            });
            let inputs = piece.inputs();
            if !inputs.is_empty() {
                params["context"] = inputs.into();
            }
            DelegatedRun {
                session_id: handle.session_id().to_string(),
                start_call: NextCall { tool: "start_workflow", params },
                status: None,
            }
        })
        .collect()
}
