//! `interlock serve`.

mod keys;
mod lock;
mod workflows;

use std::net::SocketAddr;
use std::sync::Arc;

use canon::error::Envelope;
use flow::definition::Capabilities;
use flow::engine::Limits;
use host::runs::outbound::Outbound;
use host::runs::rates::{RateLimiter, RateLimits};
use host::runs::secrets::{ConfiguredSecrets, SecretReference};
use host::runs::{AuditKey, Options, Runs};
use host::system::{Entropy as _, SystemClock, SystemEntropy};
use storage::sqlite::{OpenError, SqliteRuns};

use crate::arguments::{Globals, Serve};
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::output;
use crate::service;
use crate::settings::Settings;

pub(crate) use self::keys::{KEY_VARIABLE, LOCAL_KEY};
pub(crate) use self::lock::{Serving, serving, take};
pub(crate) use self::workflows::{Found, folder, read as read_workflow, register};

/// The tenant of the data directory itself.
pub(crate) const TENANT: &str = "default";

/// Serves until somebody says stop.
pub(crate) fn run(arguments: &Serve, globals: &Globals) -> Result<Answer, Failure> {
    logging();
    let settings = Settings::load(globals)?;
    let _lock = take(&settings)?;
    let listener = std::net::TcpListener::bind(arguments.listen)
        .map_err(|cause| cannot_listen(arguments.listen, &cause))?;
    let address = listener.local_addr().map_err(|cause| cannot_listen(arguments.listen, &cause))?;
    let url = arguments.public_url.clone().or_else(|| settings.public_url.value.clone());
    let url = url.unwrap_or_else(|| format!("http://{address}"));
    let runs = open_runs(&settings, url.trim_end_matches('/'))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|cause| Failure::Unreadable { name: "the system's threads".to_owned(), cause })?;
    runtime.block_on(serve(arguments, &settings, runs, listener, address))
}

async fn serve(
    arguments: &Serve,
    settings: &Settings,
    runs: Runs,
    listener: std::net::TcpListener,
    address: SocketAddr,
) -> Result<Answer, Failure> {
    keys::prepare(&runs, settings, address).await?;
    let fixtures = server::http::Fixtures::default();
    let loaded = workflows::load(&runs, &arguments.workflows, &fixtures).await;
    // Before anybody is answered: whatever was under way is then as it would be had the process never ended.
    let recovered = runs.recover().await.map_err(|refusal| refused(&refusal))?;
    if recovered > 0 {
        tracing::info!(recovered, "runs that were under way go on");
    }
    let state = server::http::HttpState::new(server::http::Options {
        runs: runs.clone(),
        settings: server::http::Settings {
            test_seams: std::env::var("OPENWOP_TEST_SEAM_ENABLED").is_ok_and(|value| value == "true"),
            ..server::http::Settings::default()
        },
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        fixtures: fixtures.clone(),
        // Off: a proxy or a later setting may count requests.
        rate_limiter: RateLimiter::new(RateLimits::default()),
    });
    let cannot = |cause: std::io::Error| cannot_listen(address, &cause);
    listener.set_nonblocking(true).map_err(cannot)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(cannot)?;
    lock::announce(settings, &format!("http://{address}"))?;
    output::text(&format!("Serving http://{address} from {}", settings.data_dir.value.display()))?;
    let background = [
        tokio::spawn(workflows::watch(runs.clone(), arguments.workflows.clone(), loaded, fixtures)),
        tokio::spawn(keep(&runs, |runs| async move { runs.keep_time().await })),
        tokio::spawn(keep(&runs, |runs| async move { runs.keep_delivering().await })),
        tokio::spawn(keep(&runs, |runs| async move { runs.keep_checkpoints().await })),
    ];
    let served = server::http::serve(listener, state, stop_signal()).await;
    runs.drain().await;
    for task in background {
        task.abort();
    }
    lock::withdraw(settings);
    served.map_err(cannot)?;
    Ok(Answer::Yes)
}

/// Something that goes on until the host is drained.
fn keep<F: Future<Output = ()>>(runs: &Runs, what: impl FnOnce(Runs) -> F) -> F {
    what(runs.clone())
}

/// The runs of the data directory, which is made if it does not exist.
pub(crate) fn open_runs(settings: &Settings, public_url: &str) -> Result<Runs, Failure> {
    let files = service::open_files(settings)?;
    let mut entropy = [0; 32];
    let no_entropy = |cause| Failure::Unreadable { name: "the system's entropy".to_owned(), cause };
    SystemEntropy.fill(&mut entropy).map_err(no_entropy)?;
    let keyring = files.keyring_or_create(entropy)?;
    let keys_dir = settings.data_dir.value.join("keys");
    let audit_key = AuditKey::load_or_create(&keys_dir, &SystemEntropy).map_err(|cause| {
        Failure::Unreadable { name: format!("the audit key in {}", keys_dir.display()), cause }
    })?;
    let keys = std::iter::once(&keyring.current).chain(&keyring.previous);
    Ok(Runs::new(Options {
        store: Arc::new(open_store(settings)?),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        limits: Limits::default(),
        capabilities: Capabilities::OURS,
        token_secrets: keys.map(|key| key.derive("interrupt tokens")).collect(),
        public_url: public_url.to_owned(),
        audit_key,
        secrets: Arc::new(secrets(settings)?),
        outbound: Outbound::default(),
    }))
}

/// The secrets that the settings refer to. Their values are looked up when they are needed, and kept nowhere.
fn secrets(settings: &Settings) -> Result<ConfiguredSecrets, Failure> {
    let mut found = Vec::new();
    for (name, reference) in &settings.secrets.value {
        let reference = SecretReference::parse(reference).map_err(|error| {
            Envelope::new(CommandErrorCode::ConfigInvalid, format!("`secrets.{name}`: {error}"))
                .suggest("Write `env:NAME` or `file:/path`, never the secret itself.")
        })?;
        found.push((TENANT.to_owned(), name.clone(), reference));
    }
    Ok(ConfiguredSecrets::new(found))
}

/// The database of the data directory.
pub(crate) fn open_store(settings: &Settings) -> Result<SqliteRuns, Failure> {
    let path = settings.data_dir.value.join("runs.sqlite3");
    SqliteRuns::open(&path).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let (code, help) = match &error {
            OpenError::Newer { .. } => (
                storage::StoreErrorCode::StoreNewerVersion,
                "Use the newer version of this program that wrote it.",
            ),
            OpenError::Sqlite(_) | OpenError::Thread(_) => (
                storage::StoreErrorCode::StoreIo,
                "Check that the data directory can be written, and that its disk has room.",
            ),
        };
        Envelope::new(code, format!("{error}{cause}"))
            .suggest(help)
            .detail("file", path.display().to_string())
            .into()
    })
}

/// What a host of runs refused, as this program tells it.
pub(crate) fn refused(refusal: &host::runs::Refusal) -> Failure {
    Envelope::new(CommandErrorCode::HostRefused, refusal.to_string())
        .suggest("See docs/openwop.md for what each code of the protocol means.")
        .detail("error", refusal.code.as_str())
        .into()
}

fn cannot_listen(address: SocketAddr, cause: &std::io::Error) -> Failure {
    Envelope::new(CommandErrorCode::ListenFailed, format!("cannot listen on {address}: {cause}"))
        .suggest("Use another address with --listen, or end the program that has this one.")
        .detail("address", address.to_string())
        .into()
}

/// What happens is told on standard error: in words on a terminal, as JSON elsewhere. `INTERLOCK_LOG` says how much.
fn logging() {
    use std::io::IsTerminal as _;
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("INTERLOCK_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let told = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber is refused, which is no reason not to serve.
    let _ = if std::io::stderr().is_terminal() {
        told.try_init()
    } else {
        told.json().with_ansi(false).try_init()
    };
}

/// Resolves when somebody says stop.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // Without signals it runs until it is killed, which loses nothing.
        _ => std::future::pending().await,
    }
}
