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
    /// The port, or the end of the test where there is no server.
    macro_rules! here {
        () => {
            match super::open().await {
                Some(opened) => opened,
                None => return,
            }
        };
    }

    crate::contract::queue::served_elsewhere!(here!());
    crate::contract::hold!(queue, here!(), [a_change_under_an_identity_happens_once]);
}

#[tokio::test]
async fn a_short_lease_ends_and_the_message_comes_back() {
    let Some((queue, _server)) = open().await else { return };
    let at = scope("acme");
    let id = queue.publish(&at, "jobs".into(), json!(1)).await.unwrap();
    let mut watch = queue.watch();
    let short = Consume { lease_ms: 1, ..Consume::of("jobs") };
    let first = queue.consume(&at, short).await.unwrap().unwrap();
    // It is told that it is back. What was published before may be told of late, so it is looked for until it is there.
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
async fn a_server_is_waited_at_for_a_message_and_for_one_that_was_postponed() {
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
    assert!(!queue.postpone(&at, first.token, 50).await.unwrap(), "nobody has it");
    let again = queue.consume(&at, patient).await.unwrap().unwrap();
    assert_eq!((&again.id, again.deliveries), (&id, 2));
    assert!(queue.ack(&at, again.token).await.unwrap());
    let impatient = Consume { wait_ms: 1, ..Consume::of("jobs") };
    assert_eq!(queue.consume(&at, impatient).await.unwrap(), None);
}

#[tokio::test]
async fn a_message_for_later_is_handed_over_when_its_delay_is_over_and_not_before() {
    let Some((queue, _server)) = open().await else { return };
    let at = scope("acme");
    let later = queue.publish_later(&at, "jobs".into(), json!("later"), 3_600_000).await.unwrap();
    let soon = queue.publish_later(&at, "jobs".into(), json!("soon"), 50).await.unwrap();
    let now = queue.publish(&at, "jobs".into(), json!("now")).await.unwrap();
    let patient = Consume { wait_ms: 60_000, ..Consume::of("jobs") };
    let mut taken = BTreeSet::new();
    for _ in 0..2 {
        let delivery = queue.consume(&at, patient.clone()).await.unwrap().unwrap();
        assert_eq!(delivery.deliveries, 1, "what came early is no delivery");
        assert!(queue.ack(&at, delivery.token).await.unwrap());
        taken.insert(delivery.id);
    }
    assert_eq!(taken, [now, soon].into());
    let impatient = Consume { wait_ms: 1, ..Consume::of("jobs") };
    assert_eq!(queue.consume(&at, impatient).await.unwrap(), None, "an hour is not over: {later}");
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
async fn a_server_that_goes_away_is_said_to_be_unavailable() {
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
async fn a_queue_and_a_message_are_bounded() {
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
    // What was taken may be put aside, though its letter is larger than a message may be; not without an end, and not with any reason.
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
    let page = queue.stream_read(&at, "s".into(), surfaces::queue::From::Beginning, 10).await.unwrap();
    assert_eq!(
        page.records.iter().map(|record| &record.payload).collect::<Vec<_>>(),
        [&json!(1), &json!(2)],
        "the oldest went"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_see_nothing_of_each_other_on_the_server() {
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
                queue.stream_read(&at, "s".into(), surfaces::queue::From::Beginning, 1000).await.unwrap();
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
