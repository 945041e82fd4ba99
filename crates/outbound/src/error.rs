//! Why a call failed.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crate::{ConnectError, TargetError};

/// Why a call did not succeed.
///
/// The messages are for logs and dead letters and contain nothing of the reply. The chain of sources says what the
/// operating system, TLS or HTTP reported; it is for the log only.
///
/// After [`CallError::Connect`] and [`CallError::Unsent`] no byte of the request has left this machine: sending it again
/// cannot repeat an effect.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The text of the address may not be called.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A header of the request is not valid.
    #[error("the request has an invalid header")]
    Request(#[source] http::Error),
    /// There is no connection. Nothing was sent.
    #[error(transparent)]
    Connect(Arc<ConnectError>),
    /// The connection was closed before the request was sent.
    #[error("the connection was closed before the request was sent")]
    Unsent(#[source] Box<dyn Error + Send + Sync>),
    /// The request was sent, at least in part, and no valid reply came back.
    #[error("no valid HTTP reply was received")]
    Reply(#[source] Box<dyn Error + Send + Sync>),
    /// The head of the reply did not arrive in time.
    #[error("no reply within {0:?}")]
    HeadTimeout(Duration),
    /// The body of the reply did not end in time.
    #[error("the reply did not end within {0:?}")]
    BodyTimeout(Duration),
    /// The body of the reply is too large.
    #[error("the reply has more than {0} bytes")]
    TooLarge(usize),
    /// The reply is not a success. A redirect is not one either.
    #[error("the reply has the status {0}")]
    Status(u16),
}

impl From<hyper_util::client::legacy::Error> for CallError {
    fn from(error: hyper_util::client::legacy::Error) -> Self {
        if let Some(refused) = error.source().and_then(|source| source.downcast_ref::<Arc<ConnectError>>()) {
            return Self::Connect(Arc::clone(refused));
        }
        // Canceled: hyper gave the request back untouched. Closed: the connection ended before it took one.
        let cause = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
        if error.is_connect() || cause.is_some_and(|cause| cause.is_canceled() || cause.is_closed()) {
            Self::Unsent(Box::new(error))
        } else {
            Self::Reply(Box::new(error))
        }
    }
}
