//! Connections: accepted, bounded, ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::exchange::Peer;
use super::patience::Patient;
use super::state::{HttpState, Service};

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
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening");
    let router = super::router(state.clone());
    let HttpState(state) = state;
    let places = Arc::new(Semaphore::new(state.settings.max_connections));
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
        let peer = Peer(peer.ip());
        let router = router.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request)
        });
        let connection = graceful.watch(http(&state).serve_connection(io(stream, &state), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // Clients go away, and some send what is no HTTP: nothing that an operator could mend.
                tracing::debug!(%error, "a connection broke off");
            }
            drop(place);
        });
    }
    drop(listener);
    // Streams and long polls end by themselves now; everything else has the time that it was given.
    state.stopping.send_replace(true);
    if tokio::time::timeout(state.settings.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were given up");
    }
    Ok(())
}

fn io(stream: TcpStream, state: &Service) -> TokioIo<Patient<TcpStream>> {
    // An event should leave when it happens, not when a packet is full.
    let _ = stream.set_nodelay(true);
    TokioIo::new(Patient::new(stream, state.settings.write_timeout))
}

fn http(state: &Service) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(state.settings.head_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    builder
}
