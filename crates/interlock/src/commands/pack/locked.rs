//! Installs locked packs: from a fresh resolution, or from a lockfile.

use std::path::Path;

use canon::error::Envelope;
use packs::PackErrorCode;
use packs::install::InstalledRecord;
use packs::integrity::Integrity;
use packs::lock::{LockedPack, Lockfile, MAX_LOCKFILE_BYTES};
use packs::name::{PackName, Scope};
use packs::resolve::{self, Request, needed_first};
use packs::version;

use super::install::Installing;
use super::registries::Registries;
use super::registry::wanted;
use super::registry_keys::{RegistryKeys, RegistryOrigin, is_server};
use super::{now, usage};
use crate::arguments::PackInstall;
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Overwrite};
use crate::settings::Settings;

/// The limit of archives kept in memory between checking and writing. Others are fetched again.
const MAX_KEPT_BYTES: usize = 256 << 20;

pub(super) fn read(path: &Path) -> Result<Lockfile, Failure> {
    let source = input::source(path);
    let bytes = input::read(source, "a lockfile", MAX_LOCKFILE_BYTES)?;
    Lockfile::read(&bytes).map_err(|error| error.envelope().detail("source", input::name(source)).into())
}

/// Installs exactly the lockfile, and verifies the digest and signature of each archive.
pub(super) fn exactly(
    lock: &Lockfile,
    arguments: &PackInstall,
    settings: &Settings,
    installing: &Installing<'_>,
) -> Result<Vec<InstalledRecord>, Failure> {
    // Packs in `local` exist only on the machine where the lockfile was made.
    if let Some(local) = lock.packs.iter().find(|pack| pack.name.scope() == Scope::Local) {
        let message = format!(
            "the lockfile contains {}@{}, and no registry has packs in `local`",
            local.name, local.version
        );
        return Err(Envelope::new(PackErrorCode::NotFound, message)
            .suggest("Publish it under another name, or remove it from the lockfile.")
            .into());
    }
    let (texts, named) = registries_of(lock, arguments)?;
    let access = RegistryKeys::read(&arguments.api_keys, &texts, named, settings)?;
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

/// Installs all locked packs or none: all are checked before any is written.
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

/// The given registries, or those of the lockfile.
fn registries_of(lock: &Lockfile, arguments: &PackInstall) -> Result<(Vec<String>, RegistryOrigin), Failure> {
    if !arguments.registry.is_empty() {
        return Ok((arguments.registry.clone(), RegistryOrigin::Here));
    }
    let texts: Vec<String> = lock.registry.iter().chain(&lock.fallback_registries).cloned().collect();
    // Lockfiles contain no folders, and must not decide which folders are opened here.
    if let Some(other) = texts.iter().find(|text| !is_server(text)) {
        return Err(usage(&format!("the registry `{other}` in the lockfile is not a URL; use --registry")));
    }
    if texts.is_empty() {
        return Err(usage("the lockfile contains no registry; name one with --registry"));
    }
    Ok((texts, RegistryOrigin::Elsewhere))
}

/// The highest version in a range, with its dependencies.
pub(super) fn resolved(
    source: &str,
    expected: Option<Integrity>,
    arguments: &PackInstall,
    settings: &Settings,
    installing: &Installing<'_>,
) -> Result<Vec<InstalledRecord>, Failure> {
    let Some((name, range)) = wanted(source) else {
        return Err(usage(&format!(
            "`{source}` is not a pack name with a version range, such as vendor.acme.tools@^1.2"
        )));
    };
    let access =
        RegistryKeys::read(&arguments.api_keys, &arguments.registry, RegistryOrigin::Here, settings)?;
    let registries = Registries::open(&arguments.registry, &access, arguments.offline)?;
    let mut request =
        Request { wanted: [(name.clone(), range)].into(), offline: arguments.offline, ..Request::default() };
    for text in &arguments.overrides {
        let (pack, number) = forced(text)?;
        if request.overrides.insert(pack.clone(), number).is_some() {
            return Err(usage(&format!("--override is given twice for {pack}")));
        }
    }
    let lock = resolve::resolve(&request, &registries.sources(), now())
        .map_err(|error| registries.explained(error))?;
    registries.tell_passed_over();
    if let Some(unused) = request.overrides.keys().find(|pack| !lock.overrides.contains_key(*pack)) {
        return Err(usage(&format!("--override names {unused}, but no pack depends on it")));
    }
    let chosen = lock.packs.iter().find(|pack| pack.name == name);
    if let (Some(expected), Some(chosen)) = (expected, chosen)
        && !chosen.integrity.is(expected)
    {
        let message =
            format!("{name}@{} has the digest {}; expected {expected}", chosen.version, chosen.integrity);
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

fn forced(text: &str) -> Result<(PackName, version::Version), Failure> {
    let parts = text.split_once('=');
    let read = parts.and_then(|(name, number)| Some((PackName::parse(name).ok()?, version::parse(number)?)));
    read.ok_or_else(|| {
        usage(&format!("`{text}` is not a pack name and version, such as vendor.acme.base=1.2.0"))
    })
}
