//! Two tenants at once, with the same names.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use surfaces::sql::SqlLimits;
use surfaces::sql::sqlite::SqliteFiles;

use super::{call, search, sqlite, vectors};

const TENANTS: [&str; 2] = ["acme", "other"];
const ROUNDS: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_isolates_tenants() {
    let folder = tempfile::tempdir().unwrap();
    let port = sqlite::serve(Arc::new(SqliteFiles::new(folder.path(), SqlLimits::default())));
    let port = &port;
    for tenant in TENANTS {
        call(
            port,
            tenant,
            "execute",
            json!({ "sql": "CREATE TABLE t (id INTEGER PRIMARY KEY, who TEXT)", "params": [] }),
        )
        .await;
    }
    join_all(TENANTS.iter().flat_map(|tenant| (0..ROUNDS).map(move |n| (*tenant, n))).map(
        |(tenant, n)| async move {
            call(
                port,
                tenant,
                "execute",
                json!({ "sql": "INSERT INTO t (id, who) VALUES (?, ?)", "params": [n, tenant] }),
            )
            .await;
            let foreign = json!({ "sql": "SELECT count(*) AS n FROM t WHERE who <> ?", "params": [tenant] });
            assert_eq!(call(port, tenant, "query", foreign).await["rows"], json!([{ "n": 0 }]));
        },
    ))
    .await;
    for tenant in TENANTS {
        let result = call(port, tenant, "query", json!({ "sql": "SELECT id FROM t", "params": [] })).await;
        assert_eq!(result["count"], ROUNDS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_isolate_tenants() {
    let (port, _folder) = vectors::open_with(|_| ());
    let port = &port;
    join_all(TENANTS.iter().flat_map(|tenant| (0..ROUNDS).map(move |n| (*tenant, n))).map(
        |(tenant, n)| async move {
            let item =
                json!({ "id": format!("{tenant}-{n}"), "vector": [n + 1, 1], "metadata": { "who": tenant } });
            call(port, tenant, "upsert", json!({ "namespace": "n", "items": [item] })).await;
            let result =
                call(port, tenant, "query", json!({ "namespace": "n", "vector": [1, 1], "topK": 1000 }))
                    .await;
            assert!(vectors::ids(&result).iter().all(|id| id.starts_with(tenant)), "{result}");
        },
    ))
    .await;
    for tenant in TENANTS {
        let result =
            call(port, tenant, "query", json!({ "namespace": "n", "vector": [1, 1], "topK": 1000 })).await;
        assert_eq!(vectors::ids(&result).len(), ROUNDS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_isolates_tenants() {
    let (port, _folder) = search::open_with(|_| ());
    let port = &port;
    join_all(TENANTS.iter().flat_map(|tenant| (0..ROUNDS).map(move |n| (*tenant, n))).map(|(tenant, n)| async move {
        let doc = json!({ "id": format!("{tenant}-{n}"), "fields": { "body": format!("shared words of {tenant}") } });
        call(port, tenant, "index", json!({ "index": "docs", "docs": [doc] })).await;
        let result = call(port, tenant, "query", json!({ "index": "docs", "q": "shared acme other", "k": 1000 })).await;
        assert!(search::ids(&result).iter().all(|id| id.starts_with(tenant)), "{result}");
    }))
    .await;
    for tenant in TENANTS {
        let result = call(port, tenant, "query", json!({ "index": "docs", "q": "words", "k": 1000 })).await;
        assert_eq!(search::ids(&result).len(), ROUNDS);
    }
}
