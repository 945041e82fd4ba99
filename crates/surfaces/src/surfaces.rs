//! Routes calls to surfaces.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::blob::{Blobs, EmbeddedBlobs, ServedBlobs};
use crate::cache::{Cache, EmbeddedCache, ServedCache};
use crate::call::{Surface, SurfaceCall};
use crate::embedded::{Database, OpenError};
use crate::error::SurfaceError;
use crate::fs::{EmbeddedFiles, Files, ServedFiles};
use crate::kv::{EmbeddedKv, Kv, ServedKv};
use crate::limits::Limits;
use crate::queue::{EmbeddedQueue, Queue, ServedQueue};
use crate::served::Served;
use crate::table::{EmbeddedTables, ServedTables, Tables};
use crate::tables;

/// How to open the surfaces.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory. Created owner-only if it does not exist.
    pub directory: PathBuf,
    pub limits: Limits,
    /// The buckets of every tenant. The first is the default.
    pub buckets: Vec<String>,
    /// The folder of tenant files; `files` in the directory by default.
    pub files: Option<PathBuf>,
    /// The URL prefix of signed objects; a token follows.
    pub presigned: String,
}

impl Options {
    /// Options with default limits.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            limits: Limits::default(),
            buckets: vec!["default".to_owned()],
            files: None,
            presigned: "/v1/host/sample/blob/presigned/".to_owned(),
        }
    }

    fn files(&self) -> PathBuf {
        self.files.clone().unwrap_or_else(|| self.directory.join("files"))
    }
}

/// All surfaces of a host.
pub struct Surfaces {
    served: BTreeMap<Surface, Arc<dyn Served>>,
    kv: Arc<dyn Kv>,
    tables: Arc<dyn Tables>,
    cache: Arc<dyn Cache>,
    files: Arc<dyn Files>,
    blobs: Arc<dyn Blobs>,
    queue: Arc<dyn Queue>,
}

impl fmt::Debug for Surfaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Surfaces").field("served", &self.served.keys()).finish_non_exhaustive()
    }
}

impl Surfaces {
    /// Opens the embedded surfaces. Add others with [`Surfaces::serve`].
    ///
    /// # Errors
    /// The directory or a store cannot be opened, or was written by a newer version.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        make_private(&options.directory)?;
        let database = Database::open(&options.directory.join(tables::FILE), &tables::SCHEMA)?;
        let database = Arc::new(database);
        let limits = Arc::new(options.limits.clone());
        let with = || (Arc::clone(&database), Arc::clone(&limits));
        let kv: Arc<dyn Kv> = Arc::new(EmbeddedKv::new(with().0, with().1));
        let queue: Arc<dyn Queue> = Arc::new(EmbeddedQueue::new(with().0, with().1));
        let blobs = EmbeddedBlobs::open(with().0, with().1, &options.directory, options.buckets.clone())?;
        let blobs: Arc<dyn Blobs> = Arc::new(blobs);
        let files: Arc<dyn Files> = Arc::new(EmbeddedFiles::open(with().0, with().1, &options.files())?);
        let tables: Arc<dyn Tables> = Arc::new(EmbeddedTables::new(with().0, with().1));
        let cache: Arc<dyn Cache> = Arc::new(EmbeddedCache::new(with().0, with().1));
        let served: [(Surface, Arc<dyn Served>); 6] = [
            (Surface::Fs, Arc::new(ServedFiles::new(Arc::clone(&files), &limits))),
            (Surface::Kv, Arc::new(ServedKv::new(Arc::clone(&kv), &limits))),
            (Surface::Table, Arc::new(ServedTables::new(Arc::clone(&tables), &limits))),
            (Surface::Cache, Arc::new(ServedCache::new(Arc::clone(&cache), &limits))),
            (
                Surface::Blob,
                Arc::new(ServedBlobs::new(Arc::clone(&blobs), &limits, options.presigned.clone())),
            ),
            (Surface::Queue, Arc::new(ServedQueue::new(Arc::clone(&queue)))),
        ];
        Ok(Self { served: served.into_iter().collect(), kv, tables, cache, files, blobs, queue })
    }

    /// Sets or replaces the implementation of a surface.
    pub fn serve(&mut self, surface: Surface, served: Arc<dyn Served>) {
        self.served.insert(surface, served);
    }

    /// Replaces the queue adapter.
    pub fn serve_queue(&mut self, queue: Arc<dyn Queue>) {
        self.queue = Arc::clone(&queue);
        self.serve(Surface::Queue, Arc::new(ServedQueue::new(queue)));
    }

    /// The typed queue port, for triggers.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    /// The typed blob port, for signed URLs.
    pub fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }

    pub fn tables(&self) -> &Arc<dyn Tables> {
        &self.tables
    }

    pub fn cache(&self) -> &Arc<dyn Cache> {
        &self.cache
    }

    pub fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// The available surfaces.
    pub fn served(&self) -> impl Iterator<Item = Surface> {
        self.served.keys().copied()
    }

    /// Runs one call. Changes are durable when it returns.
    ///
    /// # Errors
    /// The error of the surface. Nothing was changed.
    pub async fn call(&self, call: SurfaceCall) -> Result<Value, SurfaceError> {
        let scope = call.scope();
        match self.served.get(&call.surface) {
            Some(served) => served.call(&scope, &call.op, call.args).await,
            None => Err(SurfaceError::missing(format!("host.{}", call.surface.as_str()))),
        }
    }

    /// The blocks of the discovery document.
    pub fn advertise(&self) -> Value {
        let blocks = self.served.values().map(|served| served.advertise());
        Value::Object(blocks.map(|(key, block)| (key.to_owned(), block)).collect::<Map<_, _>>())
    }
}

fn make_private(directory: &std::path::Path) -> Result<(), OpenError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|cause| OpenError::Io { what: format!("cannot create {}", directory.display()), cause })
}
