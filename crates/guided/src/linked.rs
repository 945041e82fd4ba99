//! Sessions that a run waits for.
//!
//! The id of such a session is derived from its run, so starting it again finds the existing session. The link back to
//! the run is part of the first context, and so in the log from the first event on: see [`Link`]. The result for the run
//! is computed from the log up to the event that completed the session. It is therefore always the same.

use std::collections::BTreeSet;

use flow::id::{NodeId, RunId};
use guide::project::recap::ancestor_recap;
use guide::project::{self, RunStatus};
use guide::record::{Event, EventData, OutputChannel, OutputPayload, SessionId};
use guide::state::{Node, Run, SessionState};
use ports::sessions::{Ended, StoreErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Guided;
use super::api::{Reply, StartRequest};
use super::refusal::{Refusal, inconsistent};
use super::reply::Moment;

/// The context key that contains the link. Only the first context is read, so an agent cannot change the link.
pub const LINK: &str = "interlock";
/// The maximum size of the notes in a result, in bytes.
pub const RECAP_BYTES: usize = 128 << 10;
/// The maximum size of the artifacts in a result, in bytes. Artifacts beyond the limit are represented by their digests.
pub const ARTIFACT_BYTES: usize = 1 << 20;
/// The maximum number of gaps in a result. Further gaps are only counted.
pub const GAPS: usize = 200;

/// The run and node that a session was started for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    pub run_id: RunId,
    pub node_id: NodeId,
    /// Whether the node has a workspace. Its location is derived from the run and the node, never from data of the
    /// session.
    #[serde(default)]
    pub is_equipped: bool,
}

/// The status of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The run and node that the session was started for. `None` if no run waits for it.
    pub link: Option<Link>,
    pub status: RunStatus,
    /// The number of events. Every change of the session increases it.
    pub events: u64,
    /// Whether the session was ever completed.
    pub is_complete: bool,
}

impl Guided {
    /// Starts the session with this id. If it exists, does nothing.
    ///
    /// # Errors
    /// As [`Guided::start`].
    pub async fn start_once(
        &self,
        session_id: &SessionId,
        link: &Link,
        mut request: StartRequest,
    ) -> Result<(), Refusal> {
        if self.store.revision(session_id.clone()).await?.is_some() {
            return Ok(());
        }
        let link = serde_json::to_value(link).map_err(|_| inconsistent("A link has no JSON form."))?;
        request.context.insert(LINK.to_owned(), link);
        match self.start_as(session_id, request).await {
            Ok(_) => Ok(()),
            // A concurrent call created the session with the same data, because the id is derived from the data.
            Err(refusal) if refusal.envelope().has_code(StoreErrorCode::SessionExists) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// The status of a session. Only new events are read.
    ///
    /// # Errors
    /// A session that does not exist or cannot be read.
    pub async fn standing(&self, session_id: &SessionId) -> Result<Standing, Refusal> {
        let session = self.sessions.current(&*self.store, session_id).await?;
        let session = session.lock().await;
        let run = first_run(&session.state)?;
        Ok(Standing {
            link: session.state.first_context(&run.id).and_then(|context| link_of(context)),
            status: project::run_status(&session.state, run),
            events: session.state.next_index().0,
            is_complete: run.first_completion().is_some(),
        })
    }

    /// The reply for an agent that joins the session now: the tokens of its tip, and its position.
    ///
    /// # Errors
    /// As [`Guided::standing`].
    pub async fn rejoin(&self, session_id: &SessionId) -> Result<Reply, Refusal> {
        let keyring = self.keyring().await?;
        let session = self.sessions.current(&*self.store, session_id).await?;
        let session = session.lock().await;
        let run = first_run(&session.state)?;
        let tip = project::preferred_tip(&session.state, run)
            .ok_or_else(|| inconsistent("A run has no root."))?
            .id
            .clone();
        self.answer(&session, &tip, &keyring, Moment::Return).await
    }

    /// The result of a session, or `None` before it is complete. It is computed from the log up to the completing event,
    /// so later events do not change it.
    ///
    /// # Errors
    /// As [`Guided::standing`].
    pub async fn result(&self, session_id: &SessionId) -> Result<Option<Map<String, Value>>, Refusal> {
        let events = self.store.load(session_id.clone()).await?.events;
        let completion = events.iter().position(|event| matches!(event.data, EventData::RunCompleted { .. }));
        let Some(completion) = completion else { return Ok(None) };
        let events = &events[..=completion];
        let state = SessionState::fold(session_id.clone(), events)?;
        let (Some(Event { data: EventData::RunCompleted { tip_node_id, .. }, .. }), Ok(run)) =
            (events.last(), first_run(&state))
        else {
            return Err(inconsistent("A session was completed without a run."));
        };
        let tip = state.node(tip_node_id).ok_or_else(|| inconsistent("A completed node is missing."))?;
        Ok(Some(self.outputs(&state, run, tip).await?))
    }

    async fn outputs(
        &self,
        state: &SessionState,
        run: &Run,
        tip: &Node,
    ) -> Result<Map<String, Value>, Refusal> {
        let recap = ancestor_recap(state, tip, RECAP_BYTES);
        let summary = recap.entries.first().map(|entry| entry.text.clone());
        // The recap lists the newest notes first. The result lists them in chronological order.
        let notes: Vec<Value> = recap.entries.iter().rev().map(|entry| entry.text.as_str().into()).collect();
        let status =
            if run.open_critical_gaps > 0 { RunStatus::CompleteWithGaps } else { RunStatus::Complete };
        let mut gaps: Vec<Value> = project::open_gaps(state, run)
            .map(|gap| {
                json!({
                    "gapId": gap.id.as_str(), "severity": gap.severity, "reason": gap.reason,
                    "summary": gap.summary,
                })
            })
            .collect();
        let all_gaps = gaps.len();
        gaps.truncate(GAPS);
        let outputs = json!({
            "sessionId": state.session_id().as_str(),
            "workflowId": run.workflow_id,
            "status": status.as_str(),
            "summary": summary,
            "recap": {"notes": notes, "omitted": recap.omitted},
            "artifacts": self.artifacts(state, tip).await?,
            "gaps": gaps,
            "gapCount": all_gaps,
        });
        match outputs {
            Value::Object(outputs) => Ok(outputs),
            _ => Err(inconsistent("Outputs are an object.")),
        }
    }

    /// The artifacts on the path to a node, oldest first.
    async fn artifacts(&self, state: &SessionState, tip: &Node) -> Result<Vec<Value>, Refusal> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for node in state.lineage(tip) {
            for output in project::current_outputs(state, node, OutputChannel::Artifact).rev() {
                if let OutputPayload::ArtifactRef(artifact) = &output.payload
                    && seen.insert(artifact.sha256)
                {
                    found.push(artifact);
                }
            }
        }
        let mut room = ARTIFACT_BYTES as u64;
        let mut given = Vec::with_capacity(found.len());
        for artifact in found.into_iter().rev() {
            let mut entry = json!({"sha256": artifact.sha256.to_string(), "bytes": artifact.byte_length});
            if let Some(left) = room.checked_sub(artifact.byte_length) {
                room = left;
                entry["content"] = match &artifact.content {
                    Some(content) => content.clone(),
                    None => serde_json::from_slice(&self.store.artifact(artifact.sha256).await?)
                        .map_err(|_| inconsistent("An artifact is not JSON."))?,
                };
            }
            given.push(entry);
        }
        Ok(given)
    }

    /// Marks a session as ended, because its run no longer waits for it. The next step is then refused. A session that is
    /// complete, does not exist, or belongs to another run is not marked. Returns whether the session belongs to this
    /// run.
    ///
    /// # Errors
    /// The session is being written, and errors of the store.
    pub async fn end(&self, session_id: &SessionId, ended: &Ended) -> Result<bool, Refusal> {
        if self.store.revision(session_id.clone()).await?.is_none() {
            return Ok(false);
        }
        // Checked before the lock is taken, so that a session of another run is not blocked.
        let standing = self.standing(session_id).await?;
        if standing.link.is_none_or(|link| link.run_id != ended.run_id) {
            return Ok(false);
        }
        if standing.is_complete || self.store.ended(session_id.clone()).await?.is_some() {
            return Ok(true);
        }
        let writer = self.store.lock(session_id.clone(), None).await?;
        let completes = |event: &Event| matches!(event.data, EventData::RunCompleted { .. });
        if !writer.news().events.iter().any(completes) {
            writer.end(ended.clone()).await?;
        }
        Ok(true)
    }
}

/// The link in the events of a session, or `None` if no run waits for it.
pub fn link_of_session(events: &[Event]) -> Option<Link> {
    events.iter().find_map(|event| match &event.data {
        EventData::ContextSet { context, .. } => Some(link_of(context)),
        _ => None,
    })?
}

fn first_run(state: &SessionState) -> Result<&Run, Refusal> {
    state.runs().first().ok_or_else(|| inconsistent("A session has no run."))
}

fn link_of(context: &Map<String, Value>) -> Option<Link> {
    serde_json::from_value(context.get(LINK)?.clone()).ok()
}
