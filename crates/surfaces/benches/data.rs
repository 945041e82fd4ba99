//! What the surfaces for vectors and texts cost, beside the engines below them.
//!
//! `cargo bench -p surfaces --bench data` fills files with 100,000 vectors of 384 numbers and 100,000 documents, and prints the median
//! of many queries: through the port, straight to the engine, and, for vectors, as a scan over memory that does nothing else. A number
//! as argument changes how many there are.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use serde_json::{Map, Value};
use surfaces::search::{Document, EmbeddedSearch, Search as _, SearchLimits};
use surfaces::vector::{EmbeddedVectors, Item, VectorLimits, Vectors as _, join_sqlite_vec};
use surfaces::{Millis, Scope, Tenant};

const DIMENSIONS: usize = 384;
const TOP: usize = 10;
const ROUNDS: usize = 15;
/// As many as one call takes.
const BATCH: usize = 500;

fn main() {
    let count = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let scope = Scope::new(Tenant::new("acme").expect("a name"), Millis(1_700_000_000_000));
    vectors(&runtime, &scope, count);
    texts(&runtime, &scope, count);
}

/// Numbers that are the same at every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "24 bits")]
    fn part(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 16_777_216.0
    }

    fn vector(&mut self) -> Vec<f32> {
        let mut vector: Vec<f32> = (0..DIMENSIONS).map(|_| self.part() - 0.5).collect();
        let length = vector.iter().map(|part| part * part).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|part| *part /= length);
        vector
    }
}

fn median(mut each: impl FnMut(usize)) -> Duration {
    each(0);
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|round| {
            let begin = Instant::now();
            each(round);
            begin.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

fn say(what: &str, time: Duration, beside: Duration) {
    println!(
        "{what:<44} {:>9.3} ms   {:>6.2}×",
        time.as_secs_f64() * 1e3,
        time.as_secs_f64() / beside.as_secs_f64()
    );
}

fn vectors(runtime: &tokio::runtime::Runtime, scope: &Scope, count: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut numbers = Numbers(42);
    let all: Vec<f32> = (0..count).flat_map(|_| numbers.vector()).collect();
    let asked: Vec<Vec<f32>> = (0..ROUNDS).map(|_| numbers.vector()).collect();

    let port = EmbeddedVectors::open(folder.path(), VectorLimits::default()).expect("it opens");
    let begin = Instant::now();
    for (batch, vectors) in all.chunks(BATCH * DIMENSIONS).enumerate() {
        let item = |(place, vector): (usize, &[f32])| Item {
            id: format!("{}", batch * BATCH + place),
            vector: vector.to_vec(),
            metadata: None,
        };
        let items = vectors.chunks(DIMENSIONS).enumerate().map(item).collect();
        runtime.block_on(port.upsert(scope, "n".into(), items)).expect("they are kept");
    }
    println!(
        "\n{count} vectors of {DIMENSIONS} numbers, the nearest {TOP} (kept in {:.1} s)",
        begin.elapsed().as_secs_f64()
    );

    let raw = Connection::open(folder.path().join("raw")).expect("it opens");
    join_sqlite_vec(&raw).expect("it joins");
    raw.execute_batch("PRAGMA journal_mode = WAL; PRAGMA mmap_size = 2147483648").expect("it is set");
    for (name, metric) in [("cosine", "cosine"), ("l2", "L2")] {
        let make = format!(
            "CREATE VIRTUAL TABLE {name} USING vec0(vector float[{DIMENSIONS}] distance_metric={metric})"
        );
        raw.execute_batch(&format!("{make}; BEGIN")).expect("it is made");
        let mut insert =
            raw.prepare(&format!("INSERT INTO {name} (vector) VALUES (?1)")).expect("it is prepared");
        for vector in all.chunks(DIMENSIONS) {
            insert.execute([bytes(vector)]).expect("it is kept");
        }
        raw.execute_batch("COMMIT").expect("it is kept");
    }

    let scan = median(|round| {
        black_box(nearest(&all, &asked[round]));
    });
    let knn = |name: &str| {
        let sql = format!("SELECT rowid, distance FROM {name} WHERE vector MATCH ?1 AND k = {TOP}");
        let mut statement = raw.prepare(&sql).expect("it is prepared");
        median(|round| {
            let found = statement
                .query_map([bytes(&asked[round])], |row| Ok((row.get(0)?, row.get(1)?)))
                .expect("it is asked");
            black_box(found.collect::<Result<Vec<(i64, f64)>, _>>().expect("it answers"));
        })
    };
    let (cosine, l2) = (knn("cosine"), knn("l2"));
    let through = median(|round| {
        let query = surfaces::vector::Query {
            collection: "n".into(),
            vector: asked[round].clone(),
            matches: TOP,
            filter: Map::new(),
        };
        black_box(runtime.block_on(port.query(scope, query)).expect("it answers"));
    });
    say("a scan over memory", scan, scan);
    say("sqlite-vec, cosine", cosine, scan);
    say("sqlite-vec, L2", l2, scan);
    say("the surface", through, scan);
    println!(
        "the surface beside sqlite-vec with cosine: {:.2}×",
        through.as_secs_f64() / cosine.as_secs_f64()
    );
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|part| part.to_le_bytes()).collect()
}

/// A plain scan, written so that the compiler uses all lanes.
fn nearest(all: &[f32], asked: &[f32]) -> Vec<(f32, usize)> {
    const LANES: usize = 16;
    let mut best: Vec<(f32, usize)> = Vec::with_capacity(TOP + 1);
    for (place, vector) in all.chunks_exact(DIMENSIONS).enumerate() {
        let mut lanes = [0.0_f32; LANES];
        for (one, other) in vector.chunks_exact(LANES).zip(asked.chunks_exact(LANES)) {
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

fn texts(runtime: &tokio::runtime::Runtime, scope: &Scope, count: usize) {
    const WORDS: usize = 60;
    let folder = tempfile::tempdir().expect("a folder");
    let mut numbers = Numbers(7);
    // Some words are everywhere and most are rare, as in real texts.
    let mut word = || {
        let part = f64::from(numbers.part());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 20,000")]
        let rank = (20_000.0 * part.powi(4)) as u64;
        format!("word{rank}")
    };
    let all: Vec<String> =
        (0..count).map(|_| (0..WORDS).map(|_| word()).collect::<Vec<_>>().join(" ")).collect();
    let asked: Vec<String> =
        (0..ROUNDS).map(|_| (0..3).map(|_| word()).collect::<Vec<_>>().join(" ")).collect();

    let port = EmbeddedSearch::open(folder.path(), SearchLimits::default()).expect("it opens");
    let begin = Instant::now();
    for (batch, bodies) in all.chunks(BATCH).enumerate() {
        let document = |(place, body): (usize, &String)| Document {
            id: format!("{}", batch * BATCH + place),
            fields: Map::from_iter([("body".to_owned(), Value::String(body.clone()))]),
        };
        let documents = bodies.iter().enumerate().map(document).collect();
        runtime.block_on(port.index(scope, "docs".into(), documents)).expect("they are kept");
    }
    println!(
        "\n{count} documents of {WORDS} words, the best {TOP} for 3 words (kept in {:.1} s)",
        begin.elapsed().as_secs_f64()
    );

    let raw = Connection::open(folder.path().join("raw")).expect("it opens");
    raw.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA mmap_size = 2147483648;
         CREATE VIRTUAL TABLE texts USING fts5(body, tokenize='unicode61 remove_diacritics 2');",
    )
    .expect("it is made");
    for bodies in all.chunks(BATCH) {
        raw.execute_batch("BEGIN").expect("it begins");
        for body in bodies {
            raw.prepare_cached("INSERT INTO texts (body) VALUES (?1)")
                .and_then(|mut insert| insert.execute([body]))
                .expect("it is kept");
        }
        raw.execute_batch("COMMIT").expect("it is kept");
    }
    let mut statement = raw
        .prepare("SELECT rowid, rank, body FROM texts WHERE texts MATCH ?1 ORDER BY rank LIMIT ?2")
        .expect("it is prepared");
    let fts5 = median(|round| {
        let words =
            asked[round].split(' ').map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ");
        let found = statement
            .query_map(params![words, TOP], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .expect("it is asked");
        black_box(found.collect::<Result<Vec<(i64, f64, String)>, _>>().expect("it answers"));
    });
    let through = median(|round| {
        let query = surfaces::search::Query {
            index: "docs".into(),
            text: asked[round].clone(),
            hits: TOP,
            filter: Map::new(),
        };
        black_box(runtime.block_on(port.query(scope, query)).expect("it answers"));
    });
    say("FTS5", fts5, fts5);
    say("the surface", through, fts5);
}
