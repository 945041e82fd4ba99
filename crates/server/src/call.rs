//! From raw arguments to a typed call, and from a typed call to its outcome.
//!
//! Arguments are read here rather than by the protocol library, because a refusal there would be
//! an error of the protocol, which few clients show to the model that has to mend the call.

mod offered;
mod reading;
mod refusal;

use std::path::PathBuf;
use std::sync::Arc;

use host::catalogue::Found;
use host::guided::api::{CheckpointReply, ContinueRequest, Reply, ResumeReply, ResumeRequest, StartRequest};
use serde_json::{Map, Value, json};

use crate::listing;
use crate::service::{Answer, GuideService};
use crate::tool::Tool;

pub use refusal::{SurfaceErrorCode, arguments_not_an_object, panicked, unknown_tool};

/// The most bytes that the arguments of one call may have, as canonical JSON. The largest artifact
/// and the largest context fit several times.
pub const MAX_ARGUMENT_BYTES: usize = 4 << 20;

/// A call that can be made.
#[derive(Clone, Debug)]
pub enum Call {
    /// `list_workflows`
    List {
        workspace: Option<PathBuf>,
        /// What is asked for.
        filter: listing::Filter,
    },
    /// `inspect_workflow`
    Inspect {
        workspace: Option<PathBuf>,
        workflow_id: String,
        /// How much of it.
        mode: InspectMode,
    },
    /// `start_workflow`
    Start(StartRequest),
    /// `continue_workflow`
    Continue(ContinueRequest),
    /// `checkpoint_workflow`
    Checkpoint {
        /// The place.
        checkpoint_token: String,
        /// What to remember.
        notes: Option<String>,
    },
    /// `resume_session`
    Resume(ResumeRequest),
    /// `manage_workflow_source`
    Manage {
        /// What to do.
        action: SourceAction,
        /// With which folder.
        path: String,
    },
}

/// How much of a workflow is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectMode {
    /// Its head.
    Metadata,
    /// All of it.
    Preview,
}

impl InspectMode {
    /// The mode as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Preview => "preview",
        }
    }
}

/// What to do with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceAction {
    /// Add it.
    Attach,
    /// Take it away.
    Detach,
}

impl SourceAction {
    /// The action as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Detach => "detach",
        }
    }
}

/// What came of a call.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Of `list_workflows`.
    Listing(listing::Shown),
    /// Of `inspect_workflow`.
    Inspection {
        /// The workflow.
        found: Arc<Found>,
        /// How much of it is shown.
        mode: InspectMode,
    },
    /// Of `start_workflow`.
    Started(Reply),
    /// Of `continue_workflow`.
    Continued(Reply),
    /// Of `checkpoint_workflow`.
    Checkpoint(CheckpointReply),
    /// Of `resume_session`.
    Resume(ResumeReply),
    /// Of `manage_workflow_source`.
    Source {
        /// What was done.
        action: SourceAction,
        /// With which folder.
        path: String,
    },
}

impl Call {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` with everything that is wrong and the call as it was probably meant.
    pub fn read(tool: Tool, arguments: Map<String, Value>) -> Answer<Self> {
        reading::read(tool, arguments)
    }

    /// The call in this workspace, unless it names one itself.
    #[must_use]
    pub fn or_in(mut self, workspace: Option<PathBuf>) -> Self {
        let named = match &mut self {
            Self::List { workspace, .. } | Self::Inspect { workspace, .. } => workspace,
            Self::Start(request) => &mut request.workspace,
            Self::Resume(request) => &mut request.workspace,
            Self::Continue(_) | Self::Checkpoint { .. } | Self::Manage { .. } => return self,
        };
        if named.is_none() {
            *named = workspace;
        }
        self
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Whatever the service refuses, as it is.
    pub async fn answer(self, service: &dyn GuideService) -> Answer<Outcome> {
        Ok(match self {
            Self::List { workspace, filter } => {
                let listing = service.list(workspace).await;
                Outcome::Listing(listing::show(listing, &filter, |id| service.bundled_hash(id)))
            }
            Self::Inspect { workspace, workflow_id, mode } => {
                Outcome::Inspection { found: service.find(workspace, workflow_id).await?, mode }
            }
            Self::Start(request) => Outcome::Started(service.start(request).await?),
            Self::Continue(request) => Outcome::Continued(service.proceed(request).await?),
            Self::Checkpoint { checkpoint_token, notes } => {
                Outcome::Checkpoint(service.checkpoint(&checkpoint_token, notes.as_deref()).await?)
            }
            Self::Resume(request) => Outcome::Resume(service.resume(&request).await?),
            Self::Manage { action, path } => {
                let path = match action {
                    SourceAction::Attach => service.attach(path).await?,
                    SourceAction::Detach => service.detach(path).await?,
                };
                Outcome::Source { action, path }
            }
        })
    }
}

impl Outcome {
    /// The facts, for a program.
    pub fn facts(&self) -> Value {
        match self {
            Self::Listing(shown) => json!(shown),
            Self::Inspection { found, mode } => inspection(found, *mode),
            Self::Started(reply) | Self::Continued(reply) => json!(reply),
            Self::Checkpoint(reply) => json!(reply),
            Self::Resume(reply) => json!(reply),
            Self::Source { action, path } => json!({"action": action.as_str(), "path": path}),
        }
    }
}

fn inspection(found: &Found, mode: InspectMode) -> Value {
    let workflow = &found.workflow;
    let mut facts = json!({
        "workflowId": workflow.workflow_id,
        "workflowHash": found.hash,
        "mode": mode.as_str(),
        "sourceKind": found.source_kind,
        "source": found.source,
        "sourceRef": found.source_ref,
        "reason": found.reason,
        "shadowed": found.explanation,
        "tags": found.tags,
        "examples": found.examples,
        "compiled": match mode {
            InspectMode::Metadata => json!({
                "workflowId": workflow.workflow_id,
                "name": workflow.name,
                "description": workflow.description,
                "version": workflow.version,
            }),
            InspectMode::Preview => json!(**workflow),
        },
    });
    for (name, value) in [
        ("canonicalId", json!(found.canonical_id)),
        ("suggestedId", json!(found.suggested_id)),
        ("about", json!(found.about)),
        ("warnings", if found.warnings.is_empty() { Value::Null } else { json!(found.warnings) }),
    ] {
        if !value.is_null() {
            facts[name] = value;
        }
    }
    facts
}
