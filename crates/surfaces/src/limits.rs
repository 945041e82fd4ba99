//! Limits of the embedded surfaces. Every limit error names its limit.

/// The limits of the embedded surfaces.
///
/// Sizes are in bytes. A tenant's usage is counted exactly, in the same commit as the change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// A key of kv, cache and blob: long enough for a path, short enough for an index.
    pub key_bytes: usize,
    /// A value of kv and cache. Use blobs for larger data: values are read and written whole, in memory.
    pub value_bytes: usize,
    /// The maximum time to live of a key, in seconds: ten years.
    pub kv_ttl_seconds: u64,
    /// Keys per tenant.
    pub kv_keys: u64,
    /// Total size of a tenant's keys and values.
    pub kv_bytes: u64,
    /// The maximum time to live of a cached value, in seconds: one week.
    pub cache_ttl_seconds: u64,
    /// Total size of a tenant's cached keys and values. Above it, values that expire first are evicted.
    pub cache_bytes: u64,
    /// Cached keys per tenant. Above it, values that expire first are evicted, because each row has an overhead.
    pub cache_keys: u64,
    /// Tables per tenant.
    pub tables: u64,
    /// Rows per table.
    pub table_rows: u64,
    /// Columns per table.
    pub table_columns: usize,
    /// A row as JSON.
    pub row_bytes: usize,
    /// Total size of a tenant's rows.
    pub table_bytes: u64,
    /// A blob object. It is held in memory once while it is written.
    pub object_bytes: usize,
    /// Objects per tenant.
    pub objects: u64,
    /// Total size of a tenant's objects.
    pub blob_bytes: u64,
    /// A message or record as JSON.
    pub message_bytes: usize,
    /// Waiting messages per tenant, including dead letters.
    pub messages: u64,
    /// Total size of a tenant's waiting messages.
    pub queue_bytes: u64,
    /// Records per stream. Above it, the oldest are removed.
    pub stream_records: u64,
    /// Records per tenant.
    pub records: u64,
    /// Total size of a tenant's records.
    pub stream_bytes: u64,
    pub file_bytes: usize,
    /// Files and folders per tenant.
    pub files: u64,
    /// Total size of a tenant's files.
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
