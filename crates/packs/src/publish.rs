//! Validates publications.
//!
//! [`check`] is pure: it takes the URL, headers and body, and returns a storable pack or the first problem, in the
//! order URL, body, archive, manifest, integrity. Ownership and existing versions are checked by the
//! [registry](crate::registry), which has the last two codes.

use serde_json::{Map, Value};

use crate::archive::{Archive, ArchiveError, Limits};
use crate::error::PackErrorCode;
use crate::integrity::Integrity;
use crate::manifest::{Language, MANIFEST_PATH, Manifest, ManifestError, ManifestErrorCode};
use crate::name::{NameError, PackName, Scope};
use crate::path::EntryPath;
use crate::signature::{self, PublicKey, TrustedKey};
use crate::version::{self, Version};

/// The maximum size of the runtime's entry file, in bytes.
pub const MAX_ENTRY_BYTES: usize = 5 << 20;

canon::error_codes! {
    /// Why a pack is not published.
    pub enum PublishErrorCode {
        InvalidPackName => "invalid_pack_name",
        /// The scope is unknown or not allowed in this registry.
        InvalidPackScope => "invalid_pack_scope",
        InvalidVersion => "invalid_version",
        /// The body is missing or is JSON.
        InvalidBody => "invalid_body",
        /// The body is not gzip.
        TarballGunzipFailed => "tarball_gunzip_failed",
        /// The archive exceeds a limit.
        TarballTooLarge => "tarball_too_large",
        /// The unpacked data is not a tar archive.
        TarballTarParseFailed => "tarball_tar_parse_failed",
        /// An entry path could leave the pack.
        TarballPathTraversal => "tarball_path_traversal",
        TarballManifestMissing => "tarball_manifest_missing",
        /// `pack.json` exceeds the size limit.
        TarballManifestTooLarge => "tarball_manifest_too_large",
        /// `pack.json` is not valid JSON.
        TarballManifestNotJson => "tarball_manifest_not_json",
        /// The runtime's entry file is missing.
        TarballEntryMissing => "tarball_entry_missing",
        /// The runtime's entry file exceeds the size limit.
        TarballEntryTooLarge => "tarball_entry_too_large",
        InvalidManifest => "invalid_manifest",
        /// `engines.openwop` is not a version range.
        InvalidEnginesRange => "invalid_engines_range",
        /// The name differs from the URL.
        ManifestNameMismatch => "manifest_name_mismatch",
        /// The version differs from the URL.
        ManifestVersionMismatch => "manifest_version_mismatch",
        /// The registry does not accept this language.
        UnsupportedRuntime => "unsupported_runtime",
        /// A referenced schema is missing.
        SchemaRefMissing => "schema_ref_missing",
        /// The body does not match the announced digest.
        IntegrityFailure => "pack_integrity_failure",
        SignatureInvalid => "signature_invalid",
        /// The caller is not allowed to publish there.
        Forbidden => "forbidden",
        /// This version was already published with different contents.
        Conflict => "conflict",
    }
}

impl PublishErrorCode {
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::Conflict => 409,
            _ => 400,
        }
    }
}

/// Why a pack is not published: a code, a message and details.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct PublishError {
    pub code: PublishErrorCode,
    pub message: String,
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

    /// The common error envelope.
    pub fn envelope(&self) -> canon::error::Envelope {
        let envelope = canon::error::Envelope::new(self.code, &self.message).suggest(
            "Fix the pack, create the archive again and publish it; `interlock pack check` lists \
                the problems.",
        );
        self.details.iter().fold(envelope, |envelope, (key, value)| envelope.detail(key, value.clone()))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PublishRequest<'a> {
    /// The name in the URL.
    pub name: &'a str,
    /// The version in the URL.
    pub version: &'a str,
    pub content_type: Option<&'a str>,
    pub sha256: Option<&'a str>,
    /// The header `X-Pack-Signing-Method`: `manual`, `sigstore` or `none`.
    pub signing_method: Option<&'a str>,
    pub body: &'a [u8],
}

/// What a registry accepts.
#[derive(Clone, Debug)]
pub struct PublishRules {
    /// The accepted scopes. Never [`Scope::Local`].
    pub scopes: Vec<Scope>,
    pub languages: Vec<Language>,
    pub limits: Limits,
    /// The known keys. A signature by another key is verified with the key in the archive.
    pub keys: Vec<TrustedKey>,
}

impl PublishRules {
    /// A private registry: every scope except `local`, every language.
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

    /// A public registry: as [`PublishRules::private`], without the scope `private`.
    pub fn public() -> Self {
        let mut rules = Self::private();
        rules.scopes.retain(|scope| *scope != Scope::Private);
        rules
    }
}

/// A valid publication.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub manifest: Manifest,
    /// The bytes of `pack.json` in the archive.
    pub manifest_bytes: Vec<u8>,
    pub integrity: Integrity,
    /// The signature over `pack.json`, if any.
    pub signature: Option<[u8; 64]>,
    /// The id or fingerprint of the signing key.
    pub signing_key: Option<String>,
    pub public_key: Option<PublicKey>,
}

/// Validates a request.
///
/// # Errors
/// The first problem.
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

/// Parses the name and version of a URL.
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
            "names in `local` cannot be published",
        ));
    }
    let version = version::parse(version).ok_or_else(|| {
        let shown = crate::name::shown(version);
        PublishError::new(
            PublishErrorCode::InvalidVersion,
            format!("`{shown}` is not a version of SemVer 2.0.0, such as `1.0.0`"),
        )
    })?;
    Ok((name, version))
}

fn address(request: &PublishRequest<'_>, rules: &PublishRules) -> Result<(PackName, Version), PublishError> {
    let (name, version) = read_address(request.name, request.version)?;
    if !rules.scopes.contains(&name.scope()) {
        let message = format!("this registry does not accept packs in the scope `{}`", name.scope().as_str());
        return Err(PublishError::new(PublishErrorCode::InvalidPackScope, message));
    }
    Ok((name, version))
}

fn body(request: &PublishRequest<'_>) -> Result<(), PublishError> {
    let invalid = |message: &str| Err(PublishError::new(PublishErrorCode::InvalidBody, message));
    if request.body.is_empty() {
        return invalid("the body is empty; send the archive");
    }
    let media = request.content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        return invalid("the body is JSON; send the archive");
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
            "the archive has no pack.json at its root",
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
        let message = format!("the URL has the name {name}, but pack.json has {}", common.name);
        return Err(
            PublishError::new(PublishErrorCode::ManifestNameMismatch, message).detail("pointer", "/name")
        );
    }
    if common.version != *version {
        let message = format!("the URL has the version {version}, but pack.json has {}", common.version);
        return Err(PublishError::new(PublishErrorCode::ManifestVersionMismatch, message)
            .detail("pointer", "/version"));
    }
    Ok(())
}

/// Checks that referenced files exist.
fn files(manifest: &Manifest, archive: &Archive, rules: &PublishRules) -> Result<(), PublishError> {
    if let Some(runtime) = manifest.runtime() {
        if !rules.languages.contains(&runtime.language) {
            let message = format!("this registry does not accept packs in {}", runtime.language.as_str());
            return Err(PublishError::new(PublishErrorCode::UnsupportedRuntime, message)
                .detail("pointer", "/runtime/language"));
        }
        // A remote runtime has no entry file.
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
            let message = format!("`{shown}` is {} bytes; the limit is {MAX_ENTRY_BYTES}", content.len());
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
    Err(failed(format!("the body has digest {integrity}, but the header says {announced}")))
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
            return Err(invalid("the header says `manual`, but the archive has no signature".to_owned()));
        }
        (Some("sigstore"), _) => {
            return Err(invalid("sigstore signatures are not supported".to_owned()));
        }
        (Some(other), None) => {
            return Err(invalid(format!("`{}` is not a signing method", crate::name::shown(other))));
        }
        (_, Some(_)) => {}
    }
    let Some(found) = found else { return Ok(None) };
    let raw = signature::raw(found).map_err(|error| invalid(error.to_string()))?;
    let name = &manifest.common.name;
    match signature::verify_manifest(manifest_bytes, found, name, &rules.keys) {
        Ok(key) => return Ok(Some((raw, key.id.clone(), key.key))),
        // A known key is limited to its namespaces, even if the archive contains it.
        Err(error) if error.code() == PackErrorCode::NamespaceUnauthorized => {
            return Err(PublishError::new(PublishErrorCode::Forbidden, error.to_string()));
        }
        // The key may be unknown to the registry.
        Err(_) => {}
    }
    let path = manifest.common.signing.as_ref().and_then(|signing| signing.public_key_ref.as_deref());
    let pem = archive.file(path.unwrap_or(signature::PUBLIC_KEY_PATH));
    let pem = pem.ok_or_else(|| {
        invalid("the signature is not by a known key, and the archive contains no key".to_owned())
    })?;
    let key =
        PublicKey::from_pem(&String::from_utf8_lossy(pem)).map_err(|error| invalid(error.to_string()))?;
    if !key.signed(manifest_bytes, &raw) {
        return Err(invalid("the signature does not match pack.json".to_owned()));
    }
    Ok(Some((raw, key.fingerprint(), key)))
}
