//! Compiles a workflow source to the form that a run is pinned to.
//!
//! The passes run in a fixed order, and sets are sorted, so that the same source and the same bindings give
//! the same bytes everywhere:
//!
//! 1. **templates**: the steps of a routine replace the call; probes of required capabilities are inserted
//!    first; steps that a jump repeats become a loop, and a parallel `forEach` becomes a delegating step;
//! 2. **bindings**: `{{wr.bindings.…}}` is replaced by the workspace's choice, or the default;
//! 3. **features**: each declared feature, ordered by id, adds to the blocks of structured prompts;
//! 4. **refs**: bundled texts replace their ids;
//! 5. **blocks**: the sections are joined to one prompt;
//! 6. **sentinels**: no `{{wr.…}}` may be left;
//! 7. **virtual steps**: verification, audit, synthesis, and the questions of the metrics profile;
//! 8. **checks**: every reference must exist, and every context key that a condition reads must be declared;
//! 9. **loops**: the control and the body of each loop;
//! 10. **lints**: warnings for the author.
//!
//! A workflow that compiles does not fail later because of its definition. [`Compiled::explanation`] says
//! which pass produced which line.
//!
//! ```
//! use guide::workflow::{compile::{self, Bindings}, source::{self, Format}};
//!
//! let text = br###"{"id": "project.triage", "name": "Triage", "description": "Classify a report.",
//!     "version": "1.0.0", "steps": [{"id": "read", "title": "Read", "promptBlocks":
//!         {"goal": "Know {{goal}}.", "procedure": ["Read it", "Name the author"]}}]}"###;
//! let source = source::parse(text, Format::Json).unwrap();
//! let compiled = compile::compile(&source, &Bindings::default()).unwrap();
//! assert_eq!(
//!     compiled.workflow.steps[0].prompt,
//!     "## Goal\nKnow {{goal}}.\n\n## Procedure\n1. Read it\n2. Name the author",
//! );
//! ```

mod bindings;
mod checks;
mod context_keys;
mod draft;
mod emit;
mod functions;
mod jumps;
mod lints;
mod loops;
mod parallel;
mod prompts;
mod registries;
mod templates;
mod tokens;
mod virtual_steps;

use std::fmt;

use serde::Serialize;

use super::{
    compiled::{CompiledWarning, CompiledWorkflow},
    ids::SourceOrigin,
    problem::{Problem, ProblemCode, overlaps, report},
    source::{self, Format, Source},
};

pub use bindings::{Bindings, MAX_BINDINGS_BYTES};
pub use registries::{Builtin, Registries};

/// The maximum depth of template calls.
pub const MAX_TEMPLATE_DEPTH: usize = 8;
/// The maximum number of bytes that refs and features may insert into one step, so that they do not hide the
/// author's text.
pub const MAX_INJECTED_BYTES: usize = 16_384;
/// The maximum size of a compiled workflow, as canonical JSON. It is read whenever a run continues.
pub const MAX_COMPILED_BYTES: usize = 4 << 20;
/// The maximum number of warnings in a compiled workflow.
pub const MAX_WARNINGS: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The form that a run is pinned to.
    pub workflow: CompiledWorkflow,
    /// What each pass did, in the order of the passes.
    pub explanation: Vec<PassNote>,
    /// Further warnings, sorted. They are not part of the hash: an unchanged file keeps its hash when a later
    /// version of the program adds warnings.
    pub advice: Vec<CompiledWarning>,
}

/// What one pass did at one position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassNote {
    pub pass: Pass,
    /// The step or loop, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The first and last line of the step's prompt, one-based.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(usize, usize)>,
    /// The template, feature, ref or slot that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_id: Option<String>,
    /// What the pass did.
    pub note: String,
}

impl fmt::Display for PassNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pass.as_str())?;
        if let Some(step_id) = &self.step_id {
            write!(f, " {step_id}")?;
        }
        if let Some((first, last)) = self.lines {
            if first == last { write!(f, ":{first}")? } else { write!(f, ":{first}-{last}")? }
        }
        write!(f, " {}", self.note)?;
        self.origin_id.as_ref().map_or(Ok(()), |origin| write!(f, " ({origin})"))
    }
}

/// The passes, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    Authored,
    Templates,
    Bindings,
    Features,
    Refs,
    Blocks,
    VirtualSteps,
    Loops,
}

impl Pass {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authored => "authored",
            Self::Templates => "templates",
            Self::Bindings => "bindings",
            Self::Features => "features",
            Self::Refs => "refs",
            Self::Blocks => "blocks",
            Self::VirtualSteps => "virtual_steps",
            Self::Loops => "loops",
        }
    }
}

/// Compiles a workflow with the bundled registries.
///
/// # Errors
/// All problems, ordered by path.
pub fn compile(source: &Source, bindings: &Bindings) -> Result<Compiled, Vec<Problem>> {
    compile_with(source, bindings, &Builtin)
}

/// Compiles a workflow with other registries.
///
/// # Errors
/// All problems, ordered by path.
pub fn compile_with(
    source: &Source,
    bindings: &Bindings,
    registries: &dyn Registries,
) -> Result<Compiled, Vec<Problem>> {
    let mut context = draft::Context::new(source, registries);
    let mut nodes = templates::expand(&mut context, source);
    bindings::resolve(&mut context, &mut nodes, bindings);
    prompts::render(&mut context, &mut nodes);
    bindings::sentinels(&mut context, &mut nodes);
    virtual_steps::insert(&mut context, &mut nodes, source.metrics_profile);
    checks::check(&mut context, &mut nodes);
    context_keys::check(&mut context, &source.inputs, &mut nodes);
    let workflow = emit::emit(&mut context, source, nodes);
    match workflow {
        Some(workflow) if context.problems.is_empty() => {
            let mut explanation = context.notes;
            explanation.sort_by_key(|note| note.pass);
            let mut advice = context.advice;
            advice.sort();
            advice.dedup();
            Ok(Compiled { workflow, explanation, advice })
        }
        _ => Err(report(context.problems)),
    }
}

/// The result of validating a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// All problems, ordered by path; empty if the workflow compiled.
    pub problems: Vec<Problem>,
    /// The source, if it could be read without problems.
    pub source: Option<Source>,
    /// The compiled workflow, if there are no problems.
    pub compiled: Option<Compiled>,
}

/// Reads and compiles a file, and reports all problems at once.
///
/// An invalid part does not prevent checking the rest. Problems that only follow from others at the same
/// position are omitted.
pub fn validate(bytes: &[u8], format: Format, origin: SourceOrigin, bindings: &Bindings) -> Validation {
    let (value, order) = match source::read_ordered(bytes, format) {
        Ok(read) => read,
        Err(problem) => return Validation { problems: vec![problem], source: None, compiled: None },
    };
    let (source, mut problems) = source::read(&value, order, origin);
    match compile(&source, bindings) {
        Ok(compiled) if problems.is_empty() => {
            Validation { problems, source: Some(source), compiled: Some(compiled) }
        }
        result => {
            let well_formed = problems.is_empty();
            let further = result.err().unwrap_or_default();
            // A limit or a missing start says nothing about a source that is incomplete.
            let follows = |problem: &Problem| {
                !well_formed
                    && (problem.path.is_empty()
                        || problem.code == ProblemCode::NotStartable
                        || problems.iter().any(|known| overlaps(&known.path, &problem.path)))
            };
            let further: Vec<Problem> = further.into_iter().filter(|problem| !follows(problem)).collect();
            problems.extend(further);
            Validation { problems: report(problems), source: well_formed.then_some(source), compiled: None }
        }
    }
}
