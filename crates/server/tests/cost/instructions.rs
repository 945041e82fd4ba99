//! Counts the instructions of a request with Valgrind, which counts the same on a fast and on a slow machine.
//!
//! The test starts this binary again under Valgrind, with few and with many requests, and divides the difference: the startup cost
//! of the host is in both. The counts are for a build without optimization, so they say nothing about speed; they grow when a
//! request does more than before. They do not include kernel time; syncs are counted separately.
//!
//! Counts of one build vary by a few percent, because threads that wake up at other moments look for work more or less often. Such
//! looks only add instructions, so the lowest of several counts is compared with the limit.

use std::process::Command;

use super::host::{Client, Host};
use super::{CASES, Case, NOOP, post};

/// The number of requests in the two runs. Both fill the caches and let buffers grow.
const FEW: u32 = 20;
const MANY: u32 = 80;

/// How often a case is counted before it fails. The first count within the limit ends it.
const ATTEMPTS: u32 = 5;

/// The case to run and the number of requests: set for the process under Valgrind.
const CASE: &str = "COST_CASE";
const COUNT: &str = "COST_COUNT";

#[test]
fn a_request_takes_no_more_instructions_than_its_limit() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        let message = "valgrind is not installed, so instructions are not counted: install the Debian package `valgrind`";
        assert!(std::env::var_os("INTERLOCK_SKIP_NOTHING").is_none_or(|value| value != "1"), "{message}");
        println!("SKIPPED: {message}");
        return;
    }
    let mut exceeded = Vec::new();
    for (index, case) in CASES.iter().enumerate() {
        let mut lowest = u64::MAX;
        for _ in 0..ATTEMPTS {
            let one = thousands_of_one_request(index);
            println!("{}: {one} thousand instructions", case.name);
            lowest = lowest.min(one);
            if lowest <= case.kilo_instructions {
                break;
            }
        }
        if lowest > case.kilo_instructions {
            exceeded.push(format!(
                "{}: {lowest} thousand instructions; the limit is {}",
                case.name, case.kilo_instructions
            ));
        }
    }
    assert!(exceeded.is_empty(), "more expensive than before: {exceeded:#?}");
}

/// The instructions of one request of a case, in thousands.
fn thousands_of_one_request(case: usize) -> u64 {
    let (few, many) = std::thread::scope(|scope| {
        let few = scope.spawn(|| counted(case, FEW));
        (counted(case, MANY), few.join().unwrap())
    });
    many.abs_diff(few) / u64::from(MANY.abs_diff(FEW)) / 1000
}

/// The instructions of a process that starts a host and sends `count` requests of a case.
fn counted(case: usize, count: u32) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "instructions::under_valgrind", "--ignored"])
        .env(CASE, case.to_string())
        .env(COUNT, count.to_string())
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stdout));
    // A line such as `==123== I   refs:      1,234,567`.
    let line =
        report.lines().find(|line| line.contains("refs:")).unwrap_or_else(|| panic!("no count in {report}"));
    let digits = line.rsplit(':').next().unwrap().trim().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("no count in {line:?}"))
}

#[test]
#[ignore = "`a_request_takes_no_more_instructions_than_its_limit` starts it under Valgrind"]
fn under_valgrind() {
    let number = |name: &str| std::env::var(name).unwrap().parse::<u32>().unwrap();
    let Case { request, status, .. } = &CASES[usize::try_from(number(CASE)).unwrap()];
    let host = Host::start();
    let mut client = Client::connect(&host);
    client.send(&post("/v1/workflows", "", NOOP), "201");
    for index in 0..number(COUNT) {
        client.send(&request(index), status);
    }
}
