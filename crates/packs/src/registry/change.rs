//! Changes to a registry.

use std::collections::BTreeMap;

use super::keychain::ChainKey;
use super::record::{Deprecation, FORMAT, PackRecord, VersionRecord, Yank};
use super::{
    PublishRefusal, Published, Publisher, Registry, RegistryError, RegistryErrorCode, RegistryStore,
    UNPUBLISH_WINDOW_MS, known, version_not_found,
};
use crate::name::{PackName, Scope};
use crate::publish::{Accepted, PublishError, PublishErrorCode};
use crate::version::Version;
use canon::time::Timestamp;

impl<S: RegistryStore> Registry<S> {
    /// Publishes an accepted publication of [`check`](crate::publish::check).
    ///
    /// # Errors
    /// `forbidden` if another publisher owns the namespace, `conflict` if the version exists with different contents,
    /// `signature_invalid` if the pack has keys and no valid one signed this, or store errors.
    pub fn publish(
        &self,
        accepted: &Accepted,
        archive: &[u8],
        publisher: Publisher<'_>,
        now: Timestamp,
    ) -> Result<Published, PublishRefusal> {
        let common = &accepted.manifest.common;
        let (name, version) = (&common.name, &common.version);
        let mut packs = self.write();
        may_publish(&packs, name, publisher)?;
        let mut record = packs.get(name).cloned().unwrap_or_else(|| PackRecord {
            format: FORMAT,
            name: name.clone(),
            owner: publisher.id.to_owned(),
            versions: Vec::new(),
            withdrawn: Vec::new(),
            keychain: Vec::new(),
        });
        let conflict = || {
            PublishError::new(
                PublishErrorCode::Conflict,
                format!("{name}@{version} was already published with different contents"),
            )
        };
        if let Some(there) = record.version(version) {
            return if there.integrity.is(accepted.integrity) {
                Ok(Published::Identical)
            } else {
                Err(conflict().into())
            };
        }
        // An unpublished version may return, but only with the same contents.
        let withdrawn = record.withdrawn.iter().find(|(withdrawn, _)| withdrawn == version);
        if withdrawn.is_some_and(|(_, integrity)| !integrity.is(accepted.integrity)) {
            return Err(conflict().into());
        }
        record.withdrawn.retain(|(withdrawn, _)| withdrawn != version);
        admit_key(&mut record, accepted, now)?;
        record.versions.push(VersionRecord {
            version: version.clone(),
            kind: accepted.manifest.kind(),
            integrity: accepted.integrity,
            size: archive.len() as u64,
            published_at: now,
            publisher: publisher.id.to_owned(),
            manifest: accepted.manifest.document().clone(),
            signature: accepted.signature.as_ref().map(VersionRecord::encode_signature),
            signing_key: accepted.signing_key.clone(),
            deprecated: None,
            yanked: None,
        });
        record.versions.sort_by(|left, right| left.version.cmp(&right.version));
        // The archive is stored first: a document never refers to missing bytes.
        self.store.put(accepted.integrity, archive)?;
        self.store.save(&record)?;
        packs.insert(name.clone(), record);
        Ok(Published::New)
    }

    /// Unpublishes a version, within 72 hours.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_version_not_found`, `forbidden`, `unpublish_window_expired`, or store errors.
    pub fn unpublish(
        &self,
        name: &PackName,
        version: &Version,
        publisher: Publisher<'_>,
        now: Timestamp,
    ) -> Result<(), RegistryError> {
        let mut packs = self.write();
        let mut record = owned(&packs, name, publisher)?.clone();
        let there = record.version(version).ok_or_else(|| version_not_found(name, version))?;
        if now.since(there.published_at) > UNPUBLISH_WINDOW_MS {
            let message = format!(
                "{name}@{version} was published more than 72 hours ago; deprecate or yank it instead"
            );
            return Err(RegistryError::new(RegistryErrorCode::UnpublishWindowExpired, message));
        }
        let integrity = there.integrity;
        record.versions.retain(|there| there.version != *version);
        record.withdrawn.push((version.clone(), integrity));
        self.store.save(&record)?;
        packs.insert(name.clone(), record);
        // Another pack may have the same bytes.
        let used =
            packs.values().flat_map(|record| &record.versions).any(|version| version.integrity == integrity);
        if used { Ok(()) } else { self.store.forget(integrity) }
    }

    /// Deprecates a version, or with `None` reverts it. Idempotent.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_version_not_found`, `forbidden`, or store errors.
    pub fn deprecate(
        &self,
        name: &PackName,
        version: &Version,
        publisher: Publisher<'_>,
        deprecation: Option<Deprecation>,
    ) -> Result<(), RegistryError> {
        let deprecation = deprecation.map(|notice| Deprecation {
            reason: bounded(&notice.reason, 512),
            superseded_by: notice.superseded_by.map(|text| bounded(&text, 256)),
        });
        self.change(name, version, publisher, |there| there.deprecated.clone_from(&deprecation))
    }

    /// Yanks a version from ranges, or with `None` restores it. It can still be downloaded by version.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_version_not_found`, `forbidden`, or store errors.
    pub fn yank(
        &self,
        name: &PackName,
        version: &Version,
        publisher: Publisher<'_>,
        yank: Option<Yank>,
    ) -> Result<(), RegistryError> {
        let yank = yank.map(|notice| Yank { reason: bounded(&notice.reason, 512) });
        self.change(name, version, publisher, |there| there.yanked.clone_from(&yank))
    }

    /// Removes everything and returns the number of versions. For test catalogs.
    ///
    /// # Errors
    /// Store errors.
    pub fn reset(&self) -> Result<usize, RegistryError> {
        let mut packs = self.write();
        let cleared = packs.values().map(|record| record.versions.len()).sum();
        self.store.clear()?;
        packs.clear();
        Ok(cleared)
    }

    fn change(
        &self,
        name: &PackName,
        version: &Version,
        publisher: Publisher<'_>,
        change: impl FnOnce(&mut VersionRecord),
    ) -> Result<(), RegistryError> {
        let mut packs = self.write();
        let before = owned(&packs, name, publisher)?;
        let mut record = before.clone();
        change(record.version_mut(version).ok_or_else(|| version_not_found(name, version))?);
        if record == *before {
            return Ok(());
        }
        self.store.save(&record)?;
        packs.insert(name.clone(), record);
        Ok(())
    }
}

/// A namespace belongs to its first publisher.
fn may_publish(
    packs: &BTreeMap<PackName, PackRecord>,
    name: &PackName,
    publisher: Publisher<'_>,
) -> Result<(), PublishError> {
    let forbidden = |message: String| Err(PublishError::new(PublishErrorCode::Forbidden, message));
    if name.scope() == Scope::Core && !publisher.may_publish_core {
        return forbidden("names in `core` are reserved for the working group".to_owned());
    }
    // All names of an owner have the same prefix, so they are adjacent.
    let prefix = format!("{}.", name.owner());
    let neighbours = packs
        .range::<PackName, _>(name..)
        .take_while(|(other, _)| other.as_str().starts_with(&prefix))
        .chain(
            packs
                .range::<PackName, _>(..name)
                .rev()
                .take_while(|(other, _)| other.as_str().starts_with(&prefix)),
        );
    for (_, record) in neighbours.take(1) {
        if record.owner != publisher.id {
            return forbidden(format!("`{}` belongs to another publisher", name.owner()));
        }
    }
    Ok(())
}

pub(super) fn owned<'a>(
    packs: &'a BTreeMap<PackName, PackRecord>,
    name: &PackName,
    publisher: Publisher<'_>,
) -> Result<&'a PackRecord, RegistryError> {
    let record = known(packs, name)?;
    if record.owner != publisher.id {
        return Err(RegistryError::new(
            RegistryErrorCode::Forbidden,
            format!("{name} belongs to another publisher"),
        ));
    }
    Ok(record)
}

/// The first signature sets the key of a pack; later versions must be signed by the valid key.
fn admit_key(record: &mut PackRecord, accepted: &Accepted, now: Timestamp) -> Result<(), PublishError> {
    let invalid = |message: &str| Err(PublishError::new(PublishErrorCode::SignatureInvalid, message));
    let Some(current) = record.keychain.last() else {
        if let (Some(id), Some(key)) = (&accepted.signing_key, accepted.public_key) {
            record.keychain.push(ChainKey::first(id.clone(), key, now));
        }
        return Ok(());
    };
    match accepted.public_key {
        None => invalid("earlier versions of this pack are signed, but this one is not"),
        Some(key) if current.is(key) => Ok(()),
        Some(_) => invalid("the key is not the valid key of this pack; rotate the keys first"),
    }
}

fn bounded(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
