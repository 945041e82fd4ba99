//! The thread that lets time pass for running modules.
//!
//! A module looks at its clock whenever the epoch of the engine moves on. This thread moves it, but only while modules
//! run: an idle host has no thread that wakes up for nothing.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

/// How late a module can be ended.
const TICK: Duration = Duration::from_millis(5);

/// How many ticks the thread stays awake after the last module, so that calls in quick succession do not wake it each
/// time.
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

    /// Time passes at least as long as this is kept.
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
            // It cannot panic, and if it did, there is nobody to tell.
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
