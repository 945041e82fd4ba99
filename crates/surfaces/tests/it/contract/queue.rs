//! What messages and streams promise.
//!
//! Adapters of a server judge leases by the server's clock, so only the embedded one runs the laws that move the clock; they are in
//! `all!`, and the rest alone is in `served_elsewhere!`.

macro_rules! served_elsewhere {
    ($open:expr) => {
        crate::contract::hold!(
            queue,
            $open,
            [
                a_message_is_invisible_while_it_is_with_somebody_and_gone_once_acknowledged,
                messages_of_another_tenant_are_invisible_and_their_tokens_unknown,
                what_is_given_back_comes_first_and_counts_one_more,
                what_is_dropped_never_comes_back,
                a_dead_letter_carries_the_original_and_the_reason,
                every_message_goes_to_exactly_one_of_many_consumers,
                a_stream_is_read_from_the_beginning_any_number_of_times,
                a_stream_read_from_now_has_only_what_comes_later,
                whoever_watches_is_told_of_what_is_published,
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
                a_message_comes_back_when_its_lease_is_over,
                a_message_that_is_postponed_comes_back_later_and_counts_one_more,
                a_message_for_later_is_with_nobody_until_its_delay_is_over,
                a_late_acknowledgement_counts_until_the_message_is_handed_over_again,
                what_a_named_consumer_held_can_be_given_back_at_once,
                it_is_known_when_to_look_again,
                a_change_under_an_identity_happens_once,
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
    use surfaces::queue::{Consume, Delivery, From, Queue};

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

    pub(crate) async fn a_message_is_invisible_while_it_is_with_somebody_and_gone_once_acknowledged(
        port: &dyn Queue,
    ) {
        assert_eq!(consume(port).await, None);
        let id = publish(port, json!({"n": 1})).await;
        let delivery = consume(port).await.unwrap();
        assert_eq!((&delivery.id, &delivery.payload, delivery.deliveries), (&id, &json!({"n": 1}), 1));
        assert_eq!(delivery.subject, "jobs");
        assert_eq!(consume(port).await, None, "it is with somebody");
        assert!(port.ack(&scope("acme"), delivery.token.clone()).await.unwrap());
        assert!(!port.ack(&scope("acme"), delivery.token).await.unwrap(), "the token is not known any more");
        assert_eq!(consume(port).await, None);
        for wrong in ["", "x", "-.", "a-1.1", "0-9223372036854775808.1", "é-1.\u{0}"] {
            assert!(!port.ack(&scope("acme"), wrong.into()).await.unwrap(), "{wrong:?}");
            assert!(!port.nack(&scope("acme"), wrong.into(), true).await.unwrap());
            assert_eq!(port.dead_letter(&scope("acme"), wrong.into(), "r".into()).await.unwrap(), None);
        }
    }

    pub(crate) async fn messages_of_another_tenant_are_invisible_and_their_tokens_unknown(port: &dyn Queue) {
        let id = publish(port, json!(1)).await;
        let other = scope("other");
        assert_eq!(port.consume(&other, Consume::of("jobs")).await.unwrap(), None);
        let theirs = port.publish(&other, "jobs".into(), json!(2)).await.unwrap();
        assert_ne!(id, theirs, "ids are no tenant's alone");
        let mine = consume(port).await.unwrap();
        assert!(!port.ack(&other, mine.token.clone()).await.unwrap());
        assert!(!port.nack(&other, mine.token.clone(), true).await.unwrap());
        assert!(port.ack(&scope("acme"), mine.token).await.unwrap());
        port.stream_publish(&scope("acme"), "s".into(), json!(1)).await.unwrap();
        assert!(port.stream_read(&other, "s".into(), From::Beginning, 10).await.unwrap().records.is_empty());
    }

    pub(crate) async fn what_is_given_back_comes_first_and_counts_one_more(port: &dyn Queue) {
        let first = publish(port, json!(1)).await;
        publish(port, json!(2)).await;
        for deliveries in 1..=3 {
            let delivery = consume(port).await.unwrap();
            assert_eq!((&delivery.id, delivery.deliveries), (&first, deliveries));
            assert!(port.nack(&scope("acme"), delivery.token, true).await.unwrap());
        }
    }

    pub(crate) async fn what_is_dropped_never_comes_back(port: &dyn Queue) {
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
        assert_eq!(ids.len(), 100, "no id twice");
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
            let (mut seen, mut from) = (Vec::new(), From::Beginning);
            loop {
                let page = port.stream_read(&at, "s".into(), from, limit).await.unwrap();
                assert!(page.records.len() <= limit);
                seen.extend(page.records.into_iter().map(|record| (record.id, record.payload)));
                if !page.more {
                    break;
                }
                from = From::Cursor(page.next);
            }
            assert_eq!(seen, expected, "by {limit}");
        }
    }

    pub(crate) async fn a_stream_read_from_now_has_only_what_comes_later(port: &dyn Queue) {
        let at = scope("acme");
        port.stream_publish(&at, "s".into(), json!(1)).await.unwrap();
        let page = port.stream_read(&at, "s".into(), From::Now, 10).await.unwrap();
        assert!(page.records.is_empty() && !page.more);
        port.stream_publish(&at, "s".into(), json!(2)).await.unwrap();
        let page = port.stream_read(&at, "s".into(), From::Cursor(page.next), 10).await.unwrap();
        assert_eq!(page.records.iter().map(|record| &record.payload).collect::<Vec<_>>(), [&json!(2)]);
    }

    pub(crate) async fn whoever_watches_is_told_of_what_is_published(port: &dyn Queue) {
        let mut watch = port.watch();
        publish(port, json!(1)).await;
        let topic = watch.recv().await.unwrap();
        assert_eq!((topic.tenant.as_str(), topic.name.as_str(), topic.is_stream), ("acme", "jobs", false));
        port.stream_publish(&scope("acme"), "s".into(), json!(1)).await.unwrap();
        assert!(watch.recv().await.unwrap().is_stream);
        let delivery = consume(port).await.unwrap();
        port.nack(&scope("acme"), delivery.token, true).await.unwrap();
        assert_eq!(watch.recv().await.unwrap().name, "jobs", "what comes back is told of too");
    }

    pub(crate) async fn a_message_comes_back_when_its_lease_is_over(port: &dyn Queue) {
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

    pub(crate) async fn a_late_acknowledgement_counts_until_the_message_is_handed_over_again(
        port: &dyn Queue,
    ) {
        publish(port, json!(1)).await;
        publish(port, json!(2)).await;
        let (one, two) = (consume(port).await.unwrap(), consume(port).await.unwrap());
        let late = scope_at("acme", NOW + 60_000);
        assert!(port.ack(&late, one.token).await.unwrap(), "nobody else has it");
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

    pub(crate) async fn a_message_that_is_postponed_comes_back_later_and_counts_one_more(port: &dyn Queue) {
        let id = publish(port, json!(1)).await;
        let named = Consume { consumer: Some("trigger".into()), ..Consume::of("jobs") };
        let first = port.consume(&scope("acme"), named).await.unwrap().unwrap();
        assert!(!port.postpone(&scope("other"), first.token.clone(), 90_000).await.unwrap());
        assert!(port.postpone(&scope("acme"), first.token.clone(), 90_000).await.unwrap());
        assert_eq!(consume_at(port, 89_999).await, None, "longer than its lease was");
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
        assert!(port.ack(&scope("acme"), again.token).await.unwrap(), "it is still with its consumer");
        assert_eq!(consume_at(port, 1_000_000).await, None);
    }

    pub(crate) async fn a_message_for_later_is_with_nobody_until_its_delay_is_over(port: &dyn Queue) {
        let at = scope("acme");
        let id = port.publish_later(&at, "jobs".into(), json!("later"), 60_000).await.unwrap();
        publish(port, json!("now")).await;
        assert_eq!(consume(port).await.unwrap().payload, json!("now"));
        assert_eq!(consume_at(port, 29_999).await, None);
        assert!(!port.ack(&at, format!("{id}.0")).await.unwrap(), "nobody has a token of it");
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

    pub(crate) async fn what_a_named_consumer_held_can_be_given_back_at_once(port: &dyn Queue) {
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

    pub(crate) async fn it_is_known_when_to_look_again(port: &dyn Queue) {
        let at = scope("acme");
        assert_eq!(port.due(&at, "jobs").await.unwrap(), None);
        publish(port, json!(1)).await;
        assert_eq!(port.due(&at, "jobs").await.unwrap(), Some(Timestamp(NOW)));
        consume(port).await.unwrap();
        assert_eq!(port.due(&at, "jobs").await.unwrap(), Some(Timestamp(NOW + 30_000)));
        let late = scope_at("acme", NOW + 90_000);
        assert_eq!(port.due(&late, "jobs").await.unwrap(), Some(Timestamp(NOW + 90_000)));
    }

    pub(crate) async fn a_change_under_an_identity_happens_once(port: &dyn Queue) {
        let at = |effect: &str| scope("acme").with_effect(effect);
        let id = port.publish(&at("p"), "jobs".into(), json!(1)).await.unwrap();
        assert_eq!(port.publish(&at("p"), "jobs".into(), json!(1)).await.unwrap(), id);
        let delivery = port.consume(&at("c"), Consume::of("jobs")).await.unwrap();
        assert_eq!(
            port.consume(&at("c"), Consume::of("jobs")).await.unwrap(),
            delivery,
            "the same one again"
        );
        assert_eq!(consume(port).await, None, "there was only one");
        let token = delivery.unwrap().token;
        assert!(port.ack(&at("a"), token.clone()).await.unwrap());
        assert!(port.ack(&at("a"), token).await.unwrap());
    }
}
