//! Which keys a server begins with.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use canon::error::Envelope;
use flow::id::Tenant;
use host::runs::keys::{MIN_KEY_CHARACTERS, hash, new_key};
use host::runs::{ApiKey, Runs, Scope};
use host::system::{Clock as _, SystemClock, SystemEntropy};

use super::{TENANT, refused};
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// The environment variable of a key.
pub(crate) const KEY_VARIABLE: &str = "INTERLOCK_API_KEY";
/// The one place where a key is kept as it is, for this machine's own tools.
pub(crate) const LOCAL_KEY: &str = "keys/local-api-key";

/// A key that was created because there was none.
pub(super) struct Created {
    pub(super) key: String,
    /// Where it is kept.
    pub(super) path: PathBuf,
}

/// Makes sure that somebody can sign in: with the key of the environment, with those that were created before, or with a new one.
pub(super) async fn prepare(
    runs: &Runs,
    settings: &Settings,
    address: SocketAddr,
) -> Result<Option<Created>, Failure> {
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        if key.chars().count() < MIN_KEY_CHARACTERS {
            let message = format!("{KEY_VARIABLE} has fewer than {MIN_KEY_CHARACTERS} characters");
            return Err(Envelope::new(CommandErrorCode::ConfigInvalid, message)
                .suggest("Use a long random text, such as the output of `openssl rand -hex 24`.")
                .into());
        }
        put(runs, &key, "environment").await?;
        return Ok(None);
    }
    let known = runs.keys().map_err(|refusal| refused(&refusal))?;
    let path = settings.data_dir.value.join(LOCAL_KEY);
    if known.iter().all(|(_, key)| key.id == "local" || key.revoked_at.is_some())
        && !address.ip().is_loopback()
    {
        let message = format!("{address} can be reached by others, and no key was set");
        return Err(Envelope::new(CommandErrorCode::KeyRequired, message)
            .suggest(format!(
                "Set {KEY_VARIABLE}, make a key with `interlock key new-api-key`, or listen on 127.0.0.1."
            ))
            .into());
    }
    if let Ok(key) = std::fs::read_to_string(&path) {
        // A key for everything stays one when there are more scopes than when it was made.
        let digest = hash(key.trim());
        let lacks = |(of, known): &(_, ApiKey)| {
            *of == digest && known.revoked_at.is_none() && known.scopes != Scope::ALL
        };
        // A database that was begun anew on purpose does not know the key of this machine's tools yet.
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
    runs.put_key(hash(key), &known).await.map_err(|refusal| refused(&refusal))
}
