//! The durable record of a session's agent: the number of starts, the process that may still run, and why no further
//! process is started.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use canon::time::Timestamp;
use flow::id::{NodeId, RunId, Tenant};
use serde::{Deserialize, Serialize};
use storage::disk::{Disk, DiskPath, publish, read};

/// The folder in the data directory that has a subfolder for each session.
pub(super) const FOLDER: &str = "agents";
const FILE: &str = "agent.json";
/// The configuration file for MCP clients, with the endpoint and the session key.
pub(super) const MCP_CONFIG: &str = "mcp.json";
/// The variables of the manifest, without secrets.
const ENVIRONMENT: &str = "environment.json";
/// The maximum size of an environment that is read, in bytes: the limit of a manifest's variables, with room for escapes.
const MAX_ENVIRONMENT_BYTES: u64 = 2 << 20;
/// The maximum size of a record that is read, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// The record of one session's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    version: u32,
    pub(super) tenant: Tenant,
    pub(super) run_id: RunId,
    pub(super) node_id: NodeId,
    /// The name of the command.
    pub(super) agent: String,
    /// The number of processes that were started.
    pub(super) starts: u32,
    /// The number of processes that ended too early.
    pub(super) failed_starts: u32,
    /// The last process, until its exit is recorded.
    pub(super) process: Option<RecordedProcess>,
    /// How the previous process ended.
    pub(super) last_end: Option<ProcessEnd>,
    /// The number of events of the session when the agent left a step to a person. The agent is restarted when there are
    /// more.
    pub(super) waits_at: Option<u64>,
    /// Why no further process is started.
    pub(super) given_up: Option<String>,
}

/// A process that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedProcess {
    /// The ID of the process and of its process group.
    pub(super) pid: u32,
    /// Identifies the process among later ones with the same ID. `None` if the system does not provide it.
    pub(super) identity: Option<String>,
    /// The data directory of the host that started the process. A host that serves a copy of the directory must not touch
    /// the process.
    pub(super) data_dir: PathBuf,
    pub(super) started_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ProcessEnd {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut {
        limit_ms: u64,
    },
    OutputLimit {
        limit_bytes: u64,
    },
    /// The host stopped it, because the session ended or the host shut down.
    Stopped,
    /// It exited while no host was running.
    Unseen,
}

impl std::fmt::Display for ProcessEnd {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited { code } => write!(formatter, "it exited with code {code}"),
            Self::Signalled { signal } => write!(formatter, "signal {signal} killed it"),
            Self::TimedOut { limit_ms } => {
                write!(formatter, "it was killed after {} s, the limit", limit_ms / 1000)
            }
            Self::OutputLimit { limit_bytes } => {
                write!(formatter, "it was killed because it wrote more than {limit_bytes} bytes")
            }
            Self::Stopped => formatter.write_str("the host stopped it"),
            Self::Unseen => formatter.write_str("it ended while the host was down"),
        }
    }
}

impl Record {
    pub(super) const fn new(tenant: Tenant, run_id: RunId, node_id: NodeId, agent: String) -> Self {
        Self {
            version: 1,
            tenant,
            run_id,
            node_id,
            agent,
            starts: 0,
            failed_starts: 0,
            process: None,
            last_end: None,
            waits_at: None,
            given_up: None,
        }
    }
}

/// The records in a data directory. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Records {
    disk: Arc<dyn Disk>,
    /// The absolute path of the data directory.
    root: PathBuf,
}

impl Records {
    pub(super) fn new(disk: Arc<dyn Disk>, root: PathBuf) -> Self {
        Self { disk, root }
    }

    /// Removes the folders of sessions that no longer exist. Must be called before a session is started.
    pub(super) fn prune(&self) -> io::Result<()> {
        let folders = self.disk.list(&DiskPath::root(FOLDER))?;
        if folders.is_empty() {
            return Ok(());
        }
        let mut sessions = BTreeSet::from_iter(self.disk.list(&DiskPath::root("sessions"))?);
        let tenants = DiskPath::root("tenants");
        for tenant in self.disk.list(&tenants)? {
            sessions.extend(self.disk.list(&tenants.join(&tenant).join("sessions"))?);
        }
        for session in folders.iter().filter(|session| !sessions.contains(*session)) {
            let folder = DiskPath::root(FOLDER).join(session);
            for file in self.disk.list(&folder)? {
                self.disk.remove_file(&folder.join(&file))?;
            }
            self.disk.remove_dir(&folder)?;
        }
        Ok(())
    }

    pub(super) fn folder(session: &str) -> io::Result<DiskPath> {
        let path = DiskPath::parse(&format!("{FOLDER}/{session}"));
        path.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// Creates the folder of a session, durably.
    pub(super) fn prepare(&self, session: &str) -> io::Result<DiskPath> {
        let (all, own) = (DiskPath::root(FOLDER), Self::folder(session)?);
        if self.disk.stat(&own)?.is_none() {
            self.disk.create_dir(&all)?;
            self.disk.create_dir(&own)?;
            self.disk.sync_dir(Some(&all))?;
            self.disk.sync_dir(None)?;
        }
        Ok(own)
    }

    pub(super) fn load(&self, session: &str) -> io::Result<Option<Record>> {
        let file = Self::folder(session)?.join(FILE);
        let Some(bytes) = read(&*self.disk, &file, MAX_BYTES)? else { return Ok(None) };
        match serde_json::from_slice::<Record>(&bytes) {
            Ok(mut record) if record.version == 1 => {
                record.process = record.process.filter(|process| process.data_dir == self.root);
                Ok(Some(record))
            }
            Ok(record) => {
                let message = format!("{} has version {}, expected 1", file.as_str(), record.version);
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    pub(super) fn save(&self, session: &str, record: &Record) -> io::Result<()> {
        let folder = self.prepare(session)?;
        let temporary = format!("{FILE}.{}.tmp", self.disk.unique());
        publish(&*self.disk, &folder, &temporary, FILE, &serde_json::to_vec_pretty(record)?)
    }

    /// Writes the configuration file for MCP clients. Only this user can read it.
    pub(super) fn write_mcp_config(&self, session: &str, config: &[u8]) -> io::Result<()> {
        let folder = self.prepare(session)?;
        let temporary = format!("{MCP_CONFIG}.{}.tmp", self.disk.unique());
        publish(&*self.disk, &folder, &temporary, MCP_CONFIG, config)
    }

    /// Stores the variables of a session's workspace. Commands that verify evidence get them too.
    pub(super) fn save_environment(
        &self,
        session: &str,
        variables: &BTreeMap<String, String>,
    ) -> io::Result<()> {
        let folder = self.prepare(session)?;
        let temporary = format!("{ENVIRONMENT}.{}.tmp", self.disk.unique());
        publish(&*self.disk, &folder, &temporary, ENVIRONMENT, &serde_json::to_vec_pretty(variables)?)
    }

    /// The variables of a session's workspace. Empty for a session without a workspace.
    pub(super) fn environment(&self, session: &str) -> io::Result<BTreeMap<String, String>> {
        let file = Self::folder(session)?.join(ENVIRONMENT);
        let bytes = read(&*self.disk, &file, MAX_ENVIRONMENT_BYTES)?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?.unwrap_or_default())
    }

    /// Removes the configuration file for MCP clients, which contains the key.
    pub(super) fn remove_mcp_config(&self, session: &str) -> io::Result<()> {
        self.disk.remove_file(&Self::folder(session)?.join(MCP_CONFIG))
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

#[cfg(test)]
mod tests {
    use storage::disk::MemoryDisk;

    use super::*;

    fn records() -> Records {
        Records::new(Arc::new(MemoryDisk::default()), "/data".into())
    }

    #[test]
    fn what_is_left_of_deleted_sessions_is_removed() {
        let records = records();
        records.prune().unwrap();
        for folder in ["sessions", "tenants", "tenants/acme", "tenants/acme/sessions"] {
            records.disk.create_dir(&DiskPath::parse(folder).unwrap()).unwrap();
        }
        for folder in ["sessions/sess_a", "tenants/acme/sessions/sess_b"] {
            records.disk.create_dir(&DiskPath::parse(folder).unwrap()).unwrap();
            // The disk lists a directory only if it contains something.
            let file = DiskPath::parse(&format!("{folder}/manifest.jsonl")).unwrap();
            records.disk.create(&file, b"x").unwrap().sync().unwrap();
        }
        for session in ["sess_a", "sess_b", "sess_c"] {
            records.save_environment(session, &BTreeMap::new()).unwrap();
        }
        records.prune().unwrap();
        let mut left = records.disk.list(&DiskPath::root(FOLDER)).unwrap();
        left.sort();
        assert_eq!(left, ["sess_a", "sess_b"]);
    }

    #[test]
    fn a_record_is_read_as_it_was_saved_and_damage_is_an_error() {
        let records = records();
        assert_eq!(records.load("sess_a").unwrap(), None);
        let mut record =
            Record::new(Tenant::new("acme"), RunId::new("run_1"), NodeId::new("guide"), "claude".to_owned());
        record.process = Some(RecordedProcess {
            pid: 12,
            identity: Some("boot/7".to_owned()),
            data_dir: "/data".into(),
            started_at: Timestamp(5),
        });
        record.last_end = Some(ProcessEnd::OutputLimit { limit_bytes: 10 });
        records.save("sess_a", &record).unwrap();
        assert_eq!(records.load("sess_a").unwrap(), Some(record.clone()));
        // A host that serves a copy of the directory must not stop the agents of the original.
        let copy = Records::new(Arc::clone(&records.disk), "/copy".into());
        assert_eq!(copy.load("sess_a").unwrap().unwrap().process, None);
        for damaged in ["", "{}", &serde_json::to_string(&Record { version: 2, ..record }).unwrap()] {
            let file = Records::folder("sess_a").unwrap().join(FILE);
            records.disk.create(&file, damaged.as_bytes()).unwrap().sync().unwrap();
            assert_eq!(records.load("sess_a").unwrap_err().kind(), io::ErrorKind::InvalidData, "{damaged}");
        }
        assert!(records.load("../x").is_err(), "nothing outside of the folder has a name");
    }
}
