//! Subscriptions and deliveries, with a real receiver on this machine.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{Principal, RunId, SubscriptionId, Tenant};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Method;
use outbound::{Call, CallError, Client, ConnectError, Limits, Lookup, Names, Reach, Target};
use ports::runs::prelude::*;
use runs::{ApiCode, ApiKey, Caller, Direct, RefusalKind, Scope};
use serde_json::{Value, json};
use sha2::Sha256;
use system::ManualClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Host, Setup, begin, caller, create, events, snapshot, to_the_end, workflow};
use crate::runs::requests::{new_fork, new_run, new_webhook};
use crate::wait::Wait as _;

/// A received request.
pub(super) struct Received {
    pub(super) path: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// Replies to each request with the next status, and with the last one permanently. A challenge is repeated, except at `/mute`.
pub(super) async fn receiver(statuses: &'static [u16]) -> (SocketAddr, mpsc::UnboundedReceiver<Received>) {
    receiver_at("127.0.0.1:0".parse().unwrap(), statuses).await
}

/// The same at this address.
pub(super) async fn receiver_at(
    address: SocketAddr,
    statuses: &'static [u16],
) -> (SocketAddr, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut statuses = statuses.iter().copied().peekable();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let status =
                if statuses.len() > 1 { statuses.next().unwrap() } else { *statuses.peek().unwrap() };
            let mut bytes = Vec::new();
            let request = loop {
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).await.unwrap();
                bytes.extend_from_slice(&chunk[..count]);
                if let Some(request) = parse(&bytes) {
                    break request;
                }
            };
            let is_challenge =
                request.path != "/mute" && !request.headers.contains_key("x-openwop-webhook-id");
            let body = if is_challenge { &request.body[..] } else { b"" };
            let answer = format!(
                "HTTP/1.1 {status} X\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(&[answer.as_bytes(), body].concat()).await.unwrap();
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (address, received)
}

pub(super) fn parse(bytes: &[u8]) -> Option<Received> {
    let text = String::from_utf8_lossy(bytes);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let body = bytes.get(head.len() + 4..head.len() + 4 + length)?.to_vec();
    Some(Received { path, headers, body })
}

/// Posts a body, and returns whether it was accepted.
pub(super) async fn post(
    client: &Client,
    target: &Target,
    headers: &[(&str, &str)],
    body: &'static [u8],
) -> Result<(), CallError> {
    let limits = Limits { head: Duration::from_secs(5), whole: None, body: 0 };
    let call = Call { method: Method::POST, target, headers, body: body.into(), limits };
    client.send(call).await?.success().map(drop)
}

/// Why the connection failed.
fn cause(error: &CallError) -> &ConnectError {
    match error {
        CallError::Connect(cause) => cause,
        other => panic!("{other}"),
    }
}

pub(super) async fn host_that_delivers() -> Host {
    let outbound = Client::new(Reach::Loopback);
    let host = Host::with(Setup { outbound, ..Setup::default() }).await;
    deliver(&host);
    host
}

pub(super) fn deliver(host: &Host) {
    let runs = host.runs.clone();
    tokio::spawn(async move { runs.webhooks().keep_delivering().await });
}

async fn subscribe(host: &Host, request: &Value) -> Value {
    let registered =
        host.runs.webhooks().register(&caller("acme"), new_webhook(request), Direct).await.unwrap();
    assert_eq!(registered.url, request["url"]);
    json!({"webhookId": registered.id, "secret": registered.secret, "secretFingerprint": registered.fingerprint})
}

pub(super) fn signature(secret: &str, received: &Received) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{}.", received.headers["x-openwop-timestamp"]).as_bytes());
    mac.update(&received.body);
    mac.finalize().into_bytes().iter().fold("sha256=".into(), |text, byte| format!("{text}{byte:02x}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribed_events_arrive_signed_and_unchanged() {
    let host = host_that_delivers().await;
    let (address, mut received) = receiver(&[200]).await;
    let events_wanted = json!(["run.started", "run.completed"]);
    let subscription =
        subscribe(&host, &json!({"url": format!("http://{address}/hook?x=1"), "events": events_wanted}))
            .await;
    let secret = subscription["secret"].as_str().unwrap();
    assert_eq!(secret.len(), 64);
    let fingerprint = Digest::of_bytes(secret.as_bytes()).to_hex();
    assert_eq!(subscription["secretFingerprint"], fingerprint[..8]);
    let run_id = begin(&host.runs, "chain").await;
    let log = to_the_end(&host.runs, &run_id).await;
    for expected in [&log[0], log.last().unwrap()] {
        let got = received.recv().await.unwrap();
        assert_eq!(got.path, "/hook?x=1");
        let reported: Value = serde_json::from_slice(&got.body).unwrap();
        assert_eq!(reported, json!({"runId": run_id, "workspaceId": "acme", "event": expected}));
        assert_eq!(got.headers["x-openwop-signature"], signature(secret, &got));
        assert_eq!(got.headers["x-openwop-signature-algorithm"], "v1");
        assert_eq!(got.headers["x-openwop-event-type"], expected["type"].as_str().unwrap());
        assert_eq!(got.headers["x-openwop-webhook-id"], subscription["webhookId"].as_str().unwrap());
        assert_eq!(got.headers["content-type"], "application/json");
        assert!(got.headers["user-agent"].starts_with("openwop-webhook-dispatcher/"));
    }
    let listed = host.runs.webhooks().list(&caller("acme")).await.unwrap();
    assert_eq!(listed[0].fingerprint, fingerprint[..8]);
    assert!(!format!("{listed:?}").contains(secret), "shown once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_fails_is_made_again_and_a_redirect_is_a_failure() {
    let host = host_that_delivers().await;
    let (address, mut received) = receiver(&[500, 302, 200]).await;
    let subscription =
        subscribe(&host, &json!({"url": format!("http://{address}/"), "events": ["run.completed"]})).await;
    begin(&host.runs, "chain").await;
    // The first delay is one second, the second one five; therefore this test waits for one retry only.
    let (first, second) = (received.recv().await.unwrap(), received.recv().await.unwrap());
    assert_eq!(first.body, second.body);
    assert_eq!(first.headers["x-openwop-delivery-id"], second.headers["x-openwop-delivery-id"]);
    let secret = subscription["secret"].as_str().unwrap();
    assert_eq!(second.headers["x-openwop-signature"], signature(secret, &second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_subscriber_is_suspended_and_its_events_are_kept() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let outbound = Client::new(Reach::Loopback);
    let host = Host::with(Setup { clock: Arc::clone(&clock) as _, outbound, ..Setup::default() }).await;
    let (address, mut received) = receiver(&[500]).await;
    let subscription =
        subscribe(&host, &json!({"url": format!("http://{address}/"), "events": ["run.completed"]})).await;
    let webhook_id = subscription["webhookId"].as_str().unwrap();
    begin(&host.runs, "chain").await;
    deliver(&host);
    let mut calls = 0;
    // One hour is longer than every delay.
    while host.store.abandoned_deliveries(&SubscriptionId::new(webhook_id), 10).await.unwrap().is_empty() {
        while received.try_recv().is_ok() {
            calls += 1;
        }
        if host.store.next_delivery().await.unwrap().is_some_and(|due| due > Timestamp(host_now(&clock))) {
            clock.advance(3_600_001);
            // Adding to the queue makes the deliverer check again.
            begin(&host.runs, "chain").await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (buried, reason) =
        host.store.abandoned_deliveries(&SubscriptionId::new(webhook_id), 10).await.unwrap().remove(0);
    assert_eq!(buried.attempts, 8);
    assert!(reason.contains("500") || reason.contains("too often"), "{reason}");
    assert!(calls >= 4, "{calls}");
}

fn host_now(clock: &ManualClock) -> u64 {
    system::Clock::now_ms(clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_runs_of_the_tenant_with_a_common_tag_are_delivered_and_no_replays() {
    let host = host_that_delivers().await;
    let (address, mut received) = receiver(&[200]).await;
    subscribe(
        &host,
        &json!({"url": format!("http://{address}/"), "events": ["run.completed"], "tags": ["a", "b"]}),
    )
    .await;
    for workflow in super::workflows() {
        host.runs.definitions().register(&caller("other"), &workflow).await.unwrap();
    }
    let tagged = |tags: Value| json!({"workflowId": "chain", "tags": tags});
    create(&host.runs, &caller("other"), &tagged(json!(["a"]))).await;
    create(&host.runs, &caller("acme"), &tagged(json!(["c"]))).await;
    create(&host.runs, &caller("acme"), &tagged(json!([]))).await;
    let reported = create(&host.runs, &caller("acme"), &tagged(json!(["c", "b"]))).await;
    to_the_end(&host.runs, &reported).await;
    host.runs
        .commands()
        .fork(&caller("acme"), &reported, new_fork(&json!({"mode": "replay"})), Direct)
        .await
        .unwrap();
    let branch = host
        .runs
        .commands()
        .fork(&caller("acme"), &reported, new_fork(&json!({"mode": "branch", "fromSeq": 1})), Direct)
        .await
        .unwrap();
    for expected in [json!(reported), json!(branch.run_id)] {
        let got: Value = serde_json::from_slice(&received.recv().await.unwrap().body).unwrap();
        assert_eq!(got["runId"], expected);
    }
    // Delivered events leave the queue; then it is empty.
    while host.store.next_delivery().await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(received.try_recv().is_err());
}

/// The data of a page of events.
fn page(host: &Host, run_id: &RunId) -> Value {
    let (events, _) = host.runs.queries().event_page(&caller("acme"), run_id, 0, 200).wait().unwrap();
    events.into_iter().map(|event| json!({"nodeId": event.node_id, "payload": event.payload})).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_not_delivered_and_are_stored_unchanged() {
    const CANARY: &str = "ghp_CANARYabcdefghijklmnopqrstuvwxyz0123";
    let host = host_that_delivers().await;
    let (address, mut received) = receiver(&[200]).await;
    let wanted = json!(["run.started", "variable.changed", "node.completed", "run.completed"]);
    subscribe(&host, &json!({"url": format!("http://{address}/"), "events": wanted})).await;
    let payload =
        json!({"pasted": format!("x\n{CANARY}"), CANARY: [CANARY], "plain": {"task-of-many-letters-1": 1.0}});
    let request = json!({"workflowId": "echo", "inputs": {"payload": payload}});
    let run_id = create(&host.runs, &caller("acme"), &request).await;
    let events = to_the_end(&host.runs, &run_id).await;
    let clean = json!({"pasted": "x\n[REDACTED]", "[REDACTED]": ["[REDACTED]"], "plain": {"task-of-many-letters-1": 1.0}});
    let mut delivered = Vec::new();
    while delivered.last().is_none_or(|reported: &Value| reported["event"]["type"] != "run.completed") {
        delivered.push(serde_json::from_slice(&received.recv().await.unwrap().body).unwrap());
    }
    let started = delivered.iter().find(|reported| reported["event"]["type"] == "run.started").unwrap();
    assert_eq!(started["event"]["payload"]["inputs"]["payload"], clean);
    for reported in [json!(delivered), json!(events), page(&host, &run_id)] {
        assert!(!reported.to_string().contains(CANARY), "{reported}");
    }
    // The log contains the original values, because the state is folded from it.
    let kept = host.store.appends(&run_id, 0, 100, 1 << 20).await.unwrap();
    assert!(kept.iter().any(|append| String::from_utf8_lossy(&append.events).contains(CANARY)));
    assert_eq!(snapshot(&host.runs, &caller("acme"), &run_id)["variables"]["payload"], payload);
}

#[tokio::test(flavor = "multi_thread")]
async fn sensitive_values_do_not_leave_the_host() {
    const WORD: &str = "open sesame";
    let host = host_that_delivers().await;
    let (address, mut received) = receiver(&[200]).await;
    let wanted =
        json!(["run.started", "variable.changed", "channel.written", "node.completed", "run.completed"]);
    subscribe(&host, &json!({"url": format!("http://{address}/"), "events": wanted})).await;
    let by = caller("acme");
    for mode in ["mask", "omit", "hash", "passthrough"] {
        let nodes = json!([
            ["set", "core.setVariable", {"name": "word", "value": WORD}],
            ["write", "core.channelWrite", {"channelName": "c", "value": WORD}],
        ]);
        let edges = json!([{"id": "e", "sourceNodeId": "set", "targetNodeId": "write"}]);
        let variables = json!([{"name": "word", "type": "string", "sensitive": true}]);
        let mut document = workflow(&format!("hides-{mode}"), &nodes, &edges, &variables);
        document["channels"] = json!({"c": {"reducer": "replace", "sensitive": true}});
        document["nodes"][0]["outputSensitivity"] = json!({"value": true, "output": true});
        document["metadata"] = json!({"complianceConfig": {"maskingMode": mode}});
        host.runs.definitions().register(&by, &document).await.unwrap();
        let mut made = Vec::new();
        for end in ["one", "two"] {
            let request = json!({"workflowId": document["id"], "inputs": {"word": format!("{WORD} {end}")}});
            let run_id = create(&host.runs, &by, &request).await;
            to_the_end(&host.runs, &run_id).await;
            made.push(run_id);
        }
        let hides = mode != "passthrough";
        let reported = |what: &str, document: &Value| {
            assert_ne!(document.to_string().contains(WORD), hides, "{mode} {what}: {document}");
        };
        let log = events(&host.runs, "acme", &made[0]);
        reported("log", &json!(log));
        reported("snapshot", &snapshot(&host.runs, &by, &made[0]));
        reported("page", &page(&host, &made[0]));
        let branch = json!({"mode": "branch", "fromSeq": log.len() - 1});
        let branch =
            host.runs.commands().fork(&by, &made[0], new_fork(&branch), Direct).await.unwrap().run_id;
        reported("log of a fork", &json!(to_the_end(&host.runs, &branch).await));
        reported("snapshot of a fork", &snapshot(&host.runs, &by, &branch));
        made.push(branch.clone());
        let ancestry = format!("{:?}", host.runs.queries().parent(&by, &branch).await.unwrap());
        assert!(!ancestry.contains(WORD), "{ancestry}");
        let bundle = host.runs.queries().debug_bundle(&by, &made[0], None).await.unwrap();
        reported("bundle", &bundle);
        assert_eq!(bundle["events"], json!(log));
        assert_eq!(bundle["redactionApplied"], hides, "{mode}");
        assert_eq!(bundle["redactionMode"], if hides { mode } else { "mask" });
        let difference = host.runs.queries().difference(&by, &made[0], &made[1]).await.unwrap();
        assert!(!hides || !format!("{difference:?}").contains(WORD), "{mode}: {difference:?}");
        let (mut delivered, mut ended) = (Vec::new(), 0);
        while ended < made.len() {
            let reported: Value = serde_json::from_slice(&received.recv().await.unwrap().body).unwrap();
            ended += usize::from(reported["event"]["type"] == "run.completed");
            delivered.push(reported);
        }
        reported("deliveries", &json!(delivered));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_subscription_receives_nothing_more() {
    let host = Host::with(Setup { outbound: Client::new(Reach::Loopback), ..Setup::default() }).await;
    let subscription =
        subscribe(&host, &json!({"url": "http://127.0.0.1:9/", "events": ["run.completed"]})).await;
    let webhook_id = subscription["webhookId"].as_str().unwrap();
    begin(&host.runs, "chain").await;
    assert_eq!(
        host.store.due_deliveries(Timestamp(u64::MAX >> 1), 9).await.unwrap().len(),
        1,
        "queued with the events"
    );
    let by = caller("acme");
    assert_eq!(
        host.runs
            .webhooks()
            .delete(&caller("other"), &SubscriptionId::new(webhook_id), Direct)
            .await
            .unwrap_err()
            .code
            .kind(),
        RefusalKind::NotFound
    );
    host.runs.webhooks().delete(&by, &SubscriptionId::new(webhook_id), Direct).await.unwrap();
    assert_eq!(
        host.runs
            .webhooks()
            .delete(&by, &SubscriptionId::new(webhook_id), Direct)
            .await
            .unwrap_err()
            .code
            .as_str(),
        "subscription_not_found"
    );
    begin(&host.runs, "chain").await;
    assert_eq!(host.store.next_delivery().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_needs_a_person_calls_its_own_address_with_a_token_that_works() {
    let host = host_that_delivers().await;
    let (address, mut received) = receiver(&[200]).await;
    let request = json!({"workflowId": "gated", "callbackUrl": format!("http://{address}/ask")});
    let run_id = create(&host.runs, &caller("acme"), &request).await;
    let got: Value = serde_json::from_slice(&received.recv().await.unwrap().body).unwrap();
    assert_eq!(
        (&got["runId"], &got["nodeId"], &got["status"]),
        (&json!(run_id), &json!("gate"), &json!("waiting-approval"))
    );
    let token = got["interrupt"]["interruptToken"].as_str().unwrap();
    host.runs.commands().resolve_token(token, json!({"action": "accept"}), Direct).await.unwrap();
    to_the_end(&host.runs, &run_id).await;
    let kept = json!([events(&host.runs, "acme", &run_id), snapshot(&host.runs, &caller("acme"), &run_id)]);
    assert!(!kept.to_string().contains(token), "the token is kept nowhere");
}

/// Finding H1: a callback URL gets a token to answer with only if the creator of the run may respond.
#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_run_gets_a_token_that_its_creator_could_use() {
    let host = host_that_delivers().await;
    for (id, scopes) in [("starts", vec![Scope::RunsCreate]), ("responds", Scope::ALL.to_vec())] {
        let key = ApiKey {
            id: id.to_owned(),
            tenant: Tenant::new("acme"),
            scopes,
            test: false,
            created_at: 0,
            expires_at: None,
            revoked_at: None,
            session: None,
        };
        host.runs.keys().put(runs::keys::hash(id), &key).await.unwrap();
    }
    let (address, mut received) = receiver(&[200]).await;
    let request = json!({"workflowId": "gated", "callbackUrl": format!("http://{address}/ask")});
    let by = |principal: &str| Caller { principal: Principal::new(principal), ..caller("acme") };
    let mut next_token = async || {
        let got: Value = serde_json::from_slice(&received.recv().await.unwrap().body).unwrap();
        got["interrupt"]["interruptToken"].as_str().unwrap().to_owned()
    };
    let accept = async |token: &str| {
        host.runs.commands().resolve_token(token, json!({"action": "accept"}), Direct).await
    };

    let run_id = create(&host.runs, &by("starts"), &request).await;
    let token = next_token().await;
    assert_eq!(accept(&token).await.unwrap_err().code, ApiCode::Forbidden);
    host.runs.commands().inspect_token(&token).await.unwrap();

    // The callback URL of a branch is that of the first creator, but the branch belongs to another one.
    let fork = json!({"mode": "branch", "fromSeq": 0});
    host.runs.commands().fork(&by("responds"), &run_id, new_fork(&fork), Direct).await.unwrap();
    assert_eq!(accept(&next_token().await).await.unwrap_err().code, ApiCode::Forbidden);

    create(&host.runs, &by("responds"), &request).await;
    accept(&next_token().await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_that_are_refused() {
    let host = Host::start().await;
    let good = json!({"url": "https://example.com/hook", "events": ["run.completed"]});
    let with = |name: &str, value: Value| {
        let mut request = good.clone();
        request[name] = value;
        request
    };
    let cases = [
        (with("url", json!("http://example.com/")), RefusalKind::Invalid, "webhook_url_rejected"),
        (with("url", json!("http://127.0.0.1/")), RefusalKind::Invalid, "webhook_url_rejected"),
        (with("url", json!("https://localhost/")), RefusalKind::Invalid, "webhook_url_rejected"),
        (
            with("url", json!("https://169.254.169.254/latest/meta-data")),
            RefusalKind::Invalid,
            "webhook_url_rejected",
        ),
        (with("url", json!("https://[::1]/")), RefusalKind::Invalid, "webhook_url_rejected"),
        (with("url", json!("not a url")), RefusalKind::Invalid, "webhook_url_rejected"),
    ];
    for (request, expected, code) in cases {
        let refused =
            host.runs.webhooks().register(&caller("acme"), new_webhook(&request), Direct).await.unwrap_err();
        assert_eq!((refused.code.kind(), refused.code.as_str()), (expected, code), "{request}");
    }
    let refused = host
        .runs
        .commands()
        .create(
            &caller("acme"),
            new_run(&json!({"workflowId": "gated", "callbackUrl": "http://10.0.0.1/"})),
            Default::default(),
            Direct,
        )
        .await
        .unwrap_err();
    assert_eq!(refused.code.as_str(), "webhook_url_rejected");
    subscribe(&host, &good).await;
}

/// A name server under the control of an attacker.
struct Lying(Vec<SocketAddr>);

impl Names for Lying {
    fn look_up<'a>(&'a self, _: &'a str, _: u16) -> Lookup<'a> {
        Box::pin(async move { Ok(self.0.clone()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_resolves_to_an_internal_address_is_not_called() {
    let (address, mut received) = receiver(&[200]).await;
    let inside = SocketAddr::new(address.ip(), 443);
    let cases: [(&str, Vec<SocketAddr>); 4] = [
        ("only inside", vec![inside]),
        ("inside as well", vec!["93.184.216.34:443".parse().unwrap(), inside]),
        ("metadata", vec!["169.254.169.254:443".parse().unwrap()]),
        ("mapped", vec!["[::ffff:127.0.0.1]:443".parse().unwrap()]),
    ];
    for (name, found) in cases {
        let outbound = Client::new(Reach::Public).resolving(Arc::new(Lying(found)));
        let target = outbound.check("https://example.com/").unwrap();
        let refused = post(&outbound, &target, &[], b"").await.unwrap_err();
        assert!(matches!(cause(&refused), ConnectError::Forbidden), "{name}: {refused}");
    }
    let outbound = Client::new(Reach::Public).resolving(Arc::new(Lying(Vec::new())));
    let target = outbound.check("https://example.com/").unwrap();
    let refused = post(&outbound, &target, &[], b"").await.unwrap_err();
    assert!(matches!(cause(&refused), ConnectError::Name(_)), "{refused}");
    assert!(received.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_goes_to_the_address_that_was_checked() {
    let (address, mut received) = receiver(&[200]).await;
    // Only this process resolves the name: it does not exist elsewhere.
    let outbound = Client::new(Reach::Loopback).resolving(Arc::new(Lying(vec![address])));
    let target = outbound.check(&format!("http://localhost:{}/x", address.port())).unwrap();
    post(&outbound, &target, &[("x-a", "b")], b"{}").await.unwrap();
    let got = received.recv().await.unwrap();
    assert_eq!((&*got.path, &*got.headers["host"]), ("/x", &*format!("localhost:{}", address.port())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_valid_certificate_receives_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let reported = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut bytes = Vec::new();
        // The server may close before it has read everything.
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    });
    let outbound = Client::new(Reach::Loopback);
    let target = outbound.check(&format!("https://{address}/")).unwrap();
    let refused = post(&outbound, &target, &[], b"the body").await.unwrap_err();
    assert!(matches!(cause(&refused), ConnectError::Tls(_)), "{refused}");
    let reported = reported.await.unwrap();
    assert!(!reported.windows(8).any(|window| window == b"the body"));
}
