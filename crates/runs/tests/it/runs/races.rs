//! Concurrent operations: one wins, and all agree on which.

use std::sync::Arc;

use flow::id::{InterruptId, NodeId, RunId, Tenant};
use flow::run::RunStatus;
use ports::runs::prelude::*;
use runs::create::Creation;
use runs::{ApiCode, Direct, Refusal, RefusalKind, StoredReply};
use serde_json::{Value, json};
use system::secrets::{SecretError, SecretValue, Secrets};

use super::{
    Host, Setup, begin, body, caller, create, events, keyed, kinds, open, snapshot, status, to_the_end,
    until, workflow,
};
use crate::runs::requests::{new_fork, new_run, recorded, written};
use crate::wait::Wait as _;

/// Makes ten concurrent calls.
async fn ten<T: Send + 'static, F: Future<Output = Result<T, Refusal>> + Send + 'static>(
    call: impl Fn(usize) -> F,
) -> Vec<Result<T, Refusal>> {
    let tasks: Vec<_> = (0..10).map(|number| tokio::spawn(call(number))).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_who_answer_one_approval_one_is_heard() {
    let host = Host::start().await;
    for _ in 0..5 {
        let run_id = begin(&host.runs, "gated").await;
        let results = ten(|_| {
            let (runs, run_id) = (host.runs.clone(), run_id.clone());
            async move {
                runs.commands()
                    .resolve(
                        &caller("acme"),
                        &run_id,
                        &NodeId::new("gate"),
                        json!({"action": "accept"}),
                        Direct,
                    )
                    .await
            }
        })
        .await;
        let heard = results.iter().filter(|result| result.is_ok()).count();
        let late = results.iter().filter(
            |result| matches!(result, Err(refusal) if refusal.code == ApiCode::InterruptAlreadyResolved),
        );
        assert_eq!((heard, late.count()), (1, 9), "{results:?}");
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!(kinds(&events).iter().filter(|kind| **kind == "interrupt.resolved").count(), 1);
        assert_eq!(status(&host.runs, &run_id), "completed");
    }
}

#[tokio::test]
async fn an_answer_to_an_interrupt_that_is_over_does_not_reach_the_next_of_its_node() {
    let host = Host::start().await;
    let ask = |prompt: &str| json!({"kind": "ask-user", "prompt": prompt});
    let plan = json!({"mockDispatchPlan": [ask("One?"), ask("Two?"), {"kind": "terminate"}]});
    let nodes = json!([
        ["plan", "core.orchestrator.supervisor", plan],
        ["ask", "core.dispatch", {"askUserRouting": "clarification"}],
    ]);
    let edges = json!([
        {"id": "1", "sourceNodeId": "plan", "targetNodeId": "ask"},
        {"id": "2", "sourceNodeId": "ask", "targetNodeId": "plan"},
    ]);
    let twice = workflow("twice", &nodes, &edges, &json!([]));
    let acme = caller("acme");
    host.runs.definitions().register(&acme, &twice).await.unwrap();
    let run_id = begin(&host.runs, "twice").await;
    let open = || host.runs.queries().open_interrupts(&acme, &run_id).wait().unwrap().remove(0);
    let answer = |id: InterruptId, text: &str| {
        let (runs, by, run_id) = (host.runs.clone(), acme.clone(), run_id.clone());
        let value = json!({"answers": {"answer": text}});
        async move { runs.commands().resolve_interrupt(&by, &run_id, &NodeId::new("ask"), &id, value).await }
    };
    let first = open();
    answer(first.id.clone(), "first").await.unwrap();
    let second = open();
    assert_eq!((first.node_id.as_str(), second.node_id.as_str()), ("ask", "ask"));
    assert_ne!(first.id, second.id, "the node asks something else by now");
    let before = events(&host.runs, "acme", &run_id);
    let refused = answer(first.id, "late").await.unwrap_err();
    assert_eq!(refused.code, ApiCode::InterruptAlreadyResolved);
    assert_eq!(open(), second, "what the node waits for is as it was");
    assert_eq!(events(&host.runs, "acme", &run_id), before);
    // Callers of another tenant do not find it, whatever they name.
    let theirs = host
        .runs
        .commands()
        .resolve_interrupt(&caller("other"), &run_id, &NodeId::new("ask"), &second.id, json!({}))
        .await;
    assert_eq!(theirs.unwrap_err().code, ApiCode::RunNotFound);
    answer(second.id, "second").await.unwrap();
    to_the_end(&host.runs, &run_id).await;
    assert_eq!(status(&host.runs, &run_id), "completed");
}

/// A run that waits for an external event, and the token for it.
async fn expecting(host: &Host) -> (RunId, String) {
    let data = json!({"eventType": "shop.paid", "correlation": {"order": 7}});
    let nodes = json!([["wait", "core.interrupt", {"kind": "external-event", "data": data}]]);
    let expecting = workflow("expecting", &nodes, &json!([]), &json!([]));
    host.runs.definitions().register(&caller("acme"), &expecting).await.unwrap();
    let run_id = begin(&host.runs, "expecting").await;
    let token = snapshot(&host.runs, &caller("acme"), &run_id)["interrupt"]["interruptToken"].clone();
    (run_id, token.as_str().unwrap().to_owned())
}

/// How often an action is in the audit log.
fn audited(host: &Host, action: &str) -> usize {
    let entries = host.store.audit(&Tenant::new("acme"), 0, 1000, 1000).wait().unwrap();
    let reported = entries.iter().map(|entry| serde_json::from_slice::<Value>(&entry.entry).unwrap());
    reported.filter(|entry| entry["action"] == action).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_deliveries_of_one_event_are_recorded_once_and_a_token_is_used_up() {
    let host = Host::start().await;
    for round in 1..=5 {
        let (run_id, token) = expecting(&host).await;
        let results = ten(|number| {
            let (runs, run_id, token) = (host.runs.clone(), run_id.clone(), token.clone());
            let event = json!({"order": 7, "paid": true});
            // Half of them with the run, half with the token, and two with their own keys.
            let keyed = (number < 2)
                .then(|| keyed(&caller("acme"), "resolve", &format!("{run_id}-{number}"), &event));
            async move {
                match number % 2 {
                    0 => {
                        runs.commands()
                            .resolve(
                                &caller("acme"),
                                &run_id,
                                &NodeId::new("wait"),
                                event,
                                written(keyed.as_ref()),
                            )
                            .await
                    }
                    _ => runs.commands().resolve_token(&token, event, written(keyed.as_ref())).await,
                }
            }
        })
        .await;
        for (number, result) in results.into_iter().enumerate() {
            match result {
                Ok(reply) => {
                    let shown = body(&reply);
                    assert_eq!((&shown["runId"], &shown["nodeId"]), (&json!(run_id), &json!("wait")));
                }
                // A token is used up by the first answer.
                Err(refusal) => {
                    assert_eq!((refusal.code, number % 2), (ApiCode::InterruptAlreadyResolved, 1));
                }
            }
        }
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!(kinds(&events).iter().filter(|kind| **kind == "interrupt.resolved").count(), 1);
        assert_eq!(audited(&host, "interrupt.resolve"), round);
        for other in [json!({"order": 7, "paid": false}), json!({"order": 7}), json!(null)] {
            let by_run = host
                .runs
                .commands()
                .resolve(&caller("acme"), &run_id, &NodeId::new("wait"), other.clone(), Direct)
                .await;
            let by_token = host.runs.commands().resolve_token(&token, other, Direct).await;
            for refused in [by_run, by_token] {
                assert_eq!(refused.unwrap_err().code, ApiCode::InterruptAlreadyResolved);
            }
        }
        assert_eq!(super::events(&host.runs, "acme", &run_id), events, "nothing was added");
        assert_eq!(audited(&host, "interrupt.resolve"), round);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_event_with_a_secret_is_recognized_although_the_log_does_not_contain_the_secret() {
    struct One;
    impl Secrets for One {
        fn resolve(&self, _: &Tenant, _: &str) -> Result<SecretValue, SecretError> {
            Ok(SecretValue::new("a-secret-that-is-known".into()))
        }
        fn known(&self) -> Vec<(Tenant, String)> {
            vec![(Tenant::new("acme"), "one".into())]
        }
    }
    let setup = || Setup { secrets: Arc::new(One), ..Setup::default() };
    let host = Host::with(setup()).await;
    let (run_id, token) = expecting(&host).await;
    let event = json!({"order": 7, "note": "a-secret-that-is-known"});
    let first = host.runs.commands().resolve_token(&token, event.clone(), Direct).await.unwrap();
    to_the_end(&host.runs, &run_id).await;
    let (again, _) = open(host.folder.path(), setup());
    again.engine().recover().await.unwrap();
    for runs in [&host.runs, &again] {
        let by_run = runs
            .commands()
            .resolve(&caller("acme"), &run_id, &NodeId::new("wait"), event.clone(), Direct)
            .await
            .unwrap();
        assert_eq!(by_run, first);
        let by_token = runs.commands().resolve_token(&token, event.clone(), Direct).await;
        assert_eq!(by_token.unwrap_err().code, ApiCode::InterruptAlreadyResolved, "a token is used up");
    }
    assert!(!format!("{:?}", events(&again, "acme", &run_id)).contains("a-secret-that-is-known"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_an_answer_agree_on_how_the_run_ends() {
    let host = Host::start().await;
    for _ in 0..20 {
        let run_id = begin(&host.runs, "gated").await;
        let (runs, id) = (host.runs.clone(), run_id.clone());
        let cancel =
            tokio::spawn(async move { runs.commands().cancel(&caller("acme"), &id, None, Direct).await });
        let (runs, id) = (host.runs.clone(), run_id.clone());
        let answer = tokio::spawn(async move {
            runs.commands()
                .resolve(&caller("acme"), &id, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
                .await
        });
        let (cancel, answer) = (cancel.await.unwrap().unwrap(), answer.await.unwrap());
        let events = to_the_end(&host.runs, &run_id).await;
        let ended = events.last().unwrap()["type"].as_str().unwrap().to_owned();
        let ends = kinds(&events)
            .iter()
            .filter(|kind| ["run.completed", "run.failed", "run.cancelled"].contains(kind))
            .count();
        assert_eq!(ends, 1, "one end, and it is the last event");
        match answer {
            Ok(_) => assert_eq!(ended, "run.completed"),
            Err(refusal) => {
                assert!(
                    [RefusalKind::Conflict, RefusalKind::Gone].contains(&refusal.code.kind()),
                    "{refusal}"
                );
                assert_eq!(ended, "run.cancelled");
                assert_eq!(cancel, RunStatus::Cancelled);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_creations_with_one_key_are_one_run_and_with_ten_keys_ten() {
    let host = Host::start().await;
    let request = json!({"workflowId": "slow"});
    let create = |key: String| {
        let (runs, request) = (host.runs.clone(), request.clone());
        async move {
            let by = caller("acme");
            let keyed = keyed(&by, "POST /v1/runs", &key, &request);
            runs.commands().create(&by, new_run(&request), Creation::default(), recorded(&keyed)).await
        }
    };
    let ids = |results: Vec<Result<StoredReply, Refusal>>| {
        let mut ids: Vec<_> =
            results.into_iter().map(|result| body(&result.unwrap())["runId"].to_string()).collect();
        ids.sort();
        ids.dedup();
        ids.len()
    };
    assert_eq!(ids(ten(|_| create("one".into())).await), 1);
    assert_eq!(ids(ten(|number| create(format!("key-{number}"))).await), 10);
    assert_eq!(
        host.runs
            .queries()
            .list(&caller("acme"), &ports::runs::RunFilter::default(), 200)
            .await
            .unwrap()
            .runs
            .len(),
        11
    );
    let by = caller("acme");
    let other = json!({"workflowId": "chain"});
    let mismatch = keyed(&by, "POST /v1/runs", "one", &other);
    let refused = host
        .runs
        .commands()
        .create(&by, new_run(&other), Creation::default(), recorded(&mismatch))
        .await
        .unwrap_err();
    assert_eq!(refused.code, ApiCode::IdempotencyKeyMismatch);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_who_want_one_scope_one_gets_it() {
    let host = Host::start().await;
    let creation = Creation { exclusive: true, ..Creation::default() };
    let results = ten(|_| {
        let runs = host.runs.clone();
        async move {
            runs.commands()
                .create(
                    &caller("acme"),
                    new_run(&json!({"workflowId": "slow", "scopeId": "s"})),
                    creation,
                    Direct,
                )
                .await
        }
    })
    .await;
    let active = results
        .iter()
        .filter(|result| matches!(result, Err(refusal) if refusal.code == ApiCode::RunAlreadyActive));
    assert_eq!(active.count(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_an_active_run_is_its_beginning() {
    let host = Host::start().await;
    let by = caller("acme");
    for _ in 0..10 {
        let run_id = begin(&host.runs, "gated").await;
        let (runs, id) = (host.runs.clone(), run_id.clone());
        let forks = ten(move |_| {
            let (runs, id) = (runs.clone(), id.clone());
            async move {
                runs.commands()
                    .fork(&caller("acme"), &id, new_fork(&json!({"mode": "branch", "fromSeq": 3})), Direct)
                    .await
            }
        });
        let gate = NodeId::new("gate");
        let answer = host.runs.commands().resolve(&by, &run_id, &gate, json!({"action": "accept"}), Direct);
        let (forks, answer) = tokio::join!(forks, answer);
        answer.unwrap();
        let source = to_the_end(&host.runs, &run_id).await;
        for fork in forks {
            let fork = fork.unwrap().run_id;
            until(&host.runs, &fork, |event| event.sequence >= 3).await;
            let copied = events(&host.runs, "acme", &fork);
            for (copy, original) in copied.iter().zip(&source).take(3) {
                assert_eq!(copy["payload"], original["payload"]);
                assert_eq!((&copy["type"], &copy["sequence"]), (&original["type"], &original["sequence"]));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_disconnects_does_not_stop_the_effects() {
    let host = Host::start().await;
    let by = caller("acme");
    for polls in 1..6 {
        // The creation of a run with a child is dropped after a number of polls, like a server drops the request of a client that
        // disconnected. The created runs continue.
        let request = json!({"workflowId": "patient"});
        let mut creation =
            Box::pin(host.runs.commands().create(&by, new_run(&request), Creation::default(), Direct));
        for _ in 0..polls {
            let waker = std::task::Context::from_waker(std::task::Waker::noop());
            let mut waker = waker;
            if creation.as_mut().poll(&mut waker).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(creation);
    }
    // The writer processes commits in order: when this one is durable, so are the earlier ones.
    let last = create(&host.runs, &by, &json!({"workflowId": "patient"})).await;
    to_the_end(&host.runs, &last).await;
    let listed = host.runs.queries().list(&by, &ports::runs::RunFilter::default(), 200).await.unwrap().runs;
    for snapshot in listed {
        let snapshot: Value = serde_json::from_slice(&snapshot).unwrap();
        let run_id = snapshot["runId"].as_str().unwrap();
        to_the_end(&host.runs, &RunId::new(run_id)).await;
        assert_eq!(status(&host.runs, &RunId::new(run_id)), "completed");
    }
}
