//! Checks the module of a pack before it is published.
//!
//! An install does not inspect modules, and a host does not use a module that is broken. This check shows the author of a pack what such a
//! host would find: the module does not compile, does not implement the ABI, lacks a node that the manifest declares, or violates the ABI
//! when it is called.

use packs::manifest::Manifest;
use sandbox::{DenyAll, Entry, Fault, FaultCode, Invocation, Module, Sandbox};

use super::installed::{check_abi, grants, limits};

/// The fuel of a trial call. A node that uses more is not wrong.
const FUEL: u64 = 50_000_000;
/// The maximum number of nodes that a message lists.
const MAX_NAMED: usize = 10;

/// A problem that prevents the use of a module or of one of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// An error code, for example `sandbox_bad_module`.
    pub code: String,
    /// The location in the manifest, as a JSON pointer.
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

    fn new(code: FaultCode, pointer: String, message: String) -> Self {
        Self { code: code.as_str().to_owned(), pointer, message }
    }
}

/// Compiles the module of a pack, reads its description, and calls each of its nodes once, without inputs and without host calls.
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
        let message = format!("the module has the name `{}`", shown(&inside.name));
        troubles.push(Trouble::new(FaultCode::BadModule, "/name".to_owned(), message));
    }
    for (index, type_id) in manifest.type_ids().into_iter().enumerate() {
        if !inside.node_ids.iter().any(|known| known == type_id) {
            let known: Vec<String> =
                inside.node_ids.iter().take(MAX_NAMED).map(|known| format!("`{}`", shown(known))).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("the module has no node `{type_id}`; it has {known}");
            let pointer = format!("/nodes/{index}/typeId");
            troubles.push(Trouble::new(FaultCode::UnknownNode, pointer, message));
        } else if troubles.is_empty() {
            troubles.extend(trial_call(&sandbox, manifest, &module, type_id));
        }
    }
    troubles
}

/// The host calls that the module imports but the manifest does not grant.
fn ungranted(manifest: &Manifest, module: &Module) -> Vec<Trouble> {
    let grants = grants(manifest);
    let missing = module.calls().filter(|name| !grants.allows(name));
    let troubles = missing.map(|name| {
        let fault = Fault::CapabilityDenied { name: name.to_owned() };
        let mut trouble = Trouble::of("/runtime/requires", &fault);
        if name == "openwop_now_ms" {
            trouble.message.push_str("; add `clock` to `runtime.requires`");
        }
        trouble
    });
    troubles.collect()
}

/// The ABI violation of a node that is called without inputs. An ordinary failure is fine.
fn trial_call(sandbox: &Sandbox, manifest: &Manifest, module: &Module, type_id: &str) -> Option<Trouble> {
    let mut invocation = Invocation::new(Entry::Node(type_id.to_owned()));
    invocation.grants = grants(manifest);
    invocation.limits = limits(manifest, FUEL);
    match sandbox.invoke(module, &invocation, DenyAll).0.result {
        Err(fault @ Fault::Misbehaved { .. }) => Some(Trouble::of("/runtime/entry", &fault)),
        _ => None,
    }
}

/// Text of a module, safe for a message.
fn shown(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(100).collect()
}
