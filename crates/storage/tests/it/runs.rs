//! What every store of runs has to keep, as functions that take a store, and what SQLite has to keep besides.

use std::sync::Arc;
use std::sync::mpsc::channel;

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{ArtifactId, EffectId, RunId, SubscriptionId, Tenant, WorkflowId};
use flow::run::RunStatus;
use flow::store::{Answer, AnswerKey, Change, Commit, CommitError, RunFilter, RunStore};
use storage::sqlite::{OpenError, SqliteRuns};
use tempfile::TempDir;

fn commit(store: &dyn RunStore, changes: impl IntoIterator<Item = Change>) -> Result<(), CommitError> {
    let (sender, receiver) = channel();
    let done = Box::new(move |result| sender.send(result).unwrap());
    store.commit(Commit { changes: changes.into_iter().collect() }, done);
    receiver.recv().unwrap()
}

fn bytes(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

fn create(run_id: &str, tenant: &str, scope: Option<&str>) -> Change {
    Change::CreateRun {
        run_id: RunId::new(run_id),
        tenant: Tenant::new(tenant),
        workflow_id: WorkflowId::new("w"),
        genesis: bytes("{}"),
        scope_id: scope.map(Into::into),
        exclusive: scope.is_some(),
        parent_run_id: run_id.split_once('/').map(|(parent, _)| RunId::new(parent)),
        tags: vec!["t".into(), "t".into()],
        created_at: Timestamp(1),
    }
}

fn append(run_id: &str, first: u64, last: u64, status: RunStatus) -> Change {
    let lines: Vec<_> = (first..=last).map(|sequence| format!("{{\"sequence\":{sequence}}}")).collect();
    Change::Append {
        run_id: RunId::new(run_id),
        first,
        last,
        events: bytes(&lines.join("\n")),
        status,
        snapshot: bytes(&format!("{{\"runId\":\"{run_id}\",\"last\":{last}}}")),
        at: Timestamp(2),
    }
}

fn a_run_is_read_as_it_was_committed(store: &dyn RunStore) {
    commit(store, [create("run", "acme", None), append("run", 0, 2, RunStatus::Running)]).unwrap();
    commit(store, [append("run", 3, 3, RunStatus::Completed)]).unwrap();
    let run = store.run(Some(&Tenant::new("acme")), &RunId::new("run")).unwrap().unwrap();
    assert_eq!(
        (run.status, run.next_sequence, &*run.snapshot),
        (RunStatus::Completed, 4, &*bytes(r#"{"runId":"run","last":3}"#))
    );
    let ranges = |from, events, size| -> Vec<_> {
        let found = store.appends(&RunId::new("run"), from, events, size).unwrap();
        found.iter().map(|append| (append.first, append.last)).collect()
    };
    assert_eq!(ranges(0, 100, 1 << 20), [(0, 2), (3, 3)]);
    assert_eq!(ranges(2, 100, 1 << 20), [(0, 2), (3, 3)]);
    assert_eq!(ranges(3, 100, 1 << 20), [(3, 3)]);
    assert_eq!(ranges(4, 100, 1 << 20), []);
    assert_eq!(ranges(0, 1, 1 << 20), [(0, 2)], "at least one append, whatever the bounds");
    assert_eq!(ranges(0, 100, 1), [(0, 2)]);
}

fn another_tenant_finds_nothing(store: &dyn RunStore) {
    commit(store, [create("mine", "acme", None), append("mine", 0, 0, RunStatus::Running)]).unwrap();
    assert!(store.run(Some(&Tenant::new("other")), &RunId::new("mine")).unwrap().is_none());
    assert!(store.run(None, &RunId::new("mine")).unwrap().is_some(), "the host itself asks without a tenant");
    assert!(store.runs(&Tenant::new("other"), &RunFilter::default(), 10).unwrap().is_empty());
    assert!(store.definition(&Tenant::new("other"), &WorkflowId::new("w")).unwrap().is_none());
    assert!(store.webhooks(&Tenant::new("other")).unwrap().is_empty());
    assert!(store.audit(&Tenant::new("other"), 0, u64::MAX, 10).unwrap().is_empty());
}

fn sequences_are_dense_and_a_refused_commit_leaves_no_trace(store: &dyn RunStore) {
    let moved = Err(CommitError::Moved { run_id: RunId::new("dense") });
    commit(store, [create("dense", "acme", None), append("dense", 0, 1, RunStatus::Running)]).unwrap();
    for first in [0, 1, 3] {
        let timer = Change::SetTimer { run_id: RunId::new("dense"), key: "k".into(), at: Timestamp(5) };
        assert_eq!(
            commit(store, [timer, append("dense", first, first, RunStatus::Failed)]),
            moved,
            "{first}"
        );
    }
    assert_eq!(store.run(None, &RunId::new("dense")).unwrap().unwrap().status, RunStatus::Running);
    assert_eq!(store.next_timer().unwrap(), None, "the change before the refused one is gone with it");
    assert_eq!(
        commit(store, [append("unknown", 0, 0, RunStatus::Running)]),
        Err(CommitError::Moved { run_id: RunId::new("unknown") })
    );
    let exists = Err(CommitError::RunExists { run_id: RunId::new("dense") });
    assert_eq!(commit(store, [create("dense", "acme", None)]), exists);
}

fn one_run_of_a_scope_at_a_time(store: &dyn RunStore) {
    commit(store, [create("first", "acme", Some("s")), append("first", 0, 0, RunStatus::Running)]).unwrap();
    let active = Err(CommitError::ScopeActive { active_run_id: RunId::new("first") });
    assert_eq!(commit(store, [create("second", "acme", Some("s"))]), active);
    commit(store, [create("elsewhere", "other", Some("s"))]).unwrap();
    commit(store, [append("first", 1, 1, RunStatus::Cancelled)]).unwrap();
    commit(store, [create("second", "acme", Some("s"))]).unwrap();
}

fn a_key_is_answered_once(store: &dyn RunStore) {
    let key = AnswerKey {
        tenant: Tenant::new("acme"),
        endpoint: "POST /v1/runs".into(),
        key: Digest::of_bytes(b"k"),
    };
    let answer = |body: &str| Answer {
        request: Digest::of_bytes(b"r"),
        status: 201,
        body: bytes(body),
        at: Timestamp(3),
    };
    let put = |body: &str| Change::PutAnswer { key: key.clone(), answer: answer(body) };
    assert_eq!(store.answer(&key).unwrap(), None);
    commit(store, [create("keyed", "acme", None), put("one")]).unwrap();
    assert_eq!(commit(store, [create("keyed-2", "acme", None), put("two")]), Err(CommitError::KeyTaken));
    assert!(store.run(None, &RunId::new("keyed-2")).unwrap().is_none());
    assert_eq!(store.answer(&key).unwrap(), Some(answer("one")));
    let other = AnswerKey { tenant: Tenant::new("other"), ..key };
    assert_eq!(store.answer(&other).unwrap(), None);
}

fn runs_are_listed_newest_first_and_by_what_is_asked_for(store: &dyn RunStore) {
    let statuses = [RunStatus::Completed, RunStatus::Failed, RunStatus::Running, RunStatus::Completed];
    for (number, status) in statuses.into_iter().enumerate() {
        let run_id = format!("listed-{number}");
        commit(store, [create(&run_id, "lister", None), append(&run_id, 0, 0, status)]).unwrap();
    }
    let list = |filter: RunFilter, limit| -> Vec<String> {
        let found = store.runs(&Tenant::new("lister"), &filter, limit).unwrap();
        let id = |snapshot: &[u8]| {
            serde_json::from_slice::<serde_json::Value>(snapshot).unwrap()["runId"].to_string()
        };
        found.iter().map(|run| id(&run.snapshot).replace(['"'], "").replace("listed-", "")).collect()
    };
    let all = RunFilter::default;
    assert_eq!(list(all(), 10), ["3", "2", "1", "0"]);
    assert_eq!(list(all(), 2), ["3", "2"]);
    let places: Vec<_> =
        store.runs(&Tenant::new("lister"), &all(), 2).unwrap().iter().map(|run| run.place).collect();
    assert_eq!(list(RunFilter { before: Some(places[1]), ..all() }, 10), ["1", "0"]);
    assert_eq!(list(RunFilter { status: Some(RunStatus::Completed), ..all() }, 10), ["3", "0"]);
    assert_eq!(list(RunFilter { status: Some(RunStatus::Running), ..all() }, 10), ["2"]);
    assert_eq!(list(RunFilter { workflow_id: Some(WorkflowId::new("w")), ..all() }, 1), ["3"]);
    assert_eq!(list(RunFilter { workflow_id: Some(WorkflowId::new("v")), ..all() }, 1), [""; 0]);
    assert_eq!(list(RunFilter { tag: Some("t".into()), status: Some(RunStatus::Failed), ..all() }, 9), ["1"]);
    assert_eq!(list(RunFilter { tag: Some("u".into()), ..all() }, 9), [""; 0]);
}

fn a_run_is_listed_as_waiting_for_as_long_as_it_waits(store: &dyn RunStore) {
    use RunStatus::{Completed, Running, WaitingApproval, WaitingExternal, WaitingInput};
    let tenant = Tenant::new("waiter");
    let count = |filter: &RunFilter| store.runs(&tenant, filter, 10).unwrap().len();
    let waiting = RunFilter { waiting: true, ..RunFilter::default() };
    let steps = [Running, WaitingApproval, WaitingInput, Running, WaitingExternal, Completed];
    for (number, status) in (0..).zip(steps) {
        let begins = (number == 0).then(|| create("waits", "waiter", None));
        commit(store, begins.into_iter().chain([append("waits", number, number, status)])).unwrap();
        assert_eq!(count(&waiting), usize::from(status.is_waiting()), "{status}");
        assert_eq!(count(&RunFilter { status: Some(status), ..RunFilter::default() }), 1, "{status}");
    }
    commit(store, [create("begins", "waiter", None), append("begins", 0, 0, WaitingInput)]).unwrap();
    let other = RunFilter { workflow_id: Some(WorkflowId::new("v")), ..waiting.clone() };
    let tagged = RunFilter { tag: Some("t".into()), ..waiting.clone() };
    assert_eq!((count(&waiting), count(&other), count(&tagged)), (1, 0, 1));
    assert!(store.runs(&Tenant::new("another"), &waiting, 10).unwrap().is_empty());
}

fn timers_come_in_the_order_of_their_moments(store: &dyn RunStore) {
    let set =
        |run: &str, at| Change::SetTimer { run_id: RunId::new(run), key: "k".into(), at: Timestamp(at) };
    commit(store, [set("b", 20), set("a", 30), set("a", 10)]).unwrap();
    assert_eq!(store.next_timer().unwrap().unwrap().at, Timestamp(10), "set again, it has one moment");
    let due = |at| {
        store.due_timers(Timestamp(at), 10).unwrap().into_iter().map(|timer| timer.run_id).collect::<Vec<_>>()
    };
    assert_eq!(due(9), [""; 0]);
    assert_eq!(due(20), ["a", "b"]);
    commit(store, [Change::ClearTimer { run_id: RunId::new("a"), key: "k".into() }]).unwrap();
    commit(store, [Change::ClearTimer { run_id: RunId::new("a"), key: "k".into() }]).unwrap();
    assert_eq!(due(99), ["b"]);
}

fn an_effect_is_claimed_once(store: &dyn RunStore) {
    let claim =
        || Change::ClaimActivity { id: EffectId::new("x"), run_id: RunId::new("r"), at: Timestamp(1) };
    assert_eq!(store.activity(&EffectId::new("x")).unwrap(), None);
    commit(store, [claim()]).unwrap();
    assert_eq!(store.activity(&EffectId::new("x")).unwrap(), Some(None));
    assert_eq!(commit(store, [claim()]), Err(CommitError::ActivityClaimed));
    for outcome in ["1", "2"] {
        commit(store, [Change::FinishActivity { id: EffectId::new("x"), outcome: bytes(outcome) }]).unwrap();
    }
    assert_eq!(
        store.activity(&EffectId::new("x")).unwrap(),
        Some(Some(bytes("1"))),
        "the first outcome counts"
    );
}

fn a_message_is_claimed_once_with_its_run(store: &dyn RunStore) {
    let claim = |tenant: &str, run: &str| Change::ClaimMessage {
        tenant: Tenant::new(tenant),
        message_id: "m".into(),
        run_id: RunId::new(run),
    };
    commit(store, [create("by-m", "acme", None), claim("acme", "by-m")]).unwrap();
    let again = commit(store, [create("by-m-again", "acme", None), claim("acme", "by-m-again")]);
    assert_eq!(again, Err(CommitError::MessageClaimed));
    assert_eq!(store.run(None, &RunId::new("by-m-again")).unwrap(), None, "nothing of the commit is there");
    commit(store, [claim("other", "r")]).unwrap();
    let forget = || Change::ForgetMessage { tenant: Tenant::new("acme"), message_id: "m".into() };
    commit(store, [forget()]).unwrap();
    commit(store, [forget()]).unwrap();
    commit(store, [claim("acme", "r")]).unwrap();
}

fn a_trigger_moves_only_from_where_it_is(store: &dyn RunStore) {
    let moved = |from: Option<&str>, to: &str| Change::MoveListener {
        tenant: Tenant::new("acme"),
        workflow_id: WorkflowId::new("w"),
        consumer: "c".into(),
        from: from.map(Into::into),
        to: to.into(),
    };
    let place = || store.listener_place(&Tenant::new("acme"), &WorkflowId::new("w"), "c").unwrap();
    assert_eq!(commit(store, [moved(Some("1"), "2")]), Err(CommitError::ListenerMoved));
    assert_eq!(place(), None);
    commit(store, [moved(None, "1")]).unwrap();
    assert_eq!(commit(store, [moved(None, "1")]), Err(CommitError::ListenerMoved));
    assert_eq!(commit(store, [moved(Some("0"), "2")]), Err(CommitError::ListenerMoved));
    commit(store, [moved(Some("1"), "2")]).unwrap();
    assert_eq!(place().as_deref(), Some("2"));
    assert_eq!(store.listener_place(&Tenant::new("other"), &WorkflowId::new("w"), "c").unwrap(), None);
}

fn workflows_that_listen_are_listed_page_by_page(store: &dyn RunStore) {
    let set = |tenant: &str, workflow: &str, is_listening| Change::SetListening {
        tenant: Tenant::new(tenant),
        workflow_id: WorkflowId::new(workflow),
        is_listening,
    };
    let all = [("a", "x"), ("a", "y"), ("b", "w")];
    for (tenant, workflow) in all {
        commit(store, [set(tenant, workflow, true), set(tenant, workflow, true)]).unwrap();
    }
    let owned = |found: &[(&str, &str)]| -> Vec<(Tenant, WorkflowId)> {
        found.iter().map(|(tenant, workflow)| (Tenant::new(*tenant), WorkflowId::new(*workflow))).collect()
    };
    assert_eq!(store.listening(None, 2).unwrap(), owned(&all[..2]));
    assert_eq!(
        store.listening(Some((&Tenant::new("a"), &WorkflowId::new("y"))), 2).unwrap(),
        owned(&all[2..])
    );
    commit(store, [set("a", "x", false), set("a", "z", false)]).unwrap();
    assert_eq!(store.listening(None, 9).unwrap(), owned(&all[1..]));
}

fn the_audit_log_is_a_chain_for_each_tenant(store: &dyn RunStore) {
    let entry = |tenant: &str, text: &str| Change::Audit { tenant: Tenant::new(tenant), entry: bytes(text) };
    commit(store, [entry("acme", r#"{"a":1}"#), entry("other", r#"{"b":1}"#)]).unwrap();
    // A refused commit takes no place in the chain.
    commit(store, [entry("acme", r#"{"lost":1}"#), append("nowhere", 0, 0, RunStatus::Running)]).unwrap_err();
    commit(store, [entry("acme", r#"{"a":2}"#)]).unwrap();
    commit(store, [entry("acme", r#"{"a":3}"#)]).unwrap();
    let entries = store.audit(&Tenant::new("acme"), 0, u64::MAX, 10).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(entries[0].previous, Digest::of_bytes(b""));
    assert_eq!(entries[1].previous, entries[0].link());
    assert_eq!(entries[2].previous, entries[1].link());
    assert_eq!(store.audit(&Tenant::new("acme"), 1, 1, 10).unwrap(), entries[1..2]);
}

fn a_checkpoint_is_written_once_and_found_by_its_entry(store: &dyn RunStore) {
    let put = |tenant: &str, at_sequence, text: &str| Change::PutCheckpoint {
        tenant: Tenant::new(tenant),
        at_sequence,
        document: bytes(text),
    };
    assert_eq!(store.audit_end(&Tenant::new("acme")).unwrap(), None);
    let entry = || Change::Audit { tenant: Tenant::new("acme"), entry: bytes("{}") };
    commit(store, [entry(), entry()]).unwrap();
    assert_eq!(store.audit_end(&Tenant::new("acme")).unwrap(), Some(1));
    assert_eq!(store.audit_end(&Tenant::new("other")).unwrap(), None);
    commit(store, [put("acme", 9, "nine"), put("acme", 4, "four"), put("other", 5, "theirs")]).unwrap();
    commit(store, [put("acme", 4, "forged")]).unwrap();
    let four_and_nine = [(4, bytes("four")), (9, bytes("nine"))];
    assert_eq!(store.checkpoints(&Tenant::new("acme"), 0, u64::MAX, 10).unwrap(), four_and_nine);
    assert_eq!(store.checkpoints(&Tenant::new("acme"), 5, 9, 10).unwrap(), four_and_nine[1..]);
    assert_eq!(store.checkpoints(&Tenant::new("acme"), 0, 9, 1).unwrap(), four_and_nine[..1]);
    assert_eq!(store.checkpoint_before(&Tenant::new("acme"), 4).unwrap(), None);
    assert_eq!(store.checkpoint_before(&Tenant::new("acme"), 9).unwrap(), Some(four_and_nine[0].clone()));
    assert_eq!(
        store.checkpoint_before(&Tenant::new("acme"), u64::MAX).unwrap(),
        Some(four_and_nine[1].clone())
    );
}

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
        store.definition(&Tenant::new("acme"), &WorkflowId::new("w")).unwrap(),
        Some((two, bytes("two")))
    );
    assert_eq!(
        store.definition_by_digest(one).unwrap(),
        Some(bytes("one")),
        "a run may still be pinned to it"
    );
    assert_eq!(store.definitions(&Tenant::new("acme"), None, 9).unwrap(), [(WorkflowId::new("w"), two)]);
}

fn what_belongs_to_a_run_is_found_by_it(store: &dyn RunStore) {
    commit(
        store,
        [create("parent", "acme", None), create("parent/a", "acme", None), create("parent/b", "acme", None)],
    )
    .unwrap();
    assert_eq!(store.children(&RunId::new("parent")).unwrap(), ["parent/a", "parent/b"]);
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
    assert_eq!(store.artifact(&RunId::new("parent"), &ArtifactId::new("x")).unwrap(), Some(bytes("{}")));
    assert_eq!(store.artifact(&RunId::new("parent"), &ArtifactId::new("y")).unwrap(), None);
    assert_eq!(
        store.annotations(&RunId::new("parent")).unwrap(),
        [bytes("b"), bytes("a")],
        "in the order in which they were made"
    );
}

fn an_artifact_is_replaced_only_by_who_has_seen_what_it_holds(store: &dyn RunStore) {
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
    let told = |action: &str| Change::Audit { tenant: Tenant::new("acme"), entry: bytes(action) };
    for (artifact, seen) in [("x", "two"), ("x", ""), ("y", "one"), ("y", "")] {
        let refused = commit(store, [told("no"), replace(artifact, seen, "three")]);
        assert_eq!(refused, Err(CommitError::ArtifactChanged), "{artifact} {seen:?}");
    }
    assert_eq!(store.artifact(&RunId::new("run"), &ArtifactId::new("x")).unwrap(), Some(bytes("one")));
    assert_eq!(store.artifact(&RunId::new("run"), &ArtifactId::new("y")).unwrap(), None);
    assert!(
        store.audit(&Tenant::new("acme"), 0, u64::MAX, 9).unwrap().is_empty(),
        "what is refused is refused whole"
    );
    // Many saw the same; they all go before the first of them is answered, and one is in time.
    let (sender, receiver) = channel();
    for number in 0..8 {
        let sender = sender.clone();
        let done = Box::new(move |result| sender.send((number, result)).unwrap());
        store.commit(Commit { changes: vec![replace("x", "one", &format!("by {number}"))] }, done);
    }
    let answers: Vec<(i32, Result<(), CommitError>)> = receiver.iter().take(8).collect();
    let in_time: Vec<_> = answers.iter().filter(|(_, result)| result.is_ok()).collect();
    assert_eq!(in_time.len(), 1, "{answers:?}");
    assert_eq!(
        store.artifact(&RunId::new("run"), &ArtifactId::new("x")).unwrap(),
        Some(bytes(&format!("by {}", in_time[0].0)))
    );
    let late = answers.iter().filter(|(_, result)| *result == Err(CommitError::ArtifactChanged));
    assert_eq!(late.count(), 7);
}

fn subscriptions_and_their_deliveries(store: &dyn RunStore) {
    let put = Change::PutWebhook {
        tenant: Tenant::new("acme"),
        webhook_id: SubscriptionId::new("h"),
        document: bytes("{}"),
    };
    let delivery = |id: &str, due, attempts| Change::PutDelivery {
        delivery_id: id.into(),
        webhook_id: SubscriptionId::new("h"),
        due: Timestamp(due),
        attempts,
        body: bytes(id),
    };
    commit(store, [put, delivery("late", 20, 0), delivery("soon", 10, 0), delivery("soon", 12, 1)]).unwrap();
    let due: Vec<_> = store.due_deliveries(Timestamp(30), 10).unwrap();
    assert_eq!(
        due.iter().map(|due| (&*due.delivery_id, due.attempts)).collect::<Vec<_>>(),
        [("soon", 1), ("late", 0)]
    );
    assert_eq!(store.next_delivery().unwrap(), Some(Timestamp(12)));
    assert_eq!(store.webhook(&SubscriptionId::new("h")).unwrap(), Some((Tenant::new("acme"), bytes("{}"))));
    assert_eq!(store.webhook(&SubscriptionId::new("g")).unwrap(), None);
    let bury =
        || Change::BuryDelivery { delivery_id: "soon".into(), reason: "refused".into(), at: Timestamp(13) };
    commit(store, [bury()]).unwrap();
    commit(store, [bury()]).unwrap();
    let buried = store.buried_deliveries(&SubscriptionId::new("h"), 10).unwrap();
    let told: Vec<_> =
        buried.iter().map(|(buried, why)| (&*buried.delivery_id, buried.attempts, &**why)).collect();
    assert_eq!(told, [("soon", 1, "refused")], "once, however often it is given up");
    assert_eq!(store.due_deliveries(Timestamp(30), 10).unwrap().len(), 1, "and it is due no more");
    for number in 0..1005 {
        let id = format!("given-up-{number}");
        let bury = Change::BuryDelivery { delivery_id: id.clone(), reason: "r".into(), at: Timestamp(14) };
        commit(store, [delivery(&id, 5, 8), bury]).unwrap();
    }
    let buried = store.buried_deliveries(&SubscriptionId::new("h"), 2000).unwrap();
    assert_eq!((buried.len(), &*buried[0].0.delivery_id), (1000, "given-up-1004"), "the newest are kept");
    let delete = |tenant: &str| Change::DeleteWebhook {
        tenant: Tenant::new(tenant),
        webhook_id: SubscriptionId::new("h"),
    };
    assert_eq!(commit(store, [delete("other")]), Err(CommitError::NoSuchWebhook));
    commit(store, [delete("acme")]).unwrap();
    assert!(store.due_deliveries(Timestamp(30), 10).unwrap().is_empty(), "they end with their subscription");
    assert!(store.buried_deliveries(&SubscriptionId::new("h"), 10).unwrap().is_empty());
    assert_eq!(store.next_delivery().unwrap(), None);
}

fn open_runs_are_found_page_by_page(store: &dyn RunStore) {
    let before: Vec<_> = store.open_runs(None, 1000).unwrap();
    for run_id in ["o-1", "o-2", "o-3"] {
        commit(store, [create(run_id, "acme", None)]).unwrap();
    }
    commit(store, [append("o-2", 0, 0, RunStatus::Completed)]).unwrap();
    let mut after: Vec<_> = store.open_runs(None, 1000).unwrap();
    after.retain(|run| !before.contains(run));
    assert_eq!(after, ["o-1", "o-3"]);
    assert_eq!(store.open_runs(Some(&RunId::new("o-1")), 1).unwrap(), ["o-3"]);
}

fn runs_of_one_commit_are_created_and_taken_further(store: &dyn RunStore) {
    let changes = [
        create("m-1", "acme", None),
        create("m-2", "acme", None),
        create("m-3", "acme", None),
        append("m-2", 0, 4, RunStatus::Running),
        append("m-1", 0, 0, RunStatus::Running),
        append("m-2", 5, 6, RunStatus::Completed),
    ];
    commit(store, changes).unwrap();
    let known =
        |run_id| store.run(None, &RunId::new(run_id)).unwrap().map(|run| (run.status, run.next_sequence));
    assert_eq!(known("m-1"), Some((RunStatus::Running, 1)));
    assert_eq!(known("m-2"), Some((RunStatus::Completed, 7)));
    assert_eq!(known("m-3"), Some((RunStatus::Pending, 0)));
    assert_eq!(store.open_runs(Some(&RunId::new("m-")), 9).unwrap(), ["m-1", "m-3"]);
    assert_eq!(store.appends(&RunId::new("m-2"), 0, 99, 1 << 20).unwrap().len(), 2);
    // The first events of a run are its first, in whichever commit they come.
    let moved = |run_id: &str| Err(CommitError::Moved { run_id: RunId::new(run_id) });
    let twice = [
        create("m-4", "acme", None),
        append("m-4", 0, 0, RunStatus::Running),
        append("m-4", 0, 0, RunStatus::Completed),
    ];
    assert_eq!(commit(store, twice), moved("m-4"));
    assert_eq!(
        commit(store, [create("m-5", "acme", None), append("m-5", 1, 1, RunStatus::Running)]),
        moved("m-5")
    );
    assert_eq!(
        commit(store, [append("m-6", 0, 0, RunStatus::Running), create("m-6", "acme", None)]),
        moved("m-6")
    );
    for run_id in ["m-4", "m-5", "m-6"] {
        assert_eq!(known(run_id), None, "{run_id}");
    }
}

fn an_ended_run_is_deleted_with_what_belongs_to_it(store: &dyn RunStore) {
    let note = |run_id: &str| Change::PutAnnotation {
        run_id: RunId::new(run_id),
        annotation_id: format!("ann-{run_id}"),
        document: bytes("{}"),
    };
    let effect = |run_id: &str| Change::ClaimActivity {
        id: EffectId::new(format!("act-{run_id}")),
        run_id: RunId::new(run_id),
        at: Timestamp(1),
    };
    for run_id in ["d-1", "d-2"] {
        commit(store, [create(run_id, "acme", None), note(run_id), effect(run_id)]).unwrap();
    }
    commit(store, [append("d-1", 0, 0, RunStatus::Completed), append("d-2", 0, 0, RunStatus::Running)])
        .unwrap();
    let ages = store.aged_runs(0, 10).unwrap();
    let known: Vec<_> = ages.iter().map(|run| (run.run_id.as_str(), run.has_ended)).collect();
    assert_eq!(known, [("d-1", true), ("d-2", false)]);
    assert_eq!(store.aged_runs(ages[0].place, 10).unwrap(), ages[1..]);
    assert_eq!(store.aged_run(&RunId::new("d-2")).unwrap().as_ref(), ages.get(1));
    let delete = |run_id: &str| Change::DeleteRun { run_id: RunId::new(run_id) };
    commit(store, [delete("d-1"), delete("d-2"), delete("d-3")]).unwrap();
    assert_eq!(store.run(None, &RunId::new("d-1")).unwrap(), None);
    assert!(store.appends(&RunId::new("d-1"), 0, 10, 1 << 20).unwrap().is_empty());
    assert!(store.annotations(&RunId::new("d-1")).unwrap().is_empty());
    let tagged = RunFilter { tag: Some("t".into()), ..RunFilter::default() };
    assert_eq!(store.runs(&Tenant::new("acme"), &tagged, 10).unwrap().len(), 1);
    assert_eq!(store.activity(&EffectId::new("act-d-1")).unwrap(), None);
    assert!(store.run(None, &RunId::new("d-2")).unwrap().is_some(), "one that is under way is left alone");
    assert_eq!(store.annotations(&RunId::new("d-2")).unwrap().len(), 1);
    assert_eq!(store.activity(&EffectId::new("act-d-2")).unwrap(), Some(None));
}

fn the_state_of_a_run_is_replaced_and_deleted_with_it(store: &dyn RunStore) {
    let set = |run_id: &str, checkpoint: Option<&str>| Change::SetRunCheckpoint {
        run_id: RunId::new(run_id),
        checkpoint: checkpoint.map(bytes),
    };
    let found = |run_id: &str| store.run_checkpoint(&RunId::new(run_id)).unwrap();
    for run_id in ["s-1", "s-2", "s-3"] {
        commit(store, [create(run_id, "acme", None), append(run_id, 0, 0, RunStatus::Completed)]).unwrap();
    }
    assert_eq!(found("s-1"), None);
    commit(store, [set("s-1", Some("first")), set("s-2", Some("two")), set("no-run", Some("x"))]).unwrap();
    commit(store, [set("s-1", Some("second")), set("s-3", None)]).unwrap();
    assert_eq!(found("s-1"), Some(bytes("second")));
    assert_eq!(found("no-run"), None);
    commit(store, [set("s-1", None), Change::DeleteRun { run_id: RunId::new("s-2") }]).unwrap();
    assert_eq!((found("s-1"), found("s-2")), (None, None));
    // What is refused leaves nothing.
    commit(store, [set("s-3", Some("x")), append("s-3", 7, 7, RunStatus::Running)]).unwrap_err();
    assert_eq!(found("s-3"), None);
}

fn the_oldest_answers_are_deleted_first(store: &dyn RunStore) {
    let key = |name: &str| AnswerKey {
        tenant: Tenant::new("acme"),
        endpoint: "e".into(),
        key: Digest::of_bytes(name.as_bytes()),
    };
    let put = |name: &str, at: u64| {
        let request = Digest::of_bytes(b"r");
        let answer = Answer { request, status: 200, body: bytes("{}"), at: Timestamp(at) };
        Change::PutAnswer { key: key(name), answer }
    };
    assert_eq!(store.oldest_answer().unwrap(), None);
    commit(store, [put("c", 30), put("a", 10), put("b", 20)]).unwrap();
    assert_eq!(store.oldest_answer().unwrap(), Some(Timestamp(10)));
    commit(store, [Change::DeleteAnswers { before: Timestamp(30), limit: 1 }]).unwrap();
    assert_eq!(store.answer(&key("a")).unwrap(), None);
    assert!(store.answer(&key("b")).unwrap().is_some());
    commit(store, [Change::DeleteAnswers { before: Timestamp(30), limit: 9 }]).unwrap();
    assert_eq!(store.oldest_answer().unwrap(), Some(Timestamp(30)), "the moment itself is not before it");
    commit(store, [put("a", 40)]).unwrap();
}

type Law = (&'static str, fn(&dyn RunStore));

const CONTRACT: [Law; 23] = [
    ("a run is read as it was committed", a_run_is_read_as_it_was_committed),
    ("another tenant finds nothing", another_tenant_finds_nothing),
    ("sequences are dense", sequences_are_dense_and_a_refused_commit_leaves_no_trace),
    ("one run of a scope at a time", one_run_of_a_scope_at_a_time),
    ("a key is answered once", a_key_is_answered_once),
    ("runs are listed newest first", runs_are_listed_newest_first_and_by_what_is_asked_for),
    ("a run is listed as waiting while it waits", a_run_is_listed_as_waiting_for_as_long_as_it_waits),
    ("timers are in order", timers_come_in_the_order_of_their_moments),
    ("an effect is claimed once", an_effect_is_claimed_once),
    ("a message is claimed once with its run", a_message_is_claimed_once_with_its_run),
    ("a trigger moves only from where it is", a_trigger_moves_only_from_where_it_is),
    ("workflows that listen are listed page by page", workflows_that_listen_are_listed_page_by_page),
    ("the audit log is a chain", the_audit_log_is_a_chain_for_each_tenant),
    ("checkpoints", a_checkpoint_is_written_once_and_found_by_its_entry),
    ("definitions by digest and id", definitions_are_kept_by_digest_and_the_newest_is_found_by_id),
    ("what belongs to a run", what_belongs_to_a_run_is_found_by_it),
    ("replaced artifacts", an_artifact_is_replaced_only_by_who_has_seen_what_it_holds),
    ("subscriptions and deliveries", subscriptions_and_their_deliveries),
    ("open runs page by page", open_runs_are_found_page_by_page),
    ("runs of one commit", runs_of_one_commit_are_created_and_taken_further),
    ("an ended run is deleted whole", an_ended_run_is_deleted_with_what_belongs_to_it),
    ("the state of a run", the_state_of_a_run_is_replaced_and_deleted_with_it),
    ("old answers are deleted", the_oldest_answers_are_deleted_first),
];

fn database() -> (TempDir, SqliteRuns) {
    let folder = TempDir::new().unwrap();
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    (folder, store)
}

#[test]
fn sqlite_keeps_the_contract_of_runs() {
    for (law, check) in CONTRACT {
        let (_folder, store) = database();
        let kept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&store)));
        assert!(kept.is_ok(), "{law}");
    }
}

#[test]
fn what_was_committed_is_there_when_it_is_opened_again() {
    let (folder, store) = database();
    commit(&store, [create("run", "acme", None), append("run", 0, 0, RunStatus::Completed)]).unwrap();
    commit(&store, [Change::Audit { tenant: Tenant::new("acme"), entry: bytes("{}") }]).unwrap();
    drop(store);
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    assert_eq!(store.run(None, &RunId::new("run")).unwrap().unwrap().status, RunStatus::Completed);
    commit(&store, [Change::Audit { tenant: Tenant::new("acme"), entry: bytes("{}") }]).unwrap();
    let entries = store.audit(&Tenant::new("acme"), 0, 9, 9).unwrap();
    assert_eq!(entries[1].previous, entries[0].link(), "the chain goes on");
}

#[test]
fn many_commits_share_a_transaction_and_one_that_is_refused_harms_no_other() {
    let (_folder, store) = database();
    let (sender, receiver) = channel();
    for number in 0..500 {
        let run_id = format!("r-{}", number % 400);
        let sender = sender.clone();
        let done = Box::new(move |result: Result<(), CommitError>| sender.send(result.is_ok()).unwrap());
        store.commit(
            Commit {
                changes: vec![create(&run_id, "acme", None), append(&run_id, 0, 0, RunStatus::Completed)],
            },
            done,
        );
    }
    let accepted = receiver.iter().take(500).filter(|accepted| *accepted).count();
    assert_eq!(accepted, 400);
    assert_eq!(store.runs(&Tenant::new("acme"), &RunFilter::default(), 1000).unwrap().len(), 400);
}

#[test]
fn closing_writes_what_was_handed_over() {
    let (folder, store) = database();
    for number in 0..50 {
        store
            .commit(Commit { changes: vec![create(&format!("r-{number}"), "acme", None)] }, Box::new(|_| ()));
    }
    drop(store);
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    assert_eq!(store.open_runs(None, 100).unwrap().len(), 50);
}

#[test]
fn a_key_that_another_process_used_is_taken_and_its_answer_is_found() {
    let (folder, store) = database();
    let elsewhere = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    let key = AnswerKey { tenant: Tenant::new("acme"), endpoint: "e".into(), key: Digest::of_bytes(b"k") };
    let put = |body: &str| {
        let answer =
            Answer { request: Digest::of_bytes(b"r"), status: 201, body: bytes(body), at: Timestamp(1) };
        Change::PutAnswer { key: key.clone(), answer }
    };
    commit(&elsewhere, [put("first")]).unwrap();
    assert_eq!(commit(&store, [put("second")]), Err(CommitError::KeyTaken));
    assert_eq!(store.answer(&key).unwrap().unwrap().body, bytes("first"));
    drop((store, elsewhere));
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    assert_eq!(store.answer(&key).unwrap().unwrap().body, bytes("first"), "and after a restart");
}

#[test]
fn closing_leaves_one_file() {
    let (folder, store) = database();
    commit(&store, [create("r", "acme", None)]).unwrap();
    assert!(store.run(None, &RunId::new("r")).unwrap().is_some(), "a reader is open");
    drop(store);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["runs.sqlite3"], "nothing is left in a log beside it");
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let (folder, store) = database();
    drop(store);
    let path = folder.path().join("runs.sqlite3");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = SqliteRuns::open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused:?}");
}

#[test]
fn a_backup_is_a_database_of_its_own() {
    let (folder, store) = database();
    commit(&store, [create("run", "acme", None), append("run", 0, 0, RunStatus::Completed)]).unwrap();
    let copy = folder.path().join("copy.sqlite3");
    store.back_up(&copy, &|_, _| ()).unwrap();
    commit(&store, [create("later", "acme", None)]).unwrap();
    let copy = SqliteRuns::open(&copy).unwrap();
    assert!(copy.run(None, &RunId::new("run")).unwrap().is_some());
    assert!(copy.run(None, &RunId::new("later")).unwrap().is_none());
}
