//! MCP: the handler of one connection, and the transport over standard input and output.
//!
//! The handler is independent of the transport. Over standard input and output there is one per process; over
//! HTTP there is one per request.

mod handler;
mod people;
mod prompts;
mod workspace;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canon::error::{Envelope, render};
use guided::api::ContinueRequest;
use guided::{Questions, is_failure};
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, InputRequiredResult};
use rmcp::service::ServerInitializeError;
use rmcp::{ServiceExt as _, transport};
use serde_json::{Map, Value};
use tokio::sync::RwLock;
use tracing::Span;

use self::people::{AskChannel, AskResult};
use self::workspace::DefaultWorkspace;
use crate::call::{self, ToolCall, ToolOutcome};
use crate::open_runs::OpenRuns;
use crate::prose;
use crate::service::GuideService;
use crate::tool::Tool;

/// The server instructions that a client receives.
pub const INSTRUCTIONS: &str = "\
Interlock walks you through workflows: step-by-step procedures that are recorded durably and cannot be skipped. \
Use it when the user asks for a workflow, or when a task (a bug, a review, a feature, a design, documentation, a \
migration) deserves a procedure.

The loop:
1. list_workflows with workspacePath: find the workflow. Call it again with a tag for details.
2. start_workflow with workflowId, goal and workspacePath: you get the first step and a continueToken.
3. Do what the step says. All of it, with your other tools.
4. continue_workflow with that continueToken, intent \"advance\" and output.notesMarkdown: what you did, found and \
decided. You get the next step and a new continueToken. Repeat from 3 until isComplete is true.

If a reply is blocked, fix the listed blockers, then make the call in nextCall. If you lost the thread, call continue_workflow with \
intent \"rehydrate\": it changes nothing. If you have no token, call resume_session. Before you stop in the middle, \
call checkpoint_workflow.

Copy tokens exactly. Every reply names its run in its first line: never send a token of one run in a call about another run. \
Repeating a call with the same token is safe. Errors are data: they say what is wrong and give a call that \
works.";

/// One connection.
pub struct Mcp {
    service: Arc<dyn GuideService>,
    open: Mutex<OpenRuns>,
    /// The workspace of calls that name none; `None` over HTTP, where the client is on another machine.
    workspace: DefaultWorkspace,
    /// How long the user of a client may take to answer the questions of one call.
    timeout: Duration,
    /// Held by every call that is being answered.
    calls: Arc<RwLock<()>>,
    /// The span of the request, for the log: the protocol library handles messages in a separate task.
    span: Span,
}

impl std::fmt::Debug for Mcp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Mcp").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Mcp {
    /// The handler of a new connection.
    pub fn new(service: Arc<dyn GuideService>) -> Self {
        Self {
            service,
            open: Mutex::default(),
            workspace: DefaultWorkspace::default(),
            timeout: people::ANSWER_TIMEOUT,
            calls: Arc::default(),
            span: Span::none(),
        }
    }

    /// Sets the default workspace: this folder, or the first root that the client reports.
    #[must_use]
    pub fn in_folder(self, folder: Option<PathBuf>) -> Self {
        Self { workspace: DefaultWorkspace::of(folder), ..self }
    }

    /// How long to wait for a person whom a client asks; the default is five minutes.
    #[must_use]
    pub fn with_answer_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Logs errors in this span.
    #[must_use]
    pub(crate) fn within(self, span: Span) -> Self {
        Self { span, ..self }
    }

    /// Answers a tool call. A caller's mistake is returned as a result too.
    pub async fn answer(&self, name: &str, arguments: Map<String, Value>) -> CallToolResult {
        match self.respond(name, arguments, AskChannel::Unsupported).await {
            CallToolResponse::Complete(result) => result,
            // Without a peer there is no user to ask.
            _ => refused(&call::panicked(Tool::ContinueWorkflow)),
        }
    }

    /// Answers a tool call, or returns what the user of the client must be asked first.
    async fn respond(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        channel: AskChannel,
    ) -> CallToolResponse {
        let result = match self.outcome(name, arguments, channel).await {
            Ok(ToolResponse::InputRequired(asks)) => return asks.into(),
            Ok(ToolResponse::Outcome(outcome)) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(prose::render(&outcome))]);
                result.structured_content = Some(outcome.facts());
                result
            }
            Err(envelope) => {
                if is_failure(&envelope) {
                    let cause = system::causes(&*envelope);
                    self.span.in_scope(|| {
                        tracing::error!(tool = name, error.code = envelope.code(), cause, "a tool failed");
                    });
                }
                refused(&envelope)
            }
        };
        result.into()
    }

    async fn outcome(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        channel: AskChannel,
    ) -> Result<ToolResponse, Box<Envelope>> {
        let tool = Tool::parse(name).ok_or_else(|| Box::new(call::unknown_tool(name)))?;
        let service = Arc::clone(&self.service);
        let workspace = self.workspace.get();
        let can_ask = !channel.is_unsupported();
        let begun = self.in_task(tool, async move {
            service.admit(tool)?;
            match ToolCall::read(tool, arguments)?.or_in(workspace) {
                ToolCall::Continue(request) if can_ask => match service.questions(&request).await {
                    Ok(Some(questions)) => Ok(FirstAttempt::InputRequired(Box::new((request, questions)))),
                    // If the call is invalid, making it returns the error.
                    Ok(None) | Err(_) => ToolCall::Continue(request)
                        .answer(&*service)
                        .await
                        .map(Box::new)
                        .map(FirstAttempt::Done),
                },
                call => call.answer(&*service).await.map(Box::new).map(FirstAttempt::Done),
            }
        });
        let mut outcome = match begun.await? {
            FirstAttempt::Done(outcome) => outcome,
            FirstAttempt::InputRequired(asks) => {
                let (request, questions) = *asks;
                match people::ask(channel, &request, &questions, self.timeout).await {
                    AskResult::InputRequired(asks) => return Ok(ToolResponse::InputRequired(asks)),
                    AskResult::Answered(people) => {
                        let service = Arc::clone(&self.service);
                        let made = async move {
                            let reply = service.proceed_with(request, people).await?;
                            Ok(Box::new(ToolOutcome::Continued(reply)))
                        };
                        self.in_task(tool, made).await?
                    }
                }
            }
        };
        self.remember(&mut outcome);
        Ok(ToolResponse::Outcome(outcome))
    }

    /// Answers in a task of its own: a call that has begun is completed even if its client disconnects, and a panic fails only
    /// this call.
    async fn in_task<T: Send + 'static>(
        &self,
        tool: Tool,
        answer: impl Future<Output = Result<T, Box<Envelope>>> + Send + 'static,
    ) -> Result<T, Box<Envelope>> {
        let call = Arc::clone(&self.calls).read_owned().await;
        let answering = tokio::spawn(async move {
            let answered = answer.await;
            drop(call);
            answered
        });
        answering.await.unwrap_or_else(|error| {
            let cause = system::causes(&error);
            self.span.in_scope(|| tracing::error!(tool = tool.name(), cause, "a tool panicked"));
            Err(Box::new(call::panicked(tool)))
        })
    }

    /// Adds a warning to the reply of a start if another run is open, and remembers the run.
    fn remember(&self, outcome: &mut ToolOutcome) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            ToolOutcome::Started(reply) => {
                reply.warnings.extend(open.warning(&reply.run));
                open.note(reply);
            }
            ToolOutcome::Continued(reply) => open.note(reply),
            ToolOutcome::Listing(_)
            | ToolOutcome::Inspection { .. }
            | ToolOutcome::Checkpoint(_)
            | ToolOutcome::Resume(_)
            | ToolOutcome::Source { .. } => {}
        }
    }
}

/// A call that was made, or that needs an answer of a person first.
enum FirstAttempt {
    Done(Box<ToolOutcome>),
    /// A person must be asked before the call is made.
    InputRequired(Box<(ContinueRequest, Questions)>),
}

enum ToolResponse {
    Outcome(Box<ToolOutcome>),
    InputRequired(InputRequiredResult),
}

/// The result of a failed call: the same body as text and as data.
pub(crate) fn refused(envelope: &Envelope) -> CallToolResult {
    let body = render::mcp_tool_error(envelope);
    let mut result = CallToolResult::error(vec![ContentBlock::text(body.to_string())]);
    result.structured_content = Some(body);
    result
}

/// Why a connection ended, other than by its client.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime could not be started.
    #[error("the runtime could not be started")]
    Runtime {
        #[source]
        cause: std::io::Error,
    },
    #[error("the MCP handshake with the client failed")]
    Handshake {
        /// The error of the protocol library.
        #[source]
        cause: Box<ServerInitializeError>,
    },
    /// The request loop failed.
    #[error("the MCP connection failed")]
    Loop {
        #[source]
        cause: tokio::task::JoinError,
    },
}

/// Serves one client over standard input and output, until it closes its end.
///
/// Nothing else may write to standard output meanwhile: it belongs to the protocol.
///
/// # Errors
/// The client does not follow the protocol, or the request loop failed. A client that disconnects before it
/// has sent anything is not an error.
pub async fn serve_stdio(service: Arc<dyn GuideService>) -> Result<(), ServeError> {
    let handler = Mcp::new(service).in_folder(std::env::current_dir().ok());
    let calls = Arc::clone(&handler.calls);
    let running = match handler.serve(transport::stdio()).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(cause) => return Err(ServeError::Handshake { cause: Box::new(cause) }),
    };
    let ended = running.waiting().await;
    // What the client sent before it left is completed, within reason.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, calls.write()).await;
    match ended {
        Ok(rmcp::service::QuitReason::JoinError(cause)) | Err(cause) => Err(ServeError::Loop { cause }),
        Ok(_) => Ok(()),
    }
}

/// How long to wait at the end of a connection for a call in progress, and for standard input, which cannot
/// be interrupted.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// [`serve_stdio`] for a program without a runtime: one thread for the protocol, others only while files are read or written.
///
/// # Errors
/// The errors of [`serve_stdio`].
pub fn run_stdio(service: Arc<dyn GuideService>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| ServeError::Runtime { cause })?;
    let served = runtime.block_on(serve_stdio(service));
    runtime.shutdown_timeout(ANSWER_TIMEOUT);
    served
}
