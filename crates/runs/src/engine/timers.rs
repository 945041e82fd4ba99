//! The timer loop: gives due timers to their runs.

use std::time::Duration;

use flow::engine::{Input, TimerKey};
use flow::id::{InterruptId, NodeId, RunId};
use ports::runs::{Change, ReadError};
use system::causes;

use super::{Engine, guide};
use crate::Direct;

/// How many timers fire at once.
const AT_ONCE: usize = 256;
/// The longest sleep. It is bounded because the clock may be set and the machine may be suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// The pause after a failed read of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The key of a timer in the store. The node id is last, because it may contain any character.
pub(super) fn timer_key(timer: &TimerKey) -> String {
    match timer {
        TimerKey::Node { node_id, iteration, attempt } => format!("node:{iteration}:{attempt}:{node_id}"),
        TimerKey::Interrupt { interrupt_id } => format!("interrupt:{interrupt_id}"),
        TimerKey::Run => "run".to_owned(),
    }
}

fn parse_key(text: &str) -> Option<TimerKey> {
    if text == "run" {
        return Some(TimerKey::Run);
    }
    if let Some(interrupt_id) = text.strip_prefix("interrupt:") {
        return Some(TimerKey::Interrupt { interrupt_id: InterruptId::new(interrupt_id) });
    }
    let mut parts = text.strip_prefix("node:")?.splitn(3, ':');
    let (iteration, attempt) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(TimerKey::Node { node_id: NodeId::new(parts.next()?), iteration, attempt })
}

impl Engine {
    /// Fires due timers until the host is drained.
    pub async fn keep_time(&self) {
        while !self.uses.records.is_stopping() {
            // Registered before the store is read, so that a timer that is set meanwhile is not missed.
            let set = self.work.timer_set.notified();
            tokio::pin!(set);
            set.as_mut().enable();
            let now = self.uses.records.now();
            match self.uses.records.store().due_timers(now, AT_ONCE).await {
                Ok(due) if due.is_empty() => {
                    let wait = match self.uses.records.store().next_timer().await {
                        Ok(next) => next
                            .map_or(LONGEST_SLEEP, |timer| Duration::from_millis(timer.at.since(now).max(1))),
                        Err(error) => {
                            unreadable(&error);
                            AFTER_FAILURE
                        }
                    };
                    tokio::select! {
                        () = tokio::time::sleep(wait.min(LONGEST_SLEEP)) => {}
                        () = &mut set => {}
                    }
                }
                Ok(due) => {
                    let fired = due.into_iter().map(|timer| self.fire(timer.run_id, timer.key));
                    let fired: Vec<_> = fired.map(tokio::spawn).collect();
                    let mut all = true;
                    for task in fired {
                        all &= task.await.unwrap_or(false);
                    }
                    if !all {
                        // A timer that could not be given to its run stays. Pause before the retry.
                        tokio::time::sleep(AFTER_FAILURE).await;
                    }
                }
                Err(error) => {
                    unreadable(&error);
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Gives a timer to its run. Returns whether that is done. If the store fails, the timer stays.
    fn fire(&self, run_id: RunId, key: String) -> impl Future<Output = bool> + Send + use<> {
        let engine = self.clone();
        async move {
            if let Some((session_id, node_id)) = guide::parse_end_key(&key) {
                return engine.end_guide_late(&run_id, &NodeId::new(node_id), session_id).await;
            }
            let clear = Change::ClearTimer { run_id: run_id.clone(), key: key.clone() };
            let input = match parse_key(&key) {
                Some(TimerKey::Run) => Some(Input::RunDeadline),
                Some(timer) => Some(Input::TimerDue { timer }),
                None => None,
            };
            if let Some(input) = input {
                match engine.advance(&run_id, input, vec![clear.clone()], &Direct, |_| ()).await {
                    Ok(()) => return true,
                    Err(refusal) if refusal.is_host_failure() => return unfired(&run_id, &refusal),
                    // A run that was deleted or refuses the input does not need the timer.
                    Err(_) => {}
                }
            }
            match engine.uses.records.commit(vec![clear]).await {
                Ok(()) => true,
                Err(error) => unfired(&run_id, &error),
            }
        }
    }
}

/// Logs that the timers cannot be read.
fn unreadable(error: &ReadError) {
    tracing::warn!(cause = causes(error), "timers could not be read; retrying");
}

/// Logs that a timer could not be fired. It stays set and is retried.
fn unfired(run_id: &RunId, error: &(dyn std::error::Error + 'static)) -> bool {
    tracing::warn!(
        run.id = run_id.as_str(),
        cause = causes(error),
        "a timer could not be delivered to its run; retrying"
    );
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timer_is_read_back_as_itself() {
        let cases = [
            TimerKey::Run,
            TimerKey::Interrupt { interrupt_id: InterruptId::new("run_1:gate:0") },
            TimerKey::Node { node_id: NodeId::new("a:b"), iteration: 2, attempt: 1 },
        ];
        for timer in cases {
            assert_eq!(parse_key(&timer_key(&timer)), Some(timer));
        }
        for text in ["", "node", "node:1", "node:x:1:a", "other:1"] {
            assert_eq!(parse_key(text), None, "{text}");
        }
    }
}
