//! Hostile roots and sources are refused, and nothing outside the root is ever touched.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use workspace::apply::{ApplyRequest, LeaseScope};
use workspace::resolve::{Content, Item, ResolveRequest, Resolver, Sink};
use workspace::{Code, Error};

use crate::apply_support::{NOW, Plan, Thing, World, left_behind, text, tree};

/// A world with a directory next to the root that must not be touched.
fn with_canary() -> (World, std::path::PathBuf, BTreeMap<String, String>) {
    let world = World::in_memory();
    let canary = world.temp.path().join("canary");
    std::fs::create_dir_all(canary.join("agents")).unwrap();
    std::fs::write(canary.join("secret"), "outside").unwrap();
    std::fs::write(canary.join("agents/engineer.md"), "outside").unwrap();
    let seen = tree(&canary);
    (world, canary, seen)
}

fn plan() -> Plan {
    Plan::base().grant("references", "read-only").kb("k").grant("deliverables", "read-write").seed(
        "deliverables",
        "x",
        b"x",
    )
}

#[test]
fn a_link_in_place_of_a_slot_or_its_parent_is_refused() {
    // case 40
    let places = [
        "references",
        "AGENTS.md",
        "context.json",
        "tmp",
        "deliverables",
        ".opencode",
        ".opencode/agents",
        ".opencode/system-overlay.md",
        ".interlock",
    ];
    for applied in [false, true] {
        for place in places {
            let (world, canary, untouched) = with_canary();
            world.memory.set("space:k", &[("p.md", text("p"))]);
            if applied {
                world.apply(&plan()).unwrap();
            }
            let path = world.root().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            world.remove(place);
            let target = if place.ends_with(".md") { canary.join("secret") } else { canary.clone() };
            symlink(&target, &path).unwrap();
            let valid = plan().valid();
            let scope = LeaseScope::of(&valid, 0);
            let request = ApplyRequest::new(&valid, &scope, "test");
            let error = workspace::apply::Applier::new(&world.root())
                .and_then(|applier| applier.apply(&request, &world.resolver(), NOW, &()))
                .unwrap_err();
            assert_eq!(error.code(), Code::ApplyUnsafeSymlink, "{place}, applied before: {applied}: {error}");
            assert_eq!(tree(&canary), untouched, "{place}");
            assert_eq!(
                std::fs::read_link(&path).unwrap(),
                target,
                "{place}: the link itself is left to its owner"
            );
        }
    }
}

#[test]
fn links_in_the_state_folder_are_not_followed() {
    for place in [
        "staging",
        "trash",
        "lock",
        "journal.json",
        "lease.json",
        "index.jsonl",
        "report.json",
        "lease.json.tmp",
        "cas",
    ] {
        let (world, canary, untouched) = with_canary();
        world.memory.set("space:k", &[("p.md", text("p"))]);
        world.apply(&plan()).unwrap();
        let path = world.root().join(".interlock").join(place);
        world.remove(&format!(".interlock/{place}"));
        symlink(
            if place.contains('.') || place == "lock" { canary.join("secret") } else { canary.clone() },
            &path,
        )
        .unwrap();
        let changed = plan().id('a').seed("tmp", "more", b"more");
        // Refused or replaced: the canary is unchanged, also after a second attempt.
        for _ in 0..2 {
            let _ = workspace::apply::Applier::new(&world.root()).and_then(|applier| {
                let valid = changed.valid();
                let scope = LeaseScope::of(&valid, 0);
                let mut request = ApplyRequest::new(&valid, &scope, "test");
                request.agent_user = workspace::apply::AgentUser::Other;
                applier.apply(&request, &world.resolver(), NOW, &())
            });
            assert_eq!(tree(&canary), untouched, "{place}");
        }
    }
}

#[test]
fn paths_of_a_source_stay_in_their_mount() {
    let long = "x".repeat(5000);
    let deep = vec!["d"; 65].join("/");
    let cases = [
        ("climbs", "../x"),
        ("climbs in the middle", "a/../../x"),
        ("absolute", "/etc/passwd"),
        ("a NUL", "a\0b"),
        ("a backslash", "a\\b"),
        ("a control character", "a\u{7}b"),
        ("empty", ""),
        ("a dot", "./x"),
        ("an empty name", "a//b"),
        ("ends with a slash", "a/"),
        ("5,000 bytes", long.as_str()),
        ("65 levels", deep.as_str()),
    ];
    for (name, path) in cases {
        let (world, canary, untouched) = with_canary();
        world.memory.set("space:k", &[("fine.md", text("p")), (path, text("evil"))]);
        let error = world.apply(&plan()).unwrap_err();
        assert_eq!(error.code(), Code::PlanUnsafePath, "{name}: {error}");
        assert!(world.tree().is_empty(), "{name}");
        assert_eq!(tree(&canary), untouched, "{name}");
        assert_eq!(left_behind(&world.root()), [""; 0], "{name}");
    }
}

#[test]
fn only_repositories_have_links_and_they_stay_inside() {
    // case 40, the second half
    let cases: [(&str, &str, &'static str, bool); 9] = [
        ("beside", "a/link", "b", true),
        ("above, inside", "a/link", "../c", true),
        ("dangling", "link", "nothing/here", true),
        ("climbs out", "x", "../../s", false),
        ("climbs out from below", "a/x", "../../s", false),
        ("absolute", "x", "/etc/passwd", false),
        ("down and up, perhaps through another link", "x", "a/../b", false),
        ("empty", "x", "", false),
        ("a NUL", "x", "a\0b", false),
    ];
    for (name, path, target, fine) in cases {
        let (world, canary, untouched) = with_canary();
        world.memory.set("repo:r", &[("a/b", text("b")), (path, Thing::Link(target))]);
        world.memory.set("skill:s", &[("SKILL.md", text("s")), (path, Thing::Link(target))]);
        let repo = Plan::base().grant("references", "read-only").repo("references", "r", "read-only");
        match world.apply(&repo) {
            Ok(_) => assert!(fine, "{name}"),
            Err(error) => {
                assert_eq!((error.code(), fine), (Code::ApplyUnsafeSymlink, false), "{name}: {error}");
            }
        }
        assert_eq!(
            world.apply(&Plan::base().skill("s")).unwrap_err().code(),
            Code::ApplyUnsafeSymlink,
            "{name}"
        );
        assert_eq!(tree(&canary), untouched, "{name}");
    }
}

/// A source that violates the contract.
struct Lying(fn(&mut dyn Sink) -> Result<(), Error>);

impl Resolver for Lying {
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
        if want.source.kind().is_tree() {
            return (self.0)(sink);
        }
        let content = Content::Bytes(Vec::new());
        Ok(sink.put(Item { rel_path: String::new(), executable: false, content })?)
    }
}

fn put(sink: &mut dyn Sink, path: &str, content: Content) -> Result<(), Error> {
    Ok(sink.put(Item { rel_path: path.into(), executable: false, content })?)
}

#[test]
fn sources_that_violate_the_contract_are_refused() {
    type Case = (&'static str, fn(&mut dyn Sink) -> Result<(), Error>, Code);
    let cases: [Case; 7] = [
        (
            "one path twice",
            |sink| {
                put(sink, "a", Content::Bytes(vec![1]))?;
                put(sink, "a", Content::Bytes(vec![1]))
            },
            Code::ResolveBadResponse,
        ),
        (
            "a file and a directory",
            |sink| {
                put(sink, "a", Content::Bytes(vec![1]))?;
                put(sink, "a/b", Content::Bytes(vec![1]))
            },
            Code::ResolveBadResponse,
        ),
        ("panics", |_| panic!("a secret that is in no message"), Code::ResolveBadResponse),
        (
            "continues after it was stopped",
            |sink| {
                let first = put(sink, "../x", Content::Bytes(vec![1]));
                for _ in 0..1000 {
                    let _ = put(sink, "fine", Content::Bytes(vec![1]));
                }
                first
            },
            Code::PlanUnsafePath,
        ),
        (
            "swallows the refusal",
            |sink| {
                let _ = put(sink, "../x", Content::Bytes(vec![1]));
                Ok(())
            },
            Code::PlanUnsafePath,
        ),
        (
            "a directory as a file",
            |sink| put(sink, "a", Content::File(std::fs::File::open("/").unwrap())),
            Code::ResolveBadResponse,
        ),
        (
            // case 41: the limit counts actual bytes, not the reported length. The file is sparse
            // and has 300 MiB.
            "300 MiB",
            |sink| {
                let file = tempfile::tempfile().unwrap();
                file.set_len(300 << 20).unwrap();
                put(sink, "a", Content::File(file))
            },
            Code::LimitExceeded,
        ),
    ];
    for (name, lie, expected) in cases {
        let world = World::in_memory();
        let resolver: Arc<dyn Resolver> = Arc::new(Lying(lie));
        let plan = if name == "300 MiB" {
            Plan::base().grant("references", "read-only").repo("references", "r", "read-only")
        } else {
            plan()
        };
        let valid = plan.valid();
        let scope = LeaseScope::of(&valid, 0);
        let request = ApplyRequest::new(&valid, &scope, "test");
        let error = world.applier().apply(&request, &resolver, NOW, &()).unwrap_err();
        assert_eq!(error.code(), expected, "{name}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{name}");
        assert!(world.tree().is_empty(), "{name}");
        assert_eq!(left_behind(&world.root()), [""; 0], "{name}");
    }
}

#[test]
fn a_very_deep_tree_of_the_agent_can_be_removed() {
    let (world, ..) = with_canary();
    world.memory.set("space:k", &[]);
    world.apply(&plan()).unwrap();
    let slot = world.root().join("deliverables");
    make_deep(&slot, 3000);
    world.apply_with(&plan(), |request| request.rw_policy = workspace::apply::RwPolicy::Reset).unwrap();
    assert_eq!(std::fs::read_dir(&slot).unwrap().count(), 1);
    assert_eq!(left_behind(&world.root()), [""; 0]);
}

/// Nested directories, deeper than any path can name.
fn make_deep(top: &Path, levels: usize) {
    use workspace::rooted::Dir;
    let mut directory = Dir::open_root(top).unwrap();
    let mut above: Option<Dir> = None;
    for level in 0..levels {
        directory.make_dir("d", 0o755).unwrap();
        let below = directory.open_dir("d").unwrap();
        // Not even readable for its owner.
        if let Some(above) = above.filter(|_| level % 7 == 0) {
            above.set_mode("d", 0o000).unwrap();
        }
        above = Some(std::mem::replace(&mut directory, below));
    }
}
