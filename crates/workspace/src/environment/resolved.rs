//! Everything an agent starts with, resolved from what each layer says.
//!
//! Resolved at every start and every resume. The stored copy is for audit and for [drift](super::drift); it is
//! never replayed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EnvVariable, Outcome};
use crate::Error;
use crate::manifest::vocabulary::closed;
use crate::manifest::{
    Bound, CredentialKind, OutputSurface, Permissions, Role, Skill, SubAgent, Surface, ToolKey, ToolSelection,
};
use crate::slot::Mode;

/// What an agent starts with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the manifest, and say it")]
pub struct ResolvedEnvironment {
    pub manifest_ref: ManifestRef,
    pub surface: Surface,
    /// Every surface that the manifest is for.
    pub surface_compat: Vec<Surface>,
    pub agent: ResolvedAgent,
    pub sub_agents: Vec<ResolvedSubAgent>,
    pub skills: Vec<ResolvedSkill>,
    pub tool_selection: Vec<ToolSelection>,
    pub credentials: Vec<ResolvedCredential>,
    pub permissions: Vec<ToolKey>,
    pub env: Vec<EnvVariable>,
    pub mounts: Vec<ResolvedMount>,
    pub persistence: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_surface: Option<OutputSurface>,
    /// When it was resolved, in RFC 3339.
    pub resolved_at: String,
}

impl ResolvedEnvironment {
    /// What identifies it: the digest of everything but the time.
    ///
    /// # Errors
    /// When it holds a number that canonical JSON has no text for.
    pub fn snapshot_id(&self) -> Result<String, canon::canonical::CanonicalError> {
        let timeless = Self { resolved_at: String::new(), ..self.clone() };
        canon::digest::Digest::of_canonical(&timeless).map(|digest| digest.to_string())
    }
}

/// Which manifest, in which state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRef {
    /// Its name.
    pub slug: String,
    /// Its version.
    pub version: String,
    /// The digest of its file and of its base.
    pub digest: String,
}

/// The agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the manifest, and say it")]
pub struct ResolvedAgent {
    pub slug: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub stage: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Value>,
}

/// An agent that may be delegated to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolvedSubAgent {
    /// Which agent.
    pub slug: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The model that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Value>,
    /// Who brought it.
    pub layer: SubAgentLayer,
}

/// A skill, chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedSkill {
    /// Which skill.
    pub slug: String,
    /// Which version of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whose row was chosen.
    pub tier: Tier,
    /// Who asked for it.
    pub layer: SkillLayer,
}

/// A credential, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedCredential {
    /// What the manifest calls it.
    pub name: String,
    /// What it opens.
    pub kind: CredentialKind,
    /// Where it is.
    pub source_ref: String,
    /// Whether nothing starts without it.
    pub required: bool,
    /// Whether it could be had.
    pub resolved: bool,
}

/// An enabled slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedMount {
    /// Which slot.
    pub slot: String,
    /// What the agent may do there.
    pub mode: Mode,
}

closed! {
    /// Who owns a row; an earlier one is chosen over a later.
    Tier {
        User => "user",
        Project => "project",
        Org => "org",
        Biome => "biome",
        System => "system",
    }
}

closed! {
    /// Who asked for a skill, in this order.
    SkillLayer {
        System => "system",
        Agent => "agent",
        Manifest => "manifest",
        Session => "session",
    }
}

closed! {
    /// Who brought an agent to delegate to.
    SubAgentLayer {
        /// The agent's own definition. It cannot be taken away.
        Intrinsic => "intrinsic",
        Manifest => "manifest",
        Invocation => "invocation",
    }
}

/// What the registry knows of the agent.
#[derive(Clone, Debug, Default)]
pub struct AgentFacts {
    /// The version of its definition.
    pub version: Option<String>,
    /// Its own model.
    pub model: Option<Value>,
    /// Whom it delegates to by its definition.
    pub sub_agents: Vec<SubAgent>,
    /// Skills of its definition.
    pub skills: Vec<Skill>,
    /// What it is granted.
    pub grant: BTreeSet<ToolKey>,
    /// Skills that every agent has.
    pub system_skills: Vec<Skill>,
}

/// What one start asks for.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// A model for this start.
    pub model: Option<Value>,
    /// A model for this node of a workflow.
    pub node_model: Option<Value>,
    /// More agents to delegate to, or other models for known ones.
    pub sub_agents: Vec<SubAgent>,
    /// Skills attached to the session.
    pub skills: Vec<Skill>,
    /// The session's own tools, in place of the manifest's.
    pub tools: Option<Vec<ToolSelection>>,
    /// Tools of the briefcase, added to whatever there is.
    pub mcp_tools: Vec<ToolSelection>,
    /// What is permitted this time.
    pub permissions: Option<BTreeSet<ToolKey>>,
}

/// Which row of a skill is used: its version and whose it is.
///
/// # Contract
/// The nearest owner that has the skill in the range decides; within it, the highest version.
pub trait SkillRows {
    /// The row of a skill.
    ///
    /// # Errors
    /// `SKILL_VERSION_UNSATISFIED`, or `RESOLVE_NOT_FOUND`.
    fn row(&self, skill: &Skill) -> Result<(Option<String>, Tier), Error>;
}

/// Resolves everything. `outcome` is the environment of [`resolve`](super::resolve).
///
/// # Errors
/// What `rows` refuses, all of it together.
pub fn resolve(
    bound: &Bound,
    surface_compat: &[Surface],
    facts: &AgentFacts,
    invocation: &Invocation,
    outcome: &Outcome,
    rows: &dyn SkillRows,
    resolved_at: &str,
) -> Result<ResolvedEnvironment, Error> {
    let manifest = &bound.manifest;
    let models = [&invocation.model, &invocation.node_model, &bound.default_model, &facts.model];
    let credentials = bound.credentials.iter().map(|credential| ResolvedCredential {
        name: credential.name.clone(),
        kind: credential.kind,
        source_ref: credential.source_ref.clone(),
        required: credential.required,
        resolved: !outcome.missing.iter().any(|missing| missing.name == credential.name),
    });
    let mounts = manifest.mounts.iter().filter(|(_, mount)| mount.enabled).map(|(slot, mount)| {
        ResolvedMount { slot: slot.key().to_owned(), mode: mount.mode.unwrap_or(slot.default_mode()) }
    });
    Ok(ResolvedEnvironment {
        manifest_ref: ManifestRef {
            slug: manifest.slug.clone(),
            version: manifest.version.clone(),
            digest: bound.digest.to_string(),
        },
        surface: bound.surface,
        surface_compat: surface_compat.to_vec(),
        agent: ResolvedAgent {
            slug: manifest.agent.slug.clone(),
            version: facts.version.clone(),
            stage: manifest.agent.group_key.clone(),
            role: manifest.agent.role,
            model: models.into_iter().find_map(Clone::clone),
        },
        sub_agents: sub_agents(&facts.sub_agents, &bound.sub_agents, &invocation.sub_agents),
        skills: skills(facts, &bound.skills, &invocation.skills, rows)?,
        tool_selection: tools(&bound.tool_selection, invocation.tools.as_deref(), &invocation.mcp_tools),
        credentials: credentials.collect(),
        permissions: permissions(&facts.grant, &bound.permissions, invocation.permissions.as_ref()),
        env: outcome.env.clone(),
        mounts: mounts.collect(),
        persistence: bound.persistence.clone(),
        output_surface: bound.output_surface.clone(),
        resolved_at: resolved_at.to_owned(),
    })
}

/// The agents of all layers. A later layer can add one, or give a known one another model; it takes none away and
/// renames none.
pub fn sub_agents(
    intrinsic: &[SubAgent],
    manifest: &[SubAgent],
    invocation: &[SubAgent],
) -> Vec<ResolvedSubAgent> {
    let mut resolved: Vec<ResolvedSubAgent> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let layers = [
        (SubAgentLayer::Intrinsic, intrinsic),
        (SubAgentLayer::Manifest, manifest),
        (SubAgentLayer::Invocation, invocation),
    ];
    for (layer, agents) in layers {
        for agent in agents {
            match places.get(agent.slug.as_str()) {
                Some(&index) => {
                    if let Some(model) = &agent.default_model {
                        resolved[index].model = Some(model.clone());
                    }
                }
                None => {
                    places.insert(&agent.slug, resolved.len());
                    resolved.push(ResolvedSubAgent {
                        slug: agent.slug.clone(),
                        alias: agent.alias.clone(),
                        model: agent.default_model.clone(),
                        layer,
                    });
                }
            }
        }
    }
    resolved
}

/// The skills of all layers, in their order, each once: who asks first decides.
fn skills(
    facts: &AgentFacts,
    manifest: &[Skill],
    session: &[Skill],
    rows: &dyn SkillRows,
) -> Result<Vec<ResolvedSkill>, Error> {
    let layers = [
        (SkillLayer::System, facts.system_skills.as_slice()),
        (SkillLayer::Agent, &facts.skills),
        (SkillLayer::Manifest, manifest),
        (SkillLayer::Session, session),
    ];
    let mut seen = BTreeSet::new();
    let mut resolved = Vec::new();
    let mut errors = Vec::new();
    for (layer, skills) in layers {
        for skill in skills.iter().filter(|skill| seen.insert(skill.slug.as_str())) {
            match rows.row(skill) {
                Ok((version, tier)) => {
                    resolved.push(ResolvedSkill { slug: skill.slug.clone(), version, tier, layer });
                }
                Err(error) => errors.push(error),
            }
        }
    }
    match Error::first_of(errors) {
        None => Ok(resolved),
        Some(error) => Err(error),
    }
}

/// The session's list in place of the manifest's, and what the briefcase adds.
pub fn tools(
    manifest: &[ToolSelection],
    session: Option<&[ToolSelection]>,
    briefcase: &[ToolSelection],
) -> Vec<ToolSelection> {
    let mut seen = BTreeSet::new();
    let all = session.unwrap_or(manifest).iter().chain(briefcase);
    all.filter(|selection| seen.insert(*selection)).cloned().collect()
}

/// What is granted, within what the manifest allows, without what it denies, within what is permitted this time. Each
/// step can only take away.
pub fn permissions(
    grant: &BTreeSet<ToolKey>,
    manifest: &Permissions,
    invocation: Option<&BTreeSet<ToolKey>>,
) -> Vec<ToolKey> {
    let allowed = |key: &ToolKey| manifest.allow.as_ref().is_none_or(|allow| allow.contains(key));
    let permitted = |key: &ToolKey| invocation.is_none_or(|permitted| permitted.contains(key));
    let keys = grant.iter().copied();
    keys.filter(|key| allowed(key) && !manifest.deny.contains(key) && permitted(key)).collect()
}
