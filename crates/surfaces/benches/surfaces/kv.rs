//! Keys and values, beside prepared statements.
//!
//! `get` by one caller is compared with one thread, and by 64 callers with as many threads as the runtime has, each with a connection.
//! `set` by one caller is compared with a transaction for each statement, and by 64 callers with transactions of 64 statements: the
//! least that can be done for 64 callers each of which waits until its value is durable.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use surfaces::{SurfaceCall, Surfaces};

use super::figures::{Limit, Table, median, ratio, timed};
use super::raw::{Raw, Rows};
use super::{Bench, CALLERS, KEYS, WORKERS, call, key, rate, scope, value};

/// How far the values of one round are from those of the next.
const ROUND: usize = 1_000_000;

/// At least this part of what the statements alone do in the same time.
const LEAST: Limit = Limit::AtLeast(0.5);

/// Rows of a round. SQLite does not write what is there already, so every round has values of its own.
fn rows(count: usize, round: usize) -> Rows {
    (0..count).map(|n| (key(n), serde_json::to_vec(&value(n + round * ROUND)).unwrap())).collect()
}

pub(crate) fn fill(bench: &Bench) {
    let (scope, rows) = (scope(), rows(KEYS, 0));
    bench.raw.sets_together(&rows, KEYS);
    bench.runtime.block_on(async {
        for chunk in 0..KEYS / 1000 {
            let set = |n| bench.surfaces.kv().set(&scope, key(chunk * 1000 + n), value(n), None);
            for done in join_all((0..1000).map(set)).await {
                done.unwrap();
            }
        }
    });
}

pub(crate) fn gets(bench: &Bench, table: &mut Table) {
    const COUNT: usize = 40_000;
    let scope = scope();
    let keys: Vec<String> = (0..COUNT).map(key).collect();
    let get = |n: usize| call("get", json!({"key": keys[n]}));
    let mut others: Vec<Raw> = (0..WORKERS).map(|_| bench.raw.again()).collect();
    let (mut raw, mut port, mut door) = (Vec::new(), Vec::new(), Vec::new());
    let (mut raw_shared, mut shared) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        raw.push(timed(|| assert!(bench.raw.gets(&keys) > 0)));
        port.push(timed(|| {
            bench.runtime.block_on(async {
                for key in &keys {
                    assert!(bench.surfaces.kv().get(&scope, key).await.unwrap().is_some());
                }
            });
        }));
        let calls: Vec<SurfaceCall> = (0..COUNT).map(get).collect();
        door.push(timed(|| {
            bench.runtime.block_on(async {
                for call in calls {
                    assert_eq!(bench.surfaces.call(call).await.unwrap()["found"], true);
                }
            });
        }));
        raw_shared.push(timed(|| {
            std::thread::scope(|threads| {
                for (raw, keys) in others.iter_mut().zip(keys.chunks(COUNT / WORKERS)) {
                    threads.spawn(move || assert!(raw.gets(keys) > 0));
                }
            });
        }));
        shared.push(by_many(bench, COUNT, get));
    }
    table.title("kv get");
    let (raw, raw_shared) = (median(&mut raw), median(&mut raw_shared));
    table.plain("prepared statement, 1 thread", &rate(COUNT, raw));
    beside(table, "the port, 1 caller", COUNT, median(&mut port), raw);
    beside(table, "a call, JSON in and out, 1 caller", COUNT, median(&mut door), raw);
    table.plain(&format!("prepared statements, {WORKERS} threads"), &rate(COUNT, raw_shared));
    beside(table, "calls, 64 callers", COUNT, median(&mut shared), raw_shared);
}

pub(crate) fn sets(bench: &Bench, table: &mut Table) {
    const ALONE: usize = 400;
    const SHARED: usize = 12_800;
    let (mut raw, mut alone) = (Vec::new(), Vec::new());
    let (mut raw_shared, mut shared) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let (one, many) = (rows(ALONE, 1 + 2 * round), rows(SHARED, 2 + 2 * round));
        let set = |round: usize| {
            move |n: usize| call("set", json!({"key": key(n), "value": value(n + round * ROUND)}))
        };
        raw.push(timed(|| bench.raw.sets(&one)));
        let calls: Vec<SurfaceCall> = (0..ALONE).map(set(1 + 2 * round)).collect();
        alone.push(timed(|| {
            bench.runtime.block_on(async {
                for call in calls {
                    bench.surfaces.call(call).await.unwrap();
                }
            });
        }));
        raw_shared.push(timed(|| bench.raw.sets_together(&many, CALLERS)));
        shared.push(by_many(bench, SHARED, set(2 + 2 * round)));
    }
    table.title("kv set, on the disk when it returns");
    let (raw, raw_shared) = (median(&mut raw), median(&mut raw_shared));
    table.plain("prepared statement, a commit each", &rate(ALONE, raw));
    beside(table, "a call, 1 caller", ALONE, median(&mut alone), raw);
    table.plain("prepared statements, a commit for 64", &rate(SHARED, raw_shared));
    beside(table, "calls, 64 callers", SHARED, median(&mut shared), raw_shared);
}

/// Calls by 64 callers, of whom each makes the next when the one before was answered.
fn by_many(bench: &Bench, count: usize, of: impl Fn(usize) -> SurfaceCall) -> Duration {
    let calls: Vec<Vec<SurfaceCall>> =
        (0..CALLERS).map(|caller| (caller..count).step_by(CALLERS).map(&of).collect()).collect();
    let one = |surfaces: Arc<Surfaces>, calls: Vec<SurfaceCall>| async move {
        for call in calls {
            surfaces.call(call).await.unwrap();
        }
    };
    timed(|| {
        bench.runtime.block_on(async {
            let callers =
                calls.into_iter().map(|calls| tokio::spawn(one(Arc::clone(&bench.surfaces), calls)));
            for done in join_all(callers.collect::<Vec<_>>()).await {
                done.unwrap();
            }
        });
    })
}

fn beside(table: &mut Table, what: &str, count: usize, ours: Duration, raw: Duration) {
    table.limited(what, &rate(count, ours), ratio(raw, ours), "of the statements", LEAST);
}
