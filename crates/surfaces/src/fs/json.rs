//! The JSON interface of files.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::embedded::{folder_path, not_base64};
use super::{Files, Kind, RelativePath, Written};
use crate::args::{Args, refuse};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["read", "write", "delete", "stat", "list"];

pub struct ServedFiles {
    files: Arc<dyn Files>,
    limits: Limits,
}

impl ServedFiles {
    pub fn new(files: Arc<dyn Files>, limits: &Limits) -> Self {
        Self { files, limits: limits.clone() }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        match op {
            "read" => {
                let mut args = Args::new(args, &["path", "encoding"])?;
                let (path, encoding) = (path(&mut args)?, Encoding::of(&mut args)?);
                let content = self.files.read(scope, path).await?;
                let size = content.len();
                Ok(match encoding {
                    None => json!({ "contentBase64": STANDARD.encode(&content), "size": size }),
                    Some(encoding) => json!({ "content": encoding.text(content)?, "size": size }),
                })
            }
            "write" => {
                let mut args = Args::new(args, &["path", "contentBase64", "createOnly"])?;
                let (path, content) = (path(&mut args)?, args.text("contentBase64")?);
                let create_only = args.flag("createOnly")?;
                let content = self.content(&content)?;
                let shown = path.as_str().to_owned();
                Ok(match self.files.write(scope, path, content, create_only).await? {
                    Written::Done => json!({ "ok": true, "path": shown }),
                    Written::AlreadyExists => json!({ "ok": false, "reason": "already_exists" }),
                })
            }
            "delete" => {
                let path = path(&mut Args::new(args, &["path"])?)?;
                Ok(json!({ "deleted": self.files.delete(scope, path).await? }))
            }
            "stat" => {
                let path = path(&mut Args::new(args, &["path"])?)?;
                Ok(match self.files.stat(scope, path).await? {
                    Some(stat) => json!({
                        "found": true,
                        "size": stat.size,
                        "isFile": stat.kind == Kind::File,
                        "isDirectory": stat.kind == Kind::Folder,
                        "mtimeMs": stat.mtime_ms,
                    }),
                    None => json!({ "found": false }),
                })
            }
            "list" => {
                let mut args = Args::new(args, &["path", "cursor"])?;
                let (path, after) =
                    (folder_path(args.optional_text("path")?.as_deref())?, args.optional_text("cursor")?);
                let listed = self.files.list(scope, path, after).await?;
                let next = listed.entries.last().filter(|_| listed.more).map(|(name, _)| name.clone());
                let entry = |(name, kind): (String, Kind)| json!({ "name": name, "isFile": kind == Kind::File, "isDirectory": kind == Kind::Folder });
                let entries: Vec<Value> = listed.entries.into_iter().map(entry).collect();
                Ok(json!({ "entries": entries, "nextCursor": next }))
            }
            other => Err(unknown_op("fs", other, OPS)),
        }
    }

    fn content(&self, encoded: &str) -> Result<Vec<u8>, SurfaceError> {
        let most = self.limits.file_bytes;
        // Four characters encode three bytes; checked before allocation.
        if encoded.len() / 4 * 3 > most + 3 {
            return Err(SurfaceError::new(
                Code::FileTooLarge,
                format!(
                    "the file is larger than the limit \
                of {most} bytes"
                ),
            ));
        }
        STANDARD.decode(encoded).map_err(|_| not_base64())
    }
}

/// The requested content encoding.
enum Encoding {
    Base64,
    Utf8,
}

impl Encoding {
    fn of(args: &mut Args) -> Result<Option<Self>, SurfaceError> {
        match args.optional_text("encoding")?.as_deref() {
            None => Ok(None),
            Some("base64") => Ok(Some(Self::Base64)),
            Some("utf8" | "utf-8") => Ok(Some(Self::Utf8)),
            Some(_) => Err(refuse("`encoding` must be base64 or utf8")),
        }
    }

    fn text(self, content: Vec<u8>) -> Result<String, SurfaceError> {
        match self {
            Self::Base64 => Ok(STANDARD.encode(&content)),
            Self::Utf8 => String::from_utf8(content)
                .map_err(|_| refuse("the file is not valid UTF-8; read it with `encoding` base64")),
        }
    }
}

fn path(args: &mut Args) -> Result<RelativePath, SurfaceError> {
    RelativePath::parse(&args.text("path")?)
}

impl Served for ServedFiles {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    fn advertise(&self) -> (&'static str, Value) {
        let block = json!({
            "supported": true,
            // Paths are relative to the tenant's own directory. Where that is on the disk is not disclosed.
            "sandboxRoot": "/",
            "maxFileSizeBytes": self.limits.file_bytes,
        });
        ("fs", block)
    }
}
