//! The queue between resolvers, which produce bytes, and writers, which write them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The capacity in items: enough to keep both sides busy; each may be an open file.
const MAX_WAITING: usize = 128;

/// The capacity in bytes. A single batch may exceed it.
const MAX_BYTES: usize = 16 << 20;

/// A queue that is bounded in items and bytes, and whose producers can be cancelled.
#[derive(Debug)]
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    room: Condvar,
    work: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    waiting: VecDeque<(T, usize, usize)>,
    things: usize,
    bytes: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let inner = Inner { waiting: VecDeque::new(), things: 0, bytes: 0, closed: false };
        Self { inner: Mutex::new(inner), room: Condvar::new(), work: Condvar::new() }
    }

    /// Adds a batch of `items` and `bytes` when there is room; returns it if the queue is closed or
    /// `unwanted` becomes true. Code that makes it unwanted must call [`Queue::wake`].
    pub(super) fn push(
        &self,
        batch: T,
        things: usize,
        bytes: usize,
        unwanted: impl Fn() -> bool,
    ) -> Result<(), T> {
        let mut inner = self.lock();
        loop {
            if inner.closed || unwanted() {
                return Err(batch);
            }
            let fits = inner.things.saturating_add(things) <= MAX_WAITING
                && inner.bytes.saturating_add(bytes) <= MAX_BYTES;
            if fits || inner.waiting.is_empty() {
                inner.bytes = inner.bytes.saturating_add(bytes);
                inner.things = inner.things.saturating_add(things);
                inner.waiting.push_back((batch, things, bytes));
                drop(inner);
                self.work.notify_one();
                return Ok(());
            }
            inner = self.room.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes a batch; `None` once the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut inner = self.lock();
        loop {
            if let Some((batch, things, bytes)) = inner.waiting.pop_front() {
                inner.things = inner.things.saturating_sub(things);
                inner.bytes = inner.bytes.saturating_sub(bytes);
                drop(inner);
                self.room.notify_all();
                return Some(batch);
            }
            if inner.closed {
                return None;
            }
            inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the queue for new batches.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Wakes all producers, so that they check again whether their batch is wanted.
    pub(super) fn wake(&self) {
        // Holding the lock, no producer is between its check and its wait.
        let _inner = self.lock();
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn one_batch_may_exceed_the_capacity() {
        let queue = Queue::new();
        queue.push("large", 1, MAX_BYTES * 3, || false).unwrap();
        assert_eq!(queue.pop(), Some("large"));
        queue.close();
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.push("late", 1, 0, || false), Err("late"));
    }

    #[test]
    fn a_waiting_producer_is_released_when_its_batch_is_unwanted() {
        let queue = Queue::new();
        let unwanted = AtomicBool::new(false);
        queue.push(0, 1, MAX_BYTES, || false).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.push(1, 1, 1, || unwanted.load(Ordering::SeqCst)));
            unwanted.store(true, Ordering::SeqCst);
            queue.wake();
            assert_eq!(waiting.join().unwrap(), Err(1));
        });
        assert_eq!(queue.pop(), Some(0), "queued batches remain");
    }
}
