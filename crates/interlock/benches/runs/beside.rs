//! What a run feels of others that use the surfaces as much as they can.
//!
//! Whatever is done beside a run shares the processors and the disk with it. So it is compared to the same run beside as many
//! others with as many nodes that use no surface: what is slower than that is slowed by the surfaces.

use serde_json::{Value, json};

use crate::client::{Outcome, Until, drive};
use crate::figures::{Limit, Table};
use crate::requests::{Create, Then};
use crate::servers::{Served, workflow};
use crate::{TURNS, rate};

/// Runs whose nodes change and search what the surfaces keep.
const SURFACES: &str = "bench-surfaces";
/// Runs with as many nodes, which do nothing.
const NODES: &str = "bench-nodes";
/// How many clients make them, without a pause.
const LOUD: u64 = 16;
/// The p50 of a run beside those who use surfaces, to that beside those who do not.
const MOST: f64 = 1.5;

/// What the neighbours run.
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

/// One client's runs that do nothing: alone, beside runs of nodes that do nothing, and beside runs that use surfaces.
pub(crate) async fn beside(table: &mut Table, served: &Served, until: Until) {
    let mut calm = [Outcome::default(), Outcome::default(), Outcome::default()];
    let mut loud = [Outcome::default(), Outcome::default()];
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
    table.title(&format!("One client's runs, beside {LOUD} clients whose runs have seven nodes"));
    table.plain("alone", &rate(&mut alone));
    table.plain("beside nodes that do nothing", &rate(&mut beside_nodes));
    table.plain("    which came to", &rate(&mut nodes));
    let ratio = beside_surfaces.whole.p50().as_secs_f64() / beside_nodes.whole.p50().as_secs_f64();
    let of = "of beside nodes that do nothing, at p50";
    table.limited(
        "beside nodes that use surfaces",
        &rate(&mut beside_surfaces),
        ratio,
        of,
        Limit::AtMost(MOST),
    );
    table.plain("    which came to", &rate(&mut surfaces));
}
