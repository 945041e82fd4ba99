//! Why a surface refused a call: a closed code and what to do about it.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// Why a surface refused a call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The spelling on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    /// The tenant, the surface, the operation or an argument is not one that exists.
    InvalidArgument => "invalid_argument",
    /// The surface, or that operation of it, is not served here.
    HostCapabilityMissing => "host_capability_missing",
    /// The path leads out of the folder of the tenant.
    PathOutsideSandbox => "path_outside_sandbox",
    /// The file is larger than a file may be.
    FileTooLarge => "file_too_large",
    /// The host may not touch that file.
    FsPermissionDenied => "fs_permission_denied",
    /// There is no such file.
    FileNotFound => "file_not_found",
    /// The key is longer than a key may be.
    KvKeyTooLarge => "kv_key_too_large",
    /// The value is larger than a value may be.
    KvValueTooLarge => "kv_value_too_large",
    /// The lifetime is longer than a lifetime may be.
    KvTtlExceedsMax => "kv_ttl_exceeds_max",
    /// The tenant has as much as a tenant may have.
    KvQuotaExhausted => "kv_quota_exhausted",
    /// The row does not have the types that the first row fixed.
    TableSchemaViolation => "table_schema_violation",
    /// The table has as many rows as a table may have.
    TableRowLimitReached => "table_row_limit_reached",
    /// There is no such table.
    TableNotFound => "table_not_found",
    /// The value is larger than a cached value may be.
    CacheValueTooLarge => "cache_value_too_large",
    /// The lifetime is longer than that of a cached value may be.
    CacheTtlExceedsMax => "cache_ttl_exceeds_max",
    /// There is no such bucket.
    BlobBucketNotFound => "blob_bucket_not_found",
    /// There is no such object.
    BlobObjectNotFound => "blob_object_not_found",
    /// The object is larger than an object may be.
    BlobObjectTooLarge => "blob_object_too_large",
    /// The signed address was good for a while, and is not any more.
    BlobPresignExpired => "blob_presign_expired",
    /// There is no such signed address.
    BlobPresignNotFound => "blob_presign_not_found",
    /// There is no such topic.
    QueueTopicNotFound => "queue_topic_not_found",
    /// The delivery was given to somebody else meanwhile.
    QueueDeliveryTokenExpired => "queue_delivery_token_expired",
    /// The server behind the queue does not answer.
    QueueBackendUnavailable => "queue_backend_unavailable",
    /// The statement holds values that belong into its parameters.
    SqlNonParametric => "sql_non_parametric",
    /// The statement is not SQL that the database understands.
    SqlSyntaxError => "sql_syntax_error",
    /// A statement failed, and none of the transaction happened.
    SqlTransactionAborted => "sql_transaction_aborted",
    /// There is no such datasource.
    DatasourceNotFound => "datasource_not_found",
    /// The datasource, or what the statement does with it, is not for this tenant.
    DatasourceAccessDenied => "datasource_access_denied",
    /// There is no such collection.
    VectorCollectionNotFound => "vector_collection_not_found",
    /// The vector has another length than those of the collection.
    VectorDimensionMismatch => "vector_dimension_mismatch",
    /// There is no such index.
    SearchIndexNotFound => "search_index_not_found",
    /// The query cannot be read.
    SearchQuerySyntaxError => "search_query_syntax_error",
    /// The store failed. The message says whether the call may be made again, or what has to be done before.
    SurfaceUnavailable => "surface_unavailable",
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A refusal. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SurfaceError {
    /// Why.
    pub code: Code,
    /// What is wrong, the bound that was met, and what to do.
    pub message: String,
    /// With `host_capability_missing`: `host.<name>[.<method>]`.
    pub capability: Option<String>,
}

impl SurfaceError {
    /// A refusal of that code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), capability: None }
    }

    /// The refusal of something that is not served here.
    pub fn missing(capability: impl Into<String>) -> Self {
        let capability = capability.into();
        let message = format!("{capability} is not served here; the discovery document lists what is");
        Self { code: Code::HostCapabilityMissing, message, capability: Some(capability) }
    }
}
