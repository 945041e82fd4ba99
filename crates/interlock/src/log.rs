//! What happens is told on standard error, by a thread of its own.
//!
//! ```text
//!   who tells    a line ─► a buffer, and goes on
//!   the thread   waits a moment, or for a warning ─► writes the buffer
//! ```
//!
//! A request is not answered later because a terminal or a pipe is slow. When nobody reads for so long that the buffer is full, lines
//! are lost, counted, and the count is told as soon as somebody reads again. What was told is written when the program stops and when a
//! part of it panics.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for others at most. Warnings and errors do not wait.
const PAUSE: Duration = Duration::from_millis(200);
/// From how many bytes on the buffer is written at once.
const MUCH: usize = 64 << 10;
/// How many bytes wait at most. A busy server fills this in some ten seconds.
const MOST: usize = 8 << 20;

/// Begins to tell: in words on a terminal, as JSON elsewhere. `INTERLOCK_LOG` says how much. What was told is on standard error
/// once the answer is dropped.
pub(crate) fn begin() -> Option<Log> {
    let mut said = std::env::var("INTERLOCK_LOG").unwrap_or_else(|_| "info".to_owned());
    // The library of MCP tells of every message, at some levels with all that is in it: only who names it gets to hear that.
    if !said.contains("rmcp") {
        said.push_str(",rmcp=warn");
    }
    let filter = EnvFilter::try_new(&said).unwrap_or_else(|_| EnvFilter::new("info,rmcp=warn"));
    // Without a thread for it nothing is told, which is no reason not to serve.
    let log = Log::start(Box::new(io::stderr())).ok()?;
    let told = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log.lines());
    let begun = if io::stderr().is_terminal() {
        told.try_init()
    } else {
        // The span once, and not in a list again.
        told.json().with_span_list(false).with_ansi(false).try_init()
    };
    // A second subscriber is refused: then somebody else tells.
    begun.ok()?;
    log.lines().write_before_panics();
    Some(log)
}

/// The log. Dropping it writes what was told.
pub(crate) struct Log {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    fn start(output: Box<dyn Write + Send>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            told: Condvar::new(),
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
        self.shared.told.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where the subscriber puts lines.
struct Lines(Arc<Shared>);

impl Lines {
    /// Writes what was told before a panic is reported. Only the last lines tell how it came to it.
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

/// One line, which the subscriber writes as a whole.
struct Line<'l> {
    shared: &'l Shared,
    is_urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.shared.tell(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Shared {
    waiting: Mutex<Waiting>,
    /// Told when there is something to write, and when it should not wait.
    told: Condvar,
    /// Whoever writes has this for as long as it takes. Taken before `waiting`, never after.
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
    /// Empty between two writes. It and the text that waits change places.
    text: Vec<u8>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, line: &[u8], is_urgent: bool) {
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
            self.told.notify_one();
        }
    }

    fn keep_writing(&self) {
        let mut is_closed = false;
        while !is_closed {
            let idle = |waiting: &mut Waiting| waiting.text.is_empty() && !waiting.is_closed;
            let waiting = self.told.wait_while(self.waiting(), idle).unwrap_or_else(PoisonError::into_inner);
            let may_wait =
                |waiting: &mut Waiting| !waiting.is_urgent && !waiting.is_closed && waiting.text.len() < MUCH;
            let waited = self.told.wait_timeout_while(waiting, PAUSE, may_wait);
            is_closed = waited.unwrap_or_else(PoisonError::into_inner).0.is_closed;
            let lost = self.write();
            if lost > 0 {
                tracing::warn!(lost, "lines of this log were lost: nobody read them");
            }
        }
        self.write();
    }

    /// Writes what waits. Says how many lines were lost since the last time.
    fn write(&self) -> u64 {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let Output { file, text } = &mut *output;
        let lost = {
            let mut waiting = self.waiting();
            std::mem::swap(text, &mut waiting.text);
            waiting.is_urgent = false;
            std::mem::take(&mut waiting.lost)
        };
        // A standard error that was closed is told nothing more, and nobody can be told that.
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

    /// An output that shows each write, and writes only when it may.
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
    fn a_line_is_written_soon_and_a_stop_writes_what_is_left() {
        let (log, may_write, seen) = gated();
        may_write.send(()).unwrap();
        log.shared.tell(b"one\n", false);
        assert_eq!(seen.recv().unwrap(), "one\n");
        log.shared.tell(b"two\n", false);
        log.shared.tell(b"three\n", true);
        may_write.send(()).unwrap();
        may_write.send(()).unwrap();
        drop(log);
        assert_eq!(seen.iter().collect::<String>(), "two\nthree\n");
    }

    #[test]
    fn who_tells_never_waits_and_what_nobody_reads_is_counted() {
        let (log, may_write, seen) = gated();
        // The thread has the first line in its hands and may not write it.
        log.shared.tell(b"first\n", true);
        while !log.shared.waiting().text.is_empty() {
            std::thread::yield_now();
        }
        let line = [b'x'; 1 << 10];
        let fitting = MOST / line.len();
        for _ in 0..fitting + 3 {
            log.shared.tell(&line, false);
        }
        assert_eq!(log.shared.waiting().lost, 3);
        for _ in 0..3 {
            may_write.send(()).unwrap();
        }
        assert_eq!(seen.recv().unwrap(), "first\n");
        assert_eq!(seen.recv().unwrap().len(), fitting * line.len());
        log.shared.tell(b"last\n", true);
        drop(log);
        assert_eq!(seen.iter().collect::<String>(), "last\n");
    }
}
