//! The module of a pack, tried before anybody installs it.
//!
//! Installing does not look into a module, and a host that cannot serve one leaves it out. So whoever writes a pack is told here what
//! such a host would find: that the module does not compile, that it is no module of the ABI, that it does not have the nodes
//! which the manifest declares, or that it breaks the ABI when it is called.

use packs::manifest::Manifest;
use sandbox::{DenyAll, Entry, Fault, FaultCode, Invocation, Module, Sandbox};

use super::installed::{check_abi, grants, limits};

/// What trying a node may cost. A node that does more with nothing is not wrong for that.
const FUEL: u64 = 50_000_000;
/// How many nodes of a module are named to somebody who misses one.
const MAX_NAMED: usize = 10;

/// Something that keeps a module, or a node of it, from being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// A code, as `sandbox_bad_module`.
    pub code: String,
    /// Where in the manifest it is declared, as a JSON pointer.
    pub pointer: String,
    /// What is wrong, for people.
    pub message: String,
}

impl Trouble {
    fn of(pointer: &str, fault: &Fault) -> Self {
        Self {
            code: fault.code().as_str().to_owned(),
            pointer: pointer.to_owned(),
            message: fault.to_string(),
        }
    }

    fn told(code: FaultCode, pointer: String, message: String) -> Self {
        Self { code: code.as_str().to_owned(), pointer, message }
    }
}

/// Compiles the module of a pack, asks it what it is, and runs each of its nodes once with no inputs and nobody to ask.
pub fn try_module(manifest: &Manifest, bytes: &[u8]) -> Vec<Trouble> {
    let entry = |fault: &Fault| vec![Trouble::of("/runtime/entry", fault)];
    if let Err(fault) = check_abi(manifest) {
        return vec![Trouble::of("/runtime/wasm/abiVersion", &fault)];
    }
    let compiled = Sandbox::new().and_then(|sandbox| Ok((sandbox.compile(bytes)?, sandbox)));
    let (module, sandbox) = match compiled {
        Ok(compiled) => compiled,
        Err(fault) => return entry(&fault),
    };
    let inside = match sandbox.pack(&module) {
        Ok(inside) => inside,
        Err(fault) => return entry(&fault),
    };
    let mut troubles = ungranted(manifest, &module);
    if inside.name != manifest.common.name.as_str() {
        let message = format!("the module says that it is `{}`", shown(&inside.name));
        troubles.push(Trouble::told(FaultCode::BadModule, "/name".to_owned(), message));
    }
    for (place, type_id) in manifest.type_ids().into_iter().enumerate() {
        if !inside.node_ids.iter().any(|known| known == type_id) {
            let known: Vec<String> =
                inside.node_ids.iter().take(MAX_NAMED).map(|known| format!("`{}`", shown(known))).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("the module has no node `{type_id}`; it has {known}");
            let pointer = format!("/nodes/{place}/typeId");
            troubles.push(Trouble::told(FaultCode::UnknownNode, pointer, message));
        } else if troubles.is_empty() {
            troubles.extend(called(&sandbox, manifest, &module, type_id));
        }
    }
    troubles
}

/// The host calls that the module imports and a pack with this manifest is not granted.
fn ungranted(manifest: &Manifest, module: &Module) -> Vec<Trouble> {
    let grants = grants(manifest);
    let missing = module.calls().filter(|name| !grants.allows(name));
    let told = missing.map(|name| {
        let fault = Fault::CapabilityDenied { name: name.to_owned() };
        let mut trouble = Trouble::of("/runtime/requires", &fault);
        if name == "openwop_now_ms" {
            trouble.message.push_str("; it is with `clock` in `runtime.requires`");
        }
        trouble
    });
    told.collect()
}

/// What a node breaks of the ABI when it is called with nothing. That it refuses to work with nothing is its own business.
fn called(sandbox: &Sandbox, manifest: &Manifest, module: &Module, type_id: &str) -> Option<Trouble> {
    let mut invocation = Invocation::new(Entry::Node(type_id.to_owned()));
    invocation.grants = grants(manifest);
    invocation.limits = limits(manifest, FUEL);
    match sandbox.invoke(module, &invocation, DenyAll).0.result {
        Err(fault @ Fault::Misbehaved { .. }) => Some(Trouble::of("/runtime/entry", &fault)),
        _ => None,
    }
}

/// Text of a module, for a message.
fn shown(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(100).collect()
}
