//! Validates the output of an attempt.

use canon::digest::Digest;
use serde_json::{Map, Value};

use super::EngineError;
use super::answers::{self, AttemptAnswers};
use super::reasons::Reason;
use crate::interpret::Decision;
use crate::record::budgets::{
    ARTIFACT_BYTES, ARTIFACTS, INLINE_ARTIFACT_BYTES, VALIDATION_ISSUE_BYTES, VALIDATION_ITEMS,
};
use crate::record::{
    AttemptContext, Autonomy, BlockReason, Blocker, BlockerCode, Capability, CapabilityStatus, ClaimDetail,
    ClaimedBy, ClaimedStatus, DelimiterSafe, DivergenceReason, EnforcementGrade, FailureCode, Pointer,
    ProbeDetail, Provenance, StepName, UseDetail, UseResult, ValidationResult,
};
use crate::verification;
use crate::visit::Visit;
use crate::workflow::compiled::{CapabilityNeed, CompiledWorkflow, LoopControl, Step};
use crate::workflow::context_keys::{ContextFault, ContextKeys, ContextType, FaultKind};
use crate::workflow::contract::{self, ContractVerdict, assessment};
use crate::workflow::criteria;
use crate::workflow::needs::Giver;

/// The contract of a capability observation.
const CAPABILITY_CONTRACT: &str = "wr.contracts.capability_observation";
/// The template of the steps that the compiler inserts to probe required capabilities.
const PROBE_TEMPLATE: &str = "wr.templates.capability_probe";
/// The contract reference of a step's validation criteria.
const CRITERIA_REF: &str = "wr.validationCriteria";

/// An artifact with its canonical bytes and digest.
#[derive(Clone)]
pub(super) struct Artifact {
    pub(super) value: Value,
    pub(super) sha256: Digest,
    pub(super) bytes: Vec<u8>,
}

/// The result of validating an attempt's output.
#[derive(Default)]
pub(super) struct Evidence {
    /// Why the output is not sufficient; empty if it is.
    pub(super) reasons: Vec<Reason>,
    /// The reasons that the autonomy of the session allows to pass with a warning.
    pub(super) waived: Vec<Reason>,
    /// The validation result by contract.
    pub(super) validation: Option<(String, ValidationResult)>,
    pub(super) assessments: Vec<assessment::Assessed>,
    pub(super) followups: Vec<assessment::TriggeredConsequence>,
    pub(super) decision: Option<Decision>,
    pub(super) capabilities: Vec<ObservedCapability>,
    pub(super) divergences: Vec<Divergence>,
    /// The recorded result of the host's verification.
    pub(super) verification: Option<Artifact>,
}

pub(super) struct ObservedCapability {
    pub(super) capability: Capability,
    pub(super) status: CapabilityStatus,
    pub(super) provenance: Provenance,
}

pub(super) struct Divergence {
    pub(super) reason: DivergenceReason,
    pub(super) summary: String,
    pub(super) related_step_id: Option<StepName>,
}

/// The context of an attempt, for validation.
#[derive(Clone, Copy)]
pub(super) struct ContextUpdate<'a> {
    /// All keys that the workflow declares.
    pub(super) declared: &'a ContextKeys,
    /// The context after the attempt.
    pub(super) context: &'a Map<String, Value>,
    /// The changes that the attempt sent.
    pub(super) sent: Option<&'a Map<String, Value>>,
    /// What was recorded since the step became pending.
    pub(super) visit: &'a Visit,
    pub(super) autonomy: Autonomy,
}

impl ContextUpdate<'_> {
    /// The fault of a key that the step produces. A value counts only if it was sent in this visit of the step:
    /// otherwise a forgotten key would be decided by an earlier pass or another branch.
    pub(super) fn produced_fault(&self, key: &str, declaration: &ContextType) -> Option<ContextFault> {
        let Self { context, sent, visit, .. } = self;
        let is_sent = sent.is_some_and(|sent| sent.contains_key(key)) || visit.has(key);
        let earlier = context.get(key).filter(|_| !is_sent);
        ContextFault::of(key, declaration, context)
            .or_else(|| earlier.map(|value| ContextFault::earlier(key, declaration, value)))
    }

    /// The keys that the step produces and whose value was not sent in this visit.
    pub(super) fn earlier_keys(&self, step: &Step) -> Vec<String> {
        let faults =
            step.produces_context.iter().filter_map(|(key, declared)| self.produced_fault(key, declared));
        let earlier = faults.filter(|fault| matches!(fault.kind, FaultKind::Earlier { .. }));
        earlier.map(|fault| fault.key).collect()
    }
}

/// Measures the artifacts that a caller sends, and rejects invalid ones.
pub(super) fn measure(artifacts: Vec<Value>) -> Result<Vec<Artifact>, EngineError> {
    if artifacts.len() > ARTIFACTS {
        let reason = format!("{} artifacts were sent; the limit is {ARTIFACTS}", artifacts.len());
        return Err(EngineError::Artifact { index: ARTIFACTS, reason });
    }
    let measured = artifacts.into_iter().enumerate().map(|(index, value)| match kind_of(&value) {
        Some(verification::KIND) => {
            let reason =
                format!("only the host writes artifacts of kind `{}`; remove it", verification::KIND);
            Err(EngineError::Artifact { index, reason })
        }
        Some(_) | None => Artifact::measured(index, value),
    });
    measured.collect()
}

impl Artifact {
    pub(super) fn measured(index: usize, value: Value) -> Result<Self, EngineError> {
        let fault = |reason: String| EngineError::Artifact { index, reason };
        if kind_of(&value).is_none() {
            return Err(fault("it is not an object with a `kind`".to_owned()));
        }
        let bytes = canon::canonical::to_vec(&value).map_err(|cause| fault(cause.to_string()))?;
        if bytes.len() > ARTIFACT_BYTES {
            return Err(fault(format!("it has {} bytes; the limit is {ARTIFACT_BYTES}", bytes.len())));
        }
        Ok(Self { sha256: Digest::of_bytes(&bytes), bytes, value })
    }

    /// Whether its event contains its value. Larger ones are stored beside the log.
    pub(super) fn is_inline(&self) -> bool {
        self.bytes.len() <= INLINE_ARTIFACT_BYTES
    }
}

/// Validates an output against the requirements of the step.
pub(super) fn judge(
    workflow: &CompiledWorkflow,
    step: &Step,
    innermost: Option<&DelimiterSafe>,
    notes: Option<&str>,
    artifacts: &[Value],
    context: &Map<String, Value>,
    known: impl Fn(Capability) -> Option<CapabilityStatus>,
) -> Evidence {
    let mut evidence = Evidence::default();
    evidence.take_output(workflow, step, notes, artifacts, context);
    evidence.take_assessments(workflow, step, artifacts);
    evidence.take_decision(workflow, innermost, artifacts);
    evidence.take_capabilities(workflow, step, artifacts, known);
    evidence.take_divergences(artifacts);
    let has_contract = step.output_contract.is_some();
    if !step.notes_optional && !has_contract && notes.is_none_or(|notes| notes.trim().is_empty()) {
        let reason = BlockReason::MissingNotes { step_id: step.step_id.clone() };
        evidence.reasons.push(Reason::of(reason, &step.step_id));
    }
    evidence
}

impl Evidence {
    /// Validates the contract, or else the criteria.
    fn take_output(
        &mut self,
        workflow: &CompiledWorkflow,
        step: &Step,
        notes: Option<&str>,
        artifacts: &[Value],
        context: &Map<String, Value>,
    ) {
        if let Some(output) = &step.output_contract {
            let Some(pack) = workflow.contract(&output.contract_ref) else {
                return self.reasons.push(Reason::of(BlockReason::EvaluationError, &step.step_id));
            };
            let contract_ref = || output.contract_ref.clone();
            match contract::check(pack, artifacts) {
                ContractVerdict::Satisfied { .. } => self.passed(contract_ref()),
                ContractVerdict::Missing { submitted_kinds } if output.required => {
                    self.reasons.push(Reason {
                        reason: BlockReason::MissingRequiredOutput { contract_ref: contract_ref() },
                        blocker: contract::missing_blocker(pack, &submitted_kinds),
                    });
                }
                ContractVerdict::Missing { .. } => {}
                // Report an invalid artifact even if the contract is optional.
                ContractVerdict::Invalid { issues } => {
                    self.reasons.push(Reason {
                        reason: BlockReason::InvalidRequiredOutput { contract_ref: contract_ref() },
                        blocker: contract::invalid_blocker(pack, &issues),
                    });
                    self.failed(contract_ref(), issues);
                }
                ContractVerdict::Unusable { .. } => {
                    self.reasons.push(Reason::of(BlockReason::EvaluationError, &step.step_id));
                }
            }
        } else if let Some(rules) = &step.validation_criteria {
            match criteria::evaluate(rules, notes.unwrap_or_default(), context) {
                Ok(verdict) if verdict.passed() => self.passed(CRITERIA_REF.to_owned()),
                Ok(verdict) => {
                    let issues: Vec<String> = verdict
                        .failures
                        .iter()
                        .map(|failure| format!("{} ({})", failure.message, failure.detail))
                        .collect();
                    self.reasons.push(criteria_reason(&issues));
                    self.failed(CRITERIA_REF.to_owned(), issues);
                }
                Err(_) => self.reasons.push(Reason::of(BlockReason::EvaluationError, &step.step_id)),
            }
        }
    }

    fn take_assessments(&mut self, workflow: &CompiledWorkflow, step: &Step, artifacts: &[Value]) {
        let asked: Vec<_> = workflow
            .assessments
            .iter()
            .filter(|definition| step.assessment_refs.contains(&definition.id))
            .collect();
        for (definition, reading) in asked.iter().zip(assessment::read(&asked, artifacts)) {
            match reading {
                assessment::Reading::Given(assessed) => self.assessments.push(assessed),
                assessment::Reading::Missing { submitted_kinds } => self.reasons.push(Reason {
                    reason: BlockReason::MissingRequiredOutput {
                        contract_ref: "wr.contracts.assessment".to_owned(),
                    },
                    blocker: assessment::missing_blocker(definition, &submitted_kinds),
                }),
                assessment::Reading::Invalid { issues } => self.reasons.push(Reason {
                    reason: BlockReason::InvalidRequiredOutput {
                        contract_ref: "wr.contracts.assessment".to_owned(),
                    },
                    blocker: assessment::invalid_blocker(definition, &issues),
                }),
            }
        }
        self.followups = assessment::triggered_consequences(&step.assessment_consequences, &self.assessments);
        for fired in &self.followups {
            let reason = BlockReason::AssessmentFollowupRequired {
                assessment_id: fired.assessment_id.clone(),
                dimension_id: fired.dimension_id.clone(),
                level: fired.level.clone(),
                guidance: fired.guidance.clone(),
            };
            self.reasons.push(Reason::of(reason, &step.step_id));
        }
    }

    /// Reads the decision about the innermost loop, from any step of its body.
    fn take_decision(
        &mut self,
        workflow: &CompiledWorkflow,
        innermost: Option<&DelimiterSafe>,
        artifacts: &[Value],
    ) {
        let control =
            innermost.and_then(|loop_id| workflow.loop_of(loop_id)).map(|definition| &definition.control);
        let Some(LoopControl::Decision { contract_ref }) = control else { return };
        if let Some(pack) = workflow.contract(contract_ref) {
            self.decision = match contract::loop_decision_of(pack, artifacts) {
                contract::LoopDecision::Continue => Some(Decision::Continue),
                contract::LoopDecision::Stop => Some(Decision::Stop),
                // No valid decision. If the step requires one, the contract check above reported it.
                contract::LoopDecision::Missing | contract::LoopDecision::Invalid { .. } => None,
            };
        }
    }

    fn take_capabilities(
        &mut self,
        workflow: &CompiledWorkflow,
        step: &Step,
        artifacts: &[Value],
        known: impl Fn(Capability) -> Option<CapabilityStatus>,
    ) {
        self.capabilities =
            artifacts.iter().filter_map(|artifact| observed_capability(artifact, step)).collect();
        let probes = step
            .output_contract
            .as_ref()
            .is_some_and(|contract| contract.contract_ref == CAPABILITY_CONTRACT);
        for (capability, need) in &workflow.capabilities {
            if *need != CapabilityNeed::Required {
                continue;
            }
            let now = self
                .capabilities
                .iter()
                .rev()
                .find(|seen| seen.capability == *capability && is_strong(&seen.provenance))
                .map(|seen| seen.status);
            let capability = *capability;
            match now.or_else(|| known(capability)) {
                Some(CapabilityStatus::Unavailable) => self.reasons.push(Reason::of(
                    BlockReason::RequiredCapabilityUnavailable { capability },
                    &step.step_id,
                )),
                // A capability may be unknown before it is probed; a probe that leaves it unknown has failed.
                Some(CapabilityStatus::Unknown) | None if probes && self.observes(capability) => self
                    .reasons
                    .push(Reason::of(BlockReason::RequiredCapabilityUnknown { capability }, &step.step_id)),
                Some(_) | None => {}
            }
        }
    }

    fn observes(&self, capability: Capability) -> bool {
        self.capabilities.iter().any(|seen| seen.capability == capability)
    }

    /// Checks the context keys that the step must produce, and the types of all declared keys.
    ///
    /// In a session that stops, no declared key may have the wrong type, even one that was set earlier. A
    /// session that never stops discloses only what this call sent, because earlier values are already
    /// disclosed.
    pub(super) fn take_context(&mut self, step: &Step, judged: &ContextUpdate<'_>) {
        let ContextUpdate { declared, context, sent, autonomy, visit: _ } = *judged;
        let mut reasons = Vec::new();
        let produced = step.produces_context.iter();
        for fault in produced.filter_map(|(key, declaration)| judged.produced_fault(key, declaration)) {
            let near = (!fault.is_invalid()).then(|| near_miss(&fault.key, declared, context)).flatten();
            let hint = near.map_or_else(String::new, |near| {
                format!(" The context has `{near}`; the key must be spelled `{}`.", fault.key)
            });
            let why = format!("Step `{}` must send it each time it is done.{hint}", step.step_id);
            reasons.push(Reason::of_context(&fault, &why, &step.step_id));
        }
        let others = declared.iter().filter(|(key, _)| !step.produces_context.contains_key(*key));
        for (key, declaration) in others {
            let is_reported =
                autonomy != Autonomy::FullAutoNeverStop || sent.is_some_and(|sent| sent.contains_key(key));
            let fault = ContextFault::of(key, declaration, context);
            if let Some(fault) = fault.filter(|fault| is_reported && fault.is_invalid()) {
                reasons.push(Reason::of_context(&fault, "A later step reads it.", &step.step_id));
            }
        }
        self.reasons.append(&mut reasons);
    }

    /// Adds the user's missing answers as the last reasons: the first reason determines whether a retry can
    /// help.
    pub(super) fn take_answers(
        &mut self,
        step: &Step,
        answered: &AttemptAnswers<'_>,
        context: &Map<String, Value>,
        autonomy: Autonomy,
    ) {
        for (need, reason) in answers::unmet(step, answered, context) {
            // In never-stop the reason is disclosed as critical, unless its coordinator could have given it.
            if need.giver == Giver::Coordinator && !need.stops(autonomy) {
                self.waived.push(reason);
            } else {
                self.reasons.push(reason);
            }
        }
    }

    fn take_divergences(&mut self, artifacts: &[Value]) {
        for artifact in
            artifacts.iter().filter(|artifact| kind_of(artifact) == Some("wr.workflow_divergence"))
        {
            let text = |name: &str| artifact.get(name).and_then(Value::as_str);
            let reason = text("reason").and_then(|reason| serde_json::from_value(reason.into()).ok());
            if let (Some(reason), Some(summary)) = (reason, text("summary")) {
                self.divergences.push(Divergence {
                    reason,
                    summary: summary.to_owned(),
                    related_step_id: text("relatedStepId").and_then(|id| StepName::parse(id).ok()),
                });
            }
        }
    }

    fn passed(&mut self, contract_ref: String) {
        let result = ValidationResult { valid: true, issues: Vec::new(), suggestions: Vec::new() };
        self.validation = Some((contract_ref, result));
    }

    fn failed(&mut self, contract_ref: String, issues: Vec<String>) {
        let cut = |issue: String| canon::budget::truncate(&issue, VALIDATION_ISSUE_BYTES).into_owned();
        let issues = issues.into_iter().take(VALIDATION_ITEMS).map(cut).collect();
        let suggestions = self.reasons.last().and_then(|reason| reason.blocker.suggested_fix.clone());
        let result =
            ValidationResult { valid: false, issues, suggestions: suggestions.into_iter().collect() };
        self.validation = Some((contract_ref, result));
    }
}

/// The failed rules with the author's messages, as far as they fit.
fn criteria_reason(issues: &[String]) -> Reason {
    use crate::record::budgets::BLOCKER_MESSAGE_BYTES;
    let message = format!("The notes do not pass: {}", issues.join("; "));
    let fix =
        "Do the work that the message asks for, describe it in `output.notesMarkdown`, and advance again.";
    Reason {
        reason: BlockReason::InvalidRequiredOutput { contract_ref: CRITERIA_REF.to_owned() },
        blocker: Blocker {
            code: BlockerCode::InvalidRequiredOutput,
            pointer: Pointer::OutputContract { contract_ref: CRITERIA_REF.to_owned() },
            message: canon::budget::truncate(&message, BLOCKER_MESSAGE_BYTES).into_owned(),
            suggested_fix: Some(fix.to_owned()),
        },
    }
}

/// A key of the context that is probably a misspelled declared key.
fn near_miss(key: &str, declared: &ContextKeys, context: &Map<String, Value>) -> Option<String> {
    let others = context.keys().filter(|other| !declared.contains_key(*other));
    let others: Vec<&String> = others.filter(|other| other.len() <= 2 * key.len()).collect();
    let same = others.iter().find(|other| other.eq_ignore_ascii_case(key)).map(|other| (*other).clone());
    same.or_else(|| canon::nearest::nearest(key, others, 1).first().map(|near| (*near).clone()))
}

fn kind_of(artifact: &Value) -> Option<&str> {
    artifact.get("kind").and_then(Value::as_str)
}

const fn is_strong(provenance: &Provenance) -> bool {
    !matches!(provenance, Provenance::ManualClaim { .. })
}

/// Reads a capability observation from an artifact, if it is valid.
///
/// Only a probe step that the compiler inserted can produce an observation with the provenance `probe_step`.
/// Elsewhere it counts as a claim.
fn observed_capability(artifact: &Value, step: &Step) -> Option<ObservedCapability> {
    if kind_of(artifact) != Some("wr.capability_observation") {
        return None;
    }
    let text = |name: &str| artifact.get(name).and_then(Value::as_str);
    let capability = serde_json::from_value(text("capability")?.into()).ok()?;
    let available = match text("status")? {
        "available" => true,
        "unavailable" => false,
        _ => return None,
    };
    let result = if available { UseResult::Success } else { UseResult::Failure };
    let failure_code = || {
        let sent = text("failureCode").and_then(|code| serde_json::from_value(code.into()).ok());
        (!available).then(|| sent.unwrap_or(FailureCode::Unknown))
    };
    let provenance = match text("provenance")? {
        "probe_step" if step.provenance.origin_id.as_deref() == Some(PROBE_TEMPLATE) => {
            Provenance::ProbeStep {
                enforcement_grade: EnforcementGrade::Strong,
                detail: ProbeDetail {
                    probe_template_id: PROBE_TEMPLATE.to_owned(),
                    probe_step_id: step.step_id.clone(),
                    result,
                },
            }
        }
        "attempted_use" => Provenance::AttemptedUse {
            enforcement_grade: EnforcementGrade::Strong,
            detail: UseDetail {
                attempt_context: AttemptContext::WorkflowStep,
                result,
                failure_code: failure_code(),
            },
        },
        "manual_claim" | "probe_step" => Provenance::ManualClaim {
            enforcement_grade: EnforcementGrade::Weak,
            detail: ClaimDetail {
                claimed_by: ClaimedBy::Agent,
                claim: if available { ClaimedStatus::Available } else { ClaimedStatus::Unavailable },
            },
        },
        _ => return None,
    };
    let status = if available { CapabilityStatus::Available } else { CapabilityStatus::Unavailable };
    Some(ObservedCapability { capability, status, provenance })
}
