//! Effects.

use canon::time::Timestamp;
use flow::id::{EffectId, RunId};

use super::{Law, bytes, commit};
use crate::runs::{Change, ClaimedEffect, CommitError, RunStore};

pub(super) const LAWS: &[Law] = &[("an effect is claimed once", an_effect_is_claimed_once)];

fn an_effect_is_claimed_once(store: &dyn RunStore) {
    let claim = || Change::ClaimEffect { id: EffectId::new("x"), run_id: RunId::new("r"), at: Timestamp(1) };
    assert_eq!(store.effect(&EffectId::new("x")).wait().unwrap(), None);
    commit(store, [claim()]).unwrap();
    assert_eq!(store.effect(&EffectId::new("x")).wait().unwrap(), Some(ClaimedEffect::Unfinished));
    assert_eq!(commit(store, [claim()]), Err(CommitError::EffectClaimed));
    for outcome in ["1", "2"] {
        commit(store, [Change::FinishEffect { id: EffectId::new("x"), outcome: bytes(outcome) }]).unwrap();
    }
    assert_eq!(
        store.effect(&EffectId::new("x")).wait().unwrap(),
        Some(ClaimedEffect::Finished(bytes("1"))),
        "the first outcome counts"
    );
}
