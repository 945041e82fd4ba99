//! Loads installed packs: from archives to the node types that workflows may use.
//!
//! Each pack is checked against the capabilities of the host before any part of it is compiled. A pack that cannot be used does not affect the
//! others: it is reported, and its node types are kept with the reason, for workflows that use them.

use std::collections::BTreeMap;

use ai::prompt::template::Template;
use flow::definition::{RefusedReason, RefusedType};
use packs::agents::HandoffSchemas;
use packs::install::{DamagedPack, HostFacts, InstalledPack, InstalledPacks, InstalledRecord};
use packs::kind::PackKind;
use packs::manifest::{AgentManifest, Content, Language, Manifest};
use packs::name::PackName;
use packs::path::EntryPath;
use packs::version::Version;
use packs::{PackError, PackErrorCode};
use sandbox::{ABI_VERSION, Fault, FaultCode, Grants, Limits, Sandbox};
use serde_json::json;

use super::agents::{Agent, Agents};
use super::failure::ExecutorErrorCode;
use super::modules::{ModuleType, Modules};

/// The size of a page of WebAssembly memory.
const PAGE_BYTES: u64 = 64 << 10;

/// The default fuel of a call: some seconds of computing. A time limit alone would let the same call succeed on one machine and fail on
/// another.
pub const DEFAULT_FUEL: u64 = 20_000_000_000;

/// What this program offers to packs on every host: it runs WebAssembly modules, and can give them the clock. The caller adds the
/// capabilities.
pub fn host_facts(ui_plugins: bool) -> HostFacts {
    HostFacts {
        capabilities: None,
        runtime_requirements: ["clock".to_owned()].into(),
        languages: Some([Language::Wasm].into()),
        ui_plugins,
    }
}

/// A pack whose nodes cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// The pack, as `name@version`.
    pub pack: String,
    /// For example `unsupported_abi_version`.
    pub code: LoadErrorCode,
    /// The reason, for people.
    pub message: String,
}

impl Unserved {
    fn of(name: &PackName, version: &Version, error: &LoadError) -> Self {
        Self { pack: format!("{name}@{version}"), code: error.code(), message: error.to_string() }
    }

    /// A pack whose files were changed after the install.
    pub fn damaged(damaged: &DamagedPack) -> Self {
        Self::of(&damaged.name, &damaged.version, &LoadError::Pack(damaged.error.clone()))
    }

    fn refusal(&self) -> RefusedType {
        RefusedType {
            pack: self.pack.clone(),
            reason: self.code.reason(),
            code: self.code.as_str(),
            message: self.message.clone(),
        }
    }
}

/// No node types. Used if the other executors must be known before packs are loaded.
///
/// # Errors
/// The sandbox cannot be created.
pub fn none() -> Result<Modules, LoadError> {
    Ok(Modules::new(Sandbox::new()?, BTreeMap::new()))
}

/// Loads the nodes of the highest version of every installed pack. `fuel` is the limit of a call.
///
/// # Errors
/// The folder of packs cannot be read, or the sandbox cannot be created.
pub fn load(
    installed: &InstalledPacks,
    host: &HostFacts,
    fuel: u64,
) -> Result<(Modules, Vec<Unserved>), LoadError> {
    let sandbox = Sandbox::new()?;
    let (mut types, mut refused, mut unserved) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (name, version, damage) in highest(installed)? {
        let loaded = match damage {
            Some(error) => Err(error.into()),
            None => module_types(&sandbox, installed, (&name, &version), host, fuel),
        };
        match loaded {
            // If two packs provide a type, the first by name wins, so the result is always the same.
            Ok(found) => {
                for (type_id, kind) in found.types {
                    types.entry(type_id).or_insert(kind);
                }
                for (type_id, why) in found.refused {
                    refused.entry(type_id).or_insert(why);
                }
            }
            Err(error) => {
                let unserved_pack = Unserved::of(&name, &version, &error);
                for type_id in installed.claimed_types(&name, &version) {
                    refused.entry(type_id).or_insert_with(|| unserved_pack.refusal());
                }
                unserved.push(unserved_pack);
            }
        }
    }
    Ok((Modules::new(sandbox, types).refusing(refused, &unserved), unserved))
}

/// Loads the agents of the highest version of every installed pack. Problems of a whole pack are reported by [`load`].
///
/// # Errors
/// The folder of packs cannot be read.
pub fn load_agents(
    installed: &InstalledPacks,
    host: &HostFacts,
) -> Result<(Agents, Vec<Unserved>), LoadError> {
    let (mut agents, mut unserved) = (Vec::new(), Vec::new());
    for (name, version, damage) in highest(installed)? {
        if damage.is_some() {
            continue;
        }
        match agents_of(installed, &name, &version, host) {
            Ok(found) => agents.extend(found),
            Err(error) => unserved.push(Unserved::of(&name, &version, &error)),
        }
    }
    Ok((Agents::new(agents), unserved))
}

fn agents_of(
    installed: &InstalledPacks,
    name: &PackName,
    version: &Version,
    host: &HostFacts,
) -> Result<Vec<Agent>, LoadError> {
    let InstalledPack { manifest, record } = installed.load(name, version, false)?;
    if manifest.agents().is_empty() {
        return Ok(Vec::new());
    }
    host.judge(&manifest)?;
    let file = |path: &str| {
        let path = EntryPath::parse(path).ok()?;
        installed.read_file(&record, &path).ok()
    };
    let agent = |agent: &AgentManifest| {
        let from_file = || {
            let path = agent.system_prompt_ref.as_deref().filter(|path| !path.starts_with("prompt:"))?;
            String::from_utf8(file(path)?).ok()
        };
        Ok(Agent {
            pack: manifest.id(),
            system_prompt: agent.system_prompt.clone().or_else(from_file),
            schemas: HandoffSchemas::compile(agent, file)?,
            manifest: agent.clone(),
        })
    };
    manifest.agents().iter().map(agent).collect()
}

/// The highest version of each installed pack, by name, and the problem of its record. A version with a damaged record is not replaced by the
/// previous version: otherwise an attacker who can damage a record could choose the version.
fn highest(installed: &InstalledPacks) -> Result<Vec<Highest>, PackError> {
    let (records, damaged) = installed.survey()?;
    let records = records.into_iter().map(|record| (record.name, record.version, None));
    let damaged = damaged.into_iter().map(|pack| (pack.name, pack.version, Some(pack.error)));
    let mut highest: BTreeMap<PackName, (Version, Option<PackError>)> = BTreeMap::new();
    for (name, version, damage) in records.chain(damaged) {
        if highest.get(&name).is_none_or(|(known, _)| *known < version) {
            highest.insert(name, (version, damage));
        }
    }
    Ok(highest.into_iter().map(|(name, (version, damage))| (name, version, damage)).collect())
}

/// The name and version of a pack, and the problem of its record.
type Highest = (PackName, Version, Option<PackError>);

/// The prompt templates of the highest version of every installed pack. They are found under the name of their pack.
///
/// # Errors
/// The folder of packs cannot be read.
pub fn prompts(installed: &InstalledPacks) -> Result<(Vec<Template>, Vec<Unserved>), PackError> {
    let (mut templates, mut unserved) = (Vec::new(), Vec::new());
    for (name, version, damage) in highest(installed)? {
        // [`load`] reports damaged packs.
        let is_prompts = |record: &InstalledRecord| record.kind == PackKind::Prompt;
        if damage.is_some() || !installed.record(&name, &version).is_ok_and(|record| is_prompts(&record)) {
            continue;
        }
        let Ok(pack) = installed.load(&name, &version, true) else { continue };
        let Content::Prompt(prompts) = &pack.manifest.content else { continue };
        for prompt in prompts {
            let mut document = serde_json::to_value(prompt).unwrap_or_default();
            let meta =
                json!({"source": "pack", "packName": name.to_string(), "packVersion": version.to_string()});
            document["meta"] = meta;
            match Template::read(&document) {
                Ok(template) => templates.push(template),
                Err(_) => unserved.push(Unserved {
                    pack: format!("{name}@{version}"),
                    code: LoadErrorCode::Pack(PackErrorCode::PromptTemplateInvalid),
                    message: format!("the prompt `{}` is invalid", prompt.template_id),
                }),
            }
        }
    }
    Ok((templates, unserved))
}

/// The node types of one pack.
#[derive(Default)]
struct LoadedTypes {
    types: Vec<(String, ModuleType)>,
    refused: Vec<(String, RefusedType)>,
}

/// Loads the node types of one pack. All its files are verified, and it is checked against the capabilities of the host, before it is compiled.
fn module_types(
    sandbox: &Sandbox,
    installed: &InstalledPacks,
    (name, version): (&PackName, &Version),
    host: &HostFacts,
    fuel: u64,
) -> Result<LoadedTypes, LoadError> {
    let InstalledPack { manifest, record } = installed.load(name, version, true)?;
    host.judge(&manifest)?;
    let (Some(entry), Content::Node(pack)) = (wasm_entry(&manifest), &manifest.content) else {
        return Ok(LoadedTypes::default());
    };
    // A pack with only agents names a module that is not needed.
    if pack.nodes.is_empty() {
        return Ok(LoadedTypes::default());
    }
    check_abi(&manifest)?;
    let bytes = installed.read_file(&record, &entry)?;
    let module = sandbox.compile(&bytes)?;
    let inside = sandbox.pack(&module)?;
    let kind = ModuleType {
        pack: manifest.id(),
        module,
        grants: grants(&manifest),
        limits: limits(&manifest, fuel),
    };
    let mut found = LoadedTypes::default();
    for node in &pack.nodes {
        let refused = |code: LoadErrorCode, message: String| {
            let why = Unserved { pack: manifest.id(), code, message };
            (node.type_id.clone(), why.refusal())
        };
        if !inside.node_ids.contains(&node.type_id) {
            let message = "its module does not have this node".to_owned();
            found.refused.push(refused(LoadErrorCode::Pack(PackErrorCode::LoadFailure), message));
        } else if let Some(secret) = node.requires_secrets.first().filter(|_| !host.gives("secrets")) {
            let message = format!("it requires the secret `{}`, but this host has no secrets", secret.id);
            found.refused.push(refused(LoadErrorCode::SecretsMissing, message));
        } else {
            found.types.push((node.type_id.clone(), kind.clone()));
        }
    }
    Ok(found)
}

/// Checks the ABI version that the manifest declares, if it does. The module declares it, too.
pub(super) fn check_abi(manifest: &Manifest) -> Result<(), Fault> {
    let wasm = manifest.runtime().and_then(|runtime| runtime.wasm.as_ref());
    let declared = wasm.map(|wasm| i32::try_from(wasm.abi_version).unwrap_or(i32::MAX));
    match declared {
        Some(declared) if !ABI_VERSIONS.contains(&declared) => {
            Err(Fault::UnsupportedAbi { declared, supported: ABI_VERSION })
        }
        _ => Ok(()),
    }
}

/// The path of the pack's WebAssembly module.
fn wasm_entry(manifest: &Manifest) -> Option<EntryPath> {
    let runtime = manifest.runtime().filter(|runtime| runtime.language == Language::Wasm)?;
    EntryPath::parse(&runtime.entry).ok()
}

/// The host calls of the module: everything that has no effect outside the run, and the clock if the manifest requires it.
pub(super) fn grants(manifest: &Manifest) -> Grants {
    let clock = manifest.runtime().is_some_and(|runtime| runtime.requires.iter().any(|name| name == "clock"));
    let calls = ["openwop_variable_get", "openwop_variable_set", "openwop_log", "openwop_random"];
    let calls =
        calls.into_iter().chain(["openwop_channel_read", "openwop_channel_write", "openwop_interrupt"]);
    calls.chain(clock.then_some("openwop_now_ms")).collect()
}

/// The default limits with this fuel, and with the memory limit of the manifest if it is lower.
pub(super) fn limits(manifest: &Manifest, fuel: u64) -> Limits {
    let wasm = manifest.runtime().and_then(|runtime| runtime.wasm.as_ref());
    let pages = wasm.and_then(|wasm| wasm.memory_pages_max);
    let bytes = pages.map(|pages| pages.saturating_mul(PAGE_BYTES));
    let default = Limits { fuel: Some(fuel), ..Limits::DEFAULT };
    Limits {
        memory_bytes: bytes.map_or(default.memory_bytes, |bytes| bytes.min(default.memory_bytes)),
        ..default
    }
}

/// Why nodes of packs cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// The files of the pack were changed after the install.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The module cannot be run.
    #[error(transparent)]
    Module(#[from] Fault),
}

impl LoadError {
    pub fn code(&self) -> LoadErrorCode {
        match self {
            Self::Pack(error) => LoadErrorCode::Pack(error.code()),
            Self::Module(fault) => LoadErrorCode::Module(fault.code()),
        }
    }
}

/// The code for a pack or a node type that cannot be used, from the lists of those who can find a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadErrorCode {
    Pack(PackErrorCode),
    Module(FaultCode),
    /// A node needs a secret, and the host has no secrets.
    SecretsMissing,
}

impl LoadErrorCode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pack(code) => code.as_str(),
            Self::Module(code) => code.as_str(),
            Self::SecretsMissing => ExecutorErrorCode::CredentialUnavailable.as_str(),
        }
    }

    fn reason(self) -> RefusedReason {
        match self {
            Self::Pack(PackErrorCode::PeerDependencyMissing) => RefusedReason::CapabilityMissing,
            Self::Pack(_) | Self::Module(_) => RefusedReason::Unusable,
            Self::SecretsMissing => RefusedReason::SecretsMissing,
        }
    }
}

/// The supported ABI versions.
pub const ABI_VERSIONS: [i32; 1] = [ABI_VERSION];
