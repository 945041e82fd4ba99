//! Routines: steps that several workflows share.
//!
//! A routine is written in the authoring format. A `templateCall` replaces the calling step by the routine's
//! steps; `{name}` in titles and prompts is replaced by the argument.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routine {
    /// The id that a `templateCall` refers to.
    pub template_id: &'static str,
    /// Its source, as JSON.
    pub source: &'static str,
    /// The arguments that a call must provide.
    pub arguments: &'static [&'static str],
}

macro_rules! routines {
    ($($template_id:literal from $file:literal takes $arguments:expr;)+) => {
        const ROUTINES: &[Routine] = &[$(Routine {
            template_id: $template_id,
            source: include_str!(concat!("../../../bundled/routines/", $file, ".json")),
            arguments: &$arguments,
        }),+];
    };
}

routines! {
    "wr.templates.capability_probe" from "capability-probe" takes ["capability"];
    "wr.templates.routine.context-gathering" from "context-gathering" takes [];
    "wr.templates.routine.design-review" from "design-review" takes [];
    "wr.templates.routine.execution-simulation" from "execution-simulation" takes [];
    "wr.templates.routine.feature-implementation" from "feature-implementation" takes [];
    "wr.templates.routine.feedback-resolution" from "feedback-resolution" takes [];
    "wr.templates.routine.final-verification" from "final-verification" takes [];
    "wr.templates.routine.hypothesis-challenge" from "hypothesis-challenge" takes [];
    "wr.templates.routine.ideation" from "ideation" takes [];
    "wr.templates.routine.parallel-work-partitioning" from "parallel-work-partitioning" takes [];
    "wr.templates.routine.philosophy-alignment" from "philosophy-alignment" takes [];
    "wr.templates.routine.plan-analysis" from "plan-analysis" takes [];
    "wr.templates.routine.plan-generation" from "plan-generation" takes [];
    "wr.templates.routine.reviewer-family" from "reviewer-family" takes [];
    "wr.templates.routine.tension-driven-design" from "tension-driven-design" takes [];
}

/// All routines, sorted by template id.
pub const fn routines() -> &'static [Routine] {
    ROUTINES
}

/// The template ids of all routines, sorted.
pub fn routine_ids() -> impl Iterator<Item = &'static str> {
    ROUTINES.iter().map(|routine| routine.template_id)
}

/// The source of a template id such as `wr.templates.routine.ideation`.
pub fn routine(template_id: &str) -> Option<&'static str> {
    ROUTINES.iter().find(|routine| routine.template_id == template_id).map(|routine| routine.source)
}
