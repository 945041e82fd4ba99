//! The authoring format as types.
//!
//! The compiler checks what fields refer to (a contract, an assessment, a step), because it also sees the
//! contents of templates.

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
    /// The display name.
    pub name: String,
    /// The purpose.
    pub description: String,
    /// The author's version, such as `1.2.3`.
    pub version: String,
    /// The context keys that `start_workflow` must provide, besides the goal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: ContextKeys,
    /// The steps, in order.
    pub steps: Vec<SourceStep>,
    /// Markdown for people who choose a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Examples of suitable goals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The recommended model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tier: Option<ModelTier>,
    /// What must be true before the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<String>,
    /// What to ask the user first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clarification_prompts: Vec<String>,
    /// Rules that are shown at the start and on resumption.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meta_guidance: Vec<String>,
    /// The role that the agent should take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// Functions that every step may cite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_definitions: Vec<FunctionDefinition>,
    /// The maximum recommended autonomy and risk policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_preferences: Option<RecommendedPreferences>,
    /// Features of the closed set; their order has no meaning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The capabilities that it needs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<Capability, CapabilityNeed>,
    /// Assessments that steps may require.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assessments: Vec<Assessment>,
    /// Named conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionDefinition>,
    /// Slots that a workspace may fill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extension_points: Vec<ExtensionPoint>,
    /// Referenced documents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// The metrics that the last step reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_profile: Option<MetricsProfile>,
    /// The version of the authoring rules that the workflow was last reviewed against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validated_against_spec_version: Option<u32>,
}

/// The maximum recommended autonomy and risk policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecommendedPreferences {
    /// The maximum autonomy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_autonomy: Option<Autonomy>,
    /// The maximum risk policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_risk_policy: Option<RiskPolicy>,
}

/// The metrics that a run reports at its end.
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
    /// The id, unique in the workflow.
    pub id: String,
    /// The title; may contain context placeholders.
    pub title: String,
    /// The instructions.
    #[serde(flatten)]
    pub instruction: Instruction,
    /// Text that is added if its condition holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompt_fragments: Vec<Fragment>,
    /// The role that the agent should take in this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// Rules for this step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// The step is skipped while this does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that must be set before the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The context keys that must be set when the step is done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub produces_context: ContextKeys,
    /// Whether the user or the coordinator must approve the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// What only the user can give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<UserDependency>,
    /// The validation rules of its notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_criteria: Option<Criteria>,
    /// The artifact that it must produce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<OutputContract>,
    /// The assessments that it must produce.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assessment_refs: Vec<String>,
    /// Work that certain levels of the assessments require.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assessment_consequences: Vec<AssessmentConsequence>,
    /// Whether notes are optional; the default is that of its loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes_optional: Option<bool>,
    /// Whether a person must give the answers directly, through the client or the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_person: Option<bool>,
    /// Whether the step must not change files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// What the host verifies itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceDemand>,
    /// Functions of this step only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_definitions: Vec<FunctionDefinition>,
    /// Function calls, which are checked against their functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_calls: Vec<FunctionCall>,
    /// Functions that it cites, as `name()`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_references: Vec<String>,
    /// Adds a step that verifies this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Adds a step that audits this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Returns to an earlier step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jump_if: Option<JumpIf>,
    /// The recommended model.
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
    /// A step with only an id, a title and a prompt.
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

/// Returns to an earlier step of the same list after this step, while a condition holds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JumpIf {
    pub condition: Condition,
    /// The id of the step to return to.
    pub target: String,
    /// The maximum number of jumps.
    pub max_jumps: u32,
}

/// The instructions of a step: exactly one of three forms.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Instruction {
    /// A text.
    Prompt(String),
    /// Sections that are rendered to a text.
    PromptBlocks(PromptBlocks),
    /// A template whose steps replace this one.
    TemplateCall(TemplateCall),
}

/// The sections of a structured prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptBlocks {
    /// What to achieve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<BlockText>,
    /// Rules to follow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<BlockText>,
    /// What to do, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub procedure: Vec<BlockText>,
    /// The required outputs by name, in the author's order.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_members")]
    #[schemars(with = "BTreeMap<String, BlockText>")]
    pub output_required: Vec<(String, BlockText)>,
    /// What to check before finishing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<BlockText>,
}

/// Serializes pairs as the fields of an object, in their order.
fn as_members<S: serde::Serializer>(pairs: &[(String, BlockText)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, text)| (name, text)))
}

/// A text, or parts that are concatenated.
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
    /// A bundled reference text.
    Ref { ref_id: String },
}

/// A call of a template.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateCall {
    /// The id, `wr.templates.…`.
    pub template_id: String,
    /// The arguments, which replace `{name}` in the template's texts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
}

/// Adds a step that verifies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verification {
    /// The command to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Adds a step that audits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// The instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The criteria of the audit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rubric: Vec<String>,
}

/// Adds a step that combines the results of parallel work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Synthesis {
    /// The instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The artifact that it must produce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<OutputContract>,
}

/// A step whose work the caller must delegate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParallelStep {
    /// The id, unique in the workflow.
    pub id: String,
    /// Always `parallel`.
    #[serde(rename = "type")]
    pub step_type: ParallelTag,
    /// The title.
    pub title: String,
    /// The work to delegate.
    pub parallel_delegations: Vec<Delegation>,
    /// Adds a step that combines the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<Synthesis>,
    /// The step is skipped while this does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that must be set before the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The context keys that must be set when the step is done.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub produces_context: ContextKeys,
    /// Whether the user or the coordinator must approve the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// What only the user can give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_dependencies: Vec<UserDependency>,
    /// Whether notes are optional.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes_optional: Option<bool>,
    /// Whether a person must give the answers directly, through the client or the console.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_person: Option<bool>,
    /// Whether the step must not change files.
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
    /// The id, unique in the workflow.
    pub id: String,
    /// Always `loop`.
    #[serde(rename = "type")]
    pub step_type: LoopTag,
    /// The title.
    pub title: String,
    /// What controls the iterations.
    #[serde(rename = "loop")]
    pub control: LoopSpec,
    /// What is repeated.
    pub body: Body,
    /// Functions of the body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub function_definitions: Vec<FunctionDefinition>,
    /// Whether the first step of every iteration must be approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<Confirmation>,
    /// The loop is skipped while this does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<Condition>,
    /// The context keys that must be set before the loop starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires_context: ContextKeys,
    /// The default of `notesOptional` for the steps of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes_optional: Option<bool>,
}

/// The body of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Body {
    /// The id of a step next to the loop.
    Step(String),
    /// Steps.
    Steps(Vec<SourceStep>),
}

/// What controls a loop.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopSpec {
    /// The type of loop.
    #[serde(rename = "type")]
    pub loop_type: LoopType,
    /// The maximum number of iterations.
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
    /// The variable with the one-based iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_var: Option<String>,
    /// The variable with the current item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_var: Option<String>,
    /// The variable with the zero-based index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_var: Option<String>,
    /// For `forEach`: whether all items are handed out at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
}

/// The types of loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LoopType {
    While,
    Until,
    For,
    ForEach,
}

/// Where a loop finds its decision.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ConditionSource {
    /// A decision artifact of a step in the body.
    ArtifactContract {
        /// The contract of the artifact.
        contract_ref: String,
        /// If present, must be the loop's own id.
        #[serde(skip_serializing_if = "Option::is_none")]
        loop_id: Option<String>,
    },
    /// The context.
    ContextVariable {
        /// The condition.
        condition: Condition,
    },
}

/// A named condition: a condition on the context, or a decision artifact.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConditionDefinition {
    /// The name.
    pub condition_id: String,
    /// The condition or contract.
    #[serde(flatten)]
    pub test: ConditionTest,
}

/// The test of a named condition.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConditionTest {
    /// A condition on the context.
    Condition(Condition),
    /// The contract of a decision artifact. For loops only.
    ContractRef(String),
}

/// A function: instructions that are defined once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionDefinition {
    /// The name, without `()`.
    pub name: String,
    /// The instructions.
    pub definition: String,
    /// The parameters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// Where it can be cited; the default is where it is defined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeName>,
}

/// Where a function can be cited.
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
    /// The name.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub value_type: ParameterType,
    /// Whether a call must provide it.
    pub required: bool,
    /// The purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The allowed values; the default is any value of its type.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
    /// The default value.
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

/// A function call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionCall {
    /// The function.
    pub name: String,
    /// The arguments by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
}

/// A slot that a workspace may fill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtensionPoint {
    /// The id. Prompts cite it as `{{wr.bindings.<slotId>}}`.
    pub slot_id: String,
    /// The purpose.
    pub purpose: String,
    /// The default value.
    pub default: String,
    /// What may fill it; the default is a routine or a workflow.
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
