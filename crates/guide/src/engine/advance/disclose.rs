//! What an attempt records besides its own output: gaps, resolutions of gaps, and corrected notes.

use super::{Attempt, Changes};
use crate::derive::{self, Cause};
use crate::engine::amend::{Correction, Resolution};
use crate::engine::ledger::Ledger;
use crate::engine::reasons::GapFacts;
use crate::record::{EventData, EventId, EvidenceRef, GapResolution, GapSeverity, OutputChannel, Scope};

impl Changes {
    /// The number of open critical gaps after the attempt.
    pub(super) fn open_critical_gaps(&self, before: u32, closed: &[Resolution]) -> u32 {
        let critical = |severity: GapSeverity| u32::from(severity == GapSeverity::Critical);
        let opened: u32 = self.gaps.iter().map(|gap| critical(gap.severity)).sum();
        let closed: u32 = closed.iter().map(|closed| critical(closed.severity)).sum();
        (before + opened).saturating_sub(closed)
    }
}

impl Attempt<'_> {
    /// Records new gaps and the gaps that the attempt closes.
    pub(super) fn add_gaps(
        &self,
        ledger: &mut Ledger,
        gaps: Vec<GapFacts>,
        resolutions: Vec<Resolution>,
        recorded: &EventId,
    ) {
        let attempt = EvidenceRef::Event { event_id: recorded.clone() };
        let opened = gaps.into_iter().map(|gap| {
            // A warning about preferences does not belong to an attempt: it applies from now on.
            let evidence = gap.pointer.is_some().then(|| attempt.clone());
            (gap, GapResolution::Unresolved, evidence.into_iter().collect())
        });
        let closed = resolutions.into_iter().map(|closed| {
            let Resolution { resolves, reason, pointer, summary, artifact, .. } = closed;
            let output_id = derive::artifact_output_id(self.attempt_id, artifact);
            let facts = GapFacts { severity: GapSeverity::Info, reason, summary, pointer };
            let evidence = vec![attempt.clone(), EvidenceRef::Output { output_id }];
            (facts, GapResolution::Resolves { resolves_gap_id: resolves }, evidence)
        });
        for (index, (facts, resolution, evidence_refs)) in opened.chain(closed).enumerate() {
            let GapFacts { severity, reason, summary, pointer } = facts;
            let gap_id = derive::gap_id(Cause::Attempt(self.attempt_id), index);
            ledger.add(
                Scope::Node(self.run.id.clone(), self.node.id.clone()),
                &[gap_id.as_str()],
                EventData::GapRecorded {
                    gap_id: gap_id.clone(),
                    severity,
                    reason,
                    summary,
                    pointer,
                    resolution,
                    evidence_refs,
                },
            );
        }
    }

    /// Records corrected notes on the node of the original notes.
    pub(super) fn add_correction(&self, ledger: &mut Ledger, correction: Correction) {
        let output_id = derive::correction_output_id(self.attempt_id);
        ledger.add(
            Scope::Node(self.run.id.clone(), correction.node_id),
            &[output_id.as_str()],
            EventData::NodeOutputAppended {
                output_id: output_id.clone(),
                supersedes_output_id: Some(correction.supersedes),
                output_channel: OutputChannel::Recap,
                payload: correction.notes,
            },
        );
    }
}
