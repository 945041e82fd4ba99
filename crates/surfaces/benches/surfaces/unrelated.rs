//! One tenant works as before while another asks as much of vectors, texts and SQL as it can.
//!
//! The calm tenant makes durable changes and reads one after the other, as a run does. The loud one has 48 callers who never pause.
//! All of them share the processors and the disk with whatever else the machine does, so the calm tenant is measured in two more
//! states: alone, and beside threads that only compute, as many as there are processors. In turns with its changes, a plain file is
//! appended to and synced (F), so that a disk that is slow for all processes is not mistaken for a slow surface.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use surfaces::search::{Document, EmbeddedSearch, Search as _, SearchLimits};
use surfaces::sql::sqlite::SqliteFiles;
use surfaces::sql::{Datasource, ServedSql, SqlLimits, Tenants};
use surfaces::vector::{EmbeddedVectors, Item, VectorLimits, Vectors as _};
use surfaces::{Scope, Served as _, Surfaces, Tenant};
use tokio::task::JoinHandle;

use super::figures::{Limit, Table, percent, ratio};
use super::{Bench, NOW, key, scope, value};

const DIMENSIONS: usize = 384;
const VECTORS: usize = 10_000;
const DOCUMENTS: usize = 10_000;
/// Of each of the three.
const LOUD: usize = 16;
/// How many changes and how many reads of the calm tenant one round measures.
const CHANGES: usize = 150;
const READS_A_CHANGE: usize = 5;

/// A set in F, beside the loud tenant and alone.
const MOST_CHANGE: f64 = 1.5;
/// A get beside the loud tenant and beside threads that compute.
const MOST_READ: f64 = 1.5;

/// The next value that was never set.
static NEXT: AtomicUsize = AtomicUsize::new(1_000_000_000);

#[derive(Default)]
struct Calm {
    changes: Vec<Duration>,
    floors: Vec<Duration>,
    reads: Vec<Duration>,
}

pub(crate) fn unrelated(bench: &Bench, table: &mut Table) {
    let loud = Arc::new(bench.runtime.block_on(Loud::open(bench.folder.path())));
    let (mut alone, mut computing, mut beside) = (Calm::default(), Calm::default(), Calm::default());
    let mut done = 0;
    for _ in 0..bench.rounds {
        calm(bench, &mut alone);
        done += while_computing(|| calm(bench, &mut computing));
        done += loud.meanwhile(bench, || calm(bench, &mut beside));
    }
    black_box(done);
    table.title(
        "kv of one tenant: alone, beside 2 threads that compute, beside 48 callers of vector, search and sql",
    );
    let show = |what: &str, calm: &mut Calm| {
        for (part, times) in [("set", &mut calm.changes), ("F", &mut calm.floors), ("get", &mut calm.reads)] {
            let (p50, p99) = (micros(percent(times, 50)), micros(percent(times, 99)));
            table.plain(&format!("{what}: {part}, p50"), &p50);
            table.plain(&format!("{what}: {part}, p99"), &p99);
        }
    };
    show("alone", &mut alone);
    show("computing", &mut computing);
    show("loud", &mut beside);
    let in_floors = |calm: &mut Calm| ratio(percent(&mut calm.changes, 50), percent(&mut calm.floors, 50));
    let (one, other) = (in_floors(&mut beside), in_floors(&mut alone));
    let limit = Limit::AtMost(MOST_CHANGE);
    table.limited("set, loud", &format!("{one:.2} F"), one / other, "of alone, in F", limit);
    let (one, other) = (percent(&mut beside.reads, 50), percent(&mut computing.reads, 50));
    let limit = Limit::AtMost(MOST_READ);
    table.limited("get, loud", &micros(one), ratio(one, other), "of computing", limit);
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// The work of the calm tenant, in a task as a run's is.
fn calm(bench: &Bench, into: &mut Calm) {
    // What the state before left behind is over.
    std::thread::sleep(Duration::from_millis(100));
    let surfaces = Arc::clone(&bench.surfaces);
    let file = File::create(bench.folder.path().join("floor")).unwrap();
    let work = bench.runtime.spawn(measure(surfaces, file));
    let measured = bench.runtime.block_on(work).unwrap();
    into.changes.extend(measured.changes);
    into.floors.extend(measured.floors);
    into.reads.extend(measured.reads);
}

async fn measure(surfaces: Arc<Surfaces>, mut file: File) -> Calm {
    let (scope, mut measured) = (scope(), Calm::default());
    for n in 0..CHANGES {
        // SQLite does not write what is there already.
        let (key, value) = (key(n), value(NEXT.fetch_add(1, Ordering::Relaxed)));
        let began = Instant::now();
        surfaces.kv().set(&scope, key, value, None).await.unwrap();
        measured.changes.push(began.elapsed());
        for read in 0..READS_A_CHANGE {
            let key = key_of(n, read);
            let began = Instant::now();
            assert!(surfaces.kv().get(&scope, &key).await.unwrap().is_some());
            measured.reads.push(began.elapsed());
        }
        let (back, took) = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            file.write_all(&[7; 4096]).unwrap();
            file.sync_data().unwrap();
            (file, began.elapsed())
        })
        .await
        .unwrap();
        file = back;
        measured.floors.push(took);
    }
    measured
}

fn key_of(n: usize, read: usize) -> String {
    key(n * READS_A_CHANGE + read)
}

/// Runs some work beside threads that need nothing but processors.
fn while_computing(work: impl FnOnce()) -> u64 {
    let ends = Arc::new(AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let compute = |ends: Arc<AtomicBool>| {
        move || {
            let mut sum = 1_u64;
            while !ends.load(Ordering::Relaxed) {
                for n in 0..10_000 {
                    sum = black_box(sum.wrapping_mul(31).wrapping_add(n));
                }
            }
            sum
        }
    };
    let threads: Vec<_> = (0..threads).map(|_| std::thread::spawn(compute(Arc::clone(&ends)))).collect();
    work();
    ends.store(true, Ordering::Relaxed);
    threads.into_iter().map(|thread| thread.join().unwrap()).fold(0, u64::wrapping_add)
}

/// The other tenant.
struct Loud {
    scope: Scope,
    vectors: EmbeddedVectors,
    texts: EmbeddedSearch,
    sql: ServedSql,
}

fn numbers(seed: usize) -> Vec<f32> {
    #[expect(clippy::cast_precision_loss, reason = "below 1000")]
    let part = |n: usize| ((n * 7919 + seed * 104_729) % 997) as f32 - 498.5;
    (0..DIMENSIONS).map(part).collect()
}

fn args(args: Value) -> Map<String, Value> {
    let Value::Object(args) = args else { unreachable!("arguments are an object") };
    args
}

impl Loud {
    async fn open(folder: &std::path::Path) -> Self {
        let scope = Scope::new(Tenant::new("loud").unwrap(), NOW);
        let vectors = EmbeddedVectors::open(folder, VectorLimits::default()).unwrap();
        let texts = EmbeddedSearch::open(folder, SearchLimits::default()).unwrap();
        for batch in 0..VECTORS / 500 {
            let item =
                |n: usize| Item { id: n.to_string(), vector: numbers(batch * 500 + n), metadata: None };
            let items = (0..500).map(|n| Item { id: format!("{batch}-{n}"), ..item(n) }).collect();
            vectors.upsert(&scope, "n".into(), items).await.unwrap();
        }
        for batch in 0..DOCUMENTS / 500 {
            let document = |n: usize| Document {
                id: format!("{batch}-{n}"),
                fields: args(json!({"body": format!("common words and word{} of number{n}", n % 50)})),
            };
            texts.index(&scope, "n".into(), (0..500).map(document).collect()).await.unwrap();
        }
        let files = Arc::new(SqliteFiles::new(folder.join("sql"), SqlLimits::default()));
        let sql =
            ServedSql::new([Datasource { name: "default".into(), tenants: Tenants::All, database: files }]);
        let make = json!({"sql": "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)", "params": []});
        sql.call(&scope, "execute", args(make)).await.unwrap();
        let fill = json!({
            "sql": "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + ? FROM n WHERE i < ?) INSERT INTO t (body) SELECT i FROM n",
            "params": [1, 1, 20_000],
        });
        sql.call(&scope, "execute", args(fill)).await.unwrap();
        Self { scope, vectors, texts, sql }
    }

    /// Runs some work while all callers of this tenant are there. Says how much these got done.
    fn meanwhile(self: &Arc<Self>, bench: &Bench, work: impl FnOnce()) -> u64 {
        let ends = Arc::new(AtomicBool::new(false));
        let callers: Vec<JoinHandle<u64>> = (0..3 * LOUD)
            .map(|caller| {
                let (this, ends) = (Arc::clone(self), Arc::clone(&ends));
                bench.runtime.spawn(async move {
                    let mut done = 0;
                    while !ends.load(Ordering::Relaxed) {
                        this.ask(caller, done).await;
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        work();
        ends.store(true, Ordering::Relaxed);
        callers.into_iter().map(|caller| bench.runtime.block_on(caller).unwrap()).sum()
    }

    async fn ask(&self, caller: usize, n: u64) {
        match caller % 3 {
            0 => {
                let query = surfaces::vector::Query {
                    collection: "n".into(),
                    vector: numbers(caller),
                    matches: 10,
                    filter: Map::new(),
                };
                assert_eq!(self.vectors.query(&self.scope, query).await.unwrap().len(), 10);
            }
            1 => {
                let query = surfaces::search::Query {
                    index: "n".into(),
                    text: format!("common words word{}", n % 50),
                    hits: 10,
                    filter: Map::new(),
                };
                assert_eq!(self.texts.query(&self.scope, query).await.unwrap().len(), 10);
            }
            _ if n.is_multiple_of(10) => {
                let change = json!({"sql": "UPDATE t SET body = ? WHERE id = ?", "params": [n, caller]});
                self.sql.call(&self.scope, "execute", args(change)).await.unwrap();
            }
            _ => {
                let read = json!({"sql": "SELECT count(*) AS n FROM t WHERE body LIKE ?", "params": ["%7%"]});
                self.sql.call(&self.scope, "query", args(read)).await.unwrap();
            }
        }
    }
}
