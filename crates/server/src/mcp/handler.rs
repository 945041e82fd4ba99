//! The methods of the protocol.

use std::sync::Arc;

use catalogue::Listing;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ServerCapabilities, ServerConfig, Tool as ToolEntry, ToolAnnotations,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer};
use serde_json::Value;

use super::people::AskChannel;
use super::{INSTRUCTIONS, Mcp, prompts, refused};
use crate::call;
use crate::listing::{self, TAGS_URI};
use crate::tool::{Definition, Tool, definition};

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let identity = Implementation::new("interlock", env!("CARGO_PKG_VERSION"))
            .with_title("Interlock")
            .with_description("Durable step-by-step workflows for agents.");
        ServerConfig::new(
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build(),
        )
        .with_server_info(identity)
        .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // Tools that the caller may not use are not listed.
        let offered = Tool::ALL.into_iter().filter(|tool| self.service.admit(*tool).is_ok());
        Ok(ListToolsResult::with_all_items(offered.map(|tool| entry(definition(tool))).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<ToolEntry> {
        Tool::parse(name).map(|tool| entry(definition(tool)))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let channel = AskChannel::of(&mut request, &context);
        let (name, arguments) = (request.name, request.arguments.unwrap_or_default());
        let responding = async {
            self.workspace.known(&context.peer).await;
            self.respond(&name, arguments, channel).await
        };
        tokio::select! {
            response = responding => Ok(response),
            // Even if the client cancelled the call, a question to a person may still be open.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("The call was cancelled.", None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let tags = Resource::new(TAGS_URI, "tags")
            .with_title("Workflow tags")
            .with_description("The tags of workflows, when each applies, and the workflows that have it.")
            .with_mime_type("application/json");
        Ok(ListResourcesResult::with_all_items(vec![tags]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != TAGS_URI {
            return Err(ErrorData::resource_not_found(format!("The only resource is {TAGS_URI}."), None));
        }
        let text = ResourceContents::text(listing::tag_definitions().to_string(), TAGS_URI);
        Ok(ReadResourceResult::new(vec![text.with_mime_type("application/json")]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(prompts::list(&self.startable(&context.peer).await?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(prompts::get(&self.startable(&context.peer).await?, &request)?.into())
    }

    /// Completions are not supported, and the capabilities do not announce them.
    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.workspace.known(&context.peer).await;
    }

    /// A `tools/call` without a name, or with arguments that are not an object, does not match the library's
    /// type and is handled here.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "tools/call" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let name = request.params.as_ref().and_then(|params| params["name"].as_str()).unwrap_or_default();
        let mut result = refused(&match Tool::parse(name) {
            Some(tool) => call::arguments_not_an_object(tool),
            None => call::unknown_tool(name),
        });
        // The library does this for the results that it knows.
        let newest = ProtocolVersion::V_2026_07_28;
        if context.protocol_version().is_none_or(|version| version.as_str() < newest.as_str()) {
            result.result_type = None;
        }
        Ok(CustomResult::new(serde_json::to_value(result).unwrap_or(Value::Null)))
    }
}

impl Mcp {
    /// The workflows that the caller may start.
    async fn startable(&self, peer: &Peer<RoleServer>) -> Result<Listing, ErrorData> {
        self.workspace.known(peer).await;
        let (service, workspace) = (Arc::clone(&self.service), self.workspace.get());
        let listed = tokio::spawn(async move {
            match service.admit(Tool::StartWorkflow) {
                Ok(()) => service.list(workspace).await,
                Err(_) => Listing::default(),
            }
        });
        listed.await.map_err(|_| ErrorData::internal_error("The workflows could not be listed.", None))
    }
}

/// A definition as an entry of `tools/list`.
fn entry(definition: &Definition) -> ToolEntry {
    let annotations = ToolAnnotations::with_title(definition.title)
        .read_only(definition.read_only)
        .idempotent(definition.idempotent)
        .destructive(false)
        .open_world(false);
    ToolEntry::new(definition.tool.name(), definition.description(), Arc::new(definition.input_schema()))
        .with_title(definition.title)
        .with_raw_output_schema(Arc::new(definition.output_schema()))
        .with_annotations(annotations)
}
