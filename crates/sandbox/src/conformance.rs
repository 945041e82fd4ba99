//! Example modules for the sandbox: well-behaved ones, and one for every kind of violation.
//!
//! Their sources are in `modules/`, next to the compiled bytes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Entry, Fault, Grants, HostCalls, Invocation, Limits, NodeOutcome, Sandbox};

/// Small limits, because half of the modules exhaust them.
pub const LIMITS: Limits =
    Limits { memory_bytes: 16 << 20, wall_clock: Duration::from_secs(2), ..Limits::DEFAULT };

/// A module for one node type.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    pub type_id: &'static str,
    pub bytes: &'static [u8],
    /// The host calls that it requires.
    pub calls: &'static [&'static str],
}

impl Example {
    /// How to run it: as a pack node, or by its `invoke` export.
    pub fn entry(&self) -> Entry {
        if self.type_id.starts_with("vendor.") { Entry::Node(self.type_id.to_owned()) } else { Entry::Invoke }
    }
}

/// The module for this node type, if any.
pub fn module(type_id: &str) -> Option<&'static Example> {
    ALL.iter().find(|example| example.type_id == type_id)
}

/// Runs the module for this node type by its `invoke` export, as the protocol's sandbox scenarios require. `None` if
/// there is no such module.
///
/// Its host has one call, `fetch`, without network access.
pub fn invoke(sandbox: &Sandbox, type_id: &str, args: Value, grants: Grants) -> Option<Result<Value, Fault>> {
    let example = module(type_id).filter(|example| example.entry() == Entry::Invoke)?;
    let run = || {
        let module = sandbox.compile(example.bytes)?;
        let mut invocation = Invocation::new(Entry::Invoke);
        (invocation.inputs, invocation.grants, invocation.limits) = (args, grants, LIMITS);
        match sandbox.invoke(&module, &invocation, NoNetwork).0.result? {
            NodeOutcome::Completed { output } => Ok(output),
            // Only an ABI node, or one with an interrupt grant, ends differently.
            other => Err(Fault::misbehaved(format!("unexpected outcome {other:?}"))),
        }
    };
    Some(run())
}

struct NoNetwork;

impl HostCalls for NoNetwork {
    fn call(&mut self, name: &str, _argument: Value) -> Option<Value> {
        (name == "fetch").then(|| json!({"status": 200, "body": ""}))
    }
}

macro_rules! examples {
    ($($type_id:literal, $file:literal, [$($call:literal),*];)*) => {
        pub const ALL: &[Example] = &[$(Example {
            type_id: $type_id,
            bytes: include_bytes!(concat!("../modules/", $file, ".wasm")),
            calls: &[$($call),*],
        }),*];

        /// The file names in `modules/`, in the order of [`ALL`].
        pub const FILES: &[&str] = &[$($file),*];
    };
}

examples! {
    "vendor.openwop.rust-hello.greet", "greet", ["openwop_log"];
    "vendor.openwop.asking.by-ending", "ask", ["openwop_variable_set", "openwop_variable_get", "openwop_interrupt"];
    "vendor.openwop.asking.by-call", "ask", ["openwop_variable_set", "openwop_variable_get", "openwop_interrupt"];
    "vendor.openwop.misbehaving.memory-bomb", "pack-memory-bomb", [];
    "vendor.openwop.misbehaving.abi-bomb", "pack-abi-999", [];
    "well-behaved.echo", "echo", [];
    "well-behaved.host-fetch", "host-fetch", ["fetch"];
    "misbehave.fs-escape-read", "fs-escape-read", [];
    "misbehave.fs-escape-write", "fs-escape-write", [];
    "misbehave.env-leak", "env-leak", [];
    "misbehave.network-escape", "network-escape", [];
    "misbehave.process-escape", "process-escape", [];
    "misbehave.timeout", "timeout", [];
    "misbehave.memory-bomb", "memory-bomb", [];
    "misbehave.cross-pack-mutate", "cross-pack-mutate", [];
    "misbehave.capability-gate-violation", "capability-gate-violation", [];
}
