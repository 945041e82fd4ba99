//! Objects as rows in the shared database and files beside it.
//!
//! ```text
//!   put     announce the content (row) ─► write the file durably ─► reference it (row, effect), one commit
//!   delete  remove the reference (row, effect), one commit ─► remove the file ─► forget the content (row)
//! ```
//!
//! The middle commit is the change. The steps before it are idempotent, and the steps after it can be done later:
//! unreferenced contents are found by their rows. An effect is therefore applied once, although a file is not part of a
//! transaction.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use futures_util::FutureExt as _;
use rusqlite::Connection;
use tokio::sync::RwLock;

use super::contents::Contents;
use super::objects::{self, Stored};
use super::presign::Signer;
use super::{
    Blobs, MAX_LISTED, MAX_PRESIGN_SECONDS, Method, Object, ObjectAddress, ObjectPage, Objects, Presigned,
};
use crate::args::{check_name, refuse, shown};
use crate::call::{Scope, Tenant};
use crate::embedded::{Database, OpenError};
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::PortFuture;

/// The number of locks that tenants share.
const LOCKS: usize = 64;
/// The maximum number of unreferenced contents found at startup. The rest is found at the next start.
const FOUND_AT_ONCE: usize = 10_000;
/// The maximum number of unreferenced contents that one call removes.
const CLEANED_AT_ONCE: usize = 16;

pub struct EmbeddedBlobs {
    database: Arc<Database>,
    limits: Arc<Limits>,
    contents: Arc<Contents>,
    signer: Signer,
    buckets: Vec<String>,
    /// Shared for reading and writing files, exclusive for removing one: no file is removed while a task is about to
    /// reference it.
    locks: Vec<Arc<RwLock<()>>>,
    /// Contents that may be unreferenced.
    unused: Arc<Mutex<Vec<(Tenant, Digest)>>>,
}

impl EmbeddedBlobs {
    /// Opens the objects in the database and directory.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn open(
        database: Arc<Database>,
        limits: Arc<Limits>,
        directory: &Path,
        buckets: Vec<String>,
    ) -> Result<Self, OpenError> {
        let io = |cause| OpenError::Io { what: "cannot open the blob folder".to_owned(), cause };
        let contents = Arc::new(Contents::open(directory.join("blobs")).map_err(io)?);
        let signer = Signer::open(directory).map_err(io)?;
        let found = database
            .read(|connection| Ok(objects::unused(connection, FOUND_AT_ONCE)?))
            .map_err(|refused| io(std::io::Error::other(refused)))?;
        let unused =
            found.into_iter().filter_map(|(tenant, digest)| Some((Tenant::new(&tenant).ok()?, digest)));
        let unused = Arc::new(Mutex::new(unused.collect()));
        let locks = (0..LOCKS).map(|_| Arc::default()).collect();
        Ok(Self { database, limits, contents, signer, buckets, locks, unused })
    }

    fn lock(&self, tenant: &Tenant) -> Arc<RwLock<()>> {
        let place = usize::from(Digest::of_bytes(tenant.as_str().as_bytes()).as_bytes()[0]);
        Arc::clone(&self.locks[place % LOCKS])
    }

    fn check(&self, at: &ObjectAddress) -> Result<(), SurfaceError> {
        self.check_bucket(&at.bucket)?;
        check_name("key", &at.key, self.limits.key_bytes, Code::InvalidArgument)
    }

    fn check_bucket(&self, bucket: &str) -> Result<(), SurfaceError> {
        if self.buckets.iter().any(|known| known == bucket) {
            return Ok(());
        }
        let known = self.buckets.join(", ");
        let message = format!("unknown bucket `{}`; the buckets are {known}", shown(bucket));
        Err(SurfaceError::new(Code::BlobBucketNotFound, message))
    }

    /// Stores an object, then removes unreferenced files: a put that fails late leaves its file behind.
    async fn store(&self, scope: &Scope, at: ObjectAddress, object: Object) -> Result<(), SurfaceError> {
        let stored = self.put_object(scope, at, object).await;
        self.clean().await;
        stored
    }

    async fn put_object(&self, scope: &Scope, at: ObjectAddress, object: Object) -> Result<(), SurfaceError> {
        self.check(&at)?;
        super::check_content_type(&object.content_type)?;
        let (size, most) = (object.content.len(), self.limits.object_bytes);
        if size > most {
            let message = format!("the object is {size} bytes; the limit is {most}");
            return Err(SurfaceError::new(Code::BlobObjectTooLarge, message));
        }
        if self.database.stored::<Option<Digest>>(scope, "blob.put")?.is_some() {
            return Ok(());
        }
        let tenant = scope.tenant.clone();
        // Moves into the blocking task, so the lock is held while the file is written even if the caller is gone.
        let shared = self.lock(&tenant).read_owned().await;
        let contents = Arc::clone(&self.contents);
        let hashed = tokio::task::spawn_blocking(move || (Digest::of_bytes(&object.content), object)).await;
        let (digest, object) = hashed.map_err(|_| broken("cannot read the content"))?;
        // Checked again by the next call, unless the put succeeds.
        let mut doubt =
            UnusedOnDrop { unused: Arc::clone(&self.unused), content: Some((tenant.clone(), digest)) };
        let plain = Scope { effect: None, ..scope.clone() };
        let (of, limits, to) = (tenant.clone(), Arc::clone(&self.limits), at.clone());
        let announce =
            move |connection: &Connection| objects::announce(connection, &of, &limits, &to, digest, size);
        self.database.change(&plain, "blob.announce", announce).await?;
        let of = tenant.clone();
        let written = tokio::task::spawn_blocking(move || {
            let written = contents.write(&of, digest, &object.content);
            (written, shared, object.content_type)
        });
        let (written, shared, content_type) =
            written.await.map_err(|_| broken("cannot write the content"))?;
        written.map_err(|cause| broken(&format!("cannot write the content: {cause}")))?;
        let (of, limits) = (scope.clone(), Arc::clone(&self.limits));
        let stored = Stored { digest, content_type };
        let put = move |connection: &Connection| objects::put(connection, &of, &limits, &at, &stored, size);
        let clean = self.clean_later(&tenant);
        self.database.change_then(scope, "blob.put", put, move |gone| clean(*gone)).await?;
        doubt.content = None;
        drop(shared);
        Ok(())
    }

    async fn load(&self, tenant: &Tenant, at: &ObjectAddress) -> Result<Option<Object>, SurfaceError> {
        self.check(at)?;
        let shared = self.lock(tenant).read_owned().await;
        let stored = self.database.read(|connection| objects::get(connection, tenant, at))?;
        let Some(Stored { digest, content_type }) = stored else { return Ok(None) };
        let (contents, tenant) = (Arc::clone(&self.contents), tenant.clone());
        let read = tokio::task::spawn_blocking(move || {
            let content = contents.read(&tenant, digest);
            drop(shared);
            content
        });
        let content = read.await.map_err(|_| broken("cannot read the content"))?;
        let content = content.map_err(|cause| broken(&format!("cannot read the content: {cause}")))?;
        Ok(Some(Object { content, content_type }))
    }

    /// Schedules removal of a content that became unreferenced, once the change is durable.
    fn clean_later(&self, tenant: &Tenant) -> impl FnOnce(Option<Digest>) + Send + 'static {
        let (unused, tenant) = (Arc::clone(&self.unused), tenant.clone());
        move |gone| {
            if let Some(gone) = gone {
                later(&unused, (tenant, gone));
            }
        }
    }

    /// Removes the files of some unreferenced contents. Failures are retried later.
    async fn clean(&self) {
        for _ in 0..CLEANED_AT_ONCE {
            let next = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((tenant, digest)) = next else { return };
            if self.clean_one(&tenant, digest).await.is_err() {
                later(&self.unused, (tenant, digest));
                return;
            }
        }
    }

    async fn clean_one(&self, tenant: &Tenant, digest: Digest) -> Result<(), SurfaceError> {
        let alone = self.lock(tenant).write_owned().await;
        if !self.database.read(|connection| objects::is_unused(connection, tenant, digest))? {
            return Ok(());
        }
        let (contents, of) = (Arc::clone(&self.contents), tenant.clone());
        let removed = tokio::task::spawn_blocking(move || (contents.remove(&of, digest), alone)).await;
        let (removed, alone) = removed.map_err(|_| broken("cannot remove an unreferenced content"))?;
        removed.map_err(|cause| broken(&format!("cannot remove an unreferenced content: {cause}")))?;
        let (scope, of) = (Scope::new(tenant.clone(), Timestamp(0)), tenant.clone());
        let forget = move |connection: &Connection| objects::forget(connection, &of, digest);
        let forgotten = self.database.change(&scope, "blob.forget", forget).await;
        drop(alone);
        forgotten
    }
}

/// A content to check again if the task that writes it fails or is dropped.
struct UnusedOnDrop {
    unused: Arc<Mutex<Vec<(Tenant, Digest)>>>,
    content: Option<(Tenant, Digest)>,
}

impl Drop for UnusedOnDrop {
    fn drop(&mut self) {
        if let Some(content) = self.content.take() {
            later(&self.unused, content);
        }
    }
}

fn later(unused: &Mutex<Vec<(Tenant, Digest)>>, content: (Tenant, Digest)) {
    unused.lock().unwrap_or_else(PoisonError::into_inner).push(content);
}

fn broken(what: &str) -> SurfaceError {
    SurfaceError::new(Code::SurfaceUnavailable, what)
}

impl Blobs for EmbeddedBlobs {
    fn put<'a>(&'a self, scope: &'a Scope, at: ObjectAddress, object: Object) -> PortFuture<'a, ()> {
        self.store(scope, at, object).boxed()
    }

    fn get<'a>(&'a self, scope: &'a Scope, at: &'a ObjectAddress) -> PortFuture<'a, Option<Object>> {
        self.load(&scope.tenant, at).boxed()
    }

    fn delete<'a>(&'a self, scope: &'a Scope, at: ObjectAddress) -> PortFuture<'a, bool> {
        async move {
            self.check(&at)?;
            let tenant = scope.tenant.clone();
            let change = move |connection: &Connection| objects::delete(connection, &tenant, &at);
            let clean = self.clean_later(&scope.tenant);
            let deleted =
                self.database.change_then(scope, "blob.delete", change, move |deleted| clean(deleted.1));
            let (existed, _) = deleted.await?;
            self.clean().await;
            Ok(existed)
        }
        .boxed()
    }

    fn list<'a>(&'a self, scope: &'a Scope, mut page: ObjectPage) -> PortFuture<'a, Objects> {
        async move {
            self.check_bucket(&page.bucket)?;
            page.limit = page.limit.clamp(1, MAX_LISTED);
            let tenant = scope.tenant.clone();
            let read = move |connection: &Connection| Ok(objects::list(connection, &tenant, &page)?);
            self.database.read_blocking(read).await
        }
        .boxed()
    }

    fn presign<'a>(
        &'a self,
        scope: &'a Scope,
        at: &'a ObjectAddress,
        method: Method,
        expires_in_ms: u64,
    ) -> PortFuture<'a, Option<Presigned>> {
        async move {
            self.check(at)?;
            if !(1..=MAX_PRESIGN_SECONDS * 1000).contains(&expires_in_ms) {
                let message = format!(
                    "a signed URL must be valid for more than 0 and at most {MAX_PRESIGN_SECONDS} seconds"
                );
                return Err(refuse(message));
            }
            if method == Method::Get
                && self.database.read(|connection| objects::get(connection, &scope.tenant, at))?.is_none()
            {
                return Ok(None);
            }
            let expires_at = Timestamp(scope.now.0.saturating_add(expires_in_ms));
            Ok(Some(Presigned { token: self.signer.sign(&scope.tenant, at, method, expires_at), expires_at }))
        }
        .boxed()
    }

    fn redeem<'a>(&'a self, token: &'a str, now: Timestamp) -> PortFuture<'a, Object> {
        async move {
            let (tenant, at) = self.signer.verify(token, Method::Get, now)?;
            self.load(&tenant, &at).await?.ok_or_else(|| {
                SurfaceError::new(Code::BlobObjectNotFound, "the object of this signed URL was deleted")
            })
        }
        .boxed()
    }

    fn admit_put(&self, token: &str, now: Timestamp) -> Result<(), SurfaceError> {
        self.signer.verify(token, Method::Put, now).map(|_| ())
    }

    fn most_bytes(&self) -> usize {
        self.limits.object_bytes
    }

    fn redeem_put<'a>(&'a self, token: &'a str, now: Timestamp, object: Object) -> PortFuture<'a, ()> {
        async move {
            let (tenant, at) = self.signer.verify(token, Method::Put, now)?;
            self.store(&Scope::new(tenant, now), at, object).await
        }
        .boxed()
    }

    fn buckets(&self) -> &[String] {
        &self.buckets
    }
}
