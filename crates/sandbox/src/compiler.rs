//! Compiles modules one at a time, with a time limit for callers.
//!
//! Compilation cannot be interrupted, so it runs on its own thread. A caller gets a timeout error while the thread
//! continues to the end. The compile time is bounded by the size limits, see [`ModuleLimits`](crate::ModuleLimits).
//! Only one module is compiled at a time, so hostile modules cannot occupy all cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::{Fault, Module};

pub(crate) struct Compiler {
    turn: Arc<Permit>,
    limit: Duration,
    compiled: AtomicU64,
}

#[derive(Default)]
struct Permit {
    permit: Mutex<bool>,
    free: Condvar,
}

/// Holding it permits compiling.
struct HeldPermit(Arc<Permit>);

impl Compiler {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { turn: Arc::default(), limit, compiled: AtomicU64::new(0) }
    }

    /// The number of compilations so far.
    pub(crate) fn compiled(&self) -> u64 {
        self.compiled.load(Ordering::Relaxed)
    }

    /// Compiles when the permit is free, unless `done` finds an existing result.
    pub(crate) fn compile(
        &self,
        done: impl FnOnce() -> Option<Module>,
        work: impl FnOnce() -> Result<Module, Fault> + Send + 'static,
    ) -> Result<Module, Fault> {
        let permit = self.take()?;
        if let Some(module) = done() {
            return Ok(module);
        }
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let (result, given) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("sandbox-compiler".to_owned());
        let spawned = thread.spawn(move || {
            let compiled = work();
            // Released before the reply, so the caller can compile the next module immediately.
            drop(permit);
            // The caller may be gone.
            let _ = result.send(compiled);
        });
        spawned.map_err(|error| Fault::Host { reason: error.to_string() })?;
        match given.recv_timeout(self.limit) {
            Ok(compiled) if started.elapsed() <= self.limit => compiled,
            Ok(_) | Err(mpsc::RecvTimeoutError::Timeout) => Err(self.too_slow()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Fault::Host { reason: "the compiler thread ended unexpectedly".to_owned() })
            }
        }
    }

    /// Waits for the permit, up to the compile limit.
    fn take(&self) -> Result<HeldPermit, Fault> {
        let permit = self.turn.lock();
        let waited = self.turn.free.wait_timeout_while(permit, self.limit, |permit| *permit);
        let (mut permit, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(self.too_slow());
        }
        *permit = true;
        Ok(HeldPermit(Arc::clone(&self.turn)))
    }

    fn too_slow(&self) -> Fault {
        Fault::CompileTimeout { limit_ms: u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Permit {
    /// A panic cannot leave the flag inconsistent.
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.free.notify_one();
    }
}
