//! Crashes at every operation of an apply: afterwards the workspace is either old or new, and the
//! next apply succeeds.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use workspace::apply::{
    AgentUser, Applier, ApplyReport, ApplyRequest, LeaseScope, Promote, Restore, RestoreSink, Restored,
    RwPolicy, Verify,
};
use workspace::resolve::Content;
use workspace::rooted::{Dir, Gate, Operation};
use workspace::slot::Slot;
use workspace::{Code, Error};

use crate::apply_support::{NOW, Plan, Thing, World, left_behind, text};

/// Allows this many operations, and fails all later ones.
#[derive(Debug)]
struct Dying {
    left: AtomicU64,
    seen: AtomicU64,
}

impl Dying {
    fn after(operations: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(operations), seen: AtomicU64::new(0) })
    }
}

impl Gate for Dying {
    fn before(&self, _operation: Operation) -> io::Result<()> {
        self.seen.fetch_add(1, Ordering::SeqCst);
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(|_| ()).map_err(|_| io::Error::other("the machine is gone"))
    }
}

/// A change to a world that may be interrupted.
struct Scenario {
    name: &'static str,
    /// Sets up the initial state.
    before: fn(&World),
    plan: fn() -> Plan,
    change: fn(&mut ApplyRequest<'_>),
}

struct Notes;

impl Restore for Notes {
    fn restore(&self, _slots: &[Slot], sink: &mut dyn RestoreSink) -> Result<(), Error> {
        sink.covers(Slot::Deliverables)?;
        for (path, bytes) in [("deliverables/report.md", "from the snapshot"), ("deliverables/a/b/c", "deep")]
        {
            let content = Content::Bytes(bytes.into());
            sink.put(Restored { path: path.into(), mode: 0o640, mtime: Some(1_700_000_000), content })?;
        }
        Ok(())
    }
}

fn skills(world: &World) {
    world.memory.set("skill:a", &[("SKILL.md", text("a")), ("bin/run", Thing::Tool(b"run".to_vec()))]);
    world.memory.set("skill:b", &[("SKILL.md", text("b"))]);
    world.memory.set("space:k", &[("p.md", text("p")), ("sub/q.md", text("q"))]);
}

fn first_plan() -> Plan {
    Plan::base()
        .skill("a")
        .grant("references", "read-only")
        .kb("k")
        .grant("deliverables", "read-write")
        .seed("deliverables", "same.txt", b"same")
        .seed("deliverables", "edited.txt", b"one")
        .seed("deliverables", "deleted.txt", b"one")
        .seed("deliverables", "updated.txt", b"one")
        .seed("deliverables", "dropped/x.txt", b"one")
}

fn second_plan() -> Plan {
    Plan::base()
        .skill("b")
        .grant("inputs", "read-only")
        .seed("inputs", "inputs.json", b"{}")
        .grant("deliverables", "read-write")
        .seed("deliverables", "same.txt", b"same")
        .seed("deliverables", "edited.txt", b"two")
        .seed("deliverables", "deleted.txt", b"two")
        .seed("deliverables", "updated.txt", b"two")
        .seed("deliverables", "fresh/y.txt", b"two")
}

fn applied(world: &World) {
    skills(world);
    world.apply(&first_plan()).unwrap();
}

fn worked_in(world: &World) {
    applied(world);
    world.write("deliverables/edited.txt", "mine");
    world.remove("deliverables/deleted.txt");
    world.write("deliverables/own/notes.txt", "mine");
}

const SCENARIOS: [Scenario; 8] = [
    Scenario { name: "first", before: skills, plan: first_plan, change: |_| {} },
    Scenario {
        name: "over what stood there",
        before: |world| {
            skills(world);
            world.write("AGENTS.md", "my own notes");
            world.write("references/own.txt", "own");
        },
        plan: first_plan,
        change: |_| {},
    },
    Scenario { name: "another plan", before: applied, plan: second_plan, change: |_| {} },
    Scenario { name: "merge", before: worked_in, plan: second_plan, change: |_| {} },
    Scenario {
        name: "reset",
        before: worked_in,
        plan: second_plan,
        change: |request| request.rw_policy = RwPolicy::Reset,
    },
    Scenario {
        name: "repair",
        before: |world| {
            applied(world);
            world.write(".opencode/skills/a/SKILL.md", "evil");
            world.write("references/more", "evil");
            world.write("context.json", "evil");
        },
        plan: first_plan,
        change: |request| request.verify = Verify::Hash,
    },
    Scenario {
        name: "restore",
        before: worked_in,
        plan: second_plan,
        change: |request| request.restore = Some(&Notes),
    },
    Scenario {
        name: "with links",
        before: applied,
        plan: second_plan,
        change: |request| request.agent_user = AgentUser::Other,
    },
];

fn run(world: &World, scenario: &Scenario, gate: &Arc<Dying>) -> Result<ApplyReport, Error> {
    let valid = (scenario.plan)().valid();
    let scope = LeaseScope::of(&valid, 0);
    let mut request = ApplyRequest::new(&valid, &scope, "test");
    (scenario.change)(&mut request);
    let root = Dir::open_root(&world.root()).unwrap().gated(Arc::clone(gate) as Arc<dyn Gate>);
    let applier = Applier::below(root)?;
    applier.apply(&request, &world.resolver(), NOW, &())
}

/// Crashes at every operation of a scenario.
fn enumerate(scenario: &Scenario) {
    let name = scenario.name;
    let whole = World::in_memory();
    (scenario.before)(&whole);
    let counting = Dying::after(u64::MAX);
    run(&whole, scenario, &counting).unwrap();
    let operations = counting.seen.load(Ordering::SeqCst);
    let new = whole.tree();
    assert!(operations > 20, "{name}: the operations are counted");

    let (mut kept_old, mut got_new) = (0, 0);
    for crash_at in 0..operations {
        let world = World::in_memory();
        (scenario.before)(&world);
        let old = world.tree();
        let outcome = run(&world, scenario, &Dying::after(crash_at));
        // The next process.
        let applier = Applier::new(&world.root()).unwrap();
        let seen = world.tree();
        if seen == new {
            got_new += 1;
        } else {
            assert_eq!(seen, old, "{name}: cut off before operation {crash_at} of {operations}");
            assert!(
                outcome.is_err(),
                "{name}: {crash_at}: success was reported, and the old workspace is there"
            );
            kept_old += 1;
        }
        if let Err(error) = &outcome {
            let expected = [Code::ApplyIo, Code::ApplyRollbackFailed, Code::SnapshotRestoreFailed];
            assert!(expected.contains(&error.code()), "{name}: {crash_at}: {error}");
        }
        drop(applier);
        // A lease without an applied plan would be wrong.
        let lease = world.applier().lease().unwrap();
        let believed = lease.is_some_and(|lease| lease.plan_digest == (scenario.plan)().valid().digest());
        if scenario.name != "repair" {
            assert_eq!(believed, seen == new, "{name}: {crash_at}");
        }
        let open = Dying::after(u64::MAX);
        run(&world, scenario, &open)
            .unwrap_or_else(|error| panic!("{name}: {crash_at}: the next apply: {error}"));
        assert_eq!(world.tree(), new, "{name}: {crash_at}: after the next apply");
        assert_eq!(left_behind(&world.root()), [""; 0], "{name}: {crash_at}");
        if name == "over what stood there" {
            let kept = |what: &str| world.read(&format!(".interlock/displaced/1/{what}"));
            assert_eq!(kept("agents-md").as_deref(), Some("my own notes"), "{crash_at}");
            assert_eq!(kept("references/own.txt").as_deref(), Some("own"), "{crash_at}");
        }
    }
    assert!(kept_old > 0 && got_new > 0, "{name}: both outcomes are seen, {kept_old} and {got_new} times");
}

macro_rules! scenarios {
    ($($test:ident: $at:literal,)*) => {$(
        // case 38
        #[test]
        fn $test() {
            enumerate(&SCENARIOS[$at]);
        }
    )*};
}

scenarios! {
    a_first_apply_is_whole_or_absent_at_every_crash_point: 0,
    what_stood_there_is_never_lost_at_any_crash_point: 1,
    another_plan_is_whole_or_absent_at_every_crash_point: 2,
    a_merge_is_whole_or_absent_at_every_crash_point: 3,
    a_reset_is_whole_or_absent_at_every_crash_point: 4,
    a_repair_is_whole_or_absent_at_every_crash_point: 5,
    a_restore_is_whole_or_absent_at_every_crash_point: 6,
    an_apply_with_links_is_whole_or_absent_at_every_crash_point: 7,
}

/// A mount in a slot, for the lifetime of this value.
struct Mounted(std::path::PathBuf);

impl Mounted {
    /// `None` if the user may not mount.
    fn at(path: std::path::PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "mode=0755", "none"])
            .arg(&path)
            .output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(path))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn slots_that_are_mount_points_are_filled_name_by_name() {
    let mount = |world: &World| {
        ["references", "deliverables"]
            .map(|slot| Mounted::at(world.root().join(slot)))
            .into_iter()
            .collect::<Option<Vec<_>>>()
    };
    let scenario = Scenario {
        name: "mounted",
        before: |world| {
            worked_in(world);
            world.memory.set("space:k", &[("p.md", text("changed")), ("new/r.md", text("r"))]);
        },
        plan: || second_plan().grant("references", "read-only").kb("k"),
        change: |_| {},
    };
    // The expected result, without mounts.
    let plain = World::in_memory();
    (scenario.before)(&plain);
    run(&plain, &scenario, &Dying::after(u64::MAX)).unwrap();

    let whole = World::in_memory();
    let Some(_mounted) = mount(&whole) else { return };
    (scenario.before)(&whole);
    let counting = Dying::after(u64::MAX);
    let report = run(&whole, &scenario, &counting).unwrap();
    assert_eq!(whole.tree(), plain.tree());
    let promotes = report.slots.iter().filter(|slot| !slot.path.contains('.') && !slot.path.ends_with("tmp"));
    let promotes: Vec<_> = promotes.map(|slot| (slot.path.as_str(), slot.promote)).collect();
    assert_eq!(
        promotes,
        [
            ("/workspace/inputs", Promote::Swap),
            ("/workspace/references", Promote::Children),
            ("/workspace/deliverables", Promote::Merge),
        ]
    );
    for crash_at in (0..counting.seen.load(Ordering::SeqCst)).step_by(3) {
        let world = World::in_memory();
        let Some(_mounted) = mount(&world) else { return };
        (scenario.before)(&world);
        let old = world.tree();
        let _ = run(&world, &scenario, &Dying::after(crash_at));
        drop(Applier::new(&world.root()).unwrap());
        let mut seen = world.tree();
        // Without a journal, the leftovers are only found by the next apply.
        seen.retain(|path, _| !path.contains(".interlock-staging"));
        assert!(seen == old || seen == plain.tree(), "{crash_at}: {seen:#?}");
        run(&world, &scenario, &Dying::after(u64::MAX)).unwrap();
        assert_eq!(world.tree(), plain.tree(), "{crash_at}");
    }
}

/// Fails exactly once.
struct Once(AtomicU64, u64);

impl Gate for Once {
    fn before(&self, _operation: Operation) -> io::Result<()> {
        if self.0.fetch_add(1, Ordering::SeqCst) == self.1 {
            return Err(io::Error::other("once"));
        }
        Ok(())
    }
}

/// A file system that cannot exchange two names.
struct WithoutExchange(Arc<Dying>);

impl Gate for WithoutExchange {
    fn before(&self, operation: Operation) -> io::Result<()> {
        self.0.before(operation)?;
        match operation {
            // EINVAL
            Operation::Exchange => Err(io::Error::from_raw_os_error(22)),
            _ => Ok(()),
        }
    }
}

#[test]
fn every_crash_point_recovers_without_rename_exchange() {
    let scenario = &SCENARIOS[3];
    let gated = |world: &World, dying: &Arc<Dying>| -> Result<ApplyReport, Error> {
        let valid = (scenario.plan)().valid();
        let scope = LeaseScope::of(&valid, 0);
        let gate: Arc<dyn Gate> = Arc::new(WithoutExchange(Arc::clone(dying)));
        let root = Dir::open_root(&world.root()).unwrap().gated(gate);
        Applier::below(root)?.apply(&ApplyRequest::new(&valid, &scope, "test"), &world.resolver(), NOW, &())
    };
    let whole = World::in_memory();
    (scenario.before)(&whole);
    let counting = Dying::after(u64::MAX);
    gated(&whole, &counting).unwrap();
    for crash_at in 0..counting.seen.load(Ordering::SeqCst) {
        let world = World::in_memory();
        (scenario.before)(&world);
        let old = world.tree();
        let _ = gated(&world, &Dying::after(crash_at));
        // The next process cannot exchange names either.
        let open: Arc<dyn Gate> = Arc::new(WithoutExchange(Dying::after(u64::MAX)));
        drop(Applier::below(Dir::open_root(&world.root()).unwrap().gated(open)).unwrap());
        let seen = world.tree();
        assert!(seen == old || seen == whole.tree(), "cut off before operation {crash_at}");
        gated(&world, &Dying::after(u64::MAX)).unwrap();
        assert_eq!(world.tree(), whole.tree(), "{crash_at}");
    }
}

#[test]
fn one_failure_during_promotion_is_rolled_back_at_once() {
    let scenario = &SCENARIOS[3];
    let mut rolled_back = 0;
    for fail_at in 0.. {
        let world = World::in_memory();
        (scenario.before)(&world);
        let old = world.tree();
        let valid = (scenario.plan)().valid();
        let scope = LeaseScope::of(&valid, 0);
        let request = ApplyRequest::new(&valid, &scope, "test");
        let gate = Arc::new(Once(AtomicU64::new(0), fail_at));
        let root = Dir::open_root(&world.root()).unwrap().gated(Arc::clone(&gate) as Arc<dyn Gate>);
        let applier = Applier::below(root).unwrap();
        let outcome = applier.apply(&request, &world.resolver(), NOW, &());
        drop(applier);
        if gate.0.load(Ordering::SeqCst) <= fail_at {
            break;
        }
        match outcome {
            Ok(_) => {}
            Err(error) => {
                let seen: BTreeMap<_, _> = world.tree();
                if error.details().get("rolledBack").is_some() {
                    rolled_back += 1;
                }
                // After the commit the new workspace is valid, whatever fails then.
                let committed = world.applier().lease().unwrap().unwrap().plan_digest == valid.digest();
                assert!(committed || seen == old, "operation {fail_at}: {error}");
            }
        }
    }
    assert!(rolled_back > 10, "{rolled_back}");
}
