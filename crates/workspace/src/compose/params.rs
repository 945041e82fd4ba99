//! The parameters of the three rendered files.

use serde_json::{Map, Value};

use super::facts::{Facts, Scope};
use super::member::Member;
use super::{PROTO, RESERVED_CONTEXT_KEYS};
use crate::Error;
use crate::plan::{RenderParams, RenderedInputArtifact, RenderedMount, RenderedWorkingFile};
use crate::slot::Slot;

pub(super) fn of(facts: &Facts<'_, '_>) -> Result<RenderParams, Error> {
    let (mut run_id, mut job_run_id, mut session_id) = (None, None, None);
    match facts.scope {
        Scope::Run { run_id: run, job_run_id: job } => {
            run_id = Some(run.to_owned());
            job_run_id = Some(job.to_owned());
        }
        Scope::Session { session_id: session, .. } => session_id = Some(session.to_owned()),
    }
    let mounts =
        facts.enabled.iter().map(|(slot, mode)| RenderedMount { mount: slot.path(), mode: *mode }).collect();
    let manifest = facts.root.get("manifest");
    Ok(RenderParams {
        org_id: facts.org_id.to_owned(),
        project_id: facts.project_id.to_owned(),
        agent_slug: facts.agent_slug.to_owned(),
        group_key: facts.group_key.to_owned(),
        role: facts.role.to_owned(),
        deliverable_spec_ref: facts.deliverable_spec_ref.cloned(),
        run_id,
        job_run_id,
        session_id,
        workflow_inputs: if facts.scope.is_run() { workflow_inputs(facts.context.object()?) } else { None },
        mounts,
        input_artifacts: input_artifacts(&facts.context.get("inputArtifacts"))?,
        working_files: working_files(&manifest.get("workingFiles"))?,
    })
}

/// The caller's extra context keys, including nulls.
fn workflow_inputs(context: &Map<String, Value>) -> Option<Map<String, Value>> {
    let is_input = |key: &String| key != PROTO && !RESERVED_CONTEXT_KEYS.contains(&key.as_str());
    let inputs: Map<String, Value> = context
        .iter()
        .filter(|(key, _)| is_input(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!inputs.is_empty()).then_some(inputs)
}

/// Where the agent finds each artifact. Names are unchanged, including white space.
fn input_artifacts(artifacts: &Member<'_, '_>) -> Result<Vec<RenderedInputArtifact>, Error> {
    let mut rendered = Vec::new();
    for artifact in artifacts.list()?.items() {
        artifact.object()?;
        let slot_key = artifact.get("slot").text_if_any()?.unwrap_or(Slot::Inputs.key());
        let Some(slot) = Slot::from_key(slot_key) else { continue };
        rendered.push(RenderedInputArtifact {
            path: format!("{}/{}", slot.path(), artifact.get("fileName").text()?),
            content_type: artifact.get("contentType").text_or_null()?,
            source_artifact_id: artifact.get("artifactId").text()?.to_owned(),
            source_version: artifact.get("version").number()?.clone(),
        });
    }
    Ok(rendered)
}

fn working_files(files: &Member<'_, '_>) -> Result<Vec<RenderedWorkingFile>, Error> {
    let file = |file: Member<'_, '_>| {
        file.object()?;
        Ok(RenderedWorkingFile {
            slug: file.get("slug").text()?.to_owned(),
            path: file.get("path").text()?.to_owned(),
            format: file.get("format").text()?.to_owned(),
            sync_direction: file.get("syncDirection").text()?.to_owned(),
            source_kind: file.get("sourceKind").text()?.to_owned(),
            source_ref: file.get("sourceRef").object()?.clone(),
        })
    };
    files.list()?.items().map(file).collect()
}
