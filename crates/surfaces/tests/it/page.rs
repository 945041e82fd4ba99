//! The page about the database names every table and column.

use std::path::Path;

use crate::helper::Host;

#[tokio::test]
async fn every_table_and_column_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/formats/surfaces-database.md")).unwrap();
    let host = Host::open();
    let connection =
        rusqlite::Connection::open(host.folder.path().join("surfaces/surfaces.sqlite3")).unwrap();
    let mut statement = connection
        .prepare("SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'")
        .unwrap();
    let columns =
        statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let mut count = 0;
    for (table, column) in columns.map(Result::unwrap) {
        count += 1;
        let explained = page.split("\n## ").any(|section| {
            section.starts_with(&format!("`{table}`")) && section.contains(&format!("`{column}`"))
        });
        assert!(explained, "{table}.{column}");
    }
    assert!(count > 50, "the tables were found: {count}");
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert!(page.contains(&format!("and is {version}.")), "the page names the version");
}
