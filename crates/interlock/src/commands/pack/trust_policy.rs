//! The trust policy from the command line.

use std::path::Path;

use packs::lock::Lockfile;
use packs::name::NamespaceGlob;
use packs::signature::TrustedKey;
use packs::trust::{TrustMode, TrustPolicy};

use super::{source, usage};
use crate::arguments::{PackInstall, PackTrust};
use crate::failure::Failure;

/// The policy of an install. Options that would have no effect are errors: silently ignoring a rule
/// is worse than not having it.
pub(super) fn policy(arguments: &PackInstall, lock: Option<&Lockfile>) -> Result<TrustPolicy, Failure> {
    let keys = keys(&arguments.keys)?;
    let allowed = arguments.allow.iter().map(|text| pattern(text)).collect::<Result<Vec<_>, _>>()?;
    let mode = match arguments.trust {
        Some(PackTrust::Verified) => TrustMode::Verified,
        Some(PackTrust::Allowlist) => TrustMode::Allowlist,
        Some(PackTrust::Pinned) => TrustMode::Pinned,
        // Given keys or a lockfile select their mode.
        None if !keys.is_empty() => TrustMode::Verified,
        None if lock.is_some() => TrustMode::Pinned,
        Some(PackTrust::Open) | None => TrustMode::Open,
    };
    match mode {
        TrustMode::Verified | TrustMode::Allowlist if keys.is_empty() => {
            return Err(usage(&format!("--trust {} requires a trusted key: --key FILE", mode.as_str())));
        }
        TrustMode::Allowlist if allowed.is_empty() => {
            return Err(usage("--trust allowlist requires an allowed namespace: --allow 'vendor.acme.*'"));
        }
        TrustMode::Pinned if lock.is_none() => {
            return Err(usage("--trust pinned requires a lockfile: --locked FILE"));
        }
        TrustMode::Verified | TrustMode::Pinned | TrustMode::Open if !allowed.is_empty() => {
            return Err(usage("--allow requires --trust allowlist"));
        }
        TrustMode::Allowlist | TrustMode::Pinned | TrustMode::Verified | TrustMode::Open => {}
    }
    let pins = lock.map(Lockfile::pins).unwrap_or_default();
    Ok(TrustPolicy { mode, keys, allowed, pins })
}

/// `FILE`, trusted for every name, or `FILE=GLOB`, trusted for these names.
pub(super) fn keys(texts: &[String]) -> Result<Vec<TrustedKey>, Failure> {
    texts
        .iter()
        .map(|text| {
            let (file, glob) = match text.rsplit_once('=') {
                // A file name may contain an equals sign.
                Some((file, glob)) if !Path::new(text).is_file() => (file, glob),
                Some(_) | None => (text.as_str(), "*"),
            };
            let key = source::public_key(Path::new(file))?;
            Ok(TrustedKey { id: key.fingerprint(), key, permitted: vec![pattern(glob)?] })
        })
        .collect()
}

fn pattern(text: &str) -> Result<NamespaceGlob, Failure> {
    NamespaceGlob::parse(text)
        .ok_or_else(|| usage(&format!("`{text}` is not a valid name pattern, such as vendor.acme.* or *")))
}
