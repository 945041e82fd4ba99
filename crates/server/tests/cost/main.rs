//! The cost of one request, counted and not timed: allocations, disk syncs and instructions.
//!
//! Times depend on the machine and its load; these numbers do not, so the gate can compare them. The limits are the measured values
//! plus one percent for variation, such as growing buffers and tables. Lower a limit when a request becomes cheaper; give the reason
//! in the commit when you raise one.
//!
//! It is a separate binary because it replaces the allocator and `fdatasync` for the whole process.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]
#![expect(clippy::print_stdout, reason = "the figures are shown with `--nocapture`, for setting new limits")]

mod counters;
mod host;
mod instructions;

use std::fmt::Write as _;

use self::counters::{Counted, count};
use self::host::{Client, Host};

/// Requests before counting starts, to fill caches and grow buffers.
const WARM_UP: u32 = 100;

/// The number of counted requests.
const COUNTED: u32 = 300;

/// A kind of request and its maximum cost. A write is one sync; occasionally a checkpoint of the write-ahead log adds more.
struct Case {
    name: &'static str,
    request: fn(u32) -> String,
    status: &'static str,
    allocations: f64,
    syncs: f64,
    /// In thousands, of a build without optimization; see [`instructions`].
    kilo_instructions: u64,
}

const CASES: [Case; 3] = [
    Case {
        name: "create a run",
        request: |_| post("/v1/runs", "", r#"{"workflowId":"noop"}"#),
        status: "201",
        allocations: 155.0,
        syncs: 1.05,
        kilo_instructions: 2350,
    },
    Case {
        name: "create a run under an idempotency key",
        request: |number| {
            post("/v1/runs", &format!("idempotency-key: key-{number:08}\r\n"), r#"{"workflowId":"noop"}"#)
        },
        status: "201",
        allocations: 196.0,
        syncs: 1.05,
        kilo_instructions: 2960,
    },
    Case {
        name: "read the newest runs",
        request: |_| get("/v1/runs?limit=1"),
        status: "200",
        allocations: 37.0,
        syncs: 0.0,
        kilo_instructions: 545,
    },
];

#[test]
fn a_request_costs_no_more_than_its_limit() {
    let host = Host::start();
    let mut client = Client::connect(&host);
    client.send(&post("/v1/workflows", "", NOOP), "201");
    let mut exceeded = String::new();
    for case in CASES {
        for number in 0..WARM_UP {
            client.send(&(case.request)(number), case.status);
        }
        // The requests are built in advance, so that the client does not allocate while counting.
        let requests: Vec<String> = (WARM_UP..WARM_UP + COUNTED).map(case.request).collect();
        let counted = count(|| requests.iter().for_each(|request| client.send(request, case.status)));
        let Counted { allocations, bytes, syncs } = counted;
        let of_one = |total: u64| {
            f64::from(u32::try_from(total).expect("a few hundred requests")) / f64::from(COUNTED)
        };
        let (allocations, bytes, syncs) = (of_one(allocations), of_one(bytes), of_one(syncs));
        println!("{}: {allocations:.1} allocations of {bytes:.0} bytes in all, {syncs:.3} syncs", case.name);
        if allocations > case.allocations || syncs > case.syncs {
            let _ = writeln!(
                exceeded,
                "{}: {allocations:.1} allocations, the limit is {:.1}; {syncs:.3} syncs, the limit is {:.2}",
                case.name, case.allocations, case.syncs
            );
        }
    }
    assert!(exceeded.is_empty(), "more expensive than before:\n{exceeded}");
}

/// A workflow of one node that does nothing.
const NOOP: &str = r#"{"id":"noop","name":"noop","version":"1","edges":[],"metadata":{},"settings":{},"variables":[],
"nodes":[{"id":"only","typeId":"core.noop","name":"only","position":{"x":0,"y":0},"config":{},"inputs":{}}],
"triggers":[{"id":"t","type":"manual"}]}"#;

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: host.test\r\nauthorization: Bearer {}\r\n\r\n", host::KEY)
}

fn post(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: host.test\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        host::KEY,
        body.len()
    )
}
