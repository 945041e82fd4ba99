//! Surface errors: a closed list of codes.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident => $text:literal,)+) => {
        /// Why a surface call failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $name,)+
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The wire code.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    /// The tenant, surface, operation or an argument is invalid.
    InvalidArgument => "invalid_argument",
    /// The surface or operation is not available on this host.
    HostCapabilityMissing => "host_capability_missing",
    /// The path leaves the tenant's folder.
    PathOutsideSandbox => "path_outside_sandbox",
    FileTooLarge => "file_too_large",
    /// The host has no permission for the file.
    FsPermissionDenied => "fs_permission_denied",
    FileNotFound => "file_not_found",
    KvKeyTooLarge => "kv_key_too_large",
    KvValueTooLarge => "kv_value_too_large",
    KvTtlExceedsMax => "kv_ttl_exceeds_max",
    /// The tenant's quota is exhausted.
    KvQuotaExhausted => "kv_quota_exhausted",
    /// A value does not have the type of its column.
    TableSchemaViolation => "table_schema_violation",
    TableRowLimitReached => "table_row_limit_reached",
    TableNotFound => "table_not_found",
    CacheValueTooLarge => "cache_value_too_large",
    CacheTtlExceedsMax => "cache_ttl_exceeds_max",
    BlobBucketNotFound => "blob_bucket_not_found",
    BlobObjectNotFound => "blob_object_not_found",
    BlobObjectTooLarge => "blob_object_too_large",
    /// The signed URL is expired.
    BlobPresignExpired => "blob_presign_expired",
    BlobPresignNotFound => "blob_presign_not_found",
    QueueTopicNotFound => "queue_topic_not_found",
    /// The message was delivered again in the meantime.
    QueueDeliveryTokenExpired => "queue_delivery_token_expired",
    /// The queue server is unreachable.
    QueueBackendUnavailable => "queue_backend_unavailable",
    /// The statement contains values that belong in its parameters.
    SqlNonParametric => "sql_non_parametric",
    SqlSyntaxError => "sql_syntax_error",
    /// A statement failed and the transaction was rolled back.
    SqlTransactionAborted => "sql_transaction_aborted",
    DatasourceNotFound => "datasource_not_found",
    /// The tenant is not allowed to use the datasource, or the statement is not allowed.
    DatasourceAccessDenied => "datasource_access_denied",
    VectorCollectionNotFound => "vector_collection_not_found",
    VectorDimensionMismatch => "vector_dimension_mismatch",
    SearchIndexNotFound => "search_index_not_found",
    SearchQuerySyntaxError => "search_query_syntax_error",
    /// The store failed. The message says whether to retry.
    SurfaceUnavailable => "surface_unavailable",
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A failed call. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SurfaceError {
    pub code: Code,
    /// What is wrong, the limit, and what to do.
    pub message: String,
    /// For `host_capability_missing`: `host.<name>[.<method>]`.
    pub capability: Option<String>,
}

impl SurfaceError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), capability: None }
    }

    pub fn missing(capability: impl Into<String>) -> Self {
        let capability = capability.into();
        let message = format!(
            "{capability} is not available on this host; the discovery document lists \
            the available capabilities"
        );
        Self { code: Code::HostCapabilityMissing, message, capability: Some(capability) }
    }
}
