//! How much of everything. Each bound is in the error of whoever meets it.

/// The bounds of the embedded surfaces.
///
/// Sizes are in bytes. A tenant's bounds are counted exactly, in the same commit as what is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// A key of kv, cache and blob: as long as a path gets, and short enough to be in an index.
    pub key_bytes: usize,
    /// A value of kv and cache. Larger things are blobs: a value is read and written whole, and passes through the writer's memory.
    pub value_bytes: usize,
    /// The longest lifetime of a key, in seconds: ten years.
    pub kv_ttl_seconds: u64,
    /// The keys of a tenant.
    pub kv_keys: u64,
    /// The bytes of a tenant's keys and values.
    pub kv_bytes: u64,
    /// The longest lifetime of a cached value, in seconds: a week. What has to live longer is not a cache.
    pub cache_ttl_seconds: u64,
    /// The bytes of a tenant's cached keys and values. Beyond it, what expires first is forgotten.
    pub cache_bytes: u64,
    /// The cached keys of a tenant. Beyond it, what expires first is forgotten: what a row takes beside its bytes is not for nothing.
    pub cache_keys: u64,
    /// The tables of a tenant.
    pub tables: u64,
    /// The rows of a table.
    pub table_rows: u64,
    /// The columns of a table.
    pub table_columns: usize,
    /// A row, as JSON.
    pub row_bytes: usize,
    /// The bytes of all rows of a tenant.
    pub table_bytes: u64,
    /// An object of blob. It is held in memory once while it is written.
    pub object_bytes: usize,
    /// The objects of a tenant.
    pub objects: u64,
    /// The bytes of a tenant's objects.
    pub blob_bytes: u64,
    /// A message or a record, as JSON.
    pub message_bytes: usize,
    /// The messages that wait for a tenant, dead letters included.
    pub messages: u64,
    /// The bytes of the messages that wait for a tenant.
    pub queue_bytes: u64,
    /// The records that a stream keeps. Beyond it the oldest go.
    pub stream_records: u64,
    /// The records of all streams of a tenant.
    pub records: u64,
    /// The bytes of the records of a tenant.
    pub stream_bytes: u64,
    /// A file.
    pub file_bytes: usize,
    /// The files and folders of a tenant.
    pub files: u64,
    /// The bytes of a tenant's files.
    pub fs_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        const GIB: u64 = 1 << 30;
        Self {
            key_bytes: 1024,
            value_bytes: MIB,
            kv_ttl_seconds: 10 * 365 * 24 * 60 * 60,
            kv_keys: 1_000_000,
            kv_bytes: GIB,
            cache_ttl_seconds: 7 * 24 * 60 * 60,
            cache_bytes: GIB / 4,
            cache_keys: 1_000_000,
            tables: 1000,
            table_rows: 100_000,
            table_columns: 256,
            row_bytes: MIB,
            table_bytes: GIB,
            object_bytes: 64 * MIB,
            objects: 1_000_000,
            blob_bytes: 16 * GIB,
            message_bytes: MIB,
            messages: 1_000_000,
            queue_bytes: GIB,
            stream_records: 100_000,
            records: 10_000_000,
            stream_bytes: GIB,
            file_bytes: 64 * MIB,
            files: 100_000,
            fs_bytes: 16 * GIB,
        }
    }
}
