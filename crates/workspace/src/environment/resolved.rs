//! Everything an agent starts with, resolved from all layers.
//!
//! Resolved at every start and resume. The stored copy is for audit and for [drift](super::drift);
//! it is never replayed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EnvVariable, ResolvedVariables};
use crate::Error;
use crate::manifest::vocabulary::closed;
use crate::manifest::{
    Bound, CredentialKind, OutputSurface, Permissions, Role, Skill, SubAgent, Surface, ToolKey, ToolSelection,
};
use crate::slot::Mode;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedEnvironment {
    pub manifest_ref: ManifestRef,
    pub surface: Surface,
    /// The surfaces that the manifest supports.
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
    /// Its identity: the digest of everything except the time.
    ///
    /// # Errors
    /// If it contains a number without a canonical form.
    pub fn snapshot_id(&self) -> Result<String, canon::canonical::CanonicalError> {
        let timeless = Self { resolved_at: String::new(), ..self.clone() };
        canon::digest::Digest::of_canonical(&timeless).map(|digest| digest.to_string())
    }
}

/// The manifest and its digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRef {
    pub slug: String,
    pub version: String,
    /// The digest of its file and of its base.
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub slug: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Value>,
    /// The layer that added it.
    pub layer: SubAgentLayer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedSkill {
    pub slug: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The owner of the selected row.
    pub tier: Tier,
    /// The layer that requested it.
    pub layer: SkillLayer,
}

/// A credential without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedCredential {
    /// Its name in the manifest.
    pub name: String,
    pub kind: CredentialKind,
    pub source_ref: String,
    pub required: bool,
    /// Whether it is available.
    pub resolved: bool,
}

/// An enabled slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedMount {
    pub slot: String,
    pub mode: Mode,
}

closed! {
    /// The owner of a row; earlier ones take precedence.
    Tier {
        User => "user",
        Project => "project",
        Org => "org",
        Biome => "biome",
        System => "system",
    }
}

closed! {
    /// The layer that requested a skill, in this order.
    SkillLayer {
        System => "system",
        Agent => "agent",
        Manifest => "manifest",
        Session => "session",
    }
}

closed! {
    /// The layer that added a delegate.
    SubAgentLayer {
        /// The agent's definition. It cannot be removed.
        Intrinsic => "intrinsic",
        Manifest => "manifest",
        Invocation => "invocation",
    }
}

/// Registry facts about the agent.
#[derive(Clone, Debug, Default)]
pub struct AgentFacts {
    pub version: Option<String>,
    pub model: Option<Value>,
    /// The delegates in its definition.
    pub sub_agents: Vec<SubAgent>,
    /// The skills in its definition.
    pub skills: Vec<Skill>,
    pub grant: BTreeSet<ToolKey>,
    /// Skills of every agent.
    pub system_skills: Vec<Skill>,
}

/// The options of one start.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The model of this start.
    pub model: Option<Value>,
    /// The model of this workflow node.
    pub node_model: Option<Value>,
    /// Additional delegates, or other models for known ones.
    pub sub_agents: Vec<SubAgent>,
    /// Skills of the session.
    pub skills: Vec<Skill>,
    /// The session's tools, which replace the manifest's.
    pub tools: Option<Vec<ToolSelection>>,
    /// Additional tools of the briefcase.
    pub mcp_tools: Vec<ToolSelection>,
    /// The permissions of this start.
    pub permissions: Option<BTreeSet<ToolKey>>,
}

/// Selects the row of a skill: version and owner.
///
/// # Contract
/// The nearest owner with a version in the range decides; within it, the highest version.
pub trait SkillRows {
    /// The row of a skill.
    ///
    /// # Errors
    /// `SKILL_VERSION_UNSATISFIED` or `RESOLVE_NOT_FOUND`.
    fn row(&self, skill: &Skill) -> Result<(Option<String>, Tier), Error>;
}

/// Resolves everything. `outcome` is the environment of [`resolve`](super::resolve).
///
/// # Errors
/// All errors of `rows` together.
pub fn resolve(
    bound: &Bound,
    surface_compat: &[Surface],
    facts: &AgentFacts,
    invocation: &Invocation,
    outcome: &ResolvedVariables,
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

/// The delegates of all layers. A later layer can add one or change a model; it cannot remove or
/// rename any.
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

/// The skills of all layers, in order, each once: the first layer decides.
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

/// The session's list instead of the manifest's, plus the briefcase's.
pub fn tools(
    manifest: &[ToolSelection],
    session: Option<&[ToolSelection]>,
    briefcase: &[ToolSelection],
) -> Vec<ToolSelection> {
    let mut seen = BTreeSet::new();
    let all = session.unwrap_or(manifest).iter().chain(briefcase);
    all.filter(|selection| seen.insert(*selection)).cloned().collect()
}

/// The granted tools: limited to what the manifest allows, minus what it denies, limited to this
/// start's permissions. Each step can only remove.
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
