//! Applying plans: the resulting workspace and report.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::json;
use workspace::Code;
use workspace::apply::{AgentUser, ApplyRequest, LeaseReason, LeaseState, Limits, Promote, Status, Verify};

use crate::apply_support::{NOW, Plan, Thing, World, left_behind, text};

#[test]
fn a_first_apply_installs_everything() {
    // case 33
    let world = World::new();
    let report = world.apply(&Plan::base()).unwrap();
    assert_eq!(report.status, Status::Applied);
    assert_eq!((report.generation, report.lease_reason), (1, LeaseReason::New));
    assert_eq!(report.upstream_calls, 4, "three rendered files and an agent; the seed is in the plan");
    assert_eq!(world.memory.renders.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(
        world.tree().into_iter().collect::<Vec<_>>(),
        [
            (".opencode".into(), "0755 dir".to_owned()),
            (".opencode/agents".into(), "0555 dir".into()),
            (".opencode/agents/engineer.md".into(), "0444 # engineer".into()),
            (".opencode/command".into(), "0555 dir".into()),
            (".opencode/instructions".into(), "0555 dir".into()),
            (".opencode/skills".into(), "0555 dir".into()),
            (".opencode/system-overlay.md".into(), "0444 overlay".into()),
            ("AGENTS.md".into(), "0444 # AGENTS".into()),
            ("context.json".into(), "0444 {}".into()),
            ("tmp".into(), "0755 dir".into()),
            ("tmp/.keep".into(), "0644 ".into()),
        ]
    );
    let lease = world.applier().lease().unwrap().unwrap();
    assert_eq!(lease.state, LeaseState::Active);
    assert_eq!((lease.created_at, lease.expires_at), (NOW, NOW + 900_000));
    assert_eq!(lease.slots, report.slots);
    assert_eq!(left_behind(&world.root()), [""; 0]);
}

#[test]
fn applying_again_changes_nothing_and_fetches_nothing() {
    // case 34
    let world = World::new();
    let plan = Plan::base().skill("review").grant("deliverables", "read-write");
    world.memory.set("skill:review", &[("SKILL.md", text("s")), ("bin/run", Thing::Tool(b"x".to_vec()))]);
    let first = world.apply(&plan).unwrap();
    let stats = |world: &World| {
        let paths = world.tree().into_keys();
        paths
            .map(|path| {
                let stat = std::fs::symlink_metadata(world.root().join(&path)).unwrap();
                (path, stat.ino(), stat.mtime_nsec(), stat.ctime_nsec())
            })
            .collect::<Vec<_>>()
    };
    let before = stats(&world);
    world.memory.asked();
    for verify in [Verify::None, Verify::Stat, Verify::Hash] {
        let again = world.apply_at(&plan, NOW + 5, |request| request.verify = verify).unwrap();
        assert_eq!(again.status, Status::Cached, "{verify:?}");
        assert_eq!((again.generation, again.upstream_calls), (1, 0), "{verify:?}");
        assert_eq!(again.slots, first.slots, "{verify:?}");
        assert_eq!(stats(&world), before, "{verify:?}");
    }
    assert_eq!(world.memory.asked(), [""; 0]);
    assert_eq!(world.applier().lease().unwrap().unwrap().expires_at, NOW + 5 + 900_000);
}

#[test]
fn only_drifted_read_only_files_are_fetched_again() {
    // case 35
    type Vandal = fn(&World);
    let cases: [(&str, Vandal, &[&str]); 6] = [
        ("altered", |world| world.write(".opencode/skills/a/SKILL.md", "evil"), &["skill:a"]),
        ("deleted", |world| world.remove(".opencode/skills/b/SKILL.md"), &["skill:b"]),
        ("added", |world| world.write(".opencode/skills/a/more", "evil"), &[]),
        ("a rendered file", |world| world.write("AGENTS.md", "evil"), &["rendered-agents-md"]),
        ("a whole slot", |world| world.remove(".opencode/skills"), &["skill:a", "skill:b"]),
        ("nothing", |_| {}, &[]),
    ];
    for (name, vandal, expected) in cases {
        let world = World::new();
        world.memory.set("skill:a", &[("SKILL.md", text("a")), ("deep/er/x", text("x"))]);
        world.memory.set("skill:b", &[("SKILL.md", text("b"))]);
        let plan = Plan::base().skill("a").skill("b");
        let first = world.apply(&plan).unwrap();
        let before = world.tree();
        world.memory.asked();
        vandal(&world);
        world.write("tmp/work", "mine");
        let report = world.apply_with(&plan, |request| request.verify = Verify::Hash).unwrap();
        assert_eq!(world.memory.asked(), expected, "{name}");
        if name == "nothing" {
            assert_eq!(report.status, Status::Cached, "{name}");
            continue;
        }
        assert_eq!(report.status, Status::Repaired, "{name}");
        assert_eq!((report.generation, report.lease_reason), (2, LeaseReason::Drift), "{name}");
        assert_eq!(report.slots, first.slots, "{name}");
        let mut after = world.tree();
        assert_eq!(after.remove("tmp/work").as_deref(), Some("0644 mine"), "{name}");
        assert_eq!(after, before, "{name}");
        let again = world.apply_with(&plan, |request| request.verify = Verify::Hash).unwrap();
        assert_eq!(again.status, Status::Cached, "{name}: the new index says what is there");
    }
}

#[test]
fn a_changed_plan_is_applied_again() {
    // case 36
    let world = World::new();
    world.apply(&Plan::base()).unwrap();
    world.memory.set("skill:system", &[("SKILL.md", text("s"))]);
    let report = world.apply(&Plan::base().skill("system")).unwrap();
    assert_eq!(report.status, Status::Applied);
    assert_eq!((report.generation, report.lease_reason), (2, LeaseReason::PlanChanged));
    assert_eq!(world.read(".opencode/skills/system/SKILL.md").as_deref(), Some("s"));
}

#[test]
fn a_missing_source_changes_nothing() {
    // case 37
    let world = World::new();
    world.apply(&Plan::base()).unwrap();
    let before = world.tree();
    let mut plan = Plan::base();
    for number in 0..20 {
        plan = plan.skill(&format!("s{number}"));
        if number != 7 && number != 12 {
            world.memory.set(&format!("skill:s{number}"), &[("SKILL.md", text("s"))]);
        }
    }
    let error = world.apply(&plan).unwrap_err();
    assert_eq!(error.code(), Code::ResolveNotFound);
    assert_eq!(error.details()["mountKey"], "skill-bundle:s7", "the first in the order of the plan");
    assert_eq!(error.causes().len(), 1, "and the other beside it");
    assert_eq!(world.tree(), before);
    assert_eq!(left_behind(&world.root()), [""; 0]);
    assert_eq!(world.applier().lease().unwrap().unwrap().generation, 1);
}

#[test]
fn a_failing_source_is_tried_three_times() {
    let cases = [
        ("twice upstream", 2, Code::ResolveUpstream, Ok(3)),
        ("three times upstream", 3, Code::ResolveUpstream, Err(3)),
        ("once with different contents", 1, Code::ResolveHashMismatch, Ok(2)),
        ("denied", 1, Code::ResolveDenied, Err(1)),
    ];
    for (name, times, code, expected) in cases {
        let world = World::new();
        world.memory.set("skill:a", &[("SKILL.md", text("a")), ("x/y", text("y"))]);
        world.memory.fail("skill:a", times, code);
        let result = world.apply(&Plan::base().skill("a"));
        let calls = world.memory.asked().iter().filter(|name| *name == "skill:a").count();
        match expected {
            Ok(tries) => {
                let report = result.unwrap();
                assert_eq!((calls, report.upstream_calls), (tries, 4 + tries as u64), "{name}");
                assert_eq!(world.read(".opencode/skills/a/x/y").as_deref(), Some("y"), "{name}");
            }
            Err(tries) => {
                assert_eq!(result.unwrap_err().code(), code, "{name}");
                assert_eq!(calls, tries, "{name}");
            }
        }
    }
}

#[test]
fn limits_are_enforced_while_bytes_arrive() {
    // case 41, with smaller bounds
    let small = Limits {
        file_bytes: 100,
        files: 12,
        total_bytes: 1000,
        bundle_files: 3,
        bundle_bytes: 250,
        ..Limits::default()
    };
    let big = |bytes: usize| Thing::File(vec![b'x'; bytes]);
    type Case = (&'static str, Vec<(&'static str, Thing)>, Option<&'static str>);
    let cases: [Case; 5] = [
        ("just enough", vec![("a", big(100)), ("b", big(100)), ("c", big(50))], None),
        ("a file", vec![("a", big(101))], Some("bytes of a file")),
        (
            "bytes of a skill",
            vec![("a", big(100)), ("b", big(100)), ("c", big(51))],
            Some("bytes of a skill"),
        ),
        (
            "files of a skill",
            vec![("a", big(1)), ("b", big(1)), ("c", big(1)), ("d", big(1))],
            Some("files of a skill"),
        ),
        (
            "directories count",
            vec![("a", Thing::Dir), ("b", Thing::Dir), ("c", Thing::Dir), ("d", Thing::Dir)],
            Some("files of a skill"),
        ),
    ];
    for (name, things, expected) in cases {
        let world = World::new();
        world.memory.set("skill:a", &things);
        let valid = Plan::base().skill("a").valid();
        let scope = workspace::apply::LeaseScope::of(&valid, 0);
        let request = ApplyRequest::new(&valid, &scope, "test");
        let applier = world.applier().with_limits(small);
        match (applier.apply(&request, &world.resolver(), NOW, &()), expected) {
            (Ok(_), None) => {}
            (Err(error), Some(limit)) => {
                assert_eq!(error.code(), Code::LimitExceeded, "{name}: {error}");
                assert_eq!(error.details()["limit"], limit, "{name}");
                assert_eq!(left_behind(&world.root()), [""; 0], "{name}");
            }
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}

#[test]
fn a_selected_page_wins_over_the_same_page_of_its_space() {
    // case 42
    let world = World::new();
    world
        .memory
        .set("space:k", &[("p.md", text("of the space")), ("q.md", text("q")), ("sub/r.md", text("r"))]);
    world.memory.set("pages:k", &[("p.md", text("selected"))]);
    let pages = json!({"kind": "kb-pages", "spaceId": "k", "pageSlugs": ["p"]});
    for first in [true, false] {
        let mut plan = Plan::base().grant("references", "read-only");
        if first {
            plan = plan.kb("k");
        }
        plan = plan.entry("references:kb-pages:k", "references", "kb/k", "read-only", pages.clone());
        if !first {
            plan = plan.kb("k");
        }
        let report = world.apply(&plan).unwrap();
        let shadowed: Vec<_> =
            report.shadowed.iter().map(|shadowed| (&*shadowed.path, &*shadowed.by)).collect();
        assert_eq!(shadowed, [("references/kb/k/p.md", "references:kb-pages:k")]);
        assert_eq!(world.read("references/kb/k/p.md").as_deref(), Some("selected"));
        assert_eq!(world.read("references/kb/k/q.md").as_deref(), Some("q"));
        assert_eq!(world.read("references/kb/k/sub/r.md").as_deref(), Some("r"));
    }
}

#[test]
fn mounts_may_share_a_path_only_with_equal_content() {
    let world = World::new();
    world.memory.set("space:k", &[("p.md", text("one")), ("d/x.md", text("x"))]);
    world.memory.set("space:l", &[("p.md", text("one")), ("d", Thing::Dir)]);
    world.memory.set("space:m", &[("p.md", text("other"))]);
    world.memory.set("space:n", &[("p.md/below", text("x"))]);
    world.memory.set("space:o", &[("d", text("a file"))]);
    let space = |id: &str| json!({"kind": "kb-space", "spaceId": id});
    let cases = [
        ("equal", "l", true),
        ("different contents", "m", false),
        ("below a file", "n", false),
        ("over a directory", "o", false),
    ];
    for (name, other, fits) in cases {
        let plan = Plan::base()
            .grant("references", "read-only")
            .entry("one", "references", "kb", "read-only", space("k"))
            .entry("two", "references", "kb", "read-only", space(other));
        let result = world.apply(&plan);
        if fits {
            assert_eq!(
                result.unwrap().slots.iter().find(|slot| slot.path.ends_with("references")).unwrap().files,
                2
            );
            assert_eq!(world.read("references/kb/p.md").as_deref(), Some("one"));
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.code(), Code::PlanPathConflict, "{name}: {error}");
        }
    }
}

#[test]
fn conflicting_plans_are_refused_before_fetching() {
    // cases 24, 43, 44
    let artifact =
        |id: &str| json!({"kind": "artifact-version", "artifactId": id, "version": 1, "fileName": "f"});
    let uploads = Plan::base().grant("uploads", "read-only");
    let cases = [
        (
            "a and a/b",
            uploads.clone().entry("u1", "uploads", "a", "read-only", artifact("1")).entry(
                "u2",
                "uploads",
                "a/b",
                "read-only",
                artifact("2"),
            ),
            Code::PlanPathConflict,
        ),
        (
            "one key twice",
            uploads.clone().entry("u", "uploads", "a", "read-only", artifact("1")).entry(
                "u",
                "uploads",
                "b",
                "read-only",
                artifact("1"),
            ),
            Code::PlanDuplicateMountKey,
        ),
        (
            "a path that climbs",
            uploads.entry("u", "uploads", "../../etc/passwd", "read-only", artifact("1")),
            Code::PlanUnsafePath,
        ),
    ];
    for (name, plan, expected) in cases {
        assert_eq!(plan.check().unwrap_err().code(), expected, "{name}");
    }
}

#[test]
fn a_writable_slot_exists_without_a_source() {
    // case 45
    let world = World::new();
    let report = world.apply(&Plan::base().grant("deliverables", "read-write")).unwrap();
    assert_eq!(world.mode("deliverables"), 0o755);
    let slot = report.slots.iter().find(|slot| slot.path == "/workspace/deliverables").unwrap();
    assert_eq!((slot.files, slot.bytes, slot.promote), (0, 0, Promote::Swap));
}

#[test]
fn an_empty_space_is_an_empty_directory() {
    let world = World::new();
    world.memory.set("space:k", &[]);
    world.apply(&Plan::base().grant("references", "read-only").kb("k")).unwrap();
    assert_eq!(world.mode("references/kb/k"), 0o555);
    assert_eq!(
        world.apply(&Plan::base().grant("references", "read-only").kb("k")).unwrap().status,
        Status::Cached
    );
}

#[test]
fn slots_without_a_grant_are_removed_unless_writable() {
    let world = World::new();
    world.memory.set("space:k", &[("p.md", text("p"))]);
    let plan = Plan::base().grant("references", "read-only").kb("k").grant("deliverables", "read-write");
    world.apply(&plan).unwrap();
    world.write("deliverables/mine", "mine");
    let report = world.apply(&Plan::base()).unwrap();
    assert!(!world.root().join("references").exists());
    assert_eq!(world.read("deliverables/mine").as_deref(), Some("mine"));
    assert!(report.slots.iter().all(|slot| slot.path != "/workspace/references"));
}

#[test]
fn existing_files_in_a_read_only_slot_are_displaced() {
    let world = World::new();
    world.write("AGENTS.md", "my own notes");
    world.write("references/own.txt", "own");
    std::fs::create_dir_all(world.root().join("inputs")).unwrap();
    world.write(".opencode/runtime.jsonc", "the pool's");
    let plan = Plan::base().grant("references", "read-only").grant("inputs", "read-only");
    let report = world.apply(&plan).unwrap();
    let displaced: Vec<_> = report.preserved.iter().map(|preserved| &*preserved.path).collect();
    assert_eq!(displaced, ["references", "AGENTS.md"], "an empty directory is nothing to keep");
    assert_eq!(world.read(".interlock/displaced/1/agents-md").as_deref(), Some("my own notes"));
    assert_eq!(world.read(".interlock/displaced/1/references/own.txt").as_deref(), Some("own"));
    assert_eq!(world.read("AGENTS.md").as_deref(), Some("# AGENTS"));
    assert_eq!(world.read(".opencode/runtime.jsonc").as_deref(), Some("the pool's"));
    assert_eq!(world.apply(&Plan::base()).unwrap().preserved, [], "what an apply put there is not");
}

#[test]
fn equal_read_only_files_are_shared_if_the_agent_is_another_user() {
    for bytes in [5_000, 200_000] {
        let world = World::new();
        let body = "x".repeat(bytes);
        world
            .memory
            .set("skill:a", &[("SKILL.md", text(&body)), ("run", Thing::Tool(body.clone().into_bytes()))]);
        world.memory.set("skill:b", &[("SKILL.md", text(&body))]);
        world.memory.set("skill:c", &[("SKILL.md", text("c"))]);
        let plan = Plan::base().skill("a").skill("b").seed("tmp", "copy", body.as_bytes());
        let ino = |path: &str| std::fs::metadata(world.root().join(path)).unwrap().ino();
        let other = |request: &mut ApplyRequest<'_>| request.agent_user = AgentUser::Other;
        world.apply_with(&plan, other).unwrap();
        let first = ino(".opencode/skills/a/SKILL.md");
        let changed = plan.skill("c");
        world.apply_with(&changed, other).unwrap();
        assert_eq!(ino(".opencode/skills/a/SKILL.md"), first, "the next generation has the same file");
        assert_eq!(ino(".opencode/skills/b/SKILL.md"), first);
        assert_ne!(ino(".opencode/skills/a/run"), first, "another mode is another file");
        assert_ne!(ino("tmp/copy"), first, "nothing that can be written to is shared");
        for verify in [Verify::Stat, Verify::Hash] {
            let again = world.apply_with(&changed, |request| {
                other(request);
                request.verify = verify;
            });
            assert_eq!(again.unwrap().status, Status::Cached, "{verify:?}");
        }
    }
}

#[test]
fn a_damaged_file_in_the_store_is_not_used() {
    let world = World::new();
    world.memory.set("skill:a", &[("SKILL.md", text("right"))]);
    let other = |request: &mut ApplyRequest<'_>| request.agent_user = AgentUser::Other;
    world.apply_with(&Plan::base().skill("a"), other).unwrap();
    world.remove(".opencode");
    let mut damaged = 0;
    for shard in std::fs::read_dir(world.root().join(".interlock/cas")).unwrap() {
        for file in std::fs::read_dir(shard.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            std::fs::write(path, "wrong").unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0, "the store has files");
    world.apply_with(&Plan::base().skill("a"), other).unwrap();
    assert_eq!(world.read(".opencode/skills/a/SKILL.md").as_deref(), Some("right"));
}

#[test]
fn a_large_file_is_written_and_hashed_in_chunks() {
    let world = World::new();
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let artifact = json!({"kind": "artifact-version", "artifactId": "a", "version": 1, "fileName": "f"});
    let plan = Plan::base().grant("uploads", "read-only").entry("u", "uploads", "big", "read-only", artifact);
    world.memory.set("artifact:a", &[("", Thing::File(body.clone()))]);
    world.apply(&plan).unwrap();
    assert_eq!(std::fs::read(world.root().join("uploads/big")).unwrap(), body);
    let again = world.apply_with(&plan, |request| request.verify = Verify::Hash).unwrap();
    assert_eq!(again.status, Status::Cached);
}

#[test]
fn a_seed_file_is_read_only_in_a_writable_directory() {
    let world = World::new();
    let plan = Plan::base().grant("deliverables", "read-write").seed("deliverables", "a/seed.txt", b"seed");
    world.apply(&plan).unwrap();
    assert_eq!(world.mode("deliverables/a/seed.txt"), 0o444);
    assert_eq!(world.mode("deliverables/a"), 0o755);
}
