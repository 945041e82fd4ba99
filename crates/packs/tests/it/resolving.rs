//! Version selection and lockfiles.

use std::cell::RefCell;
use std::collections::BTreeMap;

use canon::time::Timestamp;
use packs::PackErrorCode as Code;
use packs::integrity::Integrity;
use packs::lock::Lockfile;
use packs::name::PackName;
use packs::range::Range;
use packs::resolve::{
    Candidate, ListedVersion, MAX_CHOICES, Request, Source, SourceError, Sources, check_lock, needed_first,
    resolve,
};
use packs::version::Version;

/// A source with fixed versions.
#[derive(Default)]
struct FixedSource {
    packs: BTreeMap<PackName, Vec<(Candidate, bool)>>,
    down: bool,
    closed: bool,
    remote: bool,
    /// Versions with invalid metadata.
    garbled: Vec<&'static str>,
    looked_at: RefCell<Vec<String>>,
}

impl Source for FixedSource {
    fn versions(&self, name: &PackName) -> Result<Vec<ListedVersion>, SourceError> {
        if self.down {
            return Err(SourceError::Unreachable("down".to_owned()));
        }
        if self.closed {
            return Err(SourceError::Refused("it wants a key".to_owned()));
        }
        let listed = self.packs.get(name).into_iter().flatten();
        Ok(listed
            .map(|(candidate, yanked)| ListedVersion { version: candidate.version.clone(), yanked: *yanked })
            .collect())
    }

    fn candidate(&self, name: &PackName, version: &Version) -> Result<Candidate, SourceError> {
        self.looked_at.borrow_mut().push(version.to_string());
        if self.garbled.contains(&version.to_string().as_str()) {
            return Err(SourceError::Unusable("it needs `no range`".to_owned()));
        }
        let found = self.packs[name].iter().find(|(candidate, _)| candidate.version == *version);
        Ok(found.unwrap().0.clone())
    }

    fn is_remote(&self) -> bool {
        self.remote
    }
}

fn name(short: &str) -> PackName {
    PackName::parse(&format!("core.test.{short}")).unwrap()
}

fn range(text: &str) -> Range {
    Range::parse(text).unwrap()
}

/// One version per line, such as `a 1.0.0: b ^1, c *`; `!` after a version means yanked.
fn written(text: &str) -> FixedSource {
    let mut source = FixedSource::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (head, needs) = line.split_once(':').unwrap_or((line, ""));
        let (short, version) = head.split_once(' ').unwrap();
        let needs = needs.split(',').map(str::trim).filter(|need| !need.is_empty());
        let candidate = Candidate {
            version: version.trim_end_matches('!').parse().unwrap(),
            integrity: Integrity::of(head.as_bytes()),
            resolved: None,
            signature: None,
            dependencies: needs
                .map(|need| need.split_once(' ').unwrap())
                .map(|(short, text)| (name(short), range(text)))
                .collect(),
            peer_dependencies: BTreeMap::new(),
        };
        source.packs.entry(name(short)).or_default().push((candidate, version.ends_with('!')));
    }
    source
}

fn request(wanted: &[(&str, &str)]) -> Request {
    Request {
        wanted: wanted.iter().map(|(short, text)| (name(short), range(text))).collect(),
        ..Request::default()
    }
}

fn chosen(source: &FixedSource, request: &Request) -> Result<Vec<String>, packs::PackError> {
    let lock = resolve(request, &Sources(vec![source]), Timestamp(0))?;
    Ok(lock
        .packs
        .iter()
        .map(|pack| format!("{} {}", pack.name.as_str().trim_start_matches("core.test."), pack.version))
        .collect())
}

#[test]
fn chooses_the_highest_accepted_version() {
    let source = written(
        "a 1.0.0: c ^1
         a 1.1.0: c >=1.0.0 <1.2.0
         b 1.0.0: c ^1.1
         c 1.0.0
         c 1.1.0
         c 1.2.0
         c 2.0.0
         d 1.0.0
         d 1.1.0-rc.1
         d 1.2.0!
         e 1.0.0: f ^2
         e 0.9.0: f ^1
         f 1.0.0
         f 2.0.0: g ^9
         g 1.0.0",
    );
    for (wanted, expected) in [
        (vec![("a", "*"), ("b", "*")], vec!["a 1.1.0", "b 1.0.0", "c 1.1.0"]),
        (vec![("d", "*")], vec!["d 1.0.0"]),
        (vec![("d", ">=1.1.0-rc.1")], vec!["d 1.1.0-rc.1"]),
        // The highest `e` cannot be satisfied; the next lower one is chosen.
        (vec![("e", "*")], vec!["e 0.9.0", "f 1.0.0"]),
    ] {
        assert_eq!(chosen(&source, &request(&wanted)).unwrap(), expected);
    }
}

#[test]
fn explains_failures() {
    let source = written(
        "a 1.0.0: c ^1
         b 1.0.0: c ^2
         c 1.0.0
         c 2.0.0
         d 1.0.0: e *
         e 1.0.0: f *
         f 1.0.0: d *
         g 1.0.0!",
    );
    let refused = |wanted: &[(&str, &str)]| chosen(&source, &request(wanted)).unwrap_err();
    let conflict = refused(&[("a", "*"), ("b", "*")]);
    assert_eq!(conflict.code(), Code::DependencyConflict);
    assert_eq!(conflict.details()["packName"], "core.test.c");
    assert_eq!(conflict.details()["conflictingRanges"], serde_json::json!(["^1", "^2"]));
    let cycle = refused(&[("d", "*")]);
    assert_eq!(cycle.code(), Code::DependencyCycle);
    assert_eq!(
        cycle.details()["cycle"],
        serde_json::json!(["core.test.d", "core.test.e", "core.test.f", "core.test.d"])
    );
    assert_eq!(refused(&[("a", "^3")]).code(), Code::VersionNotFound);
    assert_eq!(refused(&[("g", "*")]).code(), Code::VersionNotFound, "it is yanked");
    assert_eq!(refused(&[("nowhere", "*")]).code(), Code::NotFound);
}

#[test]
fn overrides_must_match_a_range() {
    let source = written(
        "a 1.0.0: c ^1
         b 1.0.0: c ^2
         c 1.0.0
         c 2.0.0!
         c 3.0.0",
    );
    let mut request = request(&[("a", "*"), ("b", "*")]);
    request.overrides.insert(name("c"), "2.0.0".parse().unwrap());
    assert_eq!(chosen(&source, &request).unwrap(), ["a 1.0.0", "b 1.0.0", "c 2.0.0"]);
    request.overrides.insert(name("c"), "3.0.0".parse().unwrap());
    assert_eq!(chosen(&source, &request).unwrap_err().code(), Code::DependencyConflict);
    request.overrides.insert(name("c"), "2.5.0".parse().unwrap());
    assert_eq!(chosen(&source, &request).unwrap_err().code(), Code::VersionNotFound);
}

#[test]
fn sources_are_used_in_order() {
    let down = FixedSource { down: true, ..FixedSource::default() };
    let empty = FixedSource::default();
    let full = written("a 1.0.0");
    let remote = FixedSource { remote: true, ..written("a 1.0.0") };
    let code = |sources: Vec<&dyn Source>, offline: bool| {
        let request = Request { offline, ..request(&[("a", "*")]) };
        resolve(&request, &Sources(sources), Timestamp(0)).map(|_| ()).map_err(|error| error.code())
    };
    assert_eq!(code(vec![&down, &full], false), Ok(()));
    assert_eq!(code(vec![&empty, &full], false), Ok(()));
    assert_eq!(code(vec![&down, &empty], false), Err(Code::RegistryUnreachable));
    let closed = FixedSource { closed: true, ..FixedSource::default() };
    assert_eq!(
        code(vec![&closed, &full], false),
        Err(Code::RegistryUnreachable),
        "no other source replaces it"
    );
    assert_eq!(code(vec![&full, &closed], false), Ok(()));
    assert_eq!(code(vec![&empty], false), Err(Code::NotFound));
    assert_eq!(code(vec![&remote], true), Err(Code::NotFound));
    assert_eq!(code(vec![&remote, &full], true), Ok(()));
}

#[test]
fn resolution_is_bounded() {
    // Every version of `a` and `b` requires a missing version of the other's partner.
    let mut text = String::new();
    for n in 0..200 {
        text.push_str(&format!("a 1.0.{n}: c ={n}.0.0\nb 1.0.{n}: c ={}.0.0\nc {n}.0.0\n", n + 1000));
    }
    text.push_str("c 1000.0.0\n");
    let refused = chosen(&written(&text), &request(&[("a", "*"), ("b", "*")])).unwrap_err();
    assert_eq!(refused.code(), Code::VersionNotFound, "{refused}");
    assert_eq!(refused.details()["choicesTried"], MAX_CHOICES, "it gave up before all 40,000 pairs");
    assert!(refused.message().contains("core.test.c has no version in =1199.0.0"), "{refused}");
}

#[test]
fn reads_only_relevant_versions() {
    let mut source = written("b 1.0.0\n");
    for n in 0..300 {
        let more = written(&format!("a 1.0.{n}: b ^1\n")).packs.remove(&name("a")).unwrap();
        source.packs.entry(name("a")).or_default().extend(more);
    }
    assert_eq!(chosen(&source, &request(&[("a", "=1.0.3")])).unwrap(), ["a 1.0.3", "b 1.0.0"]);
    assert_eq!(
        *source.looked_at.borrow(),
        ["1.0.3", "1.0.0"],
        "an old version is found among many newer ones"
    );
}

#[test]
fn invalid_versions_are_not_chosen() {
    let source = FixedSource { garbled: vec!["1.1.0"], ..written("a 1.0.0\na 1.1.0\n") };
    assert_eq!(chosen(&source, &request(&[("a", "*")])).unwrap(), ["a 1.0.0"]);
    let refused = chosen(&source, &request(&[("a", "^1.1")])).unwrap_err();
    assert_eq!(refused.code(), Code::VersionNotFound);
    assert!(refused.message().contains("core.test.a@1.1.0 cannot be used: it needs `no range`"), "{refused}");
}

#[test]
fn lockfiles_are_deterministic() {
    let source = written("b 1.0.0\na 2.0.0: b ^1\n");
    let lock =
        resolve(&request(&[("a", "*")]), &Sources(vec![&source]), Timestamp(1_793_000_000_000)).unwrap();
    let bytes = lock.write();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(
        text.starts_with("{\n  \"lockfileVersion\": 1,\n  \"generatedAt\": \"2026-10-26T07:33:20.000Z\",\n"),
        "{text}"
    );
    assert!(text.ends_with("}\n") && !text.ends_with("\n\n"));
    let mut shuffled = lock.clone();
    shuffled.packs.reverse();
    assert_eq!(shuffled.write(), bytes);
    assert_eq!(Lockfile::read(&bytes).unwrap(), lock);
    if let Some(path) = crate::support::protocol("schemas/pack-lockfile.schema.json") {
        let schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        assert!(validator.is_valid(&serde_json::from_slice(&bytes).unwrap()));
    }
}

#[test]
fn rejects_invalid_lockfiles() {
    let good = r#"{"lockfileVersion": 1, "generatedAt": "2026-10-26T07:33:20Z", "packs": [
        {"name": "local.tools", "version": "1.0.0", "integrity": "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="}]}"#;
    assert!(Lockfile::read(good.as_bytes()).is_ok());
    for (from, to, pointer) in [
        ("\"lockfileVersion\": 1", "\"lockfileVersion\": 0", "/lockfileVersion"),
        ("\"lockfileVersion\": 1", "\"lockfileVersion\": 2", "/lockfileVersion"),
        ("2026-10-26T07:33:20Z", "today", "/generatedAt"),
        ("local.tools", "tools", "/packs/0/name"),
        ("1.0.0", "1.0", "/packs/0/version"),
        ("sha256-ung", "sha256-ug", "/packs/0/integrity"),
        ("\"version\"", "\"extra\": 1, \"version\"", "/packs/0/extra"),
        ("\"packs\"", "\"overrides\": {\"x\": \"1.0.0\"}, \"packs\"", "/overrides/x"),
        ("\"packs\"", "\"overrides\": {\"core.a.b\": \"^1\"}, \"packs\"", "/overrides/core.a.b"),
    ] {
        let refused = Lockfile::read(good.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(refused.code(), Code::LockfileInvalid, "{to}");
        assert_eq!(refused.details()["pointer"], pointer, "{to}: {refused}");
    }
}

#[test]
fn locks_are_checked_strictly() {
    let source = written("a 1.0.0: b ^1\nb 1.0.0!\nb 1.1.0\n");
    let sources = || Sources(vec![&source as &dyn Source]);
    let mut lock = Lockfile::new(Timestamp(0));
    let locked = |short: &str, version: &str| {
        let (candidate, _) = source.packs[&name(short)]
            .iter()
            .find(|(candidate, _)| candidate.version.to_string() == version)
            .unwrap();
        packs::lock::LockedPack {
            name: name(short),
            version: candidate.version.clone(),
            integrity: candidate.integrity,
            resolved: None,
            signature: None,
            dependencies: candidate
                .dependencies
                .iter()
                .map(|(name, range)| (name.clone(), range.to_string()))
                .collect(),
            peer_dependencies: BTreeMap::new(),
        }
    };
    lock.packs.push(locked("a", "1.0.0"));
    let code = |lock: &Lockfile| check_lock(lock, &sources(), false).map_err(|error| error.code());
    assert_eq!(code(&lock), Err(Code::LockfileIncomplete));
    lock.packs.push(locked("b", "1.0.0"));
    assert_eq!(code(&lock), Ok(()), "a pinned yanked version is allowed");
    lock.packs[1].integrity = Integrity::of(b"other");
    assert_eq!(code(&lock), Err(Code::IntegrityMismatch));
    lock.packs[1].version = "1.0.7".parse().unwrap();
    assert_eq!(code(&lock), Err(Code::VersionNotFound));
    lock.packs[1].version = "2.0.0".parse().unwrap();
    assert_eq!(code(&lock), Err(Code::DependencyConflict));
    // A lock that omits a dependency is incomplete: the registry lists it.
    lock.packs.truncate(1);
    lock.packs[0].dependencies.clear();
    assert_eq!(code(&lock), Err(Code::LockfileIncomplete));
}

#[test]
fn locked_archives_are_verified() {
    let archive = crate::support::node_archive("core.test.a", "1.0.0");
    let key = crate::support::key(1);
    let mut pack = packs::lock::LockedPack {
        name: name("a"),
        version: Version::new(1, 0, 0),
        integrity: Integrity::of(&archive),
        resolved: None,
        signature: Some(packs::signature::LockedSignature::sign(&key, &archive)),
        dependencies: BTreeMap::new(),
        peer_dependencies: BTreeMap::new(),
    };
    let code =
        |pack: &packs::lock::LockedPack, archive: &[u8]| pack.verify(archive).map_err(|error| error.code());
    assert_eq!(code(&pack, &archive), Ok(()));
    assert_eq!(code(&pack, b"other"), Err(Code::IntegrityMismatch));
    pack.signature = Some(packs::signature::LockedSignature::sign(&key, b"other"));
    assert_eq!(code(&pack, &archive), Err(Code::SignatureInvalid));
    pack.signature.as_mut().unwrap().public_key = "no key".to_owned();
    assert_eq!(code(&pack, &archive), Err(Code::SignatureUnverifiable));
    pack.signature = None;
    assert_eq!(code(&pack, &archive), Ok(()));
}

#[test]
fn dependencies_are_installed_first() {
    let source = written("a 1.0.0: b *, c *\nb 1.0.0: d *\nc 1.0.0: d *\nd 1.0.0\n");
    let lock = resolve(&request(&[("a", "*")]), &Sources(vec![&source]), Timestamp(0)).unwrap();
    let order = |lock: &Lockfile| -> Result<Vec<String>, Code> {
        let ordered = needed_first(lock).map_err(|error| error.code())?;
        Ok(ordered.iter().map(|pack| format!("{} {}", &pack.name.as_str()[10..], pack.version)).collect())
    };
    assert_eq!(order(&lock).unwrap(), ["d 1.0.0", "b 1.0.0", "c 1.0.0", "a 1.0.0"]);
    let mut twice = lock.clone();
    let mut second = lock.packs[3].clone();
    second.version = Version::new(2, 0, 0);
    twice.packs.push(second);
    assert_eq!(order(&twice).unwrap()[..2], ["d 1.0.0", "d 2.0.0"], "every version exists");
    let mut circle = lock;
    circle.packs[3].dependencies.insert(name("a"), "*".to_owned());
    assert_eq!(order(&circle), Err(Code::DependencyCycle));
}
