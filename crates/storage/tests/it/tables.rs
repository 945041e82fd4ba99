//! The page about the database documents every table and every column.

use std::path::Path;

#[test]
fn every_table_and_column_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/formats/runs-database.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.sqlite3");
    drop(storage::sqlite::SqliteRuns::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    let mut statement = connection
        .prepare("SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'")
        .unwrap();
    let columns =
        statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let mut count = 0;
    for (table, column) in columns.map(Result::unwrap) {
        count += 1;
        let heading =
            page.lines().any(|line| line.starts_with("## ") && line.contains(&format!("`{table}`")));
        let alone = page.split("\n## ").any(|section| {
            section.starts_with(&format!("`{table}`")) && section.contains(&format!("`{column}`"))
        });
        assert!(heading && (alone || page.contains(&format!("`{table}.{column}`"))), "{table}.{column}");
    }
    assert!(count > 50, "the tables were found");
}
