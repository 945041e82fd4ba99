//! Between resolvers, which find bytes, and writers, which put them on the disk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many things wait at most. Enough that neither side waits for the other all the time; each may be an open file.
const MAX_WAITING: usize = 128;

/// How many bytes wait at most. One batch alone may have more.
const MAX_BYTES: usize = 16 << 20;

/// A queue that is bounded in things and in bytes, and that can be told that somebody lost interest.
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

    /// Adds a batch of so many things and bytes, once there is room; gives it back when the queue is closed or `unwanted`
    /// says so. Whoever makes it unwanted calls [`Queue::wake`].
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

    /// Takes a batch; nothing once the queue is closed and empty.
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

    /// Nothing more is taken in.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Lets everybody who waits for room ask again whether what they bring is wanted.
    pub(super) fn wake(&self) {
        // With the lock held nobody is between the question and the wait.
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
    fn one_batch_may_be_larger_than_all_that_may_wait() {
        let queue = Queue::new();
        queue.push("large", 1, MAX_BYTES * 3, || false).unwrap();
        assert_eq!(queue.pop(), Some("large"));
        queue.close();
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.push("late", 1, 0, || false), Err("late"));
    }

    #[test]
    fn somebody_who_waits_for_room_goes_home_when_nothing_is_wanted_any_more() {
        let queue = Queue::new();
        let unwanted = AtomicBool::new(false);
        queue.push(0, 1, MAX_BYTES, || false).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.push(1, 1, 1, || unwanted.load(Ordering::SeqCst)));
            unwanted.store(true, Ordering::SeqCst);
            queue.wake();
            assert_eq!(waiting.join().unwrap(), Err(1));
        });
        assert_eq!(queue.pop(), Some(0), "what was taken in is still there");
    }
}
