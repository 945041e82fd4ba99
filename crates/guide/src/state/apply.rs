//! Applies one event. All checks run before anything changes.

mod graph;

use std::sync::Arc;

use super::{
    Assessment, CapabilityObservation, Consequence, Context, Divergence, Fingerprint, FoldError, Gap,
    Observation, Ordinal, Output, SESSION_EVENTS, Selected, SessionState, SkippedRef, Trace, Validation,
};
use crate::record::{
    EnforcementGrade, Event, EventData, EventIndex, GapResolution, GapSeverity, NodeId, PreferenceChange,
    Preferences, Provenance, RunId, Scope,
};

/// How an event about a node counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    /// As activity, which determines the preferred tip: nodes, edges, outputs, gaps, capabilities,
    /// preferences and divergences.
    Activity,
    Bookkeeping,
}

impl SessionState {
    /// Applies the next event of the session, in O(log n).
    ///
    /// # Errors
    /// The event is not valid after the previous ones. The state is then unchanged.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        let key = Fingerprint::of(event.dedupe_key.as_str());
        let event_id = Fingerprint::of(event.event_id.as_str());
        self.check_envelope(event, key, event_id)?;
        self.apply_checked(event)?;
        self.keys.insert(key, event.event_index);
        self.event_ids.insert(event_id, event.event_index);
        self.next_index = event.event_index.next();
        self.first_timestamp_ms.get_or_insert(event.timestamp_ms);
        self.last_timestamp_ms = Some(event.timestamp_ms);
        Ok(())
    }

    fn check_envelope(
        &self,
        event: &Event,
        key: Fingerprint,
        event_id: Fingerprint,
    ) -> Result<(), FoldError> {
        let index = event.event_index;
        let kind = event.data.kind();
        if event.session_id != self.session_id {
            let (expected, found) = (self.session_id.clone(), event.session_id.clone());
            return Err(FoldError::Session { expected, found });
        }
        if index != self.next_index {
            return Err(FoldError::Index { expected: self.next_index, found: index });
        }
        if index.0 >= SESSION_EVENTS {
            return Err(FoldError::Limit);
        }
        if matches!(event.data, EventData::SessionCreated { .. }) != (index == EventIndex::FIRST) {
            return Err(FoldError::Creation { index, kind });
        }
        if !event.data.allows(&event.scope) {
            return Err(FoldError::Scope { kind });
        }
        if let Some(first) = self.keys.get(&key) {
            return Err(FoldError::DedupeKey { key: event.dedupe_key.as_str().to_owned(), first: *first });
        }
        if let Some(first) = self.event_ids.get(&event_id) {
            return Err(FoldError::EventId { event_id: event.event_id.clone(), first: *first });
        }
        Ok(())
    }

    fn apply_checked(&mut self, event: &Event) -> Result<(), FoldError> {
        match &event.scope {
            Scope::Session => {
                match &event.data {
                    EventData::SessionCreated { parent_session_id } => {
                        self.parent_session_id.clone_from(parent_session_id);
                    }
                    data => self.apply_observation(event.event_index, data),
                }
                Ok(())
            }
            Scope::Run(run_id) => self.apply_to_run(event, run_id),
            Scope::Node(run_id, node_id) => self.apply_to_node(event, run_id, node_id),
        }
    }

    fn apply_observation(&mut self, index: EventIndex, data: &EventData) {
        if let EventData::ObservationRecorded { key, value, confidence } = data {
            let observation = Observation { value: value.clone(), confidence: *confidence, index };
            self.observations.insert(*key, observation);
        }
    }

    fn apply_to_run(&mut self, event: &Event, run_id: &RunId) -> Result<(), FoldError> {
        if let EventData::RunStarted { .. } = event.data {
            return self.start_run(event, run_id);
        }
        let run = self.find_run(run_id)?;
        match &event.data {
            EventData::EdgeCreated { edge_kind, from_node_id, to_node_id, cause } => {
                self.add_edge(event, run, *edge_kind, (from_node_id, to_node_id), cause)
            }
            EventData::ContextSet { context, resent_keys, .. } => {
                let values = Arc::new(context.clone());
                let resent_keys = resent_keys.clone();
                self.set_context(run, Context { index: event.event_index, values, resent_keys });
                Ok(())
            }
            EventData::RunCompleted { tip_node_id, .. } => {
                self.complete_run(event.event_index, run, tip_node_id)
            }
            data => Err(FoldError::Scope { kind: data.kind() }),
        }
    }

    fn apply_to_node(&mut self, event: &Event, run_id: &RunId, node_id: &NodeId) -> Result<(), FoldError> {
        let run = self.find_run(run_id)?;
        if let EventData::NodeCreated { .. } = event.data {
            return self.add_node(event, run, node_id);
        }
        let node = self.find_node(run_id, node_id)?;
        let index = event.event_index;
        let touch = match &event.data {
            EventData::AdvanceRecorded { attempt_id, outcome, .. } => {
                self.record_advance(event, node, attempt_id, outcome)?;
                Touch::Bookkeeping
            }
            EventData::NodeOutputAppended { .. } => {
                self.add_output(index, node, &event.data)?;
                Touch::Activity
            }
            EventData::GapRecorded { .. } => {
                self.add_gap(index, run, node, &event.data)?;
                Touch::Activity
            }
            EventData::PreferencesChanged { change_id, delta, effective, .. } => {
                if !delta.iter().all(|change| contains(*effective, *change)) {
                    return Err(FoldError::Preferences { change_id: change_id.clone() });
                }
                self.nodes[node.get()].preferences = *effective;
                self.runs[run.get()].preferences = *effective;
                Touch::Activity
            }
            EventData::CapabilityObserved { cap_obs_id, capability, status, provenance } => {
                let grade =
                    grade(provenance).ok_or_else(|| FoldError::Grade { cap_obs_id: cap_obs_id.clone() })?;
                let observation = Some(CapabilityObservation { status: *status, grade, index });
                let view = self.nodes[node.get()].capabilities.entry(*capability).or_default();
                view.latest = observation;
                if grade == EnforcementGrade::Strong {
                    view.strong = observation;
                }
                Touch::Activity
            }
            EventData::DivergenceRecorded { .. } => {
                self.annotate(index, run, node, &event.data);
                Touch::Activity
            }
            data => {
                self.apply_observation(index, data);
                self.annotate(index, run, node, data);
                Touch::Bookkeeping
            }
        };
        self.touch(index, run, node, touch);
        Ok(())
    }

    fn annotate(&mut self, index: EventIndex, run: Ordinal, node: Ordinal, data: &EventData) {
        let context = self.runs[run.get()].contexts.last().map(|context| &context.values);
        let node = &mut self.nodes[node.get()];
        match data.clone() {
            EventData::DivergenceRecorded { divergence_id, reason, summary, related_step_id } => {
                node.divergences.push(Divergence { divergence_id, reason, summary, related_step_id, index });
            }
            EventData::DecisionTraceAppended { trace_id, entries } => {
                let skipped: Vec<SkippedRef> = entries.iter().filter_map(SkippedRef::of).collect();
                node.traces.push(Trace {
                    trace_id,
                    entries: entries.len(),
                    index,
                    selected: entries.iter().rev().find_map(Selected::of),
                    context: context.filter(|_| !skipped.is_empty()).cloned(),
                    skipped,
                });
            }
            EventData::ValidationPerformed { validation_id, attempt_id, contract_ref, result } => {
                node.validations.push(Validation { validation_id, attempt_id, contract_ref, result, index });
            }
            EventData::AssessmentRecorded {
                assessment_id,
                attempt_id,
                artifact_output_id,
                dimensions,
                ..
            } => {
                let assessment =
                    Assessment { assessment_id, attempt_id, artifact_output_id, dimensions, index };
                node.assessments.push(assessment);
            }
            EventData::AssessmentConsequenceApplied { attempt_id, assessment_id, trigger, guidance } => {
                node.consequences.push(Consequence { assessment_id, attempt_id, trigger, guidance, index });
            }
            _ => {}
        }
    }

    fn add_output(&mut self, index: EventIndex, node: Ordinal, data: &EventData) -> Result<(), FoldError> {
        let EventData::NodeOutputAppended { output_id, supersedes_output_id, output_channel, payload } = data
        else {
            return Ok(());
        };
        if self.output_by_id.contains_key(output_id) {
            return Err(FoldError::Duplicate { what: "output", id: output_id.to_string() });
        }
        let node_id = self.node_at(node).id.clone();
        if let Some(superseded) = supersedes_output_id {
            let ordinal = self.output_by_id.get(superseded);
            let ordinal =
                *ordinal.ok_or_else(|| FoldError::UnknownOutput { output_id: superseded.clone() })?;
            let earlier = &mut self.outputs[ordinal.get()];
            if earlier.node_id != node_id {
                return Err(FoldError::SupersedesOtherNode { output_id: superseded.clone() });
            }
            if earlier.channel != *output_channel {
                let (output_id, channel) = (superseded.clone(), *output_channel);
                return Err(FoldError::SupersedesOtherChannel { output_id, channel });
            }
            earlier.superseded_by = Some(output_id.clone());
        }
        let ordinal = Ordinal::new(self.outputs.len());
        self.outputs.push(Output {
            id: output_id.clone(),
            node_id,
            channel: *output_channel,
            payload: payload.clone(),
            index,
            superseded_by: None,
        });
        self.output_by_id.insert(output_id.clone(), ordinal);
        self.nodes[node.get()].outputs.push(ordinal);
        Ok(())
    }

    fn add_gap(
        &mut self,
        index: EventIndex,
        run: Ordinal,
        node: Ordinal,
        data: &EventData,
    ) -> Result<(), FoldError> {
        let EventData::GapRecorded { gap_id, severity, reason, summary, pointer, resolution, evidence_refs } =
            data
        else {
            return Ok(());
        };
        if self.gap_by_id.contains_key(gap_id) {
            return Err(FoldError::Duplicate { what: "gap", id: gap_id.to_string() });
        }
        let gap = Gap {
            id: gap_id.clone(),
            run_id: self.runs[run.get()].id.clone(),
            node_id: self.node_at(node).id.clone(),
            severity: *severity,
            reason: *reason,
            summary: summary.clone(),
            pointer: pointer.clone(),
            resolution: resolution.clone(),
            evidence_refs: evidence_refs.clone(),
            index,
            resolved_by: None,
        };
        let counters = &mut self.runs[run.get()];
        match resolution {
            GapResolution::Unresolved => {
                counters.open_gaps += 1;
                counters.open_critical_gaps += u32::from(*severity == GapSeverity::Critical);
            }
            GapResolution::Resolves { resolves_gap_id } => {
                let earlier = self.gap_by_id.get(resolves_gap_id);
                let earlier = earlier.map(|ordinal| &mut self.gaps[ordinal.get()]);
                let earlier = earlier
                    .filter(|earlier| earlier.run_id == gap.run_id)
                    .ok_or_else(|| FoldError::UnknownGap { gap_id: resolves_gap_id.clone() })?;
                if earlier.is_open() {
                    counters.open_gaps -= 1;
                    counters.open_critical_gaps -= u32::from(earlier.severity == GapSeverity::Critical);
                }
                earlier.resolved_by.get_or_insert_with(|| gap_id.clone());
            }
        }
        let ordinal = Ordinal::new(self.gaps.len());
        self.gaps.push(gap);
        self.gap_by_id.insert(gap_id.clone(), ordinal);
        self.runs[run.get()].gaps.push(ordinal);
        self.nodes[node.get()].gaps.push(ordinal);
        Ok(())
    }

    fn touch(&mut self, index: EventIndex, run: Ordinal, node: Ordinal, touch: Touch) {
        let touched = &mut self.nodes[node.get()];
        touched.last_index = index;
        if touch == Touch::Activity {
            touched.last_activity_index = index;
            let run = &mut self.runs[run.get()];
            run.last_activity_index = index;
            run.last_touched = Some(node);
        }
    }

    fn find_run(&self, run_id: &RunId) -> Result<Ordinal, FoldError> {
        self.run_by_id.get(run_id).copied().ok_or_else(|| FoldError::UnknownRun { run_id: run_id.clone() })
    }

    fn find_node(&self, run_id: &RunId, node_id: &NodeId) -> Result<Ordinal, FoldError> {
        let ordinal = self.node_by_id.get(node_id).copied();
        ordinal
            .filter(|ordinal| self.node_at(*ordinal).run_id == *run_id)
            .ok_or_else(|| FoldError::UnknownNode { run_id: run_id.clone(), node_id: node_id.clone() })
    }
}

/// Whether the resulting preferences contain a change.
fn contains(effective: Preferences, change: PreferenceChange) -> bool {
    match change {
        PreferenceChange::Autonomy(autonomy) => effective.autonomy == autonomy,
        PreferenceChange::RiskPolicy(policy) => effective.risk_policy == policy,
    }
}

/// The grade of an observation; `None` if the recorded grade does not match its provenance. A claim recorded
/// as strong would satisfy requirements that only a test may.
fn grade(provenance: &Provenance) -> Option<EnforcementGrade> {
    let (recorded, derived) = match provenance {
        Provenance::ProbeStep { enforcement_grade, .. }
        | Provenance::AttemptedUse { enforcement_grade, .. } => {
            (*enforcement_grade, EnforcementGrade::Strong)
        }
        Provenance::ManualClaim { enforcement_grade, .. } => (*enforcement_grade, EnforcementGrade::Weak),
    };
    (recorded == derived).then_some(derived)
}
