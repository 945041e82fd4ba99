//! Properties.

use std::collections::BTreeMap;

use packs::archive::{Archive, Limits, write};
use packs::chain::{ExpansionId, expand};
use packs::manifest::Manifest;
use packs::path::EntryPath;
use packs::range::Range;
use packs::version::Version;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::archives::gzip;
use crate::support::chain_pack;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z{}.]{0,12}".prop_map(Value::from),
        Just(json!("{{params.x}}")),
        Just(json!("a {{params.y}} b")),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,5}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn version() -> impl Strategy<Value = Version> {
    (0_u64..4, 0_u64..4, 0_u64..4).prop_map(|(major, minor, patch)| Version::new(major, minor, patch))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn reading_archives_is_total(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = Archive::read(&bytes, &Limits::DEFAULT);
        let _ = Archive::read(&gzip(&bytes), &Limits::DEFAULT);
    }

    #[test]
    fn archives_round_trip(files in prop::collection::btree_map("[a-z]{1,8}(/[a-z0-9 ]{1,8}){0,3}", (prop::collection::vec(any::<u8>(), 0..300), any::<bool>()), 1..12)) {
        let names: Vec<&String> = files.keys().collect();
        // No file is a folder of another.
        prop_assume!(names.windows(2).all(|pair| !pair[1].starts_with(&format!("{}/", pair[0]))));
        let paths: BTreeMap<EntryPath, (&[u8], bool)> = files
            .iter()
            .filter_map(|(path, (content, executable))| Some((EntryPath::parse(path).ok()?, (content.as_slice(), *executable))))
            .collect();
        let names: Vec<&EntryPath> = paths.keys().collect();
        prop_assume!(names.iter().all(|path| path.folders().all(|folder| !paths.keys().any(|other| other.as_str() == folder))));
        let bytes = write(&paths).unwrap();
        let archive = Archive::read(&bytes, &Limits::DEFAULT).unwrap();
        prop_assert_eq!(archive.entries().len(), paths.len());
        for (path, (content, _)) in &paths {
            prop_assert_eq!(archive.file_at(path), Some(*content));
        }
    }

    #[test]
    fn parsing_paths_is_total(text in "\\PC{0,40}|[./a\\\\]{0,20}") {
        if let Ok(path) = EntryPath::parse(&text) {
            prop_assert!(path.segments().all(|segment| !segment.is_empty() && segment != "." && segment != ".."));
            prop_assert_eq!(&EntryPath::parse(path.as_str()).unwrap(), &path, "parsing is idempotent");
        }
    }

    #[test]
    fn caret_ranges_start_at_their_version(low in version(), other in version()) {
        let range = Range::parse(&format!("^{low}")).unwrap();
        prop_assert!(range.matches(&low));
        prop_assert!(!range.matches(&other) || other >= low);
        prop_assert!(!range.matches(&other) || other.major == low.major);
        let exact = Range::parse(&low.to_string()).unwrap();
        prop_assert_eq!(exact.matches(&other), low == other);
        let either = Range::parse(&format!("<{low} || >={low}")).unwrap();
        prop_assert!(either.matches(&other), "below and not below cover everything");
    }

    #[test]
    fn reading_manifests_is_total(document in value(), at in 0_usize..12) {
        let _ = Manifest::from_value(&document);
        let mut manifest = chain_pack();
        let places = ["/chains", "/chains/0", "/chains/0/dag", "/chains/0/dag/nodes", "/chains/0/dag/nodes/0", "/chains/0/dag/edges",
            "/chains/0/parameters", "/engines", "/name", "/chains/0/capabilities", "/chains/0/outputs", "/kind"];
        *manifest.pointer_mut(places[at]).unwrap() = document;
        if let Err(problems) = Manifest::from_value(&manifest) {
            prop_assert!(!problems.list().is_empty());
        }
    }

    #[test]
    fn expansions_replace_all_given_parameters(config in prop::collection::btree_map("[a-z]{1,6}", value(), 0..5), x in value(), y in "[a-z]{0,5}") {
        let mut manifest = chain_pack();
        manifest["chains"][0]["parameters"] = json!({"type": "object"});
        let config: Map<String, Value> = config.into_iter().collect();
        manifest["chains"][0]["dag"]["nodes"][0]["config"] = Value::Object(config.clone());
        let manifest = Manifest::from_value(&manifest).unwrap();
        let id = ExpansionId::parse("a1").unwrap();
        // Inserted text may look like a token and is not expanded; excluded here.
        let x = serde_json::from_str(&x.to_string().replace("params", "given")).unwrap_or(Value::Null);
        let parameters = json!({"x": x, "y": y});
        let expansion = expand(&manifest.chains()[0], &parameters, &id, |_| true).unwrap();
        let again = expand(&manifest.chains()[0], &parameters, &id, |_| true).unwrap();
        prop_assert_eq!(&expansion, &again, "the expansion is deterministic");
        let text = Value::Object(expansion.nodes[0].config.clone().unwrap()).to_string();
        prop_assert!(!text.contains("{{params.x}}") && !text.contains("{{params.y}}"), "{}", text);
        let other = expand(&manifest.chains()[0], &parameters, &ExpansionId::parse("b2").unwrap(), |_| true).unwrap();
        prop_assert!(expansion.id_map.values().all(|id| !other.id_map.values().any(|other| other == id)));
    }
}
