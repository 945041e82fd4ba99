//! Standard Webhooks (RFC 0201), rotation of secrets, and dead letters, with a real receiver on this machine.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::time::Timestamp;
use flow::id::SubscriptionId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use outbound::{Client, Reach};
use ports::runs::prelude::*;
use runs::webhooks::rotate::OVERLAP_SECONDS;
use runs::{ApiCode, Direct};
use serde_json::{Value, json};
use sha2::Sha256;
use system::{Clock as _, ManualClock};
use tokio::net::TcpListener;

use super::requests::new_webhook;
use super::webhooks::{Received, deliver, host_that_delivers, receiver, receiver_at, signature};
use super::{Host, Setup, begin, caller};

fn secret(byte: u8) -> String {
    format!("whsec_{}", STANDARD.encode([byte; 32]))
}

/// The signature of a message under a secret, as the specification describes it.
fn standard_signature(secret: &str, received: &Received) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let (id, at) = (&received.headers["webhook-id"], &received.headers["webhook-timestamp"]);
    mac.update(format!("{id}.{at}.").as_bytes());
    mac.update(&received.body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn opted_in(url: &str, secret: &str) -> Value {
    json!({
        "url": url, "events": ["run.completed"], "secret": secret,
        "signatureAlgorithms": ["v1", "standard-webhooks-1"],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_verified_and_deliveries_have_both_signatures() {
    let host = host_that_delivers().await;
    let (address, mut received) = receiver(&[200]).await;
    let request = new_webhook(&opted_in(&format!("http://{address}/hook"), &secret(1)));
    let registered = host.runs.webhooks().register(&caller("acme"), request, Direct).await.unwrap();
    assert_eq!(registered.secret, None, "the secret is not sent back");
    let verification = received.recv().await.unwrap();
    let body: Value = serde_json::from_slice(&verification.body).unwrap();
    assert_eq!(body["type"], "openwop.webhook.verification");
    assert_eq!(verification.headers["webhook-signature"], standard_signature(&secret(1), &verification));
    assert!(!verification.headers.contains_key("x-openwop-event-type"), "it is not a delivery");

    begin(&host.runs, "chain").await;
    let delivery = received.recv().await.unwrap();
    assert_eq!(delivery.headers["x-openwop-signature"], signature(&secret(1), &delivery));
    assert_eq!(delivery.headers["x-openwop-signature-algorithm"], "v1");
    assert_eq!(delivery.headers["webhook-signature"], standard_signature(&secret(1), &delivery));
    assert_eq!(delivery.headers["webhook-timestamp"], delivery.headers["x-openwop-timestamp"]);
    assert!(delivery.headers["webhook-id"].starts_with("msg_"));

    // A subscription that did not ask for it is as before.
    let (address, mut received) = receiver(&[200]).await;
    let plain = new_webhook(&json!({"url": format!("http://{address}/mute"), "events": ["run.completed"]}));
    host.runs.webhooks().register(&caller("acme"), plain, Direct).await.unwrap();
    begin(&host.runs, "chain").await;
    let delivery = received.recv().await.unwrap();
    assert!(delivery.headers.keys().all(|name| !name.starts_with("webhook-")), "{:?}", delivery.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_does_not_repeat_the_challenge_is_not_registered() {
    let host = host_that_delivers().await;
    let (mute, mut heard) = receiver(&[200]).await;
    let (failing, _) = receiver(&[500]).await;
    let (redirecting, _) = receiver(&[302]).await;
    for url in [
        format!("http://{mute}/mute"),
        format!("http://{failing}/"),
        format!("http://{redirecting}/"),
        "http://127.0.0.1:1/".to_owned(),
    ] {
        let request = new_webhook(&opted_in(&url, &secret(1)));
        let refused = host.runs.webhooks().register(&caller("acme"), request, Direct).await.unwrap_err();
        assert_eq!(refused.code, ApiCode::WebhookEndpointUnverified, "{url}");
    }
    heard.recv().await.unwrap();
    assert!(heard.try_recv().is_err(), "one request for each registration");
    let request = new_webhook(&opted_in(&format!("http://{mute}/"), "not-a-standard-secret"));
    let refused = host.runs.webhooks().register(&caller("acme"), request, Direct).await.unwrap_err();
    assert_eq!(refused.code, ApiCode::ValidationError);
    assert_eq!(host.runs.webhooks().list(&caller("acme")).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_secrets_sign_for_a_while_after_a_rotation() {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000));
    let outbound = Client::new(Reach::Loopback);
    let host = Host::with(Setup { clock: Arc::clone(&clock) as _, outbound, ..Setup::default() }).await;
    deliver(&host);
    let (address, mut received) = receiver(&[200]).await;
    let request = new_webhook(&opted_in(&format!("http://{address}/"), &secret(1)));
    let id = host.runs.webhooks().register(&caller("acme"), request, Direct).await.unwrap().id;
    received.recv().await.unwrap();
    let rotate = async |byte: u8| {
        host.runs.webhooks().rotate_secret(&caller("acme"), &id, secret(byte), Direct).await.unwrap()
    };
    let rotated = rotate(2).await;
    assert_eq!(rotated.previous_expires_at, rotated.rotated_at.plus(OVERLAP_SECONDS * 1000));
    // A second rotation retires the oldest secret at once.
    rotate(3).await;
    let mut next = async || {
        begin(&host.runs, "chain").await;
        received.recv().await.unwrap()
    };
    let during = next().await;
    let both =
        format!("{} {}", standard_signature(&secret(3), &during), standard_signature(&secret(2), &during));
    assert_eq!(during.headers["webhook-signature"], both);
    assert_eq!(
        during.headers["x-openwop-signature"],
        signature(&secret(2), &during),
        "still the previous one"
    );
    clock.advance(OVERLAP_SECONDS * 1000);
    let after = next().await;
    assert_eq!(after.headers["webhook-signature"], standard_signature(&secret(3), &after));
    assert_eq!(after.headers["x-openwop-signature"], signature(&secret(3), &after));

    let refused =
        host.runs.webhooks().rotate_secret(&caller("other"), &id, secret(4), Direct).await.unwrap_err();
    assert_eq!(refused.code, ApiCode::SubscriptionNotFound);
    let refused =
        host.runs.webhooks().rotate_secret(&caller("acme"), &id, "short".into(), Direct).await.unwrap_err();
    assert_eq!(refused.code, ApiCode::ValidationError);
    let plain = new_webhook(&json!({"url": format!("http://{address}/"), "events": ["run.failed"]}));
    let plain = host.runs.webhooks().register(&caller("acme"), plain, Direct).await.unwrap().id;
    let refused =
        host.runs.webhooks().rotate_secret(&caller("acme"), &plain, secret(4), Direct).await.unwrap_err();
    assert_eq!(refused.code, ApiCode::ValidationError, "one signature cannot overlap");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_without_their_content_and_delivered_again() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let outbound = Client::new(Reach::Loopback);
    let host = Host::with(Setup { clock: Arc::clone(&clock) as _, outbound, ..Setup::default() }).await;
    // Nothing listens there until the deliveries were given up.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let request = new_webhook(&json!({"url": format!("http://{address}/"), "events": ["run.completed"]}));
    let id: SubscriptionId =
        host.runs.webhooks().register(&caller("acme"), request, Direct).await.unwrap().id;
    let run_id = begin(&host.runs, "chain").await;
    deliver(&host);
    while host.runs.webhooks().dead_letters(&caller("acme"), &id, 10).await.unwrap().is_empty() {
        if host.store.next_delivery().await.unwrap().is_some_and(|due| due > Timestamp(clock.now_ms())) {
            // Longer than every pause.
            clock.advance(3_600_001);
            begin(&host.runs, "chain").await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let letters = host.runs.webhooks().dead_letters(&caller("acme"), &id, 1000).await.unwrap();
    let letter = letters.last().unwrap();
    assert_eq!((&letter.run_id, letter.event_type.as_str(), letter.attempts), (&run_id, "run.completed", 8));
    assert!(letter.event_id.starts_with("evt_"), "{letter:?}");
    let other = host.runs.webhooks().dead_letters(&caller("other"), &id, 10).await.unwrap_err();
    assert_eq!(other.code, ApiCode::SubscriptionNotFound);
    let unknown = host.runs.webhooks().redeliver(&caller("acme"), &id, "none", Direct).await.unwrap_err();
    assert_eq!(unknown.code, ApiCode::NotFound);
    let (_, mut received) = receiver_at(address, &[200]).await;
    host.runs.webhooks().redeliver(&caller("acme"), &id, &letter.delivery_id, Direct).await.unwrap();
    // Others that were still being tried arrive too.
    while received.recv().await.unwrap().headers["x-openwop-delivery-id"] != letter.delivery_id {}
    let left = host.runs.webhooks().dead_letters(&caller("acme"), &id, 1000).await.unwrap();
    assert!(left.iter().all(|other| other.delivery_id != letter.delivery_id), "it was delivered");
}
