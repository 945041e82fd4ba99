//! The JSON interface of tables.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{Kind, MAX_NAME_BYTES, MAX_ORDER, MAX_PAGE, OrderBy, Query, Row, Tables};
use crate::args::{Args, check_name, refuse, shown};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["createTable", "insert", "get", "query", "update", "upsert", "delete", "count"];
/// The default page size.
const PAGE: usize = 100;

pub struct ServedTables {
    tables: Arc<dyn Tables>,
    limits: Limits,
}

impl ServedTables {
    pub fn new(tables: Arc<dyn Tables>, limits: &Limits) -> Self {
        Self { tables, limits: limits.clone() }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        match op {
            "createTable" => {
                let mut args = Args::new(args, &["table", "columns", "schema"])?;
                let table = args.text("table")?;
                let columns = match (args.optional("columns"), args.optional("schema")) {
                    (Some(_), Some(_)) => {
                        return Err(refuse("`columns` and `schema` are synonyms; use only one"));
                    }
                    (columns, None) | (None, columns) => columns,
                };
                let created = self.tables.create(scope, table, columns_of(columns)?).await?;
                Ok(json!({ "ok": true, "created": created }))
            }
            "insert" => {
                let mut args = Args::new(args, &["table", "row"])?;
                let (table, row) = (args.text("table")?, args.object("row")?);
                Ok(json!({ "id": self.tables.insert(scope, table, row).await? }))
            }
            "upsert" => {
                let mut args = Args::new(args, &["table", "row"])?;
                let (table, row) = (args.text("table")?, args.object("row")?);
                let upserted = self.tables.upsert(scope, table, row).await?;
                Ok(json!({ "upserted": true, "created": upserted.created, "id": upserted.id }))
            }
            "get" => {
                let mut args = Args::new(args, &["table", "id"])?;
                let (table, id) = (args.text("table")?, args.text("id")?);
                let row = self.tables.get(scope, table, id).await?;
                Ok(json!({ "found": row.is_some(), "row": row }))
            }
            "update" => {
                let mut args = Args::new(args, &["table", "id", "patch"])?;
                let (table, id, patch) = (args.text("table")?, args.text("id")?, args.object("patch")?);
                Ok(json!({ "updated": self.tables.update(scope, table, id, patch).await? }))
            }
            "delete" => {
                let mut args = Args::new(args, &["table", "id"])?;
                let (table, id) = (args.text("table")?, args.text("id")?);
                Ok(json!({ "deleted": self.tables.delete(scope, table, id).await? }))
            }
            "query" => {
                let mut args = Args::new(args, &["table", "filter", "orderBy", "limit", "cursor"])?;
                let (table, filter, order) = (args.text("table")?, filter(&mut args)?, order(&mut args)?);
                let limit = args.optional_count("limit", 1, MAX_PAGE as u64)?;
                let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE);
                let cursor = args.optional_text("cursor")?;
                let query = Query { table, filter, order, limit, cursor };
                let page = self.tables.query(scope, query).await?;
                let count = page.rows.len();
                Ok(json!({ "rows": page.rows, "count": count, "nextCursor": page.next }))
            }
            "count" => {
                let mut args = Args::new(args, &["table", "filter"])?;
                let (table, filter) = (args.text("table")?, filter(&mut args)?);
                Ok(json!({ "count": self.tables.count(scope, table, filter).await? }))
            }
            other => Err(unknown_op("table", other, OPS)),
        }
    }
}

fn filter(args: &mut Args) -> Result<Row, SurfaceError> {
    match args.optional("filter") {
        None => Ok(Row::new()),
        Some(Value::Object(filter)) => Ok(filter),
        Some(_) => Err(refuse("`filter` must be an object of columns and values")),
    }
}

/// `["column", "-column", …]`; a minus sign means descending.
fn order(args: &mut Args) -> Result<Vec<OrderBy>, SurfaceError> {
    let refusal = || {
        refuse(format!(
            "`orderBy` must be a list of at most {MAX_ORDER} column names; prefix a name with `-` for \
                descending order"
        ))
    };
    let list = match args.optional("orderBy") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= MAX_ORDER => list,
        Some(_) => return Err(refusal()),
    };
    let by = |value: &Value| {
        let by = OrderBy::parse(value.as_str().ok_or_else(refusal)?);
        check_name("orderBy", &by.column, MAX_NAME_BYTES, Code::InvalidArgument)?;
        Ok(by)
    };
    list.iter().map(by).collect()
}

/// `{"name": "string", …}` or `[{"name": "name", "type": "string"}, …]`.
fn columns_of(columns: Option<Value>) -> Result<Vec<(String, Kind)>, SurfaceError> {
    let kind = |name: &str, kind: Option<&Value>| {
        let found = kind.and_then(Value::as_str).and_then(Kind::parse);
        found.map(|kind| (name.to_owned(), kind)).ok_or_else(|| {
            refuse(format!(
                "the type of the column `{}` must be string, number, boolean or json",
                shown(name)
            ))
        })
    };
    match columns {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(columns)) => columns.iter().map(|(name, value)| kind(name, Some(value))).collect(),
        Some(Value::Array(columns)) => columns
            .iter()
            .map(|column| match column.get("name").and_then(Value::as_str) {
                Some(name) => kind(name, column.get("type")),
                None => Err(refuse("every column must have a `name` and a `type`")),
            })
            .collect(),
        Some(_) => Err(refuse("`columns` must be an object of names and types")),
    }
}

impl Served for ServedTables {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    fn advertise(&self) -> (&'static str, Value) {
        let block = json!({
            "supported": true,
            "maxRowsPerTable": self.limits.table_rows,
            "maxColumnsPerRow": self.limits.table_columns,
            // Filters by columns other than `id` scan the table.
            "indexable": false,
            "fullTextSearch": false,
        });
        ("tableStorage", block)
    }
}
