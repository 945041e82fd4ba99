//! Composes a request into a mount plan: pure, with the same bytes on every machine.
//!
//! A [`Request`] is a compiled and bound manifest with the context of one run or session.
//! [`compose`] checks it in a fixed order, where the first failure wins, and lists the mounts in a
//! fixed order. It fetches nothing: a plan names the source of each file. Templates of seed files
//! are the exception; a [`TemplateResolver`] provides them.
//!
//! A composed plan is not validated: titles, keys and refs become paths unchanged. It must be
//! [validated](crate::plan::ValidPlan::check) before it is applied.
//!
//! ```
//! use workspace::compose::{Request, compose};
//!
//! let request = Request::read(br#"{
//!     "orgId": "org1", "projectId": "proj1", "agentContext": {"skills": ["review"]},
//!     "agentOverrides": {"role": "engineer"}, "workflowRun": {"runId": "run1", "jobRunId": "job1"},
//!     "manifest": {
//!         "slug": "m", "version": "1.0.0", "agent": {"slug": "engineer", "groupKey": "engineering"},
//!         "mounts": {}, "seedFiles": [], "env": [], "requiredTemplateNames": []
//!     }
//! }"#)?;
//! let plan = compose(&request, None)?;
//! let keys: Vec<&str> = plan.entries.iter().map(|entry| entry.mount_key.as_str()).collect();
//! assert_eq!(keys[4..], ["agent-bundle:engineer", "skill-bundle:review", "skill-command:review"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply_id;
mod briefcase;
mod entries;
mod facts;
mod javascript;
pub(crate) mod member;
mod mounts;
mod params;
mod reference;
mod request;
mod seeds;
pub mod tree;

use std::sync::Arc;

use serde_json::{Map, Value};

use self::entries::Entries;
use self::facts::Facts;
pub(crate) use self::javascript::{PROTO, trim};
pub(crate) use self::reference::is_file_name;
pub use self::request::{Request, RequestError};
use crate::Error;
use crate::plan::{AgentMode, MountPlan, Source};
use crate::slot::{Mode, Slot};

/// The keys of `agentContext` that composing reads. All other keys are inputs of the workflow.
pub const RESERVED_CONTEXT_KEYS: [&str; 13] = [
    "delegatedSubAgents",
    "skills",
    "instructions",
    "inputsJsonBase64",
    "kbSpaceIds",
    "kbPageMounts",
    "externalProjectIds",
    "repoRef",
    "repoRevision",
    "deliverableSpecRef",
    "deliverablesRef",
    "sessionId",
    "inputArtifacts",
];

/// Provides template texts.
///
/// # Contract
/// * The same name and variables always give the same text.
/// * Errors have a `TEMPLATE_…` code or `LIMIT_EXCEEDED` and are passed on unchanged.
pub trait TemplateResolver {
    /// Renders a template.
    ///
    /// # Errors
    /// If the template does not exist or cannot be rendered with these variables.
    fn resolve(&self, name: &str, vars: &Map<String, Value>) -> Result<String, Error>;
}

/// Composes the requested workspace.
///
/// # Errors
/// The first problem in the order of the checks: surface, run-only members, role, mounts, input
/// artifacts, contents of each mount, templates, seed files. `VALIDATION_ERROR` has the JSON
/// pointer of a missing or mistyped member.
pub fn compose(request: &Request, templates: Option<&dyn TemplateResolver>) -> Result<MountPlan, Error> {
    let root = request.root();
    let facts = Facts::read(&root, request.mounts())?;
    let params = Arc::new(params::of(&facts)?);

    // Most mounts are list items of the context, and a skill has two entries.
    let lists = facts.context.object()?.values().filter_map(Value::as_array);
    let mut entries =
        Entries::with_room_for(16 + lists.map(Vec::len).sum::<usize>() + facts.context.get("skills").len());
    entries.add(
        Slot::AgentsMd,
        "",
        Mode::ReadOnly,
        "agents-md",
        Source::RenderedAgentsMd(Arc::clone(&params)),
    )?;
    let context_json = Source::RenderedContextJson(Arc::clone(&params));
    entries.add(Slot::ContextJson, "", Mode::ReadOnly, "context-json", context_json)?;
    entries.add(
        Slot::SystemOverlay,
        "",
        Mode::ReadOnly,
        "system-overlay",
        Source::RenderedSystemOverlay(params),
    )?;
    // An empty file, so that the folder exists from the start.
    entries.add(Slot::Tmp, ".keep", Mode::ReadWrite, "tmp:seed", entries::literal("tmp/.keep", ""))?;
    add_agents(&mut entries, &facts)?;
    add_skills(&mut entries, &facts)?;
    add_instructions(&mut entries, &facts)?;
    mounts::add_input_artifacts(&mut entries, &facts)?;
    mounts::add_user_data(&mut entries, &facts)?;
    seeds::add(&mut entries, &facts, templates)?;

    Ok(MountPlan { apply_id: apply_id::of(&facts)?, entries: entries.into_list() })
}

/// The agent and its delegates.
fn add_agents(entries: &mut Entries, facts: &Facts<'_, '_>) -> Result<(), Error> {
    let mut add = |slug: &str, agent_mode| {
        let source = Source::AgentDefinition {
            org_id: facts.org_id.to_owned(),
            agent_slug: slug.to_owned(),
            group_key: facts.group_key.to_owned(),
            agent_mode,
        };
        let (path, key) = ([slug, ".md"].concat(), ["agent-bundle:", slug].concat());
        entries.add(Slot::AgentBundles, path, Mode::ReadOnly, key, source)
    };
    add(facts.agent_slug, AgentMode::Primary)?;
    for slug in facts.context.get("delegatedSubAgents").texts()? {
        if slug != facts.agent_slug {
            add(slug, AgentMode::Subagent)?;
        }
    }
    Ok(())
}

/// System skills before those of the context, each with its launch command.
fn add_skills(entries: &mut Entries, facts: &Facts<'_, '_>) -> Result<(), Error> {
    let mut keys = facts.root.get("systemSkillSlugs").texts()?;
    keys.extend(facts.context.get("skills").texts()?);
    for key in entries::first_occurrences(keys) {
        let bundle = Source::SkillBundle { skill_key: key.to_owned() };
        entries.add(Slot::SkillBundles, key, Mode::ReadOnly, ["skill-bundle:", key].concat(), bundle)?;
        let path = [key, ".md"].concat();
        let command =
            entries::literal([".opencode/command/", &path].concat(), entries::base64(&skill_command(key)));
        entries.add(Slot::Commands, path, Mode::ReadOnly, ["skill-command:", key].concat(), command)?;
    }
    Ok(())
}

fn skill_command(key: &str) -> String {
    format!(
        "---\ndescription: Load and apply the {key} skill\n---\n\
         Load and apply the `{key}` skill, then act on the request: $ARGUMENTS\n"
    )
}

fn add_instructions(entries: &mut Entries, facts: &Facts<'_, '_>) -> Result<(), Error> {
    for key in entries::first_occurrences(facts.context.get("instructions").texts()?) {
        let source = Source::InstructionSection {
            org_id: facts.org_id.to_owned(),
            section_key: key.to_owned(),
            agent_slug: facts.agent_slug.to_owned(),
            group_key: facts.group_key.to_owned(),
        };
        let (path, mount_key) = ([key, ".md"].concat(), ["instruction:", key].concat());
        entries.add(Slot::Instructions, path, Mode::ReadOnly, mount_key, source)?;
    }
    Ok(())
}
