//! Work that is done ahead by helper threads, or by the one who needs its result.
//!
//! The scan asks for results in a fixed order. A task that nobody has begun when its turn comes is done by
//! the asking thread itself, so that the scan ends with any number of helpers, with none too.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many results of the eager kind may wait to be asked for. Each can hold a directory open, and a
/// process has 1,024 files by default.
const MAX_AHEAD: usize = 64;

/// Something to do.
pub(super) trait Work: Send {
    /// What comes of it.
    type Output: Send;

    /// Does it.
    fn run(self) -> Self::Output;
}

/// One piece of work, shared between the one who needs it and the one who does it.
pub(super) struct Task<W: Work> {
    state: Mutex<State<W>>,
    done: Condvar,
}

enum State<W: Work> {
    Waiting(W),
    Running,
    Done {
        output: W::Output,
        ahead: bool,
    },
    /// It panicked, and whoever asks for it panics with it: nobody waits forever.
    Lost(Box<dyn Any + Send>),
    Taken,
}

/// The tasks that nobody has begun.
struct Queues<W: Work> {
    /// In the order in which they will be asked for.
    eager: VecDeque<Arc<Task<W>>>,
    /// Done once as many of the others wait as may.
    patient: VecDeque<Arc<Task<W>>>,
    /// How many of the eager kind are done by helpers, or in their hands, and were not asked for yet.
    ahead: usize,
    closed: bool,
}

pub(super) struct Pool<W: Work> {
    queues: Mutex<Queues<W>>,
    changed: Condvar,
}

impl<W: Work> Task<W> {
    pub(super) fn new(work: W) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::Waiting(work)), done: Condvar::new() })
    }

    /// Does the work, unless somebody else has begun.
    fn run(&self, ahead: bool) -> bool {
        let work = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut *state, State::Running) {
                State::Waiting(work) => work,
                other => {
                    *state = other;
                    return false;
                }
            }
        };
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| work.run()));
        *lock(&self.state) = match outcome {
            Ok(output) => State::Done { output, ahead },
            Err(panicked) => State::Lost(panicked),
        };
        self.done.notify_all();
        true
    }
}

impl<W: Work> Pool<W> {
    pub(super) fn new() -> Self {
        let queues = Queues { eager: VecDeque::new(), patient: VecDeque::new(), ahead: 0, closed: false };
        Self { queues: Mutex::new(queues), changed: Condvar::new() }
    }

    /// Puts tasks before all others of the eager kind: they are asked for next, in this order.
    pub(super) fn next(&self, tasks: impl DoubleEndedIterator<Item = Arc<Task<W>>>) {
        let mut queues = lock(&self.queues);
        for task in tasks.rev() {
            queues.eager.push_front(task);
        }
        drop(queues);
        self.changed.notify_all();
    }

    /// Puts a task after all others of the patient kind.
    pub(super) fn later(&self, task: Arc<Task<W>>) {
        lock(&self.queues).patient.push_back(task);
        self.changed.notify_one();
    }

    /// The result of a task: waits for it, or does it.
    pub(super) fn take(&self, task: &Arc<Task<W>>) -> W::Output {
        self.forget(task);
        task.run(false);
        loop {
            let mut state = lock(&task.state);
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done { output, ahead } => {
                    drop(state);
                    if ahead {
                        lock(&self.queues).ahead -= 1;
                        self.changed.notify_one();
                    }
                    return output;
                }
                State::Lost(panicked) => {
                    drop(state);
                    panic::resume_unwind(panicked);
                }
                other => *state = other,
            }
            drop(state);
            // Another thread is at it. Instead of waiting, something else can be done.
            let other = lock(&self.queues).patient.pop_front();
            if other.is_some_and(|other| other.run(false)) {
                continue;
            }
            let state = lock(&task.state);
            if matches!(*state, State::Running) {
                drop(task.done.wait(state).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Helps until the pool is closed.
    pub(super) fn help(&self) {
        let mut queues = lock(&self.queues);
        while !queues.closed {
            let eager = if queues.ahead < MAX_AHEAD { queues.eager.pop_front() } else { None };
            let ahead = eager.is_some();
            let Some(task) = eager.or_else(|| queues.patient.pop_front()) else {
                queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queues.ahead += usize::from(ahead);
            drop(queues);
            let ran = task.run(ahead);
            queues = lock(&self.queues);
            if ahead && !ran {
                queues.ahead -= 1;
            }
        }
    }

    /// Sends the helpers home when what is returned is dropped.
    pub(super) fn closing(&self) -> Closing<'_, W> {
        Closing(self)
    }

    /// Drops a task from the queues. One that is asked for is the first of its queue, or not there any more.
    fn forget(&self, task: &Arc<Task<W>>) {
        let Queues { eager, patient, .. } = &mut *lock(&self.queues);
        for queue in [eager, patient] {
            if queue.front().is_some_and(|front| Arc::ptr_eq(front, task)) {
                queue.pop_front();
            }
        }
    }
}

/// See [`Pool::closing`].
pub(super) struct Closing<'p, W: Work>(&'p Pool<W>);

impl<W: Work> Drop for Closing<'_, W> {
    fn drop(&mut self) {
        lock(&self.0.queues).closed = true;
        self.0.changed.notify_all();
    }
}

/// No invariant of what is behind these locks spans an unlocking, so a thread that panicked left nothing halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Double(u32);

    impl Work for Double {
        type Output = u32;

        fn run(self) -> u32 {
            self.0 * 2
        }
    }

    struct Panics;

    impl Work for Panics {
        type Output = ();

        fn run(self) {
            panic!("as asked");
        }
    }

    #[test]
    fn a_panic_of_a_helper_reaches_the_one_who_asks() {
        let pool = Pool::new();
        let task = Task::new(Panics);
        pool.next(std::iter::once(Arc::clone(&task)));
        let asked = std::thread::scope(|scope| {
            scope.spawn(|| pool.help());
            let _closing = pool.closing();
            panic::catch_unwind(AssertUnwindSafe(|| pool.take(&task))).unwrap_err()
        });
        assert_eq!(asked.downcast_ref::<&str>(), Some(&"as asked"));
    }

    #[test]
    fn results_come_in_the_order_asked_for_with_any_number_of_helpers() {
        for helpers in 0..4 {
            let pool = Pool::new();
            let results = std::thread::scope(|scope| {
                for _ in 0..helpers {
                    scope.spawn(|| pool.help());
                }
                let _closing = pool.closing();
                let eager: Vec<_> = (0..500).map(|n| Task::new(Double(n))).collect();
                let patient: Vec<_> = (500..1000).map(|n| Task::new(Double(n))).collect();
                pool.next(eager.iter().map(Arc::clone));
                patient.iter().for_each(|task| pool.later(Arc::clone(task)));
                eager.iter().chain(&patient).map(|task| pool.take(task)).collect::<Vec<u32>>()
            });
            assert_eq!(results, (0..1000).map(|n| n * 2).collect::<Vec<_>>(), "{helpers} helpers");
        }
    }
}
