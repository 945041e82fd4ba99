//! Signatures of bundles: Ed25519 over the bytes of the file, 64 raw bytes in a file beside it.
//!
//! The signature is detached, so that a bundle has the same bytes signed or not, every version of the program can read it, and
//! other programs can verify it.

use std::path::{Path, PathBuf};

use canon::error::Envelope;
use guide::record::SessionId;
use packs::signature::{PrivateKey, PublicKey};
use storage::files::ChainBreak;

use crate::failure::{CommandErrorCode, Failure};
use crate::input;

const SIGNATURE_BYTES: usize = 64;
const PEM_BYTES: usize = 16 * 1024;

/// Where the signature of a bundle is.
pub(super) fn beside(bundle: &Path) -> PathBuf {
    let mut name = bundle.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

pub(super) fn private_key(path: &Path) -> Result<PrivateKey, Failure> {
    let pem = input::read(Some(path), "a key", PEM_BYTES)?;
    Ok(PrivateKey::from_pem(&String::from_utf8_lossy(&pem))?)
}

/// The fingerprint of the trusted key that signed a bundle.
pub(super) fn signer(bundle: &[u8], signature: &Path, trusted: &[PathBuf]) -> Result<String, Failure> {
    let mut keys = Vec::with_capacity(trusted.len());
    for path in trusted {
        let pem = input::read(Some(path), "a key", PEM_BYTES)?;
        keys.push(PublicKey::from_pem(&String::from_utf8_lossy(&pem))?);
    }
    if !signature.exists() {
        return Err(refused(&format!("There is no signature: {} does not exist.", signature.display())));
    }
    let bytes = input::read(Some(signature), "a signature", SIGNATURE_BYTES)?;
    let Ok(bytes) = <[u8; SIGNATURE_BYTES]>::try_from(bytes.as_slice()) else {
        return Err(refused(&format!(
            "{} is not a signature: a signature has {SIGNATURE_BYTES} bytes.",
            signature.display()
        )));
    };
    let signer = keys.iter().find(|key| key.signed(bundle, &bytes)).map(|key| key.fingerprint());
    signer.ok_or_else(|| {
        let known: Vec<_> = keys.iter().map(|key| key.fingerprint()).collect();
        refused(&format!("No trusted key signed this file. Trusted: {}.", known.join(", ")))
    })
}

/// A signature would vouch for the edit.
pub(super) fn edited(session: &SessionId, reason: ChainBreak, problem: &str) -> Failure {
    Envelope::new(
        CommandErrorCode::BundleSignatureInvalid,
        format!("Session {session} does not match its chain, so it is not signed: {reason}: {problem}."),
    )
    .suggest("Run `interlock session verify` for the session, and restore it from a backup. Without --sign it can be exported.")
    .into()
}

fn refused(message: &str) -> Failure {
    Envelope::new(CommandErrorCode::BundleSignatureInvalid, message)
        .suggest(
            "Get the bundle and its `.sig` file again from the person who exported it, unchanged, and check which key \
             they signed with. Nothing was imported.",
        )
        .into()
}
