//! Composes a workspace from a manifest and puts it in place.
//!
//! Composing is pure. Applying has its own lock, lease and journal: after a crash, applying the same plan again completes
//! it, or finds it complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow::engine::{Equipment, ManifestSource};
use serde_json::{Map, Value, json};
use workspace::apply::{Applier, ApplyRequest, LeaseScope, LeaseState};
use workspace::compose::{Request, TemplateResolver, compose};
use workspace::environment::local::LocalSecrets;
use workspace::environment::{self, Platform, Reason, Scope, Secret, SecretSource};
use workspace::library::Library;
use workspace::manifest::{
    self, Bases, BoundRequest, CompiledEnv, CredentialKind, EnvPiece, FolderBases, Format, Ladder, Manifest,
};
use workspace::plan::ValidPlan;
use workspace::resolve::Resolver;
use workspace::rooted::Dir;
use workspace::slot::Slot;
use workspace::{Code, Error};
use zeroize::Zeroizing;

use super::artifacts::RunResolver;
use super::{GuidedNodes, Job, Trouble, failure};

impl GuidedNodes {
    /// Puts the workspace of a node in place. Returns the variables of its manifest that contain no secrets.
    pub(super) fn equip(
        &self,
        job: &Job,
        equipment: &Equipment,
    ) -> Result<BTreeMap<String, String>, Trouble> {
        self.put_in_place(job, equipment).map_err(|error| failure::of_workspace(&error))
    }

    /// The allowed variables of the manifest, with their credentials. A credential is read only from an allowed variable
    /// of this process, because a workflow may contain its own manifest and must not read arbitrary variables.
    pub(super) fn variables(&self, job: &Job, allowed: &[String]) -> Result<Vec<(String, Secret)>, Trouble> {
        let Some(equipment) = &job.guide.equipment else { return Ok(Vec::new()) };
        let resolve = || -> Result<Vec<(String, Secret)>, Error> {
            let (_, bound) = self.bind(job, equipment)?;
            let platform = Platform {
                org_id: job.tenant.to_string(),
                project_id: job.workflow_id.to_string(),
                apply_id: String::new(),
                scope: Scope::Run { run_id: job.run_id.to_string(), job_run_id: node_run_id(job) },
            };
            let source: Arc<dyn SecretSource> = Arc::new(AllowedVariables(allowed.to_vec()));
            let resolved = environment::resolve(&bound.bound, &[], &platform, &[], &source)?;
            let wanted = resolved.values().iter().filter(|(name, _)| allowed.contains(name));
            Ok(wanted.cloned().collect())
        };
        resolve().map_err(|error| failure::of_workspace(&error))
    }

    /// The library of a node, and its manifest for this run and attempt.
    fn bind(&self, job: &Job, equipment: &Equipment) -> Result<(Library, BoundRequest), Error> {
        let (library_path, library) = self.library(&equipment.library)?;
        let bases = FolderBases::open(&library_path)?;
        let manifest = self.manifest(&equipment.manifest, &Ladder::new(vec![&bases as &dyn Bases]))?;
        let request = request(job, &manifest)?;
        Ok((library, manifest.bind_request(&inputs(job, &manifest), request)?))
    }

    fn put_in_place(&self, job: &Job, equipment: &Equipment) -> Result<BTreeMap<String, String>, Error> {
        let (library, bound) = self.bind(job, equipment)?;
        let variables = bound.bound.manifest.env.iter().filter_map(plain_variable).collect();
        let mut value = bound.value;
        // Inputs are added only if the manifest enables the slot for them.
        if value.pointer("/manifest/mounts/inputs/enabled") == Some(&Value::Bool(true)) {
            let named: Vec<Value> = job.artifacts.iter().map(super::InputArtifact::named).collect();
            value["agentContext"]["inputArtifacts"] = named.into();
        }
        let templates = library.templates();
        let composed = Request::from_value(value, &bound.mount_order)?;
        let mut plan = compose(&composed, Some(&templates as &dyn TemplateResolver))?;
        bound.bound.pin_skills(&mut plan);

        let root = self.workspace(&job.run_id, &job.guide.node_id);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&root);
        made.map_err(|error| Error::new(Code::ApplyIo, format!("the workspace cannot be created: {error}")))?;
        let applier = Applier::new(&root)?;
        let plan = ValidPlan::check(&plan.to_value(), None, applier.folds_case()?)?;
        let library = library.with_scratch(&root.join(applier.scratch()?));
        let resolver: Arc<dyn Resolver> = Arc::new(RunResolver::new(library, &job.artifacts));
        let scope = LeaseScope::of(&plan, 0);
        let now = self.now();
        // An earlier attempt or round of this node may have left its lease behind. A node has only one attempt at a time,
        // so it is safe to take over.
        if let Some(lease) = applier.lease()?
            && lease.scope != scope
            && lease.state == LeaseState::Active
        {
            applier.release(&lease.apply_id, lease.generation, now)?;
        }
        let holder = format!("run {}, node {}", job.run_id, job.guide.node_id);
        applier.apply(&ApplyRequest::new(&plan, &scope, &holder), &resolver, now, &())?;
        Ok(variables)
    }

    fn library(&self, name: &str) -> Result<(PathBuf, Library), Error> {
        let plain = plain(name)?;
        let places = &self.inner.options.places;
        let found = places.iter().map(|place| place.join(plain)).find(|path| path.is_dir());
        let path = found.ok_or_else(|| missing("library", name))?;
        let library = Library::open(&path)?;
        Ok((path, library))
    }

    fn manifest(&self, source: &ManifestSource, bases: &dyn Bases) -> Result<Manifest, Error> {
        let (bytes, name, format) = match source {
            ManifestSource::Inline(value) => {
                (value.to_string().into_bytes(), "the manifest of the node".to_owned(), Format::Json)
            }
            ManifestSource::File(name) => (self.read(name)?, name.clone(), Format::of_name(name)),
        };
        Ok(manifest::compile_with(&bytes, &name, format, bases)?.0)
    }

    /// Reads a file from the first folder that has it. The file is opened relative to the folder, and links are not
    /// followed.
    fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let plain = plain(name)?;
        for place in &self.inner.options.places {
            let opened = Dir::open_root(place).and_then(|place| place.open_file(plain));
            let file = match opened {
                Ok(file) => file,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(error) => {
                    let message = format!("the manifest {name} cannot be read: {error}");
                    return Err(Error::new(Code::ResolveDenied, message).detail("manifest", name));
                }
            };
            let mut bytes = Vec::new();
            // Reading one byte more than the limit detects a manifest that is too large.
            let read = file.take(manifest::MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|error| {
                Error::new(Code::ResolveUpstream, format!("the manifest {name} cannot be read: {error}"))
            })?;
            return Ok(bytes);
        }
        Err(missing("manifest", name))
    }
}

/// A variable without credentials.
fn plain_variable(variable: &CompiledEnv) -> Option<(String, String)> {
    let texts = variable.pieces.iter().map(|piece| match piece {
        EnvPiece::Text(text) => Some(text.as_str()),
        EnvPiece::Credential(_) => None,
    });
    Some((variable.name.clone(), texts.collect::<Option<String>>()?))
}

/// The variables of this process that the operator allows.
struct AllowedVariables(Vec<String>);

impl SecretSource for AllowedVariables {
    fn fetch(&self, kind: CredentialKind, source_ref: &str) -> Result<Zeroizing<String>, Reason> {
        match source_ref.split_once(':') {
            Some(("env", name)) if self.0.iter().any(|allowed| allowed == name) => {
                LocalSecrets.fetch(kind, source_ref)
            }
            Some(_) | None => Err(Reason::Denied),
        }
    }
}

/// Checks that a path consists only of normal components, so that it cannot leave its folder.
fn plain(name: &str) -> Result<&Path, Error> {
    let path = Path::new(name);
    let down = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if down && !name.contains('\0') {
        return Ok(path);
    }
    let message =
        format!("`{}` is not a path inside a folder of the host", canon::budget::truncate(name, 120));
    Err(Error::new(Code::ResolveDenied, message))
}

fn missing(what: &str, name: &str) -> Error {
    let message = format!("no folder of the host has the {what} `{}`", canon::budget::truncate(name, 120));
    Error::new(Code::ResolveNotFound, message).detail(what, name)
}

/// The inputs of the node that the manifest declares.
fn inputs(job: &Job, manifest: &Manifest) -> Map<String, Value> {
    let declared: BTreeSet<&str> = manifest.input_names().collect();
    let given = job.guide.inputs.iter().filter(|(name, _)| declared.contains(name.as_str()));
    given.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The compose request besides the manifest: the run, the node, and the role that the manifest assigns to the agent.
fn request(job: &Job, manifest: &Manifest) -> Result<Map<String, Value>, Error> {
    let inputs = Value::Object(job.guide.inputs.clone()).to_string();
    let request = json!({
        "orgId": job.tenant,
        "projectId": job.workflow_id,
        "agentOverrides": {"role": manifest.role().as_str()},
        "workflowRun": {"runId": job.run_id, "jobRunId": node_run_id(job)},
        "agentContext": {
            "prompt": job.guide.goal,
            "inputsJsonBase64": STANDARD.encode(inputs),
        },
    });
    match request {
        Value::Object(request) => Ok(request),
        _ => Err(Error::new(Code::ValidationError, "a request is an object")),
    }
}

/// The id of a node's attempt, as used in the workspace.
fn node_run_id(job: &Job) -> String {
    format!("{}:{}:{}", job.guide.node_id, job.guide.iteration, job.guide.attempt)
}

/// Releases a workspace. Errors are ignored, because the lease expires.
pub(super) fn release(root: &Path, now: u64) {
    let Ok(applier) = Applier::new(root) else { return };
    if let Ok(Some(lease)) = applier.lease()
        && lease.state == LeaseState::Active
    {
        let _ = applier.release(&lease.apply_id, lease.generation, now);
    }
}

/// Whether the workspace accepts deliverables, according to its recorded lease.
pub(super) fn takes_deliverables(root: &Dir) -> Result<bool, Error> {
    let lease = workspace::apply::Lease::read(root)?;
    let slots = lease.map(|lease| lease.slots).unwrap_or_default();
    let writable = |slot: &workspace::apply::SlotReport| {
        slot.path == Slot::Deliverables.path() && slot.mode == workspace::slot::Mode::ReadWrite
    };
    Ok(slots.iter().any(writable))
}
