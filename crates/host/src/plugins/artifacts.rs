//! The artifacts of runs, as plugins see them: with the rights of whoever looks at the page.

use flow::id::{ArtifactId, RunId};
use serde_json::Value;

use super::dispatch::{ArtifactError, Artifacts, Held};
use crate::runs::{Caller, Runs};

/// The artifacts that one plugin on one page may ask for.
///
/// An artifact is named `<run>/<artifact>`. A plugin that shows an artifact may ask for that one alone; what it asks for
/// besides is not there.
#[derive(Clone, Debug)]
pub struct RunArtifacts {
    pub runs: Runs,
    /// Who looks.
    pub caller: Caller,
    /// The one that is shown, where the page shows one.
    pub only: Option<String>,
    /// The plugin, for the audit log.
    pub plugin: String,
}

/// What an artifact of a run is called among plugins.
pub fn name(run_id: &RunId, artifact_id: &ArtifactId) -> String {
    format!("{run_id}/{artifact_id}")
}

impl RunArtifacts {
    fn parts(&self, artifact_id: &str) -> Result<(RunId, ArtifactId), ArtifactError> {
        if self.only.as_deref().is_some_and(|only| only != artifact_id) {
            return Err(ArtifactError::NotFound);
        }
        // The ids of children have slashes in them, those of artifacts have none.
        let (run_id, artifact_id) = artifact_id.rsplit_once('/').ok_or(ArtifactError::NotFound)?;
        Ok((RunId::new(run_id), ArtifactId::new(artifact_id)))
    }
}

impl Artifacts for RunArtifacts {
    async fn read(&self, artifact_id: &str) -> Result<Held, ArtifactError> {
        let (run_id, artifact_id) = self.parts(artifact_id)?;
        self.runs.artifact_content(&self.caller, &run_id, &artifact_id)
    }

    async fn write(
        &self,
        artifact_id: &str,
        version: Option<&str>,
        payload: &Value,
    ) -> Result<String, ArtifactError> {
        let (run_id, artifact_id) = self.parts(artifact_id)?;
        self.runs.replace_artifact(&self.caller, &run_id, &artifact_id, version, payload, &self.plugin).await
    }
}
