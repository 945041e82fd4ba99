//! The compiled workflow: everything a run needs, and nothing of the machine it was compiled on.
//!
//! Its digest, of the canonical JSON, is what a run is pinned to. Lists whose order means
//! nothing are sorted, so that the digest does not depend on how the source was written.

use std::collections::BTreeMap;

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context_keys::ContextKeys;
use super::places::Places;
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
    /// Part of the digest: the same content under another id is another workflow.
    pub workflow_id: String,
    /// What to call it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The author's version.
    pub version: String,
    /// The stance of whoever executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// What has to be true before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    /// What to ask the user first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    /// Rules shown at the start and on resumption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<String>,
    /// The model it asks for. Advisory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// The context keys that a start has to bring.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: ContextKeys,
    /// The abilities it needs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<Capability, CapabilityNeed>,
    /// How autonomous it should be at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_autonomy: Option<Autonomy>,
    /// How bold it should be at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_risk_policy: Option<RiskPolicy>,
    /// The features that were applied, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The contracts that its steps use, whole, sorted by reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<ContractPack>,
    /// The assessments that its steps use, sorted by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessments: Vec<Assessment>,
    /// Documents that it points at, in the author's order.
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
    /// Every step, those of loop bodies included, in the order of the expanded source.
    pub steps: Vec<Step>,
    /// What runs, in order: steps and loops of the top level.
    pub sequence: Vec<SequenceItem>,
    /// The values of its extension points, whoever chose them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, String>,
    /// What an author should look at, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled_warnings: Vec<CompiledWarning>,
    #[serde(skip)]
    pub(crate) places: Places,
}

/// A step or a loop, in a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum SequenceItem {
    /// A step.
    Step { step_id: StepName },
    /// A loop.
    Loop { loop_id: DelimiterSafe },
}

/// The size of model that a step asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelTier {
    Lightweight,
    Mid,
    Heavy,
}

/// How much a workflow wants a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityNeed {
    /// It cannot run without.
    Required,
    /// It runs better with.
    Preferred,
    /// It must not be used.
    Disabled,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Its id.
    pub step_id: StepName,
    /// What to call it; may cite the context.
    pub title: String,
    /// What to do, rendered from its blocks; may cite the context.
    pub prompt: String,
    /// Text that is added when its condition holds, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_fragments: Vec<Fragment>,
    /// The stance for this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// Rules for this step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// The step is skipped while this does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that have to be there before the step: the author's, and those of its run condition that
    /// an earlier step produces.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The context keys that have to be there once the step is done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub produces_context: ContextKeys,
    /// Whether a person has to agree before it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// What only the user can give, in the author's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<UserDependency>,
    /// What its notes have to keep. Ignored when there is a contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_criteria: Option<Criteria>,
    /// The artifact it has to produce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<OutputContract>,
    /// The assessments it has to give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessment_refs: Vec<String>,
    /// What follows from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessment_consequences: Vec<AssessmentConsequence>,
    /// Whether it may go without notes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notes_optional: bool,
    /// Whether only a person can give what it needs of the user: an answer that a caller sends does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_person: bool,
    /// Whether no file may be changed in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// What the host checks itself before the step counts as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceDemand>,
    /// The functions that it cites, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub function_references: Vec<String>,
    /// The model it asks for. Advisory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// The work it asks the caller to hand out, for a parallel step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Delegation>,
    /// Where it comes from.
    pub provenance: StepProvenance,
}

/// What the host checks itself, because an agent's word for it is not enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvidenceDemand {
    /// Commands that have to end with exit code 0, by their names in the operator's settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Whether lines, commits and branches that the output cites have to exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub citations: bool,
}

/// Text that is added to a prompt when a condition holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fragment {
    /// Its id, unique within the step.
    pub id: String,
    /// When it is added; always, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// The text.
    pub text: String,
}

/// When a person has to agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Confirmation {
    /// Who has to agree.
    pub kind: ConfirmationKind,
    /// When; always, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// Who has to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationKind {
    /// Whoever coordinates the run.
    CoordinatorEval,
    /// A person.
    HumanApproval,
}

/// Something that a step needs and only the user can give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserDependency {
    /// Its id, unique within the step; an answer names it.
    pub id: String,
    /// What kind of thing it is.
    pub reason: UserOnlyDependency,
    /// Why a choice is the user's; with `needs_user_choice`, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice_kind: Option<NonAssumableChoiceKind>,
    /// What to ask the user for; may cite the context.
    pub what: String,
    /// When it is needed; always, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

/// The artifact that a step has to produce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputContract {
    /// Which contract; it is among the workflow's contracts.
    pub contract_ref: String,
    /// Whether the step is blocked without it.
    pub required: bool,
}

/// A contract, as it was when the workflow was compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContractPack {
    /// Its reference, `wr.contracts.…`.
    pub contract_ref: String,
    /// The `kind` that its artifacts carry.
    pub artifact_kind: String,
    /// The JSON Schema of its artifacts.
    pub schema: Value,
    /// An artifact that keeps it, for pasting.
    pub example: Value,
    /// What a caller needs to know, one line each.
    pub guidance: Vec<String>,
}

/// An assessment that a step asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assessment {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub purpose: String,
    /// What is assessed.
    pub dimensions: Vec<Dimension>,
}

/// One dimension of an assessment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dimension {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub purpose: String,
    /// The levels, in the author's order; at least two.
    pub levels: Vec<String>,
    /// Whether it has to be given.
    pub required: bool,
}

/// What follows from an assessment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssessmentConsequence {
    /// The level that asks for more work, in any dimension.
    pub any_equals_level: String,
    /// Of this assessment; of every one that the step refers to, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_assessment: Option<String>,
    /// What to do then.
    pub guidance: String,
}

/// A document that a workflow points at, and never includes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// Its id.
    pub id: String,
    /// What to call it.
    pub title: String,
    /// Where it is, relative to what `resolve_from` says, or a URL.
    pub source: String,
    /// What it is for.
    pub purpose: String,
    /// Whether it decides when others disagree.
    pub authoritative: bool,
    /// What its path starts from.
    pub resolve_from: ResolveFrom,
}

/// What a reference's path starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolveFrom {
    /// The workspace.
    Workspace,
    /// The workflow's own folder.
    Package,
}

/// A function that prompts cite: instructions written once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Function {
    /// Who can see it.
    pub scope: FunctionScope,
    /// Its name, without `()`.
    pub name: String,
    /// What it means.
    pub definition: String,
    /// Its parameters, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<FunctionParameter>,
}

/// Who can see a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum FunctionScope {
    /// One step.
    Step { step_id: StepName },
    /// The body of one loop.
    Loop { loop_id: DelimiterSafe },
    /// Every step.
    Workflow,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionParameter {
    /// Its name.
    pub name: String,
    /// Its type, in words.
    #[serde(rename = "type")]
    pub value_type: String,
    /// Whether it has to be given.
    pub required: bool,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A condition with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedCondition {
    /// Its name.
    pub condition_id: DelimiterSafe,
    /// What it asks.
    pub condition: Condition,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Loop {
    /// Its id, unique in the workflow.
    pub loop_id: DelimiterSafe,
    /// What to call it.
    pub title: String,
    /// What decides about another time round.
    pub control: LoopControl,
    /// How many times round there may be.
    pub max_iterations: u32,
    /// The body, in order; the place in it is the body index.
    pub body: Vec<SequenceItem>,
    /// The loop is skipped while this does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that have to be there before the loop begins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The name of the iteration, from 1, in prompts and conditions.
    pub iteration_var: String,
    /// Where it comes from.
    pub provenance: StepProvenance,
}

/// What decides whether a loop goes round once more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum LoopControl {
    /// A decision artifact of a step in the body. The first time round needs none.
    Decision {
        /// The contract of the decision.
        contract_ref: String,
    },
    /// A condition on the context.
    Condition {
        /// Which one.
        condition_id: DelimiterSafe,
        /// Whether the loop goes on while it holds, or until it does.
        mode: ConditionMode,
    },
    /// So many times.
    Count {
        /// A number, or the context key of one.
        count: Count,
    },
    /// Once for each item of a list in the context.
    ForEach {
        /// The context key of the list.
        items: String,
        /// The name of the item in prompts and conditions.
        item_var: String,
        /// The name of its index, from 0.
        index_var: String,
        /// Whether the body uses `{{item.field}}`, so that items have to be objects.
        object_items: bool,
    },
}

/// Whether a loop goes on while a condition holds, or until it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConditionMode {
    While,
    Until,
}

/// How many times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Count {
    /// A number.
    Number(u32),
    /// The context key of a number.
    Key(String),
}

/// Work that a parallel step hands out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delegation {
    /// The workflow to follow.
    pub workflow_id: String,
    /// Its goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// When it is handed out; always, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// Which context keys it gets, and under which names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_mapping: BTreeMap<String, String>,
    /// Fixed inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
    /// The items for each of which it is handed out; once, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<DelegatedItems>,
    /// The model it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// The tools it may use.
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
    /// Who wrote it.
    pub source: StepSource,
    /// The template, feature or step behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_id: Option<String>,
    /// Text that was put into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injections: Vec<Injection>,
}

/// Who wrote a step.
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

/// Text that the compiler put into a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Injection {
    /// `wr.refs.…` or `wr.features.…`.
    pub origin_id: String,
    /// The digest of the text.
    #[schemars(with = "String")]
    pub content_hash: Digest,
    /// Its length.
    pub bytes: u64,
}

/// What an author should look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledWarning {
    /// The kind of warning.
    pub code: WarningCode,
    /// Where: a JSON path of the source.
    pub path: String,
    /// What.
    pub message: String,
}

/// The kinds of warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// An id without a namespace.
    LegacyId,
    /// A prompt that is hard to follow for its length.
    LongPrompt,
    /// A loop that may go round more than a hundred times.
    ManyIterations,
    /// A template variable that nothing sets.
    UndefinedVariable,
    /// A loop that reads a context key to decide, rather than a decision artifact.
    LoopReadsContext,
    /// Criteria that a flag could satisfy.
    FlagOnlyCriteria,
    /// A condition that reads a context key which neither a step nor the inputs declare.
    UndeclaredContextKey,
}

/// A condition on the context, in the author's grammar. See the `condition` module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Condition(pub Value);

/// What notes have to keep, in the author's grammar. See the `criteria` module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Criteria(pub Value);

impl CompiledWorkflow {
    /// What a run is pinned to.
    pub fn hash(&self) -> WorkflowHash {
        Digest::of_canonical(self).expect("a compiled workflow is bounded, and its integers are small")
    }

    /// The step of an id.
    pub fn step(&self, step_id: &StepName) -> Option<&Step> {
        self.step_place(step_id).map(|place| &self.steps[place])
    }

    /// Where a step is among the steps, from 0.
    pub fn step_place(&self, step_id: &StepName) -> Option<usize> {
        let place = *self.places.of(self).steps.get(step_id.as_str())?;
        self.steps.get(place).is_some_and(|step| step.step_id == *step_id).then_some(place)
    }

    /// Where a step or loop is in the sequence of the top level, from 0.
    pub(crate) fn sequence_place(&self, id: &str) -> Option<usize> {
        self.places.of(self).sequence.get(id).copied()
    }

    /// The items of the top level before `place` that have a run condition, in order.
    pub(crate) fn conditional_before(&self, place: usize) -> impl Iterator<Item = usize> + use<'_> {
        self.places.of(self).conditional.iter().copied().take_while(move |other| *other < place)
    }

    /// The keys of the context that something declares, by name.
    pub fn declared_keys(&self) -> &ContextKeys {
        &self.places.of(self).declared
    }

    /// The loop of an id.
    pub fn loop_of(&self, loop_id: &DelimiterSafe) -> Option<&Loop> {
        self.loops.binary_search_by(|other| other.loop_id.cmp(loop_id)).ok().map(|index| &self.loops[index])
    }

    /// The contract of a reference.
    pub fn contract(&self, contract_ref: &str) -> Option<&ContractPack> {
        self.contracts.iter().find(|pack| pack.contract_ref == contract_ref)
    }

    /// The condition of a name.
    pub fn condition(&self, condition_id: &DelimiterSafe) -> Option<&Condition> {
        self.conditions.iter().find(|named| named.condition_id == *condition_id).map(|named| &named.condition)
    }
}
