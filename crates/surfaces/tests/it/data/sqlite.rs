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
async fn a_tenant_and_a_datasource_have_a_file_of_their_own() {
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
async fn what_was_answered_is_there_after_a_restart_and_so_are_identities() {
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
    let told = call(&port, "acme", "query", json!({ "sql": "SELECT n FROM t", "params": [] })).await;
    assert_eq!(told["rows"], json!([{ "n": 5 }]));
}

#[tokio::test]
async fn placeholders_are_counted_as_sqlite_counts_them() {
    let (port, _folder) = open(sql::limits());
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a, b)", "params": [] })).await;
    for sql in [
        "INSERT INTO t (a, b) VALUES (?, ?)",
        "INSERT INTO t (b, a) VALUES (?2, ?1)",
        "INSERT INTO t (b, a) VALUES ($2, $1)",
    ] {
        call(&port, "acme", "execute", json!({ "sql": sql, "params": ["a", true] })).await;
    }
    let told = call(&port, "acme", "query", json!({ "sql": "SELECT a, b FROM t", "params": [] })).await;
    assert_eq!(told["rows"], json!([{ "a": "a", "b": 1 }, { "a": "a", "b": 1 }, { "a": "a", "b": 1 }]));
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
async fn bytes_and_json_have_their_forms() {
    let (port, _folder) = open(sql::limits());
    let sql = "SELECT unhex(?) AS bytes, json_extract(?, ?) AS inner, CAST(? AS REAL) AS endless";
    let told = call(
        &port,
        "acme",
        "query",
        json!({ "sql": sql, "params": ["00ff", { "a": [1, { "b": 2 }] }, "$.a[1].b", "1e999"] }),
    )
    .await;
    assert_eq!(told["rows"], json!([{ "bytes": "AP8=", "inner": 2, "endless": "Infinity" }]));
}

#[tokio::test]
async fn a_file_does_not_outgrow_its_bound() {
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
async fn work_that_cannot_be_kept_in_the_end_is_not_to_be_made_again() {
    let mut limits = sql::limits();
    limits.file_bytes = 64 << 10;
    let (port, _folder) = open(limits);
    let of_parent = "CREATE TABLE child (of INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)";
    for make in ["CREATE TABLE parent (id INTEGER PRIMARY KEY)", of_parent] {
        call(&port, "acme", "execute", json!({ "sql": make, "params": [] })).await;
    }
    // Both statements run: what fails is the end of the transaction, and the answer that is stored beside it.
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
async fn a_file_that_is_damaged_says_so() {
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
                std::fs::write(path, "no database, and longer than its header: ".repeat(100)).unwrap();
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
            let told = call(&port, tenant, "query", json!({ "sql": "SELECT a FROM t", "params": [] })).await;
            assert_eq!(told["count"], round + 1, "{tenant}");
        }
    }
}

#[tokio::test]
async fn a_text_in_double_quotes_is_a_name_and_no_value() {
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
async fn a_statement_whose_steps_are_long_is_ended_by_the_clock() {
    let (port, _folder) = open({
        let mut limits = SqlLimits::default();
        limits.steps = u64::MAX;
        limits.statement_ms = 200;
        limits
    });
    let sql = "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + ? FROM n) SELECT max(length(randomblob(?))) AS m FROM n";
    let told = refused(&port, "acme", "query", json!({ "sql": sql, "params": [0, 1, 100_000] })).await;
    assert!(told.code == Code::InvalidArgument && told.message.contains("200 ms"), "{told:?}");
    let short =
        call(&port, "acme", "query", json!({ "sql": "SELECT length(?) AS l", "params": ["abc"] })).await;
    assert_eq!(short["rows"], json!([{ "l": 3 }]), "the file is served as before");
}

#[tokio::test]
async fn a_row_that_is_too_large_is_refused_before_it_is_copied() {
    let (port, _folder) = open(SqlLimits::default());
    let columns: Vec<String> = (0..100).map(|n| format!("zeroblob(?1) AS c{n}")).collect();
    let sql = format!("SELECT {}", columns.join(", "));
    let told = refused(&port, "acme", "query", json!({ "sql": sql, "params": [1_000_000] })).await;
    assert!(told.code == Code::InvalidArgument && told.message.contains("8388608 bytes"), "{told:?}");
}

#[tokio::test]
async fn a_value_is_bounded_and_lower_where_a_statement_may_have_many_at_once() {
    let (port, _folder) = open(SqlLimits::default());
    let one = "SELECT length(randomblob(?1)) AS l";
    let told = call(&port, "acme", "query", json!({ "sql": one, "params": [8 << 20] })).await;
    assert_eq!(told["rows"], json!([{ "l": 8 << 20 }]));
    let many = format!(
        "SELECT {}",
        (0..200).map(|n| format!("length(randomblob(?1)) AS l{n}")).collect::<Vec<_>>().join(", ")
    );
    for (sql, bytes, bound) in [(one, (8 << 20) + 1, "8388608"), (&many, (1 << 20) + 1, "1048576")] {
        let told = refused(&port, "acme", "query", json!({ "sql": sql, "params": [bytes] })).await;
        assert!(told.code == Code::InvalidArgument && told.message.contains(bound), "{told:?}");
    }
    let long = json!({ "sql": "SELECT length(?) AS l", "params": ["x".repeat((8 << 20) + 1)] });
    let told = refused(&port, "acme", "query", long).await;
    assert!(told.code == Code::InvalidArgument && told.message.contains("8388608"), "{told:?}");
}

#[tokio::test]
async fn a_large_answer_of_a_change_is_remembered_with_it() {
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
    let told = call(&port, "acme", "query", read.clone()).await;
    assert_eq!(told["count"], 1, "the second time nothing happened");
    assert_eq!(told["rows"][0]["a"].as_str().map(str::len), Some(3 << 20));
    let once = crate::helper::scope("acme").with_effect("beyond");
    let beyond = json!({ "statements": [insert, read] });
    let told = super::try_call(&port, &once, "transaction", beyond).await.unwrap_err();
    assert!(told.code == Code::InvalidArgument && told.message.contains("8388608 bytes"), "{told:?}");
    assert_eq!(call(&port, "acme", "query", read).await["count"], 1, "nothing changed");
}

#[tokio::test]
async fn an_answer_that_is_too_large_as_json_to_be_remembered_is_refused_and_changes_nothing() {
    let mut limits = SqlLimits::default();
    limits.bytes = 32 << 20;
    let (port, _folder) = open(limits);
    call(&port, "acme", "execute", json!({ "sql": "CREATE TABLE t (a)", "params": [] })).await;
    // As JSON each of these letters has six bytes.
    let letters =
        json!({ "sql": "SELECT replace(hex(zeroblob(?)), ?, char(?)) AS a", "params": [3_000_000, "0", 1] });
    let insert = json!({ "sql": "INSERT INTO t (a) VALUES (?)", "params": [1] });
    let once = crate::helper::scope("acme").with_effect("e");
    let work = json!({ "statements": [insert, letters, letters] });
    let told = super::try_call(&port, &once, "transaction", work).await.unwrap_err();
    assert!(told.code == Code::InvalidArgument && told.message.contains("67108864 bytes"), "{told:?}");
    let count = json!({ "sql": "SELECT a FROM t", "params": [] });
    assert_eq!(call(&port, "acme", "query", count).await["count"], 0);
}
