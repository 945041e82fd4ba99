//! The state of one instance.

use std::time::Instant;

use canon::digest::Digest;
use serde_json::Value;
use wasmtime::{Memory, ResourceLimiter, TypedFunc};

use crate::journal::{HostCallResult, Journal, Record};
use crate::random::Stream;
use crate::{Breach, Fault, HostCalls, Invocation, Kill, Limits};

/// Why a host call ended the module.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("the module waits for an answer")]
    Suspended(Value),
}

pub(crate) struct State {
    pub(crate) limits: Limits,
    pub(crate) limiter: Limiter,
    pub(crate) host: Box<dyn HostCalls>,
    pub(crate) random: Stream,
    /// Results of an earlier run that are not replayed yet.
    recorded: std::vec::IntoIter<Record>,
    pub(crate) journal: Journal,
    journal_bytes: usize,
    kill: Kill,
    started: Instant,
    /// Set after instantiation. Before that the start function runs, which must not call the host.
    pub(crate) memory: Option<Memory>,
    pub(crate) alloc: Option<TypedFunc<i32, i32>>,
    pub(crate) ready: bool,
    /// The host is inside a call and asked the module for memory.
    pub(crate) allocating: bool,
    calls: usize,
    writes: usize,
    write_bytes: usize,
    log_bytes: usize,
    pub(crate) logs_dropped: u64,
}

impl State {
    pub(crate) fn new(invocation: &Invocation, host: Box<dyn HostCalls>) -> Self {
        let limits = invocation.limits;
        Self {
            limits,
            limiter: Limiter::new(limits.memory_bytes),
            host,
            random: Stream::new(&invocation.seed),
            recorded: invocation.recorded.records.clone().into_iter(),
            journal: Journal::default(),
            journal_bytes: 0,
            kill: invocation.kill.clone(),
            started: Instant::now(),
            memory: None,
            alloc: None,
            ready: false,
            allocating: false,
            calls: 0,
            writes: 0,
            write_bytes: 0,
            log_bytes: 0,
            logs_dropped: 0,
        }
    }

    /// Checks the time limit.
    pub(crate) fn check_time(&self) -> Result<(), Fault> {
        if self.kill.is_killed() {
            return Err(Fault::Killed);
        }
        let elapsed = self.started.elapsed();
        if elapsed < self.limits.wall_clock {
            return Ok(());
        }
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Err(Breach::Time { limit_ms: millis(self.limits.wall_clock), elapsed_ms: millis(elapsed) }.into())
    }

    /// Called at the start of every host call.
    pub(crate) fn enter_call(&mut self) -> Result<(), Fault> {
        if !self.ready {
            return Err(Fault::misbehaved("it called the host from its start function"));
        }
        if self.allocating {
            return Err(Fault::misbehaved("it called the host while the host waited for `openwop_alloc`"));
        }
        self.calls += 1;
        if self.calls > self.limits.host_calls {
            let limit = self.limits.host_calls;
            return Err(Fault::misbehaved(format!("it made more than {limit} host calls")));
        }
        self.check_time()
    }

    /// Called at the start of every write. Replayed writes count too, so that a repeated run ends at the same point.
    pub(crate) fn enter_write(&mut self, bytes: usize) -> Result<(), Fault> {
        self.writes += 1;
        self.write_bytes = self.write_bytes.saturating_add(bytes);
        let Limits { writes, write_bytes, .. } = self.limits;
        if self.writes > writes {
            return Err(Fault::misbehaved(format!(
                "it wrote to channels and variables more than {writes} times"
            )));
        }
        if self.write_bytes > write_bytes {
            let reason = format!("it wrote more than {write_bytes} bytes to channels and variables");
            return Err(Fault::misbehaved(reason));
        }
        Ok(())
    }

    /// The recorded result of this call, or the host's result, which is recorded.
    pub(crate) fn answer(
        &mut self,
        call: &str,
        request: &[&[u8]],
        ask: impl FnOnce(&mut dyn HostCalls) -> Result<HostCallResult, Stop>,
    ) -> Result<HostCallResult, Stop> {
        let request = digest(request);
        let index = self.journal.len();
        let record = match self.recorded.next() {
            Some(record) if record.call != call => {
                let reason = format!("it calls `{call}`, but the journal has `{}`", record.call);
                return Err(Fault::Diverged { index, reason }.into());
            }
            Some(record) if record.request != request => {
                let reason = format!("it calls `{call}` with different arguments");
                return Err(Fault::Diverged { index, reason }.into());
            }
            Some(record) => record,
            None => Record { call: call.to_owned(), request, answer: ask(self.host.as_mut())? },
        };
        self.journal_bytes = self.journal_bytes.saturating_add(record.answer.weight());
        if self.journal_bytes > self.limits.journal_bytes {
            let limit = self.limits.journal_bytes;
            let reason = format!("the results of its host calls exceed {limit} bytes");
            return Err(Fault::misbehaved(reason).into());
        }
        let answer = record.answer.clone();
        self.journal.records.push(record);
        Ok(answer)
    }

    /// Checks that all recorded calls were made.
    pub(crate) fn check_followed(&self) -> Result<(), Fault> {
        match self.recorded.as_slice().first() {
            None => Ok(()),
            Some(next) => {
                let reason = format!("it ended, but the journal has a call of `{}`", next.call);
                Err(Fault::Diverged { index: self.journal.len(), reason })
            }
        }
    }

    /// Whether recorded results are left.
    pub(crate) fn is_replaying(&self) -> bool {
        self.recorded.len() > 0
    }

    /// Consumes the log budget.
    pub(crate) fn may_log(&mut self, bytes: usize) -> bool {
        let fits = self.log_bytes.saturating_add(bytes) <= self.limits.log_bytes;
        if fits {
            self.log_bytes += bytes;
        } else {
            self.logs_dropped += 1;
        }
        fits
    }
}

/// The digest of all parts, each with its length.
fn digest(parts: &[&[u8]]) -> Digest {
    let mut text = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
        text.extend_from_slice(part);
    }
    Digest::of_bytes(&text)
}

/// Enforces one limit on memory and tables. Exceeding it ends the module: if growth merely failed, the module could
/// continue and hide the breach.
pub(crate) struct Limiter {
    limit: u64,
    memory: u64,
    tables: u64,
    peak: u64,
    /// The last growth exceeded the module's own maximum, which is not a breach.
    over_own_maximum: bool,
}

/// The size of a table element.
const ELEMENT_BYTES: u64 = 16;

impl Limiter {
    fn new(limit: u64) -> Self {
        Self { limit, memory: 0, tables: 0, peak: 0, over_own_maximum: false }
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    fn check(&mut self, memory: u64, tables: u64) -> Result<(), Fault> {
        let wanted = memory.saturating_add(tables);
        if wanted > self.limit {
            return Err(Breach::Memory { limit: self.limit, requested: Some(wanted) }.into());
        }
        self.peak = self.peak.max(wanted);
        (self.memory, self.tables) = (memory, tables);
        Ok(())
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.over_own_maximum = maximum.is_some_and(|maximum| desired > maximum);
        let others = self.memory.saturating_sub(current as u64);
        let before = (self.memory, self.tables, self.peak);
        self.check(others.saturating_add(desired as u64), self.tables).map_err(Stop::from)?;
        if self.over_own_maximum {
            (self.memory, self.tables, self.peak) = before;
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        if self.over_own_maximum {
            return Ok(());
        }
        // More than any memory can have, or more than the machine has left.
        Err(Stop::from(Fault::from(Breach::Memory { limit: self.limit, requested: None })).into())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let added = (desired.saturating_sub(current) as u64).saturating_mul(ELEMENT_BYTES);
        self.check(self.memory, self.tables.saturating_add(added)).map_err(Stop::from)?;
        Ok(true)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        64
    }

    fn memories(&self) -> usize {
        // The module's own memory, or the one provided by the host.
        1
    }
}
