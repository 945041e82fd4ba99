//! `interlock serve` with runs in PostgreSQL.

#[path = "../../../../surfaces/tests/it/data/servers.rs"]
#[expect(dead_code, reason = "tests of other crates start other servers with it")]
mod servers;

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{KEY, Served, examples};
use crate::program::{interlock, run, run_command, text};

const VARIABLE: &str = "INTERLOCK_TEST_DATABASE";

/// A data directory whose settings name the database.
fn data_directory() -> TempDir {
    let data = TempDir::new().unwrap();
    let settings = format!("[database]\nurl = \"env:{VARIABLE}\"\n");
    std::fs::write(data.path().join("config.toml"), settings).unwrap();
    data
}

/// Makes the row of a killed host as old as it would be a minute later.
async fn age_hosts(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("update interlock.hosts set beat_at = beat_at - interval '1 minute'").await.unwrap();
}

#[tokio::test]
async fn runs_in_postgresql_survive_their_host() {
    let Some(url) = servers::postgres().await else { return };
    let data = data_directory();
    let environment = [(VARIABLE, url.as_str())];
    let command = |arguments: &[&str]| {
        let mut command = interlock(arguments);
        run_command(command.arg("--data-dir").arg(data.path()).env(VARIABLE, &url), b"")
    };
    // Without tables, the server says what to do.
    let empty = command(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(text(&empty.stderr).contains("interlock database init"), "{}", text(&empty.stderr));
    for arguments in
        [["database", "init"], ["database", "init"], ["database", "migrate"], ["database", "check"]]
    {
        let done = command(&arguments);
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        assert!(text(&done.stdout).contains("schema version 3"), "{arguments:?}: {}", text(&done.stdout));
    }

    let served = Served::with_environment(data.path(), &examples(), &environment);
    let run_id = served.create("hello", json!({"text": "good morning"})).await;
    assert_eq!(served.settled(&run_id).await["status"], "waiting-approval");
    let body = json!({"workflowId": "hello", "inputs": {"text": "once"}});
    let (_, first) = served.ask("POST", "/v1/runs", Some(body.clone()), KEY, Some("key-1")).await;

    // A second host is refused while this one is alive; a command is not.
    let other = data_directory();
    let mut second = interlock(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    let second = run_command(second.arg(other.path()).env(VARIABLE, &url).env("INTERLOCK_API_KEY", KEY), b"");
    assert_eq!(second.status.code(), Some(2));
    let words = text(&second.stderr);
    assert!(words.contains("DATABASE_UNUSABLE") && words.contains("uses this database already"), "{words}");
    let made = command(&["key", "new-api-key", "--json"]);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let path = format!("/v1/runs/{run_id}");
    assert_eq!(served.ask("GET", &path, None, made["key"].as_str().unwrap(), None).await.0, 200);
    let doctor = command(&["doctor"]);
    assert!(text(&doctor.stdout).contains("PostgreSQL") && !text(&doctor.stdout).contains(&url));

    served.kill();
    age_hosts(&url).await;
    let served = Served::with_environment(data.path(), &examples(), &environment);
    let accept = json!({"resumeValue": {"action": "accept"}});
    let path = format!("/v1/runs/{run_id}/interrupts/ask");
    let (status, reply) = served.ask("POST", &path, Some(accept), KEY, None).await;
    assert_eq!((status, &reply["status"]), (200, &json!("completed")), "{reply}");
    assert_eq!(served.settled(&run_id).await["variables"]["greeting"], "good morning");
    let (_, again) = served.ask("POST", "/v1/runs", Some(body), KEY, Some("key-1")).await;
    assert_eq!(again["runId"], first["runId"], "an idempotency key holds across hosts");
    assert!(!data.path().join("runs.sqlite3").exists());
}

/// With a master key, the keys are in the database: every data directory has the same ones, and another master key is refused.
#[tokio::test]
async fn keys_are_shared_under_a_master_key() {
    const MASTER: &str = "INTERLOCK_TEST_MASTER_KEY";
    let Some(url) = servers::postgres().await else { return };
    let directory = || {
        let data = TempDir::new().unwrap();
        let settings = format!("[database]\nurl = \"env:{VARIABLE}\"\nmaster_key = \"env:{MASTER}\"\n");
        std::fs::write(data.path().join("config.toml"), settings).unwrap();
        data
    };
    let (one, other) = (directory(), directory());
    let master = "5a".repeat(32);
    let command = |data: &TempDir, master: &str, arguments: &[&str]| {
        let mut command = interlock(arguments);
        command.arg("--data-dir").arg(data.path()).env(VARIABLE, &url).env(MASTER, master);
        run_command(&mut command, b"")
    };
    assert!(command(&one, &master, &["database", "init"]).status.success());
    let rotated = command(&one, &master, &["key", "rotate", "--json"]);
    assert!(rotated.status.success(), "{}", text(&rotated.stderr));
    let listed = command(&other, &master, &["key", "list", "--json"]);
    let fingerprints = |output: &Output| {
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        (document["current"].clone(), document["previous"].clone())
    };
    assert_eq!(fingerprints(&listed), fingerprints(&rotated));
    assert_eq!(command(&other, &master, &["session", "list"]).status.code(), Some(0));

    let environment = [(VARIABLE, url.as_str()), (MASTER, master.as_str())];
    let served = Served::with_environment(one.path(), &examples(), &environment);
    let run_id = served.create("hello", json!({"text": "good morning"})).await;
    assert_eq!(served.settled(&run_id).await["status"], "waiting-approval");
    served.kill();

    for wrong in ["11".repeat(32), "short".to_owned()] {
        let refused = command(&other, &wrong, &["key", "list"]);
        let words = format!("{}{}", text(&refused.stdout), text(&refused.stderr));
        assert!(!refused.status.success(), "{words}");
        assert!(words.contains("database.master_key") && !words.contains(&wrong), "{words}");
    }
}

/// Runs in the data directory would be hidden by a database.
#[tokio::test]
async fn a_data_directory_with_runs_is_not_used_with_a_database() {
    let Some(url) = servers::postgres().await else { return };
    let data = TempDir::new().unwrap();
    Served::on(data.path(), &examples()).kill();
    let mut serve = interlock(&["serve", "--listen", "127.0.0.1:0", "--database", &url, "--data-dir"]);
    let refused = run_command(serve.arg(data.path()), b"");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("runs.sqlite3"), "{}", text(&refused.stderr));
}

#[test]
fn a_database_that_cannot_be_used_is_an_error_without_its_password() {
    let url = "postgres://me:hunter2@127.0.0.1:1/none";
    for arguments in
        [["database", "check", "--database", url], ["database", "init", "--database", "postgres:hunter2"]]
    {
        let refused = run(&arguments, b"");
        let words = format!("{}{}", text(&refused.stdout), text(&refused.stderr));
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(words.contains("DATABASE_UNUSABLE") && !words.contains("hunter2"), "{words}");
    }
}
