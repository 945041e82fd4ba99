//! Evidence that the host verifies: what an attempt needs, and how the result is evaluated.

use serde_json::Value;

use super::EngineError;
use super::advance::{Advance, EvaluatedAttempt};
use super::evidence::{Artifact, Evidence};
use super::reasons::{self, Reason};
use crate::delegation::ListFault;
use crate::interpret::missing_key;
use crate::record::{Autonomy, BlockReason, Preferences, StepName, UserOnlyDependency};
use crate::verification::{self, CommandOutcome, CommandResult, Verification, VerificationRequest};
use crate::workflow::compiled::EvidenceDemand;
use crate::workflow::needs::is_answer;

/// How many bytes of a failed command's output a blocker repeats.
const SHOWN_OUTPUT: usize = 240;

/// What the host must verify before [`advance`](super::advance) can evaluate this attempt. `None` if the step
/// demands nothing, or if the attempt is already blocked for other reasons.
///
/// # Errors
/// The errors of [`advance`](super::advance).
pub fn required_verification(request: &Advance<'_>) -> Result<Option<VerificationRequest>, EngineError> {
    let pending = request.snapshot.pending().and_then(|pending| request.workflow.step(&pending.step_id));
    if pending.is_none_or(|step| step.evidence.is_none() && step.delegations.is_empty()) {
        return Ok(None);
    }
    let judged = EvaluatedAttempt::of(request)?;
    let Some(demand) = judged.demand() else { return Ok(None) };
    if judged.evidence.blocks(judged.preferences) {
        return Ok(None);
    }
    let autonomy = judged.preferences.autonomy;
    let mut texts: Vec<&str> = judged.notes.iter().map(|notes| notes.judged(autonomy)).collect();
    // The user's words are not claims of the agent, so they are not checked for citations.
    for artifact in request.output.artifacts.iter().filter(|artifact| !is_answer(artifact)) {
        texts_of(artifact, &mut texts);
    }
    let delegations = demand.delegations;
    Ok(Some(VerificationRequest { delegations, ..VerificationRequest::of(demand.evidence, texts) }))
}

/// What must be verified for an attempt.
pub(super) struct Demand<'s> {
    evidence: Option<&'s EvidenceDemand>,
    delegations: Vec<(usize, String)>,
}

impl<'a> EvaluatedAttempt<'a> {
    /// What must be verified for this attempt; `None` for most steps.
    pub(super) fn demand(&self) -> Option<Demand<'a>> {
        let delegations = self.delegations.clone();
        let evidence = self.step.evidence.as_ref();
        (evidence.is_some() || !delegations.is_empty()).then_some(Demand { evidence, delegations })
    }
}

/// All strings within a value. The reader of the call limits the depth of artifacts.
fn texts_of<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, texts)),
        Value::Object(members) => members.values().for_each(|member| texts_of(member, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Evidence {
    /// Whether the attempt is blocked by the reasons so far.
    pub(super) fn blocks(&self, preferences: Preferences) -> bool {
        preferences.autonomy != Autonomy::FullAutoNeverStop
            && self.reasons.iter().any(|reason| !reasons::is_tolerated(&reason.reason, preferences))
    }

    /// Records the host's result, and adds a reason for every failed check.
    pub(super) fn take_verification(
        &mut self,
        demand: &Demand<'_>,
        verification: &Verification,
        step_id: &StepName,
    ) -> Result<(), EngineError> {
        let is_verified = |name: &String| verification.commands.iter().any(|result| result.name == *name);
        let is_counted = |index: usize| verification.delegations.iter().any(|result| result.index == index);
        if !demand.evidence.iter().flat_map(|demand| &demand.commands).all(is_verified)
            || !demand.delegations.iter().all(|(index, _)| is_counted(*index))
        {
            return Err(EngineError::Inconsistent { reason: "a check that the step requires was not run" });
        }
        for result in verification.commands.iter().filter(|result| !result.outcome.passed()) {
            self.reasons.push(command_reason(result, step_id));
        }
        self.reasons.extend(citation_reason(verification, step_id));
        self.reasons.extend(delegation_reason(verification, step_id));
        self.verification = Some(Artifact::measured(0, verification.artifact())?);
        Ok(())
    }
}

fn invalid(step_id: &StepName) -> Reason {
    Reason::of(BlockReason::InvalidRequiredOutput { contract_ref: verification::KIND.to_owned() }, step_id)
}

fn command_reason(result: &CommandResult, step_id: &StepName) -> Reason {
    let name = &result.name;
    match &result.outcome {
        CommandOutcome::NotAllowed => {
            let detail = UserOnlyDependency::NeedsUserEnvironmentAction;
            let block = BlockReason::UserOnlyDependency { detail, step_id: step_id.clone() };
            Reason::of(block, step_id).saying(
                &format!(
                    "This step is checked with the command `{name}`, which the operator of this host has not allowed."
                ),
                &format!(
                    "Tell the user that the operator must add `[guide.commands.{name}]` with `argv = [\"program\", \"argument\"]` \
                     to the settings file (`interlock doctor` shows its path) and restart the server. Then advance again with \
                     the same output."
                ),
            )
        }
        CommandOutcome::NoWorkspace => invalid(step_id).saying(
            &format!("The command `{name}` could not run: the session has no workspace on this host."),
            NO_WORKSPACE,
        ),
        CommandOutcome::NotStarted { reason } => invalid(step_id).saying(
            &format!("The command `{name}` could not be started: {reason}."),
            &format!(
                "Tell the user to check `[guide.commands.{name}]` in the settings file. Then advance again with the \
                 same output."
            ),
        ),
        CommandOutcome::Ran { argv, ended, output_tail, .. } => {
            let tail = output_tail.trim();
            let from = tail.len().saturating_sub(SHOWN_OUTPUT);
            let from = (from..=tail.len()).find(|at| tail.is_char_boundary(*at)).unwrap_or(tail.len());
            let shown = match &tail[from..] {
                "" => String::new(),
                end => format!(" Its output ends with: {end}"),
            };
            invalid(step_id).saying(
                &format!("The host ran the command `{name}`: {ended}.{shown}"),
                &format!(
                    "Run `{}` in the workspace, fix what it reports, and advance again. The host \
                     then runs it again; notes cannot replace it.",
                    argv.join(" ")
                ),
            )
        }
    }
}

const NO_WORKSPACE: &str = "Start the run again with `workspacePath`: a directory on the host that serves the run and, for \
                            `interlock serve`, below one of its `guide.workspace_roots`.";

/// All failed citations, in one reason.
fn citation_reason(verification: &Verification, step_id: &StepName) -> Option<Reason> {
    let wrong = verification.citations.iter().filter(|result| !result.finding.holds());
    let mut wrong: Vec<String> = wrong.map(ToString::to_string).collect();
    if verification.excess_citations > 0 {
        wrong.extend(verification.lines().pop().map(|(_, line)| line));
    }
    let has_workspace = !verification
        .citations
        .iter()
        .any(|result| result.finding == verification::CitationFinding::NoWorkspace);
    let fix = if has_workspace {
        "Open each cited file and look up each commit or branch. Correct the citations, and advance again."
    } else {
        NO_WORKSPACE
    };
    (!wrong.is_empty()).then(|| {
        invalid(step_id)
            .saying(&format!("The host checked the citations in the output: {}.", wrong.join("; ")), fix)
    })
}

/// A parallel `forEach` whose list is missing or too long.
pub(super) fn list_reason(fault: ListFault<'_>, step_id: &StepName) -> Reason {
    let (ListFault::Missing { list } | ListFault::TooLong { list, .. }) = fault;
    let fix = format!(
        "Advance again with `context`: {{\"{}\": […]}}, a list of at most {} items. The reply \
         then delegates each of them.",
        list.key, list.max_items
    );
    Reason::of(missing_key(&list.key), step_id).saying(&fault.to_string(), &fix)
}

/// All unfinished child sessions, in one reason.
fn delegation_reason(verification: &Verification, step_id: &StepName) -> Option<Reason> {
    let open = verification.delegations.iter().filter(|result| !result.status.is_finished());
    let open: Vec<String> = open.map(ToString::to_string).collect();
    (!open.is_empty()).then(|| {
        let contract_ref = verification::DELEGATION_REF.to_owned();
        Reason::of(BlockReason::MissingRequiredOutput { contract_ref }, step_id).saying(
            &format!(
                "{} of {} delegated runs are not complete. {}.",
                open.len(),
                verification.delegations.len(),
                open.join("; ")
            ),
            "Start a subagent for each of them with its call under DELEGATED RUNS. If you cannot start subagents, make the \
             calls yourself, one after another, and follow each run to its end. Repeating a call returns the current step of its \
             run. Then advance again.",
        )
    })
}
