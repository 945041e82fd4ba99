//! Progress of long operations, on a terminal only.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter operations show no progress.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// A progress bar on standard error that appears after one second, and only on a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    watched: bool,
}

impl Progress {
    pub(crate) fn over(items: usize, doing: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(items as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_message(doing);
        Self { bar, began: Instant::now(), watched: std::io::stderr().is_terminal() }
    }

    pub(crate) fn step(&mut self) {
        self.appear();
        self.bar.inc(1);
    }

    pub(crate) fn at(&mut self, items: usize) {
        self.appear();
        self.bar.set_position(items as u64);
    }

    /// Changes the message.
    pub(crate) fn says(&mut self, doing: &'static str) {
        self.appear();
        self.bar.set_message(doing);
    }

    /// Shows the bar after the delay.
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

/// A spinner for work of unknown size, under the same conditions.
pub(crate) struct Waiting {
    /// Dropped when the work is done.
    done: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Shows a spinner until the value is dropped.
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
            // The drawing thread has no errors to report.
            let _ = drawing.join();
        }
    }
}
