//! Safe paths and known slots.

use super::*;

#[test]
fn unsafe_paths_are_refused() {
    let cases: [(&str, String, UnsafePath); 24] = [
        ("nothing", String::new(), UnsafePath::Empty),
        ("from the root", "/etc/passwd".into(), UnsafePath::Absolute),
        ("the root", "/".into(), UnsafePath::Absolute),
        ("two slashes in front", "//a".into(), UnsafePath::Absolute),
        ("a slash behind", "a/".into(), UnsafePath::TrailingSlash),
        ("an empty name", "a//b".into(), UnsafePath::EmptySegment),
        ("here", ".".into(), UnsafePath::DotSegment),
        ("here, in front", "./a".into(), UnsafePath::DotSegment),
        ("here, between", "a/./b".into(), UnsafePath::DotSegment),
        ("here, behind", "a/.".into(), UnsafePath::DotSegment),
        ("up", "..".into(), UnsafePath::DotSegment),
        ("up and out", "../../etc/passwd".into(), UnsafePath::DotSegment),
        ("down and up", "a/../../b".into(), UnsafePath::DotSegment),
        ("up, behind", "a/..".into(), UnsafePath::DotSegment),
        ("NUL", "a\0b".into(), UnsafePath::Control { character: '\0' }),
        ("a line end", "a\nb".into(), UnsafePath::Control { character: '\n' }),
        ("an escape", "\u{1b}[2J".into(), UnsafePath::Control { character: '\u{1b}' }),
        ("DEL", "a\u{7f}".into(), UnsafePath::Control { character: '\u{7f}' }),
        ("C1", "a\u{85}".into(), UnsafePath::Control { character: '\u{85}' }),
        ("a backslash", "a\\b".into(), UnsafePath::Backslash),
        ("up, elsewhere", "..\\..\\x".into(), UnsafePath::Backslash),
        ("a name of 5,000 bytes", "n".repeat(5_000), UnsafePath::TooLong { bytes: 5_000 }),
        ("a name of 256 bytes", "n".repeat(256), UnsafePath::SegmentTooLong { bytes: 256 }),
        ("65 names", vec!["n"; 65].join("/"), UnsafePath::TooDeep { segments: 65 }),
    ];
    for (name, text, expected) in cases {
        assert_eq!(path::check(&text), Err(expected), "{name}");
        if text.is_empty() {
            continue; // An empty path is right in some places; see the table of its own.
        }
        let refused = check(&plan([with(file("inputs", &text), "mountKey", "k".into())])).unwrap_err();
        assert_eq!(codes(&refused), [Code::PlanUnsafePath], "{name}");
        assert!(
            refused.message().len() < 600 && !refused.message().contains(char::is_control),
            "{name}: {refused}"
        );
    }
}

#[test]
fn safe_paths_are_accepted() {
    let cases = [
        ("a name", "a".to_owned()),
        ("a hidden name", ".keep".into()),
        ("dots that are a name", "...".into()),
        ("dots in a name", "a..b".into()),
        ("a space", " a b ".into()),
        ("a colon", "a:b".into()),
        ("letters of all sorts", "é/日本/🦀.md".into()),
        ("a line separator, which is not a control character", "a\u{2028}b".into()),
        ("a name of 255 bytes", "n".repeat(255)),
        ("64 names", vec!["n"; 64].join("/")),
        ("1024 bytes", [255, 255, 255, 252, 3].map(|bytes| "n".repeat(bytes)).join("/")),
        ("the name of the state folder, inside a slot", ".interlock/lock".into()),
    ];
    for (name, text) in cases {
        assert_eq!(path::check(&text), Ok(()), "{name}");
        let valid = check(&plan([file("inputs", &text)])).expect(name);
        assert_eq!(valid.entries()[0].rel_path, text, "{name}");
    }
}

#[test]
fn empty_paths_are_only_for_file_slots_and_trees() {
    for slot in Slot::ALL {
        let at = |entry: fn(&str, &str) -> Value, rel_path| check(&plan([entry(slot.relative(), rel_path)]));
        assert_eq!(at(file, "").is_ok(), slot.is_file(), "a file at {slot}");
        assert_eq!(at(tree, "").is_ok(), !slot.is_file(), "a tree at {slot}");
        assert_eq!(at(file, "x").is_ok(), !slot.is_file(), "a file in {slot}");
        assert_eq!(at(tree, "x").is_ok(), !slot.is_file(), "a tree in {slot}");
        for refused in
            [at(file, ""), at(tree, ""), at(file, "x"), at(tree, "x")].into_iter().filter_map(Result::err)
        {
            assert_eq!(codes(&refused), [Code::PlanUnsafePath], "{slot}");
        }
    }
}

#[test]
fn unknown_slots_are_refused() {
    let paths = [
        "/workspace",
        "/workspace/",
        "/workspace/.interlock",
        "/workspace/.opencode",
        "/workspace/.opencode/runtime.jsonc",
        "/workspace/inputs/",
        "/workspace//inputs",
        "/workspace/inputs/../tmp",
        "/workspace/Inputs",
        "inputs",
        "/etc",
        "",
        "workspace/inputs",
        "/workspace/inputs\0",
    ];
    for slot in paths {
        let refused = check(&plan([with(file("inputs", "x"), "slot", slot.into())])).unwrap_err();
        assert_eq!(codes(&refused), [Code::PlanUnknownSlot], "{slot:?}");
    }
    for slot in [Value::Null, json!(5), json!(["/workspace/inputs"])] {
        let refused = check(&plan([with(file("inputs", "x"), "slot", slot.clone())])).unwrap_err();
        assert_eq!(refused.code(), Code::PlanUnknownSlot, "{slot}");
    }
}

#[test]
fn only_writable_slots_can_be_read_write() {
    for slot in Slot::ALL.into_iter().filter(|slot| !slot.is_file()) {
        let result = check(&plan([with(file(slot.relative(), "x"), "mode", "read-write".into())]));
        match slot {
            Slot::Tmp | Slot::Repos | Slot::Deliverables => assert!(result.is_ok(), "{slot}"),
            _ => assert_eq!(codes(&result.unwrap_err()), [Code::PlanModeNotAllowed], "{slot}"),
        }
    }
    for mode in [json!("rw"), json!("READ-ONLY"), json!(""), Value::Null, json!(420)] {
        let refused = check(&plan([with(file("tmp", "x"), "mode", mode.clone())])).unwrap_err();
        assert_eq!(codes(&refused), [Code::PlanModeNotAllowed], "{mode}");
    }
}
