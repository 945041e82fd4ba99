//! Installing what is locked: by a resolution just now, or by a file.

use std::path::Path;

use canon::error::Envelope;
use packs::PackErrorCode;
use packs::install::InstalledRecord;
use packs::integrity::Integrity;
use packs::lock::{LockedPack, Lockfile, MAX_LOCKFILE_BYTES};
use packs::name::{PackName, Scope};
use packs::resolve::{self, Request, needed_first};
use packs::version;

use super::access::{Access, Named, is_server};
use super::install::Installing;
use super::registries::Registries;
use super::registry::wanted;
use super::{now, usage};
use crate::arguments::PackInstall;
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Overwrite};
use crate::settings::Settings;

/// The most bytes of archives that are kept between judging and writing. What is more is fetched again.
const MAX_KEPT_BYTES: usize = 256 << 20;

/// Reads a lockfile.
pub(super) fn read(path: &Path) -> Result<Lockfile, Failure> {
    let source = input::source(path);
    let bytes = input::read(source, "a lockfile", MAX_LOCKFILE_BYTES)?;
    Lockfile::read(&bytes).map_err(|error| error.envelope().detail("source", input::name(source)).into())
}

/// Exactly what a lockfile says, each archive held to its digest and its signature there.
pub(super) fn exactly(
    lock: &Lockfile,
    arguments: &PackInstall,
    settings: &Settings,
    installing: &Installing<'_>,
) -> Result<Vec<InstalledRecord>, Failure> {
    // Nobody can give them: they are of the machine where the lock was made, and of no registry.
    if let Some(local) = lock.packs.iter().find(|pack| pack.name.scope() == Scope::Local) {
        let message =
            format!("{}@{} is locked, and no registry has packs in `local`", local.name, local.version);
        return Err(Envelope::new(PackErrorCode::NotFound, message)
            .suggest("Publish it under another name, or take it out of the lockfile.")
            .into());
    }
    let (texts, named) = registries_of(lock, arguments)?;
    let access = Access::read(&arguments.api_keys, &texts, named, settings)?;
    let registries = Registries::open(&texts, &access, arguments.offline)?;
    resolve::check_lock(lock, &registries.sources(), arguments.offline)
        .map_err(|error| registries.explained(error))?;
    registries.tell_passed_over();
    all_of(lock, installing, |pack| {
        let archive = registries.archive(pack)?;
        pack.verify(&archive)?;
        Ok(archive)
    })
}

/// Everything that is locked, or nothing if something of it is refused: all of it is judged before any of it is written.
fn all_of(
    lock: &Lockfile,
    installing: &Installing<'_>,
    fetched: impl Fn(&LockedPack) -> Result<Vec<u8>, Failure>,
) -> Result<Vec<InstalledRecord>, Failure> {
    let ordered = needed_first(lock)?;
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for (place, pack) in ordered.iter().enumerate() {
        let archive = fetched(pack)?;
        installing.judge(pack, &ordered[..place], &archive)?;
        bytes += archive.len();
        kept.push(Some(archive).filter(|_| bytes <= MAX_KEPT_BYTES));
    }
    let mut records = Vec::new();
    for (pack, archive) in ordered.iter().zip(kept) {
        let archive = archive.map_or_else(|| fetched(pack), Ok)?;
        records.push(installing.one_of(pack, &archive)?);
    }
    Ok(records)
}

/// The registries that were named, or those of the lockfile.
fn registries_of(lock: &Lockfile, arguments: &PackInstall) -> Result<(Vec<String>, Named), Failure> {
    if !arguments.registry.is_empty() {
        return Ok((arguments.registry.clone(), Named::Here));
    }
    let texts: Vec<String> = lock.registry.iter().chain(&lock.fallback_registries).cloned().collect();
    // A folder has no place in a lockfile, and a lockfile no say in which folders are opened here.
    if let Some(other) = texts.iter().find(|text| !is_server(text)) {
        return Err(usage(&format!(
            "the lockfile names the registry `{other}`, which is no address; use --registry"
        )));
    }
    if texts.is_empty() {
        return Err(usage("the lockfile names no registry; name one with --registry"));
    }
    Ok((texts, Named::Elsewhere))
}

/// The highest version in a range, with everything that it needs.
pub(super) fn resolved(
    source: &str,
    expected: Option<Integrity>,
    arguments: &PackInstall,
    settings: &Settings,
    installing: &Installing<'_>,
) -> Result<Vec<InstalledRecord>, Failure> {
    let Some((name, range)) = wanted(source) else {
        return Err(usage(&format!("`{source}` is no name with a range, such as vendor.acme.tools@^1.2")));
    };
    let access = Access::read(&arguments.api_keys, &arguments.registry, Named::Here, settings)?;
    let registries = Registries::open(&arguments.registry, &access, arguments.offline)?;
    let mut request =
        Request { wanted: [(name.clone(), range)].into(), offline: arguments.offline, ..Request::default() };
    for text in &arguments.overrides {
        let (pack, number) = forced(text)?;
        if request.overrides.insert(pack.clone(), number).is_some() {
            return Err(usage(&format!("two versions of {pack} are forced")));
        }
    }
    let lock = resolve::resolve(&request, &registries.sources(), now())
        .map_err(|error| registries.explained(error))?;
    registries.tell_passed_over();
    if let Some(unused) = request.overrides.keys().find(|pack| !lock.overrides.contains_key(*pack)) {
        return Err(usage(&format!("a version of {unused} is forced, and nothing needs {unused}")));
    }
    let chosen = lock.packs.iter().find(|pack| pack.name == name);
    if let (Some(expected), Some(chosen)) = (expected, chosen)
        && !chosen.integrity.is(expected)
    {
        let message =
            format!("{name}@{} is {}, and {expected} was expected", chosen.version, chosen.integrity);
        return Err(Envelope::new(PackErrorCode::IntegrityFailure, message)
            .suggest(PackErrorCode::IntegrityFailure.advice())
            .into());
    }
    let records = all_of(&lock, installing, |pack| registries.archive(pack))?;
    if let Some(path) = &arguments.lockfile {
        output::write_file(path, &lock.write(), Overwrite::Replace)?;
    }
    Ok(records)
}

/// A version that is forced.
fn forced(text: &str) -> Result<(PackName, version::Version), Failure> {
    let parts = text.split_once('=');
    let read = parts.and_then(|(name, number)| Some((PackName::parse(name).ok()?, version::parse(number)?)));
    read.ok_or_else(|| usage(&format!("`{text}` is no name and version, such as vendor.acme.base=1.2.0")))
}
