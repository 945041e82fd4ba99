//! Why the work of a node failed on the host: a closed list, beside the codes of models, surfaces and modules.

canon::error_codes! {
    /// Why an executor failed a node.
    pub enum ExecutorErrorCode {
        /// The configuration of the node is not valid.
        ConfigInvalid => "CONFIG_INVALID",
        /// A secret that the node needs is missing or cannot be read.
        CredentialRequired => "credential_required",
        /// The host has no secrets at all.
        CredentialUnavailable => "credential_unavailable",
        /// No MCP server of that id is configured for the tenant.
        McpServerNotRegistered => "mcp_server_not_registered",
        /// No MCP server that may be used has the tool.
        McpToolNotFound => "mcp_tool_not_found",
        /// The MCP server does not accept the arguments.
        McpToolInvalidArgs => "mcp_tool_invalid_args",
        /// The MCP server does not know the method.
        McpMethodNotFound => "mcp_method_not_found",
        /// The MCP server answered with another error.
        McpError => "mcp_error",
        /// The MCP server did not answer in time.
        McpTimeout => "mcp_timeout",
        /// The MCP server does not accept the credential.
        McpUnauthorized => "mcp_unauthorized",
        /// The MCP server cannot be reached, or answered with an HTTP error.
        McpUnreachable => "mcp_unreachable",
        /// The MCP server answered with something that is not a message.
        McpBadAnswer => "mcp_bad_answer",
        /// The schema of a tool is too large, or cannot be used.
        ToolSchemaUnusable => "tool_schema_unusable",
    }
}
