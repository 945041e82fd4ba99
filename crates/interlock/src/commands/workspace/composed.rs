//! Composes a plan from files.

use std::path::Path;

use canon::json::Limits;
use serde_json::{Map, Value};
use workspace::compose::{Request, TemplateResolver, compose};
use workspace::library::Library;
use workspace::manifest::{self, Bound, FolderBases, Format, Ladder, Warning};
use workspace::plan::MountPlan;

use crate::arguments::ManifestInput;
use crate::failure::Failure;
use crate::input;

/// A plan and the warnings of its manifest.
pub(super) struct Composed {
    pub(super) plan: MountPlan,
    pub(super) warnings: Vec<Warning>,
}

/// A plan from a manifest.
pub(super) struct FromManifest {
    pub(super) composed: Composed,
    pub(super) bound: Bound,
    /// The request, as composed.
    pub(super) request: Value,
}

pub(super) fn from_request(path: &Path, library: Option<&Library>) -> Result<Composed, Failure> {
    let source = input::source(path);
    let bytes = input::read(source, "a request", Limits::DEFAULT.max_bytes)?;
    let request =
        Request::read(&bytes).map_err(|error| error.envelope().detail("source", input::name(source)))?;
    Ok(Composed { plan: plan_of(&request, library)?, warnings: Vec::new() })
}

/// Compiles and binds a manifest, and composes the plan.
pub(super) fn from_manifest(
    arguments: &ManifestInput,
    library: Option<(&Library, &Path)>,
) -> Result<FromManifest, Failure> {
    let source = input::source(&arguments.manifest);
    let bytes = input::read(source, "a manifest", manifest::MAX_BYTES)?;
    let name = input::name(source);
    let bases = library.map(|(_, path)| FolderBases::open(path)).transpose()?;
    let bases = Ladder::new(bases.iter().map(|bases| bases as &dyn manifest::Bases).collect());
    let (manifest, warnings) = manifest::compile_with(&bytes, &name, Format::of_name(&name), &bases)?;

    let inputs = match &arguments.inputs {
        Some(path) => object(path)?,
        None => Map::new(),
    };
    let request = manifest.bind_request(&inputs, object(&arguments.context)?)?;
    let library = library.map(|(library, _)| library);
    let mut plan = plan_of(&Request::from_value(request.value.clone(), &request.mount_order)?, library)?;
    request.bound.pin_skills(&mut plan);
    Ok(FromManifest { composed: Composed { plan, warnings }, bound: request.bound, request: request.value })
}

fn plan_of(request: &Request, library: Option<&Library>) -> Result<MountPlan, Failure> {
    let templates = library.map(Library::templates);
    Ok(compose(request, templates.as_ref().map(|templates| templates as &dyn TemplateResolver))?)
}

fn object(path: &Path) -> Result<Map<String, Value>, Failure> {
    let source = input::source(path);
    match input::json(source)? {
        Value::Object(members) => Ok(members),
        _ => {
            let message = format!("{} must contain a JSON object", input::name(source));
            Err(workspace::Error::new(workspace::Code::ValidationError, message).into())
        }
    }
}
