//! The JSON interface of search.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{DEFAULT_HITS, Document, Query, Search, SearchLimits};
use crate::args::{Args, refuse};
use crate::call::Scope;
use crate::error::SurfaceError;
use crate::served::{PortFuture, Served, unknown_op};
use crate::vector::json::{filter, list, text};

const OPS: &[&str] = &["index", "query", "delete"];

pub struct ServedSearch {
    search: Arc<dyn Search>,
    limits: SearchLimits,
}

impl ServedSearch {
    pub fn new(search: Arc<dyn Search>, limits: SearchLimits) -> Self {
        Self { search, limits }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        match op {
            "index" => {
                let mut args = Args::new(args, &["index", "docs"])?;
                let index = args.text("index")?;
                let documents = list(args.value("docs")?, "docs", self.limits.documents)?;
                let documents = documents.into_iter().map(document).collect::<Result<_, _>>()?;
                let indexed = self.search.index(scope, index, documents).await?;
                Ok(json!({ "indexed": indexed }))
            }
            "query" => {
                let mut args = Args::new(args, &["index", "q", "k", "filter"])?;
                let (index, words) = (args.text("index")?, args.text("q")?);
                let hits = args.optional_count("k", 1, self.limits.hits as u64)?;
                let hits = hits.and_then(|hits| usize::try_from(hits).ok()).unwrap_or(DEFAULT_HITS);
                let filter = filter(&mut args)?;
                let found = self.search.query(scope, Query { index, text: words, hits, filter }).await?;
                let found: Vec<Value> = found
                    .into_iter()
                    .map(|hit| json!({ "id": hit.id, "score": hit.score, "fields": hit.fields }))
                    .collect();
                Ok(json!({ "hits": found }))
            }
            "delete" => {
                let mut args = Args::new(args, &["index", "ids"])?;
                let index = args.text("index")?;
                let ids = list(args.value("ids")?, "ids", self.limits.documents)?;
                let ids = ids.into_iter().map(|id| text(id, "ids")).collect::<Result<_, _>>()?;
                let deleted = self.search.delete(scope, index, ids).await?;
                Ok(json!({ "deleted": deleted }))
            }
            other => Err(unknown_op("search", other, OPS)),
        }
    }
}

fn document(given: Value) -> Result<Document, SurfaceError> {
    let Value::Object(given) = given else { return Err(refuse("a document must be {id, fields}")) };
    let mut args = Args::new(given, &["id", "fields"])?;
    Ok(Document { id: args.text("id")?, fields: args.object("fields")? })
}

impl Served for ServedSearch {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    /// The protocol lists only products as backends, and this is not one of them; indexes belong to tenants.
    fn advertise(&self) -> (&'static str, Value) {
        ("searchIndex", json!({ "supported": true }))
    }
}
