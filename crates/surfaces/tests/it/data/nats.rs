//! A real NATS server with JetStream.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use surfaces::nats::{NatsOptions, NatsQueue};
use surfaces::queue::{Consume, Queue, ServedQueue};
use surfaces::{Code, Limits, Served as _};

use super::servers::{self, Server};
use crate::helper::scope;

async fn open_with(limits: &Limits) -> Option<(Arc<dyn Queue>, Server)> {
    let (url, server) = servers::nats().await?;
    let queue = NatsQueue::connect(&NatsOptions { url }, limits).await.unwrap();
    Some((Arc::new(queue), server))
}

async fn open() -> Option<(Arc<dyn Queue>, Server)> {
    open_with(&Limits::default()).await
}

mod contract {
    /// The port, or the end of the test if no server is installed.
    macro_rules! here {
        () => {
            match super::open().await {
                Some(opened) => opened,
                None => return,
            }
        };
    }

    crate::contract::queue::served_elsewhere!(here!());
    crate::contract::hold!(queue, here!(), [effects_are_applied_once]);
}

#[tokio::test]
async fn short_leases_expire() {
    let Some((queue, _server)) = open().await else { return };
    let at = scope("acme");
    let id = queue.publish(&at, "jobs".into(), json!(1)).await.unwrap();
    let mut watch = queue.watch();
    let short = Consume { lease_ms: 1, ..Consume::of("jobs") };
    let first = queue.consume(&at, short).await.unwrap().unwrap();
    // The return is reported. Reports of earlier publications may arrive late, so the message is polled for.
    let again = loop {
        watch.recv().await.unwrap();
        if let Some(again) = queue.consume(&at, Consume::of("jobs")).await.unwrap() {
            break again;
        }
    };
    assert_eq!((&again.id, again.deliveries), (&id, 2));
    for refused in [
        queue.ack(&at, first.token.clone()).await.unwrap_err(),
        queue.nack(&at, first.token.clone(), true).await.unwrap_err(),
        queue.dead_letter(&at, first.token, String::new()).await.unwrap_err(),
    ] {
        assert_eq!(refused.code, Code::QueueDeliveryTokenExpired);
    }
    assert!(queue.ack(&at, again.token).await.unwrap());
    assert_eq!(queue.due(&at, "jobs").await.unwrap(), None);
}

#[tokio::test]
async fn consume_waits_on_the_server() {
    let Some((queue, _server)) = open().await else { return };
    assert!(queue.waits());
    let at = scope("acme");
    let patient = Consume { wait_ms: 60_000, ..Consume::of("jobs") };
    let waiting = queue.consume(&at, patient.clone());
    let publishing = queue.publish(&at, "jobs".into(), json!(1));
    let (waited, id) = tokio::join!(waiting, publishing);
    let (first, id) = (waited.unwrap().unwrap(), id.unwrap());
    assert_eq!((&first.id, first.deliveries), (&id, 1));
    assert!(queue.postpone(&at, first.token.clone(), 50).await.unwrap());
    assert!(!queue.postpone(&at, first.token, 50).await.unwrap(), "it was not delivered");
    let again = queue.consume(&at, patient).await.unwrap().unwrap();
    assert_eq!((&again.id, again.deliveries), (&id, 2));
    assert!(queue.ack(&at, again.token).await.unwrap());
    let impatient = Consume { wait_ms: 1, ..Consume::of("jobs") };
    assert_eq!(queue.consume(&at, impatient).await.unwrap(), None);
}

#[tokio::test]
async fn delayed_messages_are_delivered_when_due() {
    let Some((queue, _server)) = open().await else { return };
    let at = scope("acme");
    let later = queue.publish_later(&at, "jobs".into(), json!("later"), 3_600_000).await.unwrap();
    let soon = queue.publish_later(&at, "jobs".into(), json!("soon"), 50).await.unwrap();
    let now = queue.publish(&at, "jobs".into(), json!("now")).await.unwrap();
    let patient = Consume { wait_ms: 60_000, ..Consume::of("jobs") };
    let mut taken = BTreeSet::new();
    for _ in 0..2 {
        let delivery = queue.consume(&at, patient.clone()).await.unwrap().unwrap();
        assert_eq!(delivery.deliveries, 1, "early arrivals do not count as deliveries");
        assert!(queue.ack(&at, delivery.token).await.unwrap());
        taken.insert(delivery.id);
    }
    assert_eq!(taken, [now, soon].into());
    let impatient = Consume { wait_ms: 1, ..Consume::of("jobs") };
    assert_eq!(queue.consume(&at, impatient).await.unwrap(), None, "the hour is not over: {later}");
}

#[tokio::test]
async fn messages_outlive_the_process_that_published_them() {
    let Some((url, server)) = servers::nats().await else { return };
    let connect =
        || async { NatsQueue::connect(&NatsOptions { url: url.clone() }, &Limits::default()).await.unwrap() };
    let at = scope("acme");
    let first = connect().await;
    let id = first.publish(&at.clone().with_effect("e"), "jobs".into(), json!({ "a": 1 })).await.unwrap();
    drop(first);
    let second = connect().await;
    assert_eq!(
        second.publish(&at.clone().with_effect("e"), "jobs".into(), json!({ "a": 1 })).await.unwrap(),
        id
    );
    let delivery = second.consume(&at, Consume::of("jobs")).await.unwrap().unwrap();
    assert_eq!((delivery.id, delivery.payload), (id, json!({ "a": 1 })));
    assert_eq!(second.consume(&at, Consume::of("jobs")).await.unwrap(), None);
    drop(server);
}

#[tokio::test]
async fn a_stopped_server_is_unavailable() {
    let Some((queue, server)) = open().await else { return };
    let at = scope("acme");
    queue.publish(&at, "jobs".into(), json!(1)).await.unwrap();
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
    for refused in [
        queue.publish(&at, "jobs".into(), json!(2)).await.unwrap_err(),
        queue.consume(&at, Consume::of("other")).await.unwrap_err(),
        queue.stream_publish(&at, "s".into(), json!(2)).await.unwrap_err(),
    ] {
        assert_eq!(refused.code, Code::QueueBackendUnavailable, "{refused:?}");
    }
    let options = NatsOptions { url: "nats://me:hunter2@127.0.0.1:1".into() };
    assert!(!format!("{options:?}").contains("hunter2"));
    let nowhere = NatsQueue::connect(&options, &Limits::default()).await.unwrap();
    let refused = nowhere.publish(&at, "jobs".into(), json!(1)).await.unwrap_err();
    assert!(
        refused.code == Code::QueueBackendUnavailable && !format!("{refused:?}").contains("hunter2"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn queues_and_messages_are_limited() {
    let mut limits = Limits::default();
    limits.messages = 2;
    limits.message_bytes = 100;
    limits.stream_records = 2;
    let Some((queue, _server)) = open_with(&limits).await else { return };
    let at = scope("acme");
    let large = queue.publish(&at, "jobs".into(), json!("x".repeat(100))).await.unwrap_err();
    assert!(large.code == Code::InvalidArgument && large.message.contains("100"), "{large:?}");
    for n in 0..2 {
        queue.publish(&at, "jobs".into(), json!(n)).await.unwrap();
    }
    // A consumed message can be dead-lettered although its wrapped form exceeds the message limit; the number of times
    // and the reason are limited.
    let mut subject = "poison".to_owned();
    queue.publish(&at, subject.clone(), json!("x".repeat(90))).await.unwrap();
    for _ in 0..8 {
        let held = queue.consume(&at, Consume::of(subject.as_str())).await.unwrap().unwrap();
        let long = queue.dead_letter(&at, held.token.clone(), "r".repeat(5000)).await.unwrap_err();
        assert_eq!(long.code, Code::InvalidArgument);
        subject = queue.dead_letter(&at, held.token, "no good".into()).await.unwrap().unwrap();
    }
    let held = queue.consume(&at, Consume::of(subject.as_str())).await.unwrap().unwrap();
    let refused = queue.dead_letter(&at, held.token, String::new()).await.unwrap_err();
    assert!(refused.code == Code::InvalidArgument && refused.message.contains("8 times"), "{refused:?}");
    let full = queue.publish(&at, "jobs".into(), json!(3)).await.unwrap_err();
    assert_eq!(full.code, Code::QueueBackendUnavailable);
    queue.publish(&at, "other".into(), json!(3)).await.unwrap();
    for n in 0..3 {
        queue.stream_publish(&at, "s".into(), json!(n)).await.unwrap();
    }
    let page = queue.stream_read(&at, "s".into(), surfaces::queue::ReadFrom::Beginning, 10).await.unwrap();
    assert_eq!(
        page.records.iter().map(|record| &record.payload).collect::<Vec<_>>(),
        [&json!(1), &json!(2)],
        "the oldest was removed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_isolates_tenants() {
    let Some((queue, _server)) = open().await else { return };
    let queue = &queue;
    join_all(["acme", "other"].into_iter().flat_map(|tenant| (0..20).map(move |n| (tenant, n))).map(
        |(tenant, n)| async move {
            let at = scope(tenant);
            queue.publish(&at, "jobs".into(), json!({ "who": tenant, "n": n })).await.unwrap();
            queue.stream_publish(&at, "s".into(), json!({ "who": tenant })).await.unwrap();
            let mine = queue.consume(&at, Consume::of("jobs")).await.unwrap().unwrap();
            assert_eq!(mine.payload["who"], tenant);
            let foreign = scope(if tenant == "acme" { "other" } else { "acme" });
            assert!(!queue.ack(&foreign, mine.token.clone()).await.unwrap());
            assert!(queue.ack(&at, mine.token).await.unwrap());
            let page =
                queue.stream_read(&at, "s".into(), surfaces::queue::ReadFrom::Beginning, 1000).await.unwrap();
            assert!(page.records.iter().all(|record| record.payload["who"] == tenant));
        },
    ))
    .await;
}

#[tokio::test]
async fn the_server_is_named_in_the_discovery_document() {
    let Some((queue, _server)) = open().await else { return };
    let (key, block) = ServedQueue::new(queue).advertise();
    assert_eq!((key, &block["backends"]), ("queueBus", &json!(["nats"])));
}
