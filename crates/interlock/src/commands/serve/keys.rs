//! The API keys that a server starts with.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use canon::error::Envelope;
use flow::id::Tenant;
use runs::keys::{MIN_KEY_CHARACTERS, hash, new_key};
use runs::{ApiKey, Runs, Scope};
use system::{Clock as _, SystemClock, SystemEntropy};

use super::{TENANT, refused};
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// The environment variable of the local key.
pub(crate) const KEY_VARIABLE: &str = "INTERLOCK_API_KEY";
/// The only file that contains a key in plain text, for local commands.
pub(crate) const LOCAL_KEY: &str = "keys/local-api-key";

/// A newly created key.
pub(super) struct Created {
    pub(super) key: String,
    pub(super) path: PathBuf,
}

/// Ensures that a valid key exists: from the environment, from an earlier start, or newly created.
pub(super) async fn prepare(
    runs: &Runs,
    settings: &Settings,
    address: SocketAddr,
) -> Result<Option<Created>, Failure> {
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        if key.chars().count() < MIN_KEY_CHARACTERS {
            let message =
                format!("{KEY_VARIABLE} is too short; it must have at least {MIN_KEY_CHARACTERS} characters");
            return Err(Envelope::new(CommandErrorCode::ConfigInvalid, message)
                .suggest("Use a long random value, such as the output of `openssl rand -hex 24`.")
                .into());
        }
        put(runs, &key, "environment").await?;
        return Ok(None);
    }
    let known = runs.keys().all().await.map_err(|refusal| refused(&refusal))?;
    let path = settings.data_dir.value.join(LOCAL_KEY);
    if known.iter().all(|(_, key)| key.id == "local" || key.revoked_at.is_some())
        && !address.ip().is_loopback()
    {
        let message = format!("{address} is reachable from other machines, but no API key is set");
        return Err(Envelope::new(CommandErrorCode::KeyRequired, message)
            .suggest(format!(
                "Set {KEY_VARIABLE}, create a key with `interlock key new`, or listen on 127.0.0.1."
            ))
            .into());
    }
    if let Ok(key) = std::fs::read_to_string(&path) {
        // A key with all scopes gets new scopes too.
        let digest = hash(key.trim());
        let lacks = |(of, known): &(_, ApiKey)| {
            *of == digest && known.revoked_at.is_none() && known.scopes != Scope::ALL
        };
        // A new database does not contain the local key yet.
        if known.is_empty() || known.iter().any(lacks) {
            put(runs, key.trim(), "local").await?;
        }
        return Ok(None);
    }
    if path.exists() || !known.is_empty() {
        return Ok(None);
    }
    let key = new_key(false, &SystemEntropy).map_err(|error| Failure::Unreadable {
        name: "the system's entropy".to_owned(),
        cause: std::io::Error::other(error),
    })?;
    let write = || -> std::io::Result<()> {
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(&path)?;
        file.write_all(key.as_bytes())?;
        file.sync_all()
    };
    put(runs, &key, "local").await?;
    write().map_err(|cause| Failure::Unwritable { name: path.display().to_string(), cause })?;
    Ok(Some(Created { key, path }))
}

async fn put(runs: &Runs, key: &str, id: &str) -> Result<(), Failure> {
    let known = ApiKey {
        id: id.to_owned(),
        tenant: Tenant::new(TENANT),
        scopes: Scope::ALL.to_vec(),
        test: false,
        created_at: SystemClock.now_ms(),
        expires_at: None,
        revoked_at: None,
        session: None,
    };
    runs.keys().put(hash(key), &known).await.map_err(|refusal| refused(&refusal))
}
