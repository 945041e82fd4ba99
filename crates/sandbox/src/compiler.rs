//! Compiles modules one at a time, and lets nobody wait for that longer than agreed.
//!
//! Nothing can stop the compiler once it has begun. So it works on a thread of its own: who brought the module is told that it takes too
//! long, and is free; the thread ends when it is done. How long that can be is bounded by what a module may be, see
//! [`ModuleLimits`](crate::ModuleLimits). Until then the turn is taken, so that many hostile modules take turns too and not all cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::{Fault, Module};

pub(crate) struct Compiler {
    turn: Arc<Turn>,
    limit: Duration,
    compiled: AtomicU64,
}

#[derive(Default)]
struct Turn {
    taken: Mutex<bool>,
    free: Condvar,
}

/// Whoever has it compiles.
struct Taken(Arc<Turn>);

impl Compiler {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { turn: Arc::default(), limit, compiled: AtomicU64::new(0) }
    }

    /// How many modules were given to the compiler so far.
    pub(crate) fn compiled(&self) -> u64 {
        self.compiled.load(Ordering::Relaxed)
    }

    /// Does the work when it is its turn, unless somebody has done it before.
    pub(crate) fn compile(
        &self,
        done: impl FnOnce() -> Option<Module>,
        work: impl FnOnce() -> Result<Module, Fault> + Send + 'static,
    ) -> Result<Module, Fault> {
        let taken = self.take()?;
        if let Some(module) = done() {
            return Ok(module);
        }
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let (result, given) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("sandbox-compiler".to_owned());
        let spawned = thread.spawn(move || {
            let compiled = work();
            // Free before anybody is told: who goes on may compile the next one at once.
            drop(taken);
            // Nobody may be there any more.
            let _ = result.send(compiled);
        });
        spawned.map_err(|error| Fault::Host { reason: error.to_string() })?;
        match given.recv_timeout(self.limit) {
            Ok(compiled) if started.elapsed() <= self.limit => compiled,
            Ok(_) | Err(mpsc::RecvTimeoutError::Timeout) => Err(self.too_slow()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Fault::Host { reason: "the compiler ended before it was done".to_owned() })
            }
        }
    }

    /// Waits for its turn, for as long as compiling may take.
    fn take(&self) -> Result<Taken, Fault> {
        let taken = self.turn.lock();
        let waited = self.turn.free.wait_timeout_while(taken, self.limit, |taken| *taken);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(self.too_slow());
        }
        *taken = true;
        Ok(Taken(Arc::clone(&self.turn)))
    }

    fn too_slow(&self) -> Fault {
        Fault::CompileTimeout { limit_ms: u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Turn {
    /// A flag cannot be left half set by a panic.
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.free.notify_one();
    }
}
