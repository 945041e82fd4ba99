//! The artifacts of runs, with the permissions of the person who views the page.

use flow::id::{ArtifactId, RunId};
use runs::artifacts::{ArtifactError, Held};
use runs::{Caller, Runs};
use serde_json::Value;

use super::dispatch::Artifacts;

/// The artifacts that one plugin on one page may access.
///
/// An artifact is named `<run>/<artifact>`. A plugin that shows an artifact may access only that one; all others are not found.
#[derive(Clone, Debug)]
pub struct RunArtifacts {
    pub runs: Runs,
    /// The viewer.
    pub caller: Caller,
    /// The artifact that the page shows, if it shows one.
    pub only: Option<String>,
    /// The plugin, for the audit log.
    pub plugin: String,
}

/// The name of an artifact of a run for plugins.
pub fn name(run_id: &RunId, artifact_id: &ArtifactId) -> String {
    format!("{run_id}/{artifact_id}")
}

impl RunArtifacts {
    fn parts(&self, artifact_id: &str) -> Result<(RunId, ArtifactId), ArtifactError> {
        if self.only.as_deref().is_some_and(|only| only != artifact_id) {
            return Err(ArtifactError::NotFound);
        }
        // The ids of child runs can contain slashes, those of artifacts cannot.
        let (run_id, artifact_id) = artifact_id.rsplit_once('/').ok_or(ArtifactError::NotFound)?;
        Ok((RunId::new(run_id), ArtifactId::new(artifact_id)))
    }
}

impl Artifacts for RunArtifacts {
    async fn read(&self, artifact_id: &str) -> Result<Held, ArtifactError> {
        let (run_id, artifact_id) = self.parts(artifact_id)?;
        self.runs.artifacts().content(&self.caller, &run_id, &artifact_id).await
    }

    async fn write(
        &self,
        artifact_id: &str,
        version: Option<&str>,
        payload: &Value,
    ) -> Result<String, ArtifactError> {
        let (run_id, artifact_id) = self.parts(artifact_id)?;
        self.runs
            .artifacts()
            .replace(&self.caller, &run_id, &artifact_id, version, payload, &self.plugin)
            .await
    }
}
