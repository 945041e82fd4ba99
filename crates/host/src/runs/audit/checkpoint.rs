//! A signed statement about a log: up to this entry, this is the root of all of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::canonical;
use canon::digest::Digest;
use flow::id::Tenant;
use serde_json::{Value, json};

use super::AuditKey;
use super::merkle::Tree;

/// A checkpoint, with the tree that the next one grows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    id: String,
    /// The tree up to it.
    pub tree: Tree,
    signature: Vec<u8>,
}

impl Checkpoint {
    /// Signs what a log is now. The tree has at least one entry.
    pub fn sign(key: &AuditKey, tenant: &Tenant, tree: Tree) -> Self {
        let whose = Digest::of_bytes(tenant.as_str().as_bytes()).to_hex();
        let at = tree.count().saturating_sub(1);
        // Ids are unique in the host: entries of two tenants may have the same place.
        let mut checkpoint = Self { id: format!("chk_{}_{at}", &whose[..16]), tree, signature: Vec::new() };
        checkpoint.signature = key.sign(checkpoint.statement().as_bytes());
        checkpoint
    }

    /// The last entry that it speaks of.
    pub fn at_sequence(&self) -> u64 {
        self.tree.count().saturating_sub(1)
    }

    /// What is signed: canonical JSON of all members but the signature.
    fn statement(&self) -> String {
        canonical::string_of(&json!({
            "checkpoint": self.id,
            "atSequence": self.at_sequence(),
            "merkleRoot": self.tree.root().to_hex(),
        }))
    }

    /// Whether the key of the host signed it.
    pub fn is_signed_by(&self, key: &AuditKey) -> bool {
        key.verify(self.statement().as_bytes(), &self.signature)
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The root of the tree over all entries up to [`Self::at_sequence`].
    pub fn root(&self) -> Digest {
        self.tree.root()
    }

    /// The signature, in base64.
    pub fn signature(&self) -> String {
        STANDARD.encode(&self.signature)
    }

    /// As it is kept.
    pub fn document(&self) -> Value {
        let peaks: Vec<_> = self.tree.peaks().iter().map(|peak| peak.to_hex()).collect();
        json!({
            "checkpoint": self.id,
            "count": self.tree.count(),
            "peaks": peaks,
            "signature": STANDARD.encode(&self.signature),
        })
    }

    /// Reads what was kept; nothing when it is damaged.
    pub fn read(document: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(document).ok()?;
        let peaks = document.get("peaks")?.as_array()?.iter();
        let peaks: Option<Vec<_>> =
            peaks.map(|peak| Digest::parse(&format!("{}{}", Digest::PREFIX, peak.as_str()?)).ok()).collect();
        Some(Self {
            id: document.get("checkpoint")?.as_str()?.to_owned(),
            tree: Tree::from_peaks(document.get("count")?.as_u64()?, peaks?)?,
            signature: STANDARD.decode(document.get("signature")?.as_str()?).ok()?,
        })
    }
}
