//! The run database and its keys.

use std::path::Path;

use flow::id::RunId;
use runs::audit::Anchors;
use runs::{ApiKey, Scope};
use storage::sqlite::{Inspection, OpenError};
use system::{Clock as _, SystemClock};

use super::Check;
use crate::commands::serve::database::{RESTORE, RUNS, is_lost};
use crate::commands::serve::runtime;
use crate::commands::serve::store::unusable;
use crate::progress::Progress;

const MAX_NAMED: usize = 20;

/// How many unreadable runs are named.
const MAX_DAMAGED: usize = 5;

/// The database for runs in PostgreSQL.
pub(super) fn check_postgres(url: &str) -> Check {
    const NAME: &str = "run database";
    let inspected = match runtime() {
        Ok(runtime) => runtime.block_on(postgres::schema::inspect(url)).map_err(|error| unusable(&error)),
        Err(failure) => Err(failure),
    };
    match inspected {
        Ok(found) => Check::ok(NAME, format!("PostgreSQL {}, schema version {}", found.server, found.schema)),
        Err(failure) => Check::fail(
            NAME,
            failure.to_string(),
            "See `interlock database check` and docs/how-to/postgresql.md.",
        ),
    }
}

pub(super) fn checks(data_dir: &Path) -> Vec<Check> {
    const NAME: &str = "run database";
    let path = data_dir.join(RUNS);
    if is_lost(data_dir) {
        let found = format!("{} is missing or empty, but this directory had a run database", path.display());
        let help =
            format!("{RESTORE} To start with an empty database instead: interlock serve --new-database");
        return vec![Check::fail(NAME, found, help)];
    }
    if !path.exists() {
        return vec![Check::ok(NAME, "none yet; `interlock serve` creates it")];
    }
    let database = match Inspection::open(&path) {
        Ok(database) => database,
        Err(error @ OpenError::Newer { .. }) => {
            return vec![Check::fail(
                NAME,
                error.to_string(),
                "Use the newer version of interlock that wrote it.",
            )];
        }
        Err(error) => return vec![Check::fail(NAME, in_full(&error), RESTORE)],
    };
    vec![whole(&database, NAME), audit_log(&database, data_dir), admin_keys(&database)]
}

fn whole(database: &Inspection, name: &'static str) -> Check {
    let runs = database.run_count().unwrap_or_default();
    let mut progress = Progress::over(usize::try_from(runs).unwrap_or(usize::MAX), "reading runs");
    let damage = match database.damage(|| progress.step()) {
        Ok(damage) => damage,
        Err(error) => return Check::fail(name, in_full(&error), RESTORE),
    };
    drop(progress);
    if damage.is_none() {
        let (found, known) = database.version().unwrap_or_default();
        let upgraded =
            if found < known { format!(", upgraded to {known} on the next start") } else { String::new() };
        return Check::ok(name, format!("{runs} runs, all readable; version {found}{upgraded}"));
    }
    let mut found = Vec::new();
    if !damage.runs.is_empty() {
        let named: Vec<&str> = damage.runs.iter().take(MAX_DAMAGED).map(RunId::as_str).collect();
        let named = named.join(", ");
        let more = if damage.runs.len() > MAX_DAMAGED { ", …" } else { "" };
        found.push(format!("{} of {runs} runs cannot be read ({named}{more})", damage.runs.len()));
    }
    if damage.definitions > 0 {
        found.push(format!("{} workflow definitions cannot be read", damage.definitions));
    }
    if let Some(first) = damage.structure.first() {
        found.push(format!("SQLite found {} problems, the first: {first}", damage.structure.len()));
    }
    Check::fail(name, found.join("; "), RESTORE)
}

/// Checks that the audit logs contain all signed entries.
fn audit_log(database: &Inspection, data_dir: &Path) -> Check {
    const NAME: &str = "audit log";
    const HELP: &str = "Entries were deleted, an older database was restored, or the disk lost acknowledged writes. Find out \
                        which, and restore a copy made by `interlock backup`. To continue with what is left, move \
                        keys/audit-checkpoints.json away.";
    let anchors = match Anchors::open(data_dir) {
        Ok(anchors) if !anchors.is_unreadable() => anchors,
        _ => {
            let help = "Restore it from a backup, or move it away: the next checkpoint creates a new one.";
            return Check::fail(NAME, "keys/audit-checkpoints.json cannot be read", help);
        }
    };
    let mut signed = 0_usize;
    for tenant in anchors.tenants() {
        let anchor = anchors.of(&tenant).at_sequence();
        let whose =
            if tenant.as_str().is_empty() { "the host".to_owned() } else { format!("tenant {tenant}") };
        let (Some(at), Ok((last, checkpoint))) = (anchor, database.audit_ends(&tenant)) else {
            return Check::fail(NAME, format!("the log of {whose} cannot be read"), RESTORE);
        };
        if last < Some(at) {
            let first = last.map_or(0, |last| last + 1);
            return Check::fail(NAME, format!("entries {first} to {at} of {whose} are missing"), HELP);
        }
        if checkpoint < Some(at) {
            return Check::fail(NAME, format!("the checkpoint at entry {at} of {whose} is missing"), HELP);
        }
        signed += 1;
    }
    Check::ok(NAME, format!("{signed} logs contain all signed entries"))
}

/// An error with its causes.
fn in_full(error: &OpenError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

/// Keys with the scope `host:admin`, which covers the host and all tenants. Earlier versions gave
/// it to every key that was created without scopes, and existing keys keep it.
fn admin_keys(database: &Inspection) -> Check {
    const NAME: &str = "host:admin keys";
    let keys = match database.api_keys() {
        Ok(keys) => keys,
        Err(error) => return Check::fail(NAME, format!("the keys cannot be read: {error}"), RESTORE),
    };
    let now = SystemClock.now_ms();
    let mut named: Vec<String> = keys
        .iter()
        .filter_map(|(_, document)| serde_json::from_slice::<ApiKey>(document).ok())
        .filter(|key| key.is_good_at(now) && key.scopes.contains(&Scope::Admin))
        // The operator's local key.
        .filter(|key| !matches!(key.id.as_str(), "local" | "environment"))
        .map(|key| format!("{} ({})", key.id, key.tenant))
        .collect();
    if named.is_empty() {
        return Check::ok(NAME, "only the operator's local key");
    }
    named.sort();
    let count = named.len();
    named.truncate(MAX_NAMED);
    let more = if count > named.len() { format!(" and {} more", count - named.len()) } else { String::new() };
    Check::warn(
        NAME,
        format!("{count} can administer the host: {}{more}", named.join(", ")),
        "Keys for one tenant do not need `host:admin`. Create a new one with `interlock key new --tenant T`, \
         then revoke the old one on the console's Keys page.",
    )
}
