//! The folders of the tenants, and the one in which files wait until they are moved to their place.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::beneath::Folder;
use super::quota::Held;
use super::{Kind, RelativePath, Stat, Written};
use crate::call::Tenant;
use crate::durable::make_folder;
use crate::error::{Code, SurfaceError};
use crate::folder::folder_of;
use crate::limits::Limits;

/// Files that are on their way. No tenant begins with a dot.
const STAGING: &str = ".staging";
/// The end of the year 9999; a later moment is more than some file systems can keep.
const LATEST_MS: i64 = 253_402_300_799_000;

/// The two folders.
#[derive(Debug)]
pub(super) struct Disk {
    root: Folder,
    pub(super) staging: Folder,
}

impl Disk {
    /// Opens the root, and removes what is staged for no effect that is carried on.
    pub(super) fn open(path: &Path, begun: &BTreeSet<String>) -> io::Result<(PathBuf, Self)> {
        make_folder(&path.join(STAGING))?;
        let path = path.canonicalize()?;
        let root = Folder::open_root(&path)?;
        let staging = root.folder(STAGING)?;
        // What was on its way when the program ended was never said to be there.
        for (name, kind) in staging.names(usize::MAX)? {
            if !begun.contains(&name) {
                staging.remove(&name, kind)?;
            }
        }
        Ok((path, Self { root, staging }))
    }

    /// The folder of a tenant, where it is there.
    pub(super) fn tenant(&self, tenant: &Tenant) -> io::Result<Folder> {
        self.root.folder(&folder_of(tenant))
    }

    /// What the tenant has, counted where it was not.
    pub(super) fn held(&self, held: &Option<Held>, tenant: &Tenant, limits: &Limits) -> io::Result<Held> {
        match (held, self.tenant(tenant)) {
            (Some(held), _) => Ok(*held),
            (None, Ok(folder)) => Held::count(&folder, limits.files),
            (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(Held::default()),
            (None, Err(error)) => Err(error),
        }
    }

    /// Refuses a file that is beyond what the tenant may have.
    pub(super) fn admit(
        &self,
        held: &mut Option<Held>,
        tenant: &Tenant,
        limits: &Limits,
        path: &RelativePath,
        size: u64,
    ) -> Result<(), SurfaceError> {
        let counted = self.held(held, tenant, limits).map_err(|cause| told(&cause))?;
        *held = Some(counted);
        let (folder, name) = path.split();
        let found = match self.tenant(tenant).and_then(|root| root.folder(folder)) {
            Ok(folder) => folder.stat(name).map_err(|cause| told(&cause))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(told(&error)),
        };
        let old = found.filter(|stat| stat.kind == Kind::File).map(|stat| stat.size);
        // The folders that the path may need are names too; a few that are there already do not matter.
        let names = if old.is_some() { 0 } else { 1 + path.as_str().matches('/').count() as u64 };
        counted.admit(limits, names, size.saturating_sub(old.unwrap_or(0)))
    }

    /// Puts bytes on the disk, under a name that nobody sees.
    pub(super) fn stage(&self, name: &str, content: &[u8], at: i64) -> io::Result<()> {
        let mut file = self.staging.make_file(name)?;
        file.write_all(content)?;
        self.staging.set_mtime(&file, at.clamp(0, LATEST_MS))?;
        file.sync_all()?;
        self.staging.sync()
    }

    /// Moves what is staged to its place, and says what the tenant has then. Nothing is staged any more where it was moved before.
    pub(super) fn publish(
        &self,
        tenant: &Tenant,
        staged: &str,
        path: &RelativePath,
        create_only: bool,
        mut held: Held,
    ) -> io::Result<(Written, Held)> {
        let Some(new) = self.staging.stat(staged)? else { return Ok((Written::Done, held)) };
        let (folder, name) = path.split();
        let (root, _) = self.root.make_folders(&folder_of(tenant))?;
        let (folder, made) = root.make_folders(folder)?;
        let old = folder.stat(name)?;
        match old.map(|old| old.kind) {
            Some(Kind::Folder) if !create_only => return Err(Errno::ISDIR.into()),
            Some(Kind::Other) if !create_only => return Err(Errno::LOOP.into()),
            _ => {}
        }
        if create_only {
            match self.staging.rename_new(staged, &folder, name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    held.names += made;
                    return Ok((Written::AlreadyExists, held));
                }
                done => done?,
            }
        } else {
            self.staging.rename(staged, &folder, name)?;
        }
        folder.sync()?;
        self.staging.sync()?;
        held.names += made + u64::from(old.is_none());
        held.bytes = (held.bytes + new.size).saturating_sub(old.map_or(0, |old| old.size));
        Ok((Written::Done, held))
    }

    /// What was removed. A file is moved aside first, so that it is known afterwards whether it was there.
    pub(super) fn remove(
        &self,
        tenant: &Tenant,
        staged: &str,
        path: &RelativePath,
    ) -> io::Result<Option<Stat>> {
        if let Some(stat) = self.staging.stat(staged)? {
            return Ok(Some(stat));
        }
        let (folder, name) = path.split();
        let folder = match self.tenant(tenant).and_then(|root| root.folder(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            folder => folder?,
        };
        let Some(stat) = folder.stat(name)? else { return Ok(None) };
        match stat.kind {
            Kind::File => folder.rename(name, &self.staging, staged)?,
            Kind::Folder => folder.remove(name, Kind::Folder)?,
            Kind::Other => return Err(Errno::LOOP.into()),
        }
        folder.sync()?;
        self.staging.sync()?;
        Ok(Some(stat))
    }
}

/// What the system said, as a refusal. Paths of the host are not in it.
pub(super) fn told(cause: &io::Error) -> SurfaceError {
    let (code, message) = match Errno::from_io_error(cause) {
        Some(Errno::LOOP | Errno::XDEV) => {
            (Code::PathOutsideSandbox, "the path leads through a link".to_owned())
        }
        Some(Errno::NOENT) => (Code::FileNotFound, "there is no such file".to_owned()),
        Some(Errno::NOTDIR) => (Code::FileNotFound, "a file is where the path needs a folder".to_owned()),
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            (Code::FsPermissionDenied, "the host may not touch that file".to_owned())
        }
        Some(Errno::ISDIR) => (Code::InvalidArgument, "`path` is a folder, and a file is needed".to_owned()),
        Some(Errno::NOTEMPTY | Errno::EXIST) => (Code::InvalidArgument, "the folder is not empty".to_owned()),
        Some(Errno::NAMETOOLONG | Errno::INVAL) => {
            (Code::InvalidArgument, "`path` is none that the file system knows".to_owned())
        }
        Some(Errno::TOOBIG) => {
            (Code::InvalidArgument, "the folder has too many entries to be listed".to_owned())
        }
        _ => (Code::SurfaceUnavailable, format!("the file system failed: {cause}")),
    };
    SurfaceError::new(code, message)
}
