//! The database of runs, and the keys in it.

use std::path::Path;

use host::runs::{ApiKey, Scope};
use host::system::{Clock as _, SystemClock};
use storage::sqlite::Inspection;

use super::Check;

/// How many keys are named.
const MAX_NAMED: usize = 20;

pub(super) fn checks(data_dir: &Path) -> Vec<Check> {
    let path = data_dir.join("runs.sqlite3");
    if !path.exists() {
        return Vec::new();
    }
    let Ok(database) = Inspection::open(&path) else { return Vec::new() };
    vec![admin_keys(&database)]
}

/// The keys that may do what concerns the host and every tenant. Earlier versions gave this to every key that was made without
/// naming scopes, and no key loses what it was given.
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
        // The operator's own.
        .filter(|key| !matches!(key.id.as_str(), "local" | "environment"))
        .map(|key| format!("{} ({})", key.id, key.tenant))
        .collect();
    if named.is_empty() {
        return Check::ok(NAME, "only the key of this machine's operator");
    }
    named.sort();
    let count = named.len();
    named.truncate(MAX_NAMED);
    let more = if count > named.len() { format!(" and {} more", count - named.len()) } else { String::new() };
    Check::warn(
        NAME,
        format!("{count} may administer the host: {}{more}", named.join(", ")),
        "Keys for one tenant do not need `host:admin`: make a new one with `interlock key new-api-key --tenant T`, \
         then revoke the old one on the console's Keys page.",
    )
}

const RESTORE: &str =
    "Stop the server and restore the data directory from a copy that `interlock backup` made.";
