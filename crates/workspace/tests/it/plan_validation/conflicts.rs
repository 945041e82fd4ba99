//! Conflicts between entries.

use super::*;

#[test]
fn file_paths_are_exclusive_and_folders_can_be_shared() {
    let ok: Vec<Value> = Vec::new();
    let keyed = |entry: Value, key: &str| with(entry, "mountKey", key.into());
    let cases = [
        ("two files", vec![file("inputs", "a"), keyed(file("inputs", "a"), "k")], vec![(1, 0)]),
        (
            "case 43: a file and one below it",
            vec![file("uploads", "a"), file("uploads", "a/b")],
            vec![(1, 0)],
        ),
        ("a file above one", vec![file("uploads", "a/b"), file("uploads", "a")], vec![(1, 0)]),
        ("a file far above", vec![file("uploads", "a/b/c/d"), file("uploads", "a")], vec![(1, 0)]),
        ("a file where a folder is", vec![tree("references", "a"), file("references", "a")], vec![(1, 0)]),
        ("a folder where a file is", vec![file("references", "a"), tree("references", "a")], vec![(1, 0)]),
        ("a folder below a file", vec![file("references", "a"), tree("references", "a/b")], vec![(1, 0)]),
        ("a file above a folder", vec![tree("references", "a/b"), file("references", "a")], vec![(1, 0)]),
        ("a file in a folder", vec![tree("references", "a"), file("references", "a/b")], vec![]),
        ("a folder in a folder", vec![tree("references", "a"), tree("references", "a/b")], vec![]),
        ("one folder twice", vec![tree("references", "a"), keyed(tree("references", "a"), "k")], vec![]),
        ("a whole slot and a file", vec![tree("attachments", ""), file("attachments", "a")], vec![]),
        (
            "names that begin alike",
            vec![file("inputs", "a"), file("inputs", "a.b"), file("inputs", "ab")],
            vec![],
        ),
        (
            "a name between a file and what is in it",
            vec![file("inputs", "a"), file("inputs", "a.b"), file("inputs", "a/b")],
            vec![(2, 0)],
        ),
        ("two slots", vec![file("inputs", "a"), file("uploads", "a/b")], vec![]),
        ("one file slot twice", vec![keyed(file("AGENTS.md", ""), "k"), file("AGENTS.md", "")], vec![(1, 0)]),
        (
            "each later one is reported once, with the first that it met",
            vec![
                file("inputs", "a/b/c"),
                file("inputs", "a/b"),
                file("inputs", "a"),
                file("inputs", "a/b/d"),
            ],
            vec![(1, 0), (2, 0), (3, 1)],
        ),
        (
            "three of a kind",
            vec![file("inputs", "a"), keyed(file("inputs", "a"), "k"), keyed(file("inputs", "a"), "l")],
            vec![(1, 0), (2, 0)],
        ),
        ("none", ok, vec![]),
    ];
    for (name, entries, expected) in cases {
        let found: Vec<(u64, u64)> = match check(&plan(entries)) {
            Ok(_) => Vec::new(),
            Err(first) => std::iter::once(&first)
                .chain(first.causes())
                .map(|problem| {
                    assert_eq!(problem.code(), Code::PlanPathConflict, "{name}");
                    (
                        problem.details()["entry"].as_u64().unwrap(),
                        problem.details()["first"].as_u64().unwrap(),
                    )
                })
                .collect(),
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn names_that_differ_only_in_case_conflict_on_case_insensitive_file_systems() {
    let pairs = [
        ("README.md", "readme.md"),
        ("É", "é"),
        ("e\u{301}", "É"),
        ("straße", "STRASSE"),
        ("ὈΔΥΣΣΕΎΣ", "ὀδυσσεύς"),
        ("A/x", "a/X"),
        ("K", "\u{212a}"),
    ];
    for (left, right) in pairs {
        let plan = plan([file("inputs", left), file("inputs", right)]);
        assert!(check(&plan).is_ok(), "{left} and {right} are two names");
        let folded = ValidPlan::check(&plan, None, true).unwrap_err();
        assert_eq!(codes(&folded), [Code::PlanPathConflict], "{left} and {right}");
    }
    let below = plan([file("inputs", "A"), file("inputs", "a/b")]);
    assert_eq!(ValidPlan::check(&below, None, true).unwrap_err().code(), Code::PlanPathConflict);
    let apart = plan([file("inputs", "a"), file("inputs", "b")]);
    assert!(ValidPlan::check(&apart, None, true).is_ok());
}

/// A naive implementation of the rule: every pair is compared.
fn naive_conflicts(entries: &[(String, bool)]) -> Vec<usize> {
    let below = |left: &str, right: &str| left.starts_with(&format!("{right}/"));
    (0..entries.len())
        .filter(|later| {
            let (path, is_file) = &entries[*later];
            entries[..*later].iter().any(|(other, other_is_file)| {
                (path == other && (*is_file || *other_is_file))
                    || (*is_file && below(other, path))
                    || (*other_is_file && below(path, other))
            })
        })
        .collect()
}

proptest! {
    #[test]
    fn conflicts_match_the_naive_implementation(
        entries in proptest::collection::vec(("[ab.-](/[ab.-]){0,3}", any::<bool>()), 0..14)
    ) {
        let entries: Vec<(String, bool)> =
            entries.into_iter().map(|(path, is_file)| (path.replace('.', "a.b"), is_file)).collect();
        let plan = plan(entries.iter().enumerate().map(|(index, (path, is_file))| {
            let entry = if *is_file { file("references", path) } else { tree("references", path) };
            with(entry, "mountKey", format!("{index}").into())
        }));
        let found: Vec<usize> = match check(&plan) {
            Ok(_) => Vec::new(),
            Err(first) => std::iter::once(&first)
                .chain(first.causes())
                .map(|problem| usize::try_from(problem.details()["entry"].as_u64().unwrap()).unwrap())
                .collect(),
        };
        prop_assert_eq!(found, naive_conflicts(&entries));
    }

    #[test]
    fn a_valid_plan_stays_in_the_slots_that_it_grants(
        entries in proptest::collection::vec((0..Slot::ALL.len(), ".{0,12}|[a./]{0,8}", any::<bool>(), any::<bool>()), 0..6)
    ) {
        let plan = plan(entries.iter().enumerate().map(|(index, (slot, path, is_file, writes))| {
            let slot = Slot::ALL[*slot].relative();
            let entry = if *is_file { file(slot, path) } else { tree(slot, path) };
            let entry = with(entry, "mountKey", format!("{index}").into());
            with(entry, "mode", if *writes { "read-write" } else { "read-only" }.into())
        }));
        if let Ok(valid) = check(&plan) {
            for entry in valid.entries() {
                let grant = valid.grants().iter().find(|grant| grant.slot == entry.slot);
                prop_assert!(grant.is_some_and(|grant| grant.mode >= entry.mode));
                prop_assert!(entry.slot.allows(entry.mode));
                let up = entry.rel_path.split('/').any(|name| name == "..");
                prop_assert!(!up && !entry.rel_path.starts_with('/') && !entry.rel_path.contains(['\\', '\0']));
            }
        }
    }
}
