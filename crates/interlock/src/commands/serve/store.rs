//! The stores of runs and guided sessions: the data directory, or PostgreSQL if the settings name a database. Sessions and keys
//! are in PostgreSQL if the settings also name a master key.

use std::sync::{Arc, OnceLock};

use canon::error::Envelope;
use ports::runs::RunStore;
use ports::sessions::SessionStores;
use postgres::{OpenError, PostgresRuns, PostgresSessions, Role};
use sealing::MasterKey;
use storage::sqlite::SqliteRuns;
use system::secrets::SecretReference;

use super::database::{RUNS, refuse_if_lost};
use super::open_store;
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

pub(crate) enum Store {
    Embedded(Arc<SqliteRuns>),
    Postgres {
        runs: Arc<PostgresRuns>,
        /// The guided sessions and keys, if they are in the database too.
        sessions: Option<Arc<PostgresSessions>>,
    },
}

impl Store {
    /// Opens the store that the settings name. PostgreSQL needs a runtime with several threads.
    pub(crate) fn open(settings: &Settings, role: Role) -> Result<Self, Failure> {
        let Some(url) = database_url(settings)? else {
            if settings.master_key.value.is_some() {
                return Err(Envelope::new(
                    CommandErrorCode::ConfigInvalid,
                    "`database.master_key` is set, but `database.url` is not",
                )
                .suggest("Set `database.url`, or remove `database.master_key`.")
                .into());
            }
            refuse_if_lost(&settings.data_dir.value)?;
            return Ok(Self::Embedded(Arc::new(open_store(settings)?)));
        };
        refuse_embedded_runs(settings)?;
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Err(Envelope::new(
                CommandErrorCode::ConfigInvalid,
                "`interlock demo` uses a temporary data directory and no database",
            )
            .suggest("Run the demo without `--config`.")
            .into());
        };
        let options = postgres::Options { role, ..postgres::Options::new(url, host_name()) };
        // Some commands open the store from a thread of the runtime.
        let opened = tokio::task::block_in_place(|| runtime.block_on(PostgresRuns::open(&options)));
        let runs = Arc::new(opened.map_err(|error| unusable(&error))?);
        let sessions = master_key(settings)?.map(|key| Arc::new(PostgresSessions::new(&runs, Arc::new(key))));
        Ok(Self::Postgres { runs, sessions })
    }

    /// Where the guided sessions of all tenants are.
    pub(crate) fn session_stores(&self, settings: &Settings) -> Result<Arc<dyn SessionStores>, Failure> {
        match self.sessions() {
            Some(sessions) => Ok(Arc::clone(sessions) as _),
            None => crate::service::file_tenants(settings),
        }
    }

    /// The guided sessions and keys, if they are in the database.
    pub(crate) fn sessions(&self) -> Option<&Arc<PostgresSessions>> {
        match self {
            Self::Embedded(_) => None,
            Self::Postgres { sessions, .. } => sessions.as_ref(),
        }
    }

    pub(crate) fn port(&self) -> Arc<dyn RunStore> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Postgres { runs, .. } => Arc::clone(runs) as _,
        }
    }

    /// Finishes the commits that were started. The database then knows that this process has ended.
    pub(crate) async fn close(&self) {
        match self {
            Self::Embedded(_) => {}
            Self::Postgres { runs, .. } => runs.close().await,
        }
    }
}

/// The guided sessions in the database, for commands. `None` if they are in the data directory.
///
/// The entry of the process in the database expires after the process has ended.
pub(crate) fn shared_sessions(settings: &Settings) -> Result<Option<Arc<dyn SessionStores>>, Failure> {
    static THREADS: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let Some(key) = master_key(settings)? else { return Ok(None) };
    let Some(url) = database_url(settings)? else { return Ok(None) };
    let threads = match THREADS.get() {
        Some(threads) => threads,
        None => {
            let threads = super::runtime()?;
            THREADS.get_or_init(|| threads)
        }
    };
    let options = postgres::Options {
        role: Role::Command,
        writers: 1,
        readers: 1,
        ..postgres::Options::new(url, host_name())
    };
    // The caller may be a task of another runtime, which must not block on this one itself.
    let opened =
        std::thread::scope(|scope| scope.spawn(|| threads.block_on(PostgresRuns::open(&options))).join());
    let runs = match opened {
        Ok(opened) => opened.map_err(|error| unusable(&error))?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    Ok(Some(Arc::new(PostgresSessions::new(&Arc::new(runs), Arc::new(key)))))
}

/// The master key, if the settings name one.
pub(crate) fn master_key(settings: &Settings) -> Result<Option<MasterKey>, Failure> {
    let Some(text) = &settings.master_key.value else { return Ok(None) };
    let wrong = |problem: String| -> Failure {
        Envelope::new(CommandErrorCode::ConfigInvalid, format!("`database.master_key`: {problem}"))
            .suggest("Use `env:NAME` or `file:/path` of a key that `openssl rand -hex 32` created.")
            .into()
    };
    let reference = SecretReference::parse(text).map_err(|error| wrong(error.to_string()))?;
    let value = reference.read().map_err(|error| wrong(error.to_string()))?;
    MasterKey::parse(value.expose()).map(Some).map_err(|error| wrong(error.to_string()))
}

/// The URL of the database, if the settings name one.
pub(crate) fn database_url(settings: &Settings) -> Result<Option<String>, Failure> {
    settings.database_url.value.as_deref().map(resolved).transpose()
}

/// The URL that a setting or a flag names: the URL itself, or a reference to it.
pub(crate) fn resolved(text: &str) -> Result<String, Failure> {
    let Ok(reference) = SecretReference::parse(text) else { return Ok(text.to_owned()) };
    // The reference has no secret in it, but a URL that was written in its place may have.
    let value = reference.read().map_err(|error| {
        Envelope::new(CommandErrorCode::ConfigInvalid, format!("`database.url`: {error}"))
            .suggest("Check the name of the variable or the path of the file.")
    })?;
    Ok(value.expose().to_owned())
}

/// A failure to use a database.
pub(crate) fn unusable(error: &OpenError) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let help = match error {
        OpenError::Url(_) => "Use `postgres://user@host/name`, or a reference such as `env:DATABASE_URL`.",
        OpenError::Failed(_) => "Check that the server is running and that the role may use the database.",
        OpenError::Uninitialized => "Run `interlock database init` once.",
        OpenError::Older { .. } => "Run `interlock database migrate`.",
        OpenError::Newer { .. } => "Use a newer version of interlock.",
        OpenError::Encoding(_) => "Create the database again with `ENCODING 'UTF8'`.",
        OpenError::HostAlive { .. } => "Stop that host, or use another database.",
        OpenError::Entropy(_) => "Check the system's source of random bytes.",
    };
    Envelope::new(CommandErrorCode::DatabaseUnusable, format!("{error}{cause}")).suggest(help).into()
}

/// Refuses to leave the runs of a data directory behind.
fn refuse_embedded_runs(settings: &Settings) -> Result<(), Failure> {
    let path = settings.data_dir.value.join(RUNS);
    if !std::fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let message =
        format!("{} contains runs, which would be hidden if runs were in a database", path.display());
    Err(Envelope::new(CommandErrorCode::DatabaseUnusable, message)
        .suggest("Use a data directory without runs. Runs cannot be moved into PostgreSQL yet.")
        .detail("file", path.display().to_string())
        .into())
}

/// The name under which operators know this process.
fn host_name() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    format!("{}:{}", if machine.is_empty() { "host" } else { machine }, std::process::id())
}
