//! The words that a caller reads: one step's prompt, whole.
//!
//! In order: where in a loop the step is, what the author wrote, what has to come out of it,
//! and, when a caller comes back, what was done so far. The same facts give the same bytes.

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

use self::requirements::Told;
use crate::interpret::visible_context;
use crate::record::{Blocker, EngineState, PendingStep};
use crate::workflow::compiled::{CompiledWorkflow, ModelTier, Step};
use crate::workflow::condition;

/// What a prompt depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The pinned workflow.
    pub workflow: &'a CompiledWorkflow,
    /// Where the run is.
    pub state: &'a EngineState,
    /// The context of the run.
    pub context: &'a Map<String, Value>,
    /// When the caller reads it.
    pub occasion: Occasion<'a>,
    /// The blockers that stand in the same reply: a requirement that they state is not stated again.
    pub blockers: &'a [Blocker],
}

/// When a prompt is read, which decides how much it explains.
#[derive(Clone, Copy, Debug)]
pub enum Occasion<'a> {
    /// The run begins.
    Start,
    /// The caller just advanced.
    Advance,
    /// The caller comes back, perhaps knowing nothing.
    Return(&'a Recovery),
}

/// A pending step as the caller reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPrompt {
    pub step_id: String,
    /// What it is called.
    pub title: String,
    /// What to do.
    pub prompt: String,
    /// The stance to take.
    pub agent_role: Option<String>,
    /// The model that the author would choose.
    pub model_tier: Option<ModelTier>,
}

/// The pending step, if one is.
pub fn pending(facts: Facts<'_>) -> Option<PendingPrompt> {
    let pending = facts.state.pending()?;
    let step = facts.workflow.step(&pending.step_id)?;
    let (_, stack) = facts.state.progress()?;
    let context = visible_context(facts.workflow, facts.context, stack);
    let writer = Writer { facts, step, pending, context: &context };
    Some(PendingPrompt {
        step_id: step.step_id.to_string(),
        title: one_line(&resolve(&step.title, &context)),
        prompt: writer.prompt(),
        agent_role: step.agent_role.clone().or_else(|| facts.workflow.agent_role.clone()),
        model_tier: step.model_tier.or(facts.workflow.model_tier),
    })
}

struct Writer<'a> {
    facts: Facts<'a>,
    step: &'a Step,
    pending: &'a PendingStep,
    context: &'a Map<String, Value>,
}

impl Writer<'_> {
    fn prompt(&self) -> String {
        let Facts { workflow, occasion, .. } = self.facts;
        let mut sections: Vec<String> = Vec::new();
        if matches!(occasion, Occasion::Start | Occasion::Return(_)) {
            sections.extend(bullets("Rules of this workflow", &workflow.meta_guidance));
        }
        if matches!(occasion, Occasion::Start) {
            sections.extend(bullets("Before you begin, make sure that", &workflow.preconditions));
            sections.extend(bullets("Ask the user, unless you know", &workflow.clarification_prompts));
        }
        sections.extend(self.references());
        sections.extend(loops::banner(workflow, self.step, self.pending));
        sections.push(resolve(&self.step.prompt, self.context));
        // What the author wrote stands together, before what the program asks for.
        for fragment in &self.step.prompt_fragments {
            // A condition that cannot be evaluated does not hold.
            let holds = |when| condition::evaluate(when, self.context).unwrap_or(false);
            if fragment.when.as_ref().is_none_or(holds) {
                sections.push(resolve(&fragment.text, self.context));
            }
        }
        sections.extend(bullets("Guidance", &self.step.guidance));
        let told = Told(self.facts.blockers);
        if self.step.read_only {
            sections.push("**READ-ONLY (System):** do not change files in this step.".to_owned());
        }
        sections.extend(requirements::delegations(self.step, self.context, told));
        sections.extend(requirements::output(workflow, self.step, self.context, told));
        sections.extend(requirements::assessments(workflow, self.step, told));
        sections.extend(requirements::evidence(self.step, told));
        sections.extend(requirements::context(self.step, self.context, told));
        sections.extend(requirements::user(self.step, self.context, told));
        sections.extend(requirements::notes(self.step, occasion, told));
        match occasion {
            // No step before this one need have cited them, so nobody may have read what they mean.
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

    /// Documents to read: all of them with their purpose at the start, their names on return.
    fn references(&self) -> Option<String> {
        let references = &self.facts.workflow.references;
        if references.is_empty() {
            return None;
        }
        let lines = references.iter().map(|reference| match self.facts.occasion {
            Occasion::Start => {
                let authority = if reference.authoritative { ", authoritative" } else { "" };
                format!("- {} ({}{authority}): {}", reference.title, reference.source, reference.purpose)
            }
            _ => format!("- {} ({})", reference.title, reference.source),
        });
        match self.facts.occasion {
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
