//! `interlock serve`.

pub(crate) mod database;
mod executors;
mod greeting;
mod http_access;
mod keys;
mod limits;
mod lock;
mod mcp;
mod pack_registry;
mod plugins;
mod shared_keys;
pub(crate) mod store;
mod traces;
mod triggers;
mod workflows;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canon::error::Envelope;
use canon::time::Timestamp;
use console::{Console, SignInLinks};
use flow::definition::Capabilities;
use flow::id::Tenant;
use guide::token::Keyring;
use guided::{Tenants, WorkspaceRoots};
use guided_node::{GuidedNodes, SessionKeys};
use postgres::Role;
use runs::audit::Anchors;
use runs::keys::hash;
use runs::rates::RateLimiter;
use runs::{EndedRuns, Options, Runs};
use storage::sqlite::{OpenError, SqliteRuns};
use system::secrets::{ConfiguredSecrets, SecretReference, Secrets};
use system::{Clock as _, Entropy as _, SystemClock, SystemEntropy};

use crate::arguments::{Globals, Serve};
use crate::client::{Client, until_ready};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::log;
use crate::service;
use crate::settings::desired::desired;
use crate::settings::{EgressUse, Settings};

pub(crate) use self::greeting::Greeting;
pub(crate) use self::keys::{KEY_VARIABLE, LOCAL_KEY};
use self::limits::Limits;
pub(crate) use self::limits::rate;
pub(crate) use self::lock::{Serving, serving, take};
use self::store::Store;
pub(crate) use self::workflows::{WorkflowFile, folder, read as read_workflow, register};

/// The default tenant of the data directory.
pub(crate) const TENANT: &str = "default";
/// How long shutdown waits for the audit logs to be signed.
const SIGNING: Duration = Duration::from_secs(5);

/// Serves until a stop signal.
pub(crate) fn run(arguments: &Serve, globals: &Globals) -> Result<ExitStatus, Failure> {
    let _log = log::begin();
    let runtime = runtime()?;
    // Opening may contact a server, which uses the same threads.
    let threads = runtime.enter();
    let opened = open(arguments, globals)?;
    drop(threads);
    runtime.block_on(serve(arguments, &opened, Greeting::Server, stop_signal()))
}

/// A bound server that responds once it is served.
pub(crate) struct Opened {
    pub(crate) settings: Settings,
    pub(crate) url: String,
    limits: Limits,
    /// The exporter of traces, until it starts.
    exporter: Mutex<Option<traces::TraceExporter>>,
    tenants: Arc<Tenants>,
    guided_nodes: GuidedNodes,
    runs: Runs,
    store: Store,
    listener: std::net::TcpListener,
    address: SocketAddr,
    plugins: plugins::Frames,
    sign_in_links: SignInLinks,
    _lock: std::fs::File,
}

impl Opened {
    /// A client with the local key, once the server responds.
    pub(crate) async fn client_once_served(&self) -> Result<Client, Failure> {
        // The listener is already bound: the request waits until it is accepted.
        until_ready(&self.url).await?;
        Client::of(&self.url, &self.settings)
    }

    /// A single-use sign-in link that leads to a page of the console.
    pub(crate) fn sign_in_link(&self, key: &str, path: &str) -> Result<String, Failure> {
        let now = Timestamp(SystemClock.now_ms());
        let issued = self.sign_in_links.issue(hash(key), path, now, &SystemEntropy);
        let link = issued.map_err(|cause| Failure::Unreadable {
            name: "the system's random number generator".to_owned(),
            cause,
        })?;
        Ok(format!("{}{link}", self.url))
    }
}

/// Locks the data directory and binds the address.
pub(crate) fn open(arguments: &Serve, globals: &Globals) -> Result<Opened, Failure> {
    let settings = Settings::load(globals)?
        .with_workflow_dirs(&arguments.workflows)
        .with_database(arguments.database.as_deref());
    // Settings errors are reported before anything else happens.
    let limits = Limits::of(&settings)?;
    let collector = traces::Collector::of(&settings)?;
    if arguments.mcp_without_key {
        refuse_unless_local(arguments, &settings)?;
    }
    let lock = take(&settings)?;
    if arguments.new_database {
        if settings.database_url.value.is_some() {
            return Err(Envelope::new(
                CommandErrorCode::ConfigInvalid,
                "--new-database is for runs in the data directory, but `database.url` is set",
            )
            .suggest("Omit --new-database. To create tables in PostgreSQL, run `interlock database init`.")
            .into());
        }
        database::start_empty(&settings)?;
    }
    let listener = std::net::TcpListener::bind(arguments.listen)
        .map_err(|cause| cannot_listen(arguments.listen, &cause))?;
    let address = listener.local_addr().map_err(|cause| cannot_listen(arguments.listen, &cause))?;
    let url = arguments.public_url.clone().or_else(|| settings.public_url.value.clone());
    let url = url.unwrap_or_else(|| format!("http://{address}"));
    let (store, keyring) = open_store_and_keys(&settings, Role::Host)?;
    let stores = store.session_stores(&settings)?;
    // The caller may be a thread of the runtime, whose other threads do the work of a database.
    let opened = tokio::task::block_in_place(|| ports::wait(service::open_tenants(&settings, stores)));
    let tenants = Arc::new(opened?);
    let keys = session_keys(&keyring);
    let guided_nodes = service::guided_nodes(&settings, keys, Arc::clone(&tenants), Some(address))?;
    let (exporter, ended_runs) = collector.map(traces::TraceExporter::new).unzip();
    let parts = Parts { guided_nodes: Some(guided_nodes.clone()), ended_runs };
    let runs = build_runs(&settings, url.trim_end_matches('/'), &store, &keyring, parts)?;
    let plugins = plugins::Frames::open(&settings, runs.public_url())?;
    let url = format!("http://{address}");
    Ok(Opened {
        settings,
        url,
        limits,
        exporter: Mutex::new(exporter),
        tenants,
        guided_nodes,
        runs,
        store,
        listener,
        address,
        plugins,
        sign_in_links: SignInLinks::default(),
        _lock: lock,
    })
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|cause| Failure::Unreadable { name: "the system's threads".to_owned(), cause })
}

/// Serves until `stop`.
pub(crate) async fn serve(
    arguments: &Serve,
    opened: &Opened,
    greeting: Greeting,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<ExitStatus, Failure> {
    let Opened { settings, limits, runs, address, .. } = opened;
    let (limits, runs, address) = (*limits, runs.clone(), *address);
    let exporter = opened.exporter.lock().unwrap_or_else(PoisonError::into_inner).take();
    let sending = exporter.map(|exporter| exporter.start(&runs));
    if let Some(made) = keys::prepare(&runs, settings, address).await? {
        greeting.show_key(&made)?;
    }
    let tenants = Arc::clone(&opened.tenants);
    let fixtures = server::http::Fixtures::default();
    let loaded = workflows::load(&runs, &arguments.workflows, &fixtures).await;
    // Collect unfinished runs before the first request is accepted: later runs are not recovered.
    // They are recovered while requests are served, so that a run with a slow recovery can be
    // cancelled; `/readyz` reports when all of them continue.
    runs.engine().find_unrecovered().await.map_err(|refusal| refused(&refusal))?;
    for lost in runs.audit().lost_entries().await.map_err(|refusal| refused(&refusal))? {
        tracing::error!(
            tenant = lost.tenant.as_str(),
            from = lost.from,
            to = lost.to,
            "the run database has lost entries of the audit log that were signed; run `interlock doctor`"
        );
    }
    let state = server::http::HttpState::new(server::http::Options {
        runs: runs.clone(),
        settings: server::http::Settings {
            test_seams: has_seams(),
            open_registry: settings.open_registry.value,
            mcp_without_key: arguments.mcp_without_key,
            ui_plugins: opened.plugins.are_served(),
            test_sandbox: is_set("OPENWOP_TEST_SANDBOX_MVP"),
            test_spans: is_set("OPENWOP_TEST_OTEL_SCRAPE"),
            ..limits.connections
        },
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        fixtures: fixtures.clone(),
        rate_limiter: RateLimiter::new(limits.rates),
        guides: server::http::Guides {
            tenants: Arc::clone(&tenants),
            workspace_roots: WorkspaceRoots::new(settings.workspace_roots.value.clone()),
            allowed_origins: settings.allowed_origins.value.clone(),
        },
        pack_registries: pack_registry::open(settings)?,
        pages: Some(console(opened, Arc::clone(&tenants))?.router()),
    });
    let cannot = |cause: std::io::Error| cannot_listen(address, &cause);
    let listener = opened.listener.try_clone().map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(cannot)?;
    lock::announce(settings, &opened.url)?;
    greeting.show_address(opened).await?;
    let recovering = tokio::spawn(keep(&runs, recover));
    let background = [
        tokio::spawn(workflows::watch(runs.clone(), arguments.workflows.clone(), loaded, fixtures)),
        tokio::spawn(keep(&runs, |runs| async move { runs.engine().keep_time().await })),
        tokio::spawn(keep(&runs, |runs| async move { runs.engine().keep_sessions().await })),
        tokio::spawn(keep(&runs, |runs| async move { runs.webhooks().keep_delivering().await })),
        tokio::spawn(keep(&runs, |runs| async move { limits::keep(&runs, limits.retention).await })),
    ];
    let signing = tokio::spawn(keep(&runs, |runs| async move { runs.audit().keep_checkpoints().await }));
    let listening = tokio::spawn(keep(&runs, |runs| async move { triggers::keep(&runs).await }));
    let stored = runs.clone();
    tokio::spawn(async move { triggers::warn_of_silent(&stored).await });
    let frames = opened.plugins.serve(limits.connections)?;
    let served = server::http::serve(listener, state, stop).await;
    tenants.stop_verifying();
    opened.guided_nodes.stop_agents().await;
    if let Some(frames) = frames {
        frames.end().await;
    }
    runs.drain().await;
    recovering.abort();
    triggers::end(listening).await;
    for task in background {
        task.abort();
    }
    // Sign the remaining entries, so that they cannot be removed unnoticed while the host is
    // stopped.
    let _ = tokio::time::timeout(SIGNING, signing).await;
    if let Some(sending) = sending {
        sending.end().await;
    }
    opened.store.close().await;
    lock::withdraw(settings);
    served.map_err(cannot)?;
    Ok(ExitStatus::Success)
}

/// Continues all unfinished runs.
async fn recover(runs: Runs) {
    let recovered = runs.engine().recover_found().await;
    if recovered > 0 {
        tracing::info!(recovered, "unfinished runs continue");
    }
}

/// The console, on the same runs and sessions.
fn console(opened: &Opened, guided: Arc<Tenants>) -> Result<Console, Failure> {
    let Opened { settings, runs, .. } = opened;
    let keyring = keyring(settings, &opened.store)?;
    let keys = std::iter::once(&keyring.current).chain(&keyring.previous);
    let options = console::Options {
        runs: runs.clone(),
        guided,
        cookie_secrets: keys.map(|key| key.derive("console cookies")).collect(),
        data_dir: settings.data_dir.value.clone(),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        sign_in_links: opened.sign_in_links.clone(),
    };
    let applied = settings.clone();
    let host = console::HostInfo {
        workspace_roots: settings.workspace_roots.value.clone(),
        settings: Arc::new(move || desired(&applied)),
        plugins: Some(opened.plugins.installed()),
    };
    Ok(Console::with_host(options, host))
}

/// A background task that runs until the host is drained.
fn keep<F: Future<Output = ()>>(runs: &Runs, what: impl FnOnce(Runs) -> F) -> F {
    what(runs.clone())
}

/// What runs use that only some commands have.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) guided_nodes: Option<GuidedNodes>,
    pub(crate) ended_runs: Option<EndedRuns>,
}

/// The store, in the data directory or in PostgreSQL, and the keys that sign tokens. A data directory is created if missing.
pub(crate) fn open_store_and_keys(settings: &Settings, role: Role) -> Result<(Store, Keyring), Failure> {
    let local = keyring_of_directory(settings)?;
    let store = Store::open(settings, role)?;
    let keyring = shared_keys::keyring(&store, local)?;
    Ok((store, keyring))
}

/// The runs and their store, for commands that read and change records and execute nothing.
pub(crate) fn open_for_command(settings: &Settings) -> Result<(Runs, Store), Failure> {
    let (store, keyring) = open_store_and_keys(settings, Role::Command)?;
    let runs = build_runs(settings, "", &store, &keyring, Parts::default())?;
    Ok((runs, store))
}

/// The runs in a store.
pub(crate) fn build_runs(
    settings: &Settings,
    public_url: &str,
    store: &Store,
    keyring: &Keyring,
    parts: Parts,
) -> Result<Runs, Failure> {
    // After the store is open: if this key exists, there was a database.
    let audit_key = shared_keys::audit_key(settings, store)?;
    let anchors = Anchors::open(&settings.data_dir.value).map_err(|cause| Failure::Unreadable {
        name: settings.data_dir.value.display().to_string(),
        cause,
    })?;
    let secrets = Arc::new(secrets(settings)?);
    let mut options = Options {
        store: store.port(),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        limits: limits::of_runs(settings),
        capabilities: Capabilities {
            mcp_mount: settings.mcp_mount.value,
            mock_agent: has_seams(),
            ..Capabilities::OURS
        },
        token_secrets: token_secrets(keyring),
        public_url: public_url.to_owned(),
        audit_key,
        secrets: Arc::clone(&secrets) as Arc<dyn Secrets>,
        outbound: outbound::Client::new(settings.private_networks.value.reach(EgressUse::Webhooks)),
        executors: None,
        guided_nodes: parts.guided_nodes,
        anchors: Some(anchors),
        ended_runs: parts.ended_runs,
    };
    // What packs may require depends on the other options.
    options.executors = Some(executors::open(settings, &options, secrets, has_seams())?);
    Ok(Runs::new(options))
}

/// The secrets that sign interrupt tokens and session keys, the current one first.
fn token_secrets(keyring: &Keyring) -> Vec<[u8; 32]> {
    let keys = std::iter::once(&keyring.current).chain(&keyring.previous);
    keys.map(|key| key.derive("interrupt tokens")).collect()
}

/// Issues the keys of agents for one session.
pub(crate) fn session_keys(keyring: &Keyring) -> SessionKeys {
    SessionKeys::new(token_secrets(keyring))
}

/// Whether endpoints for conformance suites are served.
fn has_seams() -> bool {
    is_set("OPENWOP_TEST_SEAM_ENABLED")
}

/// Whether an environment variable is `true`.
fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "true")
}

/// The keys that sign tokens, created if missing.
fn keyring(settings: &Settings, store: &Store) -> Result<Keyring, Failure> {
    shared_keys::keyring(store, keyring_of_directory(settings)?)
}

/// The keys of the data directory, created if missing.
fn keyring_of_directory(settings: &Settings) -> Result<Keyring, Failure> {
    let mut entropy = [0; 32];
    let unreadable =
        |cause| Failure::Unreadable { name: "the system's random number generator".to_owned(), cause };
    SystemEntropy.fill(&mut entropy).map_err(unreadable)?;
    Ok(service::open_files(settings)?.keyring_or_create(entropy)?)
}

/// The secrets that the settings refer to. Values are read when needed and never stored.
fn secrets(settings: &Settings) -> Result<ConfiguredSecrets, Failure> {
    let mut found = Vec::new();
    for (name, reference) in &settings.secrets.value {
        let reference = SecretReference::parse(reference).map_err(|error| {
            Envelope::new(CommandErrorCode::ConfigInvalid, format!("`secrets.{name}`: {error}"))
                .suggest("Use `env:NAME` or `file:/path`, never the secret itself.")
        })?;
        found.push((Tenant::new(TENANT), name.clone(), reference));
    }
    Ok(ConfiguredSecrets::new(found))
}

pub(crate) fn open_store(settings: &Settings) -> Result<SqliteRuns, Failure> {
    let path = settings.data_dir.value.join("runs.sqlite3");
    SqliteRuns::open(&path).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let (code, help) = match &error {
            OpenError::Newer { .. } => (
                storage::StoreErrorCode::StoreNewerVersion,
                "Use the newer version of interlock that wrote it.",
            ),
            error if error.is_damage() => (storage::StoreErrorCode::StoreIo, database::RESTORE),
            OpenError::Sqlite(_) | OpenError::File(_) | OpenError::Thread(_) => (
                storage::StoreErrorCode::StoreIo,
                "Check that the data directory is writable and that the disk is not full.",
            ),
        };
        Envelope::new(code, format!("{error}{cause}"))
            .suggest(help)
            .detail("file", path.display().to_string())
            .into()
    })
}

/// A refusal of the host as a CLI error.
pub(crate) fn refused(refusal: &runs::Refusal) -> Failure {
    Envelope::new(CommandErrorCode::HostRefused, refusal.to_string())
        .suggest("See docs/openwop.md for the meaning of each code.")
        .detail("error", refusal.code.as_str())
        .into()
}

/// Requests without a key are for programs on this machine only: not for other machines, and not for a proxy that speaks for them.
fn refuse_unless_local(arguments: &Serve, settings: &Settings) -> Result<(), Failure> {
    let reached = arguments.public_url.as_ref().or(settings.public_url.value.as_ref());
    let message = if !arguments.listen.ip().is_loopback() {
        format!("--mcp-without-key requires a loopback address, but --listen is {}", arguments.listen)
    } else if let Some(url) = reached {
        format!("--mcp-without-key cannot be used with a public URL, but it is set to {url}")
    } else {
        return Ok(());
    };
    Err(Envelope::new(CommandErrorCode::KeyRequired, message)
        .suggest("Listen on 127.0.0.1 without a public URL, or leave --mcp-without-key out and use a key.")
        .into())
}

fn cannot_listen(address: SocketAddr, cause: &std::io::Error) -> Failure {
    Envelope::new(CommandErrorCode::ListenFailed, format!("cannot listen on {address}: {cause}"))
        .suggest("Use another address with --listen, or stop the program that uses this one.")
        .detail("address", address.to_string())
        .into()
}

/// Resolves on SIGINT or SIGTERM.
pub(crate) async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // Without signal handlers the server runs until it is killed, which loses no data.
        _ => std::future::pending().await,
    }
}
