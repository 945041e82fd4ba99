//! Full-text search with SQLite FTS5.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Map, Value};

use super::words::{expression, text_of};
use super::{Document, Hit, Query, Search, SearchLimits};
use crate::args::{check_name, refuse, shown};
use crate::call::{Scope, Tenant};
use crate::embedded::{Database, OpenError, Refused, Schema};
use crate::error::{Code, SurfaceError};
use crate::served::PortFuture;
use crate::value::same;

const FILE: &str = "search.sqlite3";

static SCHEMA: Schema = Schema { name: "search", steps: STEPS, prepare, sweep: |_, _| Ok(false) };

const STEPS: &[&str] = &["
    CREATE TABLE indexes (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        documents INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (tenant, name)
    ) STRICT;
    CREATE TABLE documents (
        document INTEGER PRIMARY KEY AUTOINCREMENT,
        number INTEGER NOT NULL,
        id TEXT NOT NULL,
        fields TEXT NOT NULL,
        UNIQUE (number, id)
    ) STRICT;
"];

/// The memory-mapped size of the file.
const MAPPED_BYTES: i64 = 2 << 30;

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "mmap_size", MAPPED_BYTES)
}

pub struct EmbeddedSearch {
    database: Arc<Database>,
    limits: Arc<SearchLimits>,
}

/// A validated document.
struct Stored {
    id: String,
    fields: String,
    text: String,
}

impl Stored {
    fn new(document: Document, limits: &SearchLimits) -> Result<Self, SurfaceError> {
        check_name("id", &document.id, limits.name_bytes, Code::InvalidArgument)?;
        let text = text_of(&document.fields);
        let fields = Value::Object(document.fields).to_string();
        if fields.len() > limits.document_bytes {
            let message =
                format!("the document is {} bytes; the limit is {}", fields.len(), limits.document_bytes);
            return Err(refuse(message));
        }
        Ok(Self { id: document.id, fields, text })
    }

    fn bytes(&self) -> i64 {
        i64::try_from(self.id.len() + self.fields.len()).unwrap_or(i64::MAX)
    }
}

impl EmbeddedSearch {
    /// Opens the file in an existing directory.
    ///
    /// # Errors
    /// The file cannot be opened or has a newer version.
    pub fn open(directory: &Path, limits: SearchLimits) -> Result<Self, OpenError> {
        let database = Database::open(&directory.join(FILE), &SCHEMA)?;
        Ok(Self { database: Arc::new(database), limits: Arc::new(limits) })
    }

    async fn put(&self, scope: &Scope, name: String, documents: Vec<Document>) -> Result<u64, SurfaceError> {
        check_name("index", &name, self.limits.name_bytes, Code::InvalidArgument)?;
        let (limits, tenant) = (Arc::clone(&self.limits), scope.tenant.clone());
        if documents.len() > limits.documents {
            let message = format!(
                "{} documents were given; the limit per call is {}",
                documents.len(),
                limits.documents
            );
            return Err(refuse(message));
        }
        let documents =
            documents.into_iter().map(|one| Stored::new(one, &limits)).collect::<Result<Vec<_>, _>>()?;
        if documents.is_empty() {
            return Ok(0);
        }
        self.database
            .change(scope, "search.index", move |connection| {
                let number = match find(connection, &tenant, &name)? {
                    Some(number) => number,
                    None => create(connection, &tenant, &name, &limits)?,
                };
                let (mut added, mut bytes) = (0_i64, 0_i64);
                for document in &documents {
                    let (is_new, grown) = put_one(connection, number, document)?;
                    added += i64::from(is_new);
                    bytes += grown;
                }
                count(connection, number, added, bytes)?;
                check_bytes(connection, &tenant, limits.bytes)?;
                Ok(documents.len() as u64)
            })
            .await
    }

    async fn best(&self, scope: &Scope, query: Query) -> Result<Vec<Hit>, SurfaceError> {
        let SearchLimits { query_bytes, query_words, hits, .. } = *self.limits;
        let too_long = |what: String| SurfaceError::new(Code::SearchQuerySyntaxError, what);
        if query.text.len() > query_bytes {
            return Err(too_long(format!(
                "the query is {} bytes; the limit is {query_bytes}",
                query.text.len()
            )));
        }
        let words = expression(&query.text, query_words)
            .map_err(|count| too_long(format!("the query has {count} words; the limit is {query_words}")))?;
        let tenant = scope.tenant.clone();
        self.database
            .read_long(&scope.tenant, move |connection| {
                let number = existing(connection, &tenant, &query.index)?;
                let Some(words) = words else { return Ok(Vec::new()) };
                if query.filter.is_empty() {
                    Ok(best_of(connection, number, &words, query.hits.min(hits))?)
                } else {
                    Ok(best_of_some(connection, number, &words, query.hits.min(hits), &query.filter)?)
                }
            })
            .await
    }

    async fn remove(&self, scope: &Scope, name: String, ids: Vec<String>) -> Result<u64, SurfaceError> {
        let tenant = scope.tenant.clone();
        self.database
            .change(scope, "search.delete", move |connection| {
                let number = existing(connection, &tenant, &name)?;
                let (mut removed, mut bytes) = (0_i64, 0_i64);
                for id in &ids {
                    if let Some(freed) = remove_one(connection, number, id)? {
                        removed += 1;
                        bytes += freed;
                    }
                }
                count(connection, number, -removed, -bytes)?;
                let is_empty = connection
                    .prepare_cached("DELETE FROM indexes WHERE number = ?1 AND documents = 0")?
                    .execute([number])?;
                if is_empty > 0 {
                    connection.execute_batch(&format!("DROP TABLE texts_{number}"))?;
                }
                Ok(removed.unsigned_abs())
            })
            .await
    }
}

fn find(connection: &Connection, tenant: &Tenant, name: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT number FROM indexes WHERE tenant = ?1 AND name = ?2")?
        .query_row(params![tenant.as_str(), name], |row| row.get(0))
        .optional()
}

fn existing(connection: &Connection, tenant: &Tenant, name: &str) -> Result<i64, Refused> {
    find(connection, tenant, name)?.ok_or_else(|| {
        let message = format!("unknown index `{}`; the first document creates an index", shown(name));
        SurfaceError::new(Code::SearchIndexNotFound, message).into()
    })
}

fn create(
    connection: &Connection,
    tenant: &Tenant,
    name: &str,
    limits: &SearchLimits,
) -> Result<i64, Refused> {
    let (count, of_all): (u64, u64) = connection
        .prepare_cached("SELECT count(*) FILTER (WHERE tenant = ?1), count(*) FROM indexes")?
        .query_row([tenant.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if count >= limits.indexes {
        return Err(refuse(format!("the tenant's quota of {} indexes is reached", limits.indexes)).into());
    }
    if of_all >= limits.indexes_of_all {
        return Err(refuse(format!(
            "the quota of {} indexes for all tenants is reached",
            limits.indexes_of_all
        ))
        .into());
    }
    connection
        .prepare_cached("INSERT INTO indexes (tenant, name, documents, bytes) VALUES (?1, ?2, 0, 0)")?
        .execute(params![tenant.as_str(), name])?;
    let number = connection.last_insert_rowid();
    // Contentless: the documents are in their own table.
    connection.execute_batch(&format!(
        "CREATE VIRTUAL TABLE texts_{number} USING fts5(
             body, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2')"
    ))?;
    Ok(number)
}

/// Whether the document is new, and how many bytes it grew.
fn put_one(connection: &Connection, number: i64, document: &Stored) -> rusqlite::Result<(bool, i64)> {
    let freed = remove_one(connection, number, &document.id)?;
    connection
        .prepare_cached("INSERT INTO documents (number, id, fields) VALUES (?1, ?2, ?3)")?
        .execute(params![number, document.id, document.fields])?;
    connection
        .prepare_cached(&format!("INSERT INTO texts_{number} (rowid, body) VALUES (?1, ?2)"))?
        .execute(params![connection.last_insert_rowid(), document.text])?;
    Ok((freed.is_none(), document.bytes() - freed.unwrap_or(0)))
}

/// The freed bytes, if it existed.
fn remove_one(connection: &Connection, number: i64, id: &str) -> rusqlite::Result<Option<i64>> {
    let old: Option<(i64, i64)> = connection
        .prepare_cached(
            "DELETE FROM documents WHERE number = ?1 AND id = ?2
             RETURNING document, octet_length(id) + octet_length(fields)",
        )?
        .query_row(params![number, id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((document, bytes)) = old else { return Ok(None) };
    connection
        .prepare_cached(&format!("DELETE FROM texts_{number} WHERE rowid = ?1"))?
        .execute([document])?;
    Ok(Some(bytes))
}

fn count(connection: &Connection, number: i64, documents: i64, bytes: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE indexes SET documents = documents + ?2, bytes = bytes + ?3 WHERE number = ?1",
        )?
        .execute(params![number, documents, bytes])?;
    Ok(())
}

fn check_bytes(connection: &Connection, tenant: &Tenant, most: u64) -> Result<(), Refused> {
    let bytes: u64 = connection
        .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM indexes WHERE tenant = ?1")?
        .query_row([tenant.as_str()], |row| row.get(0))?;
    if bytes > most {
        return Err(refuse(format!(
            "the tenant's quota is {most} bytes of documents; this call would need {bytes}"
        ))
        .into());
    }
    Ok(())
}

/// The best documents. FTS5 ranks in the inner query; only its few rows are joined.
fn best_of(connection: &Connection, number: i64, words: &str, hits: usize) -> rusqlite::Result<Vec<Hit>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT documents.id, best.score, documents.fields
         FROM (SELECT rowid AS document, rank AS score FROM texts_{number} WHERE texts_{number} MATCH ?1 ORDER BY rank LIMIT ?2) AS best
         JOIN documents USING (document)"
    ))?;
    let found = statement.query_map(params![words, hits], hit)?;
    let mut found: Vec<Hit> = found.collect::<Result<_, _>>()?;
    found.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.id.cmp(&other.id)));
    Ok(found)
}

/// The best documents with these field values: checks all matches, best first, until there are enough.
fn best_of_some(
    connection: &Connection,
    number: i64,
    words: &str,
    hits: usize,
    filter: &Map<String, Value>,
) -> rusqlite::Result<Vec<Hit>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT documents.id, best.score, documents.fields
         FROM (SELECT rowid AS document, rank AS score FROM texts_{number} WHERE texts_{number} MATCH ?1) AS best
         JOIN documents USING (document) ORDER BY best.score, documents.id"
    ))?;
    let mut rows = statement.query([words])?;
    let mut found = Vec::new();
    while found.len() < hits
        && let Some(row) = rows.next()?
    {
        let hit = hit(row)?;
        if filter.iter().all(|(name, wanted)| hit.fields.get(name).is_some_and(|value| same(value, wanted))) {
            found.push(hit);
        }
    }
    Ok(found)
}

fn hit(row: &Row<'_>) -> rusqlite::Result<Hit> {
    let fields = row.get_ref(2)?.as_str().unwrap_or_default();
    let rank: f64 = row.get(1)?;
    Ok(Hit { id: row.get(0)?, score: -rank, fields: serde_json::from_str(fields).unwrap_or_default() })
}

impl Search for EmbeddedSearch {
    fn index<'a>(&'a self, scope: &'a Scope, index: String, documents: Vec<Document>) -> PortFuture<'a, u64> {
        self.put(scope, index, documents).boxed()
    }

    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> PortFuture<'a, Vec<Hit>> {
        self.best(scope, query).boxed()
    }

    fn delete<'a>(&'a self, scope: &'a Scope, index: String, ids: Vec<String>) -> PortFuture<'a, u64> {
        self.remove(scope, index, ids).boxed()
    }
}
