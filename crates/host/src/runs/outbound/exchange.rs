//! One exchange whose answer is read: to addresses that the operator wrote down.

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use super::{CallError, Outbound, Target};

const AGENT: &str = concat!("interlock/", env!("CARGO_PKG_VERSION"));

/// An answer whose body is still coming. The connection ends with it.
#[derive(Debug)]
pub struct Answer {
    /// The status. A redirect is one like others, and is not followed.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    connection: JoinHandle<()>,
}

impl Answer {
    /// The next bytes of the body; nothing at its end.
    ///
    /// # Errors
    /// When the connection breaks off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(_)) => return Err(CallError::Answer),
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Outbound {
    /// Sends a request, and gives the answer as soon as its head is there. How long that takes is the caller's to bound.
    ///
    /// # Errors
    /// When nobody answers there.
    pub async fn exchange(
        &self,
        method: Method,
        target: &Target,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, CallError> {
        let mut request = Request::builder()
            .method(method)
            .uri(&target.path)
            .header(HOST, &target.authority)
            .header(USER_AGENT, AGENT)
            .header(CONNECTION, "close");
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| CallError::Answer)?;
            let mut value = HeaderValue::from_str(value).map_err(|_| CallError::Answer)?;
            value.set_sensitive(name == hyper::header::AUTHORIZATION);
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|_| CallError::Answer)?;
        let stream = self.connect(target).await?;
        if target.tls {
            ask(TokioIo::new(self.encrypted(target, stream).await?), request).await
        } else {
            ask(TokioIo::new(stream), request).await
        }
    }
}

async fn ask<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, CallError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(stream).await.map_err(|_| CallError::Answer)?;
    let connection = tokio::spawn(async move {
        // However it ends, the reader of the body is told.
        let _ = connection.await;
    });
    let asked = sender.send_request(request).await;
    match asked {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body, connection })
        }
        Err(_) => {
            connection.abort();
            Err(CallError::Answer)
        }
    }
}
