//! Vector search with sqlite-vec.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::{Map, Value};

use super::{Item, Match, Query, VectorLimits, Vectors, extension, scan};
use crate::args::{check_name, refuse, shown};
use crate::call::{Scope, Tenant};
use crate::embedded::{Database, OpenError, Refused, Schema};
use crate::error::{Code, SurfaceError};
use crate::served::PortFuture;
use crate::value::same;

const FILE: &str = "vectors.sqlite3";

static SCHEMA: Schema = Schema { name: "vectors", steps: STEPS, prepare, sweep: |_, _| Ok(false) };

const STEPS: &[&str] = &["
    CREATE TABLE collections (
        collection INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        dimensions INTEGER NOT NULL,
        items INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (tenant, name)
    ) STRICT;
    CREATE TABLE items (
        item INTEGER PRIMARY KEY AUTOINCREMENT,
        collection INTEGER NOT NULL,
        id TEXT NOT NULL,
        metadata TEXT,
        UNIQUE (collection, id)
    ) STRICT;
"];

/// sqlite-vec reads whole blocks: large enough to be efficient, small enough for a collection of one vector.
const BLOCK_BYTES: usize = 256 << 10;
/// The memory-mapped size of the file.
const MAPPED_BYTES: i64 = 2 << 30;

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "mmap_size", MAPPED_BYTES)?;
    extension::join_sqlite_vec(connection)
}

pub struct EmbeddedVectors {
    database: Arc<Database>,
    limits: Arc<VectorLimits>,
}

struct Collection {
    number: i64,
    dimensions: usize,
}

impl EmbeddedVectors {
    /// Opens the file in an existing directory.
    ///
    /// # Errors
    /// The file cannot be opened or has a newer version.
    pub fn open(directory: &Path, limits: VectorLimits) -> Result<Self, OpenError> {
        let database = Database::open(&directory.join(FILE), &SCHEMA)?;
        Ok(Self { database: Arc::new(database), limits: Arc::new(limits) })
    }

    async fn put(&self, scope: &Scope, name: String, items: Vec<Item>) -> Result<u64, SurfaceError> {
        check_name("namespace", &name, self.limits.name_bytes, Code::InvalidArgument)?;
        let (limits, tenant) = (Arc::clone(&self.limits), scope.tenant.clone());
        if items.len() > limits.items {
            return Err(refuse(format!(
                "{} vectors were given; the limit per call is {}",
                items.len(),
                limits.items
            )));
        }
        let items =
            items.into_iter().map(|item| Stored::new(item, &limits)).collect::<Result<Vec<_>, _>>()?;
        let Some(dimensions) = items.first().map(|item| item.vector.len()) else { return Ok(0) };
        if let Some(other) = items.iter().find(|item| item.vector.len() != dimensions) {
            return Err(mismatch(dimensions, other.vector.len()));
        }
        self.database
            .change(scope, "vector.upsert", move |connection| {
                let collection = match find(connection, &tenant, &name)? {
                    Some(found) if found.dimensions != dimensions => {
                        return Err(mismatch(found.dimensions, dimensions).into());
                    }
                    Some(found) => found,
                    None => create(connection, &tenant, &name, dimensions, &limits)?,
                };
                let (mut added, mut bytes) = (0_i64, 0_i64);
                for item in &items {
                    let (is_new, grown) = put_one(connection, &collection, item)?;
                    added += i64::from(is_new);
                    bytes += grown;
                }
                count(connection, &collection, added, bytes)?;
                check_bytes(connection, &tenant, limits.bytes)?;
                Ok(items.len() as u64)
            })
            .await
    }

    async fn nearest(&self, scope: &Scope, query: Query) -> Result<Vec<Match>, SurfaceError> {
        let vector = unit(&query.vector, &self.limits)?;
        let tenant = scope.tenant.clone();
        let matches = query.matches.min(self.limits.matches);
        self.database
            .read_long(&scope.tenant, move |connection| {
                let collection = existing(connection, &tenant, &query.collection)?;
                if collection.dimensions != vector.len() {
                    return Err(mismatch(collection.dimensions, vector.len()).into());
                }
                let among = if query.filter.is_empty() {
                    None
                } else {
                    Some(filtered(connection, &collection, &query.filter)?)
                };
                let mut found = knn(connection, &collection, &vector, matches, among.as_deref())?;
                found.sort_by(|one, other| {
                    other.score.total_cmp(&one.score).then_with(|| one.id.cmp(&other.id))
                });
                Ok(found)
            })
            .await
    }

    async fn remove(&self, scope: &Scope, name: String, ids: Vec<String>) -> Result<u64, SurfaceError> {
        let tenant = scope.tenant.clone();
        self.database
            .change(scope, "vector.delete", move |connection| {
                let collection = existing(connection, &tenant, &name)?;
                let (mut removed, mut bytes) = (0_i64, 0_i64);
                for id in &ids {
                    if let Some(freed) = remove_one(connection, &collection, id)? {
                        removed += 1;
                        bytes += freed;
                    }
                }
                count(connection, &collection, -removed, -bytes)?;
                connection
                    .prepare_cached("DELETE FROM collections WHERE collection = ?1 AND items = 0")?
                    .execute([collection.number])?;
                Ok(removed.unsigned_abs())
            })
            .await
    }
}

/// A normalized vector with serialized metadata.
struct Stored {
    id: String,
    vector: Vec<f32>,
    metadata: Option<String>,
}

impl Stored {
    fn new(item: Item, limits: &VectorLimits) -> Result<Self, SurfaceError> {
        check_name("id", &item.id, limits.name_bytes, Code::InvalidArgument)?;
        let vector = unit(&item.vector, limits)?;
        let metadata = item.metadata.map(|metadata| Value::Object(metadata).to_string());
        if let Some(metadata) = metadata.as_ref().filter(|metadata| metadata.len() > limits.metadata_bytes) {
            let message =
                format!("`metadata` is {} bytes; the limit is {}", metadata.len(), limits.metadata_bytes);
            return Err(refuse(message));
        }
        Ok(Self { id: item.id, vector, metadata })
    }

    fn bytes(&self) -> i64 {
        let bytes = self.id.len() + 4 * self.vector.len() + self.metadata.as_ref().map_or(0, String::len);
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

/// The normalized vector.
fn unit(vector: &[f32], limits: &VectorLimits) -> Result<Vec<f32>, SurfaceError> {
    if vector.is_empty() || vector.len() > limits.dimensions {
        return Err(refuse(format!(
            "a vector must have 1 to {} numbers; this one has {}",
            limits.dimensions,
            vector.len()
        )));
    }
    let length = vector.iter().map(|part| f64::from(*part).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() || length == 0.0 {
        return Err(refuse("the numbers of a vector must be finite and not all 0"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 1, rounded to single precision")]
    Ok(vector.iter().map(|part| (f64::from(*part) / length) as f32).collect())
}

fn raw(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|part| part.to_le_bytes()).collect()
}

fn mismatch(expected: usize, found: usize) -> SurfaceError {
    let message = format!("the collection has {expected} dimensions; this vector has {found}");
    SurfaceError::new(Code::VectorDimensionMismatch, message)
}

fn find(connection: &Connection, tenant: &Tenant, name: &str) -> rusqlite::Result<Option<Collection>> {
    connection
        .prepare_cached("SELECT collection, dimensions FROM collections WHERE tenant = ?1 AND name = ?2")?
        .query_row(params![tenant.as_str(), name], |row| {
            Ok(Collection { number: row.get(0)?, dimensions: row.get(1)? })
        })
        .optional()
}

fn existing(connection: &Connection, tenant: &Tenant, name: &str) -> Result<Collection, Refused> {
    find(connection, tenant, name)?.ok_or_else(|| {
        let message = format!("unknown collection `{}`; the first vector creates a collection", shown(name));
        SurfaceError::new(Code::VectorCollectionNotFound, message).into()
    })
}

fn create(
    connection: &Connection,
    tenant: &Tenant,
    name: &str,
    dimensions: usize,
    limits: &VectorLimits,
) -> Result<Collection, Refused> {
    let count: u64 = connection
        .prepare_cached("SELECT count(*) FROM collections WHERE tenant = ?1")?
        .query_row([tenant.as_str()], |row| row.get(0))?;
    if count >= limits.collections {
        return Err(
            refuse(format!("the tenant's quota of {} collections is reached", limits.collections)).into()
        );
    }
    let block = (BLOCK_BYTES / (4 * dimensions) / 8 * 8).clamp(8, 1024);
    connection.execute_batch(&format!(
        "CREATE VIRTUAL TABLE IF NOT EXISTS vectors_{dimensions} USING vec0(
             collection integer partition key, vector float[{dimensions}] distance_metric=L2, chunk_size={block})"
    ))?;
    connection
        .prepare_cached(
            "INSERT INTO collections (tenant, name, dimensions, items, bytes) VALUES (?1, ?2, ?3, 0, 0)",
        )?
        .execute(params![tenant.as_str(), name, dimensions])?;
    Ok(Collection { number: connection.last_insert_rowid(), dimensions })
}

/// Whether the vector is new, and how many bytes it grew.
fn put_one(connection: &Connection, collection: &Collection, item: &Stored) -> rusqlite::Result<(bool, i64)> {
    let dimensions = collection.dimensions;
    let old: Option<(i64, Option<i64>)> = connection
        .prepare_cached("SELECT item, octet_length(metadata) FROM items WHERE collection = ?1 AND id = ?2")?
        .query_row(params![collection.number, item.id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((number, metadata)) = old else {
        connection
            .prepare_cached("INSERT INTO items (collection, id, metadata) VALUES (?1, ?2, ?3)")?
            .execute(params![collection.number, item.id, item.metadata])?;
        connection
            .prepare_cached(&format!(
                "INSERT INTO vectors_{dimensions} (rowid, collection, vector) VALUES (?1, ?2, ?3)"
            ))?
            .execute(params![connection.last_insert_rowid(), collection.number, raw(&item.vector)])?;
        return Ok((true, item.bytes()));
    };
    connection
        .prepare_cached("UPDATE items SET metadata = ?2 WHERE item = ?1")?
        .execute(params![number, item.metadata])?;
    connection
        .prepare_cached(&format!("UPDATE vectors_{dimensions} SET vector = ?2 WHERE rowid = ?1"))?
        .execute(params![number, raw(&item.vector)])?;
    let before = metadata.unwrap_or(0);
    let now = item.metadata.as_ref().map_or(0, |metadata| i64::try_from(metadata.len()).unwrap_or(i64::MAX));
    Ok((false, now - before))
}

/// The freed bytes, if it existed.
fn remove_one(connection: &Connection, collection: &Collection, id: &str) -> rusqlite::Result<Option<i64>> {
    let dimensions = collection.dimensions;
    let old: Option<(i64, i64)> = connection
        .prepare_cached(
            "DELETE FROM items WHERE collection = ?1 AND id = ?2
             RETURNING item, octet_length(id) + coalesce(octet_length(metadata), 0)",
        )?
        .query_row(params![collection.number, id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((number, bytes)) = old else { return Ok(None) };
    connection
        .prepare_cached(&format!("DELETE FROM vectors_{dimensions} WHERE rowid = ?1"))?
        .execute([number])?;
    Ok(Some(bytes + 4 * i64::try_from(dimensions).unwrap_or(0)))
}

fn count(connection: &Connection, collection: &Collection, items: i64, bytes: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE collections SET items = items + ?2, bytes = bytes + ?3 WHERE collection = ?1",
        )?
        .execute(params![collection.number, items, bytes])?;
    Ok(())
}

fn check_bytes(connection: &Connection, tenant: &Tenant, most: u64) -> Result<(), Refused> {
    let bytes: u64 = connection
        .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM collections WHERE tenant = ?1")?
        .query_row([tenant.as_str()], |row| row.get(0))?;
    if bytes > most {
        return Err(refuse(format!(
            "the tenant's quota is {most} bytes of vectors; this call would need {bytes}"
        ))
        .into());
    }
    Ok(())
}

/// The rowids of the vectors whose metadata has these members, in order.
fn filtered(
    connection: &Connection,
    collection: &Collection,
    filter: &Map<String, Value>,
) -> Result<Vec<i64>, Refused> {
    let mut statement = connection
        .prepare_cached("SELECT item, metadata FROM items WHERE collection = ?1 AND metadata IS NOT NULL")?;
    let mut rows = statement.query([collection.number])?;
    let mut numbers: Vec<i64> = Vec::new();
    while let Some(row) = rows.next()? {
        let metadata = read_metadata(row.get_ref(1)?.as_str().unwrap_or_default());
        let has = |(name, wanted): (&String, &Value)| {
            metadata.as_ref().and_then(|it| it.get(name)).is_some_and(|value| same(value, wanted))
        };
        if filter.iter().all(has) {
            numbers.push(row.get(0)?);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn read_metadata(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

fn knn(
    connection: &Connection,
    collection: &Collection,
    vector: &[f32],
    matches: usize,
    among: Option<&[i64]>,
) -> rusqlite::Result<Vec<Match>> {
    let table = format!("vectors_{}", collection.dimensions);
    let found = scan::nearest(connection, &table, collection.number, vector, matches, among)?;
    let mut item = connection.prepare_cached("SELECT id, metadata FROM items WHERE item = ?1")?;
    let named = found.into_iter().map(|near| {
        item.query_row([near.number], |row| {
            let metadata = row.get_ref(1)?.as_str_or_null()?.and_then(read_metadata);
            Ok(Match { id: row.get(0)?, score: f64::from(near.score).clamp(-1.0, 1.0), metadata })
        })
    });
    named.collect()
}

impl Vectors for EmbeddedVectors {
    fn upsert<'a>(&'a self, scope: &'a Scope, collection: String, items: Vec<Item>) -> PortFuture<'a, u64> {
        self.put(scope, collection, items).boxed()
    }

    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> PortFuture<'a, Vec<Match>> {
        self.nearest(scope, query).boxed()
    }

    fn delete<'a>(&'a self, scope: &'a Scope, collection: String, ids: Vec<String>) -> PortFuture<'a, u64> {
        self.remove(scope, collection, ids).boxed()
    }
}
