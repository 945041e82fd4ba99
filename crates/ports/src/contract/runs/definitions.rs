//! Workflow definitions.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{Tenant, WorkflowId};

use super::{Law, bytes, commit};
use crate::runs::{Change, RunStore};

pub(super) const LAWS: &[Law] = &[
    (
        "definitions are kept by digest and the newest is found by id",
        definitions_are_kept_by_digest_and_the_newest_is_found_by_id,
    ),
    (
        "workflows are found by what their newest document contains",
        workflows_are_found_by_what_their_newest_document_contains,
    ),
];

fn definitions_are_kept_by_digest_and_the_newest_is_found_by_id(store: &dyn RunStore) {
    let put = |text: &str| Change::PutDefinition {
        tenant: Tenant::new("acme"),
        workflow_id: WorkflowId::new("w"),
        digest: Digest::of_bytes(text.as_bytes()),
        document: bytes(text),
        at: Timestamp(1),
    };
    commit(store, [put("one")]).unwrap();
    commit(store, [put("two")]).unwrap();
    let (one, two) = (Digest::of_bytes(b"one"), Digest::of_bytes(b"two"));
    assert_eq!(
        store.definition(&Tenant::new("acme"), &WorkflowId::new("w")).wait().unwrap(),
        Some((two, bytes("two")))
    );
    assert_eq!(
        store.definition_by_digest(one).wait().unwrap(),
        Some(bytes("one")),
        "a run may still be pinned to it"
    );
    assert_eq!(
        store.definitions(&Tenant::new("acme"), None, 9).wait().unwrap(),
        [(WorkflowId::new("w"), two)]
    );
}

fn workflows_are_found_by_what_their_newest_document_contains(store: &dyn RunStore) {
    let put = |tenant: &str, workflow: &str, text: &str| Change::PutDefinition {
        tenant: Tenant::new(tenant),
        workflow_id: WorkflowId::new(workflow),
        digest: Digest::of_bytes(text.as_bytes()),
        document: bytes(text),
        at: Timestamp(1),
    };
    commit(store, [put("a", "x", "has this"), put("a", "y", "has neither"), put("b", "w", "has that")])
        .unwrap();
    commit(store, [put("b", "v", "had this"), put("b", "v", "empty")]).unwrap();
    let find = |after, limit| store.workflows_containing(["this", "that"], after, limit).wait().unwrap();
    let (first, second) =
        ((Tenant::new("a"), WorkflowId::new("x")), (Tenant::new("b"), WorkflowId::new("w")));
    assert_eq!(find(None, 9), [first.clone(), second.clone()]);
    assert_eq!(find(None, 1), std::slice::from_ref(&first));
    assert_eq!(find(Some((&first.0, &first.1)), 9), [second]);
}
