//! The contract of queues and streams.
//!
//! Server adapters use the server's clock for leases, so only the embedded adapter runs the tests that move the clock;
//! they are in `all!`, and the others alone are in `served_elsewhere!`.

macro_rules! served_elsewhere {
    ($open:expr) => {
        crate::contract::hold!(
            queue,
            $open,
            [
                leased_messages_are_invisible_and_acknowledged_ones_gone,
                messages_and_tokens_belong_to_a_tenant,
                returned_messages_come_first_and_count_again,
                dropped_messages_do_not_return,
                a_dead_letter_carries_the_original_and_the_reason,
                every_message_goes_to_exactly_one_of_many_consumers,
                a_stream_is_read_from_the_beginning_any_number_of_times,
                a_stream_read_from_now_has_only_what_comes_later,
                watchers_are_notified,
            ]
        );
    };
}
pub(crate) use served_elsewhere;

macro_rules! all {
    ($open:expr) => {
        crate::contract::queue::served_elsewhere!($open);
        crate::contract::hold!(
            queue,
            $open,
            [
                messages_return_after_their_lease,
                postponed_messages_return_later,
                delayed_messages_are_hidden_until_due,
                late_acknowledgements_work_until_redelivery,
                release_returns_messages_of_a_named_consumer,
                due_returns_the_next_time_to_check,
                effects_are_applied_once,
            ]
        );
    };
}
pub(crate) use all;

pub(crate) mod laws {
    use std::collections::BTreeSet;

    use canon::time::Timestamp;
    use futures_util::future::join_all;
    use serde_json::{Value, json};
    use surfaces::Code;
    use surfaces::queue::{Consume, Delivery, Queue, ReadFrom};

    use crate::helper::{NOW, scope, scope_at};

    async fn publish(port: &dyn Queue, payload: Value) -> String {
        port.publish(&scope("acme"), "jobs".into(), payload).await.unwrap()
    }

    async fn consume(port: &dyn Queue) -> Option<Delivery> {
        port.consume(&scope("acme"), Consume::of("jobs")).await.unwrap()
    }

    async fn consume_at(port: &dyn Queue, later: u64) -> Option<Delivery> {
        port.consume(&scope_at("acme", NOW + later), Consume::of("jobs")).await.unwrap()
    }

    pub(crate) async fn leased_messages_are_invisible_and_acknowledged_ones_gone(port: &dyn Queue) {
        assert_eq!(consume(port).await, None);
        let id = publish(port, json!({"n": 1})).await;
        let delivery = consume(port).await.unwrap();
        assert_eq!((&delivery.id, &delivery.payload, delivery.deliveries), (&id, &json!({"n": 1}), 1));
        assert_eq!(delivery.subject, "jobs");
        assert_eq!(consume(port).await, None, "it is leased");
        assert!(port.ack(&scope("acme"), delivery.token.clone()).await.unwrap());
        assert!(!port.ack(&scope("acme"), delivery.token).await.unwrap(), "the token is no longer known");
        assert_eq!(consume(port).await, None);
        for wrong in ["", "x", "-.", "a-1.1", "0-9223372036854775808.1", "é-1.\u{0}"] {
            assert!(!port.ack(&scope("acme"), wrong.into()).await.unwrap(), "{wrong:?}");
            assert!(!port.nack(&scope("acme"), wrong.into(), true).await.unwrap());
            assert_eq!(port.dead_letter(&scope("acme"), wrong.into(), "r".into()).await.unwrap(), None);
        }
    }

    pub(crate) async fn messages_and_tokens_belong_to_a_tenant(port: &dyn Queue) {
        let id = publish(port, json!(1)).await;
        let other = scope("other");
        assert_eq!(port.consume(&other, Consume::of("jobs")).await.unwrap(), None);
        let theirs = port.publish(&other, "jobs".into(), json!(2)).await.unwrap();
        assert_ne!(id, theirs, "ids are unique across tenants");
        let mine = consume(port).await.unwrap();
        assert!(!port.ack(&other, mine.token.clone()).await.unwrap());
        assert!(!port.nack(&other, mine.token.clone(), true).await.unwrap());
        assert!(port.ack(&scope("acme"), mine.token).await.unwrap());
        port.stream_publish(&scope("acme"), "s".into(), json!(1)).await.unwrap();
        assert!(
            port.stream_read(&other, "s".into(), ReadFrom::Beginning, 10).await.unwrap().records.is_empty()
        );
    }

    pub(crate) async fn returned_messages_come_first_and_count_again(port: &dyn Queue) {
        let first = publish(port, json!(1)).await;
        publish(port, json!(2)).await;
        for deliveries in 1..=3 {
            let delivery = consume(port).await.unwrap();
            assert_eq!((&delivery.id, delivery.deliveries), (&first, deliveries));
            assert!(port.nack(&scope("acme"), delivery.token, true).await.unwrap());
        }
    }

    pub(crate) async fn dropped_messages_do_not_return(port: &dyn Queue) {
        publish(port, json!(1)).await;
        let delivery = consume(port).await.unwrap();
        assert!(port.nack(&scope("acme"), delivery.token, false).await.unwrap());
        assert_eq!(consume(port).await, None);
    }

    pub(crate) async fn a_dead_letter_carries_the_original_and_the_reason(port: &dyn Queue) {
        publish(port, json!({"n": 1})).await;
        let delivery = consume(port).await.unwrap();
        let subject =
            port.dead_letter(&scope("acme"), delivery.token.clone(), "no \"good\"".into()).await.unwrap();
        assert_eq!(subject.as_deref(), Some("jobs.dlq"));
        assert_eq!(port.dead_letter(&scope("acme"), delivery.token, String::new()).await.unwrap(), None);
        assert_eq!(consume(port).await, None);
        let dead = port.consume(&scope("acme"), Consume::of("jobs.dlq")).await.unwrap().unwrap();
        assert_eq!(dead.payload, json!({"original": {"n": 1}, "deadLetterReason": "no \"good\""}));
    }

    pub(crate) async fn every_message_goes_to_exactly_one_of_many_consumers(port: &dyn Queue) {
        let at = scope("acme");
        let ids = join_all((0..100).map(|n| port.publish(&at, "jobs".into(), json!(n)))).await;
        let ids: BTreeSet<String> = ids.into_iter().map(Result::unwrap).collect();
        assert_eq!(ids.len(), 100, "ids are unique");
        let taken = join_all((0..120).map(|_| consume(port))).await;
        let taken: Vec<String> = taken.into_iter().flatten().map(|delivery| delivery.id).collect();
        assert_eq!(taken.len(), 100);
        assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), ids);
    }

    pub(crate) async fn a_stream_is_read_from_the_beginning_any_number_of_times(port: &dyn Queue) {
        let at = scope("acme");
        let mut expected = Vec::new();
        for n in 0..5 {
            expected.push((
                port.stream_publish(&at, "s".into(), json!({"n": n})).await.unwrap(),
                json!({"n": n}),
            ));
        }
        for limit in [1, 2, 5, 100] {
            let (mut seen, mut from) = (Vec::new(), ReadFrom::Beginning);
            loop {
                let page = port.stream_read(&at, "s".into(), from, limit).await.unwrap();
                assert!(page.records.len() <= limit);
                seen.extend(page.records.into_iter().map(|record| (record.id, record.payload)));
                if !page.more {
                    break;
                }
                from = ReadFrom::Cursor(page.next);
            }
            assert_eq!(seen, expected, "by {limit}");
        }
    }

    pub(crate) async fn a_stream_read_from_now_has_only_what_comes_later(port: &dyn Queue) {
        let at = scope("acme");
        port.stream_publish(&at, "s".into(), json!(1)).await.unwrap();
        let page = port.stream_read(&at, "s".into(), ReadFrom::Now, 10).await.unwrap();
        assert!(page.records.is_empty() && !page.more);
        port.stream_publish(&at, "s".into(), json!(2)).await.unwrap();
        let page = port.stream_read(&at, "s".into(), ReadFrom::Cursor(page.next), 10).await.unwrap();
        assert_eq!(page.records.iter().map(|record| &record.payload).collect::<Vec<_>>(), [&json!(2)]);
    }

    pub(crate) async fn watchers_are_notified(port: &dyn Queue) {
        let mut watch = port.watch();
        publish(port, json!(1)).await;
        let topic = watch.recv().await.unwrap();
        assert_eq!((topic.tenant.as_str(), topic.name.as_str(), topic.is_stream), ("acme", "jobs", false));
        port.stream_publish(&scope("acme"), "s".into(), json!(1)).await.unwrap();
        assert!(watch.recv().await.unwrap().is_stream);
        let delivery = consume(port).await.unwrap();
        port.nack(&scope("acme"), delivery.token, true).await.unwrap();
        assert_eq!(watch.recv().await.unwrap().name, "jobs", "returned messages are reported too");
    }

    pub(crate) async fn messages_return_after_their_lease(port: &dyn Queue) {
        let id = publish(port, json!(1)).await;
        publish(port, json!(2)).await;
        let mut consume = Consume::of("jobs");
        consume.lease_ms = 5000;
        port.consume(&scope("acme"), consume).await.unwrap().unwrap();
        assert_eq!(consume_at(port, 4999).await.unwrap().payload, json!(2));
        let back = consume_at(port, 5000).await.unwrap();
        assert_eq!((&back.id, back.deliveries), (&id, 2));
        assert_eq!(consume_at(port, 5000).await, None);
    }

    pub(crate) async fn late_acknowledgements_work_until_redelivery(port: &dyn Queue) {
        publish(port, json!(1)).await;
        publish(port, json!(2)).await;
        let (one, two) = (consume(port).await.unwrap(), consume(port).await.unwrap());
        let late = scope_at("acme", NOW + 60_000);
        assert!(port.ack(&late, one.token).await.unwrap(), "it was not delivered again");
        let again = consume_at(port, 60_000).await.unwrap();
        assert_eq!(again.id, two.id);
        for refused in [
            port.ack(&late, two.token.clone()).await.unwrap_err(),
            port.nack(&late, two.token.clone(), true).await.unwrap_err(),
            port.dead_letter(&late, two.token, String::new()).await.unwrap_err(),
        ] {
            assert_eq!(refused.code, Code::QueueDeliveryTokenExpired);
        }
        assert!(port.ack(&late, again.token).await.unwrap());
    }

    pub(crate) async fn postponed_messages_return_later(port: &dyn Queue) {
        let id = publish(port, json!(1)).await;
        let named = Consume { consumer: Some("trigger".into()), ..Consume::of("jobs") };
        let first = port.consume(&scope("acme"), named).await.unwrap().unwrap();
        assert!(!port.postpone(&scope("other"), first.token.clone(), 90_000).await.unwrap());
        assert!(port.postpone(&scope("acme"), first.token.clone(), 90_000).await.unwrap());
        assert_eq!(consume_at(port, 89_999).await, None, "longer than its lease");
        assert_eq!(port.due(&scope("acme"), "jobs").await.unwrap(), Some(Timestamp(NOW + 90_000)));
        let again = consume_at(port, 90_000).await.unwrap();
        assert_eq!((again.id, again.deliveries), (id, 2));
        let refused = port.postpone(&scope("acme"), first.token, 1).await.unwrap_err();
        assert_eq!(refused.code, Code::QueueDeliveryTokenExpired);
        for delay in [0, 12 * 60 * 60 * 1000 + 1] {
            let refused = port.postpone(&scope("acme"), again.token.clone(), delay).await.unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{delay}");
        }
        assert!(port.postpone(&scope("acme"), again.token.clone(), 5000).await.unwrap());
        assert!(port.ack(&scope("acme"), again.token).await.unwrap(), "it is still leased");
        assert_eq!(consume_at(port, 1_000_000).await, None);
    }

    pub(crate) async fn delayed_messages_are_hidden_until_due(port: &dyn Queue) {
        let at = scope("acme");
        let id = port.publish_later(&at, "jobs".into(), json!("later"), 60_000).await.unwrap();
        publish(port, json!("now")).await;
        assert_eq!(consume(port).await.unwrap().payload, json!("now"));
        assert_eq!(consume_at(port, 29_999).await, None);
        assert!(!port.ack(&at, format!("{id}.0")).await.unwrap(), "there is no token for it");
        let late = scope_at("acme", NOW + 40_000);
        port.consume(&late, Consume::of("jobs")).await.unwrap().unwrap();
        assert_eq!(port.due(&late, "jobs").await.unwrap(), Some(Timestamp(NOW + 60_000)));
        let delivery = consume_at(port, 60_000).await.unwrap();
        assert_eq!((delivery.id, delivery.payload, delivery.deliveries), (id, json!("later"), 1));
        let day = 24 * 60 * 60 * 1000;
        let refused = port.publish_later(&at, "jobs".into(), json!(1), day).await.unwrap_err();
        assert!(refused.code == Code::InvalidArgument && refused.message.contains("43200"), "{refused:?}");
        let once = at.with_effect("e");
        let first = port.publish_later(&once, "later".into(), json!(1), 1000).await.unwrap();
        assert_eq!(port.publish_later(&once, "later".into(), json!(1), 1000).await.unwrap(), first);
    }

    pub(crate) async fn release_returns_messages_of_a_named_consumer(port: &dyn Queue) {
        for n in 0..3 {
            publish(port, json!(n)).await;
        }
        let named = Consume { consumer: Some("trigger".into()), ..Consume::of("jobs") };
        for _ in 0..2 {
            port.consume(&scope("acme"), named.clone()).await.unwrap().unwrap();
        }
        consume(port).await.unwrap();
        assert_eq!(port.release(&scope("other"), "trigger".into()).await.unwrap(), 0);
        assert_eq!(port.release(&scope("acme"), "trigger".into()).await.unwrap(), 2);
        assert_eq!(port.release(&scope("acme"), "trigger".into()).await.unwrap(), 0);
        assert_eq!(consume(port).await.unwrap().payload, json!(0), "in their old order");
    }

    pub(crate) async fn due_returns_the_next_time_to_check(port: &dyn Queue) {
        let at = scope("acme");
        assert_eq!(port.due(&at, "jobs").await.unwrap(), None);
        publish(port, json!(1)).await;
        assert_eq!(port.due(&at, "jobs").await.unwrap(), Some(Timestamp(NOW)));
        consume(port).await.unwrap();
        assert_eq!(port.due(&at, "jobs").await.unwrap(), Some(Timestamp(NOW + 30_000)));
        let late = scope_at("acme", NOW + 90_000);
        assert_eq!(port.due(&late, "jobs").await.unwrap(), Some(Timestamp(NOW + 90_000)));
    }

    pub(crate) async fn effects_are_applied_once(port: &dyn Queue) {
        let at = |effect: &str| scope("acme").with_effect(effect);
        let id = port.publish(&at("p"), "jobs".into(), json!(1)).await.unwrap();
        assert_eq!(port.publish(&at("p"), "jobs".into(), json!(1)).await.unwrap(), id);
        let delivery = port.consume(&at("c"), Consume::of("jobs")).await.unwrap();
        assert_eq!(
            port.consume(&at("c"), Consume::of("jobs")).await.unwrap(),
            delivery,
            "the same message again"
        );
        assert_eq!(consume(port).await, None, "there was only one");
        let token = delivery.unwrap().token;
        assert!(port.ack(&at("a"), token.clone()).await.unwrap());
        assert!(port.ack(&at("a"), token).await.unwrap());
    }
}
