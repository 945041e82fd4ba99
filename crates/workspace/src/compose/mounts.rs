//! The contents of the slots that a manifest enables.

use super::briefcase;
use super::entries::{Entries, first_occurrences, literal};
use super::facts::Facts;
use super::javascript;
use super::reference::{file_name, quoted};
use crate::plan::Source;
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

/// Artifact versions of earlier jobs, each as a file. They are always read-only for the agent,
/// whatever the mode of their slot.
pub(super) fn add_input_artifacts(entries: &mut Entries, facts: &Facts<'_, '_>) -> Result<(), Error> {
    let artifacts = facts.context.get("inputArtifacts");
    for artifact in artifacts.list()?.items() {
        artifact.object()?;
        let slot_key = artifact.get("slot").text_if_any()?.unwrap_or(Slot::Inputs.key());
        let slot = facts.enabled_slot(slot_key).ok_or_else(|| slot_not_enabled(slot_key, facts))?;
        let name = file_name(artifact.get("fileName").text()?, "an input artifact")?;
        let (artifact_id, version) = (artifact.get("artifactId").text()?, artifact.get("version").number()?);
        let mount_key = format!("input-artifact:{artifact_id}:v{}:{name}", javascript::number_text(version));
        let source = Source::ArtifactVersion {
            artifact_id: artifact_id.to_owned(),
            version: version.clone(),
            file_name: name.to_owned(),
            payload_field: artifact.get("payloadField").text_or_null()?,
            content_type: artifact.get("contentType").text_or_null()?,
        };
        entries.add(slot, name, Mode::ReadOnly, mount_key, source)?;
    }
    Ok(())
}

fn slot_not_enabled(slot_key: &str, facts: &Facts<'_, '_>) -> Error {
    let slot_key = quoted(slot_key);
    let enabled: Vec<&str> = facts.enabled.iter().map(|(slot, _)| slot.key()).collect();
    let listed = if enabled.is_empty() { "(none)".to_owned() } else { enabled.join(", ") };
    let message = format!(
        "an input artifact is for the slot {slot_key:?}, which the manifest {} does not enable; enabled slots: {listed}",
        facts.manifest
    );
    Error::new(Code::ComposeSlotNotEnabled, message).detail("slot", slot_key).detail("enabled", listed)
}

/// The contents of each enabled mount, in manifest order.
pub(super) fn add_user_data(entries: &mut Entries, facts: &Facts<'_, '_>) -> Result<(), Error> {
    for (slot, mode) in &facts.enabled {
        let mut to = Mount { entries, slot: *slot, mode: *mode };
        // The remaining slots are filled by the platform or by the agent.
        match slot {
            Slot::Inputs => add_inputs(&mut to, facts)?,
            Slot::Uploads => briefcase::add_uploads(&mut to, facts)?,
            Slot::References => {
                add_references(&mut to, facts)?;
                briefcase::add_references(&mut to, facts)?;
            }
            Slot::Repos => add_repo(&mut to, facts)?,
            Slot::DeliverableSpecs => add_deliverable_specs(&mut to, facts)?,
            Slot::Deliverables => add_deliverables(&mut to, facts)?,
            Slot::Attachments => add_attachments(&mut to, facts)?,
            Slot::AgentsMd
            | Slot::ContextJson
            | Slot::SystemOverlay
            | Slot::Tmp
            | Slot::AgentBundles
            | Slot::SkillBundles
            | Slot::Commands
            | Slot::Instructions => {}
        }
    }
    Ok(())
}

/// An enabled mount that is being filled.
pub(super) struct Mount<'e> {
    entries: &'e mut Entries,
    slot: Slot,
    mode: Mode,
}

impl Mount<'_> {
    pub(super) fn add(
        &mut self,
        rel_path: impl Into<String>,
        mount_key: String,
        source: Source,
    ) -> Result<(), Error> {
        self.entries.add(self.slot, rel_path, self.mode, mount_key, source)
    }
}

fn add_inputs(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    if !facts.scope.is_run() {
        return Ok(());
    }
    match facts.context.get("inputsJsonBase64").text_that_says_something()? {
        Some(bytes) => to.add("inputs.json", "inputs:json".into(), literal("inputs.json", bytes)),
        None => Ok(()),
    }
}

fn add_references(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    for space_id in first_occurrences(facts.context.get("kbSpaceIds").texts()?) {
        let source = Source::KbSpace { space_id: space_id.to_owned() };
        to.add(["kb/", space_id].concat(), ["references:kb:", space_id].concat(), source)?;
    }
    let page_mounts = facts.context.get("kbPageMounts");
    for page_mount in page_mounts.list()?.items() {
        page_mount.object()?;
        let page_slugs = first_occurrences(page_mount.get("pageSlugs").texts()?);
        if page_slugs.is_empty() {
            continue;
        }
        let space_id = page_mount.get("spaceId").text()?;
        let page_slugs = page_slugs.into_iter().map(str::to_owned).collect();
        let source = Source::KbPages { space_id: space_id.to_owned(), page_slugs };
        to.add(["kb/", space_id].concat(), ["references:kb-pages:", space_id].concat(), source)?;
    }
    for project_id in first_occurrences(facts.context.get("externalProjectIds").texts()?) {
        let source = Source::ScmRepo { repo_ref: project_id.to_owned(), git_ref: "HEAD".into() };
        to.add(
            ["external-projects/", project_id].concat(),
            ["references:project:", project_id].concat(),
            source,
        )?;
    }
    Ok(())
}

fn add_repo(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    let Some(repo_ref) = facts.context.get("repoRef").text_that_says_something()? else { return Ok(()) };
    let git_ref = facts.context.get("repoRevision").text_if_any()?.unwrap_or("HEAD");
    let source = Source::ScmRepo { repo_ref: repo_ref.to_owned(), git_ref: git_ref.to_owned() };
    to.add(repo_ref, ["repo:", repo_ref].concat(), source)
}

fn add_deliverable_specs(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    let spec_ref = facts.deliverable_spec_ref.and_then(|spec_ref| spec_ref.as_str());
    let Some(key) = spec_ref.filter(|key| facts.scope.is_run() && !key.is_empty()) else { return Ok(()) };
    let source = Source::DeliverableSpecs { contract_key: key.to_owned() };
    to.add(key, ["deliverable-specs:", key].concat(), source)
}

fn add_deliverables(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    if !facts.scope.is_run() {
        return Ok(());
    }
    let refs = facts.context.get("deliverablesRef");
    let keys = match refs.non_null() {
        Some(serde_json::Value::Array(_)) => refs.texts()?,
        Some(serde_json::Value::String(_)) | None => refs.text_that_says_something()?.into_iter().collect(),
        Some(_) => return Err(refs.refusal("a string or a list of strings")),
    };
    for key in keys {
        let source = Source::Deliverables { contract_key: key.to_owned() };
        to.add(key, ["deliverables:", key].concat(), source)?;
    }
    Ok(())
}

/// The session of the context, not of the surface: a run can show attachments of a session.
fn add_attachments(to: &mut Mount<'_>, facts: &Facts<'_, '_>) -> Result<(), Error> {
    match facts.context.get("sessionId").text_that_says_something()? {
        Some(session_id) => {
            let source = Source::SessionAttachment { session_id: session_id.to_owned() };
            to.add("", ["attachments:", session_id].concat(), source)
        }
        None => Ok(()),
    }
}
