//! Modules of our own that show what the sandbox does: well-behaved ones, and one for every way to misbehave.
//!
//! Their text is in `modules/`, beside the bytes that it compiles to.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Entry, Fault, Grants, HostCalls, Invocation, Limits, Outcome, Sandbox};

/// What a module may use here: small, because half of them want to use it up.
pub const LIMITS: Limits =
    Limits { memory_bytes: 16 << 20, wall_clock: Duration::from_secs(2), ..Limits::DEFAULT };

/// A module for one type of node.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The type.
    pub type_id: &'static str,
    /// The module.
    pub bytes: &'static [u8],
    /// The host calls that it has to be granted.
    pub calls: &'static [&'static str],
}

impl Example {
    /// How it is run: as a node of a pack, or by its `invoke`.
    pub fn entry(&self) -> Entry {
        if self.type_id.starts_with("vendor.") { Entry::Node(self.type_id.to_owned()) } else { Entry::Invoke }
    }
}

/// The module for this type of node, if there is one.
pub fn module(type_id: &str) -> Option<&'static Example> {
    ALL.iter().find(|example| example.type_id == type_id)
}

/// Runs the module for this type of node by its `invoke`, as the sandbox scenarios of the protocol ask for it. `None` if
/// there is no such module.
///
/// The host that it finds has one call, `fetch`, which reaches nobody.
pub fn invoke(sandbox: &Sandbox, type_id: &str, args: Value, grants: Grants) -> Option<Result<Value, Fault>> {
    let example = module(type_id).filter(|example| example.entry() == Entry::Invoke)?;
    let run = || {
        let module = sandbox.compile(example.bytes)?;
        let mut invocation = Invocation::new(Entry::Invoke);
        (invocation.inputs, invocation.grants, invocation.limits) = (args, grants, LIMITS);
        match sandbox.invoke(&module, &invocation, Nobody).0.result? {
            Outcome::Completed { output } => Ok(output),
            // Only a node of the ABI, or one that was granted an interrupt, ends in another way.
            other => Err(Fault::misbehaved(format!("it ended as {other:?}"))),
        }
    };
    Some(run())
}

struct Nobody;

impl HostCalls for Nobody {
    fn call(&mut self, name: &str, _argument: Value) -> Option<Value> {
        (name == "fetch").then(|| json!({"status": 200, "body": ""}))
    }
}

macro_rules! examples {
    ($($type_id:literal, $file:literal, [$($call:literal),*];)*) => {
        /// Every module.
        pub const ALL: &[Example] = &[$(Example {
            type_id: $type_id,
            bytes: include_bytes!(concat!("../modules/", $file, ".wasm")),
            calls: &[$($call),*],
        }),*];

        /// The names of the files in `modules/`, in the order of [`ALL`].
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
