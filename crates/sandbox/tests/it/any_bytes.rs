//! For any bytes: no panic, and no limit is exceeded.

use std::time::Duration;

use proptest::prelude::*;
use sandbox::{Entry, Invocation, Limits, Sandbox, conformance};
use serde_json::json;

use crate::support::{Memory, PackText, SANDBOX};

const LIMITS: Limits = Limits {
    memory_bytes: 4 << 20,
    fuel: Some(200_000),
    // The fuel limit ends it; this is for a stalled machine.
    wall_clock: Duration::from_secs(300),
    ..Limits::DEFAULT
};

/// Compiles and runs in every mode; any result is fine.
fn check(sandbox: &Sandbox, bytes: &[u8]) {
    let Ok(module) = sandbox.compile(bytes) else { return };
    let pack = sandbox.pack(&module);
    let nodes = pack.map(|pack| pack.node_ids).unwrap_or_default();
    for entry in nodes.into_iter().take(2).map(Entry::Node).chain([Entry::Invoke]) {
        let mut invocation = Invocation::new(entry);
        invocation.inputs = json!({"input": 1, "name": "x"});
        invocation.limits = LIMITS;
        invocation.grants = module.calls().collect();
        let (report, host) =
            sandbox.invoke(&module, &invocation, Memory { now: Some(0), ..Memory::default() });
        assert!(report.usage.memory_bytes <= LIMITS.memory_bytes);
        assert!(report.usage.fuel <= 200_000);
        assert!(host.logs.iter().map(|(_, message)| message.len()).sum::<usize>() <= LIMITS.log_bytes);
        if let Err(fault) = report.result {
            assert!(fault.to_string().len() < 2_000, "{fault}");
            assert!(!matches!(fault, sandbox::Fault::Host { .. }), "{fault}");
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let ours = conformance::ALL.iter().map(|example| example.bytes.to_vec());
    ours.chain([PackText::default().bytes()]).collect()
}

#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        6 => (place(), any::<u8>()).prop_map(|(place, byte)| Change::Set(place, byte)),
        1 => (place(), any::<u8>()).prop_map(|(place, byte)| Change::Insert(place, byte)),
        1 => place().prop_map(Change::Remove),
        1 => place().prop_map(Change::Cut),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        match change {
            Change::Set(place, byte) => {
                let at = place.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Insert(place, byte) => bytes.insert(place.index(bytes.len()), *byte),
            Change::Remove(place) => drop(bytes.remove(place.index(bytes.len()))),
            Change::Cut(place) => bytes.truncate(place.index(bytes.len())),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_rejected_or_run(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&SANDBOX, &bytes);
        let mut with_header = b"\0asm\x01\0\0\0".to_vec();
        with_header.extend(bytes);
        check(&SANDBOX, &with_header);
    }

    #[test]
    fn mutated_modules_are_rejected_or_run(
        seed in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 1..4)
    ) {
        let seeds = seeds();
        check(&SANDBOX, &changed(seeds[seed.index(seeds.len())].clone(), &changes));
    }
}
