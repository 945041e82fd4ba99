//! The reader threads.
//!
//! SQLite blocks, so no query runs on a thread that serves requests. The store has its own threads instead of using the
//! runtime's blocking pool: each keeps one connection with its prepared statements and needs no lock to get it, their
//! number limits the connections, and the store works without a runtime.
//!
//! The thread that became idle last gets the next query. Usually one thread does all the work with warm caches; the
//! others work only while it is busy.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle, Thread};

use disk::sqlite::Readers;
use rusqlite::Connection;

/// Enough threads that a few slow scans do not delay short reads.
const THREADS: usize = 8;

/// A query. It gets an error if its thread cannot open a connection.
pub(super) type Query = Box<dyn FnOnce(rusqlite::Result<&Connection>) + Send>;

pub(super) struct ReaderThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    connections: Readers,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Query>,
    /// The idle threads with their numbers. The last one became idle last.
    idle: Vec<(usize, Thread)>,
    is_closed: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReaderThreads {
    /// Starts the threads. Each opens its connection with its first query.
    pub(super) fn start(connections: Readers) -> io::Result<Self> {
        let shared = Arc::new(Shared { connections, queue: Mutex::default() });
        let mut started = Self { shared, threads: Vec::with_capacity(THREADS) };
        for number in 0..THREADS {
            let shared = Arc::clone(&started.shared);
            let builder = Builder::new().name(format!("runs-reader-{number}"));
            started.threads.push(builder.spawn(move || work(number, &shared))?);
        }
        Ok(started)
    }

    /// Hands a query to an idle thread, or to the next one that becomes idle. The queue is unbounded; the number of
    /// requests that the host admits limits it.
    pub(super) fn submit(&self, query: Query) {
        let mut queue = self.shared.queue();
        queue.waiting.push_back(query);
        let idle = queue.idle.pop();
        drop(queue);
        if let Some((_, thread)) = idle {
            thread.unpark();
        }
    }
}

/// Runs the queries that are still queued and closes the connections.
impl Drop for ReaderThreads {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        let idle = std::mem::take(&mut queue.idle);
        drop(queue);
        for (_, thread) in idle {
            thread.unpark();
        }
        for thread in self.threads.drain(..) {
            // Panics of queries are caught, so there is nothing to report.
            let _ = thread.join();
        }
    }
}

fn work(number: usize, shared: &Shared) {
    let mut connection = None;
    while let Some(query) = next(number, shared) {
        if connection.is_none() {
            match shared.connections.open() {
                Ok(opened) => connection = Some(opened),
                Err(error) => {
                    query(Err(error));
                    continue;
                }
            }
        }
        if let Some(connection) = &connection {
            // The future of the query reports the failure to the caller.
            if catch_unwind(AssertUnwindSafe(|| query(Ok(connection)))).is_err() {
                tracing::error!("a query panicked");
            }
        }
    }
}

/// Waits for a query; `None` once the store is closed and the queue is empty.
fn next(number: usize, shared: &Shared) -> Option<Query> {
    loop {
        let mut queue = shared.queue();
        if let Some(query) = queue.waiting.pop_front() {
            // After a spurious wake-up the thread is still listed as idle.
            queue.idle.retain(|(idle, _)| *idle != number);
            return Some(query);
        }
        if queue.is_closed {
            return None;
        }
        if queue.idle.iter().all(|(idle, _)| *idle != number) {
            queue.idle.push((number, thread::current()));
        }
        drop(queue);
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    use disk::sqlite::Settings;

    use super::*;

    fn start(folder: &tempfile::TempDir) -> ReaderThreads {
        let path = folder.path().join("file");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (n)").unwrap();
        let settings = Settings { cache_kib: 64, statements: 4, idle_readers: 0, prepare: |_| Ok(()) };
        ReaderThreads::start(Readers::new(&path, settings)).unwrap()
    }

    #[test]
    fn all_threads_work_at_once_and_a_panic_ends_none_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let readers = start(&folder);
        for _ in 0..THREADS {
            readers.submit(Box::new(|_| panic!("a query that panics")));
        }
        let (sender, receiver) = channel();
        let barrier = Arc::new(Barrier::new(THREADS));
        for _ in 0..THREADS {
            let (sender, barrier) = (sender.clone(), Arc::clone(&barrier));
            readers.submit(Box::new(move |connection| {
                barrier.wait();
                let count =
                    connection.unwrap().query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
                sender.send(count).unwrap();
            }));
        }
        for _ in 0..THREADS {
            assert_eq!(receiver.recv().unwrap(), Ok(0));
        }
    }

    #[test]
    fn queued_queries_run_before_the_threads_end() {
        let folder = tempfile::tempdir().unwrap();
        let readers = start(&folder);
        let (sender, receiver) = channel();
        for number in 0..100 {
            let sender = sender.clone();
            readers.submit(Box::new(move |_| sender.send(number).unwrap()));
        }
        drop((readers, sender));
        assert_eq!(receiver.iter().count(), 100);
    }

    #[test]
    fn a_query_gets_the_error_if_no_connection_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { cache_kib: 64, statements: 4, idle_readers: 0, prepare: |_| Ok(()) };
        let readers = ReaderThreads::start(Readers::new(&folder.path().join("absent"), settings)).unwrap();
        let (sender, receiver) = channel();
        readers.submit(Box::new(move |connection| sender.send(connection.is_err()).unwrap()));
        assert!(receiver.recv().unwrap());
    }
}
