//! Texts, found by their words.
//!
//! Every index of every tenant is a table of FTS5 of its own. How well a document matches depends on how rare the words are among all documents
//! of the table, so a table that tenants shared would tell each of them what the others write about.

mod embedded;
mod json;
mod words;

use serde_json::{Map, Value};

use crate::call::Scope;
use crate::served::Answer;

pub use self::embedded::EmbeddedSearch;
pub use self::json::ServedSearch;

/// How many hits are given where nothing is said.
pub const DEFAULT_HITS: usize = 10;

/// How much of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchLimits {
    /// The documents of one call.
    pub documents: usize,
    /// A document, as JSON, in bytes.
    pub document_bytes: usize,
    /// The hits of a query.
    pub hits: usize,
    /// A query, in bytes.
    pub query_bytes: usize,
    /// The words of a query.
    pub query_words: usize,
    /// The name of an index or of a document, in bytes.
    pub name_bytes: usize,
    /// The indexes of a tenant.
    pub indexes: u64,
    /// The indexes of all tenants: each is several tables, and whoever opens the file reads the list of tables.
    pub indexes_of_all: u64,
    /// The documents of a tenant, in bytes.
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

/// Texts of a tenant.
///
/// # Contract
/// * Indexes of one tenant are invisible to every other, by every method and in every score.
/// * A query finds the documents that have at least one of its words. Documents that match better come first, those that match equally well in
///   the order of their ids, and every score is above 0. A query without words finds nothing.
/// * Whatever is in a query is text: it has no syntax.
/// * The first document makes an index. An index that loses its last document is forgotten.
/// * A change is durable when it returns, and happens once for an effect's identity.
pub trait Search: Send + Sync {
    /// Adds documents, or puts them in the place of those with their ids. Says how many.
    fn index<'a>(&'a self, scope: &'a Scope, index: String, documents: Vec<Document>) -> Answer<'a, u64>;
    /// The documents that match best.
    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> Answer<'a, Vec<Hit>>;
    /// Removes documents; says how many were there.
    fn delete<'a>(&'a self, scope: &'a Scope, index: String, ids: Vec<String>) -> Answer<'a, u64>;
}

/// A document under its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its id.
    pub id: String,
    /// What it says. Texts, numbers and truth values at any depth are found.
    pub fields: Map<String, Value>,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Where.
    pub index: String,
    /// The words.
    pub text: String,
    /// How many hits.
    pub hits: usize,
    /// Only documents whose fields have these values.
    pub filter: Map<String, Value>,
}

/// A document that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its id.
    pub id: String,
    /// How well it matches: above 0, and more is better.
    pub score: f64,
    /// What it says.
    pub fields: Map<String, Value>,
}
