//! Credentials in arbitrary texts.

use std::borrow::Cow;

use flow::redact::{is_suspicious, json, text, value};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

/// Credentials in common formats, all of them invalid.
const CANARIES: [&str; 11] = [
    "sk-proj-CANARYabcdefghijklmnop",
    "sk-ant-api03-CANARYabcdefghijklmnop",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJDQU5BUlkifQ.c2lnbmF0dXJlQ0FOQVJZ",
    "AKIACANARYCANARY1234",
    "ASIACANARYCANARY1234",
    "AIzaCANARYabcdefghijklmnopqrstuvwxyz012",
    "ghp_CANARYabcdefghijklmnopqrstuvwxyz0123",
    "github_pat_CANARY_abcdefghijklmnopqrstuvwxyz",
    "xoxb-CANARY-abcdefghijklmnop",
    "ilk_live_CANARY0000000000000000",
    "-----BEGIN EC PRIVATE KEY-----\nCANARY\n-----END EC PRIVATE KEY-----",
];

/// Credentials, parts of them, and separators.
fn pieces() -> impl Strategy<Value = String> {
    let whole = select(CANARIES.to_vec()).prop_map(str::to_owned);
    let cut = (select(CANARIES.to_vec()), 0..40_usize)
        .prop_map(|(canary, length)| canary.chars().take(length).collect());
    let between = select(vec![
        "",
        " ",
        "-",
        "_",
        ".",
        "\n",
        "\t",
        "\\",
        "\"",
        "\u{1}",
        "ü",
        "x",
        "n",
        "u0001",
        "Z9",
        "[REDACTED]",
        "-----",
        "eyJ",
        "-----END ",
        "PRIVATE KEY-----",
        "-----BEGIN ",
    ]);
    let piece = prop_oneof![whole, cut, between.prop_map(str::to_owned)];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Words of ids, sentences and paths.
fn ordinary() -> impl Strategy<Value = String> {
    let word = select(vec![
        "task",
        "risk",
        "desk",
        "monkeyJump",
        "ghp",
        "xox",
        "AKIA",
        "begin",
        "PRIVATE KEY",
        "Ü",
        "7",
    ]);
    let joint = select(vec!["-", "_", ".", "/", " ", ": ", "\n"]);
    prop::collection::vec((word, joint), 0..10)
        .prop_map(|parts| parts.into_iter().flat_map(|(word, joint)| [word, joint]).collect())
}

fn documents(leaf: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Value> {
    let names = leaf.clone();
    let plain = prop_oneof![
        leaf.prop_map(Value::String),
        any::<i64>().prop_map(|number| (number >> 11).into()),
        (-1e6..1e6_f64).prop_map(Value::from),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
    ];
    plain.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn redacting_twice_changes_nothing(given in pieces()) {
        let once = text(&given).into_owned();
        prop_assert_eq!(matches!(text(&given), Cow::Borrowed(_)), once == given);
        prop_assert_eq!(is_suspicious(&given), once != given);
        prop_assert_eq!(text(&once), once.as_str());
    }

    #[test]
    fn a_credential_is_redacted_in_any_context(
        canary in select(CANARIES.to_vec()),
        before in "(.*[^A-Za-z0-9])?",
        after in "([^A-Za-z0-9_-].*)?",
    ) {
        let given = format!("{before}{canary}{after}");
        prop_assert!(!text(&given).contains(canary), "{}", given);
        let document = serde_json::json!({"a": [given]}).to_string();
        prop_assert!(!json(&document).contains("CANARY") || before.contains("CANARY") || after.contains("CANARY"));
    }

    #[test]
    fn redacting_the_text_and_the_document_give_the_same_result(document in documents(pieces().boxed())) {
        let given = document.to_string();
        let mut clean = document.clone();
        value(&mut clean);
        prop_assert_eq!(json(&given).into_owned(), clean.to_string());
        prop_assert_eq!(matches!(json(&given), Cow::Borrowed(_)), clean == document);
        let once = clean.to_string();
        prop_assert_eq!(json(&once), once.as_str());
    }

    #[test]
    fn ordinary_documents_are_unchanged(document in documents(ordinary().boxed())) {
        let given = document.to_string();
        let mut clean = document.clone();
        value(&mut clean);
        prop_assert_eq!(&clean, &document);
        prop_assert!(matches!(json(&given), Cow::Borrowed(_)));
    }
}
