//! Timers.

use canon::time::Timestamp;
use flow::id::RunId;

use super::{Law, commit};
use crate::runs::{Change, RunStore};

pub(super) const LAWS: &[Law] = &[("timers are ordered by time", timers_are_ordered_by_time)];

fn timers_are_ordered_by_time(store: &dyn RunStore) {
    let set =
        |run: &str, at| Change::SetTimer { run_id: RunId::new(run), key: "k".into(), at: Timestamp(at) };
    commit(store, [set("b", 20), set("a", 30), set("a", 10)]).unwrap();
    assert_eq!(
        store.next_timer().wait().unwrap().unwrap().at,
        Timestamp(10),
        "setting a timer again moves it"
    );
    let due = |at| {
        store
            .due_timers(Timestamp(at), 10)
            .wait()
            .unwrap()
            .into_iter()
            .map(|timer| timer.run_id)
            .collect::<Vec<_>>()
    };
    assert_eq!(due(9), [""; 0]);
    assert_eq!(due(20), ["a", "b"]);
    commit(store, [Change::ClearTimer { run_id: RunId::new("a"), key: "k".into() }]).unwrap();
    commit(store, [Change::ClearTimer { run_id: RunId::new("a"), key: "k".into() }]).unwrap();
    assert_eq!(due(99), ["b"]);
}
