//! The tenant folders, and the staging folder for unfinished files.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::quota::FolderUsage;
use super::tenant_folder::Folder;
use super::{Kind, RelativePath, Stat, Written};
use crate::atomic_file::make_folder;
use crate::call::Tenant;
use crate::error::{Code, SurfaceError};
use crate::folder::folder_of;
use crate::limits::Limits;

/// Unfinished files. Tenant names do not start with a dot.
const STAGING: &str = ".staging";
/// The end of the year 9999; some file systems cannot store later times.
const LATEST_MS: i64 = 253_402_300_799_000;

#[derive(Debug)]
pub(super) struct Disk {
    root: Folder,
    pub(super) staging: Folder,
}

impl Disk {
    /// Opens the root and removes staged files that do not belong to a resumable effect.
    pub(super) fn open(path: &Path, begun: &BTreeSet<String>) -> io::Result<(PathBuf, Self)> {
        make_folder(&path.join(STAGING))?;
        let path = path.canonicalize()?;
        let root = Folder::open_root(&path)?;
        let staging = root.folder(STAGING)?;
        // An unfinished write was never acknowledged.
        for (name, kind) in staging.names(usize::MAX)? {
            if !begun.contains(&name) {
                staging.remove(&name, kind)?;
            }
        }
        Ok((path, Self { root, staging }))
    }

    /// The folder of a tenant, if it exists.
    pub(super) fn tenant(&self, tenant: &Tenant) -> io::Result<Folder> {
        self.root.folder(&folder_of(tenant))
    }

    /// The usage of a tenant, counted if unknown.
    pub(super) fn held(
        &self,
        held: &Option<FolderUsage>,
        tenant: &Tenant,
        limits: &Limits,
    ) -> io::Result<FolderUsage> {
        match (held, self.tenant(tenant)) {
            (Some(held), _) => Ok(*held),
            (None, Ok(folder)) => FolderUsage::count(&folder, limits.files),
            (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(FolderUsage::default()),
            (None, Err(error)) => Err(error),
        }
    }

    /// Checks the quota for a file.
    pub(super) fn admit(
        &self,
        held: &mut Option<FolderUsage>,
        tenant: &Tenant,
        limits: &Limits,
        path: &RelativePath,
        size: u64,
    ) -> Result<(), SurfaceError> {
        let counted = self.held(held, tenant, limits).map_err(|cause| error_of(&cause))?;
        *held = Some(counted);
        let (folder, name) = path.split();
        let found = match self.tenant(tenant).and_then(|root| root.folder(folder)) {
            Ok(folder) => folder.stat(name).map_err(|cause| error_of(&cause))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error_of(&error)),
        };
        let old = found.filter(|stat| stat.kind == Kind::File).map(|stat| stat.size);
        // Missing parent folders count too; counting a few existing ones does not matter.
        let names = if old.is_some() { 0 } else { 1 + path.as_str().matches('/').count() as u64 };
        counted.admit(limits, names, size.saturating_sub(old.unwrap_or(0)))
    }

    /// Writes bytes durably to a staged file.
    pub(super) fn stage(&self, name: &str, content: &[u8], at: i64) -> io::Result<()> {
        let mut file = self.staging.make_file(name)?;
        file.write_all(content)?;
        self.staging.set_mtime(&file, at.clamp(0, LATEST_MS))?;
        file.sync_all()?;
        self.staging.sync()
    }

    /// Moves the staged file to its path and returns the new usage. If nothing is staged, it was moved before.
    pub(super) fn publish(
        &self,
        tenant: &Tenant,
        staged: &str,
        path: &RelativePath,
        create_only: bool,
        mut held: FolderUsage,
    ) -> io::Result<(Written, FolderUsage)> {
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

    /// Removes an entry. A file is first moved to staging, which records after a crash that it existed.
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

/// Converts a system error. Host paths are not included.
pub(super) fn error_of(cause: &io::Error) -> SurfaceError {
    let (code, message) = match Errno::from_io_error(cause) {
        Some(Errno::LOOP | Errno::XDEV) => {
            (Code::PathOutsideSandbox, "the path contains a symbolic link".to_owned())
        }
        Some(Errno::NOENT) => (Code::FileNotFound, "file not found".to_owned()),
        Some(Errno::NOTDIR) => {
            (Code::FileNotFound, "a component of the path is a file, not a folder".to_owned())
        }
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            (Code::FsPermissionDenied, "the host has no permission for this file".to_owned())
        }
        Some(Errno::ISDIR) => (Code::InvalidArgument, "`path` is a folder; a file is required".to_owned()),
        Some(Errno::NOTEMPTY | Errno::EXIST) => (Code::InvalidArgument, "the folder is not empty".to_owned()),
        Some(Errno::NAMETOOLONG | Errno::INVAL) => {
            (Code::InvalidArgument, "`path` is not a valid file name".to_owned())
        }
        Some(Errno::TOOBIG) => (Code::InvalidArgument, "the folder has too many entries to list".to_owned()),
        _ => (Code::SurfaceUnavailable, format!("the file system failed: {cause}")),
    };
    SurfaceError::new(code, message)
}
