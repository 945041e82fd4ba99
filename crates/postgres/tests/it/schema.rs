//! The tables.

use flow::id::{EffectId, RunId};
use ports::runs::ClaimedEffect;
use ports::runs::prelude::*;
use postgres::schema::{self, Version};
use postgres::{OpenError, PostgresRuns};

use crate::{admin, options, servers};

/// Everything that defines the tables.
async fn catalog(client: &tokio_postgres::Client) -> Vec<String> {
    let sql = "
        select 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' ||
            coalesce(column_default, '') || ' ' || coalesce(collation_name, '')
        from information_schema.columns where table_schema = 'interlock'
        union all
        select 'index ' || indexdef from pg_indexes where schemaname = 'interlock'
        union all
        select 'options ' || relname || ' ' || reloptions::text from pg_class
        where relnamespace = 'interlock'::regnamespace and reloptions is not null
        order by 1";
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

fn steps() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "latest.sql"));
    files.sort();
    files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[tokio::test]
async fn the_steps_lead_to_the_latest_tables_and_may_be_repeated() {
    let (Some(latest), Some(stepwise)) = (servers::postgres().await, servers::postgres().await) else {
        return;
    };
    schema::init(&latest).await.unwrap();
    let client = admin(&stepwise).await;
    client
        .batch_execute("create schema interlock; create table meta (name text collate \"C\" primary key, value bigint not null)")
        .await
        .unwrap();
    for step in steps() {
        for _ in 0..2 {
            client.batch_execute(&step).await.unwrap();
        }
    }
    let expected = catalog(&admin(&latest).await).await;
    assert!(expected.len() > 100, "{expected:?}");
    assert_eq!(catalog(&client).await, expected);
}

#[tokio::test]
async fn every_text_is_ordered_by_its_bytes() {
    let Some(url) = servers::postgres().await else { return };
    schema::init(&url).await.unwrap();
    let sql = "select table_name || '.' || column_name from information_schema.columns
               where table_schema = 'interlock' and data_type in ('text', 'character varying')
                   and collation_name is distinct from 'C'";
    let others: Vec<String> =
        admin(&url).await.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(others, [""; 0]);
}

#[tokio::test]
async fn a_database_is_used_only_if_its_version_fits() {
    let Some(url) = servers::postgres().await else { return };
    let opened = || async { PostgresRuns::open(&options(&url)).await.map(|_| ()) };
    assert!(matches!(opened().await, Err(OpenError::Uninitialized)));
    assert!(matches!(schema::migrate(&url).await, Err(OpenError::Uninitialized)));
    let known = i64::try_from(steps().len()).unwrap();
    for _ in 0..2 {
        assert_eq!(schema::init(&url).await.unwrap(), Version::Schema(known));
    }
    assert_eq!(schema::migrate(&url).await.unwrap(), (known, known));
    let client = admin(&url).await;
    // The next version adds what this one does not use.
    client.execute("update meta set value = $1 where name = 'schema'", &[&(known + 1)]).await.unwrap();
    opened().await.unwrap();
    assert_eq!(schema::migrate(&url).await.unwrap(), (known + 1, known + 1));
    client.execute("update meta set value = $1 where name = 'oldest_known'", &[&(known + 1)]).await.unwrap();
    assert!(matches!(opened().await, Err(OpenError::Newer { .. })));
    assert!(matches!(schema::init(&url).await, Err(OpenError::Newer { .. })));
    assert!(matches!(schema::migrate(&url).await, Err(OpenError::Newer { .. })));
}

#[tokio::test]
async fn effects_of_an_older_version_keep_their_results() {
    let Some(url) = servers::postgres().await else { return };
    let client = admin(&url).await;
    client
        .batch_execute("create schema interlock; create table meta (name text collate \"C\" primary key, value bigint not null)")
        .await
        .unwrap();
    for step in &steps()[..2] {
        client.batch_execute(step).await.unwrap();
    }
    client
        .batch_execute(
            "insert into meta (name, value) values ('schema', 2), ('oldest_known', 1), ('hosts', 0);
             insert into activities (id, run_id, at, host_id, attempt, outcome)
                 values ('open', 'r', 1, 'h', 1, null), ('done', 'r', 2, 'h', 1, '1')",
        )
        .await
        .unwrap();
    let known = i64::try_from(steps().len()).unwrap();
    assert_eq!(schema::migrate(&url).await.unwrap(), (2, known));
    let store = PostgresRuns::open(&options(&url)).await.unwrap();
    let effect = async |id: &str| store.effect(&EffectId::new(id)).await.unwrap();
    assert_eq!(effect("open").await, Some(ClaimedEffect::Unfinished { attempt: 1 }));
    assert_eq!(effect("done").await, Some(ClaimedEffect::Finished(b"1"[..].into())));
    let listed = store.attempts(&RunId::new("r"), None, 10).await.unwrap();
    assert!(listed.is_empty(), "what they reached is not known");
}
