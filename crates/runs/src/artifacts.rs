//! Artifacts of runs. People read and edit their content through plugins.
//!
//! A version identifies exactly the stored bytes. It is a keyed digest, so it reveals nothing about the content to a principal
//! that may not read it. Versions are not stored.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canon::digest::Digest;
use flow::id::{ArtifactId, RunId};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ports::runs::{Bytes, Change, CommitError};
use serde_json::{Value, json};
use sha2::Sha256;
use system::causes;

use super::records::Records;
use super::states::States;
use super::{ApiCode, Caller, Refusal, Scope, TokenSecrets};

/// The domain separator of versions among the keyed digests of this host.
const DOMAIN: &[u8] = b"interlock ui-plugin/1 artifact version\0";

/// The scopes that are required to read the content of artifacts.
pub const READING: &[Scope] = &[Scope::RunsRead, Scope::ArtifactsRead];
/// The additional scopes that are required to edit content: reviewers of a run may fix its artifacts.
pub const CHANGING: &[Scope] = &[Scope::ApprovalsRespond];

/// The content of an artifact.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub payload: Value,
    /// The version, derived from the content.
    pub version: String,
}

/// Why an artifact was not read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactError {
    /// The artifact does not exist, or belongs to another tenant. The error does not say which.
    NotFound,
    /// The viewer lacks the permission.
    Unauthorized,
    /// The artifact has changed since the plugin read it. Nothing was written.
    Conflict {
        /// The current version.
        current: String,
    },
    /// An internal failure.
    Failed,
}

/// The maximum number of artifacts listed for a run.
pub const MAX_ARTIFACTS: usize = 200;

/// The artifacts of runs.
pub struct Artifacts {
    records: Arc<Records>,
    states: Arc<States>,
    /// The keys of the versions.
    secrets: TokenSecrets,
}

impl Artifacts {
    pub(crate) fn new(records: Arc<Records>, states: Arc<States>, secrets: TokenSecrets) -> Self {
        Self { records, states, secrets }
    }

    /// An artifact of a run.
    ///
    /// # Errors
    /// If there is no such artifact.
    pub async fn read(
        &self,
        caller: &Caller,
        run_id: &RunId,
        artifact_id: &ArtifactId,
    ) -> Result<Bytes, Refusal> {
        self.states.visible(caller, run_id).await?;
        let found = self.records.store().artifact(run_id, artifact_id).await?;
        found.ok_or_else(|| Refusal::new(ApiCode::NotFound, "the run has no artifact with this id"))
    }

    /// The ids of the first [`MAX_ARTIFACTS`] artifacts of a run.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn ids(&self, caller: &Caller, run_id: &RunId) -> Result<Vec<ArtifactId>, Refusal> {
        self.states.visible(caller, run_id).await?;
        Ok(self.records.store().artifact_ids(run_id, MAX_ARTIFACTS).await?)
    }

    /// The content of an artifact, with its version.
    ///
    /// # Errors
    /// If the caller can see no such artifact, or may not read artifacts.
    pub async fn content(
        &self,
        caller: &Caller,
        run_id: &RunId,
        artifact_id: &ArtifactId,
    ) -> Result<Held, ArtifactError> {
        let (document, version) = self.seen(caller, run_id, artifact_id).await?;
        let document: Value = serde_json::from_slice(&document).map_err(|_| ArtifactError::Failed)?;
        Ok(Held { payload: document.get("data").cloned().unwrap_or_default(), version })
    }

    /// Replaces the content of an artifact if its version still matches. Its other members stay.
    ///
    /// # Errors
    /// If the caller can see no such artifact, may not edit it, or the version does not match. Nothing is changed then.
    pub async fn replace(
        &self,
        caller: &Caller,
        run_id: &RunId,
        artifact_id: &ArtifactId,
        version: Option<&str>,
        payload: &Value,
        plugin: &str,
    ) -> Result<String, ArtifactError> {
        let _place = self.records.admit().map_err(|refusal| failed(&refusal))?;
        let (seen, current) = self.seen(caller, run_id, artifact_id).await?;
        if !CHANGING.iter().all(|scope| caller.may(*scope)) {
            return Err(ArtifactError::Unauthorized);
        }
        if !version.is_some_and(|version| self.is_version(run_id, artifact_id, &seen, version)) {
            return Err(ArtifactError::Conflict { current });
        }
        let document: Value = serde_json::from_slice(&seen).map_err(|_| ArtifactError::Failed)?;
        let Value::Object(mut members) = document else { return Err(ArtifactError::Failed) };
        members.insert("data".to_owned(), payload.clone());
        let mut document = Value::Object(members);
        self.records.secrets().redact(&caller.tenant, &mut document);
        let document = document.to_string().into_bytes();
        let version = self.version(run_id, artifact_id, &document);
        let details = json!({"runId": run_id, "artifactId": artifact_id, "plugin": plugin});
        let changes = vec![
            Change::ReplaceArtifact {
                run_id: run_id.to_owned(),
                artifact_id: artifact_id.to_owned(),
                seen: Digest::of_bytes(&seen),
                document: document.into(),
            },
            self.records.audited(caller, "artifact.write", &details),
        ];
        match self.records.commit(changes).await {
            Ok(()) => Ok(version),
            // The artifact changed after it was read here.
            Err(CommitError::ArtifactChanged) => {
                let (_, current) = self.seen(caller, run_id, artifact_id).await?;
                Err(ArtifactError::Conflict { current })
            }
            Err(error) => Err(failed(&error.into())),
        }
    }

    /// The stored document of an artifact, and its version.
    async fn seen(
        &self,
        caller: &Caller,
        run_id: &RunId,
        artifact_id: &ArtifactId,
    ) -> Result<(Bytes, String), ArtifactError> {
        if !READING.iter().all(|scope| caller.may(*scope)) {
            return Err(ArtifactError::Unauthorized);
        }
        let document = self.read(caller, run_id, artifact_id).await.map_err(|refusal| failed(&refusal))?;
        let version = self.version(run_id, artifact_id, &document);
        Ok((document, version))
    }

    fn version(&self, run_id: &RunId, artifact_id: &ArtifactId, document: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(self.version_mac(run_id, artifact_id, document).finalize().into_bytes())
    }

    fn is_version(&self, run_id: &RunId, artifact_id: &ArtifactId, document: &[u8], version: &str) -> bool {
        let Ok(version) = URL_SAFE_NO_PAD.decode(version) else { return false };
        self.version_mac(run_id, artifact_id, document).verify_slice(&version).is_ok()
    }

    fn version_mac(&self, run_id: &RunId, artifact_id: &ArtifactId, document: &[u8]) -> Hmac<Sha256> {
        let secret = self.secrets.first().copied().unwrap_or_default();
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).expect("HMAC takes keys of any length");
        mac.update(DOMAIN);
        for part in [run_id.as_str().as_bytes(), artifact_id.as_str().as_bytes(), document] {
            // With the length of each part, so that different parts never have the same concatenation.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

/// The error for a plugin. An unknown run and a run of another tenant give the same error.
fn failed(refusal: &Refusal) -> ArtifactError {
    match refusal.code {
        ApiCode::NotFound | ApiCode::RunNotFound => ArtifactError::NotFound,
        ApiCode::Forbidden => ArtifactError::Unauthorized,
        _ => {
            // The plugin only learns that the operation failed. The cause is logged.
            tracing::error!(cause = causes(refusal), "an artifact could not be read or changed for a plugin");
            ArtifactError::Failed
        }
    }
}
