//! The closed sets of a manifest, with their spelling.

/// An enum whose members have one spelling each, on the wire and in files.
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

            /// The spelling.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The member of that spelling.
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

/// What the reader needs to know of a closed set.
pub(crate) trait Closed: Copy + Sized + 'static {
    /// Every member.
    fn all() -> &'static [Self];
    /// The spelling of one.
    fn spelling(self) -> &'static str;
}

closed! {
    /// Where an agent works: in a run of a workflow, or in a session with a person.
    Surface {
        Workflow => "workflow",
        AgentSession => "agent-session",
    }
}

closed! {
    /// What an agent is there for.
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
    /// What an input may be.
    InputType {
        String => "string",
        Number => "number",
        Boolean => "boolean",
        Array => "array",
        /// A list of nothing but texts.
        Strings => "string[]",
        Object => "object",
    }
}

closed! {
    /// Who provides a tool.
    ProviderKind {
        McpServer => "mcp_server",
        Catalog => "catalog",
        BiomeWorkflowTools => "biome_workflow_tools",
        BiomeCodeTools => "biome_code_tools",
    }
}

closed! {
    /// Whether everything of a provider is selected, or one tool.
    SelectionKind {
        Provider => "provider",
        Tool => "tool",
    }
}

closed! {
    /// What a credential opens, which is also who is asked for it.
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
    /// What an agent may be permitted to do.
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
    /// What a working file holds.
    FileFormat {
        Markdown => "markdown",
        Html => "html",
        Json => "json",
        Yaml => "yaml",
        Text => "text",
    }
}

closed! {
    /// Which side of a working file follows the other.
    SyncDirection {
        DownOnly => "down-only",
        UpOnly => "up-only",
        Bidirectional => "bidirectional",
    }
}

impl SyncDirection {
    /// Whether what the agent writes leaves the workspace.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::UpOnly | Self::Bidirectional)
    }
}

closed! {
    /// What of the workspace can be looked at from outside.
    OutputKind {
        None => "none",
        Web => "web",
        Static => "static",
        App => "app",
        Tunnel => "tunnel",
    }
}
