//! Builds the services from the settings.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use canon::error::Envelope;
use catalogue::{Catalogue, CatalogueOptions};
use guided::{
    AllowedCommand, Guided, GuidedOptions, Tenants, TenantsOptions, Verifier, WorkspaceRoots, Workspaces,
};
use guided_node::{AgentCommand, AgentOptions, GuidedNodes, SessionKeys};
use ports::sessions::{SessionStore, SessionStores, StoreError, StoreErrorCode};
use storage::disk::{Disk, MemoryDisk, RealDisk};
use storage::files::{FileSessions, FileTenants, SessionFiles};
use system::{SystemClock, SystemEntropy};

use crate::commands::serve::store::shared_sessions;
use crate::failure::Failure;
use crate::settings::Settings;

/// The guided service of the data directory, which is created if missing.
///
/// # Errors
/// If the directory cannot be opened, or has a newer version.
pub(crate) fn open_guided(settings: &Settings, verifier: Arc<Verifier>) -> Result<Guided, Failure> {
    let store: Arc<dyn SessionStore> = match shared_sessions(settings)? {
        Some(stores) => ports::wait(stores.open(None))?,
        None => Arc::new(FileSessions::new(open_files(settings)?)),
    };
    Ok(guided(catalogue(settings), store, verifier))
}

/// The guided services of all tenants of these stores.
///
/// # Errors
/// As [`open_guided`].
pub(crate) async fn open_tenants(
    settings: &Settings,
    stores: Arc<dyn SessionStores>,
) -> Result<Tenants, Failure> {
    let own = workspaces(settings);
    let roots = WorkspaceRoots::new(settings.workspace_roots.value.clone());
    let options = TenantsOptions {
        stores,
        catalogue: catalogue(settings),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier: Arc::new(verifier(settings, Workspaces::Below { roots, own })),
    };
    Ok(Tenants::open(options).await?)
}

/// The guided sessions of all tenants of the data directory, which is created if missing.
///
/// # Errors
/// As [`open_guided`].
pub(crate) fn file_tenants(settings: &Settings) -> Result<Arc<dyn SessionStores>, Failure> {
    Ok(Arc::new(FileTenants::new(Arc::new(open_disk(settings)?))))
}

/// What verifies evidence with the commands of the settings.
pub(crate) fn verifier(settings: &Settings, workspaces: Workspaces) -> Verifier {
    let commands = settings.guide_commands.value.iter().map(|(name, command)| {
        let allowed = AllowedCommand {
            argv: command.argv.clone(),
            timeout: command.timeout.duration(),
            max_output: command.max_output.bytes(),
            env: command.env.clone(),
        };
        (name.clone(), allowed)
    });
    let data_dir = settings.data_dir.value.clone();
    Verifier::new(commands.collect(), workspaces).with_environments(move |session| {
        match RealDisk::open(&data_dir) {
            Ok(disk) => guided_node::composed_environment(Arc::new(disk), session.as_str()),
            Err(_) => BTreeMap::new(),
        }
    })
}

/// Where the workspaces of guided nodes are.
fn workspaces(settings: &Settings) -> PathBuf {
    absolute_data_dir(settings).join("workspaces")
}

fn absolute_data_dir(settings: &Settings) -> PathBuf {
    let data_dir = &settings.data_dir.value;
    std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone())
}

pub(crate) fn guided(catalogue: Catalogue, store: Arc<dyn SessionStore>, verifier: Arc<Verifier>) -> Guided {
    Guided::new(GuidedOptions {
        store,
        catalogue,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier,
        advanced: Arc::default(),
    })
}

/// The sessions of the data directory, which is created if missing.
///
/// # Errors
/// As [`open_guided`].
pub(crate) fn open_files(settings: &Settings) -> Result<SessionFiles, Failure> {
    Ok(SessionFiles::open(Arc::new(open_disk(settings)?))?)
}

/// The sessions of the data directory, for commands that do not create it. A missing directory has no
/// sessions.
///
/// # Errors
/// As [`open_guided`].
pub(crate) fn open_files_to_read(settings: &Settings) -> Result<SessionFiles, Failure> {
    let disk: Arc<dyn Disk> = match settings.data_dir.value.try_exists() {
        Ok(false) => Arc::new(MemoryDisk::default()),
        // If this cannot be determined, opening the directory reports the reason.
        Ok(true) | Err(_) => Arc::new(open_disk(settings)?),
    };
    Ok(SessionFiles::open(disk)?)
}

/// The sessions in the database, or those of the data directory as [`open_files_to_read`] opens them.
///
/// # Errors
/// As [`open_guided`].
pub(crate) fn open_sessions(settings: &Settings) -> Result<Arc<dyn SessionStore>, Failure> {
    match shared_sessions(settings)? {
        Some(stores) => Ok(ports::wait(stores.open(None))?),
        None => Ok(Arc::new(FileSessions::new(open_files_to_read(settings)?))),
    }
}

pub(crate) fn catalogue(settings: &Settings) -> Catalogue {
    let data_dir = &settings.data_dir.value;
    Catalogue::new(CatalogueOptions {
        packs_dir: Some(data_dir.join("packs")),
        user_dir: settings.user_workflows.clone(),
        configured_dirs: settings.workflow_dirs.value.clone(),
        sources_file: Some(data_dir.join("sources.toml")),
        git_cache: Some(data_dir.join("cache").join("git")),
    })
}

/// Guided nodes, and the agents that the host starts for them. Manifests and libraries are
/// looked up in the workflow folders; later folders take precedence. `address` is where `serve`
/// listens; without it no agent can connect, and none is started.
///
/// # Errors
/// If the data directory cannot be opened.
pub(crate) fn guided_nodes(
    settings: &Settings,
    keys: SessionKeys,
    tenants: Arc<Tenants>,
    address: Option<SocketAddr>,
) -> Result<GuidedNodes, Failure> {
    Ok(GuidedNodes::new(guided_node::Options {
        tenants,
        keys,
        places: settings.workflow_dirs.value.iter().rev().cloned().collect(),
        workspaces: workspaces(settings),
        clock: Arc::new(SystemClock),
        gate: None,
        agents: address.map(|address| agents(settings, address)).transpose()?,
    }))
}

/// The agent that `serve` started for a session, in words.
pub(crate) fn agent_of(settings: &Settings, session: &str) -> Option<String> {
    let disk = RealDisk::open(&settings.data_dir.value).ok()?;
    guided_node::describe_agent(Arc::new(disk), absolute_data_dir(settings), session)
}

/// The agents of the settings. They connect on this machine, wherever the public URL leads.
fn agents(settings: &Settings, address: SocketAddr) -> Result<AgentOptions, Failure> {
    let commands = settings.guide_agents.value.iter().map(|(name, agent)| {
        let command = AgentCommand {
            argv: agent.argv.clone(),
            timeout: agent.timeout.duration(),
            max_output: agent.max_output.bytes(),
            processes: agent.processes as usize,
            restarts: agent.restarts,
            env: agent.env.clone(),
            tenants: agent.tenants.clone(),
        };
        (name.clone(), command)
    });
    let mut local = address;
    if local.ip().is_unspecified() {
        local.set_ip(match local.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(AgentOptions {
        commands: commands.collect(),
        disk: Arc::new(open_disk(settings)?),
        root: absolute_data_dir(settings),
        endpoint: format!("http://{local}/mcp"),
    })
}

fn open_disk(settings: &Settings) -> Result<RealDisk, Failure> {
    let path = &settings.data_dir.value;
    RealDisk::open(path).map_err(|cause| {
        let path = path.display().to_string();
        let error = StoreError::Disk { doing: "open", path: path.clone(), cause };
        match error.code() {
            // A file in place of the directory is a mistake of the caller, not a disk failure.
            StoreErrorCode::StoreIo => Envelope::new(error.code(), error.envelope().message())
                .suggest("Check --data-dir and INTERLOCK_HOME: the path must be a directory.")
                .detail("file", path)
                .into(),
            _ => error.into(),
        }
    })
}
