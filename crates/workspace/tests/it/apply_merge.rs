//! Read-write slots: the agent's changes are kept, and the plan is merged around them.

use proptest::prelude::*;
use workspace::apply::{Restore, RestoreSink, Restored, RwPolicy, Status, Why};
use workspace::resolve::Content;
use workspace::slot::Slot;
use workspace::{Code, Error};

use crate::apply_support::{Plan, Thing, World, text};

/// A plan with these seeds in `deliverables`.
fn seeds(seeds: &[(&str, &str)]) -> Plan {
    let plan = Plan::base().grant("deliverables", "read-write");
    seeds.iter().fold(plan, |plan, (path, bytes)| plan.seed("deliverables", path, bytes.as_bytes()))
}

fn preserved(world: &World, plan: &Plan) -> Vec<(String, Why)> {
    let report = world.apply(plan).unwrap();
    report
        .preserved
        .into_iter()
        .map(|preserved| (preserved.path.trim_start_matches("deliverables/").to_owned(), preserved.why))
        .collect()
}

#[test]
fn every_combination_of_agent_and_plan_changes() {
    // case 39 is the rows "edited, changed" and "deleted, changed"
    type Row = (
        &'static str,
        Option<&'static str>,
        Option<Option<&'static str>>,
        Option<&'static str>,
        Option<&'static str>,
        Option<Why>,
    );
    #[rustfmt::skip]
    let rows: [Row; 14] = [
        // name, base, agent's action (none, delete, write), theirs, result, reason
        ("created",                 None,      None,               Some("new"), Some("new"),  None),
        ("unchanged",               Some("a"), None,               Some("a"),   Some("a"),    None),
        ("changed",                 Some("a"), None,               Some("b"),   Some("b"),    None),
        ("dropped",                 Some("a"), None,               None,        None,         None),
        ("edited, unchanged",       Some("a"), Some(Some("mine")), Some("a"),   Some("mine"), Some(Why::Modified)),
        ("edited, changed",         Some("a"), Some(Some("mine")), Some("b"),   Some("mine"), Some(Why::Modified)),
        ("edited, dropped",         Some("a"), Some(Some("mine")), None,        Some("mine"), Some(Why::Modified)),
        ("edited at equal size",    Some("a"), Some(Some("z")),    Some("b"),   Some("z"),    Some(Why::Modified)),
        ("deleted, unchanged",      Some("a"), Some(None),         Some("a"),   None,         Some(Why::Deleted)),
        ("deleted, changed",        Some("a"), Some(None),         Some("b"),   None,         Some(Why::Deleted)),
        ("deleted, dropped",        Some("a"), Some(None),         None,        None,         None),
        ("the agent's, plan has it", None,     Some(Some("mine")), Some("b"),   Some("mine"), Some(Why::Local)),
        ("the agent's alone",       None,      Some(Some("mine")), None,        Some("mine"), None),
        ("in neither",              None,      None,               None,        None,         None),
    ];
    for place in ["f", "deep/er/f"] {
        for (name, base, agent, theirs, expected, why) in rows {
            let world = World::in_memory();
            let one = base.map(|bytes| vec![(place, bytes)]).unwrap_or_default();
            let two = theirs.map(|bytes| vec![(place, bytes)]).unwrap_or_default();
            world.apply(&seeds(&one)).unwrap();
            let path = format!("deliverables/{place}");
            match agent {
                None => {}
                Some(None) => std::fs::remove_file(world.root().join(&path)).unwrap(),
                Some(Some(bytes)) => world.write(&path, bytes),
            }
            // Another skill makes it a different plan in every row.
            world.memory.set("skill:s", &[("SKILL.md", text("s"))]);
            let plan = seeds(&two).skill("s");
            let reported = preserved(&world, &plan);
            assert_eq!(world.read(&path).as_deref(), expected, "{name} at {place}");
            let expected_report: Vec<_> = why.map(|why| (place.to_owned(), why)).into_iter().collect();
            assert_eq!(reported, expected_report, "{name} at {place}");
            // Applied again: what was kept stays kept.
            world.memory.set("skill:t", &[("SKILL.md", text("t"))]);
            world.apply(&plan.skill("t")).unwrap();
            assert_eq!(world.read(&path).as_deref(), expected, "{name} at {place}, applied once more");
        }
    }
}

#[test]
fn dropped_directories_are_removed_if_the_agent_has_no_files_in_them() {
    let world = World::in_memory();
    world.apply(&seeds(&[("a/x", "1"), ("b/c/x", "1"), ("keep", "1")])).unwrap();
    world.write("deliverables/b/mine", "mine");
    world.apply(&seeds(&[("keep", "1")])).unwrap();
    assert!(!world.root().join("deliverables/a").exists());
    assert!(!world.root().join("deliverables/b/c").exists());
    assert_eq!(world.read("deliverables/b/mine").as_deref(), Some("mine"));
}

#[test]
fn files_that_become_directories_and_vice_versa() {
    let world = World::in_memory();
    world.apply(&seeds(&[("a", "file")])).unwrap();
    world.apply(&seeds(&[("a/b/c", "below")])).unwrap();
    assert_eq!(world.read("deliverables/a/b/c").as_deref(), Some("below"), "a file became a directory");
    world.write("deliverables/a/mine", "mine");
    let reported = preserved(&world, &seeds(&[("a", "file again")]));
    assert_eq!(
        world.read("deliverables/a/mine").as_deref(),
        Some("mine"),
        "a directory has what the agent wrote"
    );
    assert!(reported.contains(&("a".to_owned(), Why::Modified)));
}

#[test]
fn links_of_the_agent_are_not_followed() {
    let world = World::in_memory();
    let canary = world.temp.path().join("canary");
    std::fs::create_dir(&canary).unwrap();
    std::fs::write(canary.join("x"), "outside").unwrap();
    world.apply(&seeds(&[("d/x", "1"), ("f", "1")])).unwrap();
    let slot = world.root().join("deliverables");
    std::fs::remove_dir_all(slot.join("d")).unwrap();
    std::os::unix::fs::symlink(&canary, slot.join("d")).unwrap();
    std::fs::remove_file(slot.join("f")).unwrap();
    std::os::unix::fs::symlink(canary.join("x"), slot.join("f")).unwrap();
    world.apply(&seeds(&[("d/x", "2"), ("d/new", "2"), ("f", "2")])).unwrap();
    assert_eq!(std::fs::read_to_string(canary.join("x")).unwrap(), "outside");
    assert_eq!(std::fs::read_dir(&canary).unwrap().count(), 1);
    assert!(slot.join("d").is_symlink() && slot.join("f").is_symlink(), "what the agent did is kept");
}

#[test]
fn a_reset_restores_the_plan_in_a_slot() {
    let world = World::in_memory();
    let plan = seeds(&[("seed", "1")]);
    world.apply(&plan).unwrap();
    world.write("deliverables/seed", "mine");
    world.write("deliverables/mine", "mine");
    let report = world.apply_with(&plan, |request| request.rw_policy = RwPolicy::Reset).unwrap();
    assert_eq!(report.status, Status::Applied, "though the plan was in place");
    assert_eq!(world.read("deliverables/seed").as_deref(), Some("1"));
    assert!(!world.root().join("deliverables/mine").exists());
}

/// A snapshot of one file, or an invalid one.
struct Snapshot(&'static str, &'static str);

impl Restore for Snapshot {
    fn restore(&self, _slots: &[Slot], sink: &mut dyn RestoreSink) -> Result<(), Error> {
        let Self(path, bytes) = *self;
        let content = match bytes.strip_prefix("-> ") {
            Some(target) => Content::Link(target.into()),
            None => Content::Bytes(bytes.into()),
        };
        Ok(sink.put(Restored { path: path.into(), mode: 0o4640, mtime: Some(1_700_000_000), content })?)
    }
}

#[test]
fn a_snapshot_is_unpacked_over_the_plan_and_kept_like_agent_files() {
    let cases = [
        ("a file of its own", "deliverables/mine", "mine"),
        ("over a seed", "deliverables/seed", "mine"),
        ("a directory over a seed", "deliverables/seed/below", "mine"),
        ("a file over a directory", "deliverables/d", "mine"),
        ("a link", "deliverables/d/link", "-> ../seed"),
    ];
    for (name, path, bytes) in cases {
        let world = World::in_memory();
        let snapshot = Snapshot(path, bytes);
        world.write("deliverables/before", "before");
        let plan = seeds(&[("seed", "1"), ("d/x", "1")]);
        let report = world.restore(&plan, &snapshot).unwrap();
        let restored = |world: &World| {
            let shown = world.tree().remove(path);
            shown.map(|shown| shown.trim_start_matches("0640 ").to_owned())
        };
        assert_eq!(restored(&world).as_deref(), Some(bytes), "{name}");
        assert!(!world.root().join("deliverables/before").exists(), "{name}: what stood there gave way");
        assert_eq!(
            world.read(".interlock/displaced/1/deliverables/before").as_deref(),
            Some("before"),
            "{name}"
        );
        assert_eq!(report.preserved.len(), 1, "{name}");
        // The plan changes twice: restored files are kept, like files of the agent.
        for bytes_of_seed in ["2", "3"] {
            world.apply(&seeds(&[("seed", bytes_of_seed), ("d/x", bytes_of_seed)])).unwrap();
            assert_eq!(restored(&world).as_deref(), Some(bytes), "{name}: after {bytes_of_seed}");
        }
    }
}

#[test]
fn a_snapshot_that_leaves_its_slots_changes_nothing() {
    let cases = [
        ("a read-only slot", "inputs/x", "x"),
        ("a slot that is not granted", "repos/x", "x"),
        ("a file slot", "AGENTS.md", "x"),
        ("no slot", "elsewhere", "x"),
        ("the state folder", ".interlock/lease.json", "x"),
        ("climbs", "deliverables/../x", "x"),
        ("absolute", "/etc/passwd", "x"),
        ("a slot as a file", "deliverables", "x"),
        ("a link out", "deliverables/l", "-> ../../x"),
        ("an absolute link", "deliverables/l", "-> /etc/passwd"),
    ];
    for (name, path, bytes) in cases {
        let world = World::in_memory();
        let plan = seeds(&[("seed", "1")]).grant("inputs", "read-only");
        world.apply(&plan).unwrap();
        let before = world.tree();
        let snapshot = Snapshot(path, bytes);
        let error = world.restore(&plan, &snapshot).unwrap_err();
        assert_eq!(error.code(), Code::SnapshotCorrupt, "{name}: {error}");
        assert_eq!(world.tree(), before, "{name}");
    }
}

#[test]
fn a_repository_is_replaced_or_kept_as_a_whole() {
    type Agent = fn(&World);
    let untouched: Agent = |_| {};
    let cases: [(&str, Agent, bool); 6] = [
        ("untouched", untouched, false),
        ("edited", |world| world.write("repos/r/src/main.rs", "mine"), true),
        ("a commit", |world| world.write("repos/r/.git/HEAD", "mine"), true),
        ("a file more", |world| world.write("repos/r/notes", "mine"), true),
        ("a file fewer", |world| world.remove("repos/r/README.md"), true),
        (
            "an empty directory more",
            |world| std::fs::create_dir(world.root().join("repos/r/target")).unwrap(),
            true,
        ),
    ];
    for gone in [false, true] {
        for (name, agent, kept) in cases {
            let world = World::in_memory();
            let one = [
                (".git/HEAD", text("one")),
                ("README.md", text("one")),
                ("src/lib.rs", text("lib")),
                ("src/main.rs", text("one")),
                ("link", Thing::Link("src/lib.rs")),
            ];
            world.memory.set("repo:r", &one);
            let plan = Plan::base().grant("repos", "read-write").repo("repos", "r", "read-write");
            world.apply(&plan).unwrap();
            agent(&world);
            let before: Vec<_> =
                world.tree().into_iter().filter(|(path, _)| path.starts_with("repos/r")).collect();
            world.memory.set("repo:r", &[(".git/HEAD", text("two")), ("src/main.rs", text("two"))]);
            world.memory.set("skill:s", &[("SKILL.md", text("s"))]);
            let next = if gone { Plan::base().grant("repos", "read-write") } else { plan };
            let report = world.apply(&next.skill("s")).unwrap();
            let after: Vec<_> =
                world.tree().into_iter().filter(|(path, _)| path.starts_with("repos/r")).collect();
            if kept {
                assert_eq!(after, before, "{name}");
                let reported: Vec<_> =
                    report.preserved.iter().map(|preserved| (&*preserved.path, preserved.why)).collect();
                assert_eq!(reported, [("repos/r", Why::Modified)], "{name}");
            } else if gone {
                assert_eq!(after, [], "{name}");
            } else {
                let paths: Vec<_> = after.iter().map(|(path, _)| path.as_str()).collect();
                assert_eq!(
                    paths,
                    ["repos/r", "repos/r/.git", "repos/r/.git/HEAD", "repos/r/src", "repos/r/src/main.rs",],
                    "{name}"
                );
                assert_eq!(world.read("repos/r/src/main.rs").as_deref(), Some("two"), "{name}");
            }
        }
    }
}

/// The actions of an agent on a path.
#[derive(Clone, Debug)]
enum Act {
    Write(usize, u8),
    Delete(usize),
}

const PATHS: [&str; 6] = ["a", "b", "d/a", "d/b", "d/e/a", "f/a"];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..PATHS.len(), any::<u8>()).prop_map(|(path, byte)| Act::Write(path, byte)),
        (0..PATHS.len()).prop_map(Act::Delete),
    ];
    prop::collection::vec(act, 0..6)
}

fn plans() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop::collection::btree_map(0..PATHS.len(), 0_u8..3, 0..PATHS.len())
        .prop_map(|map| map.into_iter().collect())
}

fn plan_of(files: &[(usize, u8)]) -> Plan {
    let plan = Plan::base().grant("deliverables", "read-write");
    files.iter().fold(plan, |plan, (path, byte)| plan.seed("deliverables", PATHS[*path], &[b'0' + byte]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn applying_is_idempotent_and_keeps_agent_files(one in plans(), acts in acts(), two in plans()) {
        let world = World::in_memory();
        world.apply(&plan_of(&one)).unwrap();
        let mut mine = std::collections::BTreeMap::new();
        for act in &acts {
            match act {
                Act::Write(path, byte) => {
                    let text = format!("mine {byte}");
                    world.write(&format!("deliverables/{}", PATHS[*path]), &text);
                    mine.insert(PATHS[*path], Some(text));
                }
                Act::Delete(path) => {
                    if std::fs::remove_file(world.root().join("deliverables").join(PATHS[*path])).is_ok() {
                        mine.insert(PATHS[*path], None);
                    }
                }
            }
        }
        world.apply(&plan_of(&two)).unwrap();
        for (path, expected) in &mine {
            let was_planned = one.iter().any(|(at, _)| PATHS[*at] == *path);
            // A file that the agent created and removed again has no effect.
            if expected.is_some() || was_planned {
                prop_assert_eq!(&world.read(&format!("deliverables/{path}")), expected, "{}", path);
            }
        }
        let once = world.tree();
        let again = world.apply(&plan_of(&two)).unwrap();
        prop_assert_eq!(again.status, Status::Cached);
        prop_assert_eq!(world.tree(), once.clone());
        world.remove(".interlock/lease.json");
        world.apply(&plan_of(&two)).unwrap();
        prop_assert_eq!(world.tree(), once, "and without a lease too");
    }
}
