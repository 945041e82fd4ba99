//! The settings and the shared state of the service.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use flow::id::WorkflowId;
use guided::{Tenants, WorkspaceRoots};
use plugins::Canary;
use runs::Runs;
use runs::rates::RateLimiter;
use system::{Clock, Entropy};

use super::cursor::Cursors;
use super::denial_audit::DenialAudit;
use super::handlers::envelopes::Correlations;
use super::handlers::registry::MAX_ARCHIVES;
use super::handlers::surfaces::MAX_UPLOADS;
use super::metrics::Metrics;
use super::origin_policy::OriginPolicy;
use super::pack_registries::PackRegistries;
use super::routes::Gates;
use super::table::Table;
use super::test_log::TestLog;
use super::trace::Ids;
use crate::mount::PendingCalls;
use crate::mount::pending_requests::PendingRequests;

/// The limits and optional features of the HTTP service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The maximum size of a request body, in bytes. Advertised.
    pub max_body_bytes: usize,
    /// The maximum size of a workflow document, in bytes.
    pub max_workflow_bytes: usize,
    /// The maximum size of an MCP message, in bytes.
    pub max_message_bytes: usize,
    /// The maximum number of MCP messages that are processed concurrently. More are refused and may be retried. Each may hold a thread.
    pub max_messages: usize,
    /// How long a client may take to send the head of a request, and how long a connection may be idle between two requests.
    pub head_timeout: Duration,
    /// How long a client may take to send a body. An upload has more time, depending on its size.
    pub body_timeout: Duration,
    /// How long a write may wait for a client that does not read its reply.
    pub write_timeout: Duration,
    /// How long a call of a workflow over MCP waits for its run.
    pub mount_timeout: Duration,
    /// The maximum number of connections. More are refused.
    pub max_connections: usize,
    /// The maximum number of connections from one address; for IPv6, from one /64 network.
    pub connections_per_address: usize,
    /// The maximum number of connections from one local address. It is higher because a local proxy forwards many clients.
    pub connections_per_local_address: usize,
    /// The number of connections over these limits that are kept briefly, to answer health checks and refuse all other requests.
    pub reserved_connections: usize,
    /// The maximum number of event streams. Each holds a connection for the duration of its run.
    pub max_streams: usize,
    /// The interval of keep-alive messages on an idle stream.
    pub keep_alive: Duration,
    /// Whether the seams for conformance suites are served.
    pub test_seams: bool,
    /// Whether the registry can be read without a key.
    pub open_registry: bool,
    /// Whether programs on this machine may use MCP without a key.
    pub mcp_without_key: bool,
    /// Whether UI plugins are served, from a separate origin. Advertised.
    pub ui_plugins: bool,
    /// Whether suites may test the pack sandbox with modules that misbehave. Has no effect without the seams.
    pub test_sandbox: bool,
    /// Whether suites may read spans. Has no effect without the seams.
    pub test_spans: bool,
    /// How long active requests may take after shutdown was requested.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The inputs of a run have at most 1 MiB; 4 MiB leave room for any escaping.
            max_body_bytes: 4 << 20,
            max_workflow_bytes: 8 << 20,
            // The arguments of a call have at most 4 MiB; 8 MiB leave room for any escaping.
            max_message_bytes: 8 << 20,
            // A step of a session is one or two fsyncs: more concurrent messages would only wait for the disk.
            max_messages: 64,
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            // Somewhat longer than clients commonly wait for a tool.
            mount_timeout: Duration::from_secs(300),
            // Below the usual limit of 1024 open files per process, with room for the database.
            max_connections: 900,
            connections_per_address: 900 / 8,
            connections_per_local_address: 900 / 2,
            reserved_connections: 32,
            max_streams: 600,
            keep_alive: Duration::from_secs(15),
            test_seams: false,
            open_registry: false,
            mcp_without_key: false,
            ui_plugins: false,
            test_sandbox: false,
            test_spans: false,
            grace: Duration::from_secs(10),
        }
    }
}

/// The parts from which a service is created.
pub struct Options {
    pub runs: Runs,
    /// The limits and optional features.
    pub settings: Settings,
    /// The clock for the rate limits.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness, for example for span ids and list cursors.
    pub entropy: Arc<dyn Entropy>,
    /// The loaded conformance workflows.
    pub fixtures: Fixtures,
    /// The rate limits. Nothing is limited unless it is configured.
    pub rate_limiter: RateLimiter,
    /// The guided sessions, for MCP.
    pub guides: Guides,
    /// The packs in the registry, and the installed ones.
    pub pack_registries: PackRegistries,
    /// The router for paths outside of the protocol: the web pages. Without it, such paths get an error envelope.
    pub pages: Option<Router>,
}

/// Guided sessions over HTTP.
pub struct Guides {
    /// The sessions of each tenant.
    pub tenants: Arc<Tenants>,
    /// The directories in which callers may open workspaces.
    pub workspace_roots: WorkspaceRoots,
    /// Origins of web pages that may send requests, besides those of this machine and of this host, such as `https://app.example`.
    pub allowed_origins: Vec<String>,
}

/// The ids of the loaded conformance workflows. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Fixtures(Arc<RwLock<Arc<[WorkflowId]>>>);

impl Fixtures {
    /// Replaces the ids. Only those of conformance workflows are kept, sorted.
    pub fn set(&self, workflow_ids: impl IntoIterator<Item = WorkflowId>) {
        let is_fixture = |id: &WorkflowId| {
            ["conformance-", "openwop-smoke-"].iter().any(|kind| id.as_str().starts_with(kind))
        };
        let mut ids: Vec<_> = workflow_ids.into_iter().filter(is_fixture).collect();
        ids.sort_unstable();
        ids.dedup();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ids.into();
    }

    /// The ids, sorted.
    pub fn get(&self) -> Arc<[WorkflowId]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state of the service. Cheap to clone.
#[derive(Clone)]
pub struct HttpState(pub(super) Service);

/// The state that all requests share.
pub(super) type Service = Arc<Shared>;

pub(super) struct Shared {
    pub(super) runs: Runs,
    pub(super) settings: Settings,
    pub(super) span_ids: Ids,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) fixtures: Fixtures,
    pub(super) rate_limiter: RateLimiter,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    pub(super) denials: DenialAudit,
    pub(super) cursors: Cursors,
    pub(super) table: Table,
    pub(super) streams: Arc<tokio::sync::Semaphore>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) workspace_roots: Arc<WorkspaceRoots>,
    pub(super) origin_policy: OriginPolicy,
    /// The calls of workflows over MCP that wait for their runs.
    pub(super) pending: PendingCalls,
    /// The open questions to the clients of those calls.
    pub(super) pending_requests: PendingRequests,
    pub(super) pack_registries: PackRegistries,
    /// The outcomes of test envelopes.
    pub(super) correlations: Correlations,
    /// Events and spans that seams recorded outside of the logs of runs.
    pub(super) test_log: TestLog,
    /// Permits to process MCP messages.
    pub(super) messages: Arc<tokio::sync::Semaphore>,
    /// Permits to receive objects at signed URLs.
    pub(super) uploads: Arc<tokio::sync::Semaphore>,
    /// Permits to receive pack archives.
    pub(super) archives: Arc<tokio::sync::Semaphore>,
    /// The router for paths outside of the protocol: the web pages.
    pub(super) pages: Option<Router>,
    /// The artifact of the UI plugin seam. Only present with the seams.
    pub(super) canary: Option<Canary>,
    /// Set to `true` once, when the service stops: streams end then, and long polls are answered.
    pub(super) stopping: tokio::sync::watch::Sender<bool>,
}

impl Shared {
    /// Which optional routes are served.
    pub(super) fn gates(&self) -> Gates {
        Gates { seams: self.settings.test_seams, test_packs: self.pack_registries.tests().is_some() }
    }
}

impl HttpState {
    /// The state of a new service.
    pub fn new(options: Options) -> Self {
        let cursors = Cursors::new(&*options.entropy);
        let gates = Gates {
            seams: options.settings.test_seams,
            test_packs: options.pack_registries.tests().is_some(),
        };
        Self(Arc::new(Shared {
            streams: Arc::new(tokio::sync::Semaphore::new(options.settings.max_streams)),
            messages: Arc::new(tokio::sync::Semaphore::new(options.settings.max_messages)),
            uploads: Arc::new(tokio::sync::Semaphore::new(MAX_UPLOADS)),
            archives: Arc::new(tokio::sync::Semaphore::new(MAX_ARCHIVES)),
            origin_policy: OriginPolicy::new(options.runs.public_url(), &options.guides.allowed_origins),
            tenants: options.guides.tenants,
            workspace_roots: Arc::new(options.guides.workspace_roots),
            pending: PendingCalls::default(),
            pending_requests: PendingRequests::default(),
            canary: options.settings.test_seams.then(Canary::default),
            runs: options.runs,
            settings: options.settings,
            span_ids: Ids::new(&*options.entropy),
            entropy: options.entropy,
            fixtures: options.fixtures,
            rate_limiter: options.rate_limiter,
            clock: options.clock,
            metrics: Metrics::default(),
            denials: DenialAudit::default(),
            cursors,
            table: Table::new(gates),
            pack_registries: options.pack_registries.read_by(options.settings.open_registry),
            correlations: Correlations::default(),
            test_log: TestLog::default(),
            pages: options.pages,
            stopping: tokio::sync::watch::Sender::new(false),
        }))
    }
}

impl fmt::Debug for HttpState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpState").field("runs", &self.0.runs).finish_non_exhaustive()
    }
}
