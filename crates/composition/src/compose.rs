//! The eighteen steps, in order, with three barriers.
//!
//! All checks of a block run and their findings are collected; at a barrier any finding ends the composition.

use crate::assembly::Assembly;
use crate::catalogue::Catalogue;
use crate::composition::ComposeOutcome;
use crate::diagnostic::Findings;
use crate::effect::Effect;
use crate::input::Input;
use crate::steps::s01_shape::{self, Draft, Operation};
use crate::steps::s02_sources::{self, Source};
use crate::steps::s07_gate::{self, Candidates};
use crate::steps::s09_policy::{self, Claims, PolicyContext};
use crate::steps::{
    s03_runtime, s04_keys, s05_grammar, s06_default_policy, s10_hide_and_replace, s11_path_aliases,
    s12_route_conflicts, s13_renderer_overrides, s14_claim_conflicts, s15_references, s16_reorder,
    s17_render_handles, s18_emit,
};

/// Composes an input: a pure and total function of its content.
///
/// The order of built-ins, modules, contributions and operations in the input has no effect. See the [crate
/// documentation](crate) for an example.
pub fn compose(input: &Input) -> ComposeOutcome<'_> {
    run(input).0
}

/// How far a composition got, and its data.
pub(crate) enum Progress<'i> {
    /// The input could not be interpreted.
    Nothing,
    /// Barrier A stopped it; the declarations may be incomplete.
    Declarations { sources: Vec<Source<'i>>, drafts: Vec<Draft<'i>>, operations: Vec<Operation<'i>> },
    /// All declarations are valid; barrier B, barrier C or the end followed.
    Candidates { catalogue: Catalogue<'i>, candidates: Candidates, operations: Vec<Operation<'i>> },
}

/// Composes, and returns how far it got.
pub(crate) fn run(input: &Input) -> (ComposeOutcome<'_>, Progress<'_>) {
    let mut findings = Findings::default();

    let Some(shape) = s01_shape::read(input, &mut findings) else {
        return (failed(findings, Vec::new()), Progress::Nothing);
    };
    let mut sources = s02_sources::normalise(&shape.sources);
    s03_runtime::resolve(&mut sources, &shape.sources, &mut findings);
    let order = s04_keys::check(&sources, &shape.drafts, &mut findings);
    s05_grammar::check(&sources, &shape.sources, shape.versions, &mut findings);
    let operations = s06_default_policy::normalise(shape.policy);
    s05_grammar::check_selected_handles(&sources, &shape.drafts, &operations, &mut findings);
    // Barrier A: from here on every declaration is complete, named and valid.
    if !findings.is_empty() {
        let drafts = shape.drafts;
        return (failed(findings, Vec::new()), Progress::Declarations { sources, drafts, operations });
    }

    let catalogue = Catalogue::new(sources, &shape.drafts, order);
    let candidates = s07_gate::gate(&catalogue); // and step 8, for the fallbacks among them
    let outcome = apply(&catalogue, &candidates, &operations, findings);
    (outcome, Progress::Candidates { catalogue, candidates, operations })
}

/// Steps 9 to 18.
fn apply<'i>(
    catalogue: &Catalogue<'i>,
    candidates: &Candidates,
    operations: &[Operation<'i>],
    mut findings: Findings<'i>,
) -> ComposeOutcome<'i> {
    let claims = Claims::gather(catalogue, candidates, operations);
    let scene = PolicyContext { catalogue, candidates, claims: &claims, operations };
    let policy = s09_policy::validate(scene, &mut findings);
    // Barrier B: from here on the whole policy can be applied.
    if !findings.is_empty() {
        return failed(findings, Vec::new());
    }

    let mut assembly = Assembly::new(catalogue, candidates);
    s10_hide_and_replace::apply(&mut assembly, &policy);
    s11_path_aliases::apply(&mut assembly, &policy);
    let effects_by_then = assembly.effects.len();
    let routes_agree = s12_route_conflicts::check(&assembly, &mut findings);
    s13_renderer_overrides::apply(&mut assembly, &policy);
    s14_claim_conflicts::check(&assembly, &mut findings);
    s15_references::check(&assembly, &mut findings);
    // Barrier C: the effects are those before the earliest failed step.
    if !findings.is_empty() {
        let mut effects = assembly.effects;
        if !routes_agree {
            effects.truncate(effects_by_then);
        }
        return failed(findings, effects);
    }

    let moves = s16_reorder::apply(&mut assembly, &policy);
    let required_render_handles = s17_render_handles::collect(&assembly);
    let policy_effects = std::mem::take(&mut assembly.effects);
    let composition = s18_emit::emit(assembly, &moves, required_render_handles);
    ComposeOutcome { composition: Some(composition), diagnostics: Vec::new(), policy_effects }
}

fn failed<'i>(findings: Findings<'i>, policy_effects: Vec<Effect<'i>>) -> ComposeOutcome<'i> {
    ComposeOutcome { composition: None, diagnostics: findings.settle(), policy_effects }
}
