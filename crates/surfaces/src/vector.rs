//! Vector search.
//!
//! A collection belongs to a tenant and has vectors of one dimension. They are stored in sqlite-vec tables, one per
//! dimension, partitioned by collection: a query scans all blocks of one collection and no other.
//!
//! Vectors are normalized. The score is the cosine similarity: 1 is the same direction, 0 is orthogonal, −1 is
//! opposite. A zero vector is rejected.

mod embedded;
mod extension;
pub(crate) mod json;
mod scan;

use serde_json::{Map, Value};

use crate::call::Scope;
use crate::served::PortFuture;

pub use self::embedded::EmbeddedVectors;
pub use self::extension::join_sqlite_vec;
pub use self::json::ServedVectors;

/// The default number of matches.
pub const DEFAULT_MATCHES: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VectorLimits {
    pub dimensions: usize,
    /// Matches per query.
    pub matches: usize,
    /// Vectors per call.
    pub items: usize,
    /// Metadata of a vector as JSON, in bytes.
    pub metadata_bytes: usize,
    /// A collection name or vector id, in bytes.
    pub name_bytes: usize,
    /// Collections per tenant.
    pub collections: u64,
    /// Total size of a tenant's vectors and metadata, in bytes.
    pub bytes: u64,
}

impl Default for VectorLimits {
    fn default() -> Self {
        Self {
            dimensions: 4096,
            matches: 1000,
            items: 500,
            metadata_bytes: 16 << 10,
            name_bytes: 256,
            collections: 256,
            bytes: 4 << 30,
        }
    }
}

/// The vector collections of a tenant.
///
/// # Contract
///
/// * Collections are visible only to their tenant.
/// * The first vector fixes the dimension of a collection. Deleting the last vector deletes it.
/// * A query returns the nearest vectors, the nearest first, equal scores by id.
/// * A change is durable when the call returns, and is applied once per effect id.
pub trait Vectors: Send + Sync {
    /// Adds or replaces vectors. Returns how many.
    fn upsert<'a>(&'a self, scope: &'a Scope, collection: String, items: Vec<Item>) -> PortFuture<'a, u64>;
    /// The nearest vectors.
    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> PortFuture<'a, Vec<Match>>;
    /// Removes vectors; returns how many existed.
    fn delete<'a>(&'a self, scope: &'a Scope, collection: String, ids: Vec<String>) -> PortFuture<'a, u64>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: String,
    pub vector: Vec<f32>,
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub collection: String,
    pub vector: Vec<f32>,
    pub matches: usize,
    /// Only vectors whose metadata has these members.
    pub filter: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    pub id: String,
    /// The cosine similarity, from −1 to 1.
    pub score: f64,
    pub metadata: Option<Map<String, Value>>,
}
