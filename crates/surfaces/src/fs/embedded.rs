//! Files in `<root>/<tenant>/`.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use rusqlite::Connection;
use rustix::io::Errno;
use tokio::sync::OwnedMutexGuard;

use super::disk::{Disk, error_of};
use super::quota::FolderUsage;
use super::{Entries, Files, Kind, MAX_LISTED, RelativePath, Stat, Written, intent};
use crate::args::refuse;
use crate::call::{Scope, Tenant};
use crate::embedded::{Database, OpenError};
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::PortFuture;

/// The name prefix of staged files without an effect id.
const PASSING: &str = "t";

#[derive(Debug)]
pub struct EmbeddedFiles {
    database: Arc<Database>,
    limits: Arc<Limits>,
    path: PathBuf,
    disk: Arc<Disk>,
    count: AtomicU64,
    tenants: Mutex<HashMap<Tenant, TenantLock>>,
}

/// Serializes changes to a tenant's files and caches their usage, once counted.
type TenantLock = Arc<tokio::sync::Mutex<Option<FolderUsage>>>;

impl EmbeddedFiles {
    /// Opens the folder and creates it if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(database: Arc<Database>, limits: Arc<Limits>, path: &Path) -> Result<Self, OpenError> {
        let io = |cause| OpenError::Io { what: format!("cannot use {} for files", path.display()), cause };
        let begun = database.read(intent::all_begun).map_err(|refused| io(io::Error::other(refused)))?;
        let (path, disk) = Disk::open(path, &begun).map_err(io)?;
        let (disk, tenants) = (Arc::new(disk), Mutex::default());
        Ok(Self { database, limits, path, disk, count: AtomicU64::new(0), tenants })
    }

    async fn turn(&self, tenant: &Tenant) -> OwnedMutexGuard<Option<FolderUsage>> {
        let turn = {
            let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(tenants.entry(tenant.clone()).or_default())
        };
        turn.lock_owned().await
    }

    /// The name of the staged file, and whether its effect was already started.
    fn staged(&self, scope: &Scope, op: &str) -> Result<(String, bool), SurfaceError> {
        match &scope.effect {
            Some(effect) => {
                let name = intent::staged_name(scope, op, effect);
                let begun = self.database.read(|connection| intent::is_begun(connection, scope, &name))?;
                Ok((name, begun))
            }
            None => Ok((format!("{PASSING}{}", self.count.fetch_add(1, Ordering::Relaxed)), false)),
        }
    }

    async fn begin(&self, scope: &Scope, staged: &str) -> Result<(), SurfaceError> {
        if scope.effect.is_none() {
            return Ok(());
        }
        let (at, staged) = (scope.clone(), staged.to_owned());
        let plain = Scope { effect: None, ..scope.clone() };
        let begin = move |connection: &Connection| intent::begin(connection, &at, &staged);
        self.database.change(&plain, "fs.begin", begin).await
    }

    async fn give_up(&self, scope: &Scope) -> Result<(), SurfaceError> {
        if scope.effect.is_none() {
            return Ok(());
        }
        let (at, plain) = (scope.clone(), Scope { effect: None, ..scope.clone() });
        self.database.change(&plain, "fs.giveUp", move |connection| intent::end(connection, &at)).await
    }

    async fn put(
        &self,
        scope: &Scope,
        path: RelativePath,
        content: Vec<u8>,
        create_only: bool,
    ) -> Result<Written, SurfaceError> {
        const OP: &str = "fs.write";
        let (size, most) = (content.len(), self.limits.file_bytes);
        if size > most {
            let message = format!("the file is {size} bytes; the limit is {most}");
            return Err(SurfaceError::new(Code::FileTooLarge, message));
        }
        let mut turn = self.turn(&scope.tenant).await;
        if let Some(answer) = self.database.stored(scope, OP)? {
            return Ok(answer);
        }
        let (staged, is_begun) = self.staged(scope, OP)?;
        if !is_begun {
            let (tenant, limits, at) = (scope.tenant.clone(), Arc::clone(&self.limits), scope.at());
            let (name, to) = (staged.clone(), path.clone());
            let staging = self.blocking(turn, move |disk, held| {
                disk.admit(held, &tenant, &limits, &to, content.len() as u64)?;
                disk.stage(&name, &content, at).map_err(|cause| error_of(&cause))
            });
            let done;
            (turn, done) = staging.await?;
            if let Err(refusal) = done {
                self.discard(turn, staged).await;
                return Err(refusal);
            }
            self.begin(scope, &staged).await?;
        }
        let (tenant, name, limits) = (scope.tenant.clone(), staged.clone(), Arc::clone(&self.limits));
        let (turn, written) = self
            .blocking(turn, move |disk, held| {
                let counted = disk.held(held, &tenant, &limits).map_err(|cause| error_of(&cause))?;
                let published = disk.publish(&tenant, &name, &path, create_only, counted);
                // After a failure, the usage is counted again.
                *held = published.as_ref().ok().map(|(_, counted)| *counted);
                published.map(|(written, _)| written).map_err(|cause| error_of(&cause))
            })
            .await?;
        let written = match written {
            Ok(written) => written,
            Err(refusal) => {
                // A failed write was not started. The row is removed first: without the staged file, it would mean
                // done.
                self.give_up(scope).await?;
                self.discard(turn, staged).await;
                return Err(refusal);
            }
        };
        let at = scope.clone();
        let end = move |connection: &Connection| {
            intent::end(connection, &at)?;
            Ok(written)
        };
        let written = self.database.change(scope, OP, end).await?;
        if written == Written::AlreadyExists {
            self.discard(turn, staged).await;
        }
        Ok(written)
    }

    async fn remove(&self, scope: &Scope, path: RelativePath) -> Result<bool, SurfaceError> {
        const OP: &str = "fs.delete";
        let turn = self.turn(&scope.tenant).await;
        if let Some(answer) = self.database.stored(scope, OP)? {
            return Ok(answer);
        }
        let (staged, is_begun) = self.staged(scope, OP)?;
        if !is_begun {
            self.begin(scope, &staged).await?;
        }
        let (tenant, name) = (scope.tenant.clone(), staged.clone());
        let (turn, deleted) = self
            .blocking(turn, move |disk, held| {
                let removed = disk.remove(&tenant, &name, &path);
                match (&removed, &mut *held) {
                    (Ok(Some(stat)), Some(held)) => {
                        held.names = held.names.saturating_sub(1);
                        held.bytes = held.bytes.saturating_sub(stat.size);
                    }
                    (Ok(None), _) => {}
                    (Ok(Some(_)) | Err(_), _) => *held = None,
                }
                removed.map(|removed| removed.is_some()).map_err(|cause| error_of(&cause))
            })
            .await?;
        let deleted = match deleted {
            Ok(deleted) => deleted,
            Err(refusal) => {
                self.give_up(scope).await?;
                return Err(refusal);
            }
        };
        let at = scope.clone();
        let end = move |connection: &Connection| {
            intent::end(connection, &at)?;
            Ok(deleted)
        };
        let deleted = self.database.change(scope, OP, end).await?;
        self.discard(turn, staged).await;
        Ok(deleted)
    }

    /// Removes a staged file that is no longer needed. A leftover is removed at the next start.
    async fn discard(&self, turn: OwnedMutexGuard<Option<FolderUsage>>, staged: String) {
        let discard = move |disk: &Disk, _: &mut Option<FolderUsage>| {
            let _ = disk.staging.remove(&staged, Kind::File);
            Ok(())
        };
        let _ = self.blocking(turn, discard).await;
    }

    /// Runs file work on a blocking thread. The thread holds the tenant's lock until it is done, even if the caller is
    /// gone.
    async fn blocking<T: Send + 'static>(
        &self,
        mut turn: OwnedMutexGuard<Option<FolderUsage>>,
        work: impl FnOnce(&Disk, &mut Option<FolderUsage>) -> Result<T, SurfaceError> + Send + 'static,
    ) -> Result<(OwnedMutexGuard<Option<FolderUsage>>, Result<T, SurfaceError>), SurfaceError> {
        let disk = Arc::clone(&self.disk);
        let work = tokio::task::spawn_blocking(move || {
            let done = work(&disk, &mut turn);
            (turn, done)
        });
        work.await.map_err(|_| unavailable("the file operation was cancelled"))
    }

    /// Reads on a blocking thread.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Disk) -> Result<T, SurfaceError> + Send + 'static,
    ) -> Result<T, SurfaceError> {
        let disk = Arc::clone(&self.disk);
        let read = tokio::task::spawn_blocking(move || read(&disk));
        read.await.map_err(|_| unavailable("the file operation was cancelled"))?
    }
}

fn unavailable(what: &str) -> SurfaceError {
    SurfaceError::new(Code::SurfaceUnavailable, what)
}

impl Files for EmbeddedFiles {
    fn read<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> PortFuture<'a, Vec<u8>> {
        let (tenant, most) = (scope.tenant.clone(), self.limits.file_bytes as u64);
        self.reading(move |disk| {
            let open = disk.tenant(&tenant).and_then(|root| root.open_file(path.as_str()));
            let (file, stat) = open.map_err(|cause| error_of(&cause))?;
            let too_large = || {
                let message = format!("the file is {} bytes; the read limit is {most}", stat.size);
                SurfaceError::new(Code::FileTooLarge, message)
            };
            if stat.size > most {
                return Err(too_large());
            }
            let mut content = Vec::new();
            // The file may grow during the read if another process writes to it.
            file.take(most + 1).read_to_end(&mut content).map_err(|cause| error_of(&cause))?;
            if content.len() as u64 > most {
                return Err(too_large());
            }
            Ok(content)
        })
        .boxed()
    }

    fn write<'a>(
        &'a self,
        scope: &'a Scope,
        path: RelativePath,
        content: Vec<u8>,
        create_only: bool,
    ) -> PortFuture<'a, Written> {
        self.put(scope, path, content, create_only).boxed()
    }

    fn delete<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> PortFuture<'a, bool> {
        self.remove(scope, path).boxed()
    }

    fn stat<'a>(&'a self, scope: &'a Scope, path: RelativePath) -> PortFuture<'a, Option<Stat>> {
        let tenant = scope.tenant.clone();
        self.reading(move |disk| {
            let (folder, name) = path.split();
            let found = disk
                .tenant(&tenant)
                .and_then(|root| root.folder(folder))
                .and_then(|folder| folder.stat(name));
            match found {
                // The target of a link and its existence are not disclosed.
                Ok(Some(Stat { kind: Kind::Other, .. })) => Err(error_of(&Errno::LOOP.into())),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTDIR) => Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                found => found.map_err(|cause| error_of(&cause)),
            }
        })
        .boxed()
    }

    fn list<'a>(
        &'a self,
        scope: &'a Scope,
        path: Option<RelativePath>,
        after: Option<String>,
    ) -> PortFuture<'a, Entries> {
        let tenant = scope.tenant.clone();
        // One more than a tenant can have itself.
        let most = usize::try_from(self.limits.files).unwrap_or(usize::MAX);
        self.reading(move |disk| {
            let root = match disk.tenant(&tenant) {
                // A tenant that never wrote has an empty folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_none() => {
                    return Ok(Entries { entries: Vec::new(), more: false });
                }
                root => root.map_err(|cause| error_of(&cause))?,
            };
            let folder = root.folder(path.as_ref().map_or("", RelativePath::as_str));
            let mut entries =
                folder.and_then(|folder| folder.names(most)).map_err(|cause| error_of(&cause))?;
            if let Some(after) = after {
                entries.retain(|(name, _)| *name > after);
            }
            entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
            let more = entries.len() > MAX_LISTED;
            entries.truncate(MAX_LISTED);
            Ok(Entries { entries, more })
        })
        .boxed()
    }

    fn root(&self) -> &Path {
        &self.path
    }
}

/// Parses a path; `None` is the tenant's folder.
pub(super) fn folder_path(text: Option<&str>) -> Result<Option<RelativePath>, SurfaceError> {
    match text {
        None | Some("" | "." | "./") => Ok(None),
        Some(text) => RelativePath::parse(text).map(Some),
    }
}

pub(super) fn not_base64() -> SurfaceError {
    refuse("`contentBase64` must be padded base64")
}
