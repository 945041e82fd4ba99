//! Why executors fail nodes: a closed list, in addition to the codes of models, surfaces and modules.

canon::error_codes! {
    /// Why an executor failed a node.
    pub enum ExecutorErrorCode {
        /// The configuration of the node is invalid.
        ConfigInvalid => "CONFIG_INVALID",
        /// A secret that the node requires is missing or cannot be read.
        CredentialRequired => "credential_required",
        /// The host has no secrets.
        CredentialUnavailable => "credential_unavailable",
        /// No MCP server with that id is configured for the tenant.
        McpServerNotRegistered => "mcp_server_not_registered",
        /// No available MCP server has the tool.
        McpToolNotFound => "mcp_tool_not_found",
        /// The MCP server does not accept the arguments.
        McpToolInvalidArgs => "mcp_tool_invalid_args",
        /// The MCP server does not know the method.
        McpMethodNotFound => "mcp_method_not_found",
        /// The MCP server replied with another error.
        McpError => "mcp_error",
        /// The MCP server did not reply in time.
        McpTimeout => "mcp_timeout",
        /// The MCP server does not accept the credential.
        McpUnauthorized => "mcp_unauthorized",
        /// The MCP server cannot be reached, or replied with an HTTP error.
        McpUnreachable => "mcp_unreachable",
        /// The MCP server replied with an invalid message.
        McpBadAnswer => "mcp_bad_answer",
        /// The URL of a request is invalid, or a placeholder in it has no value.
        InvalidUrl => "invalid_url",
        /// The operator does not allow the host, its address, or the credential for it.
        EgressDenied => "egress_denied",
        /// The server replied with a status that the node does not accept.
        HttpStatus => "http_status",
        /// The server did not reply in time.
        HttpTimeout => "http_timeout",
        /// The server cannot be reached, or its reply is not HTTP.
        HttpConnect => "http_connect",
        /// The certificate of the server is not trusted.
        HttpTls => "http_tls",
        /// The response is larger than the limit of the node.
        HttpResponseTooLarge => "http_response_too_large",
        /// The response does not have the form that the node expects.
        HttpResponseInvalid => "http_response_invalid",
        /// The run ended before the request was repeated.
        HttpCancelled => "http_cancelled",
        /// The schema of a tool is too large or invalid.
        ToolSchemaUnusable => "tool_schema_unusable",
    }
}
