//! The schema and its migrations.

use disk::sqlite;
use rusqlite::Connection;

use super::OpenError;

/// The migrations. They are append-only; `PRAGMA user_version` counts those that were applied.
const STEPS: &[&str] = &[
    "
    CREATE TABLE runs (
        place INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        workflow_id TEXT NOT NULL,
        status TEXT NOT NULL,
        open INTEGER NOT NULL,
        next_sequence INTEGER NOT NULL,
        scope_id TEXT,
        parent_run_id TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        genesis BLOB NOT NULL,
        snapshot BLOB NOT NULL
    ) STRICT;
    CREATE INDEX runs_by_tenant ON runs (tenant, place);
    CREATE INDEX runs_by_workflow ON runs (tenant, workflow_id, place);
    -- The rest are small: most runs are none of these.
    CREATE INDEX runs_open ON runs (run_id) WHERE open = 1;
    CREATE INDEX runs_open_by_tenant ON runs (tenant, place) WHERE open = 1;
    CREATE INDEX runs_open_by_scope ON runs (tenant, scope_id) WHERE open = 1 AND scope_id IS NOT NULL;
    CREATE INDEX runs_failed ON runs (tenant, place) WHERE status = 'failed';
    CREATE INDEX runs_cancelled ON runs (tenant, place) WHERE status = 'cancelled';
    CREATE INDEX runs_by_parent ON runs (parent_run_id, place) WHERE parent_run_id IS NOT NULL;

    CREATE TABLE tags (
        tenant TEXT NOT NULL,
        tag TEXT NOT NULL,
        run INTEGER NOT NULL,
        PRIMARY KEY (tenant, tag, run)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE appends (
        run INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        events BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX appends_by_last ON appends (run, last);

    CREATE TABLE definitions (
        digest BLOB PRIMARY KEY,
        document BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE workflows (
        tenant TEXT NOT NULL,
        workflow_id TEXT NOT NULL,
        digest BLOB NOT NULL,
        registered_at INTEGER NOT NULL,
        PRIMARY KEY (tenant, workflow_id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE timers (
        run_id TEXT NOT NULL,
        key TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (run_id, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX timers_by_moment ON timers (at);

    -- Rows are added at the end. The callers' keys are random: looked up by a short hash, they dirty one small page and not the
    -- page of a whole answer.
    CREATE TABLE answers (
        place INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        key BLOB NOT NULL,
        request BLOB NOT NULL,
        status INTEGER NOT NULL,
        body BLOB NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE answer_hashes (
        hash INTEGER NOT NULL,
        place INTEGER NOT NULL,
        PRIMARY KEY (hash, place)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX answers_by_moment ON answers (at);

    CREATE TABLE activities (
        id TEXT PRIMARY KEY,
        run_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        outcome BLOB
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE artifacts (
        run_id TEXT NOT NULL,
        artifact_id TEXT NOT NULL,
        document BLOB NOT NULL,
        PRIMARY KEY (run_id, artifact_id)
    ) STRICT;

    CREATE TABLE annotations (
        place INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL,
        annotation_id TEXT NOT NULL UNIQUE,
        document BLOB NOT NULL
    ) STRICT;
    CREATE INDEX annotations_by_run ON annotations (run_id, place);

    CREATE TABLE webhooks (
        tenant TEXT NOT NULL,
        webhook_id TEXT NOT NULL,
        document BLOB NOT NULL,
        PRIMARY KEY (tenant, webhook_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE deliveries (
        delivery_id TEXT PRIMARY KEY,
        webhook_id TEXT NOT NULL,
        due INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX deliveries_by_moment ON deliveries (due);

    CREATE TABLE audit (
        tenant TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        previous BLOB NOT NULL,
        entry BLOB NOT NULL,
        PRIMARY KEY (tenant, sequence)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE api_keys (
        hash BLOB PRIMARY KEY,
        document BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    ",
    "
    CREATE TABLE checkpoints (
        tenant TEXT NOT NULL,
        at_sequence INTEGER NOT NULL,
        document BLOB NOT NULL,
        PRIMARY KEY (tenant, at_sequence)
    ) STRICT, WITHOUT ROWID;

    CREATE UNIQUE INDEX webhooks_by_id ON webhooks (webhook_id);
    CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id);
    CREATE TABLE buried_deliveries (
        place INTEGER PRIMARY KEY,
        delivery_id TEXT NOT NULL,
        webhook_id TEXT NOT NULL,
        buried_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        body BLOB NOT NULL,
        reason TEXT NOT NULL
    ) STRICT;
    CREATE INDEX buried_by_webhook ON buried_deliveries (webhook_id, place);
    ",
    "
    CREATE INDEX runs_waiting ON runs (tenant, place)
        WHERE status IN ('waiting-approval', 'waiting-input', 'waiting-external');
    -- What belongs to a run is found by it when the run is deleted.
    CREATE INDEX activities_by_run ON activities (run_id);
    CREATE INDEX tags_by_run ON tags (run);
    ",
    // Keys are random, so in one large table nearly every insert dirtied a different page. Keys are now grouped by ranges
    // of replies, and the newest group stays small however many keys there are.
    "
    CREATE TABLE answer_keys (
        stretch INTEGER NOT NULL,
        hash INTEGER NOT NULL,
        place INTEGER NOT NULL,
        PRIMARY KEY (stretch, hash, place)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO answer_keys SELECT place >> 16, hash, place FROM answer_hashes ORDER BY 1, 2, 3;
    DROP TABLE answer_hashes;
    ",
    "
    -- What messages start.
    CREATE TABLE listening (
        tenant TEXT NOT NULL,
        workflow_id TEXT NOT NULL,
        PRIMARY KEY (tenant, workflow_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE claimed_messages (
        tenant TEXT NOT NULL,
        message_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        PRIMARY KEY (tenant, message_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE listener_places (
        tenant TEXT NOT NULL,
        workflow_id TEXT NOT NULL,
        consumer TEXT NOT NULL,
        place TEXT NOT NULL,
        PRIMARY KEY (tenant, workflow_id, consumer)
    ) STRICT, WITHOUT ROWID;
    ",
    // A table instead of a partial index. To decide whether a row belongs to an index with `status IN (…)`, SQLite fills
    // a temporary b-tree with the list: once for each inserted row, and twice for each updated row.
    "
    CREATE TABLE waiting_runs (
        tenant TEXT NOT NULL,
        place INTEGER NOT NULL,
        PRIMARY KEY (tenant, place)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO waiting_runs SELECT tenant, place FROM runs INDEXED BY runs_waiting
        WHERE status IN ('waiting-approval', 'waiting-input', 'waiting-external');
    DROP INDEX runs_waiting;
    ",
    "
    -- The folded state of long runs that have not ended. A cache: the appends are the truth.
    CREATE TABLE run_checkpoints (
        run INTEGER PRIMARY KEY,
        checkpoint BLOB NOT NULL
    ) STRICT;
    ",
    "
    -- One row for each attempt of an effect; only the last one can have an outcome. `node_id` is absent if the effect reaches nothing
    -- outside of its run, and for claims of earlier versions. `reserved` is for budgets, and not written yet.
    CREATE TABLE attempts (
        id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        run_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        node_id TEXT,
        provider_key TEXT,
        released INTEGER NOT NULL DEFAULT 0,
        reserved BLOB,
        outcome BLOB,
        PRIMARY KEY (id, attempt)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO attempts (id, attempt, run_id, at, outcome)
        SELECT id, 1, run_id, at, outcome FROM activities ORDER BY id;
    DROP TABLE activities;
    ALTER TABLE attempts RENAME TO activities;
    CREATE INDEX activities_by_run ON activities (run_id, at);
    ",
];

/// The number of migrations that this program knows.
pub(super) fn known_version() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// The number of applied migrations.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The number of applied migrations, if this program knows all of them.
pub(super) fn check_version(connection: &Connection) -> Result<usize, OpenError> {
    Ok(sqlite::check_version(connection, STEPS.len())?)
}

pub(super) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    Ok(sqlite::migrate(connection, STEPS.iter().copied())?)
}

#[cfg(test)]
mod tests {
    use canon::digest::Digest;
    use flow::id::{EffectId, RunId, Tenant};
    use ports::runs::{ClaimedEffect, ListCursor, ReplyKey, RunFilter};

    use super::super::reads::effects::{attempts, effect};
    use super::super::reads::lists::runs;
    use super::super::reads::replies::{key_hash, reply_at};
    use super::*;

    fn key(name: &str) -> ReplyKey {
        ReplyKey {
            tenant: Tenant::new("t"),
            endpoint: "createRun".to_owned(),
            key: Digest::of_bytes(name.as_bytes()),
        }
    }

    /// A database of the third schema version, with a reply at each position.
    fn third_version(places: &[i64]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..3] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 3).unwrap();
        for place in places {
            let key = key(&place.to_string());
            let sql = "INSERT INTO answers VALUES (?1, ?2, ?3, ?4, ?4, 201, zeroblob(1), 0)";
            let digest = key.key.to_hex().into_bytes();
            connection
                .execute(sql, rusqlite::params![place, key.tenant.as_str(), key.endpoint, digest])
                .unwrap();
            let hash = key_hash(&key);
            connection.execute("INSERT INTO answer_hashes VALUES (?1, ?2)", [hash, *place]).unwrap();
        }
        connection
    }

    #[test]
    fn answers_of_an_older_version_are_found_in_every_stretch() {
        let places = [1, 65_535, 65_536, 200_000, 1 << 20];
        let mut connection = third_version(&places);
        migrate(&mut connection).unwrap();
        let found = |name: &str| {
            let key = key(name);
            reply_at(&connection, key_hash(&key), &key).unwrap()
        };
        for place in places {
            assert!(found(&place.to_string()).is_some(), "{place}");
        }
        assert!(found("another").is_none());
    }

    #[test]
    fn waiting_runs_of_an_older_version_are_listed() {
        let mut connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..5] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 5).unwrap();
        for (place, status) in
            [(1, "running"), (2, "waiting-input"), (3, "completed"), (4, "waiting-approval")]
        {
            let sql =
                "INSERT INTO runs VALUES (?1, 'run_' || ?1, 't', 'w', ?2, 1, 0, NULL, NULL, 0, 0, x'', x'')";
            connection.execute(sql, rusqlite::params![place, status]).unwrap();
        }
        migrate(&mut connection).unwrap();
        let filter = RunFilter { waiting: true, ..RunFilter::default() };
        let mut before = i64::MAX;
        for place in ["4", "2"] {
            let page = runs(&connection, &Tenant::new("t"), &filter, before, 1).unwrap();
            assert_eq!(page.next, Some(ListCursor::new(place)));
            before = place.parse().unwrap();
        }
        assert!(runs(&connection, &Tenant::new("t"), &filter, before, 1).unwrap().runs.is_empty());
    }

    #[test]
    fn effects_of_an_older_version_keep_their_results() {
        let mut connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..7] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 7).unwrap();
        let sql = "INSERT INTO activities VALUES ('open', 'r', 1, NULL), ('done', 'r', 2, x'31')";
        connection.execute(sql, []).unwrap();
        migrate(&mut connection).unwrap();
        let found = |id: &str| effect(&connection, &EffectId::new(id)).unwrap();
        assert_eq!(found("open"), Some(ClaimedEffect::Unfinished { attempt: 1 }));
        assert_eq!(found("done"), Some(ClaimedEffect::Finished(b"1"[..].into())));
        let listed = attempts(&connection, &RunId::new("r"), None, 10).unwrap();
        assert!(listed.is_empty(), "what they reached is not known");
    }

    #[test]
    fn nothing_is_found_where_there_is_nothing() {
        let mut connection = third_version(&[]);
        migrate(&mut connection).unwrap();
        let key = key("any");
        assert!(reply_at(&connection, key_hash(&key), &key).unwrap().is_none());
    }
}
