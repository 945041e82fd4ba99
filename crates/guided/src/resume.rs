//! Finds a run to resume.

use catalogue::git;
use guide::project::preferred_tip;
use guide::project::resume::{Candidate, ResumeQuery, ranking_input, snippet};
use guide::record::budgets::RESUME_CANDIDATES;
use guide::record::{ObservationKey, RunId, SessionId};
use guide::token::{self, Keyring, StatePayload, Token};
use ports::blocking;
use serde_json::{Value, json};

use super::Guided;
use super::api::{ResumeReply, ResumeRequest};
use super::refusal::Refusal;
use super::reply::rehydrate_call;

impl Guided {
    /// Ranks all runs by how well they match, and returns the best five.
    ///
    /// Ranking reads only the index. The returned candidates are read and validated, and damaged ones are skipped.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn resume(&self, request: &ResumeRequest) -> Result<ResumeReply, Refusal> {
        let keyring = self.keyring().await?;
        let asked = request.clone();
        let query = blocking(move || query(&asked)).await;
        // Request more candidates than needed, because some may be damaged.
        let found = self.store.search(query.clone(), RESUME_CANDIDATES * 8).await?;
        let mut candidates = Vec::new();
        for candidate in &found.candidates {
            if candidates.len() == RESUME_CANDIDATES {
                break;
            }
            candidates.extend(self.offer(candidate, &query, &keyring).await);
        }
        let warnings = unmatched(request, &candidates);
        Ok(ResumeReply { candidates, total_eligible: found.total_eligible, warnings })
    }

    /// The reply entry for a candidate, or `None` if its session cannot be read.
    async fn offer(&self, candidate: &Candidate, query: &ResumeQuery, keyring: &Keyring) -> Option<Value> {
        let session = self.sessions.current(&*self.store, &candidate.session_id).await.ok()?;
        let session = session.lock().await;
        let run = session.state.run(&candidate.run_id)?;
        let tip = preferred_tip(&session.state, run)?;
        let input = ranking_input(&session.state, run, None)?;
        let snapshot = self.store.snapshot(tip.snapshot_ref).await.ok()?;
        let resume_token = token::mint(
            keyring,
            &Token::State(StatePayload {
                session_id: candidate.session_id.clone(),
                run_id: run.id.clone(),
                node_id: tip.id.clone(),
                workflow_hash: run.workflow_hash,
            }),
        );
        let mut offered = serde_json::to_value(candidate).ok()?;
        offered["snippet"] = Value::String(snippet(input.title.as_deref(), &input.recap, query));
        offered["resumeToken"] = Value::String(resume_token);
        offered["pendingStepId"] = snapshot
            .state()
            .pending()
            .map_or(Value::Null, |pending| Value::String(pending.step_id.to_string()));
        offered["isComplete"] = Value::Bool(snapshot.state().is_complete());
        offered["nextCall"] = json!(rehydrate_call(&session, keyring, tip)?);
        Some(offered)
    }
}

/// One sentence for each id of the request that no candidate has. Without it, a caller with a mistyped id would take
/// the best other run for the one it named.
fn unmatched(request: &ResumeRequest, candidates: &[Value]) -> Vec<String> {
    [("session", "sessionId", &request.session_id), ("run", "runId", &request.run_id)]
        .into_iter()
        .filter_map(|(noun, member, id)| Some((noun, member, id.as_deref()?)))
        .filter(|(_, member, id)| !candidates.iter().any(|candidate| candidate[*member] == *id))
        .map(|(noun, member, id)| {
            let others = if candidates.is_empty() { "" } else { " The runs listed are other ones." };
            format!(
                "No readable {noun} has the id `{id}`.{others} Check `{member}`, or search by `query` instead."
            )
        })
        .collect()
}

/// Blocks: reads the repository of the workspace.
fn query(request: &ResumeRequest) -> ResumeQuery {
    let facts = request.workspace.as_deref().map(git::facts);
    let seen = facts.as_ref().map(git::observations).unwrap_or_default();
    let observed =
        |wanted: ObservationKey| seen.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value.text());
    ResumeQuery {
        text: request.query.clone(),
        run_id: request.run_id.as_deref().and_then(|id| RunId::parse(id).ok()),
        session_id: request.session_id.as_deref().and_then(|id| SessionId::parse(id).ok()),
        git_branch: request.git_branch.clone().or_else(|| observed(ObservationKey::GitBranch)),
        git_head_sha: request.git_head_sha.clone().or_else(|| observed(ObservationKey::GitHeadSha)),
        repo_root_hash: observed(ObservationKey::RepoRootHash),
        same_workspace_only: request.same_workspace_only,
    }
}
