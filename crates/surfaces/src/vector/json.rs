//! The JSON interface of vectors.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{DEFAULT_MATCHES, Item, Query, VectorLimits, Vectors};
use crate::args::{Args, refuse};
use crate::call::Scope;
use crate::error::SurfaceError;
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["upsert", "query", "delete"];

pub struct ServedVectors {
    vectors: Arc<dyn Vectors>,
    limits: VectorLimits,
}

impl ServedVectors {
    pub fn new(vectors: Arc<dyn Vectors>, limits: VectorLimits) -> Self {
        Self { vectors, limits }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        match op {
            "upsert" => {
                let mut args = Args::new(args, &["namespace", "collection", "items", "vectors"])?;
                let collection = text(args.one_of(&["namespace", "collection"])?, "namespace")?;
                let items = list(args.one_of(&["items", "vectors"])?, "items", self.limits.items)?;
                let items = items.into_iter().map(item).collect::<Result<_, _>>()?;
                let upserted = self.vectors.upsert(scope, collection, items).await?;
                Ok(json!({ "upserted": upserted }))
            }
            "query" => {
                let mut args = Args::new(
                    args,
                    &["namespace", "collection", "vector", "embedding", "topK", "k", "filter"],
                )?;
                let collection = text(args.one_of(&["namespace", "collection"])?, "namespace")?;
                let vector = numbers(args.one_of(&["vector", "embedding"])?)?;
                let most = self.limits.matches as u64;
                let matches =
                    match (args.optional_count("topK", 1, most)?, args.optional_count("k", 1, most)?) {
                        (Some(_), Some(_)) => {
                            return Err(refuse("`topK` and `k` are synonyms; use only one"));
                        }
                        (matches, None) | (None, matches) => matches,
                    };
                let matches =
                    matches.and_then(|matches| usize::try_from(matches).ok()).unwrap_or(DEFAULT_MATCHES);
                let filter = filter(&mut args)?;
                let found = self.vectors.query(scope, Query { collection, vector, matches, filter }).await?;
                let found: Vec<Value> = found
                    .into_iter()
                    .map(|one| json!({ "id": one.id, "score": one.score, "metadata": one.metadata }))
                    .collect();
                Ok(json!({ "matches": found }))
            }
            "delete" => {
                let mut args = Args::new(args, &["namespace", "collection", "ids"])?;
                let collection = text(args.one_of(&["namespace", "collection"])?, "namespace")?;
                let ids = list(args.value("ids")?, "ids", self.limits.items)?;
                let ids = ids.into_iter().map(|id| text(id, "ids")).collect::<Result<_, _>>()?;
                let deleted = self.vectors.delete(scope, collection, ids).await?;
                Ok(json!({ "deleted": deleted }))
            }
            other => Err(unknown_op("vector", other, OPS)),
        }
    }
}

fn item(given: Value) -> Result<Item, SurfaceError> {
    let Value::Object(given) = given else { return Err(refuse("an item must be {id, vector, metadata}")) };
    let mut args = Args::new(given, &["id", "vector", "embedding", "metadata"])?;
    let metadata = match args.optional("metadata") {
        None => None,
        Some(Value::Object(metadata)) => Some(metadata),
        Some(_) => return Err(refuse("`metadata` must be an object")),
    };
    Ok(Item { id: args.text("id")?, vector: numbers(args.one_of(&["vector", "embedding"])?)?, metadata })
}

fn numbers(given: Value) -> Result<Vec<f32>, SurfaceError> {
    let refusal = || refuse("a vector must be a list of numbers");
    let Value::Array(given) = given else { return Err(refusal()) };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "vectors are stored in single precision; larger numbers become infinite and are rejected"
    )]
    given.iter().map(|number| number.as_f64().map(|number| number as f32).ok_or_else(refusal)).collect()
}

pub(crate) fn text(given: Value, name: &str) -> Result<String, SurfaceError> {
    match given {
        Value::String(text) => Ok(text),
        _ => Err(refuse(format!("`{name}` must be a string"))),
    }
}

pub(crate) fn list(given: Value, name: &str, most: usize) -> Result<Vec<Value>, SurfaceError> {
    match given {
        Value::Array(given) if given.len() <= most => Ok(given),
        Value::Array(given) => {
            Err(refuse(format!("`{name}` has {} entries; the limit per call is {most}", given.len())))
        }
        _ => Err(refuse(format!("`{name}` must be a list"))),
    }
}

/// The required metadata members; none by default.
pub(crate) fn filter(args: &mut Args) -> Result<Map<String, Value>, SurfaceError> {
    match args.optional("filter") {
        None => Ok(Map::new()),
        Some(Value::Object(filter)) => Ok(filter),
        Some(_) => Err(refuse("`filter` must be an object of required metadata members")),
    }
}

impl Served for ServedVectors {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    /// The protocol lists only products as backends, and this is not one of them; collections belong to tenants.
    fn advertise(&self) -> (&'static str, Value) {
        ("vectorStore", json!({ "supported": true }))
    }
}
