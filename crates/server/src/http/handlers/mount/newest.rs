//! Edition 2026-07-28 at `/v1/mcp`, in which every request is self-contained (finding G1).
//!
//! The MCP library checks what the edition adds: discovery, headers that repeat the body, versions, cache hints. The same dispatcher
//! as for earlier editions answers the requests.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::super::super::exchange::CheckedRequest;
use super::super::super::response;
use super::super::super::route::HandlerResult;
use super::super::mcp::{accepting, ours};
use super::{EDITION, Notifications, mount};
use crate::mount::{EDITIONS, INSTRUCTIONS, Message, ParsedMessage};

/// The edition that this module serves.
pub(super) const NEWEST: &str = "2026-07-28";
/// The field of `_meta` in which a request names its edition.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Whether this module answers a message: one of this edition, or one of an unsupported edition, which the library refuses.
pub(super) fn is_meant(call: &CheckedRequest, message: &ParsedMessage) -> bool {
    let named = call.headers.get(EDITION);
    if named.is_some_and(|named| !EDITIONS.iter().any(|known| named.as_bytes() == known.as_bytes())) {
        return true;
    }
    match message {
        ParsedMessage::Request(message) | ParsedMessage::Notification(message) => {
            let meta = message.params.get("_meta");
            message.method == "server/discover" || meta.is_some_and(|meta| meta.get(VERSION).is_some())
        }
        ParsedMessage::Response(..) | ParsedMessage::Invalid(..) => false,
    }
}

/// Answers a message in this edition.
pub(super) async fn answer(
    call: CheckedRequest,
    id: &Value,
    place: Option<OwnedSemaphorePermit>,
) -> HandlerResult {
    let call = Arc::new(call);
    // Dropped with this future: if the client disconnects, the run that it waits for ends, as in earlier editions.
    let (_here, gone) = watch::channel(());
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        // Both were checked before.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(call.state.settings.max_message_bytes);
    let place = Arc::new(place);
    let asked = Arc::clone(&call);
    let handler = move || {
        Ok(RequestHandler { call: Arc::clone(&asked), gone: gone.clone(), _place: Arc::clone(&place) })
    };
    let protocol = StreamableHttpService::new(handler, Arc::new(NeverSessionManager::default()), config);
    let mut request = Request::new(Full::new(call.message.clone()));
    *request.method_mut() = Method::POST;
    *request.headers_mut() = accepting(call.headers.clone());
    tokio::select! {
        response = protocol.handle(request) => Ok(rpc(response.map(Body::new), id).await),
        refusal = call.key_ended() => Err(refusal),
    }
}

/// The reply of the library, with its refusals as JSON-RPC errors.
async fn rpc(response: Response, id: &Value) -> Response {
    let status = response.status();
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|media| media == "application/json");
    if !status.is_client_error() || is_json {
        return ours(response).await;
    }
    let text_body =
        response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text_body = String::from_utf8_lossy(&text_body);
    let message = flow::redact::text(&text_body);
    let spoken: Vec<&str> = [NEWEST].into_iter().chain(EDITIONS).collect();
    let error =
        json!({"code": ErrorCode::INVALID_REQUEST, "message": message, "data": {"supported": spoken}});
    response::json(status.as_u16(), &json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// The handler of one request.
struct RequestHandler {
    call: Arc<CheckedRequest>,
    gone: watch::Receiver<()>,
    _place: Arc<Option<OwnedSemaphorePermit>>,
}

impl RequestHandler {
    /// Calls the dispatcher, and parses its reply into the type that the library sends.
    async fn ask<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
        context: &RequestContext<RoleServer>,
    ) -> Result<R, ErrorData> {
        let params = match serde_json::to_value(params) {
            Ok(Value::Object(params)) => params,
            Ok(_) | Err(_) => Map::new(),
        };
        let message = Message { id: json!(context.id), method: method.to_owned(), params };
        let mut gone = self.gone.clone();
        let answered = tokio::select! {
            biased;
            answered = async { mount(&self.call, Notifications::default()).answer(&message).await } => answered,
            _ = gone.changed() => return Err(ErrorData::internal_error("The client disconnected.", None)),
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("The call was cancelled.", None)),
        };
        let mut result = match answered {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                let (code, message, data) = error.into_parts();
                return Err(ErrorData::new(ErrorCode(code), message, data));
            }
            Err(refusal) => {
                let data = json!({"error": refusal.code.as_str(), "retryAfterSeconds": refusal.retry_after});
                return Err(ErrorData::internal_error("The host refused the call. See `error`.", Some(data)));
            }
        };
        // Required in this edition and unknown in earlier ones.
        if let Value::Object(members) = &mut result {
            members.entry("resultType").or_insert_with(|| json!("complete"));
        }
        serde_json::from_value(result)
            .map_err(|_| ErrorData::internal_error("The result does not match the protocol.", None))
    }
}

impl ServerHandler for RequestHandler {
    fn get_info(&self) -> ServerConfig {
        let identity =
            Implementation::new("interlock", env!("CARGO_PKG_VERSION")).with_title("Interlock: workflows");
        let able = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .build();
        ServerConfig::new(able).with_server_info(identity).with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&[
            ProtocolVersion::V_2025_03_26,
            ProtocolVersion::V_2025_06_18,
            ProtocolVersion::V_2025_11_25,
            ProtocolVersion::V_2026_07_28,
        ])
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.ask("tools/list", &request, &context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.ask("resources/list", &request, &context).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.ask("resources/templates/list", &request, &context).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.ask("prompts/list", &request, &context).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result: CallToolResult = self.ask("tools/call", &request, &context).await?;
        Ok(result.into())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let result: ReadResourceResult = self.ask("resources/read", &request, &context).await?;
        Ok(result.into())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let result: GetPromptResult = self.ask("prompts/get", &request, &context).await?;
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.ask("completion/complete", &request, &context).await
    }
}
