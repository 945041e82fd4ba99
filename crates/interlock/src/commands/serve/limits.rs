//! How much, how often and for how long: what the settings say of it.

use canon::error::Envelope;
use host::runs::Runs;
use host::runs::rates::{Rate, RateLimits};
use host::runs::retention::{MIN_ANSWERS, MIN_FINISHED_RUNS, Retention};

use crate::failure::{CommandErrorCode, Failure};
use crate::settings::{Limit, Setting, Settings, Span};

/// Files that are open besides connections: the database with its readers, logs, calls to subscribers.
const OTHER_FILES: u64 = 256;
/// The most connections, however many files the system would give: each takes some memory.
const MAX_CONNECTIONS: u64 = 16_384;

/// What the settings limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rates: RateLimits,
    pub(super) retention: Retention,
    pub(super) connections: server::http::Settings,
}

impl Limits {
    /// The limits of the settings, and those of the system, which are raised as far as this process may.
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
        let connections = connections(host::system::raise_open_files(), per_address);
        Ok(Self { rates, retention, connections })
    }
}

/// What no run and no workflow may exceed.
pub(super) fn of_runs(settings: &Settings) -> flow::engine::Limits {
    flow::engine::Limits {
        max_append_bytes: settings.append_bytes.value.bytes(),
        max_run_bytes: settings.run_bytes.value.bytes(),
        max_pattern_bytes: settings.pattern_bytes.value.bytes(),
        ..flow::engine::Limits::default()
    }
}

/// A rate that was set, where one was: at once as many as in a second, where nothing is said of that.
pub(crate) fn rate(limit: Limit) -> Result<Option<Rate>, ()> {
    match (limit.per_second, limit.burst) {
        (Some(per_second), burst) => Ok(Some(Rate::new(per_second, burst.unwrap_or(per_second)))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(()),
    }
}

fn named(key: &str, setting: &Setting<Limit>) -> Result<Option<Rate>, Failure> {
    rate(setting.value).map_err(|()| {
        Envelope::new(CommandErrorCode::ConfigInvalid, format!("`{key}` has a `burst` and no `per_second`"))
            .suggest("Add `per_second`: how many requests a second are let through for good.")
            .detail("key", key)
            .into()
    })
}

fn too_short(key: &str, least: &str) -> Failure {
    Envelope::new(CommandErrorCode::ConfigInvalid, format!("`{key}` is shorter than {least}"))
        .suggest(format!("Write \"{least}\" or longer."))
        .detail("key", key)
        .into()
}

/// As many connections as there may be open files for, and streams for three quarters of them: the rest is for short requests.
///
/// One address gets an eighth of them where nothing else is configured. This machine gets half: what connects from here is often a
/// proxy that speaks for everybody, or a load test.
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

/// Deletes what is over, and tells what was.
pub(super) async fn keep(runs: &Runs, retention: Retention) {
    let told = |swept| match swept {
        Ok(host::runs::retention::Swept { runs: 0, .. }) => {}
        Ok(host::runs::retention::Swept { runs, .. }) => {
            tracing::info!(runs, "runs were deleted: their time is over");
        }
        Err(refusal) => tracing::warn!(%refusal, "what is over could not be deleted; it is tried again"),
    };
    runs.keep_retention(retention, told).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_are_as_many_connections_as_files_for_them() {
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
