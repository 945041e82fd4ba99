//! What a row of the table of routes says.

use std::pin::Pin;

use axum::response::Response;
use host::runs::{Refusal, Scope};

use super::exchange::Call;

/// What a handler comes to.
pub(super) type Answered = Result<Response, Refusal>;

/// What answers a request that has passed every check.
pub(super) type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Answered> + Send>>;

/// A method.
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

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Anybody.
    Public,
    /// Whoever holds the token that is part of the path.
    Token,
    /// Callers whose key has all of these scopes.
    Key(&'static [Scope]),
    /// Callers whose key has one of these scopes. The first is the one that an error names.
    Either(Scope, Scope),
    /// Who has a key for guided sessions, or for one of them. Each tool has its own rights.
    Guided,
    /// Who has a key that may read manifests; anybody without one, where the settings open the registry.
    Offered,
}

impl Access {
    /// What is asked of somebody for something that the registry offers.
    pub(super) fn settled(self, is_open: bool, has_key: bool) -> Self {
        match self {
            Self::Offered if is_open && !has_key => Self::Public,
            Self::Offered => Self::Key(&[Scope::ManifestRead]),
            other => other,
        }
    }
}

/// What a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing that is looked at.
    None,
    /// An object, or nothing.
    Optional,
    /// JSON.
    Required,
    /// JSON, read only if this host signed the token in the path.
    TokenAnswer,
    /// The document of a workflow, which may be larger.
    Workflow,
    /// A message of another protocol, which the handler reads.
    Message,
    /// The archive of a pack, as it came.
    Archive,
    /// The bytes of an object, received only at a signed address that is good for it.
    Object,
}

/// Something after the question mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) required: bool,
    pub(super) kind: &'static str,
    pub(super) about: &'static str,
}

/// A row of the table.
pub(super) struct Route {
    pub(super) method: Method,
    /// As the protocol spells it, with the names of what varies in braces.
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) body: Body,
    pub(super) query: &'static [Parameter],
    /// The name of the operation, in OpenAPI and in logs.
    pub(super) operation: &'static str,
    pub(super) summary: &'static str,
    /// The status of success, and the media type of the answer.
    pub(super) success: u16,
    pub(super) media: &'static str,
    pub(super) handler: Handler,
}
