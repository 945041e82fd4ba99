//! The JSON interface of blobs.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{
    Blobs, CONTENT_TYPE, MAX_LISTED, MAX_PRESIGN_SECONDS, Method, Object, ObjectAddress, ObjectPage,
};
use crate::args::{Args, refuse};
use crate::calendar;
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["put", "get", "delete", "list", "presign"];
/// The default validity of a signed URL: 15 minutes.
const PRESIGN_MS: u64 = 15 * 60 * 1000;

pub struct ServedBlobs {
    blobs: Arc<dyn Blobs>,
    limits: Limits,
    presigned: String,
}

impl ServedBlobs {
    /// Wraps the port. Signed URLs are `presigned` followed by a token.
    pub fn new(blobs: Arc<dyn Blobs>, limits: &Limits, presigned: String) -> Self {
        Self { blobs, limits: limits.clone(), presigned }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        match op {
            "put" => {
                let mut args = Args::new(args, &["bucket", "key", "contentBase64", "contentType"])?;
                let at = self.place(&mut args)?;
                let content = self.content(&args.text("contentBase64")?)?;
                let content_type =
                    args.optional_text("contentType")?.unwrap_or_else(|| CONTENT_TYPE.to_owned());
                let key = at.key.clone();
                self.blobs.put(scope, at, Object { content, content_type }).await?;
                Ok(json!({ "ok": true, "key": key }))
            }
            "get" => {
                let at = self.place(&mut Args::new(args, &["bucket", "key"])?)?;
                Ok(match self.blobs.get(scope, &at).await? {
                    Some(object) => json!({
                        "found": true,
                        "contentBase64": STANDARD.encode(&object.content),
                        "contentType": object.content_type,
                        "size": object.content.len(),
                    }),
                    None => json!({ "found": false }),
                })
            }
            "delete" => {
                let at = self.place(&mut Args::new(args, &["bucket", "key"])?)?;
                Ok(json!({ "deleted": self.blobs.delete(scope, at).await? }))
            }
            "list" => self.list(scope, args).await,
            "presign" => self.presign(scope, args).await,
            other => Err(unknown_op("blob", other, OPS)),
        }
    }

    async fn list(&self, scope: &Scope, args: Map<String, Value>) -> Result<Value, SurfaceError> {
        let mut args = Args::new(args, &["bucket", "prefix", "cursor", "limit"])?;
        let bucket = self.bucket(&mut args)?;
        let prefix = args.optional_text("prefix")?.unwrap_or_default();
        let after = args.optional_text("cursor")?;
        let limit = args.optional_count("limit", 1, MAX_LISTED as u64)?;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(MAX_LISTED);
        let page = self.blobs.list(scope, ObjectPage { bucket, prefix, after, limit }).await?;
        let next = page.objects.last().filter(|_| page.more).map(|last| last.key.clone());
        let keys: Vec<&str> = page.objects.iter().map(|object| object.key.as_str()).collect();
        let objects: Vec<Value> = page
            .objects
            .iter()
            .map(|object| {
                json!({
                    "key": object.key,
                    "size": object.size,
                    "contentType": object.content_type,
                    "putAtMs": object.put_at.0,
                })
            })
            .collect();
        Ok(json!({ "keys": keys, "objects": objects, "nextCursor": next }))
    }

    async fn presign(&self, scope: &Scope, args: Map<String, Value>) -> Result<Value, SurfaceError> {
        let mut args = Args::new(args, &["bucket", "key", "expiresInSeconds", "method"])?;
        let at = self.place(&mut args)?;
        let lifetime = args.lifetime_ms("expiresInSeconds", MAX_PRESIGN_SECONDS, Code::InvalidArgument)?;
        let lifetime = lifetime.unwrap_or(PRESIGN_MS);
        let method = args.optional_text("method")?;
        let method = Method::parse(method.as_deref().unwrap_or("GET"))
            .ok_or_else(|| refuse("`method` must be GET or PUT"))?;
        let Some(presigned) = self.blobs.presign(scope, &at, method, lifetime).await? else {
            return Ok(json!({ "found": false }));
        };
        Ok(json!({
            "found": true,
            "url": format!("{}{}", self.presigned, presigned.token),
            "token": presigned.token,
            "method": method.as_str(),
            "expiresAt": calendar::utc(presigned.expires_at),
            "expiresAtMs": presigned.expires_at.0,
            "expiresInSeconds": lifetime.div_ceil(1000),
        }))
    }

    fn place(&self, args: &mut Args) -> Result<ObjectAddress, SurfaceError> {
        Ok(ObjectAddress { bucket: self.bucket(args)?, key: args.text("key")? })
    }

    /// The bucket; the first one by default.
    fn bucket(&self, args: &mut Args) -> Result<String, SurfaceError> {
        let named = args.optional_text("bucket")?;
        named
            .or_else(|| self.blobs.buckets().first().cloned())
            .ok_or_else(|| refuse("`bucket` is required and must be a string"))
    }

    fn content(&self, encoded: &str) -> Result<Vec<u8>, SurfaceError> {
        let most = self.limits.object_bytes;
        // Four characters encode three bytes; checked before allocation.
        if encoded.len() / 4 * 3 > most + 3 {
            let message = format!("the object is larger than the limit of {most} bytes");
            return Err(SurfaceError::new(Code::BlobObjectTooLarge, message));
        }
        STANDARD.decode(encoded).map_err(|_| refuse("`contentBase64` must be padded base64"))
    }
}

impl Served for ServedBlobs {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    fn advertise(&self) -> (&'static str, Value) {
        let block = json!({
            "supported": true,
            "buckets": self.blobs.buckets(),
            "presignSupported": true,
            "maxObjectBytes": self.limits.object_bytes,
        });
        ("blobStorage", block)
    }
}
