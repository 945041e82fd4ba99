//! Webhook subscriptions and deliveries.

use canon::time::Timestamp;
use flow::id::{SubscriptionId, Tenant};

use super::{Law, bytes, commit};
use crate::runs::{Change, CommitError, RunStore};

pub(super) const LAWS: &[Law] = &[("subscriptions and their deliveries", subscriptions_and_their_deliveries)];

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
    let due: Vec<_> = store.due_deliveries(Timestamp(30), 10).wait().unwrap();
    assert_eq!(
        due.iter().map(|due| (&*due.delivery_id, due.attempts)).collect::<Vec<_>>(),
        [("soon", 1), ("late", 0)]
    );
    assert_eq!(store.next_delivery().wait().unwrap(), Some(Timestamp(12)));
    assert_eq!(
        store.webhook(&SubscriptionId::new("h")).wait().unwrap(),
        Some((Tenant::new("acme"), bytes("{}")))
    );
    assert_eq!(store.webhook(&SubscriptionId::new("g")).wait().unwrap(), None);
    let abandon = || Change::AbandonDelivery {
        delivery_id: "soon".into(),
        reason: "refused".into(),
        at: Timestamp(13),
    };
    commit(store, [abandon()]).unwrap();
    commit(store, [abandon()]).unwrap();
    let abandoned = store.abandoned_deliveries(&SubscriptionId::new("h"), 10).wait().unwrap();
    let shown: Vec<_> = abandoned
        .iter()
        .map(|(abandoned, why)| (&*abandoned.delivery_id, abandoned.attempts, &**why))
        .collect();
    assert_eq!(shown, [("soon", 1, "refused")], "abandoning it again has no effect");
    assert_eq!(
        store.due_deliveries(Timestamp(30), 10).wait().unwrap().len(),
        1,
        "an abandoned delivery is not due"
    );
    let requeue = || Change::RequeueDelivery { delivery_id: "soon".into(), due: Timestamp(15) };
    commit(store, [requeue()]).unwrap();
    commit(store, [requeue()]).unwrap();
    let due: Vec<_> = store.due_deliveries(Timestamp(15), 10).wait().unwrap();
    let due: Vec<_> = due.iter().map(|due| (&*due.delivery_id, due.attempts, &due.body)).collect();
    assert_eq!(due, [("soon", 0, &bytes("soon"))], "queued again, once");
    assert!(store.abandoned_deliveries(&SubscriptionId::new("h"), 10).wait().unwrap().is_empty());
    for number in 0..1005 {
        let id = format!("abandoned-{number}");
        let abandon =
            Change::AbandonDelivery { delivery_id: id.clone(), reason: "r".into(), at: Timestamp(14) };
        commit(store, [delivery(&id, 5, 8), abandon]).unwrap();
    }
    let abandoned = store.abandoned_deliveries(&SubscriptionId::new("h"), 2000).wait().unwrap();
    assert_eq!(
        (abandoned.len(), &*abandoned[0].0.delivery_id),
        (1000, "abandoned-1004"),
        "the newest are kept"
    );
    let delete = |tenant: &str| Change::DeleteWebhook {
        tenant: Tenant::new(tenant),
        webhook_id: SubscriptionId::new("h"),
    };
    assert_eq!(commit(store, [delete("other")]), Err(CommitError::NoSuchWebhook));
    commit(store, [delete("acme")]).unwrap();
    assert!(
        store.due_deliveries(Timestamp(30), 10).wait().unwrap().is_empty(),
        "deliveries are deleted with their subscription"
    );
    assert!(store.abandoned_deliveries(&SubscriptionId::new("h"), 10).wait().unwrap().is_empty());
    assert_eq!(store.next_delivery().wait().unwrap(), None);
}
