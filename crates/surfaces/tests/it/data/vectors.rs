//! The contract of vectors, for the embedded adapter.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use surfaces::vector::{EmbeddedVectors, ServedVectors, VectorLimits};
use surfaces::{Code, Served as _};
use tempfile::TempDir;

use super::{call, code, refused, try_call};
use crate::helper::scope;

pub(crate) fn open_with(change: impl FnOnce(&mut VectorLimits)) -> (ServedVectors, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = VectorLimits::default();
    change(&mut limits);
    (open_in(&folder, limits), folder)
}

fn open_in(folder: &TempDir, limits: VectorLimits) -> ServedVectors {
    let vectors = EmbeddedVectors::open(folder.path(), limits.clone()).unwrap();
    ServedVectors::new(Arc::new(vectors), limits)
}

pub(crate) fn ids(result: &Value) -> Vec<&str> {
    result["matches"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_inserted_vector_is_its_own_nearest() {
    let (port, _folder) = open_with(|_| ());
    let items: Vec<Value> = (0..10)
        .map(|n| {
            let angle = f64::from(n) * std::f64::consts::PI / 5.0;
            json!({ "id": format!("vec-{n}"), "vector": [angle.cos(), angle.sin()] })
        })
        .collect();
    assert_eq!(
        call(&port, "acme", "upsert", json!({ "namespace": "n", "items": items })).await,
        json!({ "upserted": 10 })
    );
    for (n, item) in items.iter().enumerate() {
        let result =
            call(&port, "acme", "query", json!({ "namespace": "n", "vector": item["vector"], "topK": 3 }))
                .await;
        assert_eq!(ids(&result)[0], format!("vec-{n}"));
        assert_eq!(result["matches"].as_array().unwrap().len(), 3);
        assert!((result["matches"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    }
}

#[tokio::test]
async fn scores_are_cosine_similarities() {
    let (port, _folder) = open_with(|_| ());
    let items = json!([
        { "id": "opposite", "vector": [-2, 0] },
        { "id": "same", "vector": [5, 0], "metadata": { "a": 1 } },
        { "id": "right", "vector": [0, 0.1] },
        { "id": "half", "vector": [1, 1] },
    ]);
    call(&port, "acme", "upsert", json!({ "namespace": "n", "items": items })).await;
    let result = call(&port, "acme", "query", json!({ "namespace": "n", "vector": [0.001, 0] })).await;
    assert_eq!(ids(&result), ["same", "half", "right", "opposite"]);
    let scores: Vec<f64> =
        result["matches"].as_array().unwrap().iter().map(|one| one["score"].as_f64().unwrap()).collect();
    for (score, expected) in scores.iter().zip([1.0, 0.5_f64.sqrt(), 0.0, -1.0]) {
        assert!((score - expected).abs() < 1e-6, "{scores:?}");
    }
    assert_eq!(result["matches"][0]["metadata"], json!({ "a": 1 }));
    assert_eq!(result["matches"][1]["metadata"], json!(null));
}

#[tokio::test]
async fn the_first_vector_fixes_the_dimension() {
    let (port, _folder) = open_with(|_| ());
    call(&port, "acme", "upsert", json!({ "namespace": "n", "items": [{ "id": "a", "vector": [1, 2, 3] }] }))
        .await;
    let longer = json!({ "namespace": "n", "items": [{ "id": "b", "vector": [1, 2, 3, 4] }] });
    assert_eq!(code(&port, "acme", "upsert", longer.clone()).await, Code::VectorDimensionMismatch);
    assert_eq!(
        code(&port, "acme", "query", json!({ "namespace": "n", "vector": [1, 2] })).await,
        Code::VectorDimensionMismatch
    );
    let mixed =
        json!({ "namespace": "m", "items": [{ "id": "a", "vector": [1] }, { "id": "b", "vector": [1, 2] }] });
    assert_eq!(code(&port, "acme", "upsert", mixed).await, Code::VectorDimensionMismatch);
    assert_eq!(
        code(&port, "acme", "query", json!({ "namespace": "m", "vector": [1] })).await,
        Code::VectorCollectionNotFound
    );
    assert_eq!(
        call(&port, "acme", "delete", json!({ "namespace": "n", "ids": ["a", "missing"] })).await,
        json!({ "deleted": 1 })
    );
    assert_eq!(
        code(&port, "acme", "query", json!({ "namespace": "n", "vector": [1, 2, 3] })).await,
        Code::VectorCollectionNotFound
    );
    call(&port, "acme", "upsert", longer).await;
    assert_eq!(
        ids(&call(&port, "acme", "query", json!({ "namespace": "n", "vector": [1, 2, 3, 4] })).await),
        ["b"]
    );
}

#[tokio::test]
async fn upsert_replaces() {
    let (port, _folder) = open_with(|_| ());
    let put = |vector: [i32; 2], metadata: Value| json!({ "namespace": "n", "items": [{ "id": "a", "vector": vector, "metadata": metadata }] });
    call(&port, "acme", "upsert", put([1, 0], json!({ "old": true }))).await;
    call(&port, "acme", "upsert", put([0, 1], json!({ "new": true }))).await;
    let result = call(&port, "acme", "query", json!({ "namespace": "n", "vector": [0, 1] })).await;
    assert_eq!(ids(&result), ["a"]);
    assert_eq!(result["matches"][0]["metadata"], json!({ "new": true }));
    assert!((result["matches"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6);
}

#[tokio::test]
async fn filters_apply_before_ranking() {
    let (port, _folder) = open_with(|_| ());
    let items: Vec<Value> = (0..100)
        .map(|n| json!({ "id": format!("{n:02}"), "vector": [100 - n, n], "metadata": { "even": n % 2 == 0, "n": n } }))
        .collect();
    call(&port, "acme", "upsert", json!({ "namespace": "n", "items": items })).await;
    let ask = |filter: Value| json!({ "namespace": "n", "vector": [1, 0], "topK": 3, "filter": filter });
    assert_eq!(ids(&call(&port, "acme", "query", ask(json!({ "even": false }))).await), ["01", "03", "05"]);
    assert_eq!(ids(&call(&port, "acme", "query", ask(json!({ "even": true, "n": 98.0 }))).await), ["98"]);
    assert!(ids(&call(&port, "acme", "query", ask(json!({ "none": 1 }))).await).is_empty());
}

#[tokio::test]
async fn a_namespace_of_another_tenant_is_invisible() {
    let (port, _folder) = open_with(|_| ());
    call(&port, "acme", "upsert", json!({ "namespace": "n", "items": [{ "id": "a", "vector": [1, 0] }] }))
        .await;
    let ask = json!({ "namespace": "n", "vector": [1, 0] });
    assert_eq!(code(&port, "other", "query", ask.clone()).await, Code::VectorCollectionNotFound);
    assert_eq!(
        code(&port, "other", "delete", json!({ "namespace": "n", "ids": ["a"] })).await,
        Code::VectorCollectionNotFound
    );
    call(&port, "other", "upsert", json!({ "namespace": "n", "items": [{ "id": "a", "vector": [0, 1] }, { "id": "b", "vector": [0, 1] }] })).await;
    assert_eq!(ids(&call(&port, "acme", "query", ask.clone()).await), ["a"]);
    assert_eq!(ids(&call(&port, "other", "query", ask).await), ["a", "b"]);
}

#[tokio::test]
async fn effects_are_applied_once_across_restarts() {
    let (port, folder) = open_with(|_| ());
    let once = scope("acme").with_effect("e");
    let put = json!({ "namespace": "n", "items": [{ "id": "a", "vector": [1, 0] }, { "id": "b", "vector": [1, 1] }] });
    call(&port, "acme", "upsert", put).await;
    let remove = json!({ "namespace": "n", "ids": ["a"] });
    assert_eq!(try_call(&port, &once, "delete", remove.clone()).await.unwrap(), json!({ "deleted": 1 }));
    drop(port);
    let port = open_in(&folder, VectorLimits::default());
    assert_eq!(try_call(&port, &once, "delete", remove).await.unwrap(), json!({ "deleted": 1 }));
    assert_eq!(
        ids(&call(&port, "acme", "query", json!({ "namespace": "n", "vector": [1, 0] })).await),
        ["b"]
    );
}

#[tokio::test]
async fn sizes_are_limited_and_limits_reported() {
    let (port, _folder) = open_with(|limits| {
        limits.dimensions = 4;
        limits.items = 2;
        limits.matches = 5;
        limits.metadata_bytes = 50;
        limits.collections = 1;
        limits.bytes = 200;
    });
    let put = |namespace: &str, items: Value| json!({ "namespace": namespace, "items": items });
    let item = |id: &str| json!({ "id": id, "vector": [1, 2, 3, 4] });
    let table = [
        ("upsert", put("n", json!([{ "id": "a", "vector": [1, 2, 3, 4, 5] }])), "4"),
        ("upsert", put("n", json!([{ "id": "a", "vector": [] }])), "4"),
        ("upsert", put("n", json!([item("a"), item("b"), item("c")])), "2"),
        (
            "upsert",
            put("n", json!([{ "id": "a", "vector": [1], "metadata": { "a": "x".repeat(50) } }])),
            "50",
        ),
        ("upsert", put(&"n".repeat(257), json!([item("a")])), "256"),
        ("upsert", put("n", json!([{ "id": "i".repeat(257), "vector": [1] }])), "256"),
        ("query", json!({ "namespace": "n", "vector": [1], "topK": 6 }), "5"),
        ("query", json!({ "namespace": "n", "vector": [1], "topK": 0 }), "5"),
    ];
    for (op, args, bound) in table {
        let refusal = refused(&port, "acme", op, args.clone()).await;
        assert!(
            refusal.code == Code::InvalidArgument && refusal.message.contains(bound),
            "{args}: {refusal:?}"
        );
    }
    for vector in [json!([0, 0]), json!([1e39, 1]), json!(["1"]), json!("x")] {
        assert_eq!(
            code(&port, "acme", "upsert", put("n", json!([{ "id": "a", "vector": vector }]))).await,
            Code::InvalidArgument
        );
    }
    call(&port, "acme", "upsert", put("n", json!([item("a")]))).await;
    assert!(
        refused(&port, "acme", "upsert", put("m", json!([item("a")])))
            .await
            .message
            .contains("1 collections")
    );
    let mut last = None;
    for n in 0..20 {
        last = try_call(&port, &scope("acme"), "upsert", put("n", json!([item(&format!("{n:02}"))])))
            .await
            .err();
        if last.is_some() {
            break;
        }
    }
    assert!(last.is_some_and(|refusal| refusal.message.contains("200 bytes")));
    let result =
        call(&port, "acme", "query", json!({ "namespace": "n", "vector": [1, 2, 3, 4], "topK": 5 })).await;
    assert_eq!(result["matches"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn accepts_both_spellings_and_advertises_features() {
    let (port, _folder) = open_with(|_| ());
    let put = json!({ "collection": "n", "vectors": [{ "id": "a", "embedding": [1, 0] }] });
    call(&port, "acme", "upsert", put).await;
    let result =
        call(&port, "acme", "query", json!({ "collection": "n", "embedding": [1, 0], "k": 1 })).await;
    assert_eq!(ids(&result), ["a"]);
    assert_eq!(code(&port, "acme", "find", json!({})).await, Code::InvalidArgument);
    assert_eq!(port.advertise(), ("vectorStore", json!({ "supported": true })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The matches equal those of a full scan.
    #[test]
    fn matches_equal_a_full_scan(
        vectors in proptest::collection::vec(proptest::collection::vec(-10_i32..10, 3), 1..60),
        wanted in proptest::collection::vec(1_i32..10, 3),
        top in 1_usize..8,
    ) {
        let vectors: Vec<Vec<i32>> = vectors.into_iter().filter(|vector| vector.iter().any(|part| *part != 0)).collect();
        prop_assume!(!vectors.is_empty());
        let cosine = |vector: &[i32]| {
            let dot = |a: &[i32], b: &[i32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            dot(vector, &wanted) / (dot(vector, vector).sqrt() * dot(&wanted, &wanted).sqrt())
        };
        let mut expected: Vec<f64> = vectors.iter().map(|vector| cosine(vector)).collect();
        expected.sort_by(|a, b| b.total_cmp(a));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let scores: Vec<f64> = runtime.block_on(async {
            let (port, _folder) = open_with(|_| ());
            let items: Vec<Value> = vectors.iter().enumerate().map(|(n, vector)| json!({ "id": n.to_string(), "vector": vector })).collect();
            call(&port, "acme", "upsert", json!({ "namespace": "n", "items": items })).await;
            let result = call(&port, "acme", "query", json!({ "namespace": "n", "vector": wanted, "topK": top })).await;
            result["matches"].as_array().unwrap().iter().map(|one| one["score"].as_f64().unwrap()).collect()
        });
        prop_assert_eq!(scores.len(), top.min(vectors.len()));
        for (score, expected) in scores.iter().zip(&expected) {
            prop_assert!((score - expected).abs() < 1e-5, "{:?} {:?}", scores, expected);
        }
    }
}
