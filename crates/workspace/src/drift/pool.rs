//! A work pool: tasks are done in advance by helper threads, or by the thread that needs the
//! result.
//!
//! The scan needs results in a fixed order. A task that has not started when its result is needed
//! is done by the requesting thread, so the scan works with any number of helpers, including none.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many eager results may wait. Each can hold a directory open, and a process has 1,024 files
/// by default.
const MAX_AHEAD: usize = 64;

pub(super) trait Work: Send {
    type Output: Send;

    fn run(self) -> Self::Output;
}

/// One task, shared between the requesting and the working thread.
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
    /// It panicked; the requesting thread panics too, so that it does not wait forever.
    Lost(Box<dyn Any + Send>),
    Taken,
}

/// Tasks that have not started.
struct Queues<W: Work> {
    /// In the order in which they are needed.
    eager: VecDeque<Arc<Task<W>>>,
    /// Started when the eager tasks have reached their limit.
    patient: VecDeque<Arc<Task<W>>>,
    /// Eager tasks that helpers have finished or started, and that were not requested yet.
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

    /// Does the work, unless it has started.
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

    /// Queues tasks before all other eager ones: they are needed next, in this order.
    pub(super) fn next(&self, tasks: impl DoubleEndedIterator<Item = Arc<Task<W>>>) {
        let mut queues = lock(&self.queues);
        for task in tasks.rev() {
            queues.eager.push_front(task);
        }
        drop(queues);
        self.changed.notify_all();
    }

    /// Queues a task after all other patient ones.
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
            // Another thread works on it. Do something else instead of waiting.
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

    /// Works until the pool is closed.
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

    /// Closes the pool when the returned guard is dropped.
    pub(super) fn closing(&self) -> Closing<'_, W> {
        Closing(self)
    }

    /// Removes a task from the queues. A requested task is the first of its queue, or gone.
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

/// No invariant behind these locks spans an unlock, so a panicked thread left consistent state.
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
    fn a_panic_of_a_helper_reaches_the_requester() {
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
    fn results_are_in_request_order_with_any_number_of_helpers() {
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
