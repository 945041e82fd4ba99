use proptest::prelude::*;

use super::{Class, Dialect, MAX_SQL_BYTES, MAX_WORDS, check};
use crate::error::Code;

use Dialect::{Postgres, Sqlite};

fn refusal(sql: &str, dialect: Dialect) -> Option<Code> {
    check(sql, dialect).err().map(|refusal| refusal.code)
}

#[test]
fn allows_bound_statements() {
    let table = [
        (Sqlite, "SELECT id, name FROM users WHERE id = ?", Class::Read),
        (
            Sqlite,
            "select * from users where id = ?1 and name like ?2 order by 1 limit 10 offset 5;",
            Class::Read,
        ),
        (Sqlite, "SELECT count(*), max(at) FROM \"users\" GROUP BY 1 HAVING count(*) > ?", Class::Read),
        (
            Sqlite,
            "WITH RECURSIVE up(id) AS (SELECT ? UNION SELECT parent FROM t, up WHERE t.id = up.id) SELECT id FROM up",
            Class::Read,
        ),
        (Sqlite, "SELECT json_extract(body, ?) FROM t LIMIT ?", Class::Read),
        (Sqlite, "SELECT value FROM json_each(?)", Class::Read),
        (Sqlite, "VALUES (?, ?)", Class::Read),
        (Sqlite, "(SELECT a FROM t)", Class::Read),
        (Sqlite, "INSERT INTO t(id, val) VALUES (?, ?), (?, NULL), (TRUE, FALSE)", Class::Insert),
        (
            Sqlite,
            "INSERT INTO t(id) VALUES (?) ON CONFLICT(id) DO UPDATE SET id = excluded.id RETURNING id",
            Class::Insert,
        ),
        (Sqlite, "REPLACE INTO t(id) VALUES (?)", Class::Insert),
        (Sqlite, "UPDATE t SET val = val + ? WHERE id = ?", Class::Write),
        (Sqlite, "DELETE FROM t WHERE ok = TRUE", Class::Write),
        (
            Sqlite,
            "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, val VARCHAR(20) NOT NULL DEFAULT 'none' CHECK (val <> ''))",
            Class::Define,
        ),
        (Sqlite, "CREATE UNIQUE INDEX i ON t(val) WHERE val > 3", Class::Define),
        (Sqlite, "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 0", Class::Define),
        (Sqlite, "ALTER TABLE t ADD COLUMN n TEXT DEFAULT 'interlock_x'", Class::Define),
        (Postgres, "ALTER TABLE t ADD COLUMN n TEXT CHECK (n <> 'interlock_x')", Class::Define),
        (Sqlite, "DROP TABLE IF EXISTS t", Class::Define),
        (Sqlite, "CREATE VIEW v AS SELECT id FROM t", Class::Define),
        (Postgres, "SELECT id FROM users WHERE id = $1 FETCH FIRST 5 ROWS ONLY", Class::Read),
        (Postgres, "SELECT $1::numeric(10, 2), CAST($2 AS varchar(20))", Class::Read),
        (Postgres, "SELECT pg_typeof($1::int)", Class::Read),
        (Postgres, "SELECT a FROM t WHERE b @> $1::jsonb AND c = ANY($2)", Class::Read),
        (Postgres, "SELECT a FROM t FOR UPDATE", Class::Write),
        (Postgres, "WITH gone AS (DELETE FROM t WHERE id = $1 RETURNING *) SELECT * FROM gone", Class::Write),
        (Postgres, "INSERT INTO t (id, at) VALUES ($1, now()) ON CONFLICT DO NOTHING", Class::Insert),
        (Postgres, "TRUNCATE TABLE t", Class::Write),
        (Postgres, "CREATE TABLE t (id bigserial PRIMARY KEY, price numeric(10,2) DEFAULT 0)", Class::Define),
    ];
    for (dialect, sql, class) in table {
        assert_eq!(check(sql, dialect).map_err(|why| why.message), Ok(class), "{sql}");
    }
}

#[test]
fn rejects_literals() {
    let both = [
        "SELECT * FROM users WHERE id = '7'",
        "SELECT * FROM users WHERE id = 7",
        "SELECT * FROM users WHERE id = -7",
        "SELECT * FROM users WHERE id = 7.5e1",
        "SELECT 1",
        "SELECT * FROM users WHERE id IN (1, 2)",
        "SELECT * FROM users WHERE name LIKE 'a%'",
        "SELECT * FROM users WHERE id BETWEEN 1 AND 9",
        "SELECT coalesce(name, '') FROM users",
        "SELECT name AS n FROM users ORDER BY 1 + 1",
        "SELECT name FROM users LIMIT 10 + 1",
        "SELECT CASE WHEN id = 3 THEN name END FROM users",
        "INSERT INTO t(id) VALUES (1)",
        "UPDATE t SET val = 'x'",
        "UPDATE t SET n = n + 1",
        "DELETE FROM t WHERE id = 5",
        "CREATE TABLE u AS SELECT * FROM t WHERE id = 5",
        "CREATE VIEW v AS SELECT * FROM t WHERE id = 5",
        "SELECT * FROM users WHERE id = 1 LIMIT 1",
        "SELECT CAST(7 AS varchar(7)) FROM t",
        "SELECT (SELECT name FROM t WHERE id = 3) FROM t",
        "WITH a AS (SELECT 'x') SELECT * FROM a",
    ];
    for sql in both {
        for dialect in [Sqlite, Postgres] {
            assert_eq!(refusal(sql, dialect), Some(Code::SqlNonParametric), "{dialect:?}: {sql}");
        }
    }
    let postgres = [
        "SELECT * FROM t WHERE a = $$x$$",
        "SELECT * FROM t WHERE a = $tag$x$tag$",
        "SELECT * FROM t WHERE a = E'x\\n'",
        "SELECT * FROM t WHERE a = U&'x'",
        "SELECT * FROM t WHERE a > interval '1 day'",
        "SELECT * FROM t WHERE a > DATE '2026-01-01'",
        "SELECT * FROM t WHERE a = X'1F'",
        "SELECT * FROM t WHERE a = ARRAY[1, 2]",
    ];
    for sql in postgres {
        assert_eq!(refusal(sql, Postgres), Some(Code::SqlNonParametric), "{sql}");
    }
}

#[test]
fn rejects_injection_patterns() {
    let table = [
        "SELECT * FROM users WHERE id = ${id}",
        "SELECT * FROM users WHERE id = '${id}'",
        "SELECT * FROM {{table}}",
        "SELECT * FROM users WHERE id = #{id}",
        "SELECT * FROM users WHERE id = ? OR '1'='1'",
        "SELECT * FROM users WHERE id = ? OR 1=1",
        "SELECT * FROM users WHERE id = ? OR 1 = 1 -- ",
        "SELECT * FROM users WHERE id = ? OR TRUE",
        "SELECT * FROM users WHERE id = ? OR (NOT FALSE)",
        "SELECT * FROM users WHERE id = ? OR NULL IS NULL",
        "SELECT * FROM users WHERE id = ? OR name = name",
        "SELECT * FROM users WHERE id = ? /* AND owner = ? */",
        "SELECT * FROM users -- WHERE id = ?",
        "SELECT * FROM users; DROP TABLE users",
        "SELECT * FROM users;;SELECT * FROM users",
    ];
    for sql in table {
        for dialect in [Sqlite, Postgres] {
            assert_eq!(
                refusal(&sql.replace('?', placeholder(dialect)), dialect),
                Some(Code::SqlNonParametric),
                "{dialect:?}: {sql}"
            );
        }
    }
}

fn placeholder(dialect: Dialect) -> &'static str {
    match dialect {
        Sqlite => "?",
        Postgres => "$1",
    }
}

#[test]
fn rejects_statements_beyond_the_data() {
    let both = [
        "PRAGMA table_info(t)",
        "ATTACH DATABASE 'other.sqlite' AS other",
        "VACUUM INTO 'copy.sqlite'",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT a",
        "EXPLAIN SELECT * FROM t",
        "COPY t TO '/tmp/x'",
        "COPY t FROM PROGRAM 'id'",
        "DO $$ BEGIN END $$",
        "SET ROLE postgres",
        "GRANT ALL ON t TO u",
        "CALL f()",
        "LISTEN x",
        "CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE ROLE r",
        "DROP SCHEMA public",
        "DROP DATABASE x",
        "CREATE TEMPORARY TABLE t (id INTEGER)",
        "SELECT * FROM interlock_effects",
        "DROP TABLE interlock_effects",
        "DELETE FROM Interlock_Effects",
        "CREATE TABLE interlock_mine (id INTEGER)",
        "ALTER TABLE interlock_effects ADD COLUMN a INTEGER",
        "ALTER TABLE t RENAME TO interlock_effects",
        "ALTER TABLE t RENAME TO \"Interlock_Effects\"",
        "CREATE INDEX interlock_effects ON t(a)",
        "CREATE VIEW interlock_effects AS SELECT a FROM t",
        "CREATE TABLE t (a INTEGER REFERENCES interlock_effects(at))",
        "INSERT INTO interlock_effects (id) VALUES (?)",
        "UPDATE t SET a = b FROM interlock_effects",
        "SELECT a FROM t WHERE EXISTS (SELECT id FROM interlock_effects)",
    ];
    for sql in both {
        for dialect in [Sqlite, Postgres] {
            assert_eq!(refusal(sql, dialect), Some(Code::DatasourceAccessDenied), "{dialect:?}: {sql}");
        }
    }
    let table = [
        (Sqlite, "ALTER TABLE t RENAME TO 'interlock_x'"),
        (Sqlite, "ALTER TABLE t RENAME TO 'Interlock_Effects'"),
        (Sqlite, "ALTER TABLE t RENAME COLUMN a TO 'interlock_x'"),
        (Sqlite, "CREATE TABLE 'interlock_x' (a INTEGER)"),
        (Sqlite, "CREATE TABLE t (\"default\" 'interlock_x')"),
        (Sqlite, "CREATE INDEX 'interlock_x' ON t(a)"),
        (Sqlite, "DROP TABLE 'interlock_effects'"),
        (Sqlite, "SELECT load_extension(?)"),
        (Sqlite, "SELECT * FROM pragma_table_info(?)"),
        (Sqlite, "SELECT * FROM sqlite_master"),
        (Sqlite, "SELECT * FROM main.sqlite_schema"),
        (Sqlite, "CREATE VIRTUAL TABLE f USING fts5(a)"),
        (Postgres, "SELECT pg_read_file($1)"),
        (Postgres, "SELECT * FROM pg_ls_dir($1)"),
        (Postgres, "SELECT \"pg_sleep\"($1)"),
        (Postgres, "SELECT pg_catalog.pg_sleep($1)"),
        (Postgres, "SELECT * FROM pg_stat_activity"),
        (Postgres, "SELECT * FROM pg_catalog.pg_authid"),
        (Postgres, "SELECT lo_import($1)"),
        (Postgres, "SELECT set_config($1, $2, FALSE)"),
        (Postgres, "SELECT query_to_xml($1, TRUE, TRUE, $2)"),
        (Postgres, "SELECT ts_rewrite($1::tsquery, $2)"),
        (Postgres, "SELECT * FROM crosstab($1) AS t(a int)"),
        (Postgres, "SELECT * FROM crosstab2($1)"),
        (Postgres, "SELECT * FROM connectby($1, $2, $3, $4, $5) AS t(a int)"),
        (Postgres, "SELECT * FROM xpath_table($1, $2, $3, $4, $5) AS t(a int)"),
        (Postgres, "SELECT a FROM t UNION ALL TABLE pg_authid"),
        (Postgres, "SELECT * FROM (TABLE pg_authid) AS a"),
        (Postgres, "SELECT a FROM t UNION TABLE t"),
        (Postgres, "SELECT rolname FROM ONLY pg_authid"),
        (Postgres, "DELETE FROM ONLY \"pg_authid\""),
        (Postgres, "WITH a AS (TABLE pg_catalog.pg_authid) SELECT * FROM a"),
        (Postgres, "CREATE TABLE u AS TABLE pg_authid"),
        (Postgres, "INSERT INTO t TABLE pg_authid"),
        (Postgres, "SELECT a FROM t WHERE a IN (TABLE pg_authid)"),
        (Postgres, "TRUNCATE interlock_effects"),
        (Postgres, "CREATE SEQUENCE interlock_effects"),
        (Postgres, "CREATE TABLE u (LIKE interlock_effects)"),
        (Postgres, "SELECT * FROM dblink($1, $2) AS t(a int)"),
        (Postgres, "SELECT U&\"\\0070g_sleep\"($1)"),
        (Postgres, "SELECT u&\"\\0070g_sleep\"($1)"),
        (Postgres, "CREATE TABLE t (a text DEFAULT pg_read_file('/etc/hostname'))"),
        (Postgres, "ALTER TABLE t ADD COLUMN a text DEFAULT pg_read_file('/etc/hostname')"),
        (Postgres, "CREATE INDEX i ON t (pg_sleep(1))"),
        (Postgres, "CREATE VIEW v AS SELECT pg_ls_dir(a) FROM t"),
        (Postgres, "SELECT a FROM t, LATERAL pg_ls_dir(a)"),
        (Postgres, "SELECT * INTO u FROM t"),
        (Postgres, "CREATE EXTENSION dblink"),
        (Postgres, "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"),
    ];
    for (dialect, sql) in table {
        assert_eq!(refusal(sql, dialect), Some(Code::DatasourceAccessDenied), "{dialect:?}: {sql}");
    }
}

/// Every position of an expression or table is checked. Positions that the parser does not support are rejected as
/// well.
#[test]
fn checks_every_position() {
    let expressions = [
        "SELECT FUNCTION",
        "SELECT (FUNCTION).a",
        "SELECT DISTINCT ON (FUNCTION) a FROM t",
        "SELECT a FROM t WHERE FUNCTION IS NULL",
        "SELECT a FROM t WHERE a = ANY (ARRAY(SELECT FUNCTION))",
        "SELECT a FROM t WHERE a IN (SELECT FUNCTION)",
        "SELECT a FROM t WHERE EXISTS (SELECT FUNCTION)",
        "SELECT a FROM t JOIN u ON FUNCTION IS NULL",
        "SELECT a FROM t GROUP BY FUNCTION",
        "SELECT a FROM t GROUP BY GROUPING SETS ((FUNCTION))",
        "SELECT a FROM t GROUP BY a HAVING FUNCTION IS NULL",
        "SELECT a FROM t ORDER BY FUNCTION",
        "SELECT a FROM t LIMIT FUNCTION",
        "SELECT a FROM t OFFSET FUNCTION",
        "SELECT a FROM t FETCH FIRST (FUNCTION) ROWS ONLY",
        "SELECT count(*) FILTER (WHERE FUNCTION IS NULL) FROM t",
        "SELECT sum(a) OVER (PARTITION BY FUNCTION) FROM t",
        "SELECT sum(a) OVER (ORDER BY FUNCTION) FROM t",
        "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY FUNCTION)",
        "SELECT array_agg(a ORDER BY FUNCTION) FROM t",
        "SELECT percentile_cont(a) WITHIN GROUP (ORDER BY FUNCTION) FROM t",
        "SELECT CASE WHEN FUNCTION IS NULL THEN a END FROM t",
        "SELECT coalesce(a, FUNCTION) FROM t",
        "SELECT CAST(FUNCTION AS text)",
        "SELECT FUNCTION::text",
        "SELECT a[FUNCTION] FROM t",
        "SELECT ARRAY[FUNCTION]",
        "SELECT ROW(FUNCTION)",
        "SELECT extract(year FROM FUNCTION)",
        "SELECT substring(FUNCTION FROM $1)",
        "SELECT overlay(a PLACING FUNCTION FROM $1) FROM t",
        "SELECT position(FUNCTION IN a) FROM t",
        "SELECT trim(FUNCTION FROM a) FROM t",
        "SELECT a AT TIME ZONE FUNCTION FROM t",
        "SELECT a BETWEEN $1 AND FUNCTION FROM t",
        "SELECT a LIKE $1 ESCAPE FUNCTION FROM t",
        "SELECT a COLLATE \"C\" || FUNCTION FROM t",
        "SELECT f(VARIADIC FUNCTION)",
        "SELECT f(named => FUNCTION)",
        "SELECT * FROM FUNCTION",
        "SELECT * FROM FUNCTION AS f(a)",
        "SELECT * FROM FUNCTION WITH ORDINALITY",
        "SELECT * FROM t, LATERAL FUNCTION",
        "SELECT * FROM t CROSS JOIN LATERAL (SELECT FUNCTION) AS l",
        "SELECT * FROM ROWS FROM (FUNCTION)",
        "SELECT * FROM unnest(FUNCTION)",
        "SELECT * FROM generate_series(FUNCTION, $1)",
        "SELECT * FROM t TABLESAMPLE bernoulli (FUNCTION)",
        "SELECT * FROM json_table(FUNCTION, $1 COLUMNS (a text PATH $1))",
        "VALUES (FUNCTION)",
        "WITH a AS (SELECT FUNCTION) SELECT * FROM a",
        "WITH a AS MATERIALIZED (VALUES (FUNCTION)) SELECT * FROM a",
        "SELECT a FROM t UNION SELECT FUNCTION",
        "INSERT INTO t (a) VALUES (FUNCTION)",
        "INSERT INTO t (a) SELECT FUNCTION",
        "INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET a = FUNCTION",
        "INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET a = $1 WHERE FUNCTION IS NULL",
        "INSERT INTO t (a) VALUES ($1) RETURNING FUNCTION",
        "UPDATE t SET a = FUNCTION",
        "UPDATE t SET (a, b) = (SELECT FUNCTION, $1)",
        "UPDATE t SET a = $1 WHERE FUNCTION IS NULL",
        "UPDATE t SET a = $1 FROM (SELECT FUNCTION) AS u",
        "UPDATE t SET a = $1 RETURNING FUNCTION",
        "DELETE FROM t WHERE FUNCTION IS NULL",
        "DELETE FROM t USING (SELECT FUNCTION) AS u",
        "DELETE FROM t RETURNING FUNCTION",
        "CREATE TABLE u (a text DEFAULT FUNCTION)",
        "CREATE TABLE u (a text CHECK (FUNCTION IS NULL))",
        "CREATE TABLE u (a text GENERATED ALWAYS AS (FUNCTION) STORED)",
        "CREATE TABLE u (a text, CHECK (FUNCTION IS NULL))",
        "CREATE TABLE u AS SELECT FUNCTION",
        "CREATE TABLE u (a text) PARTITION BY RANGE (FUNCTION)",
        "CREATE VIEW v AS SELECT FUNCTION",
        "CREATE MATERIALIZED VIEW v AS SELECT FUNCTION",
        "CREATE INDEX i ON t (FUNCTION)",
        "CREATE INDEX i ON t ((FUNCTION))",
        "CREATE INDEX i ON t (a) WHERE FUNCTION IS NULL",
        "ALTER TABLE t ADD COLUMN b text DEFAULT FUNCTION",
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT FUNCTION",
        "ALTER TABLE t ALTER COLUMN a TYPE text USING FUNCTION",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (FUNCTION IS NULL)",
    ];
    for template in expressions {
        for function in
            ["pg_sleep($1)", "pg_catalog.pg_read_file($1)", "\"lo_import\"($1)", "ts_rewrite(a, $1)"]
        {
            let sql = template.replace("FUNCTION", function);
            assert!(refusal(&sql, Postgres).is_some(), "{sql}");
        }
    }
    let tables = [
        "SELECT a FROM RELATION",
        "SELECT a FROM ONLY RELATION",
        "SELECT a FROM t, RELATION",
        "SELECT a FROM t JOIN RELATION ON t.a = b",
        "SELECT a FROM t NATURAL JOIN RELATION",
        "SELECT a FROM (t CROSS JOIN RELATION)",
        "SELECT a FROM (SELECT a FROM RELATION) AS u",
        "SELECT a FROM t WHERE a IN (SELECT a FROM RELATION)",
        "SELECT (SELECT a FROM RELATION)",
        "SELECT ARRAY(SELECT a FROM RELATION)",
        "WITH u AS (SELECT a FROM RELATION) SELECT a FROM u",
        "SELECT a FROM t UNION SELECT a FROM RELATION",
        "SELECT a FROM t EXCEPT (SELECT a FROM RELATION)",
        "INSERT INTO RELATION (a) VALUES ($1)",
        "INSERT INTO t (a) SELECT a FROM RELATION",
        "UPDATE RELATION SET a = $1",
        "UPDATE t SET a = b FROM RELATION",
        "DELETE FROM RELATION",
        "DELETE FROM t USING RELATION",
        "TRUNCATE RELATION",
        "TRUNCATE t, RELATION",
        "DROP TABLE t, RELATION",
        "DROP VIEW RELATION",
        "DROP SEQUENCE RELATION",
        "CREATE TABLE u AS SELECT a FROM RELATION",
        "CREATE VIEW v AS SELECT a FROM RELATION",
        "CREATE INDEX i ON RELATION (a)",
        "ALTER TABLE RELATION ADD COLUMN b text",
    ];
    for template in tables {
        for table in [
            "pg_authid",
            "pg_catalog.pg_authid",
            "\"pg_authid\"",
            "information_schema.tables",
            "interlock_effects",
        ] {
            let sql = template.replace("RELATION", table);
            assert!(refusal(&sql, Postgres).is_some(), "{sql}");
        }
    }
}

#[test]
fn reports_syntax_errors() {
    let table = [
        "",
        "  ",
        ";",
        "SELEKT a FROM t",
        "SELECT a FROM",
        "SELECT a FROM t WHERE",
        "'a'",
        "SELECT 'a",
        "SELECT a\0 FROM t",
        "SELECT\u{a0}a FROM t",
    ];
    for sql in table {
        for dialect in [Sqlite, Postgres] {
            assert_eq!(refusal(sql, dialect), Some(Code::SqlSyntaxError), "{dialect:?}: {sql:?}");
        }
    }
}

#[test]
fn errors_do_not_quote_values() {
    let refusal = check("SELECT * FROM users WHERE password = 'hunter2-hunter2'", Sqlite)
        .expect_err("it is not quoted");
    assert!(!refusal.message.contains("hunter2"), "{}", refusal.message);
}

#[test]
fn limits_size_and_depth() {
    let long = format!("SELECT a FROM t WHERE {}", "b ".repeat(MAX_SQL_BYTES));
    assert_eq!(refusal(&long, Sqlite), Some(Code::SqlSyntaxError));
    for dialect in [Sqlite, Postgres] {
        // Long chains make deep trees, and deep parentheses make long searches.
        for (chain, times) in [
            ("+ a ", MAX_WORDS / 2),
            ("IS NULL ", MAX_WORDS / 2),
            ("OR a ", MAX_WORDS / 2),
            ("|| a ", MAX_WORDS / 2),
        ] {
            let sql = format!("SELECT a {}", chain.repeat(times - 4));
            let _ = check(&sql, dialect);
            assert_eq!(
                refusal(&format!("{sql} {}", chain.repeat(8)), dialect),
                Some(Code::SqlSyntaxError),
                "{chain}"
            );
        }
        let unions = format!("SELECT a {}", "UNION SELECT a ".repeat(MAX_WORDS / 3 - 2));
        let _ = check(&unions, dialect);
        for (open, close) in [
            ("(", ")"),
            ("((", "))"),
            ("CASE WHEN ", " THEN a END"),
            ("NOT ", ""),
            ("- ", ""),
            ("f(", ")"),
            ("(SELECT ", ")"),
        ] {
            for depth in [5, 12, 24, 100, 400] {
                let _ =
                    check(&format!("SELECT * FROM {}t{}", open.repeat(depth), close.repeat(depth)), dialect);
                let _ =
                    check(&format!("SELECT {}t{} FROM t", open.repeat(depth), close.repeat(depth)), dialect);
                let _ = check(
                    &format!("SELECT * FROM t WHERE a IN {}t{}", open.repeat(depth), close.repeat(depth)),
                    dialect,
                );
                let _ =
                    check(&format!("{}SELECT a FROM t{}", open.repeat(depth), close.repeat(depth)), dialect);
                let _ = check(&format!("SELECT * FROM {}", open.repeat(depth)), dialect);
                let _ = check(&format!("SELECT {}", open.repeat(depth)), dialect);
            }
        }
    }
    let many = format!("INSERT INTO t(a, b) VALUES {}", vec!["(?, ?)"; 500].join(", "));
    assert_eq!(check(&many, Sqlite).map_err(|why| why.message), Ok(Class::Insert));
}

/// Fragments of SQL injections.
fn fragment() -> impl Strategy<Value = String> {
    let words = [
        "SELECT",
        "FROM",
        "WHERE",
        "OR",
        "AND",
        "=",
        "(",
        ")",
        ",",
        "*",
        "t",
        "a",
        "?",
        "$1",
        "NULL",
        "TRUE",
        "LIMIT",
        "ORDER BY",
        "GROUP BY",
        "UNION",
        "INSERT INTO",
        "VALUES",
        "UPDATE",
        "SET",
        "DELETE FROM",
        "::",
        "CAST(",
        "AS",
        "numeric(5)",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "IN",
        "LIKE",
        "BETWEEN",
        "NOT",
        "IS",
        "EXISTS",
        "WITH",
        "RETURNING",
        "CREATE TABLE",
        "DEFAULT",
        "--",
        "/*",
        "*/",
        "'",
        "\"",
        ";",
        "[",
        "]",
        "->>",
        "||",
    ];
    prop_oneof![
        8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => any::<u16>().prop_map(|number| number.to_string()),
        1 => "[a-z]{0,4}".prop_map(|text| format!("'{text}'")),
        1 => "\\PC{0,3}",
    ]
}

proptest! {
    /// No text panics, and the result is deterministic.
    #[test]
    fn checking_is_total_and_deterministic(parts in proptest::collection::vec(fragment(), 0..40)) {
        let sql = parts.join(" ");
        for dialect in [Sqlite, Postgres] {
            prop_assert_eq!(check(&sql, dialect), check(&sql, dialect));
        }
    }

    /// A value anywhere in a row statement is found, however it is written.
    #[test]
    fn string_literals_never_pass(parts in proptest::collection::vec(fragment(), 0..30), at in any::<prop::sample::Index>()) {
        let mut parts: Vec<String> = parts.into_iter().filter(|part| !part.contains(['\'', '"', '/', '-', '['])).collect();
        let at = at.index(parts.len() + 1);
        parts.insert(at, "'marked'".to_owned());
        let sql = format!("SELECT {}", parts.join(" "));
        for dialect in [Sqlite, Postgres] {
            prop_assert!(check(&sql, dialect).is_err(), "{}", sql);
        }
    }
}
