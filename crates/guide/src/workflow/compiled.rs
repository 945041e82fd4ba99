//! The compiled workflow: everything that a run needs, independent of the machine it was compiled on.
//!
//! A run is pinned to the digest of its canonical JSON. Lists whose order has no meaning are sorted, so that
//! the digest does not depend on how the source was written.

use std::collections::BTreeMap;

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context_keys::ContextKeys;
use super::positions::PositionIndex;
use crate::record::{
    Autonomy, Capability, DelimiterSafe, NonAssumableChoiceKind, RiskPolicy, StepName, UserOnlyDependency,
    WorkflowHash,
};

/// The version of the compiled format.
pub const COMPILED_VERSION: u8 = 1;

/// A compiled workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledWorkflow {
    /// The version of this format.
    pub schema_version: u8,
    /// Part of the digest: the same content with another id is a different workflow.
    pub workflow_id: String,
    /// The display name.
    pub name: String,
    /// The purpose.
    pub description: String,
    /// The author's version.
    pub version: String,
    /// The role that the agent should take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// What must be true before the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    /// What to ask the user first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    /// Rules that are shown at the start and on resumption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<String>,
    /// The recommended model. Advisory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// The context keys that `start_workflow` must provide.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: ContextKeys,
    /// The capabilities that it needs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<Capability, CapabilityNeed>,
    /// The maximum recommended autonomy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_autonomy: Option<Autonomy>,
    /// The maximum recommended risk policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_risk_policy: Option<RiskPolicy>,
    /// The applied features, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The contracts that its steps use, complete, sorted by reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<ContractPack>,
    /// The assessments that its steps use, sorted by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessments: Vec<Assessment>,
    /// Referenced documents, in the author's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// The functions that its prompts cite, sorted by scope and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// The named conditions, sorted by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NamedCondition>,
    /// The loops, sorted by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<Loop>,
    /// All steps, including those of loop bodies, in the order of the expanded source.
    pub steps: Vec<Step>,
    /// The top-level steps and loops, in execution order.
    pub sequence: Vec<SequenceItem>,
    /// The values of its extension points, including defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, String>,
    /// Warnings for the author, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled_warnings: Vec<CompiledWarning>,
    #[serde(skip)]
    pub(crate) positions: PositionIndex,
}

/// A step or a loop in a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum SequenceItem {
    /// A step.
    Step { step_id: StepName },
    /// A loop.
    Loop { loop_id: DelimiterSafe },
}

/// The recommended size of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelTier {
    Lightweight,
    Mid,
    Heavy,
}

/// How a workflow uses a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityNeed {
    /// The workflow cannot run without it.
    Required,
    /// The workflow runs better with it.
    Preferred,
    /// The capability must not be used.
    Disabled,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// The id.
    pub step_id: StepName,
    /// The title; may contain context placeholders.
    pub title: String,
    /// The instructions, rendered from blocks; may contain context placeholders.
    pub prompt: String,
    /// Text that is added if its condition holds, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_fragments: Vec<Fragment>,
    /// The role that the agent should take in this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// Rules for this step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// The step is skipped while this does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that must be set before the step: the author's, and those of its run condition that
    /// an earlier step produces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The context keys that must be set when the step is done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub produces_context: ContextKeys,
    /// Whether the user or the coordinator must approve the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// What only the user can give, in the author's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<UserDependency>,
    /// The validation rules of its notes. Ignored if there is a contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_criteria: Option<Criteria>,
    /// The artifact that it must produce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<OutputContract>,
    /// The assessments that it must produce.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessment_refs: Vec<String>,
    /// Work that certain levels of the assessments require.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessment_consequences: Vec<AssessmentConsequence>,
    /// Whether notes are optional.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notes_optional: bool,
    /// Whether a person must give the answers directly: answers that the caller sends are not accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_person: bool,
    /// Whether the step must not change files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// What the host verifies itself before the step is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceDemand>,
    /// The functions that it cites, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub function_references: Vec<String>,
    /// The recommended model. Advisory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// The work that the caller must delegate, for a parallel step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Delegation>,
    /// Where the step comes from.
    pub provenance: StepProvenance,
}

/// What the host verifies itself instead of trusting the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvidenceDemand {
    /// Commands that must end with exit code 0, by their names in the operator's settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Whether the lines, commits and branches that the output cites must exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub citations: bool,
}

/// Text that is added to a prompt if a condition holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fragment {
    /// The id, unique within the step.
    pub id: String,
    /// When it is added; if absent, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// The text.
    pub text: String,
}

/// A required approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Confirmation {
    /// Who must approve.
    pub kind: ConfirmationKind,
    /// When approval is required; if absent, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// Who must approve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationKind {
    /// The coordinator of the run.
    CoordinatorEval,
    /// A person.
    HumanApproval,
}

/// Something that a step needs and only the user can give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserDependency {
    /// The id, unique within the step. Answers refer to it.
    pub id: String,
    /// The kind of dependency.
    pub reason: UserOnlyDependency,
    /// Why the user must choose; required with `needs_user_choice`, otherwise not allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice_kind: Option<NonAssumableChoiceKind>,
    /// What to ask the user for; may contain context placeholders.
    pub what: String,
    /// When it is needed; if absent, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// The artifact that a step must produce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputContract {
    /// The contract, which is one of the workflow's contracts.
    pub contract_ref: String,
    /// Whether the step is blocked without it.
    pub required: bool,
}

/// A contract, as it was when the workflow was compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContractPack {
    /// The reference, `wr.contracts.…`.
    pub contract_ref: String,
    /// The `kind` of its artifacts.
    pub artifact_kind: String,
    /// The JSON Schema of its artifacts.
    pub schema: Value,
    /// A valid artifact, to copy.
    pub example: Value,
    /// What a caller needs to know, one item per line.
    pub guidance: Vec<String>,
}

/// An assessment that a step requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assessment {
    /// The id.
    pub id: String,
    /// The purpose.
    pub purpose: String,
    /// The dimensions to assess.
    pub dimensions: Vec<Dimension>,
}

/// One dimension of an assessment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dimension {
    /// The id.
    pub id: String,
    /// What it measures.
    pub purpose: String,
    /// The levels, in the author's order; at least two.
    pub levels: Vec<String>,
    /// Whether it must be given.
    pub required: bool,
}

/// Work that a level of an assessment requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssessmentConsequence {
    /// The level that requires more work, in any dimension.
    pub any_equals_level: String,
    /// The assessment; if absent, every assessment of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_assessment: Option<String>,
    /// The required work.
    pub guidance: String,
}

/// A document that a workflow refers to without including it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// The id.
    pub id: String,
    /// The title.
    pub title: String,
    /// The path, relative to `resolveFrom`, or a URL.
    pub source: String,
    /// The purpose.
    pub purpose: String,
    /// Whether it takes precedence over other documents.
    pub authoritative: bool,
    /// The base of the path.
    pub resolve_from: ResolveFrom,
}

/// The base of a reference's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolveFrom {
    /// The workspace.
    Workspace,
    /// The folder of the workflow.
    Package,
}

/// A function: instructions that are defined once and cited by prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Function {
    /// Where it can be cited.
    pub scope: FunctionScope,
    /// The name, without `()`.
    pub name: String,
    /// The instructions.
    pub definition: String,
    /// The parameters, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<FunctionParameter>,
}

/// Where a function can be cited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum FunctionScope {
    /// In one step.
    Step { step_id: StepName },
    /// In the body of one loop.
    Loop { loop_id: DelimiterSafe },
    /// In every step.
    Workflow,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionParameter {
    /// The name.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub value_type: String,
    /// Whether it is required.
    pub required: bool,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A named condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedCondition {
    /// The name.
    pub condition_id: DelimiterSafe,
    /// The condition.
    pub condition: Condition,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Loop {
    /// The id, unique in the workflow.
    pub loop_id: DelimiterSafe,
    /// The title.
    pub title: String,
    /// What decides whether another iteration runs.
    pub control: LoopControl,
    /// The maximum number of iterations.
    pub max_iterations: u32,
    /// The body, in order. The body index of a loop frame refers to it.
    pub body: Vec<SequenceItem>,
    /// The loop is skipped while this does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that must be set before the loop starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The variable with the one-based iteration, for prompts and conditions.
    pub iteration_var: String,
    /// Where the loop comes from.
    pub provenance: StepProvenance,
}

/// What decides whether a loop runs another iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum LoopControl {
    /// A decision artifact of a step in the body. The first iteration needs none.
    Decision {
        /// The contract of the decision.
        contract_ref: String,
    },
    /// A condition on the context.
    Condition {
        /// The name of the condition.
        condition_id: DelimiterSafe,
        /// Whether the loop runs while it holds, or until it does.
        mode: ConditionMode,
    },
    /// A fixed number of iterations.
    Count {
        /// A number, or the context key of one.
        count: Count,
    },
    /// One iteration for each item of a list in the context.
    ForEach {
        /// The context key of the list.
        items: String,
        /// The variable with the current item.
        item_var: String,
        /// The variable with the zero-based index.
        index_var: String,
        /// Whether the body uses `{{item.field}}`, so that items must be objects.
        object_items: bool,
    },
}

/// Whether a loop runs while a condition holds, or until it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConditionMode {
    While,
    Until,
}

/// The number of iterations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Count {
    /// A number.
    Number(u32),
    /// The context key of a number.
    Key(String),
}

/// Work that a parallel step delegates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delegation {
    /// The workflow to follow.
    pub workflow_id: String,
    /// The goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// When it is delegated; if absent, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// Which context keys the child gets, and under which names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_mapping: BTreeMap<String, String>,
    /// Fixed inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
    /// The items to delegate separately; `None` delegates once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<DelegatedItems>,
    /// The recommended model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// The tools that the child may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
}

/// The list that a parallel `forEach` goes over. It is the only delegation of its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DelegatedItems {
    /// The context key of the list.
    pub key: String,
    /// The name of the item in the goal and the inputs.
    pub item_var: String,
    /// The name of its index, from 0.
    pub index_var: String,
    /// How many items there may be.
    pub max_items: u32,
}

/// Where a step comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepProvenance {
    /// The kind of source.
    pub source: StepSource,
    /// The template, feature or step that it was generated from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_id: Option<String>,
    /// Text that the compiler inserted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injections: Vec<Injection>,
}

/// The kind of source of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepSource {
    /// The author.
    Authored,
    /// A template.
    TemplateInjected,
    /// A feature, or a step's own `verification`, `audit` or `synthesis`.
    FeatureInjected,
}

/// Text that the compiler inserted into a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Injection {
    /// `wr.refs.…` or `wr.features.…`.
    pub origin_id: String,
    /// The digest of the text.
    #[schemars(with = "String")]
    pub content_hash: Digest,
    /// The length of the text, in bytes.
    pub bytes: u64,
}

/// A warning for the author.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledWarning {
    /// The kind of warning.
    pub code: WarningCode,
    /// The JSON path in the source.
    pub path: String,
    /// The message.
    pub message: String,
}

/// The kinds of warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// An id without a namespace.
    LegacyId,
    /// A prompt that is too long to follow easily.
    LongPrompt,
    /// A loop with more than a hundred possible iterations.
    ManyIterations,
    /// A template variable that is never set.
    UndefinedVariable,
    /// A loop that decides by a context key instead of a decision artifact.
    LoopReadsContext,
    /// Criteria that a flag would satisfy.
    FlagOnlyCriteria,
    /// A condition that reads a context key which neither a step nor the inputs declare.
    UndeclaredContextKey,
    /// A condition of an approval, a user dependency or a rule that reads a context key which only a later step
    /// produces. It counts as `null` there.
    ContextKeyProducedLater,
}

/// A condition on the context, in the author's grammar. See the `condition` module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Condition(pub Value);

/// Validation rules of notes, in the author's grammar. See the `criteria` module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Criteria(pub Value);

impl CompiledWorkflow {
    /// The digest that a run is pinned to.
    pub fn hash(&self) -> WorkflowHash {
        Digest::of_canonical(self).expect("a compiled workflow is bounded, and its integers are small")
    }

    pub fn step(&self, step_id: &StepName) -> Option<&Step> {
        self.step_index(step_id).map(|index| &self.steps[index])
    }

    /// The zero-based index of a step.
    pub fn step_index(&self, step_id: &StepName) -> Option<usize> {
        let index = *self.positions.get(self).steps.get(step_id.as_str())?;
        self.steps.get(index).is_some_and(|step| step.step_id == *step_id).then_some(index)
    }

    /// The zero-based index of a step or loop in the top-level sequence.
    pub(crate) fn sequence_index(&self, id: &str) -> Option<usize> {
        self.positions.get(self).sequence.get(id).copied()
    }

    /// The indexes of the top-level items before `index` that have a run condition, in order.
    pub(crate) fn conditional_before(&self, index: usize) -> impl Iterator<Item = usize> + use<'_> {
        self.positions.get(self).conditional.iter().copied().take_while(move |other| *other < index)
    }

    /// All declared context keys.
    pub fn declared_keys(&self) -> &ContextKeys {
        &self.positions.get(self).declared
    }

    pub fn loop_of(&self, loop_id: &DelimiterSafe) -> Option<&Loop> {
        self.loops.binary_search_by(|other| other.loop_id.cmp(loop_id)).ok().map(|index| &self.loops[index])
    }

    pub fn contract(&self, contract_ref: &str) -> Option<&ContractPack> {
        self.contracts.iter().find(|pack| pack.contract_ref == contract_ref)
    }

    pub fn condition(&self, condition_id: &DelimiterSafe) -> Option<&Condition> {
        self.conditions.iter().find(|named| named.condition_id == *condition_id).map(|named| &named.condition)
    }
}
