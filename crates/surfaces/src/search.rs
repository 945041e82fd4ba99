//! Full-text search.
//!
//! Every index of every tenant is a separate FTS5 table. Scores depend on word frequencies in the whole table, so a
//! shared table would leak what other tenants write about.

mod embedded;
mod json;
mod words;

use serde_json::{Map, Value};

use crate::call::Scope;
use crate::served::PortFuture;

pub use self::embedded::EmbeddedSearch;
pub use self::json::ServedSearch;

/// The default number of hits.
pub const DEFAULT_HITS: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchLimits {
    /// Documents per call.
    pub documents: usize,
    /// A document as JSON, in bytes.
    pub document_bytes: usize,
    /// Hits per query.
    pub hits: usize,
    pub query_bytes: usize,
    /// Words per query.
    pub query_words: usize,
    /// An index name or document id, in bytes.
    pub name_bytes: usize,
    /// Indexes per tenant.
    pub indexes: u64,
    /// Indexes of all tenants: each has several tables, and opening the file reads the list of tables.
    pub indexes_of_all: u64,
    /// Total size of a tenant's documents, in bytes.
    pub bytes: u64,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self {
            documents: 500,
            document_bytes: 256 << 10,
            hits: 1000,
            query_bytes: 4096,
            query_words: 64,
            name_bytes: 256,
            indexes: 32,
            indexes_of_all: 4096,
            bytes: 4 << 30,
        }
    }
}

/// The search indexes of a tenant.
///
/// # Contract
///
/// * Indexes are visible only to their tenant, and do not influence the scores of others.
/// * A query finds documents with at least one of its words, the best match first, equal scores by id. Scores are
///   positive. A query without words finds nothing.
/// * Queries are plain text without syntax.
/// * The first document creates an index. Deleting the last document deletes it.
/// * A change is durable when the call returns, and is applied once per effect id.
pub trait Search: Send + Sync {
    /// Adds or replaces documents. Returns how many.
    fn index<'a>(&'a self, scope: &'a Scope, index: String, documents: Vec<Document>) -> PortFuture<'a, u64>;
    /// The best matches.
    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> PortFuture<'a, Vec<Hit>>;
    /// Removes documents; returns how many existed.
    fn delete<'a>(&'a self, scope: &'a Scope, index: String, ids: Vec<String>) -> PortFuture<'a, u64>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub id: String,
    /// The content. Strings, numbers and booleans at any depth are searchable.
    pub fields: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub index: String,
    pub text: String,
    pub hits: usize,
    /// Only documents whose fields have these values.
    pub filter: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub id: String,
    /// The score: positive, higher is better.
    pub score: f64,
    pub fields: Map<String, Value>,
}
