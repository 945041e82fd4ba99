//! The future that every method of a port returns.
//!
//! A concrete type instead of `async fn` keeps the traits dyn-compatible without a heap allocation per call: most answers
//! come from memory and are ready at once, and an answer of another thread needs only the channel that carries it.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::channel::{self, Receiver, Responder};

/// The result of a port's method, now or later.
#[must_use = "futures do nothing unless polled"]
pub struct PortFuture<'a, T>(State<'a, T>);

enum State<'a, T> {
    /// The result; `None` after it was taken.
    Ready(Option<T>),
    /// The result comes from another thread.
    Waiting {
        receiver: Receiver<T>,
        lost: fn() -> T,
    },
    Boxed(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

/// No field is pinned in place: a boxed future is pinned in its box, and a result is moved out.
impl<T> Unpin for PortFuture<'_, T> {}

impl<'a, T> PortFuture<'a, T> {
    /// A result that is known already. Allocates nothing.
    pub fn ready(result: T) -> Self {
        Self(State::Ready(Some(result)))
    }

    /// Wraps any future, at the cost of an allocation.
    pub fn boxed(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self(State::Boxed(Box::pin(future)))
    }

    /// A result that another thread sends with the [`Responder`]. If the responder is dropped without a result, because the
    /// thread panicked or ended, the future resolves to `lost()`.
    pub fn channel(lost: fn() -> T) -> (Responder<T>, Self) {
        let (responder, receiver) = channel::channel();
        (responder, Self(State::Waiting { receiver, lost }))
    }

    /// [`wait`] for this future.
    pub fn wait(self) -> T {
        wait(self)
    }
}

/// Blocks the calling thread until a future completes. For threads that may block, such as those of commands and tests, and for
/// futures that need no runtime.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

impl<T> Future for PortFuture<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Ready(result) => {
                Poll::Ready(result.take().expect("a future is not polled after it completed"))
            }
            State::Waiting { receiver, lost } => {
                receiver.poll(context).map(|received| received.unwrap_or_else(|_| lost()))
            }
            State::Boxed(future) => future.as_mut().poll(context),
        }
    }
}

impl<T> fmt::Debug for PortFuture<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match &self.0 {
            State::Ready(_) => "PortFuture(ready)",
            State::Waiting { .. } => "PortFuture(waiting)",
            State::Boxed(_) => "PortFuture(boxed)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_future_gives_its_result() {
        let ready = PortFuture::ready(1);
        assert_eq!(ready.wait(), 1);
        assert_eq!(PortFuture::boxed(async { 2 }).wait(), 2);
        let (responder, sent) = PortFuture::channel(|| 0);
        assert!(!responder.is_abandoned());
        let sender = thread::spawn(move || responder.send(3));
        assert_eq!(sent.wait(), 3);
        assert_eq!(sender.join().unwrap(), Ok(()));
    }

    #[test]
    fn a_responder_that_is_dropped_gives_the_fallback() {
        let (responder, lost) = PortFuture::channel(|| "lost");
        drop(responder);
        assert_eq!(lost.wait(), "lost");
    }

    #[test]
    fn a_future_that_is_dropped_is_noticed() {
        let (responder, unread) = PortFuture::channel(|| 0);
        drop(unread);
        assert!(responder.is_abandoned());
        assert_eq!(responder.send(4), Err(4));
    }
}
