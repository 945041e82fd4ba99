//! The JSON interface of kv.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{Entry, KeyPage, Kv, Swap};
use crate::args::Args;
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["get", "set", "put", "delete", "list", "atomicIncrement", "cas", "compareAndSwap"];

pub struct ServedKv {
    kv: Arc<dyn Kv>,
    limits: Limits,
}

impl ServedKv {
    pub fn new(kv: Arc<dyn Kv>, limits: &Limits) -> Self {
        Self { kv, limits: limits.clone() }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        let ttl = |args: &mut Args| {
            args.lifetime_ms("ttlSeconds", self.limits.kv_ttl_seconds, Code::KvTtlExceedsMax)
        };
        match op {
            "get" => {
                let key = Args::new(args, &["key"])?.text("key")?;
                let entry = self.kv.get(scope, &key).await?;
                let found = entry.is_some();
                let Entry { value, ttl_remaining_ms } =
                    entry.unwrap_or(Entry { value: Value::Null, ttl_remaining_ms: None });
                let mut answer = Map::new();
                answer.insert("value".into(), value);
                answer.insert("found".into(), found.into());
                answer.insert("ttlRemainingMs".into(), ttl_remaining_ms.into());
                Ok(Value::Object(answer))
            }
            "set" | "put" => {
                let mut args = Args::new(args, &["key", "value", "ttlSeconds"])?;
                let (key, value, ttl) = (args.text("key")?, args.value("value")?, ttl(&mut args)?);
                self.kv.set(scope, key, value, ttl).await?;
                Ok(json!({ "ok": true }))
            }
            "delete" => {
                let key = Args::new(args, &["key"])?.text("key")?;
                let existed = self.kv.delete(scope, key).await?;
                Ok(json!({ "ok": true, "existed": existed }))
            }
            "list" => {
                let mut args = Args::new(args, &["prefix", "cursor", "limit"])?;
                let prefix = args.optional_text("prefix")?.unwrap_or_default();
                let after = args.optional_text("cursor")?;
                let listed = super::MAX_LISTED;
                let limit = args.optional_count("limit", 1, listed as u64)?;
                let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(listed);
                let listed = self.kv.list(scope, KeyPage { prefix, after, limit }).await?;
                let next = listed.keys.last().filter(|_| listed.more).cloned();
                Ok(json!({ "keys": listed.keys, "nextCursor": next }))
            }
            "atomicIncrement" => {
                let mut args = Args::new(args, &["key", "delta"])?;
                let (key, delta) = (args.text("key")?, args.optional_integer("delta")?.unwrap_or(1));
                Ok(json!({ "value": self.kv.increment(scope, key, delta).await? }))
            }
            "cas" | "compareAndSwap" => {
                let mut args = Args::new(args, &["key", "expect", "expected", "set", "value", "ttlSeconds"])?;
                let key = args.text("key")?;
                let expect = args.one_of(&["expect", "expected"])?;
                let set = args.one_of(&["set", "value"])?;
                let ttl_ms = ttl(&mut args)?;
                let swapped = self.kv.compare_and_swap(scope, key, Swap { expect, set, ttl_ms }).await?;
                Ok(json!({ "swapped": swapped.swapped, "actual": swapped.actual }))
            }
            other => Err(unknown_op("kv", other, OPS)),
        }
    }
}

impl Served for ServedKv {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    fn advertise(&self) -> (&'static str, Value) {
        let block = json!({
            "supported": true,
            "maxKeyBytes": self.limits.key_bytes,
            "maxValueBytes": self.limits.value_bytes,
            "maxTtlSeconds": self.limits.kv_ttl_seconds,
            "atomicIncrement": true,
            "compareAndSwap": true,
        });
        ("kvStorage", block)
    }
}
