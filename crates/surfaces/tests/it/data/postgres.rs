//! A real PostgreSQL.

use std::sync::Arc;

use serde_json::json;
use surfaces::Code;
use surfaces::sql::postgres::{Postgres, PostgresOptions};
use surfaces::sql::{Datasource, ServedSql, SqlLimits, Tenants};

use super::servers;
use super::{call, code, refused, sql, sqlite};

async fn open(limits: SqlLimits) -> Option<ServedSql> {
    let address = servers::postgres().await?;
    let database = Postgres::new(&PostgresOptions::new(address), limits).unwrap();
    Some(sqlite::serve(Arc::new(database)))
}

mod contract {
    async fn open() -> Option<(surfaces::sql::ServedSql, ())> {
        Some((super::open(crate::data::sql::limits()).await?, ()))
    }

    crate::data::sql::all!(open());
}

#[tokio::test]
async fn types_with_a_json_form_round_trip() {
    let Some(port) = open(sql::limits()).await else { return };
    let table = [
        ("bool", json!(true), json!(true)),
        ("int2", json!(-7), json!(-7)),
        ("int4", json!(2.0), json!(2)),
        ("int8", json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_993_i64)),
        ("float4", json!(0.1), json!(0.1)),
        ("float8", json!("NaN"), json!("NaN")),
        ("float8", json!(-2.5), json!(-2.5)),
        ("numeric", json!("12345678901234567890.123400"), json!("12345678901234567890.123400")),
        ("numeric", json!(-0.0005), json!("-0.0005")),
        ("numeric(10,2)", json!(7), json!("7.00")),
        ("text", json!("t\"e'x\\t"), json!("t\"e'x\\t")),
        ("varchar", json!(""), json!("")),
        ("json", json!({ "b": [1, null], "a": "x" }), json!({ "b": [1, null], "a": "x" })),
        ("jsonb", json!([1, { "a": true }]), json!([1, { "a": true }])),
        ("jsonb", json!("text"), json!("text")),
        (
            "uuid",
            json!("0189f7a2-4b1c-7def-8abc-0123456789ab"),
            json!("0189f7a2-4b1c-7def-8abc-0123456789ab"),
        ),
        ("bytea", json!("AAH/"), json!("AAH/")),
        ("timestamptz", json!("2026-11-15T12:00:00.25+02:00"), json!("2026-11-15T10:00:00.25Z")),
        ("timestamp", json!("1969-12-31 23:59:59"), json!("1969-12-31T23:59:59")),
        ("date", json!("2024-02-29"), json!("2024-02-29")),
        ("time", json!("23:59:59.5"), json!("23:59:59.5")),
        ("int4[]", json!([1, null, 3]), json!([1, null, 3])),
        ("int4[]", json!([[1, 2], [3, 4]]), json!([[1, 2], [3, 4]])),
        ("text[]", json!(["a\"b", "c\\,{}", "", null, "NULL"]), json!(["a\"b", "c\\,{}", "", null, "NULL"])),
        ("jsonb[]", json!([{ "a": [1] }, "x"]), json!([{ "a": [1] }, "x"])),
        ("timestamptz[]", json!([]), json!([])),
    ];
    for (of, given, expected) in table {
        let result = call(
            &port,
            "acme",
            "query",
            json!({ "sql": format!("SELECT $1::{of} AS v"), "params": [given] }),
        )
        .await;
        assert_eq!(result["rows"], json!([{ "v": expected }]), "{of}");
        let none =
            call(&port, "acme", "query", json!({ "sql": format!("SELECT $1::{of} AS v"), "params": [null] }))
                .await;
        assert_eq!(none["rows"], json!([{ "v": null }]), "{of}");
    }
}

#[tokio::test]
async fn rejects_wrong_and_unsupported_types() {
    let Some(port) = open(sql::limits()).await else { return };
    for (of, given) in [
        ("int4", json!("seven")),
        ("int4", json!(2.5)),
        ("int4", json!([1])),
        ("text", json!({ "a": 1 })),
        ("uuid", json!("no")),
        ("bytea", json!("%")),
        ("int4[]", json!(1)),
        ("interval", json!("1 day")),
    ] {
        let args = json!({ "sql": format!("SELECT $1::{of} AS v"), "params": [given] });
        assert_eq!(code(&port, "acme", "query", args.clone()).await, Code::InvalidArgument, "{args}");
    }
    let result = call(
        &port,
        "acme",
        "query",
        json!({ "sql": "SELECT ($1::interval)::text AS v", "params": ["1 day"] }),
    )
    .await;
    assert_eq!(result["rows"][0]["v"], "1 day");
}

#[tokio::test]
async fn queries_are_read_only_on_the_server() {
    let Some(port) = open(sql::limits()).await else { return };
    call(&port, "acme", "execute", json!({ "sql": "CREATE SEQUENCE counter", "params": [] })).await;
    // The guard cannot know that this function writes.
    let args = json!({ "sql": "SELECT nextval($1::text::regclass) AS n", "params": ["counter"] });
    assert_eq!(code(&port, "acme", "query", args.clone()).await, Code::DatasourceAccessDenied);
    assert_eq!(call(&port, "acme", "execute", args).await["rows"], json!([{ "n": 1 }]));
}

#[tokio::test]
async fn connections_are_reset_between_calls() {
    let mut limits = sql::limits();
    limits.connections = 1;
    let Some(port) = open(limits).await else { return };
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (id int PRIMARY KEY)", "params": [] }))
        .await;
    for _ in 0..3 {
        let args = json!({ "statements": [
            { "sql": "INSERT INTO t (id) VALUES ($1)", "params": [1] },
            { "sql": "INSERT INTO t (id) VALUES ($1)", "params": [1] },
        ] });
        assert_eq!(code(&port, "acme", "transaction", args).await, Code::SqlTransactionAborted);
        assert_eq!(
            call(&port, "acme", "query", json!({ "sql": "SELECT id FROM t", "params": [] })).await["count"],
            0
        );
    }
}

#[tokio::test]
async fn cancelled_calls_leave_no_transaction() {
    let mut limits = sql::limits();
    limits.connections = 1;
    let Some(port) = open(limits).await else { return };
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (id int PRIMARY KEY)", "params": [] }))
        .await;
    let scope = crate::helper::scope("acme");
    for _ in 0..5 {
        let args = json!({ "sql": "INSERT INTO t (id) VALUES ($1)", "params": [1] });
        let call = super::try_call(&port, &scope, "execute", args);
        // Polled a few times, then dropped at any point.
        let _ = tokio::time::timeout(std::time::Duration::from_micros(300), call).await;
    }
    let result = call(&port, "acme", "execute", json!({ "sql": "DELETE FROM t", "params": [] })).await;
    assert!(result["changes"].as_u64().is_some_and(|changes| changes <= 1), "{result}");
}

#[tokio::test]
async fn without_the_effects_table_ids_are_not_stored() {
    let Some(address) = servers::postgres().await else { return };
    let options = PostgresOptions { records_effects: false, ..PostgresOptions::new(address) };
    let database = Postgres::new(&options, sql::limits()).unwrap();
    let port = ServedSql::new([Datasource {
        name: "default".into(),
        tenants: Tenants::All,
        database: Arc::new(database),
    }]);
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (id int)", "params": [] })).await;
    let once = crate::helper::scope("acme").with_effect("e");
    for _ in 0..2 {
        let args = json!({ "sql": "INSERT INTO t (id) VALUES ($1)", "params": [1] });
        super::try_call(&port, &once, "execute", args).await.unwrap();
    }
    assert_eq!(
        call(&port, "acme", "query", json!({ "sql": "SELECT id FROM t", "params": [] })).await["count"],
        2
    );
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable_and_its_url_hidden() {
    let options = PostgresOptions::new("postgres://me:hunter2@127.0.0.1:1/app?sslmode=disable");
    let database = Postgres::new(&options, sql::limits()).unwrap();
    let port = sqlite::serve(Arc::new(database));
    let refusal = refused(&port, "acme", "query", json!({ "sql": "SELECT id FROM t", "params": [] })).await;
    assert_eq!(refusal.code, Code::SurfaceUnavailable);
    assert!(
        !format!("{refusal:?}").contains("hunter2") && !format!("{refusal:?}").contains("127.0.0.1"),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn server_details_are_not_forwarded() {
    let Some(port) = open(sql::limits()).await else { return };
    call(
        &port,
        "acme",
        "execute",
        json!({ "sql": "CREATE TABLE t (secret text PRIMARY KEY)", "params": [] }),
    )
    .await;
    let args = json!({ "sql": "INSERT INTO t (secret) VALUES ($1)", "params": ["hunter2"] });
    call(&port, "acme", "execute", args.clone()).await;
    let refusal = refused(&port, "acme", "execute", args).await;
    assert_eq!(refusal.code, Code::SqlTransactionAborted);
    assert!(!refusal.message.contains("hunter2"), "{refusal:?}");
}
