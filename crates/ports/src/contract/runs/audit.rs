//! The audit log.

use canon::digest::Digest;
use flow::id::Tenant;
use flow::run::RunStatus;

use super::{Law, append, bytes, commit};
use crate::runs::{Change, RunStore};

pub(super) const LAWS: &[Law] = &[
    ("the audit log is a chain for each tenant", the_audit_log_is_a_chain_for_each_tenant),
    (
        "a checkpoint is written once and found by its entry",
        a_checkpoint_is_written_once_and_found_by_its_entry,
    ),
];

fn the_audit_log_is_a_chain_for_each_tenant(store: &dyn RunStore) {
    let entry = |tenant: &str, text: &str| Change::Audit { tenant: Tenant::new(tenant), entry: bytes(text) };
    commit(store, [entry("acme", r#"{"a":1}"#), entry("other", r#"{"b":1}"#)]).unwrap();
    // A refused commit takes no place in the chain.
    commit(store, [entry("acme", r#"{"lost":1}"#), append("nowhere", 0, 0, RunStatus::Running)]).unwrap_err();
    commit(store, [entry("acme", r#"{"a":2}"#)]).unwrap();
    commit(store, [entry("acme", r#"{"a":3}"#)]).unwrap();
    let entries = store.audit(&Tenant::new("acme"), 0, u64::MAX, 10).wait().unwrap();
    assert_eq!(entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(entries[0].previous, Digest::of_bytes(b""));
    assert_eq!(entries[1].previous, entries[0].link());
    assert_eq!(entries[2].previous, entries[1].link());
    assert_eq!(store.audit(&Tenant::new("acme"), 1, 1, 10).wait().unwrap(), entries[1..2]);
}

fn a_checkpoint_is_written_once_and_found_by_its_entry(store: &dyn RunStore) {
    let put = |tenant: &str, at_sequence, text: &str| Change::PutAuditCheckpoint {
        tenant: Tenant::new(tenant),
        at_sequence,
        document: bytes(text),
    };
    assert_eq!(store.audit_end(&Tenant::new("acme")).wait().unwrap(), None);
    let entry = || Change::Audit { tenant: Tenant::new("acme"), entry: bytes("{}") };
    commit(store, [entry(), entry()]).unwrap();
    assert_eq!(store.audit_end(&Tenant::new("acme")).wait().unwrap(), Some(1));
    assert_eq!(store.audit_end(&Tenant::new("other")).wait().unwrap(), None);
    commit(store, [put("acme", 9, "nine"), put("acme", 4, "four"), put("other", 5, "theirs")]).unwrap();
    commit(store, [put("acme", 4, "forged")]).unwrap();
    let four_and_nine = [(4, bytes("four")), (9, bytes("nine"))];
    assert_eq!(store.audit_checkpoints(&Tenant::new("acme"), 0, u64::MAX, 10).wait().unwrap(), four_and_nine);
    assert_eq!(store.audit_checkpoints(&Tenant::new("acme"), 5, 9, 10).wait().unwrap(), four_and_nine[1..]);
    assert_eq!(store.audit_checkpoints(&Tenant::new("acme"), 0, 9, 1).wait().unwrap(), four_and_nine[..1]);
    assert_eq!(store.audit_checkpoint_before(&Tenant::new("acme"), 4).wait().unwrap(), None);
    assert_eq!(
        store.audit_checkpoint_before(&Tenant::new("acme"), 9).wait().unwrap(),
        Some(four_and_nine[0].clone())
    );
    assert_eq!(
        store.audit_checkpoint_before(&Tenant::new("acme"), u64::MAX).wait().unwrap(),
        Some(four_and_nine[1].clone())
    );
}
