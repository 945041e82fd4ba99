//! Validation of plans.

mod conflicts;
mod paths;
mod sources;

use proptest::prelude::*;
use serde_json::{Value, json};
use workspace::plan::validate::path::{self, UnsafePath};
use workspace::plan::validate::{MAX_ENTRIES, MAX_LITERAL_BYTES, MAX_MOUNT_KEY_BYTES};
use workspace::plan::{Source, ValidPlan};
use workspace::slot::{Mode, Slot};
use workspace::{Code, Error};

const APPLY_ID: &str = "3863925d34dfe759afd55fc5872d8915341442222944ec168dce4e8e0d6b0697";

fn plan(entries: impl IntoIterator<Item = Value>) -> Value {
    json!({"applyId": APPLY_ID, "entries": entries.into_iter().collect::<Vec<_>>()})
}

fn check(plan: &Value) -> Result<ValidPlan, Error> {
    ValidPlan::check(plan, None, false)
}

/// A file in a slot, named after its path.
fn file(slot: &str, rel_path: &str) -> Value {
    json!({
        "mountKey": format!("seed:{slot}:{rel_path}"), "slot": format!("/workspace/{slot}"), "relPath": rel_path,
        "mode": "read-only", "source": {"kind": "static-literal", "pathWithinWorkspace": "x", "bytes": "e30="},
    })
}

/// A folder in a slot, named after its path.
fn tree(slot: &str, rel_path: &str) -> Value {
    json!({
        "mountKey": format!("tree:{slot}:{rel_path}"), "slot": format!("/workspace/{slot}"), "relPath": rel_path,
        "mode": "read-only", "source": {"kind": "kb-space", "spaceId": "s"},
    })
}

fn with(mut entry: Value, member: &str, value: Value) -> Value {
    entry[member] = value;
    entry
}

fn with_source(entry: Value, source: Value) -> Value {
    with(entry, "source", source)
}

fn rendered(mounts: &Value) -> Value {
    json!({
        "mountKey": "agents-md", "slot": "/workspace/AGENTS.md", "relPath": "", "mode": "read-only",
        "source": {
            "kind": "rendered-agents-md", "orgId": "o", "projectId": "p", "agentSlug": "a", "groupKey": "g",
            "role": "engineer", "mounts": mounts,
        },
    })
}

/// The code of the first problem, and those of the others.
fn codes(error: &Error) -> Vec<Code> {
    std::iter::once(error.code()).chain(error.causes().iter().map(Error::code)).collect()
}

#[test]
fn a_plan_with_the_wrong_shape_is_refused() {
    let cases = [
        ("not an object", json!([])),
        ("nothing", Value::Null),
        ("no entries", json!({"applyId": APPLY_ID})),
        ("entries that are not a list", json!({"applyId": APPLY_ID, "entries": {}})),
        ("no id", json!({"entries": []})),
        ("an id that is a path", json!({"applyId": "../../x", "entries": []})),
        ("an id in capitals", json!({"applyId": APPLY_ID.to_uppercase(), "entries": []})),
        ("a short id", json!({"applyId": &APPLY_ID[1..], "entries": []})),
        ("a mount without a key", plan([with(file("inputs", "x"), "mountKey", Value::Null)])),
        ("a mount with an empty key", plan([with(file("inputs", "x"), "mountKey", "".into())])),
    ];
    for (name, value) in cases {
        assert_eq!(codes(&check(&value).unwrap_err()), [Code::ValidationError], "{name}");
    }
    let nonsense = check(&plan([json!(5)])).unwrap_err();
    let expected = [
        Code::PlanUnknownSlot,
        Code::PlanModeNotAllowed,
        Code::PlanInvalidSource,
        Code::PlanUnsafePath,
        Code::ValidationError,
    ];
    assert_eq!(codes(&nonsense), expected, "an entry that is a number has everything wrong, in order");
    let mut deep = json!([]);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    assert_eq!(check(&deep).unwrap_err().code(), Code::LimitExceeded);
}

#[test]
fn limits_of_a_plan() {
    let many = |count: usize| plan((0..count).map(|index| file("inputs", &format!("{index}"))));
    assert_eq!(check(&many(MAX_ENTRIES)).unwrap().entries().len(), MAX_ENTRIES);
    let refused = check(&many(MAX_ENTRIES + 1)).unwrap_err();
    assert_eq!(codes(&refused), [Code::LimitExceeded]);
    assert_eq!((&refused.details()["max"], &refused.details()["seen"]), (&json!(20_000), &json!(20_001)));

    // 4 MiB is one byte more than a multiple of three, so its base64 ends in `==`.
    let literal = |bytes: usize| {
        let text = format!("{}{}", "AAAA".repeat(bytes / 3), ["", "AA==", "AAA="][bytes % 3]);
        with_source(
            file("inputs", "x"),
            json!({"kind": "static-literal", "pathWithinWorkspace": "x", "bytes": text}),
        )
    };
    assert!(check(&plan([literal(MAX_LITERAL_BYTES)])).is_ok());
    let refused = check(&plan([literal(MAX_LITERAL_BYTES + 1)])).unwrap_err();
    assert_eq!(codes(&refused), [Code::LimitExceeded]);
    assert_eq!(refused.details()["seen"], MAX_LITERAL_BYTES + 1);

    let long_key = with(file("inputs", "x"), "mountKey", "k".repeat(MAX_MOUNT_KEY_BYTES + 1).into());
    assert_eq!(codes(&check(&plan([long_key])).unwrap_err()), [Code::LimitExceeded]);
}

#[test]
fn equal_entries_are_merged_and_different_ones_with_one_key_refused() {
    // Case 10: the same sub-agent twice.
    let twice = check(&plan([file("inputs", "x"), file("inputs", "x")])).unwrap();
    assert_eq!(twice.entries().len(), 1);
    let ignored = with(file("inputs", "x"), "comment", "not known, so it makes no difference".into());
    let with_ignored = check(&plan([file("inputs", "x"), ignored])).unwrap();
    assert_eq!(with_ignored, twice);

    // Case 44: one version of an artifact under two names.
    let second = with(file("inputs", "y"), "mountKey", "seed:inputs:x".into());
    let refused = check(&plan([file("inputs", "x"), second])).unwrap_err();
    assert_eq!(codes(&refused), [Code::PlanDuplicateMountKey]);
    assert_eq!((&refused.details()["entry"], &refused.details()["first"]), (&json!(1), &json!(0)));

    // A repeated invalid entry is reported once.
    let wrong = file("inputs", "../x");
    assert_eq!(codes(&check(&plan([wrong.clone(), wrong])).unwrap_err()), [Code::PlanUnsafePath]);
}

#[test]
fn all_problems_are_reported_in_plan_order() {
    let wrong =
        json!({"mountKey": "seed:inputs:a", "slot": "/nowhere", "relPath": "..", "mode": "x", "source": {}});
    let refused = check(&plan([
        file("inputs", "a"),
        wrong,
        with(file("references", "b"), "mode", "read-write".into()),
        with(file("inputs", "a/b"), "source", json!({"kind": "artifact-version"})),
        file("inputs", "\\"),
    ]))
    .unwrap_err();
    let expected = [
        Code::PlanUnknownSlot,
        Code::PlanModeNotAllowed,
        Code::PlanInvalidSource,
        Code::PlanUnsafePath,
        Code::PlanDuplicateMountKey,
        Code::PlanModeNotAllowed,
        Code::PlanInvalidSource,
        Code::PlanPathConflict,
        Code::PlanUnsafePath,
    ];
    assert_eq!(codes(&refused), expected);
    let entries: Vec<u64> = std::iter::once(&refused)
        .chain(refused.causes())
        .map(|p| p.details()["entry"].as_u64().unwrap())
        .collect();
    assert_eq!(entries, [1, 1, 1, 1, 1, 2, 3, 3, 4]);
}

#[test]
fn grants_come_from_the_caller_or_the_plan_plus_the_platform() {
    let mounts = json!([
        {"mount": "/workspace/inputs", "mode": "read-only"},
        {"mount": "/workspace/deliverables", "mode": "read-write"},
    ]);
    let granted = |valid: &ValidPlan| -> Vec<(Slot, Mode)> {
        valid.grants().iter().map(|grant| (grant.slot, grant.mode)).collect()
    };
    let platform: Vec<(Slot, Mode)> =
        Slot::ALL[..8].iter().map(|slot| (*slot, slot.default_mode())).collect();
    let and = |more: &[(Slot, Mode)]| [&platform, more].concat();

    let of_plan = check(&plan([rendered(&mounts)])).unwrap();
    assert_eq!(
        granted(&of_plan),
        and(&[(Slot::Inputs, Mode::ReadOnly), (Slot::Deliverables, Mode::ReadWrite)])
    );

    let given = [("/workspace/repos".to_owned(), Mode::ReadOnly)];
    let of_caller = ValidPlan::check(&plan([rendered(&mounts)]), Some(&given), false).unwrap();
    assert_eq!(granted(&of_caller), and(&[(Slot::Repos, Mode::ReadOnly)]));
    assert_ne!(of_caller.digest(), of_plan.digest(), "what is granted is part of what is applied");

    let seeded = check(&plan([rendered(&json!([])), file("deliverables", "x")])).unwrap();
    assert_eq!(
        granted(&seeded),
        and(&[(Slot::Deliverables, Mode::ReadOnly)]),
        "a seed grants its slot for reading"
    );

    let refused = [
        (json!([{"mount": "/workspace/nope", "mode": "read-only"}]), Code::PlanUnknownSlot),
        (json!([{"mount": "/workspace/references", "mode": "read-write"}]), Code::PlanModeNotAllowed),
        (
            json!([{"mount": "/workspace/repos", "mode": "read-write"}, {"mount": "/workspace/repos", "mode": "read-only"}]),
            Code::PlanModeNotAllowed,
        ),
        (json!([{"mount": "/workspace/references", "mode": "write"}]), Code::PlanInvalidSource),
    ];
    for (mounts, code) in refused {
        assert_eq!(codes(&check(&plan([rendered(&mounts)])).unwrap_err()), [code], "{mounts}");
    }
    let unknown =
        [("/workspace/x".to_owned(), Mode::ReadOnly), ("/workspace/inputs".to_owned(), Mode::ReadWrite)];
    let refused = ValidPlan::check(&plan([]), Some(&unknown), false).unwrap_err();
    assert_eq!(codes(&refused), [Code::PlanUnknownSlot, Code::PlanModeNotAllowed]);

    let writing = with(file("deliverables", "x"), "mode", "read-write".into());
    let read_only = [("/workspace/deliverables".to_owned(), Mode::ReadOnly)];
    let refused = ValidPlan::check(&plan([writing]), Some(&read_only), false).unwrap_err();
    assert_eq!(codes(&refused), [Code::PlanModeNotAllowed], "more than the slot grants");
}

#[test]
fn the_digest_covers_the_applied_content() {
    let base = check(&plan([rendered(&json!([])), file("inputs", "x")])).unwrap();
    assert_eq!(base.digest().len(), 64);
    let mut ignored = plan([rendered(&json!([])), file("inputs", "x")]);
    ignored["note"] = json!("x");
    ignored["entries"][1]["source"]["note"] = json!("x");
    assert_eq!(check(&ignored).unwrap(), base);
    let mut other_id = plan([rendered(&json!([])), file("inputs", "x")]);
    other_id["applyId"] = json!("0".repeat(64));
    assert_eq!(check(&other_id).unwrap().digest(), base.digest(), "the digest is not of the id");
    let mut other = plan([rendered(&json!([])), file("inputs", "x")]);
    other["entries"][1]["source"]["bytes"] = json!("W10=");
    assert_ne!(check(&other).unwrap().digest(), base.digest());

    let empty = check(&plan([])).unwrap();
    let slots: Vec<Value> = Slot::ALL[..8]
        .iter()
        .map(|slot| json!({"mount": slot.path(), "mode": slot.default_mode()}))
        .collect();
    let canonical = canon::digest::Digest::of_canonical(&json!({"entries": [], "slots": slots})).unwrap();
    assert_eq!(empty.digest(), canonical.to_hex());
}
