//! From what an author wrote to what a run is pinned to.
//!
//! The passes run in one fixed order, and what is a set is sorted, so that the same source and the same
//! bindings give the same bytes everywhere:
//!
//! 1. **templates**: the steps of a routine stand in place of the call; probes of required capabilities come first; steps that a jump
//!    repeats become a loop, and a parallel `forEach` a step that delegates;
//! 2. **bindings**: `{{wr.bindings.…}}` becomes what the workspace chose, or the default;
//! 3. **features**: each declared feature, in the order of their ids, adds to the blocks of structured prompts;
//! 4. **refs**: the program's texts stand in place of their ids;
//! 5. **blocks**: the sections become one prompt;
//! 6. **sentinels**: no `{{wr.…}}` is left;
//! 7. **virtual steps**: verification, audit, synthesis, and the questions of the metrics profile;
//! 8. **checks**: everything that is referred to exists, and every context key that a condition reads is declared;
//! 9. **loops**: what decides each, and what its body is;
//! 10. **lints**: what an author should look at.
//!
//! A workflow that compiles does not fail later because of its definition. [`Compiled::explanation`] says
//! which pass made which line.
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

/// How deep templates may call one another.
pub const MAX_TEMPLATE_DEPTH: usize = 8;
/// How much text refs and features may put into one step, in bytes: more would bury what the author says.
pub const MAX_INJECTED_BYTES: usize = 16_384;
/// The largest compiled workflow, as canonical JSON. It is read whenever a run goes on.
pub const MAX_COMPILED_BYTES: usize = 4 << 20;
/// How many warnings a compiled workflow carries.
pub const MAX_WARNINGS: usize = 100;

/// A workflow, ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// What a run is pinned to.
    pub workflow: CompiledWorkflow,
    /// Which pass made what, in the order of the passes.
    pub explanation: Vec<PassNote>,
    /// Further warnings, sorted. They are not in the hash: a file that has not changed keeps it when the program
    /// learns to warn of more.
    pub advice: Vec<CompiledWarning>,
}

/// What one pass did in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassNote {
    pub pass: Pass,
    /// The step or loop, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The lines of the step's prompt, from 1, first and last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(usize, usize)>,
    /// The template, feature, ref or slot behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_id: Option<String>,
    /// What it did.
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

/// The passes, in their order.
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
    /// The name of the pass.
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

/// Compiles a workflow with the program's own registries.
///
/// # Errors
/// Every problem, in the order of their paths.
pub fn compile(source: &Source, bindings: &Bindings) -> Result<Compiled, Vec<Problem>> {
    compile_with(source, bindings, &Builtin)
}

/// Compiles a workflow with other registries.
///
/// # Errors
/// Every problem, in the order of their paths.
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

/// What came of validating a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Everything that is wrong, in the order of the paths. None when it compiled.
    pub problems: Vec<Problem>,
    /// The source, when it could be read without problems of its own.
    pub source: Option<Source>,
    /// The result, when nothing is wrong.
    pub compiled: Option<Compiled>,
}

/// Reads and compiles a file, and says everything that is wrong with it at once.
///
/// What is broken in itself does not keep the rest from being checked; problems that only follow from others
/// in the same place are left out.
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
            // A limit or a start that is missing says nothing about a source that is not whole.
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
