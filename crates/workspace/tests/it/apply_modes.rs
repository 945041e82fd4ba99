//! Slots whose mode changes from one plan to the next.

use workspace::apply::{Promote, Why};

use crate::apply_support::{Plan, World, text};

fn plan(id: char, mode: &'static str) -> Plan {
    Plan::base().id(id).grant("repos", mode).repo("repos", "r", mode)
}

/// The test may run as an unprivileged user, for whom read-only directories are really read-only.
#[test]
fn a_slot_changes_from_read_only_to_read_write_and_back() {
    let world = World::new();
    world.memory.set("repo:r", &[("src/main.rs", text("fn main() {}")), ("README.md", text("one"))]);
    world.apply(&plan('a', "read-only")).unwrap();
    assert_eq!((world.mode("repos/r/src"), world.mode("repos/r/README.md")), (0o555, 0o444));

    let report = world.apply(&plan('b', "read-write")).unwrap();
    let repos = report.slots.iter().find(|slot| slot.path == "/workspace/repos").unwrap();
    assert_eq!(repos.promote, Promote::Swap, "nothing in it was the agent's");
    assert_eq!((world.mode("repos/r/src"), world.mode("repos/r/README.md")), (0o755, 0o644));
    world.write("repos/r/src/mine.rs", "mine");

    let report = world.apply(&plan('c', "read-only")).unwrap();
    let kept: Vec<(&str, Why)> = report.preserved.iter().map(|kept| (kept.path.as_str(), kept.why)).collect();
    assert_eq!(kept, [("repos", Why::Displaced)], "what the agent wrote is put aside, not thrown away");
    assert_eq!(world.read("repos/r/src/mine.rs"), None);
    assert_eq!(world.mode("repos/r/src"), 0o555);
}
