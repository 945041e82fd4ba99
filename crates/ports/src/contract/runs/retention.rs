//! Expired runs.

use canon::time::Timestamp;
use flow::id::{EffectId, NodeId, RunId, Tenant};
use flow::run::RunStatus;

use super::{Law, append, bytes, commit, create};
use crate::runs::{Change, ClaimedEffect, Reached, RunFilter, RunStore};

pub(super) const LAWS: &[Law] =
    &[("an ended run is deleted with what belongs to it", an_ended_run_is_deleted_with_what_belongs_to_it)];

fn an_ended_run_is_deleted_with_what_belongs_to_it(store: &dyn RunStore) {
    let note = |run_id: &str| Change::PutAnnotation {
        run_id: RunId::new(run_id),
        annotation_id: format!("ann-{run_id}"),
        document: bytes("{}"),
    };
    let effect = |run_id: &str| Change::ClaimEffect {
        id: EffectId::new(format!("act-{run_id}")),
        run_id: RunId::new(run_id),
        at: Timestamp(1),
        reached: Some(Reached { node_id: NodeId::new("n"), provider_key: None }),
    };
    let again = |run_id: &str| Change::RetryEffect {
        id: EffectId::new(format!("act-{run_id}")),
        attempt: 2,
        at: Timestamp(2),
    };
    for run_id in ["d-1", "d-2"] {
        commit(store, [create(run_id, "acme", None), note(run_id), effect(run_id), again(run_id)]).unwrap();
    }
    commit(store, [append("d-1", 0, 0, RunStatus::Completed), append("d-2", 0, 0, RunStatus::Running)])
        .unwrap();
    let ages = store.aged_runs(None, 10).wait().unwrap();
    assert_eq!(ages.next, None, "the page is not full");
    let ages = ages.runs;
    let known: Vec<_> = ages.iter().map(|run| (run.run_id.as_str(), run.has_ended)).collect();
    assert_eq!(known, [("d-1", true), ("d-2", false)]);
    let first = store.aged_runs(None, 1).wait().unwrap();
    assert_eq!(first.runs, ages[..1]);
    let second = store.aged_runs(first.next.as_ref(), 10).wait().unwrap();
    assert_eq!((second.runs, second.next), (ages[1..].to_vec(), None));
    assert_eq!(store.aged_run(&RunId::new("d-2")).wait().unwrap().as_ref(), ages.get(1));
    let delete = |run_id: &str| Change::DeleteRun { run_id: RunId::new(run_id) };
    commit(store, [delete("d-1"), delete("d-2"), delete("d-3")]).unwrap();
    assert_eq!(store.run(None, &RunId::new("d-1")).wait().unwrap(), None);
    assert!(store.appends(&RunId::new("d-1"), 0, 10, 1 << 20).wait().unwrap().is_empty());
    assert!(store.annotations(&RunId::new("d-1")).wait().unwrap().is_empty());
    let tagged = RunFilter { tag: Some("t".into()), ..RunFilter::default() };
    assert_eq!(store.runs(&Tenant::new("acme"), &tagged, 10).wait().unwrap().runs.len(), 1);
    assert_eq!(store.effect(&EffectId::new("act-d-1")).wait().unwrap(), None);
    assert!(
        store.run(None, &RunId::new("d-2")).wait().unwrap().is_some(),
        "a run that has not ended is not deleted"
    );
    assert_eq!(store.annotations(&RunId::new("d-2")).wait().unwrap().len(), 1);
    assert_eq!(
        store.effect(&EffectId::new("act-d-2")).wait().unwrap(),
        Some(ClaimedEffect::Unfinished { attempt: 2 })
    );
    let attempts = |run_id: &str| store.attempts(&RunId::new(run_id), None, 10).wait().unwrap().len();
    assert_eq!((attempts("d-1"), attempts("d-2")), (0, 2));
}
