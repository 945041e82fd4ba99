//! `context.json`: the facts of a workspace, for programs.

use serde::Serialize;
use serde_json::{Map, Value};

use super::facts::{Facts, place_of};
use crate::plan::{RenderParams, RenderedInputArtifact, RenderedMount, RenderedWorkingFile};
use crate::slot::Slot;

/// The version of the format. Within a version, members may be added, but not removed or redefined.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Context<'a> {
    schema: u32,
    surface: &'static str,
    org_id: &'a str,
    project_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_run_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    agent: Agent<'a>,
    authority: Authority<'a>,
    mounts: &'a [RenderedMount],
    #[serde(skip_serializing_if = "Option::is_none")]
    deliverable: Option<Deliverable<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<Workflow>,
    working_files: &'a [RenderedWorkingFile],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Agent<'a> {
    slug: &'a str,
    group_key: &'a str,
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    definition: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Authority<'a> {
    may_write_workspace: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Deliverable<'a> {
    spec_ref: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Workflow {
    inputs: Map<String, Value>,
    input_artifacts: Vec<RenderedInputArtifact>,
}

fn placed(artifact: &RenderedInputArtifact) -> RenderedInputArtifact {
    RenderedInputArtifact { path: place_of(&artifact.path), ..artifact.clone() }
}

pub(super) fn render(params: &RenderParams, facts: &Facts) -> String {
    let in_workflow = params.session_id.is_none();
    let context = Context {
        schema: SCHEMA,
        surface: if in_workflow { "workflow" } else { "agent-session" },
        org_id: &params.org_id,
        project_id: &params.project_id,
        run_id: params.run_id.as_deref(),
        job_run_id: params.job_run_id.as_deref(),
        session_id: params.session_id.as_deref(),
        agent: Agent {
            slug: &params.agent_slug,
            group_key: &params.group_key,
            role: &params.role,
            name: facts.name.as_deref(),
            description: facts.summary.as_deref(),
            definition: format!("{}/{}.md", Slot::AgentBundles.path(), params.agent_slug),
        },
        authority: Authority { may_write_workspace: &facts.may_write },
        mounts: &params.mounts,
        deliverable: facts.deliverable.as_ref().map(|deliverable| Deliverable {
            spec_ref: &deliverable.spec_ref,
            spec_path: deliverable.path.as_deref(),
            title: deliverable.title.as_deref(),
            description: deliverable.description.as_deref(),
        }),
        workflow: in_workflow.then(|| Workflow {
            inputs: params.workflow_inputs.clone().unwrap_or_default(),
            input_artifacts: params.input_artifacts.iter().map(placed).collect(),
        }),
        working_files: &params.working_files,
    };
    let mut text =
        serde_json::to_string_pretty(&context).expect("texts, lists and JSON values always serialise");
    text.push('\n');
    text
}
