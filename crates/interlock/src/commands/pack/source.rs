//! Reads a pack from an archive or a folder.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use packs::archive::{self, Limits};
use packs::path::EntryPath;
use packs::signature::{PUBLIC_KEY_PATH, PrivateKey, PublicKey, SIGNATURE_PATH};

use crate::failure::Failure;
use crate::input;

pub(super) type Files = BTreeMap<EntryPath, (Vec<u8>, bool)>;

/// The bytes of the archive; a folder is packed first.
pub(super) fn archive(source: &Path) -> Result<Vec<u8>, Failure> {
    if source.is_dir() {
        return packed(&files(source)?, source);
    }
    input::read(Some(source), "an archive", Limits::DEFAULT.packed_bytes)
}

/// The files of a folder, in memory. Dotfiles are skipped; links are rejected.
pub(super) fn files(root: &Path) -> Result<Files, Failure> {
    let mut files = Files::new();
    let mut bytes = 0;
    let mut waiting = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = waiting.pop() {
        let unreadable = |cause| Failure::unreadable(Some(&folder), cause);
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (path, name) = (entry.path(), entry.file_name());
            let odd = |why: &str| {
                let cause = std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned());
                Failure::unreadable(Some(&path), cause)
            };
            let Some(name) = name.to_str() else { return Err(odd("the name is not UTF-8")) };
            if name.starts_with('.') {
                continue;
            }
            let inside = format!("{prefix}{name}");
            let kind = entry.metadata().map_err(unreadable)?;
            if kind.is_dir() {
                waiting.push((path, format!("{inside}/")));
            } else if kind.is_file() {
                let inside = EntryPath::parse(&inside).map_err(|error| odd(&error.to_string()))?;
                let content = input::read(Some(&path), "a file of a pack", Limits::DEFAULT.unpacked_bytes)?;
                bytes += content.len();
                if bytes > Limits::DEFAULT.unpacked_bytes || files.len() >= Limits::DEFAULT.entries {
                    return Err(odd("the pack is too large; the limits are 50 MiB and 10,000 files"));
                }
                files.insert(inside, (content, kind.permissions().mode() & 0o111 != 0));
            } else {
                return Err(odd("links and devices cannot be packed"));
            }
        }
    }
    Ok(files)
}

pub(super) fn packed(files: &Files, source: &Path) -> Result<Vec<u8>, Failure> {
    let borrowed =
        files.iter().map(|(path, (content, executable))| (path.clone(), (content.as_slice(), *executable)));
    archive::write(&borrowed.collect())
        .map_err(|error| Failure::unreadable(Some(source), std::io::Error::other(error.to_string())))
}

/// Adds the signature of `pack.json` and the public key to the files.
pub(super) fn add_signature(files: &mut Files, key: &PrivateKey, source: &Path) -> Result<(), Failure> {
    let place = |path: &str| EntryPath::parse(path).expect("constant paths are valid");
    let Some((manifest, _)) = files.get(&place("pack.json")) else {
        let cause = std::io::Error::new(std::io::ErrorKind::NotFound, "it does not contain pack.json");
        return Err(Failure::unreadable(Some(source), cause));
    };
    let signature = key.sign(manifest).to_vec();
    files.insert(place(SIGNATURE_PATH), (signature, false));
    files.insert(place(PUBLIC_KEY_PATH), (key.public().to_pem().into_bytes(), false));
    Ok(())
}

pub(super) fn private_key(path: &Path) -> Result<PrivateKey, Failure> {
    let pem = input::read(Some(path), "a key", 16 * 1024)?;
    Ok(PrivateKey::from_pem(&String::from_utf8_lossy(&pem))?)
}

pub(super) fn public_key(path: &Path) -> Result<PublicKey, Failure> {
    let pem = input::read(Some(path), "a key", 16 * 1024)?;
    Ok(PublicKey::from_pem(&String::from_utf8_lossy(&pem))?)
}
