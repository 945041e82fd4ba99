//! Properties.

use canon::{
    budget::{self, TRUNCATION_MARKER},
    canonical,
    digest::Digest,
    error::{Envelope, MAX_DETAILS_BYTES},
    json::{self, Limits, Numbers, ReadErrorCode},
};
use proptest::prelude::*;
use serde_json::{Map, Number, Value};

canon::typed_id!(
    /// An id type for these tests.
    SampleId, "sample_"
);

const DEFAULT: Limits = Limits::DEFAULT;

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(Number::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64),
    ]
}

fn json_with(number: impl Strategy<Value = Number> + 'static) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(Value::Number),
        any::<String>().prop_map(Value::String),
        "[\\x00-\\x7f]{0,20}".prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Values whose integers are all distinct doubles.
fn exact_json() -> impl Strategy<Value = Value> {
    json_with(prop_oneof![
        (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(Number::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64),
    ])
}

/// Almost JSON: tokens in random order.
fn almost_json() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"\\u0061\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"é\n\"",
        "\"",
        "\\",
        "0",
        "01",
        "-0",
        "-",
        "1.5",
        "1e400",
        "1e-5",
        "9007199254740993",
        "18446744073709551616",
        "null",
        "true",
        "fals",
        " ",
        "\n",
        "\u{feff}",
        "{\"a\":",
        "[1,",
        "]}",
    ]);
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

/// The reader and `serde_json` on the same bytes.
fn agree(bytes: &[u8]) -> Result<(), TestCaseError> {
    let theirs = serde_json::from_slice::<Value>(bytes);
    match (json::read(bytes, &DEFAULT), theirs) {
        (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours.to_string(), theirs.to_string()),
        (Ok(ours), Err(cause)) => prop_assert!(json::depth_of(&ours) == json::MAX_DEPTH, "{}", cause),
        (Err(refusal), Ok(_)) => prop_assert_eq!(refusal.code(), ReadErrorCode::DuplicateKey),
        (Err(refusal), Err(_)) => prop_assert!(refusal.position.offset <= bytes.len()),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn canonical_text_round_trips(value in exact_json()) {
        let once = canonical::to_string(&value).unwrap();
        let again = json::read(once.as_bytes(), &DEFAULT).unwrap();
        prop_assert_eq!(canonical::string_of(&again), once.clone(), "writing is idempotent");
        prop_assert_eq!(Digest::of_canonical(&value).unwrap(), Digest::of_bytes(once.as_bytes()));
        let theirs: Value = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(again, theirs, "and no reader sees anything else in them");
    }

    #[test]
    fn rounding_is_the_only_difference_between_the_two_writers(value in json_with(number())) {
        match canonical::to_string(&value) {
            Ok(text) => prop_assert_eq!(text, canonical::string_of(&value)),
            Err(refused) => {
                let is_inexact = matches!(refused, canonical::CanonicalError::InexactInteger { .. });
                prop_assert!(is_inexact, "{}", refused);
            }
        }
    }

    #[test]
    fn any_serialization_reads_as_the_value(value in json_with(number())) {
        let plain = serde_json::to_vec(&value).unwrap();
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(json::read(&plain, &DEFAULT).unwrap(), value.clone());
        prop_assert_eq!(json::read(&pretty, &DEFAULT).unwrap(), value);
    }

    #[test]
    fn a_truncated_text_is_never_a_value_with_a_container(value in json_with(number()), cut in any::<prop::sample::Index>()) {
        let text = serde_json::to_vec(&[value]).unwrap();
        let cut = cut.index(text.len());
        let refused = json::read(&text[..cut], &DEFAULT).unwrap_err();
        prop_assert!(refused.position.offset <= cut);
    }

    #[test]
    fn the_reader_never_panics_and_agrees_with_serde_json_on_any_bytes(bytes in any::<Vec<u8>>()) {
        agree(&bytes)?;
    }

    #[test]
    fn the_reader_agrees_with_serde_json_on_text_that_is_nearly_json(text in almost_json()) {
        agree(text.as_bytes())?;
    }

    #[test]
    fn the_reader_agrees_with_serde_json_on_any_string(body in "[\\x00-\\x7fé€😀\\\\u\"]{0,24}") {
        agree(format!("\"{body}\"").as_bytes())?;
    }

    #[test]
    fn the_reader_agrees_with_serde_json_on_any_number(text in "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?") {
        agree(text.as_bytes())?;
    }

    #[test]
    fn exact_integers_round_trip_through_a_double(integer in any::<i64>(), shift in 0_u32..64) {
        let integer = integer >> shift;
        #[expect(clippy::cast_possible_truncation, reason = "the cast under test")]
        let survives = i128::from(integer) == (integer as f64) as i128;
        let exact = json::read(integer.to_string().as_bytes(), &DEFAULT.numbers(Numbers::Exact));
        prop_assert_eq!(exact.is_ok(), survives);
    }

    #[test]
    fn a_position_names_the_character_it_points_at(lines in prop::collection::vec("[a-zé😀 ]{0,6}", 1..5)) {
        let text = format!("\"{}\" !", lines.join("\\n")).replace("\\n", "\"\n\"");
        // Two strings in a row fail at the second; one string at the `!`.
        let refused = json::read(text.as_bytes(), &DEFAULT).unwrap_err();
        let line = text.lines().nth(refused.position.line - 1).unwrap();
        let character = line.chars().nth(refused.position.column - 1);
        prop_assert_eq!(character, text[refused.position.offset..].chars().next());
    }

    #[test]
    fn truncation_keeps_a_prefix_and_never_exceeds_the_budget(text in any::<String>(), max_bytes in 0_usize..80) {
        let cut = budget::truncate(&text, max_bytes);
        prop_assert!(cut.len() <= max_bytes);
        if text.len() <= max_bytes {
            prop_assert_eq!(&cut, &text);
        } else if max_bytes >= TRUNCATION_MARKER.len() {
            let kept = cut.strip_suffix(TRUNCATION_MARKER).unwrap();
            prop_assert!(text.starts_with(kept));
            prop_assert!(kept.len() + TRUNCATION_MARKER.len() + 3 >= max_bytes, "at most one character is wasted");
        } else {
            prop_assert!(text.starts_with(&*cut));
        }
    }

    #[test]
    fn ids_and_digests_round_trip(body in "[A-Za-z0-9_-]{1,128}", bytes in any::<[u8; 32]>()) {
        let id = SampleId::parse(&format!("sample_{body}")).unwrap();
        prop_assert_eq!(SampleId::parse(&id.to_string()).unwrap(), id.clone());
        prop_assert_eq!(serde_json::from_value::<SampleId>(serde_json::to_value(&id).unwrap()).unwrap(), id);
        let digest = Digest::from_bytes(bytes);
        prop_assert_eq!(Digest::parse(&digest.to_string()).unwrap(), digest);
        prop_assert_eq!(serde_json::from_value::<Digest>(serde_json::to_value(digest).unwrap()).unwrap(), digest);
    }

    #[test]
    fn parsing_an_id_or_a_digest_never_panics(text in any::<String>()) {
        let _ = (SampleId::parse(&text), SampleId::parse(&format!("sample_{text}")));
        let _ = (Digest::parse(&text), Digest::parse(&format!("sha256:{text}")));
    }
}

proptest! {
    // Each case writes every member several times, so fewer are enough.
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn details_never_exceed_their_bounds(members in prop::collection::vec(("[a-c]{0,3}", json_with(number()), 1_usize..12), 0..40)) {
        let envelope = members.into_iter().fold(
            Envelope::new(ReadErrorCode::Syntax, "text"),
            |envelope, (key, value, repeat)| envelope.detail(key, vec![value; repeat]),
        );
        let details = Value::Object(envelope.details().clone());
        prop_assert!(canonical::string_of(&details).len() <= MAX_DETAILS_BYTES);
    }
}
