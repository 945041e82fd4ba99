//! Replies for idempotency keys.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{RunId, Tenant};

use super::{Law, bytes, commit, create};
use crate::runs::{Change, CommitError, RecordedReply, ReplyKey, RunStore};

pub(super) const LAWS: &[Law] = &[
    ("a reply is recorded once", a_reply_is_recorded_once),
    ("the oldest replies are deleted first", the_oldest_replies_are_deleted_first),
];

fn a_reply_is_recorded_once(store: &dyn RunStore) {
    let key = ReplyKey {
        tenant: Tenant::new("acme"),
        endpoint: "POST /v1/runs".into(),
        key: Digest::of_bytes(b"k"),
    };
    let reply = |body: &str| RecordedReply {
        request: Digest::of_bytes(b"r"),
        status: 201,
        body: bytes(body),
        at: Timestamp(3),
    };
    let put = |body: &str| Change::RecordReply { key: key.clone(), reply: reply(body) };
    assert_eq!(store.reply(&key).wait().unwrap(), None);
    commit(store, [create("keyed", "acme", None), put("one")]).unwrap();
    assert_eq!(commit(store, [create("keyed-2", "acme", None), put("two")]), Err(CommitError::KeyTaken));
    assert!(store.run(None, &RunId::new("keyed-2")).wait().unwrap().is_none());
    assert_eq!(store.reply(&key).wait().unwrap(), Some(reply("one")));
    let other = ReplyKey { tenant: Tenant::new("other"), ..key };
    assert_eq!(store.reply(&other).wait().unwrap(), None);
}

fn the_oldest_replies_are_deleted_first(store: &dyn RunStore) {
    let key = |name: &str| ReplyKey {
        tenant: Tenant::new("acme"),
        endpoint: "e".into(),
        key: Digest::of_bytes(name.as_bytes()),
    };
    let put = |name: &str, at: u64| {
        let request = Digest::of_bytes(b"r");
        let reply = RecordedReply { request, status: 200, body: bytes("{}"), at: Timestamp(at) };
        Change::RecordReply { key: key(name), reply }
    };
    assert_eq!(store.oldest_reply().wait().unwrap(), None);
    commit(store, [put("c", 30), put("a", 10), put("b", 20)]).unwrap();
    assert_eq!(store.oldest_reply().wait().unwrap(), Some(Timestamp(10)));
    commit(store, [Change::DeleteReplies { before: Timestamp(30), limit: 1 }]).unwrap();
    assert_eq!(store.reply(&key("a")).wait().unwrap(), None);
    assert!(store.reply(&key("b")).wait().unwrap().is_some());
    commit(store, [Change::DeleteReplies { before: Timestamp(30), limit: 9 }]).unwrap();
    assert_eq!(store.oldest_reply().wait().unwrap(), Some(Timestamp(30)), "the limit is exclusive");
    commit(store, [put("a", 40)]).unwrap();
}
