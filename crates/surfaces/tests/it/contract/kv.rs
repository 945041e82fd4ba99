//! The contract of keys and values.

macro_rules! all {
    ($open:expr) => {
        crate::contract::hold!(
            kv,
            $open,
            [
                set_get_delete,
                an_identical_key_of_another_tenant_is_invisible,
                values_expire_exactly,
                concurrent_increments_sum_exactly,
                increment_keeps_the_ttl_and_requires_an_integer,
                a_missing_key_compares_as_null,
                exactly_one_concurrent_swap_succeeds,
                values_are_compared_semantically,
                listing_is_ordered_and_paged,
                effects_are_applied_once,
            ]
        );
    };
}
pub(crate) use all;

pub(crate) mod laws {
    use futures_util::future::join_all;
    use serde_json::{Value, json};
    use surfaces::Code;
    use surfaces::kv::{KeyPage, Kv, Swap};

    use crate::helper::{NOW, scope, scope_at};

    fn swap(expect: Value, set: Value) -> Swap {
        Swap { expect, set, ttl_ms: None }
    }

    async fn value(port: &dyn Kv, tenant: &str, key: &str) -> Option<Value> {
        port.get(&scope(tenant), key).await.unwrap().map(|entry| entry.value)
    }

    pub(crate) async fn set_get_delete(port: &dyn Kv) {
        let at = scope("acme");
        for stored in [json!(null), json!({"a": [1, 2.5, "ü\u{0}"]}), json!("")] {
            port.set(&at, "k".into(), stored.clone(), None).await.unwrap();
            assert_eq!(value(port, "acme", "k").await, Some(stored));
        }
        assert!(port.delete(&at, "k".into()).await.unwrap());
        assert!(!port.delete(&at, "k".into()).await.unwrap());
        assert_eq!(value(port, "acme", "k").await, None);
    }

    pub(crate) async fn an_identical_key_of_another_tenant_is_invisible(port: &dyn Kv) {
        port.set(&scope("acme"), "k".into(), json!(1), None).await.unwrap();
        // One name is a prefix of the other; a key that joined tenant and key would mix them up.
        for other in ["acm", "acme2", "acme:k"] {
            assert_eq!(value(port, other, "k").await, None);
            let listed = port.list(&scope(other), KeyPage { limit: 10, ..KeyPage::default() }).await.unwrap();
            assert!(listed.keys.is_empty());
            assert!(!port.delete(&scope(other), "k".into()).await.unwrap());
            assert_eq!(port.increment(&scope(other), "k".into(), 5).await.unwrap(), 5);
        }
        assert_eq!(value(port, "acme", "k").await, Some(json!(1)));
    }

    pub(crate) async fn values_expire_exactly(port: &dyn Kv) {
        port.set(&scope("acme"), "k".into(), json!(1), Some(1500)).await.unwrap();
        for (later, left) in [(0, Some(1500)), (1499, Some(1)), (1500, None), (90_000_000, None)] {
            let entry = port.get(&scope_at("acme", NOW + later), "k").await.unwrap();
            assert_eq!(entry.map(|entry| entry.ttl_remaining_ms.unwrap()), left, "{later}");
            let page = KeyPage { limit: 10, ..KeyPage::default() };
            let listed = port.list(&scope_at("acme", NOW + later), page).await.unwrap();
            assert_eq!(listed.keys.len(), usize::from(left.is_some()), "{later}");
        }
        let late = scope_at("acme", NOW + 1500);
        assert!(!port.delete(&late, "k".into()).await.unwrap(), "expired keys do not exist");
        port.set(&scope("acme"), "k".into(), json!(7), Some(1500)).await.unwrap();
        assert_eq!(port.increment(&late, "k".into(), 1).await.unwrap(), 1, "and count as missing");
    }

    pub(crate) async fn concurrent_increments_sum_exactly(port: &dyn Kv) {
        let at = scope("acme");
        let sums = join_all((0..200).map(|_| port.increment(&at, "n".into(), 3))).await;
        let mut sums: Vec<i64> = sums.into_iter().map(Result::unwrap).collect();
        sums.sort_unstable();
        assert_eq!(sums, (1..=200).map(|n| 3 * n).collect::<Vec<_>>());
    }

    pub(crate) async fn increment_keeps_the_ttl_and_requires_an_integer(port: &dyn Kv) {
        let at = scope("acme");
        port.set(&at, "k".into(), json!(i64::MAX - 1), Some(5000)).await.unwrap();
        assert_eq!(port.increment(&at, "k".into(), 1).await.unwrap(), i64::MAX);
        let entry = port.get(&at, "k").await.unwrap().unwrap();
        assert_eq!(entry.ttl_remaining_ms, Some(5000));
        assert_eq!(port.increment(&at, "k".into(), 1).await.unwrap_err().code, Code::InvalidArgument);
        for wrong in [json!("1"), json!(null), json!(1.5), json!(u64::MAX), json!([])] {
            port.set(&at, "k".into(), wrong.clone(), None).await.unwrap();
            let refused = port.increment(&at, "k".into(), 1).await.unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{wrong}");
            assert_eq!(value(port, "acme", "k").await, Some(wrong), "nothing was changed");
        }
    }

    pub(crate) async fn a_missing_key_compares_as_null(port: &dyn Kv) {
        let at = scope("acme");
        let result = port.compare_and_swap(&at, "k".into(), swap(json!(0), json!(1))).await.unwrap();
        assert_eq!((result.swapped, result.actual), (false, json!(null)));
        assert_eq!(value(port, "acme", "k").await, None, "nothing was changed");
        let result = port.compare_and_swap(&at, "k".into(), swap(json!(null), json!(1))).await.unwrap();
        assert_eq!((result.swapped, result.actual), (true, json!(1)));
        let result = port.compare_and_swap(&at, "k".into(), swap(json!(null), json!(2))).await.unwrap();
        assert_eq!((result.swapped, result.actual), (false, json!(1)));
    }

    pub(crate) async fn exactly_one_concurrent_swap_succeeds(port: &dyn Kv) {
        let at = scope("acme");
        let swaps = (0..100).map(|n| port.compare_and_swap(&at, "k".into(), swap(json!(null), json!(n))));
        let result = join_all(swaps).await;
        let winners: Vec<Value> = result
            .into_iter()
            .map(Result::unwrap)
            .filter(|result| result.swapped)
            .map(|result| result.actual)
            .collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(value(port, "acme", "k").await.as_ref(), winners.first());
    }

    pub(crate) async fn values_are_compared_semantically(port: &dyn Kv) {
        let at = scope("acme");
        port.set(&at, "k".into(), json!({"a": 1, "b": 2.0}), None).await.unwrap();
        let expect: Value = serde_json::from_str(r#"{"b": 2, "a": 1.0}"#).unwrap();
        assert!(port.compare_and_swap(&at, "k".into(), swap(expect, json!(1))).await.unwrap().swapped);
    }

    pub(crate) async fn listing_is_ordered_and_paged(port: &dyn Kv) {
        let at = scope("acme");
        let names = ["a", "b/1", "b/10", "b/2", "b/\u{10ffff}", "b0", "c", "é"];
        for name in names {
            port.set(&at, name.into(), json!(1), None).await.unwrap();
        }
        for (prefix, expected) in [("", &names[..]), ("b/", &names[1..5]), ("é", &names[7..]), ("z", &[])] {
            for limit in [1, 3, 100] {
                let (mut seen, mut after) = (Vec::new(), None);
                loop {
                    let page = KeyPage { prefix: prefix.into(), after: after.clone(), limit };
                    let listed = port.list(&at, page).await.unwrap();
                    assert!(listed.keys.len() <= limit);
                    seen.extend(listed.keys);
                    if !listed.more {
                        break;
                    }
                    after = seen.last().cloned();
                }
                assert_eq!(seen, expected, "{prefix:?} by {limit}");
            }
        }
    }

    pub(crate) async fn effects_are_applied_once(port: &dyn Kv) {
        let at = scope("acme").with_effect("run-1/node-1/0");
        for _ in 0..3 {
            assert_eq!(port.increment(&at, "n".into(), 2).await.unwrap(), 2);
        }
        let other = scope("other").with_effect("run-1/node-1/0");
        assert_eq!(port.increment(&other, "n".into(), 1).await.unwrap(), 1, "effect ids belong to a tenant");
        assert_eq!(value(port, "acme", "n").await, Some(json!(2)));
        let refused = port.delete(&at, "n".into()).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "an effect id is valid for one operation");
    }
}
