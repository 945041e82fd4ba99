//! What readers see.

use flow::run::{Genesis, RunStatus};
use flow::store::{Bytes, RunFilter, RunRow};
use serde_json::{Value, json};

use super::interrupts::TOKEN_PERIOD_MS;
use super::{ApiCode, Caller, Refusal, Runs};

/// The most runs of one page of a list.
pub const MAX_LISTED: usize = 200;

impl Runs {
    /// A run of the caller's tenant. One of another tenant is not there.
    pub(super) fn visible(&self, caller: &Caller, run_id: &str) -> Result<RunRow, Refusal> {
        self.store().run(Some(&caller.tenant), run_id)?.ok_or_else(Refusal::no_run)
    }

    /// The snapshot of a run, and the sequence of its last event, which changes whenever the run does.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn read(&self, caller: &Caller, run_id: &str) -> Result<(Bytes, u64), Refusal> {
        let row = self.visible(caller, run_id)?;
        let sequence = row.next_sequence;
        Ok((self.shown(row)?, sequence))
    }

    /// The snapshot of a run, and a name for exactly these bytes: the sequence, and while somebody is needed the period that the
    /// token in it is of, so that nobody keeps a token that has expired because the run has not changed.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn read_tagged(&self, caller: &Caller, run_id: &str) -> Result<(Bytes, String), Refusal> {
        let row = self.visible(caller, run_id)?;
        let tag = if row.status.is_waiting() {
            format!("{}.{}", row.next_sequence, self.now().0 / TOKEN_PERIOD_MS)
        } else {
            row.next_sequence.to_string()
        };
        Ok((self.shown(row)?, tag))
    }

    fn shown(&self, row: RunRow) -> Result<Bytes, Refusal> {
        if !row.status.is_waiting() {
            return Ok(row.snapshot);
        }
        let run_id = &row.run_id;
        // Somebody is needed: whoever may read the run is told how to answer. Tokens are made here, and kept nowhere.
        let loaded = self.load(run_id)?;
        let mut snapshot: Value = serde_json::from_slice(&row.snapshot)
            .map_err(|_| Refusal::new(ApiCode::InternalError, "the snapshot of the run cannot be read"))?;
        let node = snapshot.pointer("/interrupt/nodeId").and_then(Value::as_str);
        let interrupt = node.and_then(|node| loaded.state.interrupts.get(node));
        if let Some(token) = interrupt.and_then(|interrupt| self.sign(run_id, interrupt)) {
            snapshot["interrupt"]["callbackUrl"] =
                format!("{}/v1/interrupts/{token}", self.public_url()).into();
            snapshot["interrupt"]["interruptToken"] = token.into();
        }
        Ok(snapshot.to_string().into_bytes().into())
    }

    /// The state of a run, and the sequence of its next event.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn status(&self, caller: &Caller, run_id: &str) -> Result<(RunStatus, u64), Refusal> {
        let row = self.visible(caller, run_id)?;
        Ok((row.status, row.next_sequence))
    }

    /// A page of the runs of a tenant, newest first, and where the next one begins.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(
        &self,
        caller: &Caller,
        filter: &RunFilter,
        limit: usize,
    ) -> Result<(Vec<Bytes>, Option<u64>), Refusal> {
        let limit = limit.clamp(1, MAX_LISTED);
        let found = self.store().runs(&caller.tenant, filter, limit)?;
        let next = (found.len() == limit).then(|| found.last().map(|run| run.place)).flatten();
        Ok((found.into_iter().map(|run| run.snapshot).collect(), next))
    }

    /// An artifact of a run.
    ///
    /// # Errors
    /// When there is none.
    pub fn artifact(&self, caller: &Caller, run_id: &str, artifact_id: &str) -> Result<Bytes, Refusal> {
        self.visible(caller, run_id)?;
        let found = self.store().artifact(run_id, artifact_id)?;
        found.ok_or_else(|| Refusal::new(ApiCode::NotFound, "the run has no artifact of this id"))
    }

    /// How two runs differ.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn difference(&self, caller: &Caller, a: &str, b: &str) -> Result<Value, Refusal> {
        let read = |run_id: &str| -> Result<_, Refusal> {
            let row = self.visible(caller, run_id)?;
            let snapshot: Value = serde_json::from_slice(&row.snapshot).unwrap_or(Value::Null);
            Ok((self.events(run_id, 0)?, snapshot))
        };
        let (left, right) = (read(a)?, read(b)?);
        Ok(flow::history::difference((a, &left.0, &left.1), (b, &right.0, &right.1)))
    }

    /// Where a run came from.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn ancestry(&self, caller: &Caller, run_id: &str) -> Result<Value, Refusal> {
        let row = self.visible(caller, run_id)?;
        let genesis: Genesis = serde_json::from_slice(&row.genesis)
            .map_err(|_| Refusal::new(ApiCode::InternalError, "the record of the run cannot be read"))?;
        let parent = genesis
            .parent
            .map(|parent| json!({"runId": parent.run_id, "hostId": "self", "cause": parent.type_id}));
        Ok(json!({"runId": run_id, "hostId": "self", "parent": parent}))
    }
}
