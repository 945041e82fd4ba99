//! One row of the route table.

use std::pin::Pin;

use axum::response::Response;
use openwop::Major;
use runs::{Refusal, Scope};

use super::exchange::CheckedRequest;

/// The result of a handler.
pub(super) type HandlerResult = Result<Response, Refusal>;

/// Answers a request that has passed all checks.
pub(super) type Handler = fn(CheckedRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Any caller.
    Public,
    /// The holder of the token in the path.
    Token,
    /// Callers whose key has all of these scopes.
    Key(&'static [Scope]),
    /// Callers whose key has one of these scopes. The first is the one that an error names.
    Either(Scope, Scope),
    /// Callers with a key for guided sessions, or for one of them. Each tool requires its own scopes.
    Guided,
    /// Callers whose key can read manifests; any caller if the settings make the registry public.
    Offered,
}

impl Access {
    /// The access of a registry route, given whether the registry is public and the request has a key.
    pub(super) fn settled(self, is_open: bool, has_key: bool) -> Self {
        match self {
            Self::Offered if is_open && !has_key => Self::Public,
            Self::Offered => Self::Key(&[Scope::ManifestRead]),
            other => other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Ignored.
    None,
    /// An object, or empty.
    Optional,
    /// JSON.
    Required,
    /// JSON, read only if this host signed the token in the path.
    TokenAnswer,
    /// The document of a workflow, which may be larger.
    Workflow,
    /// A message of another protocol, which the handler reads.
    Message,
    /// The archive of a pack.
    Archive,
    /// The bytes of an object, received only at a valid signed URL.
    Object,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) required: bool,
    pub(super) kind: &'static str,
    pub(super) about: &'static str,
}

pub(super) struct Route {
    /// The version of the protocol that the route belongs to.
    pub(super) major: Major,
    pub(super) method: Method,
    /// The path template, with parameters in braces.
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) body: Body,
    pub(super) query: &'static [Parameter],
    /// The name of the operation, in OpenAPI and in logs.
    pub(super) operation: &'static str,
    pub(super) summary: &'static str,
    /// The status and the media type of a successful reply.
    pub(super) success: u16,
    pub(super) media: &'static str,
    pub(super) handler: Handler,
}
