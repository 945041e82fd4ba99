//! Runs as services: [`Commands`] is what callers request of them, [`Engine`] advances them, [`Queries`] reads them, and the other
//! services keep what belongs to them.
//!
//! ```text
//!  Records ─► Keys, Audit, Listeners ─► Definitions ─► States ─► Webhooks, Connections ─► Queries
//!                                                                         └─► Engine ─► Commands
//! ```
//!
//! A service knows only services on its left. It gets them when it is created, in [`Runs::new`], and nothing is filled in later.
//! [`Runs`] holds all of them; callers use the service of their subject, for example `runs.keys().authenticate(…)`.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod artifacts;
pub mod audit;
pub mod caller;
pub mod commands;
mod compute_pool;
mod connections;
pub mod definitions;
pub mod engine;
mod features;
mod interrupt_tokens;
pub mod keys;
mod mcp_clients;
pub mod queries;
pub mod rates;
mod records;
pub mod refusal;
pub mod retention;
mod states;
mod traces;
pub mod webhooks;

use std::fmt;
use std::sync::Arc;

use executors::Executors;
use flow::definition::Capabilities;
use flow::engine::Limits;
use guided_node::{GuidedNodes, SessionKeys};
use ports::runs::RunStore;
use system::secrets::Secrets;
use system::{Clock, Entropy};

use self::annotations::Annotations;
use self::artifacts::Artifacts;
use self::audit::{Anchors, Signer};
pub use self::audit::{Audit, AuditKey};
pub use self::caller::{Caller, Scope};
pub use self::commands::create::{CreatedRun, NewRun, new_run_id};
pub use self::commands::{Commands, bulk, create, fork, interrupts};
use self::compute_pool::ComputePool;
pub use self::connections::Connections;
use self::definitions::listeners::Listeners;
pub use self::definitions::listeners::SilentTrigger;
pub use self::definitions::{Definitions, WorkflowLook, exposed, listeners};
use self::engine::Uses;
pub use self::engine::{Engine, MAX_AT_WORK, MAX_AT_WORK_FOR_A_RUN, RecoveryProgress, counts};
pub use self::features::Features;
pub use self::interrupt_tokens::InterruptTokens;
pub use self::keys::{ApiKey, GuidedCaller, KeyError, Keys};
pub use self::mcp_clients::{MAX_NAME_BYTES, McpClients};
pub use self::queries::{MAX_FAMILY, Queries, Waiting, bundle, read};
use self::records::CommitListener;
pub use self::records::idempotency::{self, Direct, Keyed, Respond, StoredReply, Written};
pub use self::records::{MAX_WRITES, Records, Trouble};
pub use self::refusal::{ApiCode, Refusal, RefusalKind};
use self::retention::Sweeper;
use self::states::States;
pub use self::states::{Batch, Following};
pub use self::traces::{Ended, EndedRuns, MAX_WAITING as MAX_TRACES_WAITING, Traces};
pub use self::webhooks::Webhooks;

/// The secrets that sign what this host issues: tokens for interrupts, session ids of MCP clients, versions of artifacts. The
/// signed data includes the kind. The current secret is first.
type TokenSecrets = Arc<[[u8; 32]]>;

/// What [`Runs`] is built from.
pub struct Options {
    /// Stores the runs.
    pub store: Arc<dyn RunStore>,
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness for unguessable ids.
    pub entropy: Arc<dyn Entropy>,
    /// The limits of every run.
    pub limits: Limits,
    /// The capabilities that this host serves.
    pub capabilities: Capabilities,
    /// The secrets that sign references to interrupts. The current one is first.
    pub token_secrets: Vec<[u8; 32]>,
    /// The base URL for clients, without a trailing slash.
    pub public_url: String,
    /// Signs the checkpoints of the audit log.
    pub audit_key: AuditKey,
    /// The source of secrets.
    pub secrets: Arc<dyn Secrets>,
    /// The client for requests to addresses that callers chose.
    pub outbound: outbound::Client,
    /// Executes the work of nodes. `None` on a host without executors: workflows that need them are refused.
    pub executors: Option<Executors>,
    /// Hands work to agents. `None` on a host without guided nodes: they fail.
    pub guided_nodes: Option<GuidedNodes>,
    /// Keeps the newest audit checkpoints in a file outside the database.
    pub anchors: Option<Anchors>,
    /// Is notified of the runs that end. `None` if nothing exports traces.
    pub ended_runs: Option<EndedRuns>,
}

/// The services of a host. Cheap to clone.
#[derive(Clone)]
pub struct Runs {
    services: Arc<Services>,
}

struct Services {
    records: Arc<Records>,
    features: Arc<Features>,
    audit: Arc<Audit>,
    keys: Arc<Keys>,
    mcp_clients: McpClients,
    listeners: Arc<Listeners>,
    definitions: Arc<Definitions>,
    interrupt_tokens: Arc<InterruptTokens>,
    webhooks: Arc<Webhooks>,
    connections: Arc<Connections>,
    traces: Arc<Traces>,
    annotations: Annotations,
    artifacts: Artifacts,
    sweeper: Sweeper,
    queries: Queries,
    engine: Engine,
    commands: Arc<Commands>,
    public_url: Arc<str>,
}

impl fmt::Debug for Runs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runs").field("records", &self.services.records).finish_non_exhaustive()
    }
}

impl Runs {
    /// Creates the services on a store. Runs in progress do not continue before [`Engine::recover`].
    pub fn new(options: Options) -> Self {
        let signer = Arc::new(Signer::new(options.audit_key, options.anchors));
        let listener: Arc<dyn CommitListener> = Arc::<Signer>::clone(&signer);
        let records = Records::new(options.store, options.clock, options.entropy, options.secrets, listener);
        let records = Arc::new(records);
        let audit = Arc::new(Audit::new(Arc::clone(&records), signer));
        let features = Arc::new(Features::new(options.limits, options.capabilities, options.executors));
        let compute: Arc<ComputePool> = Arc::default();
        let secrets: TokenSecrets = options.token_secrets.as_slice().into();
        let keys = Arc::new(Keys::new(Arc::clone(&records), SessionKeys::new(options.token_secrets)));
        let public_url: Arc<str> = options.public_url.into();
        let listeners = Arc::new(Listeners::new(Arc::clone(&records), Arc::clone(&features)));
        let definitions = Arc::new(Definitions::new(
            Arc::clone(&records),
            Arc::clone(&features),
            Arc::clone(&compute),
            Arc::clone(&listeners),
        ));
        let states =
            Arc::new(States::new(Arc::clone(&records), Arc::clone(&definitions), Arc::clone(&compute)));
        let interrupt_tokens = Arc::new(InterruptTokens::new(Arc::clone(&records), Arc::clone(&secrets)));
        let webhooks = Arc::new(Webhooks::new(
            Arc::clone(&records),
            Arc::clone(&states),
            Arc::clone(&keys),
            Arc::clone(&interrupt_tokens),
            options.outbound.clone(),
            Arc::clone(&public_url),
        ));
        let connections = Arc::new(Connections::new(
            Arc::clone(&records),
            Arc::clone(&states),
            options.guided_nodes.clone(),
            Arc::clone(&public_url),
        ));
        let traces = Arc::new(Traces::new(Arc::clone(&states), options.ended_runs));
        let queries = Queries::new(
            Arc::clone(&records),
            Arc::clone(&states),
            Arc::clone(&interrupt_tokens),
            Arc::clone(&connections),
            Arc::clone(&public_url),
        );
        let uses = Arc::new(Uses {
            records: Arc::clone(&records),
            features: Arc::clone(&features),
            compute,
            definitions: Arc::clone(&definitions),
            states: Arc::clone(&states),
            webhooks: Arc::clone(&webhooks),
            traces: Arc::clone(&traces),
            guided_nodes: options.guided_nodes,
        });
        let engine = Engine::new(Arc::clone(&uses));
        let commands = Arc::new(Commands::new(
            uses,
            Arc::clone(&keys),
            Arc::clone(&interrupt_tokens),
            options.outbound,
            engine.clone(),
        ));
        let services = Services {
            annotations: Annotations::new(Arc::clone(&records), Arc::clone(&states)),
            artifacts: Artifacts::new(Arc::clone(&records), states, Arc::clone(&secrets)),
            sweeper: Sweeper::new(Arc::clone(&records)),
            mcp_clients: McpClients::new(secrets),
            records,
            features,
            audit,
            keys,
            listeners,
            definitions,
            interrupt_tokens,
            webhooks,
            connections,
            traces,
            queries,
            engine,
            commands,
            public_url,
        };
        Self { services: Arc::new(services) }
    }

    /// What every service needs: the store, the clock, recorded replies, and whether the host shuts down.
    pub fn records(&self) -> &Arc<Records> {
        &self.services.records
    }

    /// What this host can run.
    pub fn features(&self) -> &Features {
        &self.services.features
    }

    /// The API keys.
    pub fn keys(&self) -> &Keys {
        &self.services.keys
    }

    /// The audit logs.
    pub fn audit(&self) -> &Audit {
        &self.services.audit
    }

    /// The session ids of MCP clients.
    pub fn mcp_clients(&self) -> &McpClients {
        &self.services.mcp_clients
    }

    /// The workflows, and what they expose.
    pub fn definitions(&self) -> &Definitions {
        &self.services.definitions
    }

    /// The triggers of workflows.
    pub fn listeners(&self) -> &Listeners {
        &self.services.listeners
    }

    /// What callers request: create, fork, reply, cancel, pause, resume.
    pub fn commands(&self) -> &Arc<Commands> {
        &self.services.commands
    }

    /// Advances runs: timers, effects, recovery.
    pub fn engine(&self) -> &Engine {
        &self.services.engine
    }

    /// Reads runs.
    pub fn queries(&self) -> &Queries {
        &self.services.queries
    }

    /// The artifacts of runs.
    pub fn artifacts(&self) -> &Artifacts {
        &self.services.artifacts
    }

    /// The annotations of runs.
    pub fn annotations(&self) -> &Annotations {
        &self.services.annotations
    }

    /// The tokens for interrupts.
    pub fn interrupt_tokens(&self) -> &InterruptTokens {
        &self.services.interrupt_tokens
    }

    /// How agents connect to the sessions that runs wait for.
    pub fn connections(&self) -> &Connections {
        &self.services.connections
    }

    /// The webhook subscriptions and their deliveries.
    pub fn webhooks(&self) -> &Arc<Webhooks> {
        &self.services.webhooks
    }

    /// The traces of ended runs.
    pub fn traces(&self) -> &Traces {
        &self.services.traces
    }

    /// Deletes what was kept long enough.
    pub fn sweeper(&self) -> &Sweeper {
        &self.services.sweeper
    }

    /// The base URL for clients.
    pub fn public_url(&self) -> &str {
        &self.services.public_url
    }

    /// Refuses further requests that write, and waits until those in progress are done.
    pub async fn drain(&self) {
        self.services.records.stop();
        self.services.engine.drain().await;
    }

    /// Whether the host can serve requests: the store responds, recovery is complete, and the host is not shutting down.
    pub async fn is_ready(&self) -> bool {
        let records = &self.services.records;
        !records.is_stopping()
            && self.services.engine.recovering().is_none()
            && records.check_store().await.is_ok()
            && records.store_trouble().is_none()
    }
}
