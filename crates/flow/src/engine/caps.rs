//! Limits of a run: nodes, decisions, duration.

use canon::time::Timestamp;
use serde_json::Value;

use super::turn::Turn;
use super::{Effect, TimerKey};
use crate::definition::NodeIndex;
use crate::event::data::run::CapBreached;
use crate::failure::FailureCode;
use crate::state::RunError;

impl Turn<'_> {
    fn option(&self, name: &str) -> Option<u64> {
        self.state.genesis.configurable.get(name).and_then(Value::as_u64)
    }

    /// The maximum number of nodes that the run starts.
    pub(super) fn max_node_executions(&self) -> u64 {
        let limit = self.limits.max_node_executions;
        self.option("recursionLimit").map_or(limit, |own| own.min(limit))
    }

    /// The maximum number of decisions of its supervisor.
    pub(super) fn max_decisions(&self) -> u64 {
        let limit = self.limits.max_loop_iterations;
        self.option("maxLoopIterations").map_or(limit, |own| own.min(limit))
    }

    /// The maximum duration of the run, in milliseconds.
    fn max_duration(&self) -> u64 {
        let own = [self.option("runTimeoutMs"), self.definition.settings.timeout_ms];
        own.into_iter().flatten().fold(self.limits.max_run_duration_ms, u64::min)
    }

    /// When the run times out; `None` while it waits only for people. The time in which it was paused, or waited only for people, does not
    /// count.
    fn deadline(&self) -> Option<Timestamp> {
        let state = &self.state;
        let started = state.started_at.filter(|_| state.waiting_since.is_none())?;
        Some(started.plus(self.max_duration()).plus(state.paused_ms).plus(state.waited_ms))
    }

    pub(super) fn set_deadline(&mut self) {
        if let Some(at) = self.deadline() {
            self.ask_host(Effect::SetTimer { timer: TimerKey::Run, at });
        }
    }

    /// Fails the run if it has reached its maximum duration. It may not have, if it was paused or waited meanwhile.
    pub(super) fn run_deadline(&mut self) {
        if self.is_halted() {
            return;
        }
        // In earlier versions, a run could time out while it waited. A replay repeats that.
        if self.recorded.is_none() && self.deadline().is_none_or(|deadline| deadline > self.now) {
            self.set_deadline();
            return;
        }
        let limit = self.max_duration();
        let idle = self.state.paused_ms.saturating_add(self.state.waited_ms);
        let observed = self.elapsed().saturating_sub(idle).max(limit.saturating_add(1));
        let cause = self.breach("run-duration", limit, observed, None);
        let message = format!("the run took longer than {limit} ms");
        self.fail_run(&RunError::of(FailureCode::RunTimeout, message), None, Some(cause));
    }

    /// Records that a limit was exceeded.
    pub(super) fn breach(
        &mut self,
        kind: &'static str,
        limit: u64,
        observed: u64,
        node: Option<NodeIndex>,
    ) -> u64 {
        let node_id = node.map(|node| self.node_id(node));
        self.emit(CapBreached { kind: kind.into(), limit, node_id, observed }, node, None)
    }
}
