//! Artifacts of ordinary nodes: the outputs of a node with an `artifactType` are stored when it completes.

use serde_json::{Map, Value, json};

use super::turn::Turn;
use super::{Effect, ids};
use crate::definition::{NodeIndex, NodeType};
use crate::event::data::value::ArtifactCreated;
use crate::mask;

/// Whether `artifactType` is what a node of this type makes. Gates review an artifact; guided nodes and the conformance node make theirs in
/// their own way.
const fn makes_artifact(kind: NodeType) -> bool {
    match kind {
        NodeType::Interrupt
        | NodeType::ApprovalGate
        | NodeType::ClarificationGate
        | NodeType::GovernanceGate
        | NodeType::ConversationGate
        | NodeType::Guided
        | NodeType::ArtifactEmit => false,
        NodeType::Start
        | NodeType::End
        | NodeType::Noop
        | NodeType::Identity
        | NodeType::Conditional
        | NodeType::Delay
        | NodeType::Loop
        | NodeType::Parallel
        | NodeType::Merge
        | NodeType::SetVariable
        | NodeType::GetVariable
        | NodeType::Fail
        | NodeType::ChannelWrite
        | NodeType::SubWorkflow
        | NodeType::Supervisor
        | NodeType::Dispatch
        | NodeType::MockAgent
        | NodeType::SideEffect
        | NodeType::RequiresMissing
        | NodeType::SecretEcho
        | NodeType::CostEmit
        | NodeType::ModelCapabilityInsufficient
        | NodeType::Called(_)
        | NodeType::Exposed(_)
        | NodeType::Pack => true,
    }
}

impl Turn<'_> {
    /// Stores the outputs of a completed node as an artifact, if it has an `artifactType`, and adds the id of the artifact to them.
    /// Sensitive outputs are hidden: an artifact leaves the host as it is stored.
    pub(super) fn store_outputs(
        &mut self,
        node: NodeIndex,
        outputs: &mut Map<String, Value>,
        cause: Option<u64>,
    ) {
        let (kind, node_id) = (self.node(node).kind, self.node_id(node));
        let Some(artifact_type) = self.node(node).artifact_type.clone().filter(|_| makes_artifact(kind))
        else {
            return;
        };
        let run_id = self.state.genesis.run_id.clone();
        let artifact_id = match self.recorded_artifact() {
            Some(recorded) => recorded,
            // The replayed run was recorded by a version that stored no artifact here.
            None if self.recorded.is_some() => return,
            None => ids::artifact_id(&run_id, &node_id, self.state.nodes[node].iteration),
        };
        let created = ArtifactCreated {
            artifact_id: artifact_id.clone(),
            artifact_type: artifact_type.clone(),
            node_id: node_id.clone(),
            summary: None,
        };
        self.emit(created, Some(node), cause);
        let data = mask::outputs(self.definition.masking, &self.node(node).sensitive_outputs, outputs);
        let document = json!({
            "artifactId": artifact_id, "artifactType": artifact_type, "runId": run_id, "nodeId": node_id, "data": data,
        });
        self.ask_host(Effect::StoreArtifact { artifact_id: artifact_id.clone(), document });
        // The outputs of an end node are the result of the run, which may have a schema.
        if kind != NodeType::End {
            outputs.entry("artifactId").or_insert_with(|| artifact_id.as_str().into());
        }
    }
}
