//! Progress on what takes longer than a second, where somebody is watching.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Before this nobody has begun to wonder.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a sign of life moves.
const TICK: Duration = Duration::from_millis(100);

/// A bar on standard error that stays away for the first second, and wherever there is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    watched: bool,
}

impl Progress {
    /// Progress over so many items.
    pub(crate) fn over(items: usize, doing: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(items as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_message(doing);
        Self { bar, began: Instant::now(), watched: std::io::stderr().is_terminal() }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.appear();
        self.bar.inc(1);
    }

    /// So many are done.
    pub(crate) fn at(&mut self, items: usize) {
        self.appear();
        self.bar.set_position(items as u64);
    }

    /// Something else is being done now.
    pub(crate) fn says(&mut self, doing: &'static str) {
        self.appear();
        self.bar.set_message(doing);
    }

    /// Shows the bar once somebody may have begun to wonder.
    fn appear(&mut self) {
        if self.watched && self.began.elapsed() > PATIENCE {
            self.watched = false;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A sign of life during work that cannot be counted, under the same conditions.
pub(crate) struct Waiting {
    /// Dropped to say that the work is done.
    done: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Until the value is dropped.
    pub(crate) fn on(doing: &'static str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { done: None, drawing: None };
        }
        let (done, waiting) = channel::<()>();
        let drawing = thread::spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                spinner.set_message(doing);
                while waiting.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    spinner.tick();
                }
                spinner.finish_and_clear();
            }
        });
        Self { done: Some(done), drawing: Some(drawing) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(drawing) = self.drawing.take() {
            // A thread that only draws has nothing to report.
            let _ = drawing.join();
        }
    }
}
