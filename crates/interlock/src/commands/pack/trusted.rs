//! Whom to trust, as it was said on the command line.

use std::path::Path;

use packs::lock::Lockfile;
use packs::name::NamespaceGlob;
use packs::signature::TrustedKey;
use packs::trust::{TrustMode, TrustPolicy};

use super::{source, usage};
use crate::arguments::{PackInstall, PackTrust};
use crate::failure::Failure;

/// The policy of an install. Whatever it says and would not be gone by is refused: a rule that is silently left out
/// is worse than none.
pub(super) fn policy(arguments: &PackInstall, lock: Option<&Lockfile>) -> Result<TrustPolicy, Failure> {
    let keys = keys(&arguments.keys)?;
    let allowed = arguments.allow.iter().map(|text| pattern(text)).collect::<Result<Vec<_>, _>>()?;
    let mode = match arguments.trust {
        Some(PackTrust::Verified) => TrustMode::Verified,
        Some(PackTrust::Allowlist) => TrustMode::Allowlist,
        Some(PackTrust::Pinned) => TrustMode::Pinned,
        // Keys that were given are meant, and so is a lockfile.
        None if !keys.is_empty() => TrustMode::Verified,
        None if lock.is_some() => TrustMode::Pinned,
        Some(PackTrust::Open) | None => TrustMode::Open,
    };
    match mode {
        TrustMode::Verified | TrustMode::Allowlist if keys.is_empty() => {
            return Err(usage(&format!("--trust {} needs a key that is trusted: --key FILE", mode.as_str())));
        }
        TrustMode::Allowlist if allowed.is_empty() => {
            return Err(usage(
                "--trust allowlist needs a namespace that is allowed: --allow 'vendor.acme.*'",
            ));
        }
        TrustMode::Pinned if lock.is_none() => {
            return Err(usage("--trust pinned goes by a lockfile: --locked FILE"));
        }
        TrustMode::Verified | TrustMode::Pinned | TrustMode::Open if !allowed.is_empty() => {
            return Err(usage("--allow says something only with --trust allowlist"));
        }
        TrustMode::Allowlist | TrustMode::Pinned | TrustMode::Verified | TrustMode::Open => {}
    }
    let pins = lock.map(Lockfile::pins).unwrap_or_default();
    Ok(TrustPolicy { mode, keys, allowed, pins })
}

/// Keys of the form `FILE`, trusted for every name, or `FILE=GLOB`, for these names.
pub(super) fn keys(texts: &[String]) -> Result<Vec<TrustedKey>, Failure> {
    texts
        .iter()
        .map(|text| {
            let (file, glob) = match text.rsplit_once('=') {
                // A file may have an equals sign in its name.
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
        .ok_or_else(|| usage(&format!("`{text}` is no pattern of names, such as vendor.acme.* or *")))
}
