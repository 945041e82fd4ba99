//! Work that blocks its thread, as a future.

use std::future::pending;

use tokio::runtime::Handle;

use crate::PortFuture;

/// Runs work that waits for a disk or computes for long where it holds up no other task: on the blocking pool of the
/// runtime, in one hop. Without a runtime, the calling thread is one that may block, and does the work itself.
///
/// Work that has begun runs to its end, even if the future is dropped. If it panics, so does the task that awaits it.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> PortFuture<'static, T> {
    let Ok(runtime) = Handle::try_current() else { return PortFuture::ready(work()) };
    // Spawned now and not at the first poll: the caller may drop the future at any time, but not half of the work.
    let running = runtime.spawn_blocking(work);
    PortFuture::boxed(async move {
        match running.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down and has not begun the work. It drops this task too.
                Err(_) => pending().await,
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn without_a_runtime_the_caller_does_the_work() {
        let here = thread::current().id();
        assert_eq!(blocking(move || thread::current().id()).wait(), here);
    }

    #[test]
    fn in_a_runtime_another_thread_does_the_work_even_if_the_future_is_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let here = thread::current().id();
        runtime.block_on(async {
            assert_ne!(blocking(|| thread::current().id()).await, here);
            let (sender, receiver) = std::sync::mpsc::channel();
            drop(blocking(move || sender.send(1)));
            assert_eq!(receiver.recv(), Ok(1));
        });
    }
}
