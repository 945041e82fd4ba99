//! The contract of blobs.

macro_rules! all {
    ($open:expr) => {
        crate::contract::hold!(
            blob,
            $open,
            [
                put_get_delete,
                objects_of_another_tenant_are_invisible,
                shared_contents_survive_a_delete,
                listing_is_ordered_and_paged,
                signed_urls_expire,
                signed_urls_are_bound_to_method_and_object,
                unknown_buckets_are_not_found,
                effects_are_applied_once,
                concurrent_puts_and_deletes_lose_nothing,
            ]
        );
    };
}
pub(crate) use all;

pub(crate) mod laws {
    use canon::time::Timestamp;
    use futures_util::future::join_all;
    use surfaces::Code;
    use surfaces::blob::{Blobs, Method, Object, ObjectAddress, ObjectPage};

    use crate::helper::{NOW, scope};

    fn at(key: &str) -> ObjectAddress {
        ObjectAddress { bucket: "default".into(), key: key.into() }
    }

    fn object(content: &[u8]) -> Object {
        Object { content: content.to_vec(), content_type: "text/plain".into() }
    }

    pub(crate) async fn put_get_delete(port: &dyn Blobs) {
        let acme = scope("acme");
        assert_eq!(port.get(&acme, &at("k")).await.unwrap(), None);
        for content in [&b"one"[..], b"", b"\0\xff"] {
            port.put(&acme, at("k"), object(content)).await.unwrap();
            assert_eq!(port.get(&acme, &at("k")).await.unwrap(), Some(object(content)));
        }
        assert!(port.delete(&acme, at("k")).await.unwrap());
        assert!(!port.delete(&acme, at("k")).await.unwrap());
        assert_eq!(port.get(&acme, &at("k")).await.unwrap(), None);
    }

    pub(crate) async fn objects_of_another_tenant_are_invisible(port: &dyn Blobs) {
        port.put(&scope("acme"), at("k"), object(b"mine")).await.unwrap();
        let other = scope("Acme");
        assert_eq!(port.get(&other, &at("k")).await.unwrap(), None);
        assert!(!port.delete(&other, at("k")).await.unwrap());
        let page = ObjectPage { bucket: "default".into(), prefix: String::new(), after: None, limit: 10 };
        assert!(port.list(&other, page).await.unwrap().objects.is_empty());
        assert_eq!(port.presign(&other, &at("k"), Method::Get, 1000).await.unwrap(), None);
        port.put(&other, at("k"), object(b"mine")).await.unwrap();
        port.delete(&other, at("k")).await.unwrap();
        assert!(
            port.get(&scope("acme"), &at("k")).await.unwrap().is_some(),
            "the same bytes in different files"
        );
    }

    pub(crate) async fn shared_contents_survive_a_delete(port: &dyn Blobs) {
        let acme = scope("acme");
        port.put(&acme, at("one"), object(b"same")).await.unwrap();
        port.put(&acme, at("two"), object(b"same")).await.unwrap();
        port.delete(&acme, at("one")).await.unwrap();
        assert_eq!(port.get(&acme, &at("two")).await.unwrap(), Some(object(b"same")));
        port.put(&acme, at("two"), object(b"same")).await.unwrap();
        assert_eq!(port.get(&acme, &at("two")).await.unwrap(), Some(object(b"same")));
    }

    pub(crate) async fn listing_is_ordered_and_paged(port: &dyn Blobs) {
        let acme = scope("acme");
        for key in ["b/2", "a", "b/1", "c", "b/3"] {
            port.put(&acme, at(key), object(key.as_bytes())).await.unwrap();
        }
        for (prefix, expected) in
            [("", vec!["a", "b/1", "b/2", "b/3", "c"]), ("b/", vec!["b/1", "b/2", "b/3"])]
        {
            for limit in [1, 2, 10] {
                let (mut seen, mut after) = (Vec::new(), None);
                loop {
                    let page = ObjectPage { bucket: "default".into(), prefix: prefix.into(), after, limit };
                    let listed = port.list(&acme, page).await.unwrap();
                    seen.extend(listed.objects.into_iter().map(|object| object.key));
                    if !listed.more {
                        break;
                    }
                    after = seen.last().cloned();
                }
                assert_eq!(seen, expected, "{prefix} by {limit}");
            }
        }
    }

    pub(crate) async fn signed_urls_expire(port: &dyn Blobs) {
        let acme = scope("acme");
        assert_eq!(port.presign(&acme, &at("k"), Method::Get, 1000).await.unwrap(), None);
        port.put(&acme, at("k"), object(b"bytes")).await.unwrap();
        let signed = port.presign(&acme, &at("k"), Method::Get, 5000).await.unwrap().unwrap();
        assert_eq!(signed.expires_at, Timestamp(NOW + 5000));
        assert_eq!(port.redeem(&signed.token, Timestamp(NOW + 4999)).await.unwrap(), object(b"bytes"));
        let late = port.redeem(&signed.token, Timestamp(NOW + 5000)).await.unwrap_err();
        assert_eq!(late.code, Code::BlobPresignExpired);
        port.delete(&acme, at("k")).await.unwrap();
        let gone = port.redeem(&signed.token, Timestamp(NOW)).await.unwrap_err();
        assert_eq!(gone.code, Code::BlobObjectNotFound);
        for wrong in [0, u64::MAX] {
            let refused = port.presign(&acme, &at("k"), Method::Put, wrong).await.unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument);
        }
    }

    pub(crate) async fn signed_urls_are_bound_to_method_and_object(port: &dyn Blobs) {
        let acme = scope("acme");
        let put = port.presign(&acme, &at("k"), Method::Put, 5000).await.unwrap().unwrap();
        assert_eq!(port.admit_put(&put.token, Timestamp(NOW)), Ok(()));
        let late = port.admit_put(&put.token, Timestamp(NOW + 5000)).unwrap_err();
        assert_eq!(late.code, Code::BlobPresignExpired);
        port.redeem_put(&put.token, Timestamp(NOW), object(b"from outside")).await.unwrap();
        assert_eq!(port.get(&acme, &at("k")).await.unwrap(), Some(object(b"from outside")));
        let get = port.presign(&acme, &at("k"), Method::Get, 5000).await.unwrap().unwrap();
        let crossed = port.redeem_put(&get.token, Timestamp(NOW), object(b"evil")).await.unwrap_err();
        assert_eq!(crossed.code, Code::BlobPresignNotFound);
        assert_eq!(port.admit_put(&get.token, Timestamp(NOW)).unwrap_err().code, Code::BlobPresignNotFound);
        assert_eq!(
            port.redeem(&put.token, Timestamp(NOW)).await.unwrap_err().code,
            Code::BlobPresignNotFound
        );
        for place in 0..get.token.len() {
            let mut bytes = get.token.clone().into_bytes();
            bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            let refused = port.redeem(&changed, Timestamp(NOW)).await;
            assert_eq!(refused.unwrap_err().code, Code::BlobPresignNotFound, "changed at {place}");
        }
        for wrong in ["", ".", "a.b", &"x".repeat(100_000)] {
            assert_eq!(port.redeem(wrong, Timestamp(NOW)).await.unwrap_err().code, Code::BlobPresignNotFound);
        }
    }

    pub(crate) async fn unknown_buckets_are_not_found(port: &dyn Blobs) {
        let acme = scope("acme");
        let elsewhere = ObjectAddress { bucket: "elsewhere".into(), key: "k".into() };
        for refused in [
            port.put(&acme, elsewhere.clone(), object(b"x")).await.unwrap_err(),
            port.get(&acme, &elsewhere).await.unwrap_err(),
            port.delete(&acme, elsewhere.clone()).await.unwrap_err(),
            port.presign(&acme, &elsewhere, Method::Put, 1000).await.unwrap_err(),
        ] {
            assert_eq!(refused.code, Code::BlobBucketNotFound);
        }
    }

    pub(crate) async fn effects_are_applied_once(port: &dyn Blobs) {
        let by = |effect: &str| scope("acme").with_effect(effect);
        port.put(&by("p"), at("k"), object(b"first")).await.unwrap();
        port.put(&scope("acme"), at("k"), object(b"second")).await.unwrap();
        port.put(&by("p"), at("k"), object(b"first")).await.unwrap();
        assert_eq!(port.get(&scope("acme"), &at("k")).await.unwrap(), Some(object(b"second")));
        assert!(port.delete(&by("d"), at("k")).await.unwrap());
        assert!(port.delete(&by("d"), at("k")).await.unwrap());
    }

    pub(crate) async fn concurrent_puts_and_deletes_lose_nothing(port: &dyn Blobs) {
        let acme = scope("acme");
        let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
        for round in 0..4_usize {
            let work = keys.iter().enumerate().map(|(n, key)| {
                let acme = &acme;
                async move {
                    if (n + round) % 2 == 0 {
                        port.put(acme, at(key), object(b"shared")).await.unwrap();
                    } else {
                        port.delete(acme, at(key)).await.unwrap();
                    }
                }
            });
            join_all(work).await;
            for (n, key) in keys.iter().enumerate() {
                let expected = ((n + round) % 2 == 0).then(|| object(b"shared"));
                assert_eq!(port.get(&acme, &at(key)).await.unwrap(), expected, "{key} in round {round}");
            }
        }
    }
}
