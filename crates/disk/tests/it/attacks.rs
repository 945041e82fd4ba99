//! Attacks by someone who can write below the root, and program errors: nothing outside is ever read or changed.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use disk::rooted::{Dir, Kind, is_link};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A root with files and links, and files outside it.
struct World {
    temp: tempfile::TempDir,
    dir: Dir,
    before: BTreeMap<PathBuf, (u32, Vec<u8>)>,
}

impl World {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let (root, outside) = (temp.path().join("root"), temp.path().join("outside"));
        std::fs::create_dir_all(root.join("d/e")).unwrap();
        std::fs::create_dir_all(outside.join("e")).unwrap();
        for name in ["file", "d/file", "d/e/file"] {
            std::fs::write(root.join(name), "inside").unwrap();
        }
        for name in ["file", "e/file"] {
            std::fs::write(outside.join(name), "outside").unwrap();
        }
        for (target, name) in [
            (outside.to_str().unwrap(), "out"),
            ("../../outside", "d/out"),
            ("../../../outside/e", "d/e/out"),
            ("../outside/file", "link"),
            ("d", "within"),
            ("loop", "loop"),
            ("nowhere", "broken"),
            ("/proc/self/cwd", "magic"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        let dir = Dir::open_root(&root).unwrap();
        let before = contents(&outside);
        Self { temp, dir, before }
    }

    fn root(&self) -> PathBuf {
        self.temp.path().join("root")
    }

    fn check(&self, what: &str) {
        assert_eq!(contents(&self.temp.path().join("outside")), self.before, "{what}");
    }
}

/// Every path below a directory, with its mode and content.
fn contents(of: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![of.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let bytes = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, (metadata.mode(), bytes));
    }
    found
}

type Operation = (&'static str, fn(&Dir, &str) -> io::Result<()>);

/// Operations that open a path.
const OPENING: [Operation; 9] = [
    ("open_dir", |dir, path| dir.open_dir(path).map(drop)),
    ("open_file", |dir, path| dir.open_file(path).map(drop)),
    ("read", |dir, path| dir.read(path, 100).map(drop)),
    ("open_truncated", |dir, path| dir.open_truncated(path).map(drop)),
    ("open_appending", |dir, path| dir.open_appending(path).map(drop)),
    ("open_writable", |dir, path| dir.open_writable(path).map(drop)),
    ("open_lock", |dir, path| dir.open_lock(path).map(drop)),
    ("write_over", |dir, path| dir.write_over(path, b"evil")),
    ("set_mode", |dir, path| dir.set_mode(path, 0o777)),
];

/// Operations that change a directory entry.
const NAMING: [Operation; 17] = [
    ("create_file", |dir, path| dir.create_file(path, 0o666).map(drop)),
    ("create_unfinished", |dir, path| dir.create_unfinished(path, 0o666).map(drop)),
    ("make_dir", |dir, path| dir.make_dir(path, 0o777)),
    ("make_dir_masked", |dir, path| dir.make_dir_masked(path, 0o777).map(drop)),
    ("make_dirs", |dir, path| dir.make_dirs(path, 0o777)),
    ("open_or_make_dirs", |dir, path| dir.open_or_make_dirs(path).map(drop)),
    ("read_link", |dir, path| dir.read_link(path).map(drop)),
    ("symlink", |dir, path| dir.symlink("elsewhere", path)),
    ("link from", |dir, path| dir.link(path, dir, "new")),
    ("link to", |dir, path| dir.link("file", dir, path)),
    ("rename from", |dir, path| dir.rename(path, dir, "new")),
    ("rename to", |dir, path| dir.rename("file", dir, path)),
    ("rename_new from", |dir, path| dir.rename_new(path, dir, "new")),
    ("exchange", |dir, path| dir.exchange("file", dir, path)),
    ("remove_file", |dir, path| dir.remove_file(path)),
    ("remove_dir", |dir, path| dir.remove_dir(path)),
    ("remove_tree", |dir, path| dir.remove_tree(path)),
];

#[test]
fn paths_stay_inside() {
    let world = World::new();
    let (long_name, long_path) = (format!("d/{}", "n".repeat(256)), "d/".repeat(3000) + "file");
    let outside = world.temp.path().join("outside/file");
    let paths = [
        "/",
        "/etc/passwd",
        outside.to_str().unwrap(),
        "..",
        "../outside",
        "../outside/file",
        "d/..",
        "d/../../outside/file",
        "d/e/../../../outside/e/file",
        "out/file",
        "out/new",
        "out/e/file",
        "d/out/file",
        "d/out/new",
        "d/e/out/file",
        "d/e/out/new",
        "within/file",
        "within/e/file",
        "within/../file",
        "loop/file",
        "broken/file",
        "magic/file",
        "file/below",
        "d/a\0b",
        &long_name,
        &long_path,
    ];
    for (name, operation) in OPENING.into_iter().chain(NAMING) {
        for path in paths {
            let refused = operation(&world.dir, path);
            assert!(refused.is_err(), "{name} {path:?}");
            world.check(name);
        }
    }
    assert_eq!(std::fs::read(world.root().join("d/e/file")).unwrap(), b"inside");
    for path in paths.into_iter().filter(|path| !path.starts_with("broken")) {
        assert!(!matches!(world.dir.stat(path), Ok(Some(_))), "stat {path:?}");
    }
}

#[test]
fn links_are_not_followed() {
    for link in ["out", "d/out", "d/e/out", "link", "within", "loop", "broken", "magic"] {
        let world = World::new();
        for (name, operation) in OPENING {
            let refused = operation(&world.dir, link).unwrap_err();
            assert!(is_link(&refused), "{name} {link}: {refused}");
        }
        assert_eq!(world.dir.stat(link).unwrap().unwrap().kind, Kind::Link, "{link}");
        for (name, operation) in NAMING {
            let world = World::new();
            // Some succeed: a link is moved, linked or removed like a file.
            let _ = operation(&world.dir, link);
            world.check(&format!("{name} {link}"));
        }
        world.dir.remove_tree(link).unwrap();
        assert_eq!(world.dir.stat(link).unwrap(), None, "{link}");
        assert!(world.dir.stat("d/e/file").unwrap().is_some(), "the link is removed, not its target");
        world.check(link);
    }
}

#[test]
fn special_files_are_rejected() {
    let world = World::new();
    mknodat(CWD, world.root().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listening = std::os::unix::net::UnixListener::bind(world.root().join("socket")).unwrap();
    for path in ["pipe", "socket", "d"] {
        for (name, operation) in OPENING.into_iter().filter(|(name, _)| !matches!(*name, "set_mode")) {
            assert_eq!(
                operation(&world.dir, path).is_ok(),
                name == "open_dir" && path == "d",
                "{name} {path}"
            );
        }
    }
    assert_eq!(world.dir.stat("pipe").unwrap().unwrap().kind, Kind::Other);
}

#[test]
fn reads_are_limited() {
    let world = World::new();
    assert_eq!(world.dir.read("file", 6).unwrap(), b"inside");
    let refused = world.dir.read("file", 5).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(refused.to_string(), "the file is 6 bytes; the limit is 5");
    let names = world.dir.names().unwrap();
    assert_eq!(world.dir.names_up_to(names.len()).unwrap(), names);
    assert!(world.dir.names_up_to(names.len() - 1).is_err());
}

#[test]
fn removes_very_deep_trees() {
    let world = World::new();
    let mut deep = world.dir.clone();
    for _ in 0..1500 {
        deep.make_dir("x", 0o700).unwrap();
        deep = deep.open_dir("x").unwrap();
    }
    symlink(world.temp.path().join("outside"), world.root().join("x/x/out")).unwrap();
    world.dir.remove_tree("x").unwrap();
    assert_eq!(world.dir.stat("x").unwrap(), None);
    world.check("removed");
}

/// Another process repeatedly swaps a directory and a link to the outside. Each path is resolved once, so an opened
/// file is inside, whatever the name refers to later.
#[test]
fn swapped_directories_do_not_lead_outside() {
    let world = World::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                world.dir.exchange("d", &world.dir, "out").unwrap();
            }
        });
        for round in 0..2000 {
            if let Ok(bytes) = world.dir.read("d/file", 100) {
                assert_eq!(bytes, b"inside");
            }
            // Each of these may succeed or hit the link.
            let _ = world.dir.create_file(format!("d/new-{round}"), 0o600);
            let _ = world.dir.make_dirs(format!("d/dirs-{round}/below"), 0o700);
            let _ = world.dir.write_over("d/over", b"inside");
            let _ = world.dir.set_mode("d/e", 0o700);
            let _ = world.dir.rename("file", &world.dir, "d/moved");
            let _ = world.dir.rename("d/moved", &world.dir, "file");
            let _ = world.dir.remove_tree(format!("d/dirs-{round}"));
            let _ = world.dir.remove_tree("d/e");
        }
        done.store(true, Ordering::Relaxed);
    });
    world.check("swapped");
}

fn path() -> impl Strategy<Value = String> {
    let names = ["d", "e", "file", "out", "link", "within", "loop", "new", "..", ".", "", "a\0b"];
    let name = proptest::sample::select(names.to_vec());
    (any::<bool>(), proptest::collection::vec(name, 0..5))
        .prop_map(|(is_absolute, names)| format!("{}{}", if is_absolute { "/" } else { "" }, names.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn operations_never_touch_the_outside(
        steps in proptest::collection::vec((0..OPENING.len() + NAMING.len(), path()), 1..16)
    ) {
        let world = World::new();
        for (at, path) in steps {
            let (name, operation) = OPENING.into_iter().chain(NAMING).nth(at).unwrap();
            let _ = operation(&world.dir, &path);
            world.check(&format!("{name} {path:?}"));
        }
    }
}
