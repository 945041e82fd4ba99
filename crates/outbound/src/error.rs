//! Why a call failed.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crate::{ConnectError, TargetError};

/// Why a call failed.
///
/// The messages are for logs and dead letters and contain no part of the reply. The source chain has the errors of the
/// operating system, TLS or HTTP; it is only for logs.
///
/// After [`CallError::Connect`] and [`CallError::Unsent`] no byte of the request was sent: a retry cannot repeat an
/// effect.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The URL must not be called.
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("the request has an invalid header")]
    Request(#[source] http::Error),
    /// Nothing was sent.
    #[error(transparent)]
    Connect(Arc<ConnectError>),
    #[error("the connection was closed before the request was sent")]
    Unsent(#[source] Box<dyn Error + Send + Sync>),
    /// The request was sent at least in part, and no valid reply was received.
    #[error("no valid HTTP reply was received")]
    Reply(#[source] Box<dyn Error + Send + Sync>),
    #[error("no reply within {0:?}")]
    HeadTimeout(Duration),
    #[error("the reply was not complete within {0:?}")]
    BodyTimeout(Duration),
    #[error("the reply is larger than {0} bytes")]
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
        // Canceled: hyper returned the request unsent. Closed: the connection ended before it took one.
        let cause = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
        if error.is_connect() || cause.is_some_and(|cause| cause.is_canceled() || cause.is_closed()) {
            Self::Unsent(Box::new(error))
        } else {
            Self::Reply(Box::new(error))
        }
    }
}
