//! What artifacts hold, read and changed by people through plugins.
//!
//! A version stands for exactly the bytes that are kept. It is a keyed digest, so that it says nothing about them to somebody
//! who may not read them, and it is written nowhere.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canon::digest::Digest;
use flow::id::{ArtifactId, RunId};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ports::runs::{Change, CommitError};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{ApiCode, Caller, Refusal, Runs, Scope};
use crate::causes;
use crate::plugins::{ArtifactError, Held};

/// What a version is made for, so that no other keyed digest of the host can be one.
const DOMAIN: &[u8] = b"interlock ui-plugin/1 artifact version\0";

/// What somebody needs to read what artifacts hold.
pub const READING: &[Scope] = &[Scope::RunsRead, Scope::ArtifactsRead];
/// What somebody needs besides to change it: those who decide on what a run made may mend it.
pub const CHANGING: &[Scope] = &[Scope::ApprovalsRespond];

impl Runs {
    /// What an artifact holds, with its version.
    ///
    /// # Errors
    /// When there is none that the caller may know of, or the caller may not read artifacts.
    pub async fn artifact_content(
        &self,
        caller: &Caller,
        run_id: &RunId,
        artifact_id: &ArtifactId,
    ) -> Result<Held, ArtifactError> {
        let (document, version) = self.artifact_seen(caller, run_id, artifact_id).await?;
        let document: Value = serde_json::from_slice(&document).map_err(|_| ArtifactError::Failed)?;
        Ok(Held { payload: document.get("data").cloned().unwrap_or_default(), version })
    }

    /// Gives an artifact other content, if it holds what the version stands for. What else is known of it stays as it is.
    ///
    /// # Errors
    /// When there is none that the caller may know of, the caller may not, or it holds something else. Then nothing was changed.
    pub async fn replace_artifact(
        &self,
        caller: &Caller,
        run_id: &RunId,
        artifact_id: &ArtifactId,
        version: Option<&str>,
        payload: &Value,
        plugin: &str,
    ) -> Result<String, ArtifactError> {
        let _place = self.admit().map_err(|refusal| failed(&refusal))?;
        let (seen, current) = self.artifact_seen(caller, run_id, artifact_id).await?;
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
        self.redact(&caller.tenant, &mut document);
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
            self.audited(caller, "artifact.write", &details),
        ];
        match self.commit(changes).await {
            Ok(()) => Ok(version),
            // Somebody was quicker, after it was looked at here.
            Err(CommitError::ArtifactChanged) => {
                let (_, current) = self.artifact_seen(caller, run_id, artifact_id).await?;
                Err(ArtifactError::Conflict { current })
            }
            Err(error) => Err(failed(&error.into())),
        }
    }

    /// The document of an artifact as it is kept, and its version.
    async fn artifact_seen(
        &self,
        caller: &Caller,
        run_id: &RunId,
        artifact_id: &ArtifactId,
    ) -> Result<(ports::runs::Bytes, String), ArtifactError> {
        if !READING.iter().all(|scope| caller.may(*scope)) {
            return Err(ArtifactError::Unauthorized);
        }
        let document =
            self.artifact(caller, run_id, artifact_id).await.map_err(|refusal| failed(&refusal))?;
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
        let secret = self.inner.options.token_secrets.first().copied().unwrap_or_default();
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).expect("a key of any length is one");
        mac.update(DOMAIN);
        for part in [run_id.as_str().as_bytes(), artifact_id.as_str().as_bytes(), document] {
            // With its length, so that no two things look the same when they stand behind each other.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

/// What a refusal is to a plugin. That a run is somebody else's and that there is none are the same.
fn failed(refusal: &Refusal) -> ArtifactError {
    match refusal.code {
        ApiCode::NotFound | ApiCode::RunNotFound => ArtifactError::NotFound,
        ApiCode::Forbidden => ArtifactError::Unauthorized,
        _ => {
            // A plugin is only told that it failed; what failed is for the host's log.
            tracing::error!(cause = causes(refusal), "an artifact could not be read or changed for a plugin");
            ArtifactError::Failed
        }
    }
}
