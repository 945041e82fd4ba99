//! Writes the log to standard error from a separate thread.
//!
//! ```text
//!   caller   appends a line to the buffer and returns
//!   thread   waits a moment, or for a warning, then writes the buffer
//! ```
//!
//! A slow terminal or pipe does not delay requests. If the buffer is full because the reader is too
//! slow, lines are dropped and counted, and the count is logged when the reader continues. Pending
//! lines are written on shutdown and on panic.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The maximum delay of a line. Warnings and errors are not delayed.
const PAUSE: Duration = Duration::from_millis(200);
/// The buffer size that triggers a write.
const MUCH: usize = 64 << 10;
/// The maximum buffer size. A busy server fills it in about ten seconds.
const MOST: usize = 8 << 20;

/// Starts logging: as text on a terminal, as JSON elsewhere. `INTERLOCK_LOG` sets the level.
/// Dropping the result flushes the log.
pub(crate) fn begin() -> Option<Log> {
    let mut said = std::env::var("INTERLOCK_LOG").unwrap_or_else(|_| "info".to_owned());
    // The MCP library logs every message, at some levels with its contents, so it is silent unless
    // it is named explicitly.
    if !said.contains("rmcp") {
        said.push_str(",rmcp=warn");
    }
    let filter = EnvFilter::try_new(&said).unwrap_or_else(|_| EnvFilter::new("info,rmcp=warn"));
    // If no thread can be started, the server works without a log.
    let log = Log::start(Box::new(io::stderr())).ok()?;
    let printed = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log.lines());
    let begun = if io::stderr().is_terminal() {
        printed.try_init()
    } else {
        // Include the span once, not in a list again.
        printed.json().with_span_list(false).with_ansi(false).try_init()
    };
    // If another subscriber is installed already, it does the logging.
    begun.ok()?;
    log.lines().write_before_panics();
    Some(log)
}

/// The log. Dropping it writes all pending lines.
pub(crate) struct Log {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    fn start(output: Box<dyn Write + Send>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            printed: Condvar::new(),
            output: Mutex::new(Output { file: output, text: Vec::new() }),
        });
        let of_thread = Arc::clone(&shared);
        let thread = Builder::new().name("log".into()).spawn(move || of_thread.keep_writing())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    fn lines(&self) -> Lines {
        Lines(Arc::clone(&self.shared))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.waiting().is_closed = true;
        self.shared.printed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The subscriber's output.
struct Lines(Arc<Shared>);

impl Lines {
    /// Flushes the log before a panic is reported, because the last lines help to explain it.
    fn write_before_panics(self) {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            self.0.write();
            report(panic);
        }));
    }
}

impl<'l> MakeWriter<'l> for Lines {
    type Writer = Line<'l>;

    fn make_writer(&'l self) -> Line<'l> {
        Line { shared: &self.0, is_urgent: false }
    }

    fn make_writer_for(&'l self, about: &Metadata<'_>) -> Line<'l> {
        Line { shared: &self.0, is_urgent: *about.level() <= Level::WARN }
    }
}

/// One line, written as a whole.
struct Line<'l> {
    shared: &'l Shared,
    is_urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.shared.push(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Shared {
    waiting: Mutex<Waiting>,
    /// Signalled when there is something to write, and when it is urgent.
    printed: Condvar,
    /// Held while writing. Always locked before `waiting`.
    output: Mutex<Output>,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    lost: u64,
    is_urgent: bool,
    is_closed: bool,
}

struct Output {
    file: Box<dyn Write + Send>,
    /// Empty between two writes; swapped with the pending text.
    text: Vec<u8>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8], is_urgent: bool) {
        let mut waiting = self.waiting();
        if waiting.text.len() + line.len() > MOST {
            waiting.lost += 1;
            return;
        }
        let (was_empty, was_little) = (waiting.text.is_empty(), waiting.text.len() < MUCH);
        waiting.text.extend_from_slice(line);
        waiting.is_urgent |= is_urgent;
        let is_much = was_little && waiting.text.len() >= MUCH;
        drop(waiting);
        if was_empty || is_urgent || is_much {
            self.printed.notify_one();
        }
    }

    fn keep_writing(&self) {
        let mut is_closed = false;
        while !is_closed {
            let idle = |waiting: &mut Waiting| waiting.text.is_empty() && !waiting.is_closed;
            let waiting =
                self.printed.wait_while(self.waiting(), idle).unwrap_or_else(PoisonError::into_inner);
            let may_wait =
                |waiting: &mut Waiting| !waiting.is_urgent && !waiting.is_closed && waiting.text.len() < MUCH;
            let waited = self.printed.wait_timeout_while(waiting, PAUSE, may_wait);
            is_closed = waited.unwrap_or_else(PoisonError::into_inner).0.is_closed;
            let lost = self.write();
            if lost > 0 {
                tracing::warn!(lost, "log lines were dropped because the reader was too slow");
            }
        }
        self.write();
    }

    /// Writes pending lines. Returns how many were dropped since the last call.
    fn write(&self) -> u64 {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let Output { file, text } = &mut *output;
        let lost = {
            let mut waiting = self.waiting();
            std::mem::swap(text, &mut waiting.text);
            waiting.is_urgent = false;
            std::mem::take(&mut waiting.lost)
        };
        // If standard error is closed, there is nowhere to report it.
        let _ = file.write_all(text).and_then(|()| file.flush());
        text.clear();
        text.shrink_to(2 * MUCH);
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A test output that records each write and can be blocked.
    struct Gate {
        may: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Gate {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.may.recv().map_err(io::Error::other)?;
            self.written.send(String::from_utf8_lossy(text).into_owned()).map_err(io::Error::other)?;
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (Log, Sender<()>, Receiver<String>) {
        let ((may_write, may), (written, seen)) = (channel(), channel());
        (Log::start(Box::new(Gate { may, written })).unwrap(), may_write, seen)
    }

    #[test]
    fn lines_are_written_soon_and_flushed_on_stop() {
        let (log, may_write, seen) = gated();
        may_write.send(()).unwrap();
        log.shared.push(b"one\n", false);
        assert_eq!(seen.recv().unwrap(), "one\n");
        log.shared.push(b"two\n", false);
        log.shared.push(b"three\n", true);
        may_write.send(()).unwrap();
        may_write.send(()).unwrap();
        drop(log);
        assert_eq!(seen.iter().collect::<String>(), "two\nthree\n");
    }

    #[test]
    fn logging_never_blocks_and_dropped_lines_are_counted() {
        let (log, may_write, seen) = gated();
        // The thread holds the first line and is blocked from writing it.
        log.shared.push(b"first\n", true);
        while !log.shared.waiting().text.is_empty() {
            std::thread::yield_now();
        }
        let line = [b'x'; 1 << 10];
        let fitting = MOST / line.len();
        for _ in 0..fitting + 3 {
            log.shared.push(&line, false);
        }
        assert_eq!(log.shared.waiting().lost, 3);
        for _ in 0..3 {
            may_write.send(()).unwrap();
        }
        assert_eq!(seen.recv().unwrap(), "first\n");
        assert_eq!(seen.recv().unwrap().len(), fitting * line.len());
        log.shared.push(b"last\n", true);
        drop(log);
        assert_eq!(seen.iter().collect::<String>(), "last\n");
    }
}
