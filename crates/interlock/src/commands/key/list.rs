//! `interlock key list`.

use canon::time::Timestamp;
use runs::ApiKey;
use serde_json::{Value, json};
use system::{Clock as _, SystemClock};

use super::{document, words};
use crate::arguments::OutputFormat;
use crate::commands::serve::{open_for_command, refused, runtime};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Cell, DIM, GOOD, HEADING, Layout, Table, WARNING};
use crate::service;
use crate::settings::Settings;

pub(super) fn run(answering: OutputFormat, settings: &Settings) -> Result<ExitStatus, Failure> {
    let keyring = ports::wait(service::open_sessions(settings)?.keyring())?;
    let (keys, now) = (api_keys(settings)?, SystemClock.now_ms());
    if answering.json {
        let mut document = document(keyring.as_ref());
        document["apiKeys"] = keys.iter().map(|key| described(key, now)).collect();
        output::json(&document, Layout::Compact)?;
        return Ok(ExitStatus::Success);
    }
    let mut text =
        format!("{HEADING}Signing keys{HEADING:#}\n{}\n", words(keyring.as_ref(), false).trim_end());
    text.push_str(&format!("\n{HEADING}API keys{HEADING:#}\n"));
    if keys.is_empty() {
        text.push_str("No API keys yet. `interlock serve` creates one for this machine, and `interlock key new` others.\n");
    } else {
        text.push_str(&table(&keys, now).to_string());
    }
    output::text(&text)?;
    Ok(ExitStatus::Success)
}

/// The records of all API keys, oldest first. A data directory without runs has none, and is not changed.
pub(super) fn api_keys(settings: &Settings) -> Result<Vec<ApiKey>, Failure> {
    let has_runs =
        settings.database_url.value.is_some() || settings.data_dir.value.join("runs.sqlite3").is_file();
    if !has_runs {
        return Ok(Vec::new());
    }
    let runtime = runtime()?;
    let threads = runtime.enter();
    let (runs, store) = open_for_command(settings)?;
    drop(threads);
    let mut keys: Vec<ApiKey> = runtime.block_on(async {
        let keys = runs.keys().all().await.map_err(|refusal| refused(&refusal));
        store.close().await;
        keys.map(|keys| keys.into_iter().map(|(_, key)| key).collect())
    })?;
    keys.sort_by(|a, b| (a.created_at, &a.tenant, &a.id).cmp(&(b.created_at, &b.tenant, &b.id)));
    Ok(keys)
}

/// Whether a key can be used.
fn status(key: &ApiKey, now: u64) -> &'static str {
    match key {
        key if key.is_good_at(now) => "valid",
        key if key.revoked_at.is_some_and(|at| at <= now) => "revoked",
        _ => "expired",
    }
}

fn described(key: &ApiKey, now: u64) -> Value {
    let time = |ms: Option<u64>| ms.map(|ms| Timestamp(ms).to_rfc3339());
    json!({
        "id": key.id,
        "tenant": key.tenant,
        "scopes": key.scopes,
        "session": key.session,
        "test": key.test,
        "status": status(key, now),
        "createdAt": time(Some(key.created_at)),
        "expiresAt": time(key.expires_at),
        "revokedAt": time(key.revoked_at),
    })
}

fn table(keys: &[ApiKey], now: u64) -> Table {
    let mut table = Table::new(&["id", "tenant", "status", "created", "expires", "scopes"]);
    for key in keys {
        let day = |ms: u64| Timestamp(ms).to_rfc3339().chars().take(10).collect::<String>();
        let status = status(key, now);
        let style = if status == "valid" { GOOD } else { WARNING };
        let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let scopes = match &key.session {
            Some(session) => format!("session {session}"),
            None => output::shortened(&scopes.join(", "), 60),
        };
        table.row([
            key.id.as_str().into(),
            key.tenant.as_str().into(),
            Cell::styled(status, style),
            day(key.created_at).into(),
            key.expires_at.map(day).unwrap_or_default().into(),
            Cell::styled(scopes, DIM),
        ]);
    }
    table
}
