//! The inputs that each node type declares.
//!
//! A surface refuses a call with an unknown argument. Its node types therefore declare their inputs. A value that an edge passes to an
//! undeclared `input` is dropped, and a port with an undeclared name is refused when the workflow is registered.

use super::CalledType;

/// The inputs of a node type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Any name: the node ignores or forwards inputs that it does not use.
    Any,
    /// These names, and the names of its configuration members.
    These(&'static [&'static str]),
}

impl CalledType {
    /// The inputs that nodes of this type declare.
    pub const fn inputs(self) -> Inputs {
        Inputs::These(match self {
            Self::KvGet
            | Self::KvDelete
            | Self::KvIncrement
            | Self::CacheGet
            | Self::CacheEvict
            | Self::BlobGet => &["key"],
            Self::KvSet | Self::CachePut => &["key", "value"],
            Self::KvList => &["cursor"],
            Self::KvCas => &["key", "expect", "expected", "set", "value", "ttlSeconds"],
            Self::TableInsert | Self::TableUpsert => &["row"],
            Self::TableUpdate => &["id", "update", "patch"],
            Self::TableDelete => &["id"],
            Self::TableQuery => &["filter", "cursor"],
            Self::TableCount => &["filter"],
            Self::BlobPut => &["key", "contentBase64"],
            Self::BlobPresign => &["key", "expiresInSeconds", "method"],
            Self::QueueEnqueue => &["payload", "message"],
            Self::MessagePublish => &["payload", "message", "delaySeconds"],
            Self::QueueDequeue => &["leaseSeconds", "consumer"],
            Self::MessageConsume => &["leaseSeconds", "durationMs", "consumer"],
            Self::MessageAck | Self::MessageNack => &["messageId", "deliveryToken"],
            Self::MessageDeadLetter => &["messageId", "deliveryToken", "reason"],
            Self::StreamPublish => &["record"],
            Self::StreamSubscribe => &["cursor", "limit"],
            Self::SqlQuery | Self::SqlExecute => &["sql", "params", "datasourceId"],
            Self::SqlTransaction => &["statements", "operations", "datasourceId"],
            Self::SearchIndex => &["id", "document"],
            Self::SearchQuery => &["query", "q", "k", "filter"],
            Self::VectorUpsert => &["records", "items", "vectors"],
            Self::VectorQuery => &["vector", "embedding", "k", "filter"],
            Self::VectorDelete => &["ids"],
            Self::FilesRead | Self::FilesDelete | Self::FilesStat => &["path"],
            Self::FilesWrite => &["path", "content", "createOnly"],
            Self::FilesList => &["path", "cursor"],
            Self::CallPrompt
            | Self::StructuredOutput
            | Self::MockAi
            | Self::AgentsRun
            | Self::IdempotencyKey
            | Self::HttpRequest
            | Self::McpListTools
            | Self::McpInvokeTool
            | Self::McpListResources
            | Self::McpReadResource
            | Self::McpListPrompts
            | Self::McpGetPrompt
            | Self::McpPing => return Inputs::Any,
        })
    }

    /// The valid input names of this type; `None` if any name is valid.
    pub fn input_names(self) -> Option<Vec<&'static str>> {
        match self.inputs() {
            Inputs::Any => None,
            Inputs::These(names) => {
                Some(names.iter().copied().chain(self.members().iter().map(|member| member.0)).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Family;

    #[test]
    fn only_nodes_of_surfaces_declare_their_inputs() {
        for called in CalledType::ALL {
            let is_surface = matches!(called.family(), Family::Surface { .. });
            assert_eq!(called.inputs() != Inputs::Any, is_surface, "{called}");
            let mut names = called.input_names().unwrap_or_default();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{called} names an input twice");
        }
    }
}
