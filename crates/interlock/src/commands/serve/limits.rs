//! Limits and retention from the settings.

use canon::error::Envelope;
use runs::Runs;
use runs::rates::{Rate, RateLimits};
use runs::retention::{MIN_ANSWERS, MIN_FINISHED_RUNS, Retention};

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::{Limit, Setting, Settings, Span};

/// Open files besides connections: the database and its readers, logs, calls to subscribers.
const OTHER_FILES: u64 = 256;
/// The most connections, even if the system allows more files: each uses some memory.
const MAX_CONNECTIONS: u64 = 16_384;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rates: RateLimits,
    pub(super) retention: Retention,
    pub(super) connections: server::http::Settings,
}

impl Limits {
    /// The limits in the settings, and those of the system, which are raised as far as allowed.
    pub(super) fn of(settings: &Settings) -> Result<Self, Failure> {
        let rates = RateLimits {
            key: named("rate_limits.key", &settings.key_limit)?,
            tenant: named("rate_limits.tenant", &settings.tenant_limit)?,
            route: named("rate_limits.route", &settings.route_limit)?,
        };
        let answers = settings.answers.value.duration();
        if answers < MIN_ANSWERS {
            return Err(too_short("retention.answers", "24h"));
        }
        let finished_runs = settings.finished_runs.value.map(Span::duration);
        if finished_runs.is_some_and(|kept| kept < MIN_FINISHED_RUNS) {
            return Err(too_short("retention.finished_runs", "60s"));
        }
        let retention = Retention { finished_runs, answers };
        let per_address = settings.connections_per_address.value;
        let connections = connections(system::raise_open_files(), per_address);
        Ok(Self { rates, retention, connections })
    }
}

/// Limits of a single run or workflow.
pub(super) fn of_runs(settings: &Settings) -> flow::engine::Limits {
    flow::engine::Limits {
        max_append_bytes: settings.append_bytes.value.bytes(),
        max_run_bytes: settings.run_bytes.value.bytes(),
        max_pattern_bytes: settings.pattern_bytes.value.bytes(),
        ..flow::engine::Limits::default()
    }
}

/// A configured rate. The default burst is one second's worth.
pub(crate) fn rate(limit: Limit) -> Result<Option<Rate>, ()> {
    match (limit.per_second, limit.burst) {
        (Some(per_second), burst) => Ok(Some(Rate::new(per_second, burst.unwrap_or(per_second)))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(()),
    }
}

fn named(key: &str, setting: &Setting<Limit>) -> Result<Option<Rate>, Failure> {
    rate(setting.value).map_err(|()| {
        Envelope::new(CommandErrorCode::ConfigInvalid, format!("`{key}` has `burst` but not `per_second`"))
            .suggest("Add `per_second`, the sustained number of requests per second.")
            .detail("key", key)
            .into()
    })
}

fn too_short(key: &str, least: &str) -> Failure {
    Envelope::new(CommandErrorCode::ConfigInvalid, format!("`{key}` is shorter than {least}"))
        .suggest(format!("Use \"{least}\" or longer."))
        .detail("key", key)
        .into()
}

/// As many connections as the open-file limit allows; three quarters may be streams, the rest is
/// for short requests.
///
/// By default, one address gets an eighth of them. This machine gets half: local connections often
/// come from a proxy for many users, or from a load test.
fn connections(open_files: u64, per_address: Option<u32>) -> server::http::Settings {
    let default = server::http::Settings::default();
    let most = open_files.saturating_sub(OTHER_FILES).clamp(64, MAX_CONNECTIONS);
    let max_connections = usize::try_from(most).unwrap_or(default.max_connections);
    let configured = per_address.and_then(|number| usize::try_from(number).ok());
    server::http::Settings {
        max_connections,
        connections_per_address: configured.unwrap_or(max_connections / 8),
        connections_per_local_address: configured.unwrap_or(max_connections / 2),
        max_streams: max_connections / 4 * 3,
        ..default
    }
}

/// Deletes expired runs and logs how many.
pub(super) async fn keep(runs: &Runs, retention: Retention) {
    let message = |swept| match swept {
        Ok(runs::retention::Swept { runs: 0, .. }) => {}
        Ok(runs::retention::Swept { runs, .. }) => {
            tracing::info!(runs, "deleted expired runs");
        }
        Err(refusal) => tracing::warn!(%refusal, "cannot delete expired runs; will retry"),
    };
    runs.sweeper().keep_sweeping(retention, message).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_connection_limit_follows_the_file_limit() {
        for (open_files, connections, streams, per_address, per_local_address) in [
            (1024, 768, 576, 96, 384),
            (4096, 3840, 2880, 480, 1920),
            (1 << 20, 16_384, 12_288, 2048, 8192),
            (0, 64, 48, 8, 32),
        ] {
            let settings = super::connections(open_files, None);
            assert_eq!((settings.max_connections, settings.max_streams), (connections, streams));
            let each = (settings.connections_per_address, settings.connections_per_local_address);
            assert_eq!(each, (per_address, per_local_address));
            let settings = super::connections(open_files, Some(5));
            assert_eq!((settings.connections_per_address, settings.connections_per_local_address), (5, 5));
        }
    }
}
