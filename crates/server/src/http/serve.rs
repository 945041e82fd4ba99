//! Connections: accepted, bounded, ended.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::door;
use super::exchange::Peer;
use super::patience::Patient;
use super::state::{HttpState, Settings};

/// The most headers of a request.
const MAX_HEADERS: usize = 100;
/// The longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long to wait when the system has no file to give for a connection: others have to end first.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Serves connections until `shutdown` comes to its end; then takes no more, lets the requests under way be answered for as long
/// as the settings allow, and returns.
///
/// # Errors
/// When the listener cannot say where it listens.
pub async fn serve(
    listener: TcpListener,
    state: HttpState,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let HttpState(state) = state;
    // Streams and long polls end by themselves once they are told; everything else has the time that it was given.
    let stopping = || {
        state.stopping.send_replace(true);
    };
    let service = Arc::clone(&state);
    let answer = move |peer, request| door::enter(Arc::clone(&service), Some(peer), request);
    accept(listener, answer, &state.settings, shutdown, stopping).await
}

/// Serves something else on a listener of its own, within the same bounds.
///
/// # Errors
/// When the listener cannot say where it listens.
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
    accept(listener, answer, &settings, shutdown, || {}).await
}

async fn accept<A>(
    listener: TcpListener,
    answer: impl Fn(Peer, Request<Body>) -> A + Clone + Send + 'static,
    settings: &Settings,
    shutdown: impl Future<Output = ()> + Send,
    stopping: impl FnOnce() + Send,
) -> io::Result<()>
where
    A: Future<Output = Response> + Send + 'static,
{
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening");
    let places = Arc::new(Semaphore::new(settings.max_connections));
    let graceful = GracefulShutdown::new();
    tokio::pin!(shutdown);
    loop {
        // A place first: while there is none, clients wait in the system's own queue.
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
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
        let (peer, answer) = (Peer(peer.ip()), answer.clone());
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let answered = answer(peer, request.map(Body::new));
            async { Ok::<_, Infallible>(answered.await) }
        });
        let connection = graceful.watch(http(settings).serve_connection(io(stream, settings), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // Clients go away, and some send what is no HTTP: nothing that an operator could mend.
                tracing::debug!(%error, "a connection broke off");
            }
            drop(place);
        });
    }
    drop(listener);
    stopping();
    if tokio::time::timeout(settings.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were given up");
    }
    Ok(())
}

fn io(stream: TcpStream, settings: &Settings) -> TokioIo<Patient<TcpStream>> {
    // An event should leave when it happens, not when a packet is full.
    let _ = stream.set_nodelay(true);
    TokioIo::new(Patient::new(stream, settings.write_timeout))
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
