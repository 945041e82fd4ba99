//! The epoch ticker.
//!
//! Running modules check their time limit when the engine's epoch advances. This thread advances it while modules run;
//! an idle host has no periodic wake-ups.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

/// The resolution of the time limit.
const TICK: Duration = Duration::from_millis(5);

/// How many ticks the thread stays awake after the last module, so that frequent calls do not wake it each time.
const LINGER: u32 = 20;

pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    asleep: bool,
    over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("sandbox-ticker".to_owned())
            .spawn(move || tick(&engine, &theirs))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The epoch advances while this is held.
    pub(crate) fn running(&self) -> Running<'_> {
        let mut state = self.shared.lock();
        state.running += 1;
        if state.asleep {
            self.shared.changed.notify_one();
        }
        Running { shared: &self.shared }
    }
}

pub(crate) struct Running<'a> {
    shared: &'a Shared,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.lock().running -= 1;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and there is no one to report to.
            let _ = thread.join();
        }
    }
}

fn tick(engine: &Engine, shared: &Shared) {
    let mut idle = 0;
    let mut state = shared.lock();
    while !state.over {
        idle = if state.running == 0 { idle + 1 } else { 0 };
        if idle > LINGER {
            state.asleep = true;
            state = shared
                .changed
                .wait_while(state, |state| state.running == 0 && !state.over)
                .unwrap_or_else(PoisonError::into_inner);
            state.asleep = false;
            idle = 0;
        } else {
            let (guard, _) = shared
                .changed
                .wait_timeout_while(state, TICK, |state| !state.over)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            engine.increment_epoch();
        }
    }
}
