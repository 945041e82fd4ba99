//! Any bytes, given to the sandbox as a module; what is accepted is run.
//!
//! The first byte chooses: either the rest is the module, or it changes bytes of one of our own modules, which get much
//! further than arbitrary bytes do.
//!
//! * Compiling and running never panic.
//! * What runs stays within its memory and its fuel, and so do its messages.
//! * A replay with the journal of the first run gives the same result and uses the same fuel, without calling the host.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sandbox::{
    DenyAll, Entry, Fault, HostCalls, InterruptAnswer, Invocation, Limits, LogLevel, Options, Sandbox, Status, conformance,
};
use serde_json::{Value, json};

// Without a cache, so that memory does not grow with the number of inputs.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    Sandbox::with(&Options { cache_bytes: 0, ..Options::default() }).expect("an engine")
});

const FUEL: u64 = 100_000;
const LIMITS: Limits = Limits {
    memory_bytes: 4 << 20,
    fuel: Some(FUEL),
    // Fuel stops endless modules; this limit is for a stalled machine.
    wall_clock: Duration::from_secs(600),
    ..Limits::DEFAULT
};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    if choice % 2 == 0 {
        check(rest);
    } else {
        let example = &conformance::ALL[usize::from(choice / 2) % conformance::ALL.len()];
        let mut module = example.bytes.to_vec();
        for change in rest.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % module.len();
            module[at] = change[2];
        }
        check(&module);
    }
});

fn check(bytes: &[u8]) {
    let Ok(module) = SANDBOX.compile(bytes) else { return };
    let nodes = SANDBOX.pack(&module).map(|pack| pack.node_ids).unwrap_or_default();
    for entry in nodes.into_iter().take(2).map(Entry::Node).chain([Entry::Invoke]) {
        let mut invocation = Invocation::new(entry);
        invocation.inputs = json!({"input": [1, "x"], "name": "x"});
        invocation.limits = LIMITS;
        invocation.grants = module.calls().collect();
        let (first, host) = SANDBOX.invoke(&module, &invocation, Anything::default());
        assert!(first.usage.memory_bytes <= LIMITS.memory_bytes);
        assert!(first.usage.fuel <= FUEL);
        assert!(host.logged <= LIMITS.log_bytes);
        match &first.result {
            // A replay has no host to call, so it must end at the last recorded reply of the host.
            Ok(_) => {
                invocation.recorded = first.journal.clone();
                let (again, _) = SANDBOX.invoke(&module, &invocation, DenyAll);
                assert_eq!(again.result, first.result);
                assert_eq!(again.usage, first.usage);
            }
            Err(fault) => assert!(!matches!(fault, Fault::Host { .. }), "{fault}"),
        }
    }
}

/// A host that answers every call.
#[derive(Default)]
struct Anything {
    asked: i64,
    logged: usize,
}

impl HostCalls for Anything {
    fn channel_read(&mut self, name: &str) -> Option<Value> {
        self.asked += 1;
        (name.len() % 2 == 0).then(|| json!({"asked": self.asked}))
    }

    fn channel_write(&mut self, _name: &str, _value: Value) -> Status {
        Status::Ok
    }

    fn variable_get(&mut self, key: &str) -> Option<Value> {
        self.channel_read(key)
    }

    fn interrupt(&mut self, _payload: &Value) -> InterruptAnswer {
        InterruptAnswer::Resume(json!(true))
    }

    fn now_ms(&mut self) -> Option<i64> {
        self.asked += 1;
        Some(self.asked)
    }

    fn call(&mut self, _name: &str, _argument: Value) -> Option<Value> {
        self.asked += 1;
        Some(self.asked.into())
    }

    fn log(&mut self, _level: LogLevel, message: &str) {
        self.logged += message.len();
    }
}
