//! The attempts of a run's effects, for callers.

use flow::id::RunId;
use ports::runs::{AttemptPosition, StoredAttempt};

use super::Queries;
use crate::{Caller, Refusal};

/// The maximum number of attempts in one page.
pub const MAX_ATTEMPTS_LISTED: usize = 1000;

impl Queries {
    /// The attempts of effects that reached something outside of the run, by the time of their claim. `after` is the last attempt of
    /// the previous page.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn attempts(
        &self,
        caller: &Caller,
        run_id: &RunId,
        after: Option<&AttemptPosition>,
        limit: usize,
    ) -> Result<Vec<StoredAttempt>, Refusal> {
        self.states.visible(caller, run_id).await?;
        Ok(self.records.store().attempts(run_id, after, limit.min(MAX_ATTEMPTS_LISTED)).await?)
    }
}
