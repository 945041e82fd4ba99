//! Two tenants on one host: neither can see, count or infer the other. Also keys.

use std::sync::Arc;

use flow::engine::DrainPolicy;
use flow::id::{ArtifactId, NodeId, RunId, SubscriptionId, Tenant, WorkflowId};
use ports::runs::{ApiKeys as _, RunFilter, RunLog as _, RunPage};
use proptest::prelude::*;
use runs::create::Creation;
use runs::keys::{self, ApiKey};
use runs::{ApiCode, Direct, Refusal, RefusalKind, Scope};
use serde_json::{Value, json};
use system::{ManualClock, SystemEntropy};

use super::nesting::until_status;
use super::{Host, Setup, body, caller, create};
use crate::runs::requests::{WireBody, new_fork, new_note, new_run, new_webhook, recorded};
use crate::wait::Wait as _;

/// All operations of a caller on a run, by name, with their results.
async fn ask_everything(
    host: &Host,
    tenant: &str,
    run_id: &RunId,
    webhook_id: &str,
) -> Vec<(&'static str, Result<Value, Refusal>)> {
    let (runs, by) = (&host.runs, caller(tenant));
    let accept = json!({"action": "accept"});
    let flag = json!({"signal": {"kind": "flag"}});
    vec![
        (
            "read",
            runs.queries()
                .read(&by, run_id)
                .await
                .map(|(snapshot, _)| serde_json::from_slice(&snapshot).unwrap()),
        ),
        ("follow", runs.queries().follow(&Tenant::new(tenant), run_id, 0).await.map(|_| Value::Null)),
        ("artifact", runs.artifacts().read(&by, run_id, &ArtifactId::new("a")).await.map(|_| Value::Null)),
        ("parent", runs.queries().parent(&by, run_id).await.map(|_| Value::Null)),
        ("difference", runs.queries().difference(&by, run_id, run_id).await.map(|_| Value::Null)),
        ("bundle", runs.queries().debug_bundle(&by, run_id, None).await),
        ("annotations", runs.annotations().list(&by, run_id).await.map(|notes| json!(notes))),
        ("annotate", reported(runs.annotations().add(&by, run_id, new_note(&flag), Direct).await)),
        (
            "fork",
            reported(runs.commands().fork(&by, run_id, new_fork(&json!({"mode": "replay"})), Direct).await),
        ),
        ("pause", reported(runs.commands().pause(&by, run_id, None, DrainPolicy::Immediate, Direct).await)),
        ("resume", reported(runs.commands().resume(&by, run_id, None, Direct).await)),
        (
            "resolve",
            reported(runs.commands().resolve(&by, run_id, &NodeId::new("gate"), accept, Direct).await),
        ),
        ("cancel", reported(runs.commands().cancel(&by, run_id, None, Direct).await)),
        (
            "delete webhook",
            runs.webhooks().delete(&by, &SubscriptionId::new(webhook_id), Direct).await.map(|()| Value::Null),
        ),
        ("workflow", runs.definitions().workflow(&by, &WorkflowId::new("theirs")).await.map(|_| Value::Null)),
        (
            "create",
            reported(
                runs.commands()
                    .create(&by, new_run(&json!({"workflowId": "theirs"})), Creation::default(), Direct)
                    .await,
            ),
        ),
    ]
}

fn reported(result: Result<impl WireBody, Refusal>) -> Result<Value, Refusal> {
    result.map(WireBody::reported)
}

/// The lists and counts of a tenant.
fn everything_listed(host: &Host, tenant: &str) -> Value {
    let (runs, by) = (&host.runs, caller(tenant));
    let RunPage { runs: listed, next } = runs.queries().list(&by, &RunFilter::default(), 200).wait().unwrap();
    let listed: Vec<Value> =
        listed.iter().map(|snapshot| serde_json::from_slice(snapshot).unwrap()).collect();
    let workflows: Vec<_> =
        runs.definitions().workflows(&by).wait().unwrap().into_iter().map(|(id, _)| id).collect();
    json!({
        "runs": listed,
        "more": next.is_some(),
        "workflows": workflows,
        "webhooks": runs.webhooks().list(&by).wait().unwrap().into_iter().map(|webhook| webhook.id).collect::<Vec<_>>(),
        "audit": format!("{:?}", runs.audit().verify(&by, None, None).wait().unwrap()),
    })
}

#[derive(Clone, Debug)]
enum Act {
    Create(&'static str),
    Cancel,
    Subscribe,
    BulkCancel,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        prop::sample::select(vec!["gated", "chain", "slow", "parent"]).prop_map(Act::Create),
        Just(Act::Cancel),
        Just(Act::Subscribe),
        Just(Act::BulkCancel),
    ];
    prop::collection::vec(act, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn the_actions_of_one_tenant_do_not_change_what_the_other_sees(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let host = Host::start().await;
            let acme = caller("acme");
            for workflow in super::workflows() {
                host.runs.definitions().register(&caller("other"), &workflow).await.unwrap();
            }
            create(&host.runs, &caller("other"), &json!({"workflowId": "gated", "scopeId": "s"})).await;
            let before = everything_listed(&host, "other");
            let mut mine = Vec::new();
            let mut hook = String::from("whk_none");
            let mut renamed = super::workflows()[0].clone();
            renamed["id"] = "theirs".into();
            host.runs.definitions().register(&acme, &renamed).await.unwrap();
            mine.push(create(&host.runs, &acme, &json!({"workflowId": "gated", "scopeId": "s"})).await);
            for act in acts {
                match act {
                    Act::Create(workflow_id) => {
                        let request = json!({"workflowId": workflow_id, "scopeId": "s", "tags": ["t"]});
                        let run_id = create(&host.runs, &acme, &request).await;
                        if workflow_id == "parent" {
                            // The child reports that it waits after it was created; the other tenant did not cause that change.
                            until_status(&host.runs, &run_id, "waiting-approval").await;
                        }
                        mine.push(run_id);
                    }
                    Act::Cancel => {
                        host.runs.commands().cancel(&acme, mine.last().unwrap(), None, Direct).await.unwrap();
                    }
                    Act::BulkCancel => {
                        host.runs.commands().cancel_many(&acme, &mine, None, Direct).await.unwrap();
                    }
                    Act::Subscribe => {
                        let request = json!({"url": "https://example.com/", "events": ["run.completed"]});
                        let registered = host.runs.webhooks().register(&acme, new_webhook(&request), Direct).await;
                        hook = registered.unwrap().id.as_str().to_owned();
                    }
                }
            }
            assert_eq!(everything_listed(&host, "other"), before);
            for run_id in &mine {
                let shown = host.store.run(None, run_id).wait().unwrap().unwrap();
                // Missing objects and those of another tenant cannot be distinguished.
                let (theirs, nobodys) =
                    (ask_everything(&host, "other", run_id, &hook).await, ask_everything(&host, "other", &RunId::new("run_x"), "whk_x").await);
                for ((name, theirs), (_, nobodys)) in theirs.into_iter().zip(nobodys) {
                    let (theirs, nobodys) = (theirs.unwrap_err(), nobodys.unwrap_err());
                    assert_eq!(theirs, nobodys, "{name}");
                    assert_eq!(theirs.code.kind(), RefusalKind::NotFound, "{name}");
                }
                let many = host.runs.commands().cancel_many(&caller("other"), std::slice::from_ref(run_id), None, Direct).await;
                let refused = many.unwrap().remove(0).unwrap_err();
                assert_eq!(refused.code, ApiCode::RunNotFound);
                assert_eq!(host.store.run(None, run_id).wait().unwrap().unwrap(), shown, "and nothing was changed");
            }
            // The same scope of another tenant is another scope.
            let creation = Creation { exclusive: true, ..Creation::default() };
            let refused = host.runs.commands().create(&caller("other"), new_run(&json!({"workflowId": "slow", "scopeId": "s"})), creation, Direct).await;
            let active = refused.unwrap_err().details["activeRunId"].clone();
            assert!(!mine.iter().any(|run_id| active == run_id.as_str()));
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_of_two_tenants_is_two_keys() {
    let host = Host::start().await;
    for workflow in super::workflows() {
        host.runs.definitions().register(&caller("other"), &workflow).await.unwrap();
    }
    let request = json!({"workflowId": "chain"});
    let mut ids = Vec::new();
    for tenant in ["acme", "other"] {
        let by = caller(tenant);
        let key = super::keyed(&by, "POST /v1/runs", "same", &request);
        let reply = host
            .runs
            .commands()
            .create(&by, new_run(&request), Creation::default(), recorded(&key))
            .await
            .unwrap();
        assert!(!reply.replayed);
        ids.push(body(&reply)["runId"].clone());
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_is_valid_for_a_while_and_its_successor_immediately() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let host = Host::with(Setup { clock: Arc::clone(&clock) as _, ..Setup::default() }).await;
    let old = keys::new_key(true, &SystemEntropy).unwrap();
    let known = ApiKey {
        id: "key_old".into(),
        tenant: Tenant::new("acme"),
        scopes: vec![Scope::RunsRead],
        test: true,
        created_at: 1_000_000,
        expires_at: Some(1_500_000),
        revoked_at: None,
        session: None,
    };
    host.runs.keys().put(keys::hash(&old), &known).await.unwrap();
    let by = caller("acme");
    let elsewhere = host.runs.keys().rotate(&caller("other"), keys::hash(&old), 10).await.unwrap_err();
    let unknown = host.runs.keys().rotate(&by, keys::hash("x"), 10).await.unwrap_err();
    assert_eq!(elsewhere, unknown, "keys of others are not there");
    clock.advance(100);
    let (new, key) = host.runs.keys().rotate(&by, keys::hash(&old), 1000).await.unwrap();
    assert_eq!(
        (key.scopes.clone(), key.test, key.expires_at),
        (vec![Scope::RunsRead], true, Some(1_500_100))
    );
    assert!(new.starts_with(keys::TEST_PREFIX) && new != old);
    for good in [&old, &new] {
        assert_eq!(host.runs.keys().authenticate(good).await.unwrap().tenant, "acme");
    }
    // Rotated again soon: the first expiry stays, and is not extended.
    host.runs.keys().rotate(&by, keys::hash(&old), 5000).await.unwrap();
    clock.advance(999);
    assert!(host.runs.keys().authenticate(&old).await.is_ok());
    clock.advance(1);
    assert_eq!(host.runs.keys().authenticate(&old).await.unwrap_err().code, ApiCode::KeyRevoked);
    assert!(host.runs.keys().authenticate(&new).await.is_ok());
    assert_eq!(host.runs.keys().rotate(&by, keys::hash(&old), 10).await.unwrap_err().code, ApiCode::Conflict);
    clock.advance(500_000);
    assert_eq!(host.runs.keys().authenticate(&new).await.unwrap_err().code, ApiCode::KeyExpired);
    let kept = host.store.api_keys().await.unwrap();
    assert!(
        kept.iter().all(|(_, document)| !String::from_utf8_lossy(document).contains(&new)),
        "only the hash is kept"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_invalid_whichever_process_revoked_it() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let setup = || Setup { clock: Arc::clone(&clock) as _, ..Setup::default() };
    let host = Host::with(setup()).await;
    let text = keys::new_key(true, &SystemEntropy).unwrap();
    let good = ApiKey {
        id: "key_1".into(),
        tenant: Tenant::new("acme"),
        scopes: vec![Scope::RunsRead],
        test: true,
        created_at: 1_000_000,
        expires_at: None,
        revoked_at: None,
        session: None,
    };
    let revoked = ApiKey { revoked_at: Some(1_000_000), ..good.clone() };
    assert_eq!(host.runs.keys().authenticate(&text).await.unwrap_err().code, ApiCode::Unauthenticated);
    host.runs.keys().put(keys::hash(&text), &good).await.unwrap();
    assert!(host.runs.keys().authenticate(&text).await.is_ok(), "a new key is good at once");
    host.runs.keys().put(keys::hash(&text), &revoked).await.unwrap();
    assert_eq!(host.runs.keys().authenticate(&text).await.unwrap_err().code, ApiCode::KeyRevoked);

    let (elsewhere, _store) = super::open(host.folder.path(), setup());
    let second = keys::new_key(true, &SystemEntropy).unwrap();
    elsewhere.keys().put(keys::hash(&second), &good).await.unwrap();
    assert!(host.runs.keys().authenticate(&second).await.is_ok(), "a new key of another process too");
    elsewhere.keys().put(keys::hash(&second), &revoked).await.unwrap();
    clock.advance(1000);
    assert_eq!(
        host.runs.keys().authenticate(&second).await.unwrap_err().code,
        ApiCode::KeyRevoked,
        "within a second"
    );
}
