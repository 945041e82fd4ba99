//! Renders the prompt of a step.
//!
//! In order: the position in a loop, the author's text, the required output, and, when a caller resumes, what
//! was done so far. The same input produces the same bytes.

mod functions;
mod loops;
mod quote;
mod recovery;
mod requirements;
mod template;

use serde_json::{Map, Value};

pub use functions::{Citing, recovered_functions};
pub use quote::{one_line, quoted};
pub use recovery::Recovery;
pub use template::resolve;

use self::requirements::ShownBlockers;
use crate::interpret::visible_context;
use crate::record::{Blocker, EngineState, PendingStep};
use crate::visit::Visit;
use crate::workflow::compiled::{CompiledWorkflow, ModelTier, Step};
use crate::workflow::condition;

#[derive(Clone, Copy, Debug)]
pub struct PromptInput<'a> {
    /// The pinned workflow.
    pub workflow: &'a CompiledWorkflow,
    /// The engine state at the node.
    pub state: &'a EngineState,
    /// The context of the run.
    pub context: &'a Map<String, Value>,
    /// What was recorded since the step became pending.
    pub visit: &'a Visit,
    /// Why the prompt is rendered.
    pub occasion: Occasion<'a>,
    /// The blockers in the same reply: the prompt does not repeat a requirement that they state.
    pub blockers: &'a [Blocker],
}

/// Why a prompt is rendered; it determines how much the prompt explains.
#[derive(Clone, Copy, Debug)]
pub enum Occasion<'a> {
    /// The run starts.
    Start,
    /// The caller just advanced.
    Advance,
    /// The caller resumes, perhaps without any knowledge of the run.
    Return(&'a Recovery),
}

/// The prompt of a pending step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPrompt {
    pub step_id: String,
    pub title: String,
    /// The instructions.
    pub prompt: String,
    /// The role that the agent should take.
    pub agent_role: Option<String>,
    /// The model that the author recommends.
    pub model_tier: Option<ModelTier>,
}

/// The prompt of the pending step; `None` if no step is pending.
pub fn pending(input: PromptInput<'_>) -> Option<PendingPrompt> {
    let pending = input.state.pending()?;
    let step = input.workflow.step(&pending.step_id)?;
    let (_, stack) = input.state.progress()?;
    let context = visible_context(input.workflow, input.context, stack);
    let writer = Writer { input, step, pending, context: &context };
    Some(PendingPrompt {
        step_id: step.step_id.to_string(),
        title: one_line(&resolve(&step.title, &context)),
        prompt: writer.prompt(),
        agent_role: step.agent_role.clone().or_else(|| input.workflow.agent_role.clone()),
        model_tier: step.model_tier.or(input.workflow.model_tier),
    })
}

struct Writer<'a> {
    input: PromptInput<'a>,
    step: &'a Step,
    pending: &'a PendingStep,
    context: &'a Map<String, Value>,
}

impl Writer<'_> {
    fn prompt(&self) -> String {
        let PromptInput { workflow, occasion, .. } = self.input;
        let mut sections: Vec<String> = Vec::new();
        if matches!(occasion, Occasion::Start | Occasion::Return(_)) {
            sections.extend(bullets("Rules of this workflow", &workflow.meta_guidance));
        }
        if matches!(occasion, Occasion::Start) {
            sections.extend(bullets("Before you start, make sure that", &workflow.preconditions));
            sections
                .extend(bullets("Ask the user, unless you already know", &workflow.clarification_prompts));
        }
        sections.extend(self.references());
        sections.extend(loops::banner(workflow, self.step, self.pending, self.context));
        sections.push(resolve(&self.step.prompt, self.context));
        // The author's text comes first, then the program's requirements.
        for fragment in &self.step.prompt_fragments {
            // A condition that cannot be evaluated does not hold.
            let holds = |when| condition::evaluate(when, self.context).unwrap_or(false);
            if fragment.when.as_ref().is_none_or(holds) {
                sections.push(resolve(&fragment.text, self.context));
            }
        }
        sections.extend(bullets("Guidance", &self.step.guidance));
        let shown = ShownBlockers(self.input.blockers);
        if self.step.read_only {
            sections.push("**READ-ONLY (System):** do not change files in this step.".to_owned());
        }
        sections.extend(requirements::delegations(self.step, self.input.visit, self.context, shown));
        sections.extend(requirements::output(workflow, self.step, self.context, shown));
        sections.extend(requirements::assessments(workflow, self.step, shown));
        sections.extend(requirements::evidence(self.step, shown));
        sections.extend(requirements::context(self.step, self.input.visit, self.context, shown));
        sections.extend(requirements::user(self.step, self.context, shown));
        sections.extend(requirements::notes(self.step, occasion, shown));
        match occasion {
            // Earlier steps may not have cited these functions, so the caller may not have seen their
            // definitions.
            Occasion::Start | Occasion::Advance => {
                let loops: Vec<&str> =
                    self.pending.loop_path.iter().map(|entry| entry.loop_id.as_str()).collect();
                let citing = Citing { step: self.step, loops: &loops };
                sections.extend(recovery::definitions(&functions::cited_functions(workflow, citing)));
            }
            Occasion::Return(recovery) => sections.extend(recovery.section()),
        }
        sections.join("\n\n")
    }

    /// The references: with their purposes at the start, only their names on return.
    fn references(&self) -> Option<String> {
        let references = &self.input.workflow.references;
        if references.is_empty() {
            return None;
        }
        let lines = references.iter().map(|reference| match self.input.occasion {
            Occasion::Start => {
                let authority = if reference.authoritative { ", authoritative" } else { "" };
                format!("- {} ({}{authority}): {}", reference.title, reference.source, reference.purpose)
            }
            _ => format!("- {} ({})", reference.title, reference.source),
        });
        match self.input.occasion {
            Occasion::Advance => None,
            Occasion::Start | Occasion::Return(_) => {
                Some(format!("**References:**\n{}", lines.collect::<Vec<_>>().join("\n")))
            }
        }
    }
}

fn bullets(title: &str, items: &[String]) -> Option<String> {
    let lines: Vec<String> = items.iter().map(|item| format!("- {item}")).collect();
    (!lines.is_empty()).then(|| format!("**{title}:**\n{}", lines.join("\n")))
}
