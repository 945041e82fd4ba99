//! Cancels several runs with one request.

use flow::id::RunId;
use flow::run::RunStatus;

use super::Commands;
use crate::{Caller, Direct, Refusal, Respond};

/// The maximum number of runs in one request. Each is a separate decision and commit.
pub const MAX_BULK: usize = 100;

impl Commands {
    /// Cancels several runs. Each has its own result, as from [`Commands::cancel`], in the order of the request. A failure does not stop
    /// the others. Callers pass at most [`MAX_BULK`] runs.
    ///
    /// # Errors
    /// If the response cannot be recorded for its idempotency key.
    pub async fn cancel_many<R: Respond<Vec<Result<RunStatus, Refusal>>>>(
        &self,
        caller: &Caller,
        run_ids: &[RunId],
        reason: Option<&str>,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        if let Some(response) = respond.replayed(&self.uses.records).await? {
            return Ok(response);
        }
        let mut results = Vec::with_capacity(run_ids.len());
        for run_id in run_ids {
            results.push(self.cancel(caller, run_id, reason.map(str::to_owned), Direct).await);
        }
        // Each run was cancelled in its own commit, and cancelling it again changes nothing.
        // So the request can be repeated after a crash here.
        self.uses.records.commit_response(Vec::new(), &respond, results).await
    }
}
