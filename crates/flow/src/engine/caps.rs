//! What no run may exceed.

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

    /// How many nodes the run may start.
    pub(super) fn max_node_executions(&self) -> u64 {
        let limit = self.limits.max_node_executions;
        self.option("recursionLimit").map_or(limit, |own| own.min(limit))
    }

    /// How many decisions its supervisor may take.
    pub(super) fn max_decisions(&self) -> u64 {
        let limit = self.limits.max_loop_iterations;
        self.option("maxLoopIterations").map_or(limit, |own| own.min(limit))
    }

    /// How long it may take, in milliseconds.
    fn max_duration(&self) -> u64 {
        let own = [self.option("runTimeoutMs"), self.definition.settings.timeout_ms];
        own.into_iter().flatten().fold(self.limits.max_run_duration_ms, u64::min)
    }

    /// When it has to be over; nothing while it only waits for people. Time in which somebody paused it does not count, nor does time in
    /// which it only waited.
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

    /// The run has taken as long as it may, unless it was paused or only waited meanwhile.
    pub(super) fn run_deadline(&mut self) {
        if self.is_halted() {
            return;
        }
        // A run of an earlier version may have failed while it waited. It is repeated as it was.
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

    /// Records that a limit was reached.
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
