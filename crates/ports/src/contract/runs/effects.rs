//! Effects.

use canon::time::Timestamp;
use flow::id::{EffectId, NodeId, RunId};

use super::{Law, bytes, commit};
use crate::runs::{
    AttemptPosition, AttemptState, Change, ClaimedEffect, CommitError, Reached, RunStore, StoredAttempt,
};

pub(super) const LAWS: &[Law] = &[
    ("an effect is claimed once", an_effect_is_claimed_once),
    ("a further attempt follows the last one", a_further_attempt_follows_the_last_one),
    ("the attempts of a run are listed in order", the_attempts_of_a_run_are_listed_in_order),
];

fn claim(id: &str, run_id: &str, at: u64) -> Change {
    Change::ClaimEffect {
        id: EffectId::new(id),
        run_id: RunId::new(run_id),
        at: Timestamp(at),
        reached: None,
    }
}

fn outward(id: &str, run_id: &str, at: u64) -> Change {
    let reached = Some(Reached { node_id: NodeId::new("n"), provider_key: Some(id.to_owned()) });
    Change::ClaimEffect { id: EffectId::new(id), run_id: RunId::new(run_id), at: Timestamp(at), reached }
}

fn retry(id: &str, attempt: u32, at: u64) -> Change {
    Change::RetryEffect { id: EffectId::new(id), attempt, at: Timestamp(at) }
}

fn release(id: &str) -> Change {
    Change::ReleaseEffect { id: EffectId::new(id) }
}

fn finish(id: &str, outcome: &str) -> Change {
    Change::FinishEffect { id: EffectId::new(id), outcome: bytes(outcome) }
}

fn effect(store: &dyn RunStore, id: &str) -> Option<ClaimedEffect> {
    store.effect(&EffectId::new(id)).wait().unwrap()
}

fn an_effect_is_claimed_once(store: &dyn RunStore) {
    assert_eq!(effect(store, "x"), None);
    commit(store, [claim("x", "r", 1)]).unwrap();
    assert_eq!(effect(store, "x"), Some(ClaimedEffect::Unfinished { attempt: 1 }));
    assert_eq!(commit(store, [claim("x", "r", 1)]), Err(CommitError::EffectClaimed));
    for outcome in ["1", "2"] {
        commit(store, [finish("x", outcome)]).unwrap();
    }
    let first = Some(ClaimedEffect::Finished(bytes("1")));
    assert_eq!(effect(store, "x"), first, "the first outcome counts");
}

fn a_further_attempt_follows_the_last_one(store: &dyn RunStore) {
    assert_eq!(commit(store, [retry("x", 2, 1)]), Err(CommitError::EffectClaimed), "it was never claimed");
    commit(store, [claim("x", "r", 1)]).unwrap();
    assert_eq!(commit(store, [retry("x", 3, 2)]), Err(CommitError::EffectClaimed), "the second is missing");
    commit(store, [retry("x", 2, 2)]).unwrap();
    assert_eq!(commit(store, [retry("x", 2, 3)]), Err(CommitError::EffectClaimed), "two hosts: one wins");
    assert_eq!(commit(store, [claim("x", "r", 1)]), Err(CommitError::EffectClaimed));
    assert_eq!(effect(store, "x"), Some(ClaimedEffect::Unfinished { attempt: 2 }));
    commit(store, [release("x"), retry("x", 3, 4), finish("x", "1")]).unwrap();
    assert_eq!(effect(store, "x"), Some(ClaimedEffect::Finished(bytes("1"))));
    assert_eq!(commit(store, [retry("x", 4, 5)]), Err(CommitError::EffectClaimed), "it has a result");
    commit(store, [finish("x", "2"), release("x")]).unwrap();
    assert_eq!(effect(store, "x"), Some(ClaimedEffect::Finished(bytes("1"))));
}

fn the_attempts_of_a_run_are_listed_in_order(store: &dyn RunStore) {
    commit(store, [outward("b", "r", 2), claim("inner", "r", 2), outward("a", "r", 2)]).unwrap();
    commit(store, [outward("late", "r", 9), outward("other", "r2", 1)]).unwrap();
    commit(store, [release("b")]).unwrap();
    commit(store, [retry("b", 2, 5)]).unwrap();
    commit(store, [finish("b", "{}"), finish("inner", "{}")]).unwrap();
    let listed = |id: &str, attempt: u32, at: u64, state: AttemptState| StoredAttempt {
        position: AttemptPosition { at: Timestamp(at), id: EffectId::new(id), attempt },
        reached: Reached { node_id: NodeId::new("n"), provider_key: Some(id.to_owned()) },
        state,
    };
    let expected = [
        listed("a", 1, 2, AttemptState::Claimed),
        listed("b", 1, 2, AttemptState::Released),
        listed("b", 2, 5, AttemptState::Completed),
        listed("late", 1, 9, AttemptState::Claimed),
    ];
    let run = RunId::new("r");
    assert_eq!(store.attempts(&run, None, 10).wait().unwrap(), expected);
    let mut paged = Vec::<StoredAttempt>::new();
    loop {
        let after = paged.last().map(|last| last.position.clone());
        let page = store.attempts(&run, after.as_ref(), 1).wait().unwrap();
        if page.is_empty() {
            break;
        }
        assert_eq!(page.len(), 1);
        paged.extend(page);
    }
    assert_eq!(paged, expected);
    assert!(store.attempts(&RunId::new("r3"), None, 10).wait().unwrap().is_empty());
}
