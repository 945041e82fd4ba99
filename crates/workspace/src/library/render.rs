//! Renders the three files that describe a workspace to an agent: `AGENTS.md`, `context.json` and
//! the addition to its system prompt.
//!
//! They are rendered from the parameters in the plan and from the library's facts about the agent
//! and the deliverable. Parameters are untrusted data: they are fenced or escaped and can neither
//! end a paragraph nor start a heading.

mod agents_md;
mod context_json;
mod facts;
mod markdown;
mod system_overlay;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sha2::{Digest as _, Sha256};

use self::facts::Facts;
use super::limits::RENDERED;
use crate::plan::RenderParams;
use crate::rooted::Dir;
use crate::{Code, Error};

/// How many renderings are cached: an apply needs one, concurrent applies a few.
const MAX_REMEMBERED: usize = 16;

/// The nesting limit of parameter values. The canonical form adds a few levels.
const MAX_VALUE_DEPTH: usize = canon::json::MAX_DEPTH - 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// What the agent reads first.
    pub agents_md: String,
    /// The same facts for programs.
    pub context_json: String,
    /// The addition to the agent's system prompt.
    pub system_overlay: String,
}

/// The identity of a rendering: SHA-256 of the canonical JSON of the parameters, 64 hexadecimal
/// digits.
///
/// # Errors
/// `RESOLVE_BAD_RESPONSE` if the inputs are nested too deeply for a canonical form.
pub fn key(params: &RenderParams) -> Result<String, Error> {
    // Checked before anything recursive.
    let inputs = params.workflow_inputs.iter().flat_map(|inputs| inputs.values());
    let references = params.working_files.iter().flat_map(|file| file.source_ref.values());
    let media = params.input_artifacts.iter().filter_map(|artifact| artifact.content_type.as_ref());
    let mut values = inputs.chain(references).chain(media).chain(&params.deliverable_spec_ref);
    if !values.all(|value| canon::json::within_depth(value, MAX_VALUE_DEPTH)) {
        let message =
            format!("a value of the rendered parameters is nested deeper than {MAX_VALUE_DEPTH} levels");
        return Err(Error::new(Code::ResolveBadResponse, message));
    }
    let value = serde_json::to_value(params).expect("texts, lists and JSON values always serialise");
    let digest = Sha256::digest(canon::canonical::string_of(&value).as_bytes());
    Ok(canon::encoding::hex(&digest))
}

type CachedRendering = Arc<OnceLock<Result<Arc<Rendering>, Error>>>;

/// Renders once for equal parameters, also under concurrency.
#[derive(Debug, Default)]
pub(super) struct Renderer {
    /// Newest last.
    remembered: Mutex<Vec<Remembered>>,
}

#[derive(Debug)]
struct Remembered {
    key: String,
    // Canonical JSON rounds integers beyond 2^53, so equal keys do not imply equal parameters.
    params: Arc<RenderParams>,
    outcome: CachedRendering,
}

impl Renderer {
    /// The rendering for parameters. Concurrent callers wait for the first.
    pub(super) fn rendering(&self, root: &Dir, params: &Arc<RenderParams>) -> Result<Arc<Rendering>, Error> {
        let key = key(params)?;
        let outcome = self.outcome(&key, params);
        let rendering = outcome.get_or_init(|| render(root, params).map(Arc::new)).clone();
        if rendering.is_err() {
            // The next attempt renders again.
            self.lock().retain(|one| !Arc::ptr_eq(&one.outcome, &outcome));
        }
        rendering
    }

    fn outcome(&self, key: &str, params: &Arc<RenderParams>) -> CachedRendering {
        let mut remembered = self.lock();
        let same = |one: &&Remembered| one.key == key && one.params == *params;
        if let Some(one) = remembered.iter().find(same) {
            return Arc::clone(&one.outcome);
        }
        if remembered.len() == MAX_REMEMBERED {
            remembered.remove(0);
        }
        let outcome = CachedRendering::default();
        let (key, params) = (key.to_owned(), Arc::clone(params));
        remembered.push(Remembered { key, params, outcome: Arc::clone(&outcome) });
        outcome
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Remembered>> {
        // The list is consistent between any two operations.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn render(root: &Dir, params: &RenderParams) -> Result<Rendering, Error> {
    let facts = Facts::gather(root, params)?;
    let rendering = Rendering {
        agents_md: agents_md::render(params, &facts),
        context_json: context_json::render(params, &facts),
        system_overlay: system_overlay::render(params, &facts),
    };
    let files = [
        ("AGENTS.md", &rendering.agents_md),
        ("context.json", &rendering.context_json),
        ("system-overlay.md", &rendering.system_overlay),
    ];
    for (name, text) in files {
        RENDERED.check(text.len() as u64).map_err(|error| error.detail("file", name))?;
    }
    Ok(rendering)
}
