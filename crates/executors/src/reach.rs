//! What effects reach outside of their run. The host lists the attempts of effects that reach something.

use flow::definition::CalledType;
use flow::engine::NodeCall;
use flow::id::EffectId;

use super::{http_request, models};

/// What an effect, or a part of one, reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// Nothing that it could change: it reads or computes, or only its parts reach something.
    Nothing,
    /// Something outside of the run that it may change.
    Outside {
        /// The idempotency key that the other side gets with every attempt, if it takes one.
        provider_key: Option<&'a str>,
    },
}

impl<'a> Reach<'a> {
    /// What the execution of a node reaches, apart from its parts.
    pub fn of_node(call: &NodeCall, id: &'a EffectId) -> Self {
        let Some(called) = CalledType::parse(&call.type_id) else {
            // Modules of packs reach nothing, and a model that a client provides is asked through the run.
            return Self::Nothing;
        };
        if called == CalledType::HttpRequest {
            return http_request::reach(call, id.as_str());
        }
        match models::tool_of(call) {
            Some(_) => Self::Outside { provider_key: None },
            None => Self::of_type(called, id.as_str()),
        }
    }

    /// What a call of this type reaches, apart from its parts.
    pub(crate) fn of_type(called: CalledType, id: &'a str) -> Self {
        match called {
            CalledType::KvSet
            | CalledType::KvDelete
            | CalledType::KvIncrement
            | CalledType::KvCas
            | CalledType::TableInsert
            | CalledType::TableUpdate
            | CalledType::TableUpsert
            | CalledType::TableDelete
            | CalledType::CachePut
            | CalledType::CacheEvict
            | CalledType::BlobPut
            | CalledType::QueueEnqueue
            | CalledType::QueueDequeue
            | CalledType::SqlExecute
            | CalledType::SqlTransaction
            | CalledType::SearchIndex
            | CalledType::VectorUpsert
            | CalledType::VectorDelete
            | CalledType::FilesWrite
            | CalledType::FilesDelete
            | CalledType::MessagePublish
            | CalledType::MessageConsume
            | CalledType::MessageAck
            | CalledType::MessageNack
            | CalledType::MessageDeadLetter
            | CalledType::StreamPublish
            | CalledType::StreamSubscribe
            | CalledType::HttpRequest => Self::Outside { provider_key: Some(id) },
            CalledType::McpInvokeTool => Self::Outside { provider_key: None },
            // Every request to a model, and every tool of an agent, is a part of its own.
            CalledType::CallPrompt
            | CalledType::StructuredOutput
            | CalledType::MockAi
            | CalledType::AgentsRun
            | CalledType::IdempotencyKey
            | CalledType::KvGet
            | CalledType::KvList
            | CalledType::TableQuery
            | CalledType::TableCount
            | CalledType::CacheGet
            | CalledType::BlobGet
            | CalledType::BlobPresign
            | CalledType::SqlQuery
            | CalledType::SearchQuery
            | CalledType::VectorQuery
            | CalledType::FilesRead
            | CalledType::FilesStat
            | CalledType::FilesList
            | CalledType::McpListTools
            | CalledType::McpListResources
            | CalledType::McpReadResource
            | CalledType::McpListPrompts
            | CalledType::McpGetPrompt
            | CalledType::McpPing => Self::Nothing,
        }
    }
}
