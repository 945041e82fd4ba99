//! The shared database.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use surfaces::{OpenError, Options, Surfaces};

use crate::helper::{Host, NOW};

#[tokio::test]
async fn files_are_owner_only() {
    let host = Host::open();
    host.call("acme", "kv.set", json!({"key": "k", "value": 1})).await;
    let mut folders = vec![host.folder.path().join("surfaces")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o77, 0, "{}", folder.display());
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            assert_eq!(metadata.permissions().mode() & 0o77, 0, "{}", entry.path().display());
            count += 1;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(count >= 3, "the file, its log and its shared-memory index");
}

#[tokio::test]
async fn newer_versions_are_rejected() {
    let host = Host::open();
    let directory = host.folder.path().join("surfaces");
    drop(host.surfaces);
    let file = directory.join("surfaces.sqlite3");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = Surfaces::open(&Options::new(&directory)).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused:?}");
}

#[tokio::test]
async fn data_survives_a_restart() {
    let host = Host::open();
    host.call("acme", "kv.set", json!({"key": "k", "value": {"a": 1}})).await;
    let host = host.reopened();
    assert_eq!(host.call("acme", "kv.get", json!({"key": "k"})).await["value"], json!({"a": 1}));
}

#[tokio::test]
async fn expired_values_are_removed() {
    let host = Host::with(|limits| limits.kv_keys = 600);
    for n in 0..600 {
        host.call("acme", "kv.set", json!({"key": format!("k{n}"), "value": 1, "ttlSeconds": 1})).await;
    }
    assert_eq!(
        host.refused("acme", "kv.set", json!({"key": "more", "value": 1})).await,
        "kv_quota_exhausted"
    );
    host.call("other", "kv.set", json!({"key": "more", "value": 1})).await;
    // A tenant at its quota makes room immediately; the rest is removed in bounded steps, one per commit.
    host.at(NOW + 1000, "acme", "kv.set", json!({"key": "more", "value": 1})).await;
    for step in 0..5 {
        host.at(NOW + 1000 + step, "other", "kv.set", json!({"key": "more", "value": 1})).await;
    }
    let file = host.folder.path().join("surfaces/surfaces.sqlite3");
    let connection = rusqlite::Connection::open(file).unwrap();
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM kv WHERE tenant = 'acme'"), 1);
    assert_eq!(count("SELECT items FROM usage WHERE tenant = 'acme' AND surface = 'kv'"), 1);
    let bytes = count("SELECT bytes FROM usage WHERE tenant = 'acme' AND surface = 'kv'");
    assert_eq!(bytes, i64::try_from("more".len() + "1".len()).unwrap());
}
