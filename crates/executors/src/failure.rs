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
        /// The schema of a tool is too large or invalid.
        ToolSchemaUnusable => "tool_schema_unusable",
    }
}
