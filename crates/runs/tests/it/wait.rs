//! Waiting for the host in functions of tests that are not asynchronous.

/// [`ports::wait`] as a method.
pub(crate) trait Wait: Future + Sized {
    fn wait(self) -> Self::Output {
        ports::wait(self)
    }
}

impl<F: Future> Wait for F {}

/// Runs a future to its end on a thread without a runtime, where the store works inline. On a thread of a runtime, `ports::wait`
/// never returns once the task has used its budget.
pub(crate) fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| ports::wait(future)).join().unwrap())
}
