//! The contract of caches.

macro_rules! all {
    ($open:expr) => {
        crate::contract::hold!(
            cache,
            $open,
            [hits_until_expiry_or_eviction, an_identical_key_of_another_tenant_is_a_miss,]
        );
    };
}
pub(crate) use all;

pub(crate) mod laws {
    use serde_json::json;
    use surfaces::cache::Cache;

    use crate::helper::{NOW, scope, scope_at};

    pub(crate) async fn hits_until_expiry_or_eviction(port: &dyn Cache) {
        let at = scope("acme");
        port.put(&at, "k".into(), json!({"a": 1}), 2000).await.unwrap();
        for (later, left) in [(0, Some(2000)), (1999, Some(1)), (2000, None)] {
            let entry = port.get(&scope_at("acme", NOW + later), "k").await.unwrap();
            assert_eq!(entry.and_then(|entry| entry.ttl_remaining_ms), left, "{later}");
        }
        assert!(port.evict(&at, "k".into()).await.unwrap());
        assert!(!port.evict(&at, "k".into()).await.unwrap());
        assert_eq!(port.get(&at, "k").await.unwrap(), None);
    }

    pub(crate) async fn an_identical_key_of_another_tenant_is_a_miss(port: &dyn Cache) {
        port.put(&scope("acme"), "k".into(), json!(1), 2000).await.unwrap();
        assert_eq!(port.get(&scope("other"), "k").await.unwrap(), None);
        assert!(!port.evict(&scope("other"), "k".into()).await.unwrap());
        assert!(port.get(&scope("acme"), "k").await.unwrap().is_some());
    }
}
