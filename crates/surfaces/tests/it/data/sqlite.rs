//! SQLite, a file per tenant and datasource.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use serde_json::json;
use surfaces::sql::sqlite::SqliteFiles;
use surfaces::sql::{Datasource, ServedSql, Sql, SqlLimits, Tenants};
use surfaces::{Code, Tenant};
use tempfile::TempDir;

use super::{call, code, refused, sql};

pub(crate) fn serve(database: Arc<dyn Sql>) -> ServedSql {
    let theirs = Tenants::Only(BTreeSet::from([Tenant::new("other").unwrap()]));
    ServedSql::new([
        Datasource { name: "default".into(), tenants: Tenants::All, database: Arc::clone(&database) },
        Datasource { name: "theirs".into(), tenants: theirs, database },
    ])
}

fn open(limits: SqlLimits) -> (ServedSql, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (serve(Arc::new(SqliteFiles::new(folder.path().join("sql"), limits))), folder)
}

mod contract {
    async fn open() -> Option<(surfaces::sql::ServedSql, tempfile::TempDir)> {
        Some(super::open(crate::data::sql::limits()))
    }

    crate::data::sql::all!(open());
}

#[tokio::test]
async fn every_tenant_and_datasource_has_its_file() {
    let (port, folder) = open(sql::limits());
    let make = json!({ "sql": "CREATE TABLE mine (id INTEGER PRIMARY KEY)", "params": [] });
    call(&port, "acme", "execute", make).await;
    let look = json!({ "sql": "SELECT id FROM mine", "params": [] });
    assert_eq!(call(&port, "acme", "query", look.clone()).await["count"], 0);
    assert_eq!(code(&port, "other", "query", look.clone()).await, Code::SqlSyntaxError);
    let theirs = json!({ "sql": "SELECT id FROM mine", "params": [], "datasource": "theirs" });
    assert_eq!(code(&port, "other", "query", theirs).await, Code::SqlSyntaxError);
    let mut count = 0;
    let mut folders = vec![folder.path().join("sql")];
    while let Some(folder) = folders.pop() {
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o77, 0, "{}", folder.display());
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(
                entry.metadata().unwrap().permissions().mode() & 0o77,
                0,
                "{}",
                entry.path().display()
            );
            count += usize::from(entry.path().extension().is_some_and(|extension| extension == "sqlite3"));
            if entry.metadata().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert_eq!(count, 3);
}

#[tokio::test]
async fn data_and_effect_ids_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || serve(Arc::new(SqliteFiles::new(folder.path(), SqlLimits::default())));
    let insert = json!({ "sql": "INSERT INTO t (n) VALUES (?)", "params": [5] });
    let once = crate::helper::scope("acme").with_effect("e");
    let port = open();
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (n INTEGER)", "params": [] })).await;
    let first = super::try_call(&port, &once, "execute", insert.clone()).await.unwrap();
    assert_eq!(first["lastInsertRowid"], 1);
    drop(port);
    let port = open();
    assert_eq!(super::try_call(&port, &once, "execute", insert).await.unwrap(), first);
    let result = call(&port, "acme", "query", json!({ "sql": "SELECT n FROM t", "params": [] })).await;
    assert_eq!(result["rows"], json!([{ "n": 5 }]));
}

#[tokio::test]
async fn placeholders_count_as_in_sqlite() {
    let (port, _folder) = open(sql::limits());
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a, b)", "params": [] })).await;
    for sql in [
        "INSERT INTO t (a, b) VALUES (?, ?)",
        "INSERT INTO t (b, a) VALUES (?2, ?1)",
        "INSERT INTO t (b, a) VALUES ($2, $1)",
    ] {
        call(&port, "acme", "execute", json!({ "sql": sql, "params": ["a", true] })).await;
    }
    let result = call(&port, "acme", "query", json!({ "sql": "SELECT a, b FROM t", "params": [] })).await;
    assert_eq!(result["rows"], json!([{ "a": "a", "b": 1 }, { "a": "a", "b": 1 }, { "a": "a", "b": 1 }]));
    for sql in
        ["SELECT a FROM t WHERE a = :a", "SELECT a FROM t WHERE a = @a", "SELECT a FROM t WHERE a = $a"]
    {
        assert_eq!(
            code(&port, "acme", "query", json!({ "sql": sql, "params": ["a"] })).await,
            Code::InvalidArgument,
            "{sql}"
        );
    }
}

#[tokio::test]
async fn encodes_bytes_and_json() {
    let (port, _folder) = open(sql::limits());
    let sql = "SELECT unhex(?) AS bytes, json_extract(?, ?) AS inner, CAST(? AS REAL) AS endless";
    let result = call(
        &port,
        "acme",
        "query",
        json!({ "sql": sql, "params": ["00ff", { "a": [1, { "b": 2 }] }, "$.a[1].b", "1e999"] }),
    )
    .await;
    assert_eq!(result["rows"], json!([{ "bytes": "AP8=", "inner": 2, "endless": "Infinity" }]));
}

#[tokio::test]
async fn file_size_is_limited() {
    let mut limits = sql::limits();
    limits.file_bytes = 256 << 10;
    let (port, _folder) = open(limits);
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a)", "params": [] })).await;
    let insert = json!({ "sql": "INSERT INTO t (a) VALUES (?)", "params": ["x".repeat(50_000)] });
    let mut refusal = None;
    for _ in 0..10 {
        match super::try_call(&port, &crate::helper::scope("acme"), "execute", insert.clone()).await {
            Ok(_) => {}
            Err(error) => {
                refusal = Some(error);
                break;
            }
        }
    }
    let refusal = refusal.expect("it is full");
    assert!(refusal.code == Code::SqlTransactionAborted && refusal.message.contains("262144"), "{refusal:?}");
    assert!(
        call(&port, "acme", "query", json!({ "sql": "SELECT a FROM t LIMIT 1", "params": [] })).await["count"]
            == 1
    );
}

#[tokio::test]
async fn commit_failures_are_not_retryable() {
    let mut limits = sql::limits();
    limits.file_bytes = 64 << 10;
    let (port, _folder) = open(limits);
    let of_parent = "CREATE TABLE child (of INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)";
    for make in ["CREATE TABLE parent (id INTEGER PRIMARY KEY)", of_parent] {
        call(&port, "acme", "execute", json!({ "sql": make, "params": [] })).await;
    }
    // Both statements succeed; the commit fails, or storing the result.
    let orphan = json!({ "sql": "INSERT INTO child (of) VALUES (?)", "params": [7] });
    let large = "INSERT INTO parent (id) VALUES (?) RETURNING ? AS said";
    let large = json!({ "sql": large, "params": [1, "x".repeat(90_000)] });
    for (args, why) in [(orphan, "FOREIGN KEY"), (large, "65536")] {
        for _ in 0..2 {
            let scope = crate::helper::scope("acme").with_effect("once");
            let refusal = super::try_call(&port, &scope, "execute", args.clone()).await.unwrap_err();
            assert_eq!(refusal.code, Code::SqlTransactionAborted, "{refusal:?}");
            assert!(refusal.message.contains(why), "{refusal:?}");
        }
    }
    for table in ["parent", "child"] {
        let look = json!({ "sql": format!("SELECT rowid FROM {table}"), "params": [] });
        assert_eq!(call(&port, "acme", "query", look).await["count"], 0, "{table}");
    }
}

#[tokio::test]
async fn damaged_files_are_reported() {
    let (port, folder) = open(sql::limits());
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a)", "params": [] })).await;
    drop(port);
    let mut folders = vec![folder.path().join("sql")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                std::fs::write(path, "not a database, and longer than its header: ".repeat(100)).unwrap();
            }
        }
    }
    let port = serve(Arc::new(SqliteFiles::new(folder.path().join("sql"), sql::limits())));
    let refusal = refused(&port, "acme", "query", json!({ "sql": "SELECT a FROM t", "params": [] })).await;
    assert_eq!(refusal.code, Code::SurfaceUnavailable, "{refusal:?}");
    assert!(refusal.message.contains("until the operator restores it"), "{refusal:?}");
}

#[tokio::test]
async fn more_tenants_than_open_files_are_served() {
    let mut limits = sql::limits();
    limits.open_files = 2;
    let (port, _folder) = open(limits);
    for round in 0..3 {
        for tenant in ["a", "b", "c", "d"] {
            if round == 0 {
                call(&port, tenant, "execute", json!({ "sql": "CREATE TABLE t (a)", "params": [] })).await;
            }
            call(
                &port,
                tenant,
                "execute",
                json!({ "sql": "INSERT INTO t (a) VALUES (?)", "params": [round] }),
            )
            .await;
            let result =
                call(&port, tenant, "query", json!({ "sql": "SELECT a FROM t", "params": [] })).await;
            assert_eq!(result["count"], round + 1, "{tenant}");
        }
    }
}

#[tokio::test]
async fn double_quotes_are_names() {
    let (port, _folder) = open(sql::limits());
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a)", "params": [] })).await;
    let refusal = refused(
        &port,
        "acme",
        "query",
        json!({ "sql": "SELECT a FROM t WHERE a = \"value\"", "params": [] }),
    )
    .await;
    assert_eq!(refusal.code, Code::SqlSyntaxError);
}

#[tokio::test]
async fn expensive_steps_are_stopped_by_the_time_limit() {
    let (port, _folder) = open({
        let mut limits = SqlLimits::default();
        limits.steps = u64::MAX;
        limits.statement_ms = 200;
        limits
    });
    let sql = "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + ? FROM n) SELECT max(length(randomblob(?))) AS m FROM n";
    let result = refused(&port, "acme", "query", json!({ "sql": sql, "params": [0, 1, 100_000] })).await;
    assert!(result.code == Code::InvalidArgument && result.message.contains("200 ms"), "{result:?}");
    let short =
        call(&port, "acme", "query", json!({ "sql": "SELECT length(?) AS l", "params": ["abc"] })).await;
    assert_eq!(short["rows"], json!([{ "l": 3 }]), "the file still works");
}

#[tokio::test]
async fn large_rows_are_rejected_before_copying() {
    let (port, _folder) = open(SqlLimits::default());
    let columns: Vec<String> = (0..100).map(|n| format!("zeroblob(?1) AS c{n}")).collect();
    let sql = format!("SELECT {}", columns.join(", "));
    let result = refused(&port, "acme", "query", json!({ "sql": sql, "params": [1_000_000] })).await;
    assert!(result.code == Code::InvalidArgument && result.message.contains("8388608 bytes"), "{result:?}");
}

#[tokio::test]
async fn value_limits_shrink_with_the_number_of_values() {
    let (port, _folder) = open(SqlLimits::default());
    let one = "SELECT length(randomblob(?1)) AS l";
    let result = call(&port, "acme", "query", json!({ "sql": one, "params": [8 << 20] })).await;
    assert_eq!(result["rows"], json!([{ "l": 8 << 20 }]));
    let many = format!(
        "SELECT {}",
        (0..200).map(|n| format!("length(randomblob(?1)) AS l{n}")).collect::<Vec<_>>().join(", ")
    );
    for (sql, bytes, bound) in [(one, (8 << 20) + 1, "8388608"), (&many, (1 << 20) + 1, "1048576")] {
        let result = refused(&port, "acme", "query", json!({ "sql": sql, "params": [bytes] })).await;
        assert!(result.code == Code::InvalidArgument && result.message.contains(bound), "{result:?}");
    }
    let long = json!({ "sql": "SELECT length(?) AS l", "params": ["x".repeat((8 << 20) + 1)] });
    let result = refused(&port, "acme", "query", long).await;
    assert!(result.code == Code::InvalidArgument && result.message.contains("8388608"), "{result:?}");
}

#[tokio::test]
async fn large_results_are_stored_with_their_effect() {
    let (port, _folder) = open(SqlLimits::default());
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a)", "params": [] })).await;
    let large = "x".repeat(3 << 20);
    let insert = json!({ "sql": "INSERT INTO t (a) VALUES (?) RETURNING a", "params": [large] });
    let read = json!({ "sql": "SELECT a FROM t", "params": [] });
    for (op, args) in [("execute", insert.clone()), ("transaction", json!({ "statements": [read, read] }))] {
        let once = crate::helper::scope("acme").with_effect(op);
        let first = super::try_call(&port, &once, op, args.clone()).await.unwrap();
        assert_eq!(super::try_call(&port, &once, op, args).await.unwrap(), first, "{op}");
    }
    let result = call(&port, "acme", "query", read.clone()).await;
    assert_eq!(result["count"], 1, "the repeated call had no effect");
    assert_eq!(result["rows"][0]["a"].as_str().map(str::len), Some(3 << 20));
    let once = crate::helper::scope("acme").with_effect("beyond");
    let beyond = json!({ "statements": [insert, read] });
    let result = super::try_call(&port, &once, "transaction", beyond).await.unwrap_err();
    assert!(result.code == Code::InvalidArgument && result.message.contains("8388608 bytes"), "{result:?}");
    assert_eq!(call(&port, "acme", "query", read).await["count"], 1, "nothing was changed");
}

#[tokio::test]
async fn results_too_large_to_store_change_nothing() {
    let mut limits = SqlLimits::default();
    limits.bytes = 32 << 20;
    let (port, _folder) = open(limits);
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a)", "params": [] })).await;
    // Each of these letters takes six bytes as JSON.
    let letters =
        json!({ "sql": "SELECT replace(hex(zeroblob(?)), ?, char(?)) AS a", "params": [3_000_000, "0", 1] });
    let insert = json!({ "sql": "INSERT INTO t (a) VALUES (?)", "params": [1] });
    let once = crate::helper::scope("acme").with_effect("e");
    let work = json!({ "statements": [insert, letters, letters] });
    let result = super::try_call(&port, &once, "transaction", work).await.unwrap_err();
    assert!(result.code == Code::InvalidArgument && result.message.contains("67108864 bytes"), "{result:?}");
    let count = json!({ "sql": "SELECT a FROM t", "params": [] });
    assert_eq!(call(&port, "acme", "query", count).await["count"], 0);
}
