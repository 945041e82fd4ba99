//! The key that signs the audit log.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::encoding::{from_hex, hex};
use ed25519_dalek::{Signature, Signer as _, SigningKey};
use system::Entropy;

/// The name of the file in the folder of keys.
pub const FILE: &str = "audit-signing-key";

/// The DER prefix of a 32-byte Ed25519 public key: two sequences, the algorithm 1.3.101.112, and a bit string.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An Ed25519 key.
pub struct AuditKey(SigningKey);

impl fmt::Debug for AuditKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AuditKey").field(&self.public()).finish()
    }
}

impl AuditKey {
    /// Creates the key from a seed.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Loads the key from a folder. The first start creates it, readable only by the owner. Concurrent starts all get the same key.
    ///
    /// # Errors
    /// If the disk fails, or the file is not a valid key.
    pub fn load_or_create(folder: &Path, entropy: &dyn Entropy) -> io::Result<Self> {
        let path = folder.join(FILE);
        if let Some(key) = Self::load(&path)? {
            return Ok(key);
        }
        let mut random = [0; 40];
        entropy.fill(&mut random)?;
        let (seed, name) = random.split_at(32);
        let temporary = folder.join(format!("{FILE}-{}.tmp", hex(name)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(hex(seed).as_bytes())?;
        file.sync_all()?;
        // A hard link never replaces a file, so the second process finds the key of the first.
        let linked = std::fs::hard_link(&temporary, &path);
        std::fs::remove_file(&temporary)?;
        match linked {
            Ok(()) => std::fs::File::open(folder)?.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::load(&path)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn load(path: &Path) -> io::Result<Option<Self>> {
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(128).read_to_string(&mut text)?;
        let seed = from_hex(text.trim_end());
        let seed = seed.ok_or_else(|| {
            let message = "the key of the audit log is damaged; restore the file from a backup";
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
        Ok(Some(Self::from_seed(seed)))
    }

    /// The public key: base64 of its DER form (SPKI, RFC 8410), which cryptographic libraries read.
    pub fn public(&self) -> String {
        STANDARD.encode([&SPKI_PREFIX[..], self.0.verifying_key().as_bytes()].concat())
    }

    pub(super) fn sign(&self, statement: &[u8]) -> Vec<u8> {
        self.0.sign(statement).to_bytes().to_vec()
    }

    pub(super) fn verify(&self, statement: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verifying_key().verify_strict(statement, &signature).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use system::SeededEntropy;

    use super::*;

    #[test]
    fn the_key_of_a_folder_stays_the_same_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let first = AuditKey::load_or_create(folder.path(), &SeededEntropy::new(1)).unwrap();
        let second = AuditKey::load_or_create(folder.path(), &SeededEntropy::new(2)).unwrap();
        assert_eq!(first.public(), second.public());
        let file = folder.path().join(FILE);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
        std::fs::write(&file, "short").unwrap();
        let damaged = AuditKey::load_or_create(folder.path(), &SeededEntropy::new(3)).unwrap_err();
        assert_eq!(damaged.kind(), io::ErrorKind::InvalidData, "a damaged key is never replaced");
    }

    #[test]
    fn only_what_was_signed_is_verified() {
        let (key, other) = (AuditKey::from_seed([1; 32]), AuditKey::from_seed([2; 32]));
        let signature = key.sign(b"statement");
        assert!(key.verify(b"statement", &signature));
        assert!(!key.verify(b"statemenT", &signature));
        assert!(!other.verify(b"statement", &signature));
        assert!(!key.verify(b"statement", &signature[1..]));
    }
}
