//! An artifact in memory, for conformance suites. They test the real dispatcher without touching data of users.

use std::sync::{Mutex, PoisonError};

use canon::digest::Digest;
use runs::artifacts::{ArtifactError, Held};
use serde_json::{Value, json};

use super::dispatch::Artifacts;

/// The id of the artifact.
pub const CANARY: &str = "conformance-canary";

/// The artifact.
#[derive(Debug)]
pub struct Canary(Mutex<Value>);

impl Default for Canary {
    fn default() -> Self {
        Self(Mutex::new(json!({"text": "canary"})))
    }
}

impl Canary {
    fn content(payload: &Value) -> Held {
        let text = format!("{CANARY}\n{}", canon::canonical::string_of(payload));
        Held { payload: payload.clone(), version: Digest::of_bytes(text.as_bytes()).to_hex() }
    }
}

impl Artifacts for Canary {
    async fn read(&self, artifact_id: &str) -> Result<Held, ArtifactError> {
        if artifact_id != CANARY {
            return Err(ArtifactError::NotFound);
        }
        Ok(Self::content(&self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    async fn write(
        &self,
        artifact_id: &str,
        version: Option<&str>,
        payload: &Value,
    ) -> Result<String, ArtifactError> {
        if artifact_id != CANARY {
            return Err(ArtifactError::NotFound);
        }
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = Self::content(&stored).version;
        if version != Some(current.as_str()) {
            return Err(ArtifactError::Conflict { current });
        }
        *stored = payload.clone();
        Ok(Self::content(&stored).version)
    }
}
