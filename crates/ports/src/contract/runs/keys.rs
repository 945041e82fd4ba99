//! API keys.

use canon::digest::Digest;

use super::{Law, bytes, commit};
use crate::runs::{Change, RunStore};

pub(super) const LAWS: &[Law] = &[("a key is replaced by its hash", a_key_is_replaced_by_its_hash)];

fn a_key_is_replaced_by_its_hash(store: &dyn RunStore) {
    let put = |name: &str, text: &str| Change::PutApiKey {
        hash: Digest::of_bytes(name.as_bytes()),
        document: bytes(text),
    };
    let (one, two) = (Digest::of_bytes(b"one"), Digest::of_bytes(b"two"));
    assert_eq!(store.api_key(one).wait().unwrap(), None);
    commit(store, [put("one", "first"), put("two", "other")]).unwrap();
    commit(store, [put("one", "second")]).unwrap();
    assert_eq!(store.api_key(one).wait().unwrap(), Some(bytes("second")));
    let mut all = vec![(one, bytes("second")), (two, bytes("other"))];
    all.sort_by_key(|(hash, _)| hash.to_hex());
    assert_eq!(store.api_keys().wait().unwrap(), all);
}
