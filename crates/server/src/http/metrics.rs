//! The metrics of the service, in the Prometheus text format.
//!
//! The labels are routes of the table, known methods and status classes, so the program bounds their number and clients cannot
//! increase it. Tenants and runs are never labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use runs::counts::{Counts, DURATION_BOUNDS_MS, Durations};

/// The upper bounds of the latency histogram, in microseconds.
const BOUNDS_US: [u64; 8] = [500, 1_000, 5_000, 25_000, 100_000, 500_000, 2_500_000, 10_000_000];

#[derive(Debug, Default)]
pub(super) struct Metrics {
    answers: Mutex<BTreeMap<Labels, Series>>,
    in_flight: Arc<AtomicI64>,
    streams: Arc<AtomicI64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    route: &'static str,
    method: &'static str,
    class: &'static str,
}

#[derive(Clone, Copy, Debug, Default)]
struct Series {
    count: u64,
    sum_us: u64,
    within: [u64; BOUNDS_US.len()],
}

/// Counts something as active until it is dropped.
#[derive(Debug)]
pub(super) struct ActiveGuard(Arc<AtomicI64>);

impl ActiveGuard {
    fn of(counter: &Arc<AtomicI64>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a request as active.
    pub(super) fn begin(&self) -> ActiveGuard {
        ActiveGuard::of(&self.in_flight)
    }

    /// Counts a stream as open.
    pub(super) fn stream(&self) -> ActiveGuard {
        ActiveGuard::of(&self.streams)
    }

    /// Counts an answered request.
    pub(super) fn answered(&self, method: &Method, route: &'static str, status: u16, elapsed: Duration) {
        let method = match *method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::DELETE => "DELETE",
            Method::HEAD => "HEAD",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        let class = match status {
            ..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            500.. => "5xx",
        };
        let elapsed = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let series = answers.entry(Labels { route, method, class }).or_default();
        series.count += 1;
        series.sum_us = series.sum_us.saturating_add(elapsed);
        for (count, bound) in series.within.iter_mut().zip(BOUNDS_US) {
            *count += u64::from(elapsed <= bound);
        }
    }

    /// All metrics, including those of runs, in the text format 0.0.4.
    pub(super) fn text(&self, runs: &Counts) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        let _ = write_runs(&mut text, runs);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        const NAME: &str = "interlock_http_request_duration_seconds";
        writeln!(text, "# HELP {NAME} Duration of HTTP requests, by route and status class.")?;
        writeln!(text, "# TYPE {NAME} histogram")?;
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (Labels { route, method, class }, series) in &answers {
            let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{class}\"");
            for (count, bound) in series.within.iter().zip(BOUNDS_US) {
                writeln!(text, "{NAME}_bucket{{{labels},le=\"{}\"}} {count}", seconds(bound))?;
            }
            writeln!(text, "{NAME}_bucket{{{labels},le=\"+Inf\"}} {}", series.count)?;
            writeln!(text, "{NAME}_sum{{{labels}}} {}", seconds(series.sum_us))?;
            writeln!(text, "{NAME}_count{{{labels}}} {}", series.count)?;
        }
        for (name, about, counter) in [
            ("interlock_http_requests_in_flight", "HTTP requests in progress.", &self.in_flight),
            ("interlock_http_streams_open", "Open event streams.", &self.streams),
        ] {
            writeln!(text, "# HELP {name} {about}\n# TYPE {name} gauge")?;
            writeln!(text, "{name} {}", counter.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}

/// The metrics of runs, under the names of the protocol.
fn write_runs(text: &mut String, runs: &Counts) -> std::fmt::Result {
    for (name, about, value) in [
        ("openwop_run_created_total", "Runs created, including forks and child runs.", runs.created),
        ("openwop_node_attempts_total", "Node attempts.", runs.attempts),
        ("openwop_node_completed_total", "Completed nodes.", runs.nodes.count),
        ("openwop_interrupt_requested_total", "Interrupts requested.", runs.interrupts),
        ("openwop_cap_exceeded_total", "Limits exceeded.", runs.caps),
        ("openwop_activity_invocations_total", "Executed effects.", runs.activities.count),
        (
            "openwop_run_claim_conflicts_total",
            "Decisions repeated after a conflicting commit.",
            runs.conflicts,
        ),
    ] {
        writeln!(text, "# HELP {name} {about}\n# TYPE {name} counter\n{name} {value}")?;
    }
    let tokens = [("input", runs.tokens_in), ("output", runs.tokens_out)];
    labelled(text, "openwop_activity_tokens_total", "Model tokens, by direction.", "direction", &tokens)?;
    let ended = [("completed", runs.completed), ("failed", runs.failed), ("cancelled", runs.cancelled)];
    let about = "Finished runs, by status.";
    labelled(text, "openwop_run_completed_total", about, "openwop_run_status", &ended)?;
    writeln!(text, "# HELP openwop_run_active Active runs.\n# TYPE openwop_run_active gauge")?;
    writeln!(text, "openwop_run_active {}", runs.active)?;
    for (name, about, durations) in [
        ("openwop_run_duration_seconds", "Duration of finished runs.", &runs.runs),
        ("openwop_node_duration_seconds", "Duration of completed nodes.", &runs.nodes),
        ("openwop_activity_duration_seconds", "Duration of executed effects.", &runs.activities),
    ] {
        write_durations(text, name, about, durations)?;
    }
    Ok(())
}

/// A counter with one label.
fn labelled(
    text: &mut String,
    name: &str,
    about: &str,
    label: &str,
    values: &[(&str, u64)],
) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {about}\n# TYPE {name} counter")?;
    values.iter().try_for_each(|(value, number)| writeln!(text, "{name}{{{label}=\"{value}\"}} {number}"))
}

fn write_durations(text: &mut String, name: &str, about: &str, durations: &Durations) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {about}\n# TYPE {name} histogram")?;
    for (count, bound) in durations.within.iter().zip(DURATION_BOUNDS_MS) {
        writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", seconds(bound * 1000))?;
    }
    writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {}", durations.count)?;
    writeln!(text, "{name}_sum {}", seconds(durations.sum_ms.saturating_mul(1000)))?;
    writeln!(text, "{name}_count {}", durations.count)
}

/// Converts microseconds to seconds without the rounding of a division.
fn seconds(microseconds: u64) -> String {
    format!("{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000)
}
