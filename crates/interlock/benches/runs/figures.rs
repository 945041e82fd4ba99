//! Measurements and the table that prints them.

use std::time::Duration;

/// Durations.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The given per-mille percentile.
    pub(crate) fn of_thousand(&mut self, rank: usize) -> Duration {
        self.0.sort_unstable();
        let place = (self.0.len() * rank / 1000).min(self.0.len().saturating_sub(1));
        self.0.get(place).copied().unwrap_or_default()
    }

    pub(crate) fn p50(&mut self) -> Duration {
        self.of_thousand(500)
    }

    pub(crate) fn p99(&mut self) -> Duration {
        self.of_thousand(990)
    }

    /// The ratio of p99 to p50.
    pub(crate) fn spread(&mut self) -> f64 {
        self.p99().as_secs_f64() / self.p50().as_secs_f64().max(1e-9)
    }
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The table: name, figure, and limit if there is one.
#[derive(Default)]
pub(crate) struct Table {
    broken: Vec<String>,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Table {
    pub(crate) fn title(&self, text: &str) {
        println!("\n{text}");
    }

    /// A figure without a limit.
    pub(crate) fn plain(&self, what: &str, figure: &str) {
        println!("  {what:<52} {figure:>30}");
    }

    /// A figure whose ratio to another figure has a limit.
    pub(crate) fn limited(&mut self, what: &str, figure: &str, ratio: f64, of: &str, limit: Limit) {
        let (holds, text) = match limit {
            Limit::AtLeast(least) => (ratio >= least, format!("at least {least}")),
            Limit::AtMost(most) => (ratio <= most, format!("at most {most}")),
        };
        let verdict = if holds { "" } else { "   BROKEN" };
        println!("  {what:<52} {figure:>30}   {ratio:.2} {of}, {text}{verdict}");
        if !holds {
            self.broken.push(what.to_owned());
        }
    }

    /// Prints the broken limits. Returns whether all hold.
    pub(crate) fn verdict(&self) -> bool {
        if self.broken.is_empty() {
            println!("\nEvery limit holds.");
            return true;
        }
        println!("\nBroken: {}.", self.broken.join("; "));
        false
    }
}
