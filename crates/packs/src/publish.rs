//! Judging what somebody wants to publish.
//!
//! [`check`] is pure: an address, a few headers and a body go in, and out comes a pack that may be stored, or the first thing that is
//! wrong, in the order address, body, archive, manifest, integrity. Who may publish, and whether the version is there
//! already, only the [registry](crate::registry) knows; it has the last two codes of the table.

use serde_json::{Map, Value};

use crate::archive::{Archive, ArchiveError, Limits};
use crate::error::PackErrorCode;
use crate::integrity::Integrity;
use crate::manifest::{Language, MANIFEST_PATH, Manifest, ManifestError, ManifestErrorCode};
use crate::name::{NameError, PackName, Scope};
use crate::path::EntryPath;
use crate::signature::{self, PublicKey, TrustedKey};
use crate::version::{self, Version};

/// The most bytes of the file that a runtime loads.
pub const MAX_ENTRY_BYTES: usize = 5 << 20;

canon::error_codes! {
    /// Why a pack is not published.
    pub enum PublishErrorCode {
        /// The name in the address is none.
        InvalidPackName => "invalid_pack_name",
        /// The scope is unknown, or not one of this registry.
        InvalidPackScope => "invalid_pack_scope",
        /// The version in the address is none.
        InvalidVersion => "invalid_version",
        /// There is no body, or it is JSON.
        InvalidBody => "invalid_body",
        /// The body is no gzip.
        TarballGunzipFailed => "tarball_gunzip_failed",
        /// The archive is larger than a bound.
        TarballTooLarge => "tarball_too_large",
        /// What was unpacked is no tar.
        TarballTarParseFailed => "tarball_tar_parse_failed",
        /// An entry leads out of the pack.
        TarballPathTraversal => "tarball_path_traversal",
        /// There is no `pack.json`.
        TarballManifestMissing => "tarball_manifest_missing",
        /// `pack.json` is larger than a bound.
        TarballManifestTooLarge => "tarball_manifest_too_large",
        /// `pack.json` is no JSON.
        TarballManifestNotJson => "tarball_manifest_not_json",
        /// The file that the runtime loads is not there.
        TarballEntryMissing => "tarball_entry_missing",
        /// The file that the runtime loads is larger than a bound.
        TarballEntryTooLarge => "tarball_entry_too_large",
        /// The manifest breaks a rule.
        InvalidManifest => "invalid_manifest",
        /// `engines.openwop` is no range of versions.
        InvalidEnginesRange => "invalid_engines_range",
        /// The manifest has another name than the address.
        ManifestNameMismatch => "manifest_name_mismatch",
        /// The manifest has another version than the address.
        ManifestVersionMismatch => "manifest_version_mismatch",
        /// The registry does not take this language.
        UnsupportedRuntime => "unsupported_runtime",
        /// A schema that the manifest refers to is not there.
        SchemaRefMissing => "schema_ref_missing",
        /// The body is not the one that the header announces.
        IntegrityFailure => "pack_integrity_failure",
        /// The signature does not hold.
        SignatureInvalid => "signature_invalid",
        /// The caller may not publish there.
        Forbidden => "forbidden",
        /// That version is there already, with other bytes.
        Conflict => "conflict",
    }
}

impl PublishErrorCode {
    /// The status of HTTP that goes with it.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::Conflict => 409,
            _ => 400,
        }
    }
}

/// Why a pack is not published: a code of the table, what is wrong, and a few details.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct PublishError {
    /// The code.
    pub code: PublishErrorCode,
    /// What is wrong.
    pub message: String,
    /// What a program may want to know beside the code.
    pub details: Map<String, Value>,
}

impl PublishError {
    pub(crate) fn new(code: PublishErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The same in the one envelope of errors.
    pub fn envelope(&self) -> canon::error::Envelope {
        let envelope = canon::error::Envelope::new(self.code, &self.message)
            .suggest("Correct it, make the archive again and publish it again; `interlock pack check` says what is wrong.");
        self.details.iter().fold(envelope, |envelope, (key, value)| envelope.detail(key, value.clone()))
    }
}

/// A request to publish, as it came.
#[derive(Clone, Copy, Debug)]
pub struct PublishRequest<'a> {
    /// The name in the address.
    pub name: &'a str,
    /// The version in the address.
    pub version: &'a str,
    /// The header `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The header `X-Pack-Sha256`.
    pub sha256: Option<&'a str>,
    /// The header `X-Pack-Signing-Method`: `manual`, `sigstore` or `none`.
    pub signing_method: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// What a registry takes.
#[derive(Clone, Debug)]
pub struct PublishRules {
    /// The scopes that it holds. Never [`Scope::Local`].
    pub scopes: Vec<Scope>,
    /// The languages that it takes.
    pub languages: Vec<Language>,
    /// The bounds of archives.
    pub limits: Limits,
    /// The keys that it knows. A signature of another key is held to the key beside it.
    pub keys: Vec<TrustedKey>,
}

impl PublishRules {
    /// A registry of this host alone: every scope but `local`, every language.
    pub fn private() -> Self {
        Self {
            scopes: vec![Scope::Core, Scope::Vendor, Scope::Community, Scope::Private],
            languages: vec![
                Language::Javascript,
                Language::Python,
                Language::Go,
                Language::Wasm,
                Language::WasmComponent,
                Language::Remote,
            ],
            limits: Limits::DEFAULT,
            keys: Vec::new(),
        }
    }

    /// A registry for everybody: as [`PublishRules::private`], without the scope `private`.
    pub fn public() -> Self {
        let mut rules = Self::private();
        rules.scopes.retain(|scope| *scope != Scope::Private);
        rules
    }
}

/// A pack that may be stored.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Its manifest.
    pub manifest: Manifest,
    /// The bytes of `pack.json`, as they are in the archive.
    pub manifest_bytes: Vec<u8>,
    /// The digest of the archive.
    pub integrity: Integrity,
    /// The signature over `pack.json`, where there is one.
    pub signature: Option<[u8; 64]>,
    /// The id or fingerprint of the key that made it.
    pub signing_key: Option<String>,
    /// That key.
    pub public_key: Option<PublicKey>,
}

/// Judges a request.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(request: &PublishRequest<'_>, rules: &PublishRules) -> Result<Accepted, PublishError> {
    let (name, version) = address(request, rules)?;
    body(request)?;
    let archive = unpacked(request.body, &rules.limits)?;
    let (manifest, manifest_bytes) = manifest(&archive)?;
    same(&manifest, &name, &version)?;
    files(&manifest, &archive, rules)?;
    let integrity = Integrity::of(request.body);
    announced(request.sha256, integrity)?;
    let signed = signed(request, &manifest, &manifest_bytes, &archive, rules)?;
    let (signature, key) =
        signed.map_or((None, None), |(signature, id, key)| (Some(signature), Some((id, key))));
    let (signing_key, public_key) = key.map_or((None, None), |(id, key)| (Some(id), Some(key)));
    Ok(Accepted { manifest, manifest_bytes, integrity, signature, signing_key, public_key })
}

/// The name and the version of an address, for reading as for publishing.
///
/// # Errors
/// `invalid_pack_name`, `invalid_pack_scope` or `invalid_version`.
pub fn read_address(name: &str, version: &str) -> Result<(PackName, Version), PublishError> {
    let name = PackName::parse(name).map_err(|error| match error {
        NameError::Form(_) => PublishError::new(PublishErrorCode::InvalidPackName, error.to_string()),
        NameError::Scope(_) => PublishError::new(PublishErrorCode::InvalidPackScope, error.to_string()),
    })?;
    if name.scope() == Scope::Local {
        return Err(PublishError::new(
            PublishErrorCode::InvalidPackScope,
            "names in `local` are in no registry",
        ));
    }
    let version = version::parse(version).ok_or_else(|| {
        let shown = crate::name::shown(version);
        PublishError::new(
            PublishErrorCode::InvalidVersion,
            format!("`{shown}` is no version of SemVer 2.0.0, such as `1.0.0`"),
        )
    })?;
    Ok((name, version))
}

fn address(request: &PublishRequest<'_>, rules: &PublishRules) -> Result<(PackName, Version), PublishError> {
    let (name, version) = read_address(request.name, request.version)?;
    if !rules.scopes.contains(&name.scope()) {
        let message = format!("this registry takes no packs in the scope `{}`", name.scope().as_str());
        return Err(PublishError::new(PublishErrorCode::InvalidPackScope, message));
    }
    Ok((name, version))
}

fn body(request: &PublishRequest<'_>) -> Result<(), PublishError> {
    let invalid = |message: &str| Err(PublishError::new(PublishErrorCode::InvalidBody, message));
    if request.body.is_empty() {
        return invalid("the body is empty; it has to be the archive");
    }
    let media = request.content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        return invalid("the body is JSON; it has to be the archive");
    }
    Ok(())
}

fn unpacked(bytes: &[u8], limits: &Limits) -> Result<Archive, PublishError> {
    Archive::read(bytes, limits).map_err(|error| {
        let code = match &error {
            ArchiveError::Gzip => PublishErrorCode::TarballGunzipFailed,
            ArchiveError::TooLarge { .. } => PublishErrorCode::TarballTooLarge,
            ArchiveError::Tar(_) | ArchiveError::Collision { .. } => PublishErrorCode::TarballTarParseFailed,
            ArchiveError::Traversal { .. } => PublishErrorCode::TarballPathTraversal,
        };
        PublishError::new(code, error.to_string())
    })
}

fn manifest(archive: &Archive) -> Result<(Manifest, Vec<u8>), PublishError> {
    let Some(bytes) = archive.file(MANIFEST_PATH) else {
        return Err(PublishError::new(
            PublishErrorCode::TarballManifestMissing,
            "there is no pack.json at the root of the archive",
        ));
    };
    let manifest = Manifest::read(bytes).map_err(|error| {
        let (code, first) = match &error {
            ManifestError::TooLarge { .. } => (PublishErrorCode::TarballManifestTooLarge, None),
            ManifestError::NotJson(_) => (PublishErrorCode::TarballManifestNotJson, None),
            ManifestError::Problems(problems) => {
                let first = problems.first();
                let code = match first.map(|problem| problem.code) {
                    Some(ManifestErrorCode::EnginesRange) => PublishErrorCode::InvalidEnginesRange,
                    _ => PublishErrorCode::InvalidManifest,
                };
                (code, first.cloned())
            }
        };
        let refused = PublishError::new(code, error.to_string());
        match first {
            Some(problem) => refused.detail("pointer", problem.pointer).detail("rule", problem.code.as_str()),
            None => refused,
        }
    })?;
    Ok((manifest, bytes.to_vec()))
}

fn same(manifest: &Manifest, name: &PackName, version: &Version) -> Result<(), PublishError> {
    let common = &manifest.common;
    if common.name != *name {
        let message = format!("the address says {name}, and pack.json says {}", common.name);
        return Err(
            PublishError::new(PublishErrorCode::ManifestNameMismatch, message).detail("pointer", "/name")
        );
    }
    if common.version != *version {
        let message = format!("the address says {version}, and pack.json says {}", common.version);
        return Err(PublishError::new(PublishErrorCode::ManifestVersionMismatch, message)
            .detail("pointer", "/version"));
    }
    Ok(())
}

/// The files that the manifest refers to are there.
fn files(manifest: &Manifest, archive: &Archive, rules: &PublishRules) -> Result<(), PublishError> {
    if let Some(runtime) = manifest.runtime() {
        if !rules.languages.contains(&runtime.language) {
            let message = format!("this registry takes no packs in {}", runtime.language.as_str());
            return Err(PublishError::new(PublishErrorCode::UnsupportedRuntime, message)
                .detail("pointer", "/runtime/language"));
        }
        // A remote runtime is reached, not loaded.
        if runtime.language != Language::Remote {
            entry(&runtime.entry, "/runtime/entry", archive)?;
        }
    }
    if let crate::manifest::Content::FrontendPlugin(plugins) = &manifest.content {
        for (place, plugin) in plugins.iter().enumerate() {
            entry(&plugin.entry, &format!("/uiPlugins/{place}/entry"), archive)?;
        }
    }
    for (pointer, reference) in manifest.file_refs() {
        let there = EntryPath::parse(reference).ok().is_some_and(|path| archive.file_at(&path).is_some());
        if !there {
            let message = format!("`{}` is not in the archive", crate::name::shown(reference));
            return Err(
                PublishError::new(PublishErrorCode::SchemaRefMissing, message).detail("pointer", pointer)
            );
        }
    }
    Ok(())
}

fn entry(path: &str, pointer: &str, archive: &Archive) -> Result<(), PublishError> {
    let shown = crate::name::shown(path);
    match archive.file(path) {
        None => Err(PublishError::new(
            PublishErrorCode::TarballEntryMissing,
            format!("`{shown}` is not in the archive"),
        )
        .detail("pointer", pointer)),
        Some(content) if content.len() > MAX_ENTRY_BYTES => {
            let message =
                format!("`{shown}` has {} bytes, and may have at most {MAX_ENTRY_BYTES}", content.len());
            Err(PublishError::new(PublishErrorCode::TarballEntryTooLarge, message).detail("pointer", pointer))
        }
        Some(_) => Ok(()),
    }
}

fn announced(header: Option<&str>, integrity: Integrity) -> Result<(), PublishError> {
    let Some(header) = header else { return Ok(()) };
    let failed = |message: String| PublishError::new(PublishErrorCode::IntegrityFailure, message);
    let announced = Integrity::parse_header(header).map_err(|error| failed(error.to_string()))?;
    if announced.is(integrity) {
        return Ok(());
    }
    Err(failed(format!("the body is {integrity}, and the header says {announced}")))
}

/// A signature, the name of its key, and the key.
type Signed = Option<([u8; 64], String, PublicKey)>;

fn signed(
    request: &PublishRequest<'_>,
    manifest: &Manifest,
    manifest_bytes: &[u8],
    archive: &Archive,
    rules: &PublishRules,
) -> Result<Signed, PublishError> {
    let invalid = |message: String| PublishError::new(PublishErrorCode::SignatureInvalid, message);
    let found = crate::trust::signature_of(manifest, archive).map_err(|error| invalid(error.to_string()))?;
    match (request.signing_method, found) {
        (None | Some("none"), None) => return Ok(None),
        (Some("manual"), None) => {
            return Err(invalid("the header says `manual`, and there is no signature".to_owned()));
        }
        (Some("sigstore"), _) => {
            return Err(invalid("signatures of sigstore are not verified here".to_owned()));
        }
        (Some(other), None) => {
            return Err(invalid(format!("`{}` is no way of signing", crate::name::shown(other))));
        }
        (_, Some(_)) => {}
    }
    let Some(found) = found else { return Ok(None) };
    let raw = signature::raw(found).map_err(|error| invalid(error.to_string()))?;
    let name = &manifest.common.name;
    match signature::verify_manifest(manifest_bytes, found, name, &rules.keys) {
        Ok(key) => return Ok(Some((raw, key.id.clone(), key.key))),
        // A key that is known here speaks for its namespaces alone; that it lies in the archive too changes nothing.
        Err(error) if error.code() == PackErrorCode::NamespaceUnauthorized => {
            return Err(PublishError::new(PublishErrorCode::Forbidden, error.to_string()));
        }
        // It may be of a key that nobody told the registry of.
        Err(_) => {}
    }
    let path = manifest.common.signing.as_ref().and_then(|signing| signing.public_key_ref.as_deref());
    let pem = archive.file(path.unwrap_or(signature::PUBLIC_KEY_PATH));
    let pem = pem.ok_or_else(|| {
        invalid("no known key made the signature, and there is no key beside it".to_owned())
    })?;
    let key =
        PublicKey::from_pem(&String::from_utf8_lossy(pem)).map_err(|error| invalid(error.to_string()))?;
    if !key.signed(manifest_bytes, &raw) {
        return Err(invalid("the signature does not hold for pack.json".to_owned()));
    }
    Ok(Some((raw, key.fingerprint(), key)))
}
