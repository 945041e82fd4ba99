//! The nearest vectors, beside sqlite-vec and beside a scan over memory.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use rusqlite::{Connection, Statement};
use serde_json::Map;
use surfaces::vector::{EmbeddedVectors, Item, Query, VectorLimits, Vectors as _, join_sqlite_vec};

use super::figures::{Limit, Table, median, ratio, timed};
use super::numbers::Numbers;
use super::{BATCH, Bench, ROUNDS, TOP, millis};

const DIMENSIONS: usize = 384;
/// Beside sqlite-vec.
const MOST: Limit = Limit::AtMost(1.2);
/// Beside a scan over memory.
const AIM: Limit = Limit::AtMost(3.0);

pub(crate) fn vectors(bench: &Bench, table: &mut Table) {
    let mut numbers = Numbers(42);
    let all: Vec<f32> = (0..bench.count).flat_map(|_| numbers.vector(DIMENSIONS)).collect();
    let asked: Vec<Vec<f32>> = (0..ROUNDS).map(|_| numbers.vector(DIMENSIONS)).collect();
    let port = EmbeddedVectors::open(bench.folder.path(), VectorLimits::default()).unwrap();
    let began = Instant::now();
    fill(bench, &port, &all);
    table.title(&format!(
        "{} vectors of {DIMENSIONS} numbers, the nearest {TOP} (kept in {:.1} s)",
        bench.count,
        began.elapsed().as_secs_f64()
    ));

    let raw = Connection::open(bench.folder.path().join("raw-vectors")).unwrap();
    join_sqlite_vec(&raw).unwrap();
    raw.execute_batch("PRAGMA journal_mode = WAL; PRAGMA mmap_size = 2147483648").unwrap();
    for metric in ["cosine", "L2"] {
        fill_raw(&raw, metric, &all);
    }
    let mut cosine_query = knn(&raw, "cosine");
    let mut l2_query = knn(&raw, "L2");
    let (mut scan, mut cosine, mut l2, mut ours) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The first round warms up.
    for round in (0..1).chain(0..ROUNDS) {
        let asked = &asked[round];
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        scan.push(timed(|| expected = nearest(&all, asked)));
        cosine.push(timed(|| ask(&mut cosine_query, asked)));
        l2.push(timed(|| ask(&mut l2_query, asked)));
        let query = Query { collection: "n".into(), vector: asked.clone(), matches: TOP, filter: Map::new() };
        ours.push(timed(|| found = bench.runtime.block_on(port.query(&bench.scope, query)).unwrap()));
        // What is fast and wrong is not fast.
        let expected: BTreeSet<String> = expected.iter().map(|(_, place)| place.to_string()).collect();
        assert_eq!(found.into_iter().map(|found| found.id).collect::<BTreeSet<_>>(), expected);
    }
    let median = |times: &mut Vec<_>| median(&mut times[1..]);
    let (scan, cosine, l2, ours) =
        (median(&mut scan), median(&mut cosine), median(&mut l2), median(&mut ours));
    table.plain("a scan over memory", &millis(scan));
    table.plain("sqlite-vec, cosine", &millis(cosine));
    table.plain("sqlite-vec, L2", &millis(l2));
    // The faster of the two: vectors are kept with length 1, so both give the same order.
    table.limited("the surface", &millis(ours), ratio(ours, cosine.min(l2)), "of sqlite-vec", MOST);
    table.limited("the surface", &millis(ours), ratio(ours, scan), "of the scan", AIM);
}

fn fill(bench: &Bench, port: &EmbeddedVectors, all: &[f32]) {
    for (batch, vectors) in all.chunks(BATCH * DIMENSIONS).enumerate() {
        let item = |(place, vector): (usize, &[f32])| Item {
            id: format!("{}", batch * BATCH + place),
            vector: vector.to_vec(),
            metadata: None,
        };
        let items = vectors.chunks(DIMENSIONS).enumerate().map(item).collect();
        bench.runtime.block_on(port.upsert(&bench.scope, "n".into(), items)).unwrap();
    }
}

fn fill_raw(raw: &Connection, metric: &str, all: &[f32]) {
    raw.execute_batch(&format!(
        "CREATE VIRTUAL TABLE raw_{metric} USING vec0(vector float[{DIMENSIONS}] distance_metric={metric}); BEGIN"
    ))
    .unwrap();
    let mut insert = raw.prepare(&format!("INSERT INTO raw_{metric} (vector) VALUES (?1)")).unwrap();
    for vector in all.chunks(DIMENSIONS) {
        insert.execute([bytes(vector)]).unwrap();
    }
    raw.execute_batch("COMMIT").unwrap();
}

fn knn<'a>(raw: &'a Connection, metric: &str) -> Statement<'a> {
    let sql = format!("SELECT rowid, distance FROM raw_{metric} WHERE vector MATCH ?1 AND k = {TOP}");
    raw.prepare(&sql).unwrap()
}

fn ask(statement: &mut Statement<'_>, asked: &[f32]) {
    let found = statement.query_map([bytes(asked)], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    black_box(found.collect::<Result<Vec<(i64, f64)>, _>>().unwrap());
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|part| part.to_le_bytes()).collect()
}

/// A plain scan, written so that the compiler uses all lanes.
fn nearest(all: &[f32], asked: &[f32]) -> Vec<(f32, usize)> {
    const LANES: usize = 16;
    let mut best: Vec<(f32, usize)> = Vec::with_capacity(TOP + 1);
    let (asked, _) = asked.as_chunks::<LANES>();
    for (place, vector) in all.chunks_exact(DIMENSIONS).enumerate() {
        let mut lanes = [0.0_f32; LANES];
        for (one, other) in vector.as_chunks::<LANES>().0.iter().zip(asked) {
            for lane in 0..LANES {
                lanes[lane] += one[lane] * other[lane];
            }
        }
        let score: f32 = lanes.iter().sum();
        if best.len() < TOP || best.last().is_some_and(|(worst, _)| score > *worst) {
            let at = best.partition_point(|(other, _)| *other >= score);
            best.insert(at, (score, place));
            best.truncate(TOP);
        }
    }
    best
}
