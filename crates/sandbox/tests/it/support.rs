//! Module sources, and a host that records calls.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use sandbox::{
    Entry, Fault, Grants, HostCalls, InterruptAnswer, Invocation, Limits, LogLevel, NodeOutcome, Report,
    Sandbox, Status, conformance,
};
use serde_json::{Value, json};

pub(crate) static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new().expect("an engine"));

/// A time limit that a slow machine does not reach.
pub(crate) const LONG_TIME_LIMIT: Limits = Limits { wall_clock: Duration::from_secs(300), ..Limits::DEFAULT };

/// For modules that never end.
pub(crate) const SHORT_TIME_LIMIT: Limits =
    Limits { wall_clock: Duration::from_millis(50), ..Limits::DEFAULT };

/// A host with values that records changes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) values: BTreeMap<String, Value>,
    pub(crate) logs: Vec<(LogLevel, String)>,
    pub(crate) asked: usize,
    pub(crate) resume: Option<Value>,
    pub(crate) now: Option<i64>,
}

impl HostCalls for Memory {
    fn channel_read(&mut self, name: &str) -> Option<Value> {
        self.asked += 1;
        self.values.get(name).cloned()
    }

    fn channel_write(&mut self, name: &str, value: Value) -> Status {
        self.asked += 1;
        self.values.insert(name.to_owned(), value);
        Status::Ok
    }

    fn variable_get(&mut self, key: &str) -> Option<Value> {
        self.channel_read(key)
    }

    fn variable_set(&mut self, key: &str, value: Value) -> Status {
        if key == "locked" { Status::CapabilityBreach } else { self.channel_write(key, value) }
    }

    fn interrupt(&mut self, _payload: &Value) -> InterruptAnswer {
        self.asked += 1;
        self.resume.clone().map_or(InterruptAnswer::Suspend, InterruptAnswer::Resume)
    }

    fn now_ms(&mut self) -> Option<i64> {
        self.asked += 1;
        // Changes with every call.
        self.now = self.now.map(|now| now + 1);
        self.now
    }

    fn call(&mut self, name: &str, argument: Value) -> Option<Value> {
        self.asked += 1;
        match name {
            "fetch" => Some(json!({"status": 200, "asked": argument})),
            "double" => argument.as_i64().map(|number| (number * 2).into()),
            "text" => Some("not a number".into()),
            _ => None,
        }
    }

    fn log(&mut self, level: LogLevel, message: &str) {
        self.logs.push((level, message.to_owned()));
    }
}

/// The source of a pack with one node, `t.node`, with replaceable parts.
pub(crate) struct PackText {
    pub(crate) head: &'static str,
    pub(crate) memory: &'static str,
    pub(crate) version: &'static str,
    pub(crate) name: &'static str,
    pub(crate) count: &'static str,
    pub(crate) id_at: &'static str,
    pub(crate) alloc: &'static str,
    pub(crate) free: &'static str,
    pub(crate) invoke: &'static str,
}

impl Default for PackText {
    fn default() -> Self {
        Self {
            head: "",
            memory: r#"(memory (export "memory") 1)"#,
            version: "(i32.const 1)",
            name: "(i32.const 16) (i32.const 1)",
            count: "(i32.const 1)",
            id_at: "(i32.const 16) (i32.const 6)",
            alloc: "(i32.const 8192)",
            free: "",
            invoke: "(i32.const 64) (i32.const 37)",
        }
    }
}

impl PackText {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Self { head, memory, version, name, count, id_at, alloc, free, invoke } = self;
        wasm(&format!(
            r#"(module {head} {memory}
                (data (i32.const 16) "t.node")
                (data (i32.const 64) "{{\"outcome\":\"completed\",\"output\":true}}")
                (func (export "openwop_abi_version") (result i32) {version})
                (func (export "openwop_pack_name") (result i32 i32) {name})
                (func (export "openwop_node_count") (result i32) {count})
                (func (export "openwop_node_id_at") (param i32) (result i32 i32) {id_at})
                (func (export "openwop_alloc") (param i32) (result i32) {alloc})
                (func (export "openwop_free") (param i32 i32) {free})
                (func (export "openwop_node_invoke") (param i32 i32 i32) (result i32 i32) {invoke}))"#
        ))
    }
}

pub(crate) fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// An invocation of `t.node` with all grants.
pub(crate) fn node() -> Invocation {
    let mut invocation = Invocation::new(Entry::Node("t.node".to_owned()));
    invocation.limits = LONG_TIME_LIMIT;
    invocation.grants = Grants::abi();
    invocation
}

/// An invocation of `invoke` with this argument and these grants.
pub(crate) fn invoke(inputs: Value, grants: &[&str]) -> Invocation {
    let mut invocation = Invocation::new(Entry::Invoke);
    invocation.inputs = inputs;
    invocation.limits = LONG_TIME_LIMIT;
    invocation.grants = grants.iter().copied().collect();
    invocation
}

/// Compiles and runs; a rejected module has an empty report.
pub(crate) fn run(bytes: &[u8], invocation: &Invocation) -> Result<NodeOutcome, Fault> {
    let module = SANDBOX.compile(bytes)?;
    SANDBOX.invoke(&module, invocation, Memory::default()).0.result
}

pub(crate) fn run_with(bytes: &[u8], invocation: &Invocation, host: Memory) -> (Report, Memory) {
    let module = SANDBOX.compile(bytes).expect("a module that compiles");
    SANDBOX.invoke(&module, invocation, host)
}

/// Runs an example module.
pub(crate) fn run_example(type_id: &str, inputs: Value, limits: Limits) -> Result<NodeOutcome, Fault> {
    let example = conformance::module(type_id).expect("an example module");
    let mut invocation = Invocation::new(example.entry());
    (invocation.inputs, invocation.limits) = (inputs, limits);
    invocation.grants = example.calls.iter().copied().collect();
    run(example.bytes, &invocation)
}

pub(crate) fn completed(output: Value) -> Result<NodeOutcome, Fault> {
    Ok(NodeOutcome::Completed { output })
}
