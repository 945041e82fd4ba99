//! A channel for one result, from the thread that computes it to the future that waits for it.
//!
//! Not the one of a runtime: a future of a port also completes on threads without a runtime, and where [`wait`](crate::wait) polls
//! it inside a task, a runtime's channel would stop when the task has used up its share of polls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The sending half.
#[derive(Debug)]
pub struct Responder<T>(Arc<Mutex<Slot<T>>>);

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Mutex<Slot<T>>>);

#[derive(Debug)]
struct Slot<T> {
    result: Option<T>,
    waker: Option<Waker>,
    responder_gone: bool,
    receiver_gone: bool,
}

/// The responder was dropped without a result.
pub(crate) struct Lost;

pub(crate) fn channel<T>() -> (Responder<T>, Receiver<T>) {
    let slot = Slot { result: None, waker: None, responder_gone: false, receiver_gone: false };
    let slot = Arc::new(Mutex::new(slot));
    (Responder(Arc::clone(&slot)), Receiver(slot))
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Responder<T> {
    /// Whether the future was dropped, so that the result is not read.
    pub fn is_abandoned(&self) -> bool {
        lock(&self.0).receiver_gone
    }

    /// Completes the future.
    ///
    /// # Errors
    /// The result, if the future was dropped.
    pub fn send(self, result: T) -> Result<(), T> {
        let mut slot = lock(&self.0);
        if slot.receiver_gone {
            return Err(result);
        }
        // Dropping the responder wakes the future.
        slot.result = Some(result);
        Ok(())
    }
}

impl<T> Drop for Responder<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = lock(&self.0);
            slot.responder_gone = true;
            slot.waker.take()
        };
        // Outside the lock: the future may be polled at once.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<Result<T, Lost>> {
        let mut slot = lock(&self.0);
        if let Some(result) = slot.result.take() {
            return Poll::Ready(Ok(result));
        }
        if slot.responder_gone {
            return Poll::Ready(Err(Lost));
        }
        match &mut slot.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.receiver_gone = true;
        slot.waker = None;
    }
}
