//! The closed sets of a manifest, with their wire names.

/// An enum with one wire name per member.
macro_rules! closed {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident => $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* #[doc = concat!("`", $text, "`")] $variant,)+
        }

        impl $name {
            /// Every member, in the order of the specification.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The wire name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// Parses a wire name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|member| member.as_str()).collect();
                    serde::de::Error::custom(format!("expected one of {}", known.join(", ")))
                })
            }
        }

        impl $crate::manifest::vocabulary::Closed for $name {
            fn all() -> &'static [Self] {
                Self::ALL
            }

            fn spelling(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

pub(crate) use closed;

/// A closed set for the reader.
pub(crate) trait Closed: Copy + Sized + 'static {
    fn all() -> &'static [Self];
    fn spelling(self) -> &'static str;
}

closed! {
    /// Where an agent works: in a workflow run, or in an interactive session.
    Surface {
        Workflow => "workflow",
        AgentSession => "agent-session",
    }
}

closed! {
    /// The role of an agent.
    Role {
        UnitWorker => "unit-worker",
        Coordinator => "coordinator",
        Engineer => "engineer",
        Auditor => "auditor",
        GenericAgent => "generic-agent",
        GateReviewer => "gate-reviewer",
        ClarificationCoordinator => "clarification-coordinator",
        ScopeValidator => "scope-validator",
        AgentSession => "agent-session",
        Brainstorming => "brainstorming",
    }
}

closed! {
    InputType {
        String => "string",
        Number => "number",
        Boolean => "boolean",
        Array => "array",
        /// A list of strings.
        Strings => "string[]",
        Object => "object",
    }
}

closed! {
    /// The provider of a tool.
    ProviderKind {
        McpServer => "mcp_server",
        Catalog => "catalog",
        BiomeWorkflowTools => "biome_workflow_tools",
        BiomeCodeTools => "biome_code_tools",
    }
}

closed! {
    /// Whether a whole provider or a single tool is selected.
    SelectionKind {
        Provider => "provider",
        Tool => "tool",
    }
}

closed! {
    /// The kind of a credential, which selects its provider.
    CredentialKind {
        LlmProvider => "llm-provider",
        ScmToken => "scm-token",
        OauthBearer => "oauth-bearer",
        McpAuth => "mcp-auth",
        WalletEntry => "wallet-entry",
        GenericSecret => "generic-secret",
    }
}

closed! {
    /// A tool permission.
    ToolKey {
        Read => "read",
        Write => "write",
        Exec => "exec",
        Web => "web",
        Mcp => "mcp",
        Delegate => "delegate",
    }
}

closed! {
    /// The content type of a working file.
    FileFormat {
        Markdown => "markdown",
        Html => "html",
        Json => "json",
        Yaml => "yaml",
        Text => "text",
    }
}

closed! {
    /// The direction of synchronization.
    SyncDirection {
        DownOnly => "down-only",
        UpOnly => "up-only",
        Bidirectional => "bidirectional",
    }
}

impl SyncDirection {
    /// Whether the agent's files leave the workspace.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::UpOnly | Self::Bidirectional)
    }
}

closed! {
    /// What is visible from outside.
    OutputKind {
        None => "none",
        Web => "web",
        Static => "static",
        App => "app",
        Tunnel => "tunnel",
    }
}
