//! The best documents for some words, beside FTS5.

use std::hint::black_box;
use std::time::Instant;

use rusqlite::{Connection, params};
use serde_json::{Map, Value};
use surfaces::search::{Document, EmbeddedSearch, Query, Search as _, SearchLimits};

use super::figures::{Limit, Table, median, ratio, timed};
use super::numbers::Numbers;
use super::{BATCH, Bench, ROUNDS, TOP, millis};

const WORDS: usize = 60;
const MOST: Limit = Limit::AtMost(1.2);

pub(crate) fn texts(bench: &Bench, table: &mut Table) {
    let mut numbers = Numbers(7);
    // Some words are everywhere and most are rare, as in real texts.
    let mut word = || {
        let part = f64::from(numbers.part());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 20,000")]
        let rank = (20_000.0 * part.powi(4)) as u64;
        format!("word{rank}")
    };
    let mut text = |words: usize| (0..words).map(|_| word()).collect::<Vec<_>>().join(" ");
    let all: Vec<String> = (0..bench.count).map(|_| text(WORDS)).collect();
    let asked: Vec<String> = (0..ROUNDS).map(|_| text(3)).collect();
    let port = EmbeddedSearch::open(bench.folder.path(), SearchLimits::default()).unwrap();
    let began = Instant::now();
    fill(bench, &port, &all);
    table.title(&format!(
        "{} documents of {WORDS} words, the best {TOP} for 3 words (kept in {:.1} s)",
        bench.count,
        began.elapsed().as_secs_f64()
    ));
    let raw = Connection::open(bench.folder.path().join("raw-texts")).unwrap();
    fill_raw(&raw, &all);
    // With what was found, as the surface gives it.
    let mut statement = raw
        .prepare("SELECT rowid, rank, body FROM texts WHERE texts MATCH ?1 ORDER BY rank LIMIT ?2")
        .unwrap();
    let (mut fts5, mut ours) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in (0..1).chain(0..ROUNDS) {
        let words =
            asked[round].split(' ').map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ");
        fts5.push(timed(|| {
            let found = statement
                .query_map(params![words, TOP], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .unwrap();
            black_box(found.collect::<Result<Vec<(i64, f64, String)>, _>>().unwrap());
        }));
        let query = Query { index: "docs".into(), text: asked[round].clone(), hits: TOP, filter: Map::new() };
        ours.push(timed(|| {
            black_box(bench.runtime.block_on(port.query(&bench.scope, query)).unwrap());
        }));
    }
    let (fts5, ours) = (median(&mut fts5[1..]), median(&mut ours[1..]));
    table.plain("FTS5", &millis(fts5));
    table.limited("the surface", &millis(ours), ratio(ours, fts5), "of FTS5", MOST);
}

fn fill(bench: &Bench, port: &EmbeddedSearch, all: &[String]) {
    for (batch, bodies) in all.chunks(BATCH).enumerate() {
        let document = |(place, body): (usize, &String)| Document {
            id: format!("{}", batch * BATCH + place),
            fields: Map::from_iter([("body".to_owned(), Value::String(body.clone()))]),
        };
        let documents = bodies.iter().enumerate().map(document).collect();
        bench.runtime.block_on(port.index(&bench.scope, "docs".into(), documents)).unwrap();
    }
}

fn fill_raw(raw: &Connection, all: &[String]) {
    raw.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA mmap_size = 2147483648;
         CREATE VIRTUAL TABLE texts USING fts5(body, tokenize='unicode61 remove_diacritics 2');",
    )
    .unwrap();
    for bodies in all.chunks(BATCH) {
        raw.execute_batch("BEGIN").unwrap();
        for body in bodies {
            raw.prepare_cached("INSERT INTO texts (body) VALUES (?1)").unwrap().execute([body]).unwrap();
        }
        raw.execute_batch("COMMIT").unwrap();
    }
}
