//! Child runs: starts one by its handle, and reads the status of the child runs of a step.

use canon::error::{Envelope, Retry};
use guide::delegation::{self, ChildHandle};
use guide::engine::EngineErrorCode;
use guide::interpret::visible_context;
use guide::project::RunStatus;
use guide::record::{NodeKind, SessionId};
use guide::verification::ChildStatus;
use ports::sessions::StoreErrorCode;
use serde_json::{Value, json};

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
        let wanted = self.delegated_workflow(handle).await?.ok_or_else(|| not_handed_out(handle))?;
        if request.workflow_id != wanted {
            let message = format!(
                "This child handle is for the workflow `{wanted}`, but the call names `{}`.",
                request.workflow_id.chars().take(128).collect::<String>()
            );
            return Err(invalid(&message, "Make the call of the delegating step exactly as given."));
        }
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

    /// The workflow of a handle, or `None` if no step delegates it.
    async fn delegated_workflow(&self, handle: &ChildHandle) -> Result<Option<String>, Refusal> {
        let session = self.sessions.current(&*self.store, &handle.parent).await?;
        let session = session.lock().await;
        let Some(node) = session.state.node(&handle.node).filter(|node| node.kind == NodeKind::Step) else {
            return Ok(None);
        };
        let Some(run) = session.state.run(&node.run_id) else { return Ok(None) };
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let step = snapshot.state().pending().and_then(|pending| workflow.step(&pending.step_id));
        let delegation = step.and_then(|step| match step.delegations.as_slice() {
            // The position is that of an item of the list.
            [one] if one.for_each.as_ref().is_some_and(|list| handle.index < list.max_items as usize) => {
                Some(one)
            }
            delegations => delegations.get(handle.index),
        });
        Ok(delegation.map(|delegation| delegation.workflow_id.clone()))
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
    context: &serde_json::Map<String, Value>,
) -> Vec<DelegatedRun> {
    let Ingredients { session, node, workflow, snapshot, .. } = *ingredients;
    let state = snapshot.state();
    let Some((pending, (_, stack))) = state.pending().zip(state.progress()) else { return Vec::new() };
    let Some(step) = workflow.step(&pending.step_id) else { return Vec::new() };
    let context = visible_context(workflow, context, stack);
    let at = delegation::delegating_node(&session.state, node);
    // A missing or too long list blocks the step, and nothing is delegated.
    let handed_out = delegation::active_delegations(step, &context).unwrap_or_default().into_iter();
    handed_out
        .map(|piece| {
            let parent = session.state.session_id().clone();
            let handle = ChildHandle { parent, node: at.id.clone(), index: piece.index };
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
