//! Plugin packs for tests.

use std::collections::BTreeMap;
use std::path::Path;

use canon::time::Timestamp;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::integrity::Integrity;
use packs::name::NamespaceGlob;
use packs::path::EntryPath;
use packs::signature::{PrivateKey, SIGNATURE_PATH, TrustedKey};
use packs::trust::TrustPolicy;

/// Signs a pack with these files, including `pack.json`, and installs it into a data directory.
pub(crate) fn install(data: &Path, files: &[(&str, &[u8])]) {
    let key = PrivateKey::from_entropy(&[5; 32]);
    let (_, manifest) = files.iter().find(|(path, _)| *path == "pack.json").expect("a pack has a manifest");
    let signature = key.sign(manifest);
    let mut all: BTreeMap<EntryPath, (&[u8], bool)> =
        files.iter().map(|(path, content)| (EntryPath::parse(path).unwrap(), (*content, false))).collect();
    all.insert(EntryPath::parse(SIGNATURE_PATH).unwrap(), (&signature, false));
    let permitted = ["vendor.*", "community.*"].map(|glob| NamespaceGlob::parse(glob).unwrap());
    let trusted = TrustedKey { id: "tests".into(), key: key.public(), permitted: permitted.into() };
    let archive = packs::archive::write(&all).unwrap();
    let install = Install {
        archive: &archive,
        expected: Some(Integrity::of(&archive)),
        policy: &TrustPolicy::verified(vec![trusted]),
        host: &HostFacts { ui_plugins: true, ..HostFacts::default() },
        limits: Limits::default(),
        now: Timestamp(0),
    };
    InstalledPacks::open(&data.join("packs")).unwrap().install(&install).unwrap();
}
