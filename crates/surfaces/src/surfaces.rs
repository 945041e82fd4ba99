//! The door: one place where a call finds its surface.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::blob::{Blobs, EmbeddedBlobs, ServedBlobs};
use crate::cache::{Cache, EmbeddedCache, ServedCache};
use crate::call::{Call, Surface};
use crate::embedded::{Database, OpenError};
use crate::error::SurfaceError;
use crate::fs::{EmbeddedFiles, Files, ServedFiles};
use crate::kv::{EmbeddedKv, Kv, ServedKv};
use crate::limits::Limits;
use crate::queue::{EmbeddedQueue, Queue, ServedQueue};
use crate::served::Served;
use crate::table::{EmbeddedTables, ServedTables, Tables};
use crate::tables;

/// How surfaces are opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is kept. It is made where it is not there, owner-only.
    pub directory: PathBuf,
    /// How much of everything.
    pub limits: Limits,
    /// The buckets of blobs, which every tenant has for itself. The first is that of a call that names none.
    pub buckets: Vec<String>,
    /// Where the folders of tenants' files are; `files` in the directory where nothing is said.
    pub files: Option<PathBuf>,
    /// What the address of a presigned object begins with; a token follows.
    pub presigned: String,
}

impl Options {
    /// Everything below that directory, with the usual bounds.
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

/// Everything that workflows may use of the host.
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
    /// Opens the embedded surfaces. Others are added with [`Surfaces::serve`].
    ///
    /// # Errors
    /// When the directory or a store in it cannot be opened, or was written by a newer version.
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

    /// Serves a surface, in the place of the one that served it before.
    pub fn serve(&mut self, surface: Surface, served: Arc<dyn Served>) {
        self.served.insert(surface, served);
    }

    /// Serves the queue by another adapter.
    pub fn serve_queue(&mut self, queue: Arc<dyn Queue>) {
        self.queue = Arc::clone(&queue);
        self.serve(Surface::Queue, Arc::new(ServedQueue::new(queue)));
    }

    /// Messages and streams, typed; for triggers.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    /// Objects, typed; for signed addresses.
    pub fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }

    /// Tables, typed.
    pub fn tables(&self) -> &Arc<dyn Tables> {
        &self.tables
    }

    /// Cached values, typed.
    pub fn cache(&self) -> &Arc<dyn Cache> {
        &self.cache
    }

    /// Files, typed.
    pub fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    /// Keys and values, typed.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// Which surfaces are served.
    pub fn served(&self) -> impl Iterator<Item = Surface> {
        self.served.keys().copied()
    }

    /// Carries out one call. What it changed is on the disk when this returns.
    ///
    /// # Errors
    /// The refusal of the surface. Nothing changed then.
    pub async fn call(&self, call: Call) -> Result<Value, SurfaceError> {
        let scope = call.scope();
        match self.served.get(&call.surface) {
            Some(served) => served.call(&scope, &call.op, call.args).await,
            None => Err(SurfaceError::missing(format!("host.{}", call.surface.as_str()))),
        }
    }

    /// The blocks of the discovery document for what is really served.
    pub fn advertise(&self) -> Value {
        let blocks = self.served.values().map(|served| served.advertise());
        Value::Object(blocks.map(|(key, block)| (key.to_owned(), block)).collect::<Map<_, _>>())
    }
}

fn make_private(directory: &std::path::Path) -> Result<(), OpenError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|cause| OpenError::Io { what: format!("{} cannot be made", directory.display()), cause })
}
