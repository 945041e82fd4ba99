//! Artifacts and annotations.

use canon::digest::Digest;
use flow::id::{ArtifactId, RunId, Tenant};

use super::{Law, bytes, commit, create};
use crate::runs::{Change, Commit, CommitError, RunStore};

pub(super) const LAWS: &[Law] = &[
    ("artifacts and annotations are found by their run", artifacts_and_annotations_are_found_by_their_run),
    ("an artifact is replaced only if it is unchanged", an_artifact_is_replaced_only_if_it_is_unchanged),
];

fn artifacts_and_annotations_are_found_by_their_run(store: &dyn RunStore) {
    commit(
        store,
        [create("parent", "acme", None), create("parent/a", "acme", None), create("parent/b", "acme", None)],
    )
    .unwrap();
    assert_eq!(store.children(&RunId::new("parent")).wait().unwrap(), ["parent/a", "parent/b"]);
    let artifact = Change::PutArtifact {
        run_id: RunId::new("parent"),
        artifact_id: ArtifactId::new("x"),
        document: bytes("{}"),
    };
    let note = |id: &str| Change::PutAnnotation {
        run_id: RunId::new("parent"),
        annotation_id: id.into(),
        document: bytes(id),
    };
    commit(store, [artifact, note("b"), note("a")]).unwrap();
    assert_eq!(
        store.artifact(&RunId::new("parent"), &ArtifactId::new("x")).wait().unwrap(),
        Some(bytes("{}"))
    );
    assert_eq!(store.artifact(&RunId::new("parent"), &ArtifactId::new("y")).wait().unwrap(), None);
    assert_eq!(
        store.annotations(&RunId::new("parent")).wait().unwrap(),
        [bytes("b"), bytes("a")],
        "oldest first"
    );
}

fn an_artifact_is_replaced_only_if_it_is_unchanged(store: &dyn RunStore) {
    let put = Change::PutArtifact {
        run_id: RunId::new("run"),
        artifact_id: ArtifactId::new("x"),
        document: bytes("one"),
    };
    commit(store, [create("run", "acme", None), put]).unwrap();
    let replace = |artifact: &str, seen: &str, document: &str| Change::ReplaceArtifact {
        run_id: RunId::new("run"),
        artifact_id: ArtifactId::new(artifact),
        seen: Digest::of_bytes(seen.as_bytes()),
        document: bytes(document),
    };
    let audit = |action: &str| Change::Audit { tenant: Tenant::new("acme"), entry: bytes(action) };
    for (artifact, seen) in [("x", "two"), ("x", ""), ("y", "one"), ("y", "")] {
        let refused = commit(store, [audit("no"), replace(artifact, seen, "three")]);
        assert_eq!(refused, Err(CommitError::ArtifactChanged), "{artifact} {seen:?}");
    }
    assert_eq!(store.artifact(&RunId::new("run"), &ArtifactId::new("x")).wait().unwrap(), Some(bytes("one")));
    assert_eq!(store.artifact(&RunId::new("run"), &ArtifactId::new("y")).wait().unwrap(), None);
    assert!(
        store.audit(&Tenant::new("acme"), 0, u64::MAX, 9).wait().unwrap().is_empty(),
        "a refused commit leaves no audit entry"
    );
    // All of them start before the first result is known; one of them wins.
    let started: Vec<_> = (0..8)
        .map(|number| {
            let changes = vec![replace("x", "one", &format!("by {number}"))];
            (number, store.commit(Commit { changes }))
        })
        .collect();
    let answers: Vec<_> = started.into_iter().map(|(number, commit)| (number, commit.wait())).collect();
    let in_time: Vec<_> = answers.iter().filter(|(_, result)| result.is_ok()).collect();
    assert_eq!(in_time.len(), 1, "{answers:?}");
    assert_eq!(
        store.artifact(&RunId::new("run"), &ArtifactId::new("x")).wait().unwrap(),
        Some(bytes(&format!("by {}", in_time[0].0)))
    );
    let late = answers.iter().filter(|(_, result)| *result == Err(CommitError::ArtifactChanged));
    assert_eq!(late.count(), 7);
}
