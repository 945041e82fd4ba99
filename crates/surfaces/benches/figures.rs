//! The figures of one run, in a table with their reference values.

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A limit of a ratio.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// What is printed, and which limits did not hold.
#[derive(Default)]
pub(crate) struct Table {
    broken: Vec<String>,
}

impl Table {
    pub(crate) fn title(&self, text: &str) {
        println!("\n{text}");
    }

    /// A figure that others are compared with, or that has no limit.
    pub(crate) fn plain(&self, what: &str, figure: &str) {
        println!("  {what:<46} {figure:>14}");
    }

    /// A figure whose ratio to another of the same run has a limit.
    pub(crate) fn limited(&mut self, what: &str, figure: &str, ratio: f64, of: &str, limit: Limit) {
        let (holds, text) = match limit {
            Limit::AtLeast(least) => (ratio >= least, format!("at least {least}")),
            Limit::AtMost(most) => (ratio <= most, format!("at most {most}")),
        };
        let verdict = if holds { "" } else { "   BROKEN" };
        println!("  {what:<46} {figure:>14}   {ratio:.2} {of}, {text}{verdict}");
        if !holds {
            self.broken.push(what.to_owned());
        }
    }

    /// Says which limits did not hold. What was built without optimisation is compared with engines that were not, so its figures show
    /// that everything runs, and no more.
    pub(crate) fn verdict(&self) -> ExitCode {
        if cfg!(debug_assertions) {
            println!("\nBuilt without optimisation: no limit is judged.");
            return ExitCode::SUCCESS;
        }
        if self.broken.is_empty() {
            println!("\nEvery limit holds.");
            return ExitCode::SUCCESS;
        }
        println!("\nBroken: {}.", self.broken.join("; "));
        ExitCode::FAILURE
    }
}

/// How long some work took.
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// The time that so many of a hundred took at most.
pub(crate) fn percent(times: &mut [Duration], rank: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * rank / 100]
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    percent(times, 50)
}

/// One time in units of another.
pub(crate) fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64().max(1e-9)
}
