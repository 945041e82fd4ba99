//! The authoring format as types: what an author wrote, read once and checked by itself.
//!
//! What a member refers to (a contract, an assessment, a step) is checked by the compiler, which also sees
//! what templates bring along.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    record::{Autonomy, Capability, RiskPolicy},
    workflow::{
        compiled::{
            Assessment, AssessmentConsequence, CapabilityNeed, Condition, Confirmation, Count, Criteria,
            Delegation, EvidenceDemand, Fragment, ModelTier, OutputContract, Reference, UserDependency,
        },
        context_keys::ContextKeys,
    },
};

/// A workflow, as its author wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// `namespace.name`, or an older id without a namespace.
    pub id: String,
    /// What to call it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The author's version, `1.2.3`.
    pub version: String,
    /// The context keys that `start_workflow` has to bring, beside the goal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: ContextKeys,
    /// What to do, in order.
    pub steps: Vec<SourceStep>,
    /// Markdown for people who choose a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Goals that it suits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The model it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// What has to be true before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    /// What to ask the user first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    /// Rules shown at the start and on resumption.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<String>,
    /// The stance of whoever executes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// Functions that every step may cite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_definitions: Vec<FunctionDefinition>,
    /// How autonomous and how bold it should be at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_preferences: Option<RecommendedPreferences>,
    /// Features of the closed set; their order means nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The abilities it needs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<Capability, CapabilityNeed>,
    /// Assessments that steps may ask for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assessments: Vec<Assessment>,
    /// Conditions with names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionDefinition>,
    /// Slots that a workspace may fill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extension_points: Vec<ExtensionPoint>,
    /// Documents that it points at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// Which numbers the last step asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_profile: Option<MetricsProfile>,
    /// The version of the authoring rules that it was last reviewed against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validated_against_spec_version: Option<u32>,
}

/// How autonomous and how bold a run should be at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecommendedPreferences {
    /// How autonomous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_autonomy: Option<Autonomy>,
    /// How bold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_risk_policy: Option<RiskPolicy>,
}

/// The numbers that a run reports at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricsProfile {
    Coding,
    Review,
    Research,
    Design,
    Ticket,
    None,
}

/// A step, a loop or a parallel step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SourceStep {
    /// `type: loop`.
    Loop(Box<LoopStep>),
    /// `type: parallel`.
    Parallel(Box<ParallelStep>),
    /// Without a `type`.
    Standard(Box<StandardStep>),
}

impl SourceStep {
    /// The id of the step or loop.
    pub fn id(&self) -> &str {
        match self {
            Self::Loop(step) => &step.id,
            Self::Parallel(step) => &step.id,
            Self::Standard(step) => &step.id,
        }
    }
}

/// A standard step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StandardStep {
    /// Unique in the workflow.
    pub id: String,
    /// What to call it; may cite the context.
    pub title: String,
    /// What to do.
    #[serde(flatten)]
    pub instruction: Instruction,
    /// Text that is added when its condition holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompt_fragments: Vec<Fragment>,
    /// The stance for this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// Rules for this step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// The step is skipped while this does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that have to be there before it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The context keys that have to be there once it is done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub produces_context: ContextKeys,
    /// Whether a person has to agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// What only the user can give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<UserDependency>,
    /// What its notes have to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_criteria: Option<Criteria>,
    /// The artifact it has to produce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<OutputContract>,
    /// The assessments it has to give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assessment_refs: Vec<String>,
    /// What follows from them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assessment_consequences: Vec<AssessmentConsequence>,
    /// Whether it may go without notes; what its loop says, without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes_optional: Option<bool>,
    /// Whether only a person can give what it needs of the user: through the client or the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_person: Option<bool>,
    /// Whether no file may be changed in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// What the host checks itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceDemand>,
    /// Functions of this step alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_definitions: Vec<FunctionDefinition>,
    /// Calls, checked against their functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_calls: Vec<FunctionCall>,
    /// Functions that it cites, as `name()`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_references: Vec<String>,
    /// Makes a step that verifies this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Makes a step that audits this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Goes back to an earlier step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jump_if: Option<JumpIf>,
    /// The model it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// Advisory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_for_files: Option<bool>,
    /// Advisory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_validation: Option<bool>,
}

impl StandardStep {
    /// A step that says this, and nothing else.
    pub(crate) fn bare(id: String, title: String, prompt: String) -> Self {
        Self {
            id,
            title,
            instruction: Instruction::Prompt(prompt),
            prompt_fragments: Vec::new(),
            agent_role: None,
            guidance: Vec::new(),
            run_condition: None,
            requires_context: ContextKeys::new(),
            produces_context: ContextKeys::new(),
            require_confirmation: None,
            user_dependencies: Vec::new(),
            validation_criteria: None,
            output_contract: None,
            assessment_refs: Vec::new(),
            assessment_consequences: Vec::new(),
            notes_optional: None,
            require_person: None,
            read_only: None,
            evidence: None,
            function_definitions: Vec::new(),
            function_calls: Vec::new(),
            function_references: Vec::new(),
            verification: None,
            audit: None,
            jump_if: None,
            model_tier: None,
            ask_for_files: None,
            has_validation: None,
        }
    }
}

/// Goes back to an earlier step of the same list after this one, as long as a condition holds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JumpIf {
    /// When to go back.
    pub condition: Condition,
    /// The step to go back to.
    pub target: String,
    /// How often at most.
    pub max_jumps: u32,
}

/// What a step says to do: exactly one of three.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Instruction {
    /// A text.
    Prompt(String),
    /// Sections that are rendered to a text.
    PromptBlocks(PromptBlocks),
    /// A template's steps stand in place of this one.
    TemplateCall(TemplateCall),
}

/// The sections of a structured prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptBlocks {
    /// What to reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<BlockText>,
    /// What to keep to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<BlockText>,
    /// What to do, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub procedure: Vec<BlockText>,
    /// What to hand in, by name, in the author's order.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_members")]
    #[schemars(with = "BTreeMap<String, BlockText>")]
    pub output_required: Vec<(String, BlockText)>,
    /// What to check before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<BlockText>,
}

/// Writes pairs as the members of an object, in their order.
fn as_members<S: serde::Serializer>(pairs: &[(String, BlockText)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, text)| (name, text)))
}

/// A text, or parts that are put together to one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BlockText {
    /// A text.
    Text(String),
    /// Parts.
    Parts(Vec<BlockPart>),
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum BlockPart {
    /// A text.
    Text { text: String },
    /// A text of the program's.
    Ref { ref_id: String },
}

/// A call of a template.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateCall {
    /// `wr.templates.…`.
    pub template_id: String,
    /// What stands for `{name}` in the template's texts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
}

/// Makes a following step that verifies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verification {
    /// What to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Makes a following step that audits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What to judge by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rubric: Vec<String>,
}

/// Makes a step that brings the results of parallel work together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Synthesis {
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The artifact it has to produce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<OutputContract>,
}

/// A step that asks the caller to hand work out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParallelStep {
    /// Unique in the workflow.
    pub id: String,
    /// `parallel`.
    #[serde(rename = "type")]
    pub step_type: ParallelTag,
    /// What to call it.
    pub title: String,
    /// The work.
    pub parallel_delegations: Vec<Delegation>,
    /// Makes a step that brings the results together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<Synthesis>,
    /// The step is skipped while this does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that have to be there before it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The context keys that have to be there once it is done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub produces_context: ContextKeys,
    /// Whether a person has to agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// What only the user can give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<UserDependency>,
    /// Whether it may go without notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes_optional: Option<bool>,
    /// Whether only a person can give what it needs of the user: through the client or the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_person: Option<bool>,
    /// Whether no file may be changed in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}

/// The `type` of a parallel step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParallelTag {
    Parallel,
}

/// The `type` of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoopTag {
    Loop,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopStep {
    /// Unique in the workflow.
    pub id: String,
    /// `loop`.
    #[serde(rename = "type")]
    pub step_type: LoopTag,
    /// What to call it.
    pub title: String,
    /// What decides it.
    #[serde(rename = "loop")]
    pub control: LoopSpec,
    /// What it repeats.
    pub body: Body,
    /// Functions of the body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_definitions: Vec<FunctionDefinition>,
    /// Whether a person has to agree with the first step of every time round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// The loop is skipped while this does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that have to be there before it begins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// Whether steps of the body that do not say may go without notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes_optional: Option<bool>,
}

/// What a loop repeats.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Body {
    /// A step beside the loop, by its id.
    Step(String),
    /// Steps.
    Steps(Vec<SourceStep>),
}

/// What decides a loop.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopSpec {
    /// The kind of loop.
    #[serde(rename = "type")]
    pub loop_type: LoopType,
    /// How many times round there may be.
    pub max_iterations: u32,
    /// For `while` and `until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// For `while` and `until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition_source: Option<ConditionSource>,
    /// For `for`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Count>,
    /// For `forEach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// The name of the iteration, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_var: Option<String>,
    /// The name of the item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_var: Option<String>,
    /// The name of the index, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_var: Option<String>,
    /// For `forEach`: whether all items are handed out at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
}

/// The kinds of loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LoopType {
    While,
    Until,
    For,
    ForEach,
}

/// Where a loop looks for its decision.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ConditionSource {
    /// A decision artifact of a step in the body.
    ArtifactContract {
        /// Its contract.
        contract_ref: String,
        /// The loop's own id, if anything.
        #[serde(skip_serializing_if = "Option::is_none")]
        loop_id: Option<String>,
    },
    /// The context.
    ContextVariable {
        /// What is asked of it.
        condition: Condition,
    },
}

/// A condition with a name: a test of the context, or a decision artifact.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConditionDefinition {
    /// Its name.
    pub condition_id: String,
    /// What it asks.
    #[serde(flatten)]
    pub test: ConditionTest,
}

/// What a named condition asks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConditionTest {
    /// A test of the context.
    Condition(Condition),
    /// A decision artifact of this contract. For loops only.
    ContractRef(String),
}

/// A function: instructions written once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionDefinition {
    /// Its name, without `()`.
    pub name: String,
    /// What it means.
    pub definition: String,
    /// Its parameters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// Who may cite it; where it is defined, without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeName>,
}

/// Who may cite a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    Step,
    Loop,
    Workflow,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub value_type: ParameterType,
    /// Whether a call has to give it.
    pub required: bool,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The values it may have; any of its type, without.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
    /// What it is when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    String,
    Number,
    Boolean,
    Array,
    Object,
    Any,
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionCall {
    /// The function.
    pub name: String,
    /// Its arguments, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
}

/// A slot that a workspace may fill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtensionPoint {
    /// Prompts cite it as `{{wr.bindings.<slotId>}}`.
    pub slot_id: String,
    /// What it is for.
    pub purpose: String,
    /// What it is when nobody fills it.
    pub default: String,
    /// What may fill it; a routine or a workflow, without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_kinds: Vec<AcceptedKind>,
}

/// What may fill a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcceptedKind {
    Routine,
    Workflow,
}
