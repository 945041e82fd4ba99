//! Rows of objects and their contents.
//!
//! A content row exists before its file and until the file is gone. Unreferenced rows are therefore a list of all files
//! that may have to be removed, also after a crash.

use canon::digest::Digest;
use canon::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Listed, ObjectAddress, ObjectPage, Objects};
use crate::call::{Scope, Tenant};
use crate::embedded::Refused;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::prefix;
use crate::usage::{Usage, signed};

const SURFACE: &str = "blob";

/// The row of an object.
pub(super) struct Stored {
    pub(super) digest: Digest,
    pub(super) content_type: String,
}

/// Creates the content row, unless the quota is exceeded: then nothing is written.
pub(super) fn announce(
    connection: &Connection,
    tenant: &Tenant,
    limits: &Limits,
    at: &ObjectAddress,
    digest: Digest,
    size: usize,
) -> Result<(), Refused> {
    let growth = growth(size_and_digest(connection, tenant, at)?, size);
    let usage = Usage::of(connection, tenant.as_str(), SURFACE)?;
    admit(growth, Usage::new(usage.items + growth.items, usage.bytes.saturating_add(growth.bytes)), limits)?;
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO contents (tenant, digest, size, objects) VALUES (?1, ?2, ?3, 0)",
        )?
        .execute(params![tenant.as_str(), digest.as_bytes(), signed(size)])?;
    Ok(())
}

/// References a durable content from an object; returns the content that became unreferenced, if any.
pub(super) fn put(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    at: &ObjectAddress,
    stored: &Stored,
    size: usize,
) -> Result<Option<Digest>, Refused> {
    let tenant = &scope.tenant;
    let old = size_and_digest(connection, tenant, at)?;
    let growth = growth(old, size);
    let usage = growth.add(connection, tenant, SURFACE)?;
    admit(growth, usage, limits)?;
    connection
        .prepare_cached(
            "INSERT INTO objects (tenant, bucket, key, digest, size, content_type, put_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (tenant, bucket, key) DO UPDATE SET digest = excluded.digest, size = excluded.size,
                 content_type = excluded.content_type, put_at = excluded.put_at",
        )?
        .execute(params![
            tenant.as_str(),
            at.bucket,
            at.key,
            stored.digest.as_bytes(),
            signed(size),
            stored.content_type,
            scope.at()
        ])?;
    share(connection, tenant, stored.digest, 1)?;
    match old {
        Some((_, digest)) => unshare(connection, tenant, digest),
        None => Ok(None),
    }
}

/// The growth of a tenant's usage when an object of that size replaces the existing one.
fn growth(old: Option<(i64, Digest)>, size: usize) -> Usage {
    match old {
        Some((old, _)) => Usage::new(0, signed(size) - old),
        None => Usage::new(1, signed(size)),
    }
}

/// Checks the quota of a tenant.
fn admit(growth: Usage, after: Usage, limits: &Limits) -> Result<(), SurfaceError> {
    if growth.items <= 0 && growth.bytes <= 0 || after.within(limits.objects, limits.blob_bytes) {
        return Ok(());
    }
    let (objects, bytes) = (limits.objects, limits.blob_bytes);
    let message =
        format!("the tenant's quota is {objects} objects and {bytes} bytes; delete some objects first");
    Err(SurfaceError::new(Code::BlobObjectTooLarge, message))
}

/// Whether the object existed, and the content that became unreferenced.
pub(super) fn delete(
    connection: &Connection,
    tenant: &Tenant,
    at: &ObjectAddress,
) -> Result<(bool, Option<Digest>), Refused> {
    let Some((size, digest)) = size_and_digest(connection, tenant, at)? else { return Ok((false, None)) };
    connection
        .prepare_cached("DELETE FROM objects WHERE tenant = ?1 AND bucket = ?2 AND key = ?3")?
        .execute(params![tenant.as_str(), at.bucket, at.key])?;
    Usage::new(-1, -size).add(connection, tenant, SURFACE)?;
    Ok((true, unshare(connection, tenant, digest)?))
}

pub(super) fn get(
    connection: &Connection,
    tenant: &Tenant,
    at: &ObjectAddress,
) -> Result<Option<Stored>, Refused> {
    let found = connection
        .prepare_cached(
            "SELECT digest, content_type FROM objects WHERE tenant = ?1 AND bucket = ?2 AND key = ?3",
        )?
        .query_row(params![tenant.as_str(), at.bucket, at.key], |row| {
            Ok(Stored { digest: Digest::from_bytes(row.get(0)?), content_type: row.get(1)? })
        })
        .optional()?;
    Ok(found)
}

pub(super) fn list(connection: &Connection, tenant: &Tenant, page: &ObjectPage) -> rusqlite::Result<Objects> {
    let (from, is_behind) = match &page.after {
        Some(after) if after.as_str() >= page.prefix.as_str() => (after.as_str(), true),
        _ => (page.prefix.as_str(), false),
    };
    let mut statement = connection.prepare_cached(
        "SELECT key, size, content_type, put_at FROM objects WHERE tenant = ?1 AND bucket = ?2 AND key >= ?3
             AND (?4 IS NULL OR key < ?4) AND (NOT ?5 OR key > ?3) ORDER BY key LIMIT ?6",
    )?;
    let until = prefix::successor(&page.prefix);
    let bound = params![tenant.as_str(), page.bucket, from, until, is_behind, page.limit + 1];
    let rows = statement.query_map(bound, |row| {
        let (key, size, content_type) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Listed { key, size, content_type, put_at: Timestamp(row.get(3)?) })
    })?;
    let mut objects = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let more = objects.len() > page.limit;
    objects.truncate(page.limit);
    Ok(Objects { objects, more })
}

/// Some unreferenced contents.
pub(super) fn unused(connection: &Connection, most: usize) -> rusqlite::Result<Vec<(String, Digest)>> {
    let mut statement =
        connection.prepare("SELECT tenant, digest FROM contents WHERE objects = 0 LIMIT ?1")?;
    let rows = statement.query_map([most], |row| Ok((row.get(0)?, Digest::from_bytes(row.get(1)?))))?;
    rows.collect()
}

/// Whether a content is unreferenced.
pub(super) fn is_unused(connection: &Connection, tenant: &Tenant, digest: Digest) -> Result<bool, Refused> {
    let objects: Option<i64> = connection
        .prepare_cached("SELECT objects FROM contents WHERE tenant = ?1 AND digest = ?2")?
        .query_row(params![tenant.as_str(), digest.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(objects == Some(0))
}

/// Removes the row of a content whose file is gone.
pub(super) fn forget(connection: &Connection, tenant: &Tenant, digest: Digest) -> Result<(), Refused> {
    connection
        .prepare_cached("DELETE FROM contents WHERE tenant = ?1 AND digest = ?2 AND objects = 0")?
        .execute(params![tenant.as_str(), digest.as_bytes()])?;
    Ok(())
}

fn size_and_digest(
    connection: &Connection,
    tenant: &Tenant,
    at: &ObjectAddress,
) -> rusqlite::Result<Option<(i64, Digest)>> {
    connection
        .prepare_cached("SELECT size, digest FROM objects WHERE tenant = ?1 AND bucket = ?2 AND key = ?3")?
        .query_row(params![tenant.as_str(), at.bucket, at.key], |row| {
            Ok((row.get(0)?, Digest::from_bytes(row.get(1)?)))
        })
        .optional()
}

fn share(connection: &Connection, tenant: &Tenant, digest: Digest, more: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "UPDATE contents SET objects = objects + ?3 WHERE tenant = ?1 AND digest = ?2 RETURNING objects",
        )?
        .query_row(params![tenant.as_str(), digest.as_bytes(), more], |row| row.get(0))
}

fn unshare(connection: &Connection, tenant: &Tenant, digest: Digest) -> Result<Option<Digest>, Refused> {
    Ok((share(connection, tenant, digest, -1)? == 0).then_some(digest))
}
