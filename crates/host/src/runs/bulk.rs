//! Many runs ended with one request.

use flow::id::RunId;
use flow::run::RunStatus;

use super::{Caller, Direct, Refusal, Respond, Runs};

/// The most runs of one request: each is a decision and a commit of its own.
pub const MAX_BULK: usize = 100;

impl Runs {
    /// Ends several runs. Each has its own result, in the order of the request, as [`Runs::cancel`] has; one that cannot be ended stops no
    /// other. Callers give at most [`MAX_BULK`].
    ///
    /// # Errors
    /// When the response cannot be recorded for its key.
    pub async fn cancel_many<R: Respond<Vec<Result<RunStatus, Refusal>>>>(
        &self,
        caller: &Caller,
        run_ids: &[RunId],
        reason: Option<&str>,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        if let Some(response) = respond.replayed(self).await? {
            return Ok(response);
        }
        let mut results = Vec::with_capacity(run_ids.len());
        for run_id in run_ids {
            results.push(self.cancel(caller, run_id, reason.map(str::to_owned), Direct).await);
        }
        // Each run was ended in a commit of its own, and ending it again changes nothing: after a crash here the request is repeated.
        self.commit_response(Vec::new(), &respond, results).await
    }
}
