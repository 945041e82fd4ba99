//! Vectors, found by their direction.
//!
//! A collection belongs to a tenant and has vectors of one length. They are kept in tables of sqlite-vec, one for each length, and the number of
//! the collection is the partition key of those tables: a query reads the blocks of one collection and no other, and compares all of them.
//!
//! Vectors are kept with length 1. Nearness is the cosine of the angle between two vectors: 1 is the same direction, 0 is a right angle, −1
//! is the opposite. A vector without a direction (all zeros) is refused.

mod embedded;
mod extension;
pub(crate) mod json;
mod scan;

use serde_json::{Map, Value};

use crate::call::Scope;
use crate::served::Answer;

pub use self::embedded::EmbeddedVectors;
pub use self::extension::join_sqlite_vec;
pub use self::json::ServedVectors;

/// How many matches are given where nothing is said.
pub const DEFAULT_MATCHES: usize = 10;

/// How much of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VectorLimits {
    /// The numbers of a vector.
    pub dimensions: usize,
    /// The matches of a query.
    pub matches: usize,
    /// The vectors of one call.
    pub items: usize,
    /// What is kept beside a vector, as JSON, in bytes.
    pub metadata_bytes: usize,
    /// The name of a collection or of a vector, in bytes.
    pub name_bytes: usize,
    /// The collections of a tenant.
    pub collections: u64,
    /// The vectors of a tenant and what is beside them, in bytes.
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

/// Vectors of a tenant.
///
/// # Contract
/// * Collections of one tenant are invisible to every other, by every method.
/// * The first vector of a collection says how long its vectors are. A collection that loses its last vector is forgotten, with its length.
/// * A query gives the nearest vectors of all, the nearest first, and those that are equally near in the order of their ids.
/// * A change is durable when it returns, and happens once for an effect's identity.
pub trait Vectors: Send + Sync {
    /// Adds vectors, or puts them in the place of those with their ids. Says how many.
    fn upsert<'a>(&'a self, scope: &'a Scope, collection: String, items: Vec<Item>) -> Answer<'a, u64>;
    /// The nearest vectors.
    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> Answer<'a, Vec<Match>>;
    /// Removes vectors; says how many were there.
    fn delete<'a>(&'a self, scope: &'a Scope, collection: String, ids: Vec<String>) -> Answer<'a, u64>;
}

/// A vector under its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// Its numbers.
    pub vector: Vec<f32>,
    /// What is kept beside it.
    pub metadata: Option<Map<String, Value>>,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Where.
    pub collection: String,
    /// Near to what.
    pub vector: Vec<f32>,
    /// How many.
    pub matches: usize,
    /// Only those whose metadata has these members.
    pub filter: Map<String, Value>,
}

/// A vector that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// Its id.
    pub id: String,
    /// The cosine of the angle, from −1 to 1.
    pub score: f64,
    /// What is kept beside it.
    pub metadata: Option<Map<String, Value>>,
}
