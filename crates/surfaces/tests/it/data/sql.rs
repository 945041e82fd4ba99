//! The contract of SQL databases. The statements work in every dialect.

macro_rules! all {
    ($open:expr) => {
        crate::data::hold!(
            crate::data::sql::laws,
            $open,
            [
                inserts_and_queries,
                a_failed_statement_rolls_back_the_transaction,
                transactions_return_a_result_per_statement,
                values_round_trip,
                values_are_not_interpreted,
                statements_with_values_are_rejected,
                queries_are_read_only,
                host_tables_are_denied,
                syntax_errors_are_reported,
                placeholder_and_value_counts_must_match,
                results_are_limited_in_rows_and_bytes,
                transaction_results_are_limited_in_total,
                long_statements_are_stopped,
                unknown_datasources_are_not_found_and_foreign_ones_denied,
                effects_are_applied_once,
                failed_changes_can_reuse_their_effect_id,
                effect_ids_are_bound_to_an_operation,
                concurrent_changes_are_all_applied,
                accepts_both_argument_spellings,
                duplicate_columns_are_rejected,
                unknown_operations_and_arguments_are_rejected,
            ]
        );
    };
}
pub(crate) use all;

/// The limits of the contract tests.
pub(crate) fn limits() -> surfaces::sql::SqlLimits {
    let mut limits = surfaces::sql::SqlLimits::default();
    limits.rows = 500;
    limits.bytes = 100_000;
    limits.steps = 20_000_000;
    limits.statement_ms = 3_000;
    limits
}

pub(crate) mod laws {
    use futures_util::future::join_all;
    use serde_json::{Value, json};
    use surfaces::sql::ServedSql;
    use surfaces::{Code, Served};

    use crate::data::{call, code, refused, try_call};
    use crate::helper::scope;

    async fn table(port: &ServedSql) {
        let sql = "CREATE TABLE things (id INTEGER PRIMARY KEY, val TEXT)";
        call(port, "acme", "execute", json!({ "sql": sql, "params": [] })).await;
    }

    async fn insert(port: &ServedSql, id: i64, val: &str) -> Value {
        let sql = "INSERT INTO things (id, val) VALUES ($1, $2)";
        call(port, "acme", "execute", json!({ "sql": sql, "params": [id, val] })).await
    }

    async fn count(port: &ServedSql) -> i64 {
        let result =
            call(port, "acme", "query", json!({ "sql": "SELECT count(*) AS n FROM things", "params": [] }))
                .await;
        result["rows"][0]["n"].as_i64().unwrap()
    }

    pub(crate) async fn inserts_and_queries(port: &ServedSql) {
        table(port).await;
        for (id, val) in [(1, "one"), (2, "two"), (3, "three")] {
            assert_eq!(insert(port, id, val).await["changes"], 1);
        }
        let sql = "SELECT id, val FROM things WHERE id >= $1 ORDER BY 1 LIMIT 5";
        let result = call(port, "acme", "query", json!({ "sql": sql, "params": [2] })).await;
        assert_eq!(result["rows"], json!([{ "id": 2, "val": "two" }, { "id": 3, "val": "three" }]));
        assert_eq!(result["count"], 2);
        let sql = "UPDATE things SET val = $1 WHERE id < $2";
        assert_eq!(
            call(port, "acme", "execute", json!({ "sql": sql, "params": ["less", 3] })).await["changes"],
            2
        );
        let sql = "DELETE FROM things WHERE val = $1";
        assert_eq!(
            call(port, "acme", "execute", json!({ "sql": sql, "params": ["less"] })).await["changes"],
            2
        );
        assert_eq!(count(port).await, 1);
    }

    pub(crate) async fn a_failed_statement_rolls_back_the_transaction(port: &ServedSql) {
        table(port).await;
        let sql = "INSERT INTO things (id, val) VALUES ($1, $2)";
        let statements = json!([
            { "sql": sql, "params": [1, "one"] },
            { "sql": sql, "params": [2, "two"] },
            { "sql": sql, "params": [1, "again"] },
        ]);
        let refusal = refused(port, "acme", "transaction", json!({ "statements": statements })).await;
        assert_eq!(refusal.code, Code::SqlTransactionAborted);
        assert!(refusal.message.contains("statement 2"), "{}", refusal.message);
        assert_eq!(count(port).await, 0);
        // The failure does not affect later calls.
        insert(port, 1, "one").await;
        assert_eq!(count(port).await, 1);
    }

    pub(crate) async fn transactions_return_a_result_per_statement(port: &ServedSql) {
        table(port).await;
        let statements = json!([
            { "sql": "INSERT INTO things (id, val) VALUES ($1, $2), ($3, $2)", "params": [1, "x", 2] },
            { "sql": "SELECT id FROM things ORDER BY id", "params": [] },
        ]);
        let result = call(port, "acme", "transaction", json!({ "statements": statements })).await;
        assert_eq!((&result["ok"], &result["committed"]), (&json!(true), &json!(true)));
        assert_eq!(result["results"][0]["changes"], 2);
        assert_eq!(result["results"][1]["rows"], json!([{ "id": 1 }, { "id": 2 }]));
        for wrong in
            [json!([]), json!({}), json!([1]), json!([{ "sql": "SELECT id FROM things", "parameters": [] }])]
        {
            assert_eq!(
                code(port, "acme", "transaction", json!({ "statements": wrong })).await,
                Code::InvalidArgument
            );
        }
    }

    pub(crate) async fn values_round_trip(port: &ServedSql) {
        let sql = "CREATE TABLE kinds (i BIGINT, f DOUBLE PRECISION, t TEXT, n TEXT)";
        call(port, "acme", "execute", json!({ "sql": sql, "params": [] })).await;
        let rows = [
            json!([1, 1.5, "text", null]),
            json!([-9_223_372_036_854_775_808_i64, -0.25, "", null]),
            json!([9_223_372_036_854_775_807_i64, 1e300, "ünï\ncode '\"\\ ${x}", null]),
            json!([null, null, null, null]),
        ];
        for row in &rows {
            let sql = "INSERT INTO kinds (i, f, t, n) VALUES ($1, $2, $3, $4)";
            call(port, "acme", "execute", json!({ "sql": sql, "params": row })).await;
            let sql = "SELECT i, f, t, n FROM kinds";
            let result = call(port, "acme", "query", json!({ "sql": sql, "params": [] })).await;
            let got = &result["rows"][0];
            assert_eq!(json!([got["i"], got["f"], got["t"], got["n"]]), *row);
            call(port, "acme", "execute", json!({ "sql": "DELETE FROM kinds", "params": [] })).await;
        }
    }

    pub(crate) async fn values_are_not_interpreted(port: &ServedSql) {
        table(port).await;
        insert(port, 1, "one").await;
        for attack in ["' OR '1'='1", "x'; DROP TABLE things; --", "\\", "one\u{0}".trim_end_matches('\0')] {
            let sql = "SELECT id FROM things WHERE val = $1";
            let result = call(port, "acme", "query", json!({ "sql": sql, "params": [attack] })).await;
            assert_eq!(result["count"], i64::from(attack == "one"), "{attack}");
        }
        assert_eq!(count(port).await, 1);
    }

    pub(crate) async fn statements_with_values_are_rejected(port: &ServedSql) {
        table(port).await;
        insert(port, 1, "one").await;
        for sql in [
            "DELETE FROM things WHERE val = 'one'",
            "DELETE FROM things WHERE id = 1 OR 1=1",
            "DELETE FROM things WHERE val = $1 OR '1'='1'",
            "DELETE FROM things WHERE val = ${val}",
            "DELETE FROM things; DELETE FROM things",
            "DELETE FROM things -- WHERE val = $1",
        ] {
            assert_eq!(
                code(port, "acme", "execute", json!({ "sql": sql, "params": [] })).await,
                Code::SqlNonParametric,
                "{sql}"
            );
            let statements =
                json!([{ "sql": "DELETE FROM things", "params": [] }, { "sql": sql, "params": [] }]);
            let refusal = refused(port, "acme", "transaction", json!({ "statements": statements })).await;
            assert_eq!(refusal.code, Code::SqlNonParametric, "{sql}");
            assert!(refusal.message.contains("statement 1"), "{}", refusal.message);
        }
        assert_eq!(count(port).await, 1);
    }

    pub(crate) async fn queries_are_read_only(port: &ServedSql) {
        table(port).await;
        for sql in [
            "INSERT INTO things (id) VALUES ($1)",
            "INSERT INTO things (id) VALUES ($1) RETURNING id",
            "DELETE FROM things",
            "CREATE TABLE more (id INTEGER)",
            "DROP TABLE things",
        ] {
            assert_eq!(
                code(port, "acme", "query", json!({ "sql": sql, "params": [7] })).await,
                Code::DatasourceAccessDenied,
                "{sql}"
            );
        }
        assert_eq!(count(port).await, 0);
    }

    pub(crate) async fn host_tables_are_denied(port: &ServedSql) {
        table(port).await;
        let once = scope("acme").with_effect("e");
        let args = json!({ "sql": "INSERT INTO things (id) VALUES ($1)", "params": [1] });
        try_call(port, &once, "execute", args).await.unwrap();
        for sql in [
            "SELECT id FROM interlock_effects",
            "SELECT id FROM \"INTERLOCK_effects\"",
            "DELETE FROM interlock_effects",
            "DROP TABLE interlock_effects",
            "CREATE VIEW v AS SELECT id FROM interlock_effects",
            "ALTER TABLE interlock_effects RENAME TO mine",
        ] {
            for op in ["query", "execute"] {
                assert_eq!(
                    code(port, "acme", op, json!({ "sql": sql, "params": [] })).await,
                    Code::DatasourceAccessDenied,
                    "{op} {sql}"
                );
            }
        }
    }

    pub(crate) async fn syntax_errors_are_reported(port: &ServedSql) {
        table(port).await;
        for sql in [
            "SELEKT id",
            "SELECT id FROM nothing",
            "SELECT nothing FROM things",
            "SELECT id FROM things WHERE nothing($1)",
        ] {
            assert_eq!(
                code(port, "acme", "query", json!({ "sql": sql, "params": [] })).await,
                Code::SqlSyntaxError,
                "{sql}"
            );
        }
        insert(port, 1, "one").await;
        let again = json!({ "sql": "INSERT INTO things (id) VALUES ($1)", "params": [1] });
        assert_eq!(code(port, "acme", "execute", again).await, Code::SqlTransactionAborted);
    }

    pub(crate) async fn placeholder_and_value_counts_must_match(port: &ServedSql) {
        table(port).await;
        let sql = "SELECT id FROM things WHERE id = $1 AND val = $2";
        for params in [json!([]), json!([1]), json!([1, "a", 2]), json!({}), json!("1")] {
            assert_eq!(
                code(port, "acme", "query", json!({ "sql": sql, "params": params })).await,
                Code::InvalidArgument,
                "{params}"
            );
        }
        // Placeholders are identified by number, not by position.
        insert(port, 1, "one").await;
        let sql = "SELECT id FROM things WHERE val = $2 AND id = $1 AND val = $2";
        assert_eq!(
            call(port, "acme", "query", json!({ "sql": sql, "params": [1, "one"] })).await["count"],
            1
        );
        let many = vec![json!(1); 1_001];
        let result =
            refused(port, "acme", "query", json!({ "sql": "SELECT id FROM things", "params": many })).await;
        assert!(result.code == Code::InvalidArgument && result.message.contains("1000"), "{result:?}");
    }

    pub(crate) async fn transaction_results_are_limited_in_total(port: &ServedSql) {
        table(port).await;
        insert(port, 1, &"x".repeat(40_000)).await;
        let read = json!({ "sql": "SELECT val FROM things WHERE id = $1", "params": [1] });
        let add = json!({ "sql": "INSERT INTO things (id, val) VALUES ($1, $2)", "params": [2, "new"] });
        let once = scope("acme").with_effect("large");
        let large = json!({ "statements": [add, read, read, read] });
        let refusal = try_call(port, &once, "transaction", large).await.unwrap_err();
        assert!(
            refusal.code == Code::InvalidArgument && refusal.message.contains("100000 bytes in total"),
            "{refusal:?}"
        );
        let count = json!({ "sql": "SELECT id FROM things", "params": [] });
        assert_eq!(call(port, "acme", "query", count.clone()).await["count"], 1, "nothing was changed");
        let small = json!({ "statements": [add, read, read] });
        try_call(port, &once, "transaction", small).await.unwrap();
        assert_eq!(call(port, "acme", "query", count).await["count"], 2, "the effect id was free");
    }

    pub(crate) async fn results_are_limited_in_rows_and_bytes(port: &ServedSql) {
        table(port).await;
        let rows: Vec<String> = (0..200).map(|n| format!("(${}, $201)", n + 1)).collect();
        for batch in 0..3 {
            let mut params: Vec<Value> = (0..200).map(|n| json!(batch * 200 + n)).collect();
            params.push("x".into());
            let sql = format!("INSERT INTO things (id, val) VALUES {}", rows.join(", "));
            call(port, "acme", "execute", json!({ "sql": sql, "params": params })).await;
        }
        let sql = "SELECT id FROM things";
        let refusal = refused(port, "acme", "query", json!({ "sql": sql, "params": [] })).await;
        assert!(refusal.code == Code::InvalidArgument && refusal.message.contains("500 rows"), "{refusal:?}");
        let result =
            call(port, "acme", "query", json!({ "sql": "SELECT id FROM things LIMIT 500", "params": [] }))
                .await;
        assert_eq!(result["count"], 500);
        let sql = "UPDATE things SET val = $1 WHERE id < $2";
        call(port, "acme", "execute", json!({ "sql": sql, "params": ["y".repeat(1000), 200] })).await;
        let sql = "SELECT val FROM things WHERE id < $1";
        let refusal = refused(port, "acme", "query", json!({ "sql": sql, "params": [150] })).await;
        assert!(
            refusal.code == Code::InvalidArgument && refusal.message.contains("100000 bytes"),
            "{refusal:?}"
        );
    }

    pub(crate) async fn long_statements_are_stopped(port: &ServedSql) {
        let endless = "WITH RECURSIVE n(i) AS (SELECT $1 + $2 UNION ALL SELECT i + $2 FROM n) SELECT count(*) AS n FROM n";
        let endless = endless.replace("$1", "CAST($1 AS BIGINT)").replace("$2", "CAST($2 AS BIGINT)");
        let refusal = refused(port, "acme", "query", json!({ "sql": endless, "params": [0, 1] })).await;
        assert_eq!(refusal.code, Code::InvalidArgument, "{refusal:?}");
        table(port).await;
        let args = json!({ "sql": format!("INSERT INTO things (id) {endless}"), "params": [0, 1] });
        assert_eq!(code(port, "acme", "execute", args).await, Code::InvalidArgument);
        assert_eq!(count(port).await, 0);
    }

    pub(crate) async fn unknown_datasources_are_not_found_and_foreign_ones_denied(port: &ServedSql) {
        let ask = |name: &str| json!({ "sql": "SELECT id FROM things", "params": [], "datasource": name });
        assert_eq!(code(port, "acme", "query", ask("nowhere")).await, Code::DatasourceNotFound);
        assert_eq!(code(port, "acme", "query", ask("theirs")).await, Code::DatasourceAccessDenied);
        assert_eq!(
            code(port, "other", "execute", ask("theirs")).await,
            Code::SqlSyntaxError,
            "the tenant has its own empty one"
        );
        let (key, block) = port.advertise();
        assert_eq!(key, "sql");
        let names: Vec<&str> =
            block["datasources"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(names, ["default"], "restricted datasources are not listed");
        assert_eq!((&block["supported"], &block["transactions"]), (&json!(true), &json!(true)));
    }

    pub(crate) async fn effects_are_applied_once(port: &ServedSql) {
        table(port).await;
        let once = scope("acme").with_effect("run-1/node-2");
        // Each with a new row id, so that only the effect id prevents a second insert.
        let args =
            json!({ "sql": "INSERT INTO things (id, val) SELECT count(*), $1 FROM things", "params": ["x"] });
        let first = try_call(port, &once, "execute", args.clone()).await.unwrap();
        let second = try_call(port, &once, "execute", args.clone()).await.unwrap();
        assert_eq!(first, second);
        assert_eq!(count(port).await, 1);
        let together =
            join_all((0..8).map(|_| {
                let args = args.clone();
                async move {
                    try_call(port, &scope("acme").with_effect("together"), "execute", args).await.unwrap()
                }
            }));
        let result = together.await;
        assert!(result.iter().all(|one| one["changes"] == 1), "{result:?}");
        assert_eq!(count(port).await, 2);
        let statements = json!({ "statements": [args] });
        let twice = scope("acme").with_effect("batch");
        for _ in 0..2 {
            assert_eq!(try_call(port, &twice, "transaction", statements.clone()).await.unwrap()["ok"], true);
        }
        assert_eq!(count(port).await, 3);
    }

    pub(crate) async fn failed_changes_can_reuse_their_effect_id(port: &ServedSql) {
        table(port).await;
        insert(port, 1, "one").await;
        let once = scope("acme").with_effect("e");
        let args = json!({ "sql": "INSERT INTO things (id) VALUES ($1)", "params": [1] });
        assert_eq!(
            try_call(port, &once, "execute", args.clone()).await.unwrap_err().code,
            Code::SqlTransactionAborted
        );
        call(port, "acme", "execute", json!({ "sql": "DELETE FROM things", "params": [] })).await;
        assert_eq!(try_call(port, &once, "execute", args).await.unwrap()["changes"], 1);
        assert_eq!(count(port).await, 1);
    }

    pub(crate) async fn effect_ids_are_bound_to_an_operation(port: &ServedSql) {
        table(port).await;
        let once = scope("acme").with_effect("e");
        let args = json!({ "sql": "INSERT INTO things (id) VALUES ($1)", "params": [1] });
        try_call(port, &once, "execute", args.clone()).await.unwrap();
        let other = try_call(port, &once, "transaction", json!({ "statements": [args] })).await.unwrap_err();
        assert_eq!(other.code, Code::InvalidArgument);
        for wrong in ["", "a\0b", &"x".repeat(513)] {
            let wrong = scope("acme").with_effect(wrong);
            let args = json!({ "sql": "INSERT INTO things (id) VALUES ($1)", "params": [2] });
            assert_eq!(
                try_call(port, &wrong, "execute", args).await.unwrap_err().code,
                Code::InvalidArgument
            );
        }
        assert_eq!(count(port).await, 1);
    }

    pub(crate) async fn concurrent_changes_are_all_applied(port: &ServedSql) {
        table(port).await;
        insert(port, 0, "counter").await;
        join_all((1..=20).map(|id| insert(port, id, "x"))).await;
        assert_eq!(count(port).await, 21);
    }

    pub(crate) async fn accepts_both_argument_spellings(port: &ServedSql) {
        table(port).await;
        let args =
            json!({ "sql": "INSERT INTO things (id) VALUES ($1)", "params": [1], "datasourceId": "default" });
        assert_eq!(call(port, "acme", "execute", args).await["rowsAffected"], 1);
        let operations = json!([{ "sql": "INSERT INTO things (id) VALUES ($1)", "params": [2] }]);
        let result =
            call(port, "acme", "transaction", json!({ "datasourceId": "default", "operations": operations }))
                .await;
        assert_eq!(result["committed"], true);
        assert_eq!(
            call(port, "acme", "query", json!({ "sql": "SELECT id FROM things" })).await["rowCount"],
            2
        );
    }

    pub(crate) async fn duplicate_columns_are_rejected(port: &ServedSql) {
        table(port).await;
        let args = json!({ "sql": "SELECT id, val AS id FROM things", "params": [] });
        assert_eq!(code(port, "acme", "query", args).await, Code::InvalidArgument);
    }

    pub(crate) async fn unknown_operations_and_arguments_are_rejected(port: &ServedSql) {
        for (op, args) in [
            ("select", json!({})),
            ("query", json!({ "sql": "SELECT id FROM things", "param": [] })),
            ("query", json!({ "params": [] })),
            ("query", json!({ "sql": 7 })),
            (
                "query",
                json!({ "sql": "SELECT id FROM things", "datasource": "default", "datasourceId": "default" }),
            ),
        ] {
            assert_eq!(code(port, "acme", op, args.clone()).await, Code::InvalidArgument, "{op} {args}");
        }
    }
}
