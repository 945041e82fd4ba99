//! A body with a deadline.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// Limits the time in which the body of a request must arrive. A later read fails with [`io::ErrorKind::TimedOut`].
///
/// For bodies that are read outside of this module: the reader cannot forget the limit.
pub(super) fn timed(body: Body, time: Duration) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(Timed { body, deadline: Box::pin(sleep(time)) })
}

struct Timed {
    body: Body,
    deadline: Pin<Box<Sleep>>,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.deadline.as_mut().poll(context).map(|()| {
            let message = "the request body did not arrive in time";
            Some(Err(axum::Error::new(io::Error::new(io::ErrorKind::TimedOut, message))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
