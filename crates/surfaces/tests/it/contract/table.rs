//! The contract of tables.

macro_rules! all {
    ($open:expr) => {
        crate::contract::hold!(
            table,
            $open,
            [
                insert_get_update_delete,
                the_first_value_fixes_the_type_of_a_column,
                tables_of_another_tenant_do_not_exist,
                unknown_tables_are_not_found,
                pages_have_every_row_once,
                pages_continue_after_changes,
                cursors_are_bound_to_their_query,
                pages_follow_the_requested_order,
                ordered_pages_continue_after_changes,
                objects_cannot_be_ordered,
                filters_match_equal_values,
                effects_are_applied_once,
            ]
        );
    };
}
pub(crate) use all;

pub(crate) mod laws {
    use serde_json::{Value, json};
    use surfaces::Code;
    use surfaces::table::{Kind, OrderBy, Query, Row, Tables};

    use crate::helper::scope;

    fn row(value: Value) -> Row {
        match value {
            Value::Object(row) => row,
            other => panic!("{other}"),
        }
    }

    fn query(filter: Value, limit: usize, cursor: Option<String>) -> Query {
        Query { table: "t".into(), filter: row(filter), order: Vec::new(), limit, cursor }
    }

    /// The ids of one page, and the cursor of the next.
    async fn page(
        port: &dyn Tables,
        order: &[&str],
        limit: usize,
        cursor: Option<String>,
    ) -> (Vec<String>, Option<String>) {
        let order = order.iter().map(|by| OrderBy::parse(by)).collect();
        let asked = Query { order, ..query(json!({}), limit, cursor) };
        let found = port.query(&scope("acme"), asked).await.unwrap();
        (found.rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect(), found.next)
    }

    async fn insert(port: &dyn Tables, value: Value) {
        port.insert(&scope("acme"), "t".into(), row(value)).await.unwrap();
    }

    async fn ids(port: &dyn Tables, filter: Value) -> Vec<String> {
        let found = port.query(&scope("acme"), query(filter, 1000, None)).await.unwrap();
        found.rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn insert_get_update_delete(port: &dyn Tables) {
        let at = scope("acme");
        let first = row(json!({"id": "a", "n": 1, "o": {"x": [1]}}));
        assert_eq!(port.insert(&at, "t".into(), first.clone()).await.unwrap(), "a");
        assert_eq!(port.get(&at, "t".into(), "a".into()).await.unwrap(), Some(first.clone()));
        let refused = port.insert(&at, "t".into(), first).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "ids are unique");
        assert!(port.update(&at, "t".into(), "a".into(), row(json!({"n": 2, "s": "x"}))).await.unwrap());
        let changed = row(json!({"id": "a", "n": 2, "o": {"x": [1]}, "s": "x"}));
        assert_eq!(port.get(&at, "t".into(), "a".into()).await.unwrap(), Some(changed));
        assert!(!port.update(&at, "t".into(), "b".into(), Row::new()).await.unwrap());
        let renamed = port.update(&at, "t".into(), "a".into(), row(json!({"id": "b"}))).await.unwrap_err();
        assert_eq!(renamed.code, Code::InvalidArgument);
        let result = port.upsert(&at, "t".into(), row(json!({"id": "a"}))).await.unwrap();
        assert!(!result.created);
        assert_eq!(port.get(&at, "t".into(), "a".into()).await.unwrap(), Some(row(json!({"id": "a"}))));
        assert!(port.upsert(&at, "t".into(), row(json!({"id": "b"}))).await.unwrap().created);
        assert_eq!(port.count(&at, "t".into(), Row::new()).await.unwrap(), 2);
        assert!(port.delete(&at, "t".into(), "a".into()).await.unwrap());
        assert!(!port.delete(&at, "t".into(), "a".into()).await.unwrap());
        assert_eq!(port.count(&at, "t".into(), Row::new()).await.unwrap(), 1);
    }

    pub(crate) async fn the_first_value_fixes_the_type_of_a_column(port: &dyn Tables) {
        let at = scope("acme");
        insert(port, json!({"id": "a", "s": "x", "n": 1, "b": true, "o": {}, "later": null})).await;
        let wrong = [
            json!({"id": "b", "s": 1}),
            json!({"id": "b", "n": "1"}),
            json!({"id": "b", "b": 0}),
            json!({"id": "b", "o": "x"}),
            json!({"id": 1}),
            json!({"s": "no id"}),
            json!({"id": ""}),
        ];
        for wrong in wrong {
            let refused = port.insert(&at, "t".into(), row(wrong.clone())).await.unwrap_err();
            assert!(matches!(refused.code, Code::TableSchemaViolation | Code::InvalidArgument), "{wrong}");
            let refused = port.upsert(&at, "t".into(), row(wrong.clone())).await.unwrap_err();
            assert!(matches!(refused.code, Code::TableSchemaViolation | Code::InvalidArgument), "{wrong}");
        }
        let refused = port.update(&at, "t".into(), "a".into(), row(json!({"n": "1"}))).await.unwrap_err();
        assert_eq!(refused.code, Code::TableSchemaViolation);
        assert_eq!(ids(port, json!({})).await, ["a"], "nothing was stored");
        insert(port, json!({"id": "b", "s": null, "o": [1], "later": 5, "new": 1.5})).await;
        let refused = port.insert(&at, "t".into(), row(json!({"id": "c", "later": "x"}))).await.unwrap_err();
        assert_eq!(refused.code, Code::TableSchemaViolation, "null fixed no type, and 5 did");
        let columns = vec![("n".to_owned(), Kind::String)];
        let refused = port.create(&at, "t".into(), columns).await.unwrap_err();
        assert_eq!(refused.code, Code::TableSchemaViolation);
        assert!(port.create(&at, "made".into(), vec![("n".to_owned(), Kind::Number)]).await.unwrap());
        assert!(!port.create(&at, "made".into(), Vec::new()).await.unwrap());
        let refused = port.insert(&at, "made".into(), row(json!({"id": "a", "n": "x"}))).await.unwrap_err();
        assert_eq!(refused.code, Code::TableSchemaViolation);
    }

    pub(crate) async fn tables_of_another_tenant_do_not_exist(port: &dyn Tables) {
        insert(port, json!({"id": "a", "n": 1})).await;
        let other = scope("other");
        let refused = port.query(&other, query(json!({}), 10, None)).await.unwrap_err();
        assert_eq!(refused.code, Code::TableNotFound);
        assert_eq!(port.get(&other, "t".into(), "a".into()).await.unwrap_err().code, Code::TableNotFound);
        port.insert(&other, "t".into(), row(json!({"id": "a", "n": "text"}))).await.unwrap();
        assert!(port.delete(&other, "t".into(), "a".into()).await.unwrap());
        assert_eq!(ids(port, json!({})).await, ["a"]);
    }

    pub(crate) async fn unknown_tables_are_not_found(port: &dyn Tables) {
        let at = scope("acme");
        for refused in [
            port.update(&at, "t".into(), "a".into(), Row::new()).await.unwrap_err(),
            port.delete(&at, "t".into(), "a".into()).await.unwrap_err(),
            port.count(&at, "t".into(), Row::new()).await.unwrap_err(),
            port.query(&at, query(json!({"id": "a"}), 1, None)).await.unwrap_err(),
        ] {
            assert_eq!(refused.code, Code::TableNotFound);
        }
    }

    pub(crate) async fn pages_have_every_row_once(port: &dyn Tables) {
        let mut expected: Vec<String> = (0..25).map(|n| format!("r{n}")).collect();
        for id in expected.iter().rev() {
            insert(port, json!({"id": id, "n": id.len()})).await;
        }
        expected.sort();
        for limit in [1, 7, 25, 1000] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let page = port.query(&scope("acme"), query(json!({}), limit, cursor)).await.unwrap();
                assert!(page.rows.len() <= limit);
                seen.extend(page.rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, expected, "by {limit}");
        }
    }

    pub(crate) async fn pages_continue_after_changes(port: &dyn Tables) {
        let at = scope("acme");
        for id in ["b", "d", "f", "h"] {
            insert(port, json!({"id": id})).await;
        }
        let page = port.query(&at, query(json!({}), 2, None)).await.unwrap();
        // The last row of the page is deleted, and one is inserted before it.
        port.delete(&at, "t".into(), "d".into()).await.unwrap();
        insert(port, json!({"id": "a"})).await;
        insert(port, json!({"id": "e"})).await;
        let page = port.query(&at, query(json!({}), 10, page.next)).await.unwrap();
        let seen: Vec<&Value> = page.rows.iter().map(|row| &row["id"]).collect();
        assert_eq!(seen, ["e", "f", "h"]);
        assert_eq!(page.next, None);
    }

    pub(crate) async fn cursors_are_bound_to_their_query(port: &dyn Tables) {
        let at = scope("acme");
        for id in ["a", "b", "c"] {
            insert(port, json!({"id": id, "n": 1})).await;
            port.insert(&scope("other"), "t".into(), row(json!({"id": id, "n": 1}))).await.unwrap();
        }
        let cursor = port.query(&at, query(json!({"n": 1}), 1, None)).await.unwrap().next.unwrap();
        let cut = cursor[..cursor.len() - 1].to_owned();
        for (filter, wrong) in [
            (json!({}), cursor.clone()),
            (json!({"n": 2}), cursor.clone()),
            (json!({"n": 1}), cut),
            (json!({"n": 1}), String::new()),
            (json!({"n": 1}), "YQ".into()),
            (json!({"n": 1}), "\u{0}é".into()),
        ] {
            let refused = port.query(&at, query(filter, 1, Some(wrong.clone()))).await.unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{wrong:?}");
        }
        let foreign = port.query(&scope("other"), query(json!({"n": 1}), 1, Some(cursor.clone()))).await;
        assert_eq!(foreign.unwrap_err().code, Code::InvalidArgument);
        assert_eq!(port.query(&at, query(json!({"n": 1}), 9, Some(cursor))).await.unwrap().rows.len(), 2);
    }

    pub(crate) async fn pages_follow_the_requested_order(port: &dyn Tables) {
        for (id, n, s, b) in [
            ("a", json!(2), json!("x"), json!(true)),
            ("b", json!(10), json!("y"), json!(false)),
            ("c", json!(1.5), json!("x"), json!(null)),
            ("d", json!(null), json!("ä"), json!(true)),
            ("e", json!(2.0), json!("Z"), json!(false)),
        ] {
            insert(port, json!({"id": id, "n": n, "s": s, "b": b})).await;
        }
        let cases: [(&[&str], &str); 8] = [
            (&["n"], "dcaeb"),
            (&["-n"], "baecd"),
            (&["s"], "eacbd"),
            (&["-s", "n"], "dbcae"),
            (&["b"], "cbead"),
            (&["-b", "-n"], "adbec"),
            (&["-id"], "edcba"),
            (&["missing"], "abcde"),
        ];
        for (order, expected) in cases {
            for limit in [1, 2, 5, 1000] {
                let (mut seen, mut cursor) = (String::new(), None);
                loop {
                    let (ids, next) = page(port, order, limit, cursor).await;
                    assert!(ids.len() <= limit);
                    seen.extend(ids);
                    cursor = next;
                    if cursor.is_none() {
                        break;
                    }
                }
                assert_eq!(seen, expected, "{order:?} by {limit}");
            }
        }
        let (_, next) = page(port, &["n"], 1, None).await;
        for other in [vec!["-n"], vec!["n", "s"], vec![]] {
            let order = other.iter().map(|by| OrderBy::parse(by)).collect();
            let wrong = Query { order, ..query(json!({}), 1, next.clone()) };
            let refused = port.query(&scope("acme"), wrong).await.unwrap_err();
            assert_eq!(
                refused.code,
                Code::InvalidArgument,
                "a cursor is valid only for its order: {other:?}"
            );
        }
    }

    pub(crate) async fn ordered_pages_continue_after_changes(port: &dyn Tables) {
        let at = scope("acme");
        for (id, n) in [("a", 40), ("b", 30), ("c", 20), ("d", 10)] {
            insert(port, json!({"id": id, "n": n})).await;
        }
        let (seen, next) = page(port, &["n"], 2, None).await;
        assert_eq!(seen, ["d", "c"]);
        // The last row of the page is deleted, and one is inserted on each side of it.
        port.delete(&at, "t".into(), "c".into()).await.unwrap();
        insert(port, json!({"id": "e", "n": 15})).await;
        insert(port, json!({"id": "f", "n": 25})).await;
        let (seen, next) = page(port, &["n"], 10, next).await;
        assert_eq!((seen, next), (vec!["f".to_owned(), "b".into(), "a".into()], None));
    }

    pub(crate) async fn objects_cannot_be_ordered(port: &dyn Tables) {
        insert(port, json!({"id": "a", "o": {"x": 1}})).await;
        let wrong = Query { order: vec![OrderBy::parse("o")], ..query(json!({}), 1, None) };
        let refused = port.query(&scope("acme"), wrong).await.unwrap_err();
        assert!(refused.code == Code::InvalidArgument && refused.message.contains("`o`"), "{refused:?}");
    }

    pub(crate) async fn filters_match_equal_values(port: &dyn Tables) {
        insert(port, json!({"id": "a", "n": 1, "s": "x"})).await;
        insert(port, json!({"id": "b", "n": 2, "s": "x"})).await;
        insert(port, json!({"id": "c", "n": 1.0, "s": null, "o": {"k": [1]}})).await;
        let cases = [
            (json!({"n": 1}), vec!["a", "c"]),
            (json!({"s": "x", "n": 2}), vec!["b"]),
            (json!({"s": null}), vec!["c"]),
            (json!({"o": {"k": [1.0]}}), vec!["c"]),
            (json!({"id": "b"}), vec!["b"]),
            (json!({"id": "b", "n": 1}), vec![]),
            (json!({"id": "missing"}), vec![]),
            (json!({"n": "1"}), vec![]),
            (json!({"' OR 1=1 --": null}), vec!["a", "b", "c"]),
            (json!({"' OR 1=1 --": 1}), vec![]),
        ];
        for (filter, expected) in cases {
            assert_eq!(ids(port, filter.clone()).await, expected, "{filter}");
            let count = port.count(&scope("acme"), "t".into(), row(filter)).await.unwrap();
            assert_eq!(count, expected.len() as u64);
        }
    }

    pub(crate) async fn effects_are_applied_once(port: &dyn Tables) {
        let at = |effect: &str| scope("acme").with_effect(effect);
        for _ in 0..2 {
            let result = port.insert(&at("i"), "t".into(), row(json!({"id": "a"}))).await.unwrap();
            assert_eq!(result, "a", "the repeated call is not a duplicate row");
        }
        for _ in 0..2 {
            assert!(port.delete(&at("d"), "t".into(), "a".into()).await.unwrap());
        }
    }
}
