//! A checkpoint: a signed root of an audit log up to an entry.
//!
//! A checkpoint has two signatures. One is over the canonical JSON of its members and binds the root to the log of one tenant. The
//! other is over the 32 bytes of the root (RFC 0218): with the public key, it can be verified without knowing our JSON. Checkpoints
//! of earlier versions have only the first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::canonical;
use canon::digest::Digest;
use flow::id::Tenant;
use serde_json::{Value, json};

use super::AuditKey;
use super::merkle::Tree;

/// A checkpoint, with the tree that the next one extends.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    id: String,
    /// The tree up to this checkpoint.
    pub tree: Tree,
    signature: Vec<u8>,
    /// The signature over the root. Checkpoints of earlier versions have none until they are verified.
    root_signature: Option<Vec<u8>>,
}

impl Checkpoint {
    /// Signs the current tree of a log. The tree must have at least one entry.
    pub fn sign(key: &AuditKey, tenant: &Tenant, tree: Tree) -> Self {
        let whose = Digest::of_bytes(tenant.as_str().as_bytes()).to_hex();
        let at = tree.count().saturating_sub(1);
        // Ids are unique in the host, because entries of two tenants may have the same sequence.
        let root_signature = Some(key.sign(tree.root().as_bytes()));
        let id = format!("chk_{}_{at}", &whose[..16]);
        let mut checkpoint = Self { id, tree, signature: Vec::new(), root_signature };
        checkpoint.signature = key.sign(checkpoint.statement().as_bytes());
        checkpoint
    }

    /// Adds the signature over the root to a checkpoint of an earlier version that this key signed.
    pub(super) fn sign_root(&mut self, key: &AuditKey) {
        if self.root_signature.is_none() && self.is_signed_by(key) {
            self.root_signature = Some(key.sign(self.root().as_bytes()));
        }
    }

    /// The last entry that the checkpoint covers.
    pub fn at_sequence(&self) -> u64 {
        self.tree.count().saturating_sub(1)
    }

    /// The input of the first signature: canonical JSON of all members except the signatures.
    fn statement(&self) -> String {
        canonical::string_of(&json!({
            "checkpoint": self.id,
            "atSequence": self.at_sequence(),
            "merkleRoot": self.tree.root().to_hex(),
        }))
    }

    /// Whether the key of the host signed both the checkpoint and its root.
    pub fn is_signed_by(&self, key: &AuditKey) -> bool {
        let root = self.root();
        let is_root_signed = |signature: &Vec<u8>| key.verify(root.as_bytes(), signature);
        key.verify(self.statement().as_bytes(), &self.signature)
            && self.root_signature.as_ref().is_none_or(is_root_signed)
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The root of the tree over all entries up to [`Self::at_sequence`].
    pub fn root(&self) -> Digest {
        self.tree.root()
    }

    /// The signature over the root, in base64. It is not verified here.
    pub fn signature(&self) -> String {
        STANDARD.encode(self.root_signature.as_ref().unwrap_or(&self.signature))
    }

    /// The stored form.
    pub fn document(&self) -> Value {
        let peaks: Vec<_> = self.tree.peaks().iter().map(|peak| peak.to_hex()).collect();
        let mut document = json!({
            "checkpoint": self.id,
            "count": self.tree.count(),
            "peaks": peaks,
            "signature": STANDARD.encode(&self.signature),
        });
        if let Some(signature) = &self.root_signature {
            document["rootSignature"] = STANDARD.encode(signature).into();
        }
        document
    }

    /// Reads the stored form. `None` if it is damaged.
    pub fn read(document: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(document).ok()?;
        let peaks = document.get("peaks")?.as_array()?.iter();
        let peaks: Option<Vec<_>> =
            peaks.map(|peak| Digest::parse(&format!("{}{}", Digest::PREFIX, peak.as_str()?)).ok()).collect();
        let signature = |value: &Value| STANDARD.decode(value.as_str()?).ok();
        let root_signature = match document.get("rootSignature") {
            Some(kept) => Some(signature(kept)?),
            None => None,
        };
        Some(Self {
            id: document.get("checkpoint")?.as_str()?.to_owned(),
            tree: Tree::from_peaks(document.get("count")?.as_u64()?, peaks?)?,
            signature: signature(document.get("signature")?)?,
            root_signature,
        })
    }
}
