//! Steps that fields of other steps generate, and the questions of the metrics profile. Their prompts are
//! part of the hash.

use super::{
    Pass,
    draft::{Context, Draft, Node},
};
use crate::workflow::{
    compiled::{Fragment, StepProvenance, StepSource},
    context_keys::{ContextType, PlainType},
    problem::{ProblemCode as Code, member},
    source::{Audit, Instruction, MAX_STEPS, MetricsProfile, StandardStep, Synthesis, Verification},
};

/// The prefix of the context keys of metrics.
pub(super) const METRICS: &str = "metrics_";

/// Inserts the generated steps after those that request them.
pub(super) fn insert(context: &mut Context<'_>, nodes: &mut Vec<Node>, profile: Option<MetricsProfile>) {
    insert_into(context, nodes);
    let Some(profile) = profile.filter(|profile| *profile != MetricsProfile::None) else { return };
    if let Some(draft) = nodes.last().and_then(metrics_step) {
        push(context, nodes, draft);
    }
    if let Some(Node::Step(draft)) = nodes.last_mut() {
        metrics(context, draft, profile);
    }
}

fn insert_into(context: &mut Context<'_>, nodes: &mut Vec<Node>) {
    let mut result = Vec::with_capacity(nodes.len());
    for mut node in nodes.drain(..) {
        let mut following = Vec::new();
        match &mut node {
            Node::Loop(looped) => insert_into(context, &mut looped.body),
            Node::Step(draft) => {
                if let Some(verification) = draft.step.verification.take() {
                    following.push(follow(
                        draft,
                        "verification",
                        "Verify",
                        verification_prompt(&verification),
                    ));
                }
                if let Some(audit) = draft.step.audit.take() {
                    following.push(follow(draft, "audit", "Audit", audit_prompt(&audit)));
                }
                if let Some(synthesis) = draft.synthesis.take() {
                    following.push(synthesised(draft, &synthesis));
                }
            }
        }
        result.push(node);
        for draft in following {
            push(context, &mut result, draft);
        }
    }
    *nodes = result;
}

/// Adds a generated step.
fn push(context: &mut Context<'_>, nodes: &mut Vec<Node>, draft: Box<Draft>) {
    context.count += 1;
    if context.count == MAX_STEPS + 1 {
        let message = format!("the workflow has more than {MAX_STEPS} steps, including generated ones");
        context.problem(&draft.path, Code::TooLarge, message, "Split the workflow.");
    }
    let origin = draft.provenance.origin_id.clone();
    context.note(Pass::VirtualSteps, &draft.step.id, origin.as_deref(), "generated from the step");
    nodes.push(Node::Step(draft));
}

/// The step that asks for the metrics if the last item may be skipped or run more than once. Otherwise the
/// last step asks for them itself.
fn metrics_step(last: &Node) -> Option<Box<Draft>> {
    let (id, path) = match last {
        Node::Step(draft) if draft.step.run_condition.is_none() => return None,
        Node::Step(draft) => (&draft.step.id, &draft.path),
        Node::Loop(looped) => (&looped.step.id, &looped.path),
    };
    let prompt = "Report the metrics of this run.".to_owned();
    let mut step = StandardStep::bare(format!("{id}__metrics"), "Report the metrics".to_owned(), prompt);
    step.notes_optional = Some(true);
    let provenance = StepProvenance {
        source: StepSource::FeatureInjected,
        origin_id: Some(id.clone()),
        injections: Vec::new(),
    };
    Some(Box::new(Draft::new(member(path, "metrics"), step, provenance)))
}

/// A step after another: it runs if that one runs, and needs no notes.
fn follow(draft: &Draft, suffix: &str, verb: &str, prompt: String) -> Box<Draft> {
    let id = format!("{}__{suffix}", draft.step.id);
    let mut step = StandardStep::bare(id, format!("{verb}: {}", draft.step.title), prompt);
    step.run_condition.clone_from(&draft.step.run_condition);
    step.notes_optional = Some(true);
    step.read_only = draft.step.read_only;
    step.model_tier = draft.step.model_tier;
    let provenance = StepProvenance {
        source: StepSource::FeatureInjected,
        origin_id: Some(draft.step.id.clone()),
        injections: Vec::new(),
    };
    let mut following = Draft::new(member(&draft.path, suffix), step, provenance);
    following.scopes.clone_from(&draft.scopes);
    Box::new(following)
}

fn verification_prompt(verification: &Verification) -> String {
    let mut parts: Vec<String> = verification.prompt.iter().cloned().collect();
    if let Some(command) = &verification.command {
        parts.push(format!(
            "Run this command, and report its exit status and the lines that matter, as they are:\n\n```\n{command}\n```"
        ));
    }
    if parts.is_empty() {
        parts.push("Check the result of the previous step against what it was asked for, by looking and not from memory.".to_owned());
    }
    parts.push("If anything fails, say what and where. Do not repair it here.".to_owned());
    parts.join("\n\n")
}

fn audit_prompt(audit: &Audit) -> String {
    let mut parts = vec![audit.prompt.clone().unwrap_or_else(|| {
        "Read the result of the previous step as somebody who did not write it, and look for what is wrong with it.".to_owned()
    })];
    if !audit.rubric.is_empty() {
        let points: Vec<String> = audit.rubric.iter().map(|point| format!("- {point}")).collect();
        parts.push(format!("Judge each point on its own, with evidence:\n\n{}", points.join("\n")));
    }
    parts.join("\n\n")
}

fn synthesised(draft: &Draft, synthesis: &Synthesis) -> Box<Draft> {
    let prompt = synthesis.prompt.clone().unwrap_or_else(|| {
        "Bring the results of the parallel work together. Where they agree, say so once; where they disagree, \
         decide with evidence and say why; where one is missing, say what that leaves open."
            .to_owned()
    });
    let mut following = follow(draft, "synthesis", "Bring together", prompt);
    following.step.output_contract.clone_from(&synthesis.output_contract);
    following
}

/// Requires the metrics from the last step: they are declared keys, which are checked like any other.
fn metrics(context: &mut Context<'_>, draft: &mut Draft, profile: MetricsProfile) {
    use PlainType::{List, Number};
    let (name, keys): (&str, &[(&str, PlainType)]) = match profile {
        MetricsProfile::None => return,
        MetricsProfile::Coding => (
            "coding",
            &[
                ("metrics_files_changed", Number),
                ("metrics_lines_added", Number),
                ("metrics_lines_removed", Number),
                ("metrics_pr_numbers", List),
            ],
        ),
        MetricsProfile::Review => ("review", &[("metrics_pr_numbers", List)]),
        MetricsProfile::Ticket => ("ticket", &[("metrics_ticket_ids", List)]),
        MetricsProfile::Research => ("research", &[]),
        MetricsProfile::Design => ("design", &[]),
    };
    let outcome = ["success", "partial", "abandoned", "error"].map(str::to_owned).to_vec();
    let produces = &mut draft.step.produces_context;
    produces.insert("metrics_outcome".to_owned(), ContextType::OneOf(outcome));
    for (key, plain) in keys {
        produces.insert((*key).to_owned(), ContextType::Plain(*plain));
    }
    let text = "The `metrics_…` keys below are the numbers of this run. Take counts from version control, not from memory. \
                Give lists whole, with every pull request or ticket of the run, and empty where there is none."
        .to_owned();
    let origin = format!("wr.metrics.{name}");
    draft.inject(&origin, &text);
    context.note(Pass::VirtualSteps, &draft.step.id, Some(&origin), "requests the metrics of the run");
    // A dot separates the id from those that authors can write.
    draft.step.prompt_fragments.push(Fragment { id: "wr.metrics".to_owned(), when: None, text });
    debug_assert!(matches!(draft.step.instruction, Instruction::Prompt(_)) || !context.problems.is_empty());
}
