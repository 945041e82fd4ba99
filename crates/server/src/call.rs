//! Reads raw arguments into a typed call, and makes the call.
//!
//! Arguments are read here instead of by the protocol library, because the library would report a mistake as
//! a protocol error, which few clients show to the model that must fix the call.

mod offered;
mod reading;
mod refusal;

use std::path::PathBuf;
use std::sync::Arc;

use catalogue::ResolvedWorkflow;
use guided::api::{CheckpointReply, ContinueRequest, Reply, ResumeReply, ResumeRequest, StartRequest};
use serde_json::{Map, Value, json};

use crate::listing;
use crate::service::{GuideService, ServiceResult};
use crate::tool::Tool;

pub use refusal::{SurfaceErrorCode, arguments_not_an_object, panicked, unknown_tool};

/// The maximum size of the arguments of one call, as canonical JSON. The largest artifact and the largest
/// context fit several times.
pub const MAX_ARGUMENT_BYTES: usize = 4 << 20;

#[derive(Clone, Debug)]
pub enum ToolCall {
    /// `list_workflows`
    List { workspace: Option<PathBuf>, filter: listing::Filter },
    /// `inspect_workflow`
    Inspect {
        workspace: Option<PathBuf>,
        workflow_id: String,
        /// How much to show.
        mode: InspectMode,
    },
    /// `start_workflow`
    Start(StartRequest),
    /// `continue_workflow`
    Continue(ContinueRequest),
    /// `checkpoint_workflow`
    Checkpoint {
        /// The position.
        checkpoint_token: String,
        notes: Option<String>,
    },
    /// `resume_session`
    Resume(ResumeRequest),
    /// `manage_workflow_source`
    Manage {
        /// Attach or detach.
        action: SourceAction,
        /// The folder.
        path: String,
    },
}

/// How much of a workflow to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectMode {
    /// Its metadata only.
    Metadata,
    /// The complete workflow.
    Preview,
}

impl InspectMode {
    /// The wire name.
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
    Attach,
    Detach,
}

impl SourceAction {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Detach => "detach",
        }
    }
}

#[derive(Clone, Debug)]
pub enum ToolOutcome {
    /// `list_workflows`
    Listing(listing::Shown),
    /// `inspect_workflow`
    Inspection {
        found: Arc<ResolvedWorkflow>,
        /// How much is shown.
        mode: InspectMode,
    },
    /// `start_workflow`
    Started(Reply),
    /// `continue_workflow`
    Continued(Reply),
    /// `checkpoint_workflow`
    Checkpoint(CheckpointReply),
    /// `resume_session`
    Resume(ResumeReply),
    /// `manage_workflow_source`
    Source {
        /// The action that was performed.
        action: SourceAction,
        /// The folder.
        path: String,
    },
}

impl ToolCall {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` with all mistakes and the call as it was probably intended.
    pub fn read(tool: Tool, arguments: Map<String, Value>) -> ServiceResult<Self> {
        reading::read(tool, arguments)
    }

    /// Sets the workspace of the call, unless it names one itself.
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
    /// The errors of the service, unchanged.
    pub async fn answer(self, service: &dyn GuideService) -> ServiceResult<ToolOutcome> {
        Ok(match self {
            Self::List { workspace, filter } => {
                let listing = service.list(workspace).await;
                ToolOutcome::Listing(listing::show(listing, &filter, |id| service.bundled_hash(id)))
            }
            Self::Inspect { workspace, workflow_id, mode } => {
                ToolOutcome::Inspection { found: service.find(workspace, workflow_id).await?, mode }
            }
            Self::Start(request) => ToolOutcome::Started(service.start(request).await?),
            Self::Continue(request) => ToolOutcome::Continued(service.proceed(request).await?),
            Self::Checkpoint { checkpoint_token, notes } => {
                ToolOutcome::Checkpoint(service.checkpoint(&checkpoint_token, notes.as_deref()).await?)
            }
            Self::Resume(request) => ToolOutcome::Resume(service.resume(&request).await?),
            Self::Manage { action, path } => {
                let path = match action {
                    SourceAction::Attach => service.attach(path).await?,
                    SourceAction::Detach => service.detach(path).await?,
                };
                ToolOutcome::Source { action, path }
            }
        })
    }
}

impl ToolOutcome {
    /// The structured result.
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

fn inspection(found: &ResolvedWorkflow, mode: InspectMode) -> Value {
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
