//! The JSON interface of the cache.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{Cache, TTL_MS};
use crate::args::Args;
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["get", "put", "set", "evict", "delete"];

pub struct ServedCache {
    cache: Arc<dyn Cache>,
    limits: Limits,
}

impl ServedCache {
    pub fn new(cache: Arc<dyn Cache>, limits: &Limits) -> Self {
        Self { cache, limits: limits.clone() }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        match op {
            "get" => {
                let key = Args::new(args, &["key"])?.text("key")?;
                Ok(match self.cache.get(scope, &key).await? {
                    Some(entry) => json!({
                        "hit": true,
                        "found": true,
                        "value": entry.value,
                        "ttlRemainingMs": entry.ttl_remaining_ms,
                    }),
                    None => json!({ "hit": false, "found": false, "value": null, "ttlRemainingMs": null }),
                })
            }
            "put" | "set" => {
                let mut args = Args::new(args, &["key", "value", "ttlSeconds"])?;
                let (key, value) = (args.text("key")?, args.value("value")?);
                let most = self.limits.cache_ttl_seconds;
                let ttl = args.lifetime_ms("ttlSeconds", most, Code::CacheTtlExceedsMax)?.unwrap_or(TTL_MS);
                self.cache.put(scope, key, value, ttl).await?;
                Ok(json!({ "ok": true }))
            }
            "evict" | "delete" => {
                let key = Args::new(args, &["key"])?.text("key")?;
                let existed = self.cache.evict(scope, key).await?;
                Ok(json!({ "ok": true, "existed": existed }))
            }
            other => Err(unknown_op("cache", other, OPS)),
        }
    }
}

impl Served for ServedCache {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    fn advertise(&self) -> (&'static str, Value) {
        let block = json!({
            "supported": true,
            "maxValueBytes": self.limits.value_bytes,
            "maxTtlSeconds": self.limits.cache_ttl_seconds,
        });
        ("cache", block)
    }
}
