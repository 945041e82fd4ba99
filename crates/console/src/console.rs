//! The console's state and options.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use guided::Tenants;
use guided_node::workspaces::Workspaces;
use plugins::Plugins;
use runs::Runs;
use runs::rates::{Rate, RateLimiter, RateLimits};
use system::{Clock, Entropy};

use axum::Router;
use axum::extract::State;
use canon::time::Timestamp;
use http::HeaderValue;
use tokio::sync::Semaphore;

use crate::assets::Assets;
use crate::composed::Composer;
use crate::dispatch;
use crate::setting::Desired;
use crate::sign_in::ended::EndedSessions;
use crate::sign_in::{self, Sessions, SignInLinks};

/// The limit of concurrent live views. Each holds a connection.
const MAX_STREAMS: usize = 300;

pub struct Options {
    pub runs: Runs,
    /// The guided sessions by tenant.
    pub guided: Arc<Tenants>,
    /// Secrets that sign cookies, the current one first.
    pub cookie_secrets: Vec<[u8; 32]>,
    /// The directory with `console/modules` and `console/policy.json`.
    pub data_dir: PathBuf,
    pub clock: Arc<dyn Clock>,
    /// Rate limits for signing in.
    pub entropy: Arc<dyn Entropy>,
    /// Sign-in links without a key. Keep a clone to issue them.
    pub sign_in_links: SignInLinks,
}

/// What the serving program provides about itself.
#[derive(Clone)]
pub struct HostInfo {
    /// Allowed workspace roots. If empty, the tenant of the data directory may use any folder.
    pub workspace_roots: Vec<PathBuf>,
    /// The settings in use, and those that a restart would apply.
    pub settings: Arc<dyn Fn() -> Desired + Send + Sync>,
    /// The installed plugins, if the host supports plugins.
    pub plugins: Option<Arc<Plugins>>,
}

impl Default for HostInfo {
    fn default() -> Self {
        Self { workspace_roots: Vec::new(), settings: Arc::new(Desired::default), plugins: None }
    }
}

impl fmt::Debug for HostInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HostInfo")
            .field("workspace_roots", &self.workspace_roots)
            .finish_non_exhaustive()
    }
}

/// The console. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<Shared>);

/// State shared by all requests.
pub(crate) struct Shared {
    pub(crate) runs: Runs,
    pub(crate) guided: Arc<Tenants>,
    pub(crate) sessions: Sessions,
    pub(crate) links: SignInLinks,
    pub(crate) composer: Composer,
    pub(crate) workspaces: Workspaces,
    pub(crate) host: HostInfo,
    pub(crate) assets: Assets,
    /// The content security policy of every page.
    pub(crate) policy: HeaderValue,
    pub(crate) clock: Arc<dyn Clock>,
    /// Budget of failed sign-in attempts.
    pub(crate) failed_sign_ins: RateLimiter,
    pub(crate) streams: Arc<Semaphore>,
}

impl fmt::Debug for Console {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Console").field("runs", &self.0.runs).finish_non_exhaustive()
    }
}

impl Console {
    /// A console without information about its host.
    pub fn new(options: Options) -> Self {
        Self::with_host(options, HostInfo::default())
    }

    pub fn with_host(options: Options, host: HostInfo) -> Self {
        let https = options.runs.public_url().starts_with("https://");
        let (ended, trouble) = EndedSessions::open(&options.data_dir, Timestamp(options.clock.now_ms()));
        if let Some(error) = trouble {
            tracing::warn!(%error, "cannot read the list of ended console sessions; all users must sign in again");
        }
        Self(Arc::new(Shared {
            sessions: Sessions::new(options.cookie_secrets, https, options.entropy, ended),
            links: options.sign_in_links,
            guided: options.guided,
            composer: Composer::new(options.data_dir.join("console"), host.plugins.clone()),
            policy: sign_in::policy(host.plugins.as_ref().and_then(|plugins| plugins.origin())),
            workspaces: Workspaces::new(options.data_dir.join("workspaces")),
            host,
            assets: Assets::new(),
            clock: options.clock,
            runs: options.runs,
            // Buckets: one wrong key from one address, all wrong keys from one address, and all
            // wrong keys.
            failed_sign_ins: RateLimiter::new(RateLimits {
                key: Some(Rate::new(1, 10)),
                tenant: Some(Rate::new(2, 20)),
                route: Some(Rate::new(20, 60)),
            }),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }))
    }

    /// The router for everything under `/` that the host does not serve itself.
    pub fn router(&self) -> Router {
        Router::new()
            .fallback(|State(console): State<Arc<Shared>>, request| dispatch::answer(console, request))
            .with_state(Arc::clone(&self.0))
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.clock.now_ms())
    }
}
