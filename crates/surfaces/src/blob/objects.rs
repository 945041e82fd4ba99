//! The rows of objects, and of the contents that they have.
//!
//! A content is a row before its file is there, and stays one until its file is gone. Rows that no object has are therefore a list of all
//! files that may have to be removed, after a crash too.

use canon::digest::Digest;
use canon::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Listed, ObjectPage, Objects, Place};
use crate::call::{Scope, Tenant};
use crate::embedded::Refused;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::prefix;
use crate::usage::{Usage, signed};

const SURFACE: &str = "blob";

/// What a row says of an object.
pub(super) struct Stored {
    pub(super) digest: Digest,
    pub(super) content_type: String,
}

/// Makes a content known, unless there is no room for the object: nothing is written then.
pub(super) fn announce(
    connection: &Connection,
    tenant: &Tenant,
    limits: &Limits,
    at: &Place,
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

/// Gives an object a content that is on the disk; the content that no object has any more, if there is one.
pub(super) fn put(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    at: &Place,
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

/// By how much the objects of a tenant grow when one of that size takes the place of what is there.
fn growth(old: Option<(i64, Digest)>, size: usize) -> Usage {
    match old {
        Some((old, _)) => Usage::new(0, signed(size) - old),
        None => Usage::new(1, signed(size)),
    }
}

/// Refuses what grows beyond what a tenant may have.
fn admit(growth: Usage, after: Usage, limits: &Limits) -> Result<(), SurfaceError> {
    if growth.items <= 0 && growth.bytes <= 0 || after.within(limits.objects, limits.blob_bytes) {
        return Ok(());
    }
    let (objects, bytes) = (limits.objects, limits.blob_bytes);
    let message =
        format!("a tenant has at most {objects} objects and {bytes} bytes of them; delete some first");
    Err(SurfaceError::new(Code::BlobObjectTooLarge, message))
}

/// Whether the object was there, and the content that no object has any more.
pub(super) fn delete(
    connection: &Connection,
    tenant: &Tenant,
    at: &Place,
) -> Result<(bool, Option<Digest>), Refused> {
    let Some((size, digest)) = size_and_digest(connection, tenant, at)? else { return Ok((false, None)) };
    connection
        .prepare_cached("DELETE FROM objects WHERE tenant = ?1 AND bucket = ?2 AND key = ?3")?
        .execute(params![tenant.as_str(), at.bucket, at.key])?;
    Usage::new(-1, -size).add(connection, tenant, SURFACE)?;
    Ok((true, unshare(connection, tenant, digest)?))
}

pub(super) fn get(connection: &Connection, tenant: &Tenant, at: &Place) -> Result<Option<Stored>, Refused> {
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

/// Some contents that no object has.
pub(super) fn unused(connection: &Connection, most: usize) -> rusqlite::Result<Vec<(String, Digest)>> {
    let mut statement =
        connection.prepare("SELECT tenant, digest FROM contents WHERE objects = 0 LIMIT ?1")?;
    let rows = statement.query_map([most], |row| Ok((row.get(0)?, Digest::from_bytes(row.get(1)?))))?;
    rows.collect()
}

/// Whether no object has that content.
pub(super) fn is_unused(connection: &Connection, tenant: &Tenant, digest: Digest) -> Result<bool, Refused> {
    let objects: Option<i64> = connection
        .prepare_cached("SELECT objects FROM contents WHERE tenant = ?1 AND digest = ?2")?
        .query_row(params![tenant.as_str(), digest.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(objects == Some(0))
}

/// Forgets a content whose file is gone.
pub(super) fn forget(connection: &Connection, tenant: &Tenant, digest: Digest) -> Result<(), Refused> {
    connection
        .prepare_cached("DELETE FROM contents WHERE tenant = ?1 AND digest = ?2 AND objects = 0")?
        .execute(params![tenant.as_str(), digest.as_bytes()])?;
    Ok(())
}

fn size_and_digest(
    connection: &Connection,
    tenant: &Tenant,
    at: &Place,
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
