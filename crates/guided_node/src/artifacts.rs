//! The artifacts of preceding nodes, as files in the agent's workspace.

use std::collections::BTreeMap;

use flow::id::{ArtifactId, NodeId};
use serde_json::{Value, json};
use workspace::library::Library;
use workspace::plan::Source;
use workspace::resolve::{Content, Item, ResolveRequest, Resolver, Sink};

use super::folders;

/// An artifact of the run, with its content.
#[derive(Clone, Debug, PartialEq)]
pub struct InputArtifact {
    pub artifact_id: ArtifactId,
    /// The node that created it.
    pub node_id: NodeId,
    pub document: Value,
}

impl InputArtifact {
    /// The path of the file below the slot for inputs: a folder for each node, and in it a file with the name of the
    /// artifact.
    fn file_name(&self) -> String {
        let path = self.document.pointer("/data/path").and_then(Value::as_str);
        let plain = path.filter(|path| {
            path.len() <= 512 && path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
        });
        let node = folders::name(self.node_id.as_str());
        match plain {
            Some(path) => format!("{node}/{path}"),
            None => format!("{node}/{}.json", self.artifact_id),
        }
    }

    /// The content of the file: the submitted file, or the data as JSON.
    fn bytes(&self) -> Vec<u8> {
        let data = self.document.get("data").unwrap_or(&Value::Null);
        if let Some(text) = data.get("text").and_then(Value::as_str) {
            return text.as_bytes().to_vec();
        }
        if let Some(bytes) = data.get("base64").and_then(Value::as_str)
            && let Ok(bytes) = super::deliverables::decode(bytes)
        {
            return bytes;
        }
        match data {
            Value::String(text) => text.as_bytes().to_vec(),
            other => serde_json::to_vec_pretty(other).unwrap_or_default(),
        }
    }

    /// The artifact as a compose request refers to it.
    pub(super) fn named(&self) -> Value {
        json!({"artifactId": self.artifact_id, "version": 1, "fileName": self.file_name()})
    }
}

/// Resolves resources from a library and from the artifacts of the run.
#[derive(Debug)]
pub(super) struct RunResolver {
    pub(super) library: Library,
    artifacts: BTreeMap<ArtifactId, Vec<u8>>,
}

impl RunResolver {
    pub(super) fn new(library: Library, artifacts: &[InputArtifact]) -> Self {
        let artifacts =
            artifacts.iter().map(|artifact| (artifact.artifact_id.clone(), artifact.bytes())).collect();
        Self { library, artifacts }
    }
}

impl Resolver for RunResolver {
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), workspace::Error> {
        if let Source::ArtifactVersion { artifact_id, .. } = want.source
            && let Some(bytes) = self.artifacts.get(artifact_id.as_str())
        {
            let item =
                Item { rel_path: String::new(), executable: false, content: Content::Bytes(bytes.clone()) };
            return Ok(sink.put(item)?);
        }
        self.library.resolve(want, sink)
    }

    fn upstream(&self, source: &Source) -> Option<String> {
        self.library.upstream(source)
    }
}
