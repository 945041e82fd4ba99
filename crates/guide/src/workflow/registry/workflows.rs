//! The bundled workflows.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundledWorkflow {
    /// The id, `wr.…`.
    pub id: &'static str,
    /// Its source, as JSON.
    pub source: &'static str,
    pub tags: &'static [&'static str],
}

macro_rules! workflows {
    ($($id:literal from $file:literal tagged $tags:expr;)+) => {
        const WORKFLOWS: &[BundledWorkflow] = &[$(BundledWorkflow {
            id: $id,
            source: include_str!(concat!("../../../bundled/", $file, ".json")),
            tags: &$tags,
        }),+];
    };
}

// A routine without arguments is also a workflow, so that it can be delegated to another agent. One with
// arguments is not, because nothing would provide them.
workflows! {
    "wr.architecture_audit" from "workflows/architecture_audit" tagged ["review_audit", "design"];
    "wr.bug_investigation" from "workflows/bug_investigation" tagged ["investigation", "coding"];
    "wr.change_review" from "workflows/change_review" tagged ["review_audit"];
    "wr.codebase_tour" from "workflows/codebase_tour" tagged ["learning"];
    "wr.design_first" from "workflows/design_first" tagged ["design"];
    "wr.documentation" from "workflows/documentation" tagged ["documentation"];
    "wr.feature_implementation" from "workflows/feature_implementation" tagged ["coding"];
    "wr.incident_response" from "workflows/incident_response" tagged ["investigation"];
    "wr.migration_plan" from "workflows/migration_plan" tagged ["coding", "design"];
    "wr.refactoring" from "workflows/refactoring" tagged ["coding"];
    "wr.research" from "workflows/research" tagged ["investigation", "learning"];
    "wr.routine-context-gathering" from "routines/context-gathering" tagged ["routines"];
    "wr.routine-design-review" from "routines/design-review" tagged ["routines"];
    "wr.routine-execution-simulation" from "routines/execution-simulation" tagged ["routines"];
    "wr.routine-feature-implementation" from "routines/feature-implementation" tagged ["routines"];
    "wr.routine-feedback-resolution" from "routines/feedback-resolution" tagged ["routines"];
    "wr.routine-final-verification" from "routines/final-verification" tagged ["routines"];
    "wr.routine-hypothesis-challenge" from "routines/hypothesis-challenge" tagged ["routines"];
    "wr.routine-ideation" from "routines/ideation" tagged ["routines"];
    "wr.routine-parallel-work-partitioning" from "routines/parallel-work-partitioning" tagged ["routines"];
    "wr.routine-philosophy-alignment" from "routines/philosophy-alignment" tagged ["routines"];
    "wr.routine-plan-analysis" from "routines/plan-analysis" tagged ["routines"];
    "wr.routine-plan-generation" from "routines/plan-generation" tagged ["routines"];
    "wr.routine-reviewer-family" from "routines/reviewer-family" tagged ["routines"];
    "wr.routine-tension-driven-design" from "routines/tension-driven-design" tagged ["routines"];
    "wr.test_design" from "workflows/test_design" tagged ["coding"];
    "wr.ticket_shaping" from "workflows/ticket_shaping" tagged ["tickets", "design"];
    "wr.ui_review" from "workflows/ui_review" tagged ["review_audit", "design"];
    "wr.workflow_authoring" from "workflows/workflow_authoring" tagged ["authoring"];
}

/// All bundled workflows, sorted by id.
pub const fn bundled() -> &'static [BundledWorkflow] {
    WORKFLOWS
}

/// The bundled workflow of an id such as `wr.change_review`.
pub fn bundled_workflow(id: &str) -> Option<&'static BundledWorkflow> {
    let found = WORKFLOWS.binary_search_by(|workflow| workflow.id.cmp(id)).ok()?;
    Some(&WORKFLOWS[found])
}
