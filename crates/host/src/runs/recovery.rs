//! After a start: every run that was under way goes on.

use flow::engine::Input;
use flow::run::Genesis;

use super::advance::Ask;
use super::effects::parent_cancelled;
use super::{Refusal, Reply, Runs};

/// How many runs are looked up at once.
const PAGE: usize = 500;
/// How many of them are recovered at once.
const AT_ONCE: usize = 32;

impl Runs {
    /// Takes over every run that is not at its end. There is one host for a store, so whatever is found is nobody's. To be
    /// called once, before anything else is asked of the host.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn recover(&self) -> Result<usize, Refusal> {
        // All are found before the first is taken over: it may start others, which are not to be recovered.
        let mut found = Vec::new();
        loop {
            let page = self.store().open_runs(found.last().map(String::as_str), PAGE)?;
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        self.inner.counters.recovered(found.len());
        let mut recovered = 0;
        for group in found.chunks(AT_ONCE) {
            let tasks: Vec<_> =
                group.iter().map(|run_id| tokio::spawn(self.take_over(run_id.clone()))).collect();
            for task in tasks {
                recovered += usize::from(task.await.unwrap_or(false));
            }
        }
        Ok(recovered)
    }

    fn take_over(&self, run_id: String) -> impl Future<Output = bool> + Send + use<> {
        let runs = self.clone();
        async move {
            let input = runs.missed_cancel(&run_id).await.unwrap_or(Input::Recover);
            let nothing = |_: &_, _| Ok(Reply::new(200, &serde_json::Value::Null));
            runs.advance(&run_id, input, Ask::default(), nothing).await.is_ok()
        }
    }

    /// The word of its parent that it is to end, where the host stopped before the child heard of it.
    async fn missed_cancel(&self, run_id: &str) -> Option<Input> {
        let row = self.store().run(None, run_id).ok()??;
        let genesis: Genesis = serde_json::from_slice(&row.genesis).ok()?;
        let parent = genesis.parent.filter(|_| genesis.fork.is_none())?;
        self.gave_up(&parent.run_id, run_id).await.then(|| parent_cancelled(&parent.run_id))
    }
}
