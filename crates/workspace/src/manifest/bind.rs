//! Binds a manifest: fills in its inputs for one run or session.

mod fill;
pub(super) mod input;
mod pin;
pub(super) mod project;
mod request;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use self::fill::Fill;
pub use self::request::BoundRequest;
use super::Manifest;
use super::compiled::{
    CompiledAgent, CompiledEnv, CompiledManifest, CompiledMount, CompiledSeed, CompiledSeedSource,
    CompiledWorkingFile,
};
use super::model::{Credential, OutputSurface, Permissions, SeedSource, Skill, SubAgent, ToolSelection};
use super::problem::{MAX_PROBLEMS, quoted};
use super::vocabulary::Surface;
use crate::{Code, Error};

/// The limit of all inputs together, as JSON.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// The nesting limit of an input. Inputs become part of values that are processed recursively.
pub const MAX_INPUT_DEPTH: usize = 32;

/// A bound manifest: the input of composing and of resolving the environment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bound {
    /// The `manifest` of a compose request.
    pub manifest: CompiledManifest,
    /// The `agentContext` of the request: the caller's keys and the projected mount configuration.
    pub agent_context: Map<String, Value>,
    pub surface: Surface,
    /// The identity of the manifest file.
    pub digest: canon::digest::Digest,
    pub default_model: Option<Value>,
    pub sub_agents: Vec<SubAgent>,
    /// Skills with their versions.
    pub skills: Vec<Skill>,
    pub tool_selection: Vec<ToolSelection>,
    /// References to secrets.
    pub credentials: Vec<Credential>,
    pub permissions: Permissions,
    /// Additional paths to keep besides the writable slots.
    pub persistence: Vec<String>,
    /// What is visible from outside.
    pub output_surface: Option<OutputSurface>,
}

impl Manifest {
    /// Fills in the inputs and projects the mount configuration into `context`; keys of the caller
    /// are kept.
    ///
    /// # Errors
    /// `SURFACE_INCOMPATIBLE`; `BIND_INPUT_MISSING` and `BIND_INPUT_INVALID`, all together;
    /// `LIMIT_EXCEEDED` if the inputs or the filled manifest are too large.
    pub fn bind(
        &self,
        surface: Surface,
        inputs: &Map<String, Value>,
        context: Map<String, Value>,
    ) -> Result<Bound, Error> {
        self.check_surface(surface)?;
        let values = self.input_values(inputs)?;
        let mut fill = Fill::new(&values);
        let manifest = self.filled(&mut fill);
        fill.finish()?;
        let mut agent_context = context;
        project::into_context(self, &manifest.mounts, &mut agent_context)?;
        let spec = &self.spec;
        Ok(Bound {
            manifest,
            agent_context,
            surface,
            digest: self.digest,
            default_model: self.agent.default_model.clone(),
            sub_agents: self.agent.sub_agents.clone(),
            skills: spec.skills.clone(),
            tool_selection: spec.tool_selection.clone(),
            credentials: spec.credentials.clone(),
            permissions: spec.permissions.clone().unwrap_or_default(),
            persistence: spec.persistence.clone(),
            output_surface: spec.output_surface.clone(),
        })
    }

    /// Checks that the manifest supports this surface.
    ///
    /// # Errors
    /// `SURFACE_INCOMPATIBLE`.
    pub fn check_surface(&self, surface: Surface) -> Result<(), Error> {
        if self.metadata.surfaces.contains(&surface) {
            return Ok(());
        }
        let allowed: Vec<&str> = self.metadata.surfaces.iter().map(|surface| surface.as_str()).collect();
        let message = format!(
            "the manifest {}@{} supports only `{}`, not `{surface}`",
            self.metadata.slug,
            self.metadata.version,
            allowed.join("`, `")
        );
        Err(Error::new(Code::SurfaceIncompatible, message)
            .detail("surface", surface.as_str())
            .detail("for", allowed))
    }

    fn input_values<'a>(
        &'a self,
        given: &'a Map<String, Value>,
    ) -> Result<BTreeMap<&'a str, &'a Value>, Error> {
        if !given.values().all(|value| canon::json::within_depth(value, MAX_INPUT_DEPTH)) {
            let limit = "levels of an input";
            return Err(Error::limit(limit, MAX_INPUT_DEPTH as u64, MAX_INPUT_DEPTH as u64 + 1));
        }
        let size = given.values().map(fill::size_of).sum::<usize>();
        if size > MAX_INPUT_BYTES {
            return Err(Error::limit("bytes of inputs", MAX_INPUT_BYTES as u64, size as u64));
        }
        let mut values = BTreeMap::new();
        let mut errors = Vec::new();
        for (name, input) in &self.spec.inputs {
            match given.get(name).or(input.default.as_ref()) {
                Some(value) => match input::check(input, value) {
                    Ok(()) => {
                        values.insert(name.as_str(), value);
                    }
                    Err(reason) => {
                        let message = format!("the input {} {reason}", quoted(name));
                        errors
                            .push(Error::new(Code::BindInputInvalid, message).detail("input", name.as_str()));
                    }
                },
                None if input.required => {
                    let message = format!("the input {} is required, a {}", quoted(name), input.kind);
                    errors.push(Error::new(Code::BindInputMissing, message).detail("input", name.as_str()));
                }
                None => {}
            }
        }
        let known: BTreeSet<&str> = self.spec.inputs.iter().map(|(name, _)| name.as_str()).collect();
        for name in given.keys().filter(|name| !known.contains(name.as_str())).take(MAX_PROBLEMS) {
            let hint = match canon::nearest::nearest(name, &known, 1).first() {
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            };
            let message = format!("unknown input {}{hint}", quoted(name));
            errors.push(Error::new(Code::BindInputInvalid, message).detail("input", name.as_str()));
        }
        match Error::first_of(errors) {
            None => Ok(values),
            Some(error) => Err(error),
        }
    }

    /// The compiled manifest. Missing inputs are recorded in `fill`.
    fn filled(&self, fill: &mut Fill<'_>) -> CompiledManifest {
        let spec = &self.spec;
        let mounts = spec.mounts.iter().map(|(slot, mount)| {
            let config = mount.config.iter().map(|(key, value)| (key.clone(), fill.value(value)));
            (*slot, CompiledMount { enabled: mount.enabled, mode: mount.mode, config: config.collect() })
        });
        let mounts = mounts.collect();
        let mut templates: Vec<String> = Vec::new();
        let seeds = spec.seed_files.iter().map(|seed| {
            let source = match &seed.source {
                SeedSource::Content(content) => CompiledSeedSource::inline(&fill.text(content)),
                SeedSource::Template { name, vars } => {
                    templates.push(name.clone());
                    CompiledSeedSource::Template { name: name.clone(), vars: fill.value(vars) }
                }
            };
            CompiledSeed { slot: seed.slot, rel_path: fill.text(&seed.path), source }
        });
        let seed_files = seeds.collect();
        templates.sort_unstable();
        templates.dedup();
        let env = spec.env.iter().map(|item| CompiledEnv {
            name: item.name.clone(),
            pieces: fill.pieces(&item.value),
            from_base: item.from_base,
        });
        let env = env.collect();
        let working_files = spec.working_files.iter().map(|file| CompiledWorkingFile {
            slug: file.slug.clone(),
            path: file.path.clone(),
            format: file.format,
            sync_direction: file.sync_direction,
            source_kind: file.source_kind.clone(),
            source_ref: fill.value(&file.source_ref),
        });
        let working_files = working_files.collect();
        CompiledManifest {
            slug: self.metadata.slug.clone(),
            version: self.metadata.version.clone(),
            agent: CompiledAgent {
                slug: self.agent.slug.clone(),
                group_key: self.agent.group_key.clone(),
                role: self.agent.role,
                deliverable_spec_ref: self.agent.deliverable_spec_ref.as_ref().map(|value| fill.text(value)),
            },
            mounts,
            seed_files,
            env,
            required_template_names: templates,
            working_files,
        }
    }
}
