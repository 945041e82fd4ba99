//! Accepts, limits and closes connections.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use runs::Refusal;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use super::connections::{Connections, Full, Report, Reserve};
use super::exchange::Peer;
use super::state::{HttpState, Settings};
use super::write_timeout::WriteTimeout;
use super::{entry, response};

/// The maximum number of headers of a request.
const MAX_HEADERS: usize = 100;
/// The maximum size of the head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long to wait when the process has no free file descriptor for a connection: others have to close first.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How long a connection over a limit has to send its request.
const RESERVED_HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// After how many seconds a refused client may retry.
const RETRY_AFTER: u64 = 1;

/// Serves connections until `shutdown` resolves. Then it accepts no more connections, waits for active requests for at most the
/// grace period of the settings, and returns.
///
/// # Errors
/// When the local address of the listener cannot be read.
pub async fn serve(
    listener: TcpListener,
    state: HttpState,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let HttpState(state) = state;
    // Streams and long polls end when they are notified; all other requests have the grace period.
    let stopping = || {
        state.stopping.send_replace(true);
    };
    let service = Arc::clone(&state);
    let answer = move |peer, request| entry::enter(Arc::clone(&service), Some(peer), request);
    let service = Arc::clone(&state);
    let reserved = move |peer, full, request: Request<Body>| {
        let service = Arc::clone(&service);
        async move {
            match request.uri().path() {
                "/healthz" | "/readyz" => entry::enter(service, Some(peer), request).await,
                _ => refused(full),
            }
        }
    };
    accept(listener, answer, reserved, &state.settings, shutdown, stopping).await
}

/// Serves another router on its own listener, with the same limits.
///
/// # Errors
/// When the local address of the listener cannot be read.
pub async fn serve_router(
    listener: TcpListener,
    router: Router,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let answer = move |_, request| {
        let answered = router.clone().oneshot(request);
        async { answered.await.unwrap_or_else(|never| match never {}) }
    };
    let reserved = |_, full, _| std::future::ready(refused(full));
    accept(listener, answer, reserved, &settings, shutdown, || {}).await
}

/// The reply to a request on a connection over a limit.
fn refused(full: Full) -> Response {
    let (message, limit) = match full {
        Full::Host { limit } => ("the host has too many connections; retry later", limit),
        Full::Address { limit } => {
            ("your address has too many connections; close some, or retry later", limit)
        }
    };
    let refusal = Refusal::unavailable(message, RETRY_AFTER).detail("maxConnections", limit);
    response::refusal(&refusal, "")
}

async fn accept<A, R>(
    listener: TcpListener,
    answer: impl Fn(Peer, Request<Body>) -> A + Clone + Send + 'static,
    reserved: impl Fn(Peer, Full, Request<Body>) -> R + Clone + Send + 'static,
    settings: &Settings,
    shutdown: impl Future<Output = ()> + Send,
    stopping: impl FnOnce() + Send,
) -> io::Result<()>
where
    A: Future<Output = Response> + Send + 'static,
    R: Future<Output = Response> + Send + 'static,
{
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening");
    let connections = Connections::new(settings);
    let (mut reserve, mut report) = (Reserve::new(settings.reserved_connections), Report::default());
    let graceful = GracefulShutdown::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let address: IpAddr = peer.ip();
        let peer = Peer(address);
        let slot = match connections.admit(address) {
            Ok(slot) => slot,
            Err(full) => {
                report.refused(address, full, Instant::now());
                reserve.make_room();
                let reserved = reserved.clone();
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let answered = reserved(peer, full, request.map(Body::new));
                    async { Ok::<_, Infallible>(answered.await) }
                });
                let mut http = http(settings);
                http.keep_alive(false).header_read_timeout(settings.head_timeout.min(RESERVED_HEAD_TIMEOUT));
                let connection = graceful.watch(http.serve_connection(io(stream, settings), service));
                reserve.keep(address, tokio::spawn(served(connection)).abort_handle());
                continue;
            }
        };
        let answer = answer.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let answered = answer(peer, request.map(Body::new));
            async { Ok::<_, Infallible>(answered.await) }
        });
        let connection = graceful.watch(http(settings).serve_connection(io(stream, settings), service));
        tokio::spawn(async move {
            served(connection).await;
            drop(slot);
        });
    }
    drop(listener);
    stopping();
    if tokio::time::timeout(settings.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish before the shutdown timeout and were aborted");
    }
    Ok(())
}

async fn served(connection: impl Future<Output = Result<(), hyper::Error>>) {
    if let Err(error) = connection.await {
        // Clients disconnect, and some do not speak HTTP. An operator cannot fix either.
        tracing::debug!(%error, "a connection failed");
    }
}

fn io(stream: TcpStream, settings: &Settings) -> TokioIo<WriteTimeout<TcpStream>> {
    // Events are sent immediately and not when a packet is full.
    let _ = stream.set_nodelay(true);
    TokioIo::new(WriteTimeout::new(stream, settings.write_timeout))
}

fn http(settings: &Settings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    builder
}
