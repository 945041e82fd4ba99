//! Formats an event on one line.

use guide::record::{AdvanceOutcome, Event, EventData, GapResolution, NodeId, OutputPayload};
use serde::Serialize;

use crate::output::{self, DIM, HEADING, time};

const TEXT_CHARACTERS: usize = 100;

/// Index, time, kind, and the most important data.
pub(super) fn line(event: &Event) -> String {
    let node = event.scope.node_id().map(NodeId::as_str).unwrap_or_default();
    let node = node.get(node.len().saturating_sub(6)..).unwrap_or(node);
    let kind = kind(&event.data);
    format!(
        "{DIM}{:>6} {}{DIM:#} {HEADING}{kind:<24}{HEADING:#} {DIM}{node:<6}{DIM:#} {}",
        event.event_index.0,
        time::clock(event.timestamp_ms),
        output::shortened(&summary(&event.data), TEXT_CHARACTERS),
    )
}

/// The wire name of an enum member.
pub(super) fn wire<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn kind(data: &EventData) -> String {
    let value = serde_json::to_value(data).unwrap_or_default();
    value.get("kind").and_then(|kind| kind.as_str()).unwrap_or_default().to_owned()
}

fn summary(data: &EventData) -> String {
    // Exhaustive without `_`, so that new kinds are considered here.
    match data {
        EventData::SessionCreated { parent_session_id: None } => String::new(),
        EventData::SessionCreated { parent_session_id: Some(parent) } => format!("delegated from {parent}"),
        EventData::ObservationRecorded { key, value, .. } => format!("{} {}", key.as_str(), value.text()),
        EventData::RunStarted { workflow_id, workflow_hash, .. } => format!("{workflow_id} {workflow_hash}"),
        EventData::NodeCreated { node_kind, .. } => wire(node_kind),
        EventData::EdgeCreated { edge_kind, cause, .. } => {
            format!("{} ({})", edge_kind.as_str(), wire(&cause.kind))
        }
        EventData::AdvanceRecorded { outcome: AdvanceOutcome::Advanced { to_node_id }, .. } => {
            format!("to {to_node_id}")
        }
        EventData::AdvanceRecorded { outcome: AdvanceOutcome::Blocked { .. }, .. } => "blocked".to_owned(),
        EventData::NodeOutputAppended {
            payload: OutputPayload::Notes { notes_markdown, .. },
            supersedes_output_id,
            ..
        } => match supersedes_output_id {
            None => notes_markdown.clone(),
            Some(earlier) => format!("replaces {earlier}: {notes_markdown}"),
        },
        EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. } => {
            let kind = artifact.content.as_ref().and_then(|content| content.get("kind")?.as_str());
            format!("artifact {}, {} bytes", kind.unwrap_or_default(), artifact.byte_length)
        }
        EventData::PreferencesChanged { effective, .. } => {
            format!("{}, {}", wire(&effective.autonomy), wire(&effective.risk_policy))
        }
        EventData::CapabilityObserved { capability, status, .. } => {
            format!("{} {}", wire(capability), wire(status))
        }
        EventData::GapRecorded { severity, summary, resolution, .. } => match resolution {
            GapResolution::Unresolved => format!("{}: {summary}", wire(severity)),
            GapResolution::Resolves { resolves_gap_id } => format!("closes {resolves_gap_id}: {summary}"),
        },
        EventData::DivergenceRecorded { reason, summary, .. } => format!("{}: {summary}", wire(reason)),
        EventData::DecisionTraceAppended { entries, .. } => {
            entries.iter().map(|entry| entry.summary.as_str()).collect::<Vec<_>>().join("; ")
        }
        EventData::ContextSet { context, .. } => {
            context.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
        }
        EventData::ValidationPerformed { contract_ref, result, .. } => {
            let verdict = if result.valid { "valid" } else { "invalid" };
            format!("{contract_ref} {verdict}")
        }
        EventData::AssessmentRecorded { assessment_id, dimensions, .. } => {
            let levels: Vec<_> = dimensions
                .iter()
                .map(|dimension| format!("{} {}", dimension.dimension_id, dimension.level))
                .collect();
            format!("{assessment_id}: {}", levels.join(", "))
        }
        EventData::AssessmentConsequenceApplied { assessment_id, guidance, .. } => {
            format!("{assessment_id}: {guidance}")
        }
        EventData::RunCompleted { open_critical_gaps, .. } => {
            format!("{open_critical_gaps} critical gaps open")
        }
    }
}
