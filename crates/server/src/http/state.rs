//! What the service works with.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use flow::id::WorkflowId;
use host::guided::{Tenants, WorkspaceRoots};
use host::plugins::Canary;
use host::runs::Runs;
use host::runs::rates::RateLimiter;
use host::system::{Clock, Entropy};

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
use crate::mount::Pending;
use crate::mount::pending_requests::Asks;

/// The limits of the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest body, in bytes. Advertised.
    pub max_body_bytes: usize,
    /// The largest document of a workflow, in bytes.
    pub max_workflow_bytes: usize,
    /// The largest message of MCP, in bytes.
    pub max_message_bytes: usize,
    /// How many messages of MCP may be answered at once; more are told to come back. Each may hold a thread.
    pub max_messages: usize,
    /// How long a client may take over the head of a request, and over doing nothing between two of them.
    pub head_timeout: Duration,
    /// How long a client may take over a body. An upload has more time, for its size.
    pub body_timeout: Duration,
    /// How long a client may leave an answer that it asked for.
    pub write_timeout: Duration,
    /// How long a call of a workflow over MCP waits for its run.
    pub mount_patience: Duration,
    /// How many connections there may be. More are refused.
    pub max_connections: usize,
    /// How many of them one address may have; for IPv6, one network of 64 bits.
    pub connections_per_address: usize,
    /// How many of them an address of this machine may have: a proxy here speaks for many clients.
    pub connections_per_local_address: usize,
    /// How many connections over these limits are kept for a moment, to answer health checks and refuse the rest.
    pub reserved_connections: usize,
    /// How many streams of events there may be: each holds a connection for as long as its run takes.
    pub max_streams: usize,
    /// How often a stream that has nothing to say says so, to be told apart from a dead one.
    pub keep_alive: Duration,
    /// Whether the seams for conformance suites are there.
    pub test_seams: bool,
    /// Whether anybody may read what the registry offers, without a key.
    pub open_registry: bool,
    /// Whether programs of this machine may speak MCP without a key.
    pub mcp_without_key: bool,
    /// Whether parts of a front end are served, from an origin of their own. Advertised.
    pub ui_plugins: bool,
    /// Whether suites may try the sandbox of packs with modules that misbehave. Nothing without the seams.
    pub test_sandbox: bool,
    /// Whether suites may read spans. Nothing without the seams.
    pub test_spans: bool,
    /// How long requests that are under way may take after the stop was asked for.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The inputs of a run have at most one mebibyte; four leave room for any escaping of them.
            max_body_bytes: 4 << 20,
            max_workflow_bytes: 8 << 20,
            // The arguments of a call have at most four mebibytes; eight leave room for any escaping of them.
            max_message_bytes: 8 << 20,
            // A step of a session is an fsync or two: more at once would only wait for the disk.
            max_messages: 64,
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            // As long as clients commonly wait for a tool, and some more.
            mount_patience: Duration::from_secs(300),
            // Below the 1024 open files that a process usually has, with room for the database.
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

/// What a service is made of.
pub struct Options {
    pub runs: Runs,
    /// The limits.
    pub settings: Settings,
    /// Tells the time, for the limits below.
    pub clock: Arc<dyn Clock>,
    /// For the ids of spans.
    pub entropy: Arc<dyn Entropy>,
    /// The workflows for conformance that are loaded.
    pub fixtures: Fixtures,
    /// How often somebody may ask. Nothing is limited unless it was configured.
    pub rate_limiter: RateLimiter,
    /// The guided sessions, for MCP.
    pub guides: Guides,
    /// The packs that are offered, and those that are installed.
    pub shelves: PackRegistries,
    /// Who answers what is outside of the protocol: the pages of people. Without any, such paths get an envelope.
    pub pages: Option<Router>,
}

/// Guided sessions, as they are served over HTTP.
pub struct Guides {
    /// The sessions of each tenant.
    pub tenants: Arc<Tenants>,
    /// Where workspaces are opened that a caller names.
    pub workspace_roots: WorkspaceRoots,
    /// Web pages that may ask besides those of this machine and of this host, such as `https://app.example`.
    pub allowed_origins: Vec<String>,
}

/// The ids of the loaded workflows that exist for conformance. Shared with whoever loads them.
#[derive(Clone, Debug, Default)]
pub struct Fixtures(Arc<RwLock<Arc<[WorkflowId]>>>);

impl Fixtures {
    /// Keeps those ids that are for conformance, sorted.
    pub fn set(&self, workflow_ids: impl IntoIterator<Item = WorkflowId>) {
        let is_fixture = |id: &WorkflowId| {
            ["conformance-", "openwop-smoke-"].iter().any(|kind| id.as_str().starts_with(kind))
        };
        let mut ids: Vec<_> = workflow_ids.into_iter().filter(is_fixture).collect();
        ids.sort_unstable();
        ids.dedup();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ids.into();
    }

    /// The ids.
    pub fn get(&self) -> Arc<[WorkflowId]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state of the service. Cheap to clone.
#[derive(Clone)]
pub struct HttpState(pub(super) Service);

/// What every request works with.
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
    /// Which routes a path has.
    pub(super) table: Table,
    pub(super) streams: Arc<tokio::sync::Semaphore>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) workspace_roots: Arc<WorkspaceRoots>,
    pub(super) visitors: OriginPolicy,
    /// The calls of workflows over MCP that wait for their runs.
    pub(super) pending: Pending,
    /// What the clients of those calls were asked.
    pub(super) asks: Asks,
    pub(super) shelves: PackRegistries,
    /// What came of the envelopes of tests.
    pub(super) correlations: Correlations,
    /// What seams recorded beside the logs of runs.
    pub(super) test_log: TestLog,
    /// Places for messages of MCP.
    pub(super) messages: Arc<tokio::sync::Semaphore>,
    /// Places for objects that come to signed addresses.
    pub(super) uploads: Arc<tokio::sync::Semaphore>,
    /// Places for archives of packs.
    pub(super) archives: Arc<tokio::sync::Semaphore>,
    /// Who answers what is outside of the protocol: the pages of people.
    pub(super) pages: Option<Router>,
    /// What conformance suites read and write as a plugin would; there only with the seams.
    pub(super) canary: Option<Canary>,
    /// Reported once, when the service stops: streams end then, and long polls are answered.
    pub(super) stopping: tokio::sync::watch::Sender<bool>,
}

impl Shared {
    /// Which routes are there.
    pub(super) fn gates(&self) -> Gates {
        Gates { seams: self.settings.test_seams, test_packs: self.shelves.tests().is_some() }
    }
}

impl HttpState {
    /// The state of a service that has not answered anything yet.
    pub fn new(options: Options) -> Self {
        let cursors = Cursors::new(&*options.entropy);
        let gates =
            Gates { seams: options.settings.test_seams, test_packs: options.shelves.tests().is_some() };
        Self(Arc::new(Shared {
            streams: Arc::new(tokio::sync::Semaphore::new(options.settings.max_streams)),
            messages: Arc::new(tokio::sync::Semaphore::new(options.settings.max_messages)),
            uploads: Arc::new(tokio::sync::Semaphore::new(MAX_UPLOADS)),
            archives: Arc::new(tokio::sync::Semaphore::new(MAX_ARCHIVES)),
            visitors: OriginPolicy::new(options.runs.public_url(), &options.guides.allowed_origins),
            tenants: options.guides.tenants,
            workspace_roots: Arc::new(options.guides.workspace_roots),
            pending: Pending::default(),
            asks: Asks::default(),
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
            shelves: options.shelves.read_by(options.settings.open_registry),
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
