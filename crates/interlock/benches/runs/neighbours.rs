//! How runs that use the surfaces affect other runs.
//!
//! Neighbours share the processors and the disk. The baseline is therefore the same run next to as
//! many runs with as many nodes that use no surface; only the difference is caused by the surfaces.

use serde_json::{Value, json};

use crate::client::{Measurement, Until, drive};
use crate::figures::{Limit, Table};
use crate::requests::{Create, Then};
use crate::servers::{Served, workflow};
use crate::{TURNS, rate};

/// Runs whose nodes write to and search the surfaces.
const SURFACES: &str = "bench-surfaces";
/// Runs with as many nodes that do nothing.
const NODES: &str = "bench-nodes";
/// How many clients create them, without a pause.
const LOUD: u64 = 16;
/// The limit of the p50 with surfaces, relative to the p50 without.
const MOST: f64 = 1.5;

/// The workflows of the neighbours.
pub(crate) fn neighbours() -> [Value; 2] {
    let given = |value: Value| json!({"type": "static", "value": value});
    let surfaces = [
        json!({
            "typeId": "core.storage.kv-atomic-increment", "config": {"namespace": "bench"},
            "inputs": {"key": given(json!("runs"))},
        }),
        json!({
            "typeId": "core.db.sql-execute",
            "inputs": {"sql": given(json!("CREATE TABLE IF NOT EXISTS bench (n INTEGER PRIMARY KEY, text TEXT)"))},
        }),
        json!({
            "typeId": "core.messaging.publish", "config": {"topic": "bench"},
            "inputs": {"payload": given(json!({"text": "a message"}))},
        }),
        json!({
            "typeId": "core.db.search-index", "config": {"index": "bench"},
            "inputs": {"docs": given(json!([{"id": "a", "fields": {"text": "signals and levers"}}]))},
        }),
        json!({
            "typeId": "core.db.search-query", "config": {"index": "bench"},
            "inputs": {"q": given(json!("levers"))},
        }),
        json!({
            "typeId": "core.db.vector-upsert", "config": {"collection": "bench"},
            "inputs": {"items": given(json!([{"id": "a", "vector": vec![0.5; 64]}]))},
        }),
        json!({
            "typeId": "core.db.vector-query", "config": {"collection": "bench"},
            "inputs": {"vector": given(json!(vec![0.5; 64]))},
        }),
    ];
    let nothing = vec![json!({"typeId": "core.noop"}); surfaces.len()];
    [workflow(SURFACES, &surfaces), workflow(NODES, &nothing)]
}

/// One client's empty runs: alone, next to runs without surfaces, and next to runs with surfaces.
pub(crate) async fn beside(table: &mut Table, served: &Served, until: Until) {
    let mut calm = [Measurement::default(), Measurement::default(), Measurement::default()];
    let mut loud = [Measurement::default(), Measurement::default()];
    for turn in 0..TURNS {
        let work = |state: &str| Create::nothing(&format!("{state}-{turn}"), Then::Completed);
        calm[0].add(drive(served.address, 1, until, work("alone")).await);
        for (place, workflow) in [NODES, SURFACES].into_iter().enumerate() {
            let noise = Create { workflow, name: format!("{workflow}-{turn}"), then: Then::Completed };
            let (one, others) = tokio::join!(
                drive(served.address, 1, until, work(&format!("beside-{workflow}"))),
                drive(served.address, LOUD, until, noise),
            );
            calm[place + 1].add(one);
            loud[place].add(others);
        }
    }
    let [mut alone, mut beside_nodes, mut beside_surfaces] = calm;
    let [mut nodes, mut surfaces] = loud;
    table.title(&format!("One client's runs, next to {LOUD} clients whose runs have seven nodes"));
    table.plain("alone", &rate(&mut alone));
    table.plain("next to nodes that do nothing", &rate(&mut beside_nodes));
    table.plain("    rate of these runs", &rate(&mut nodes));
    let ratio = beside_surfaces.whole.p50().as_secs_f64() / beside_nodes.whole.p50().as_secs_f64();
    let of = "relative to nodes that do nothing, at p50";
    table.limited(
        "next to nodes that use surfaces",
        &rate(&mut beside_surfaces),
        ratio,
        of,
        Limit::AtMost(MOST),
    );
    table.plain("    rate of these runs", &rate(&mut surfaces));
}
