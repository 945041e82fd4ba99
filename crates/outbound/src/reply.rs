//! A reply whose body is still arriving.

use std::time::Duration;

use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{CallError, Limits};

/// How much of an unneeded body is read to keep its connection, and for how long. More would cost more than a new
/// connection.
const MAX_DISCARDED_BYTES: usize = 16 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// A reply whose head has arrived.
///
/// A reply that is read to the end, or [discarded](Self::discard), returns its connection to the pool. Dropping it
/// earlier closes the connection.
#[derive(Debug)]
pub struct Reply {
    /// The status. Redirects are not followed.
    pub status: u16,
    pub headers: HeaderMap,
    body: Incoming,
    deadline: Option<(Instant, Duration)>,
    limit: usize,
    received: usize,
}

impl Reply {
    pub(crate) fn new(response: Response<Incoming>, begun: Instant, limits: Limits) -> Self {
        let (head, body) = response.into_parts();
        // A limit beyond the range of the clock has no effect.
        let deadline = limits.whole.and_then(|whole| Some((begun.checked_add(whole)?, whole)));
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            deadline,
            limit: limits.body,
            received: 0,
        }
    }

    /// The reply, if its status is a success.
    ///
    /// # Errors
    /// It has another status.
    pub fn success(self) -> Result<Self, CallError> {
        if (200..300).contains(&self.status) { Ok(self) } else { Err(CallError::Status(self.status)) }
    }

    /// Ends a reply whose body is not needed. The rest of a short body is read in the background so that the connection
    /// can be reused.
    pub fn discard(mut self) {
        self.limit = self.received.saturating_add(MAX_DISCARDED_BYTES);
        tokio::spawn(timeout(DISCARD_TIMEOUT, async move { while let Ok(Some(_)) = self.next().await {} }));
    }

    /// Replaces the body limit after the head is known.
    pub const fn limit_body(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// The next bytes of the body; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The connection broke, the reply takes too long, or it exceeds the body limit.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let frame = match self.deadline {
                None => self.body.frame().await,
                Some((until, whole)) => {
                    let frame = timeout_at(until, self.body.frame()).await;
                    frame.map_err(|_| CallError::BodyTimeout(whole))?
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| CallError::Reply(Box::new(error)))?;
            // Trailers are ignored.
            let Ok(data) = frame.into_data() else { continue };
            self.received = self.received.saturating_add(data.len());
            if self.received > self.limit {
                return Err(CallError::TooLarge(self.limit));
            }
            return Ok(Some(data));
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`Reply::next`].
    pub async fn bytes(&mut self) -> Result<Vec<u8>, CallError> {
        let mut bytes = Vec::new();
        while let Some(part) = self.next().await? {
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }
}
