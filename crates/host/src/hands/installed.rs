//! The packs of a host: from installed archives to the types of nodes that workflows may name.

use std::collections::BTreeMap;

use ai::prompt::template::Template;
use packs::agents::HandoffSchemas;
use packs::install::{InstalledPack, InstalledPacks};
use packs::kind::PackKind;
use packs::manifest::{AgentManifest, Content, Language, Manifest};
use packs::name::PackName;
use packs::path::EntryPath;
use packs::version::Version;
use packs::{PackError, PackErrorCode};
use sandbox::{ABI_VERSION, Fault, Grants, Limits, Sandbox};
use serde_json::json;

use super::agents::{Agent, Agents};
use super::modules::{ModuleType, Modules};

/// A page of WebAssembly memory.
const PAGE_BYTES: u64 = 64 << 10;

/// A pack whose nodes are not served, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// The pack, as `name@version`.
    pub pack: String,
    /// A code, as `unsupported_abi_version`.
    pub code: String,
    /// Why, for people.
    pub message: String,
}

impl Unserved {
    fn of(name: &PackName, version: &Version, error: &LoadError) -> Self {
        Self { pack: format!("{name}@{version}"), code: error.code().to_owned(), message: error.to_string() }
    }
}

/// Loads the nodes of every installed pack, the highest version of each. A pack that cannot be served does not keep the others from it.
///
/// # Errors
/// When the folder of packs cannot be read, or the sandbox cannot be made.
pub fn load(installed: &InstalledPacks) -> Result<(Modules, Vec<Unserved>), LoadError> {
    let sandbox = Sandbox::new()?;
    let (mut types, mut unserved) = (BTreeMap::new(), Vec::new());
    for (name, version) in highest(installed, |_| true)? {
        match module_types(&sandbox, installed, &name, &version) {
            // The first pack that brings a type keeps it: names are sorted, so it is the same one every time.
            Ok(found) => {
                for (type_id, kind) in found {
                    types.entry(type_id).or_insert(kind);
                }
            }
            Err(error) => unserved.push(Unserved::of(&name, &version, &error)),
        }
    }
    Ok((Modules::new(sandbox, types), unserved))
}

/// Loads the agents of every installed pack, the highest version of each. A pack that cannot be read does not keep the others from it.
///
/// # Errors
/// When the folder of packs cannot be read.
pub fn load_agents(installed: &InstalledPacks) -> Result<(Agents, Vec<Unserved>), LoadError> {
    let (mut agents, mut unserved) = (Vec::new(), Vec::new());
    for (name, version) in highest(installed, |_| true)? {
        match agents_of(installed, &name, &version) {
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
) -> Result<Vec<Agent>, LoadError> {
    let InstalledPack { manifest, record } = installed.load(name, version, false)?;
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

/// The highest version of each installed pack of some kinds.
fn highest(
    installed: &InstalledPacks,
    wanted: impl Fn(PackKind) -> bool,
) -> Result<BTreeMap<PackName, Version>, PackError> {
    let mut highest = BTreeMap::new();
    for record in installed.list()?.into_iter().filter(|record| wanted(record.kind)) {
        let version = highest.entry(record.name.clone()).or_insert_with(|| record.version.clone());
        if record.version > *version {
            *version = record.version;
        }
    }
    Ok(highest)
}

/// The templates of prompts that installed packs bring, the highest version of each pack. They are found under the name of their pack.
///
/// # Errors
/// When the folder of packs cannot be read.
pub fn prompts(installed: &InstalledPacks) -> Result<(Vec<Template>, Vec<Unserved>), PackError> {
    let (mut templates, mut unserved) = (Vec::new(), Vec::new());
    for (name, version) in highest(installed, |kind| kind == PackKind::Prompt)? {
        // A pack that is damaged is told of with its nodes.
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
                    code: PackErrorCode::PromptTemplateInvalid.as_str().to_owned(),
                    message: format!("the prompt `{}` cannot be used here", prompt.template_id),
                }),
            }
        }
    }
    Ok((templates, unserved))
}

/// The types of one pack. Everything of it is verified before a byte of it is compiled.
fn module_types(
    sandbox: &Sandbox,
    installed: &InstalledPacks,
    name: &PackName,
    version: &Version,
) -> Result<Vec<(String, ModuleType)>, LoadError> {
    let InstalledPack { manifest, record } = installed.load(name, version, true)?;
    let Some(entry) = wasm_entry(&manifest) else { return Ok(Vec::new()) };
    check_abi(&manifest)?;
    let bytes = installed.read_file(&record, &entry)?;
    let module = sandbox.compile(&bytes)?;
    let inside = sandbox.pack(&module)?;
    let kind =
        ModuleType { pack: manifest.id(), module, grants: grants(&manifest), limits: limits(&manifest) };
    let declared = manifest.type_ids();
    let types = inside.node_ids.into_iter().filter(|type_id| declared.contains(&type_id.as_str()));
    Ok(types.map(|type_id| (type_id, kind.clone())).collect())
}

/// Whether the version of the ABI that the manifest declares is served here. A manifest need not declare one: the module says it too.
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

/// The module of a pack that is one.
fn wasm_entry(manifest: &Manifest) -> Option<EntryPath> {
    let runtime = manifest.runtime().filter(|runtime| runtime.language == Language::Wasm)?;
    EntryPath::parse(&runtime.entry).ok()
}

/// What the module may ask for: everything that stays inside the run, and the clock where the manifest says so.
pub(super) fn grants(manifest: &Manifest) -> Grants {
    let clock = manifest.runtime().is_some_and(|runtime| runtime.requires.iter().any(|name| name == "clock"));
    let calls = ["openwop_variable_get", "openwop_variable_set", "openwop_log", "openwop_random"];
    let calls =
        calls.into_iter().chain(["openwop_channel_read", "openwop_channel_write", "openwop_interrupt"]);
    calls.chain(clock.then_some("openwop_now_ms")).collect()
}

/// The usual limits, or the memory that the manifest says is enough.
pub(super) fn limits(manifest: &Manifest) -> Limits {
    let wasm = manifest.runtime().and_then(|runtime| runtime.wasm.as_ref());
    let pages = wasm.and_then(|wasm| wasm.memory_pages_max);
    let bytes = pages.map(|pages| pages.saturating_mul(PAGE_BYTES));
    let usual = Limits::DEFAULT;
    Limits { memory_bytes: bytes.map_or(usual.memory_bytes, |bytes| bytes.min(usual.memory_bytes)), ..usual }
}

/// Why nodes of packs are not served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// The pack is not as it was installed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// Its module cannot be run here.
    #[error(transparent)]
    Module(#[from] Fault),
}

impl LoadError {
    /// Its code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Pack(error) => error.code().as_str(),
            Self::Module(fault) => fault.code().as_str(),
        }
    }
}

/// The versions of the ABI that modules may speak.
pub const ABI_VERSIONS: [i32; 1] = [ABI_VERSION];
