//! A compiled module and its static properties.

use std::sync::{Arc, OnceLock};

use canon::digest::Digest;
use wasmtime::{InstancePre, Linker};

use crate::abi::{self, Pair};
use crate::calls;
use crate::imports::{self, Imports};
use crate::state::State;
use crate::{Fault, Pack};

/// A compiled module. Cheap to clone.
#[derive(Clone)]
pub struct Module(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) digest: Digest,
    pub(crate) imports: Imports,
    pub(crate) invoke: Option<InvokeShape>,
    /// What is missing for the ABI, if it is not a pack.
    pub(crate) pack_problem: Option<String>,
    pub(crate) pairs: PackPairs,
    pub(crate) link: Link,
    pub(crate) image_bytes: usize,
    pub(crate) pack: OnceLock<Result<Pack, Fault>>,
}

/// A pre-linked instance, as far as possible.
pub(crate) enum Link {
    Ready(InstancePre<State>),
    /// The host creates the memory of each instance.
    WantsMemory {
        linker: Linker<State>,
        module: wasmtime::Module,
    },
}

/// The signature of the export `invoke`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvokeShape {
    /// JSON argument and result.
    Json(Pair),
    /// An optional number argument and a number result.
    Number { parameter: bool },
}

/// How the pack functions return text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackPairs {
    pub(crate) pack_name: Pair,
    pub(crate) node_id_at: Pair,
    pub(crate) node_invoke: Pair,
}

impl Module {
    pub(crate) fn new(compiled: &wasmtime::Module, digest: Digest) -> Result<Self, Fault> {
        let imports = imports::judge(compiled)?;
        let export = |name: &str| compiled.get_export(name);
        let memory = export("memory").is_some_and(|ty| ty.memory().is_some()) || imports.memory.is_some();
        let alloc = abi::is_function(export("openwop_alloc").as_ref(), "i", "i");
        let invoke = invoke_shape(export("invoke").as_ref());
        let is_pack = abi::is_function(export("openwop_abi_version").as_ref(), "", "i");
        if invoke.is_none() && !is_pack {
            return Err(Fault::bad_module(
                "it exports neither `openwop_abi_version` nor an `invoke` with a supported signature",
            ));
        }
        if matches!(invoke, Some(InvokeShape::Json(_))) && !(memory && alloc) {
            return Err(Fault::bad_module(
                "its `invoke` takes JSON, but it exports no `memory` or no `openwop_alloc`",
            ));
        }
        if imports.calls.iter().any(|call| call.ty.params().len() > 1) && !memory {
            return Err(Fault::bad_module("it imports calls that take pointers, but exports no `memory`"));
        }
        let (pairs, pack_problem) = pack_exports(&export, memory && alloc, is_pack);
        let linker = calls::link(compiled.engine(), &imports.calls).map_err(|error| host_fault(&error))?;
        let link = if imports.memory.is_some() {
            Link::WantsMemory { linker, module: compiled.clone() }
        } else {
            Link::Ready(linker.instantiate_pre(compiled).map_err(|error| host_fault(&error))?)
        };
        let image = compiled.image_range();
        let image_bytes = image.end as usize - image.start as usize;
        let pack = OnceLock::new();
        Ok(Self(Arc::new(Inner { digest, imports, invoke, pack_problem, pairs, link, image_bytes, pack })))
    }

    /// The digest of its bytes.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The imported host calls, each of which must be granted.
    pub fn calls(&self) -> impl Iterator<Item = &str> {
        self.0.imports.calls.iter().map(|call| call.name.as_str())
    }

    pub fn has_invoke(&self) -> bool {
        self.0.invoke.is_some()
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("digest", &self.0.digest).finish_non_exhaustive()
    }
}

fn invoke_shape(export: Option<&wasmtime::ExternType>) -> Option<InvokeShape> {
    if let Some(pair) = abi::pair_function(export, "ii") {
        return Some(InvokeShape::Json(pair));
    }
    [("i", true), ("", false)]
        .into_iter()
        .find(|(params, _)| abi::is_function(export, params, "i"))
        .map(|(_, parameter)| InvokeShape::Number { parameter })
}

/// Missing exports are reported only after the version is known: another version may have other exports.
fn pack_exports(
    export: &dyn Fn(&str) -> Option<wasmtime::ExternType>,
    has_memory_and_alloc: bool,
    is_pack: bool,
) -> (PackPairs, Option<String>) {
    let pack_name = abi::pair_function(export("openwop_pack_name").as_ref(), "");
    let node_id_at = abi::pair_function(export("openwop_node_id_at").as_ref(), "i");
    let node_invoke = abi::pair_function(export("openwop_node_invoke").as_ref(), "iii");
    let wanted = [
        ("openwop_abi_version", is_pack),
        ("memory` and `openwop_alloc", has_memory_and_alloc),
        ("openwop_free", abi::is_function(export("openwop_free").as_ref(), "ii", "")),
        ("openwop_node_count", abi::is_function(export("openwop_node_count").as_ref(), "", "i")),
        ("openwop_pack_name", pack_name.is_some()),
        ("openwop_node_id_at", node_id_at.is_some()),
        ("openwop_node_invoke", node_invoke.is_some()),
    ];
    let problem = wanted
        .iter()
        .find(|(_, there)| !there)
        .map(|(name, _)| format!("it does not export `{name}` as the ABI requires"));
    let or_two = |pair: Option<Pair>| pair.unwrap_or(Pair::Two);
    let pairs = PackPairs {
        pack_name: or_two(pack_name),
        node_id_at: or_two(node_id_at),
        node_invoke: or_two(node_invoke),
    };
    (pairs, problem)
}

pub(crate) fn host_fault(error: &wasmtime::Error) -> Fault {
    Fault::Host { reason: format!("{error:#}") }
}
