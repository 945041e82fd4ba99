//! The contract of search, for the embedded adapter.

use std::sync::Arc;

use serde_json::{Value, json};
use surfaces::search::{EmbeddedSearch, SearchLimits, ServedSearch};
use surfaces::{Code, Served as _};
use tempfile::TempDir;

use super::{call, code, refused, try_call};
use crate::helper::scope;

pub(crate) fn open_with(change: impl FnOnce(&mut SearchLimits)) -> (ServedSearch, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = SearchLimits::default();
    change(&mut limits);
    (open_in(&folder, limits), folder)
}

fn open_in(folder: &TempDir, limits: SearchLimits) -> ServedSearch {
    let search = EmbeddedSearch::open(folder.path(), limits.clone()).unwrap();
    ServedSearch::new(Arc::new(search), limits)
}

pub(crate) fn ids(result: &Value) -> Vec<&str> {
    result["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap()).collect()
}

fn ask(q: &str) -> Value {
    json!({ "index": "docs", "q": q })
}

async fn three(port: &ServedSearch, tenant: &str) {
    let docs = json!([
        { "id": "engines", "fields": { "title": "Engines that find vectors", "body": "many kinds of engines" } },
        { "id": "flows", "fields": { "title": "Patterns of workflow", "body": "durable runs, interrupts and the log of events" } },
        { "id": "systems", "fields": { "title": "Systems", "body": "consensus and the election of leaders, in runs", "year": 2026 } },
    ]);
    assert_eq!(
        call(port, tenant, "index", json!({ "index": "docs", "docs": docs })).await,
        json!({ "indexed": 3 })
    );
}

#[tokio::test]
async fn finds_documents_best_match_first() {
    let (port, _folder) = open_with(|_| ());
    three(&port, "acme").await;
    let result = call(&port, "acme", "query", ask("durable workflow runs")).await;
    assert_eq!(ids(&result), ["flows", "systems"]);
    let scores: Vec<f64> =
        result["hits"].as_array().unwrap().iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores[0] > scores[1] && scores[1] > 0.0, "{scores:?}");
    assert_eq!(result["hits"][0]["fields"]["title"], "Patterns of workflow");
    for (q, expected) in
        [("ENGINES", vec!["engines"]), ("2026", vec!["systems"]), ("title", vec![]), ("nothing", vec![])]
    {
        assert_eq!(ids(&call(&port, "acme", "query", ask(q)).await), expected, "{q}");
    }
}

#[tokio::test]
async fn common_words_score_above_zero() {
    let (port, _folder) = open_with(|_| ());
    let docs: Vec<Value> =
        (0..5).map(|n| json!({ "id": format!("d{n}"), "fields": { "body": "apple orange" } })).collect();
    call(&port, "acme", "index", json!({ "index": "docs", "docs": docs })).await;
    let result = call(&port, "acme", "query", json!({ "index": "docs", "q": "apple", "k": 2 })).await;
    assert_eq!(result["hits"].as_array().unwrap().len(), 2);
    assert!(result["hits"].as_array().unwrap().iter().all(|hit| hit["score"].as_f64().unwrap() > 0.0));
    let all = call(&port, "acme", "query", ask("apple")).await;
    assert_eq!(ids(&all), ["d0", "d1", "d2", "d3", "d4"]);
}

#[tokio::test]
async fn queries_have_no_syntax() {
    let (port, _folder) = open_with(|_| ());
    three(&port, "acme").await;
    for (q, found) in [
        ("", 0),
        ("   \t", 0),
        ("\"", 0),
        ("*", 0),
        ("' OR 1=1 --", 0),
        ("body:", 0),
        ("NEAR(", 0),
        ("durable* AND (runs", 2),
        ("engines NOT engines", 1),
        ("\"durable", 1),
    ] {
        assert_eq!(ids(&call(&port, "acme", "query", ask(q)).await).len(), found, "{q}");
    }
}

#[tokio::test]
async fn scores_do_not_depend_on_what_other_tenants_write() {
    let (port, _folder) = open_with(|_| ());
    three(&port, "acme").await;
    let before = call(&port, "acme", "query", ask("durable engines runs")).await;
    let docs: Vec<Value> = (0..200)
        .map(|n| json!({ "id": format!("{n}"), "fields": { "body": "durable durable engines" } }))
        .collect();
    call(&port, "other", "index", json!({ "index": "docs", "docs": docs.clone() })).await;
    call(&port, "acme", "index", json!({ "index": "more", "docs": docs })).await;
    assert_eq!(call(&port, "acme", "query", ask("durable engines runs")).await, before);
}

#[tokio::test]
async fn an_index_of_another_tenant_is_invisible() {
    let (port, _folder) = open_with(|_| ());
    three(&port, "acme").await;
    assert_eq!(code(&port, "other", "query", ask("durable")).await, Code::SearchIndexNotFound);
    assert_eq!(
        code(&port, "other", "delete", json!({ "index": "docs", "ids": ["flows"] })).await,
        Code::SearchIndexNotFound
    );
    call(
        &port,
        "other",
        "index",
        json!({ "index": "docs", "docs": [{ "id": "flows", "fields": { "body": "theirs" } }] }),
    )
    .await;
    assert_eq!(ids(&call(&port, "acme", "query", ask("theirs durable")).await), ["flows"]);
    assert_eq!(ids(&call(&port, "other", "query", ask("durable")).await), Vec::<&str>::new());
}

#[tokio::test]
async fn replaces_and_removes_documents() {
    let (port, _folder) = open_with(|_| ());
    three(&port, "acme").await;
    let docs = json!([{ "id": "flows", "fields": { "body": "replaced" } }]);
    call(&port, "acme", "index", json!({ "index": "docs", "docs": docs })).await;
    assert_eq!(ids(&call(&port, "acme", "query", ask("durable workflow")).await), Vec::<&str>::new());
    assert_eq!(ids(&call(&port, "acme", "query", ask("replaced")).await), ["flows"]);
    let result = call(&port, "acme", "delete", json!({ "index": "docs", "ids": ["flows", "missing"] })).await;
    assert_eq!(result, json!({ "deleted": 1 }));
    assert_eq!(ids(&call(&port, "acme", "query", ask("replaced")).await), Vec::<&str>::new());
    call(&port, "acme", "delete", json!({ "index": "docs", "ids": ["engines", "systems"] })).await;
    assert_eq!(code(&port, "acme", "query", ask("runs")).await, Code::SearchIndexNotFound);
    three(&port, "acme").await;
    assert_eq!(ids(&call(&port, "acme", "query", ask("durable")).await), ["flows"]);
}

#[tokio::test]
async fn filters_apply_to_every_hit() {
    let (port, _folder) = open_with(|_| ());
    let docs: Vec<Value> = (0..50)
        .map(
            |n| json!({ "id": format!("{n:02}"), "fields": { "body": "apple", "even": n % 2 == 0, "n": n } }),
        )
        .collect();
    call(&port, "acme", "index", json!({ "index": "docs", "docs": docs })).await;
    let result = call(
        &port,
        "acme",
        "query",
        json!({ "index": "docs", "q": "apple", "k": 3, "filter": { "even": false } }),
    )
    .await;
    assert_eq!(ids(&result), ["01", "03", "05"]);
    let result =
        call(&port, "acme", "query", json!({ "index": "docs", "q": "apple", "filter": { "n": 44.0 } })).await;
    assert_eq!(ids(&result), ["44"]);
}

#[tokio::test]
async fn effects_are_applied_once_across_restarts() {
    let (port, folder) = open_with(|_| ());
    three(&port, "acme").await;
    let once = scope("acme").with_effect("e");
    let remove = json!({ "index": "docs", "ids": ["flows"] });
    assert_eq!(try_call(&port, &once, "delete", remove.clone()).await.unwrap(), json!({ "deleted": 1 }));
    drop(port);
    let port = open_in(&folder, SearchLimits::default());
    assert_eq!(try_call(&port, &once, "delete", remove).await.unwrap(), json!({ "deleted": 1 }));
    assert_eq!(ids(&call(&port, "acme", "query", ask("consensus")).await), ["systems"]);
}

#[tokio::test]
async fn sizes_are_limited_and_limits_reported() {
    let (port, _folder) = open_with(|limits| {
        limits.documents = 2;
        limits.document_bytes = 100;
        limits.hits = 5;
        limits.query_bytes = 60;
        limits.query_words = 3;
        limits.indexes = 1;
        limits.indexes_of_all = 2;
        limits.bytes = 300;
    });
    let put = |index: &str, docs: Value| json!({ "index": index, "docs": docs });
    let doc = |id: &str| json!({ "id": id, "fields": { "body": "apple" } });
    call(&port, "acme", "index", put("docs", json!([doc("a")]))).await;
    let table = [
        ("index", put("docs", json!([doc("a"), doc("b"), doc("c")])), Code::InvalidArgument, "2"),
        (
            "index",
            put("docs", json!([{ "id": "a", "fields": { "body": "x".repeat(100) } }])),
            Code::InvalidArgument,
            "100",
        ),
        ("index", put("more", json!([doc("a")])), Code::InvalidArgument, "1 indexes"),
        ("index", put(&"i".repeat(257), json!([doc("a")])), Code::InvalidArgument, "256"),
        ("index", put("docs", json!([doc(&"i".repeat(257))])), Code::InvalidArgument, "256"),
        ("query", json!({ "index": "docs", "q": "apple", "k": 6 }), Code::InvalidArgument, "5"),
        ("query", ask("one two three four"), Code::SearchQuerySyntaxError, "3"),
        ("query", ask(&"x".repeat(61)), Code::SearchQuerySyntaxError, "60"),
    ];
    for (op, args, code, bound) in table {
        let refusal = refused(&port, "acme", op, args.clone()).await;
        assert!(refusal.code == code && refusal.message.contains(bound), "{args}: {refusal:?}");
    }
    call(&port, "b", "index", put("docs", json!([doc("a")]))).await;
    assert!(refused(&port, "c", "index", put("docs", json!([doc("a")]))).await.message.contains("2 indexes"));
    let mut last = None;
    for n in 0..50 {
        last =
            try_call(&port, &scope("acme"), "index", put("docs", json!([doc(&format!("{n}"))]))).await.err();
        if last.is_some() {
            break;
        }
    }
    assert!(last.is_some_and(|refusal| refusal.message.contains("300 bytes")));
}

#[tokio::test]
async fn advertises_supported_features() {
    let (port, _folder) = open_with(|_| ());
    assert_eq!(port.advertise(), ("searchIndex", json!({ "supported": true })));
    assert_eq!(code(&port, "acme", "find", json!({})).await, Code::InvalidArgument);
}
