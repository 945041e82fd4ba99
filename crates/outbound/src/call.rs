//! One request and its limits.

use std::time::Duration;

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use hyper::body::Bytes;

use crate::Target;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("interlock/", env!("CARGO_PKG_VERSION")));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the call to the head of the reply.
    pub head: Duration,
    /// From the start of the call to the last byte of the reply. Without it, the caller limits the read time.
    pub whole: Option<Duration>,
    /// The maximum size of a reply body, in bytes.
    pub body: usize,
}

#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub method: Method,
    pub target: &'a Target,
    /// Headers besides `Host`. A default `User-Agent` is added.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: Bytes,
    pub limits: Limits,
}

impl Call<'_> {
    pub(crate) fn request(&self) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 2);
        headers.insert(HOST, self.target.authority().clone());
        headers.insert(USER_AGENT, AGENT);
        for (name, value) in self.headers {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            let mut value = HeaderValue::from_str(value)?;
            // Any header may be a credential, so `Debug` must not print it.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.uri().clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}
