//! Objects of bytes.

mod contents;
mod embedded;
mod json;
mod objects;
mod presign;

use crate::call::Scope;
use crate::error::SurfaceError;
use crate::served::Answer;
use canon::time::Timestamp;

pub use self::embedded::EmbeddedBlobs;
pub use self::json::ServedBlobs;

/// How many objects are listed at once.
pub const MAX_LISTED: usize = 1000;
/// How many bytes a content type may have.
pub const MAX_CONTENT_TYPE_BYTES: usize = 256;
/// How long a signed address may be good for: a week.
pub const MAX_PRESIGN_SECONDS: u64 = 7 * 24 * 60 * 60;
/// The type of an object of which nothing was said.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// Objects of a tenant, in buckets.
///
/// # Contract
/// * Objects of one tenant are invisible to every other, by every method but a signed address that the tenant gave away.
/// * An object is there whole or not at all. A change is durable when it returns, and happens once for an effect's identity.
/// * The room of an object that was deleted or replaced is given back.
/// * A signed address is good for one object, one method and a while; the moment is judged when it is used.
pub trait Blobs: Send + Sync {
    /// Stores an object over what is there.
    fn put<'a>(&'a self, scope: &'a Scope, at: Place, object: Object) -> Answer<'a, ()>;
    /// The object.
    fn get<'a>(&'a self, scope: &'a Scope, at: &'a Place) -> Answer<'a, Option<Object>>;
    /// Removes an object; says whether it was there.
    fn delete<'a>(&'a self, scope: &'a Scope, at: Place) -> Answer<'a, bool>;
    /// Objects whose keys begin with a prefix, behind a key where one is given, in the order of their bytes.
    fn list<'a>(&'a self, scope: &'a Scope, page: ObjectPage) -> Answer<'a, Objects>;
    /// An address for somebody without credentials; nothing where there is no such object to be got.
    fn presign<'a>(
        &'a self,
        scope: &'a Scope,
        at: &'a Place,
        method: Method,
        expires_in_ms: u64,
    ) -> Answer<'a, Option<Presigned>>;
    /// The object of a signed address.
    fn redeem<'a>(&'a self, token: &'a str, now: Timestamp) -> Answer<'a, Object>;
    /// Whether an object may be stored at a signed address: asked before its bytes are received.
    ///
    /// # Errors
    /// As [`Blobs::redeem_put`].
    fn admit_put(&self, token: &str, now: Timestamp) -> Result<(), SurfaceError>;
    /// How many bytes an object may have.
    fn most_bytes(&self) -> usize;
    /// Stores the object of a signed address.
    fn redeem_put<'a>(&'a self, token: &'a str, now: Timestamp, object: Object) -> Answer<'a, ()>;
    /// Which buckets there are.
    fn buckets(&self) -> &[String];
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// In which bucket.
    pub bucket: String,
    /// Under which key.
    pub key: String,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub content: Vec<u8>,
    /// What they are, as HTTP says it.
    pub content_type: String,
}

/// Which objects are listed.
#[derive(Clone, Debug)]
pub struct ObjectPage {
    /// Of which bucket.
    pub bucket: String,
    /// What their keys begin with.
    pub prefix: String,
    /// The last key of the page before.
    pub after: Option<String>,
    /// How many at the most.
    pub limit: usize,
}

/// Some objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// In the order of their keys.
    pub objects: Vec<Listed>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// What is known of an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// How many bytes it has.
    pub size: u64,
    /// What they are.
    pub content_type: String,
    /// When it was stored.
    pub put_at: Timestamp,
}

/// What a signed address allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// To get the object.
    Get,
    /// To store it.
    Put,
}

impl Method {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
        }
    }

    /// The method of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Get, Self::Put].into_iter().find(|method| method.as_str() == name)
    }
}

/// A signed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presigned {
    /// What the address ends in.
    pub token: String,
    /// When it is over.
    pub expires_at: Timestamp,
}

/// Whether a type can stand in a header.
///
/// # Errors
/// `invalid_argument`
pub(crate) fn check_content_type(text: &str) -> Result<(), SurfaceError> {
    let fit = text.len() <= MAX_CONTENT_TYPE_BYTES && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if fit && text.contains('/') {
        return Ok(());
    }
    let message = format!(
        "`contentType` is a type such as text/plain, at most {MAX_CONTENT_TYPE_BYTES} printable ASCII characters"
    );
    Err(crate::args::refuse(message))
}
