//! Waiting for the host in functions of tests that are not asynchronous.

/// [`ports::wait`] as a method.
pub(crate) trait Wait: Future + Sized {
    fn wait(self) -> Self::Output {
        ports::wait(self)
    }
}

impl<F: Future> Wait for F {}
