//! Blob objects.

mod contents;
mod embedded;
mod json;
mod objects;
mod presign;

use crate::call::Scope;
use crate::error::SurfaceError;
use crate::served::PortFuture;
use canon::time::Timestamp;

pub use self::embedded::EmbeddedBlobs;
pub use self::json::ServedBlobs;

/// The maximum number of objects in one listing.
pub const MAX_LISTED: usize = 1000;
/// The maximum length of a content type, in bytes.
pub const MAX_CONTENT_TYPE_BYTES: usize = 256;
/// The maximum validity of a signed URL: one week.
pub const MAX_PRESIGN_SECONDS: u64 = 7 * 24 * 60 * 60;
/// The default content type.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// The blob objects of a tenant, in buckets.
///
/// # Contract
///
/// * Objects are visible only to their tenant, except through a signed URL that the tenant shares.
/// * Writes are atomic. A change is durable when the call returns, and is applied once per effect id.
/// * Deleted and replaced objects free their space.
/// * A signed URL is valid for one object, one method and a limited time, which is checked on use.
pub trait Blobs: Send + Sync {
    /// Stores an object and replaces an existing one.
    fn put<'a>(&'a self, scope: &'a Scope, at: ObjectAddress, object: Object) -> PortFuture<'a, ()>;
    fn get<'a>(&'a self, scope: &'a Scope, at: &'a ObjectAddress) -> PortFuture<'a, Option<Object>>;
    /// Deletes an object; returns whether it existed.
    fn delete<'a>(&'a self, scope: &'a Scope, at: ObjectAddress) -> PortFuture<'a, bool>;
    /// Objects with a key prefix, after an optional key, in byte order.
    fn list<'a>(&'a self, scope: &'a Scope, page: ObjectPage) -> PortFuture<'a, Objects>;
    /// Creates a signed URL for a client without credentials; `None` if a GET object does not exist.
    fn presign<'a>(
        &'a self,
        scope: &'a Scope,
        at: &'a ObjectAddress,
        method: Method,
        expires_in_ms: u64,
    ) -> PortFuture<'a, Option<Presigned>>;
    /// The object of a signed URL.
    fn redeem<'a>(&'a self, token: &'a str, now: Timestamp) -> PortFuture<'a, Object>;
    /// Checks a signed PUT URL before the body is received.
    ///
    /// # Errors
    /// As [`Blobs::redeem_put`].
    fn admit_put(&self, token: &str, now: Timestamp) -> Result<(), SurfaceError>;
    /// The maximum size of an object, in bytes.
    fn most_bytes(&self) -> usize;
    /// Stores an object through a signed URL.
    fn redeem_put<'a>(&'a self, token: &'a str, now: Timestamp, object: Object) -> PortFuture<'a, ()>;
    fn buckets(&self) -> &[String];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectAddress {
    pub bucket: String,
    pub key: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub content: Vec<u8>,
    /// The MIME type.
    pub content_type: String,
}

/// A listing request.
#[derive(Clone, Debug)]
pub struct ObjectPage {
    pub bucket: String,
    pub prefix: String,
    /// The last key of the previous page.
    pub after: Option<String>,
    /// The maximum number of objects.
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// In key order.
    pub objects: Vec<Listed>,
    /// Whether more objects follow.
    pub more: bool,
}

/// The metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub key: String,
    /// The size in bytes.
    pub size: u64,
    pub content_type: String,
    /// When it was stored.
    pub put_at: Timestamp,
}

/// The method of a signed URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Put,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Get, Self::Put].into_iter().find(|method| method.as_str() == name)
    }
}

/// A signed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presigned {
    /// The last path segment.
    pub token: String,
    pub expires_at: Timestamp,
}

/// Checks that a content type is valid in a header.
///
/// # Errors
/// `invalid_argument`
pub(crate) fn check_content_type(text: &str) -> Result<(), SurfaceError> {
    let fit = text.len() <= MAX_CONTENT_TYPE_BYTES && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if fit && text.contains('/') {
        return Ok(());
    }
    let message = format!(
        "`contentType` must be a type such as text/plain, with at most {MAX_CONTENT_TYPE_BYTES} printable \
            ASCII characters"
    );
    Err(crate::args::refuse(message))
}
