//! Damaged records.

use std::time::Duration;

use runs::{ApiCode, Trouble};

use super::{Host, begin, caller, status};

/// Findings M5 and L5: a host whose store is damaged reports that it is not ready, and why.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_read_a_damaged_record_is_not_ready() {
    let host = Host::start().await;
    let (damaged, whole) = (begin(&host.runs, "gated").await, begin(&host.runs, "gated").await);
    assert!(host.runs.is_ready().await && host.runs.records().store_trouble().is_none());
    let connection = rusqlite::Connection::open(host.folder.path().join("runs.sqlite3")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    let sql = "UPDATE appends SET events = x'7b' WHERE run = (SELECT place FROM runs WHERE run_id = ?1)";
    assert!(connection.execute(sql, [damaged.as_str()]).unwrap() > 0);
    let refused = host.runs.queries().open_interrupts(&caller("acme"), &damaged).await.unwrap_err();
    assert_eq!(refused.code, ApiCode::InternalError);
    assert_eq!(host.runs.records().store_trouble(), Some(Trouble::Damaged));
    assert!(!host.runs.is_ready().await);
    assert_eq!(status(&host.runs, &whole), "waiting-approval", "what is whole is served all the same");
}
