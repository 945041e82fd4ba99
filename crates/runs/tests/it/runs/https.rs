//! Webhook receivers behind TLS: they prove their identity, and receive everything, with retries if necessary.

use std::net::SocketAddr;
use std::sync::Arc;

use canon::time::Timestamp;
use outbound::{CallError, Client, Lookup, Names, Reach};
use ports::runs::prelude::*;
use runs::Direct;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use system::{Clock as _, ManualClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;

use super::webhooks::{Received, parse, post, signature};
use super::{Host, Setup, begin, caller, events, status};
use crate::runs::requests::{WireBody as _, new_webhook};

/// The only name in the certificate of the tests.
const NAME: &str = "hooks.example.com";

fn authority() -> Vec<CertificateDer<'static>> {
    vec![include_bytes!("../../tls/authority.der").as_slice().into()]
}

/// A server that proves to be [`NAME`] and replies with these statuses in turn, the last one permanently.
async fn server(statuses: &'static [u16]) -> (SocketAddr, UnboundedReceiver<Received>) {
    let certificate = include_bytes!("../../tls/server.der").as_slice().into();
    let key = PrivatePkcs8KeyDer::from(include_bytes!("../../tls/server.key.der").as_slice());
    let settings = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from(key))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = unbounded_channel();
    tokio::spawn(async move {
        let mut answered = 0;
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate disconnects here.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut bytes = Vec::new();
            let request = loop {
                if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    break None;
                }
                if let Some(request) = parse(&bytes) {
                    break Some(request);
                }
            };
            let Some(request) = request else { continue };
            let status = statuses[answered.min(statuses.len() - 1)];
            answered += 1;
            let answer = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (address, received)
}

/// Resolves every name to one address.
struct Leading(SocketAddr);

impl Names for Leading {
    fn look_up<'a>(&'a self, _: &'a str, _: u16) -> Lookup<'a> {
        Box::pin(async move { Ok(vec![self.0]) })
    }
}

async fn subscribe(host: &Host, port: u16) -> Value {
    let request = json!({"url": format!("https://{NAME}:{port}/hook"), "events": ["run.completed"]});
    host.runs.webhooks().register(&caller("acme"), new_webhook(&request), Direct).await.unwrap().reported()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_delivered_signed_and_retried_after_increasing_delays() {
    let (address, mut received) = server(&[500, 503, 429, 200]).await;
    let clock = Arc::new(ManualClock::at(1_700_000_000_000));
    let outbound = Client::new(Reach::Loopback).resolving(Arc::new(Leading(address))).trusting(authority());
    let host = Host::with(Setup { clock: Arc::clone(&clock) as _, outbound, ..Setup::default() }).await;
    let subscription = subscribe(&host, address.port()).await;
    let secret = subscription["secret"].as_str().unwrap();
    let run_id = begin(&host.runs, "chain").await;
    assert_eq!(status(&host.runs, &run_id), "completed", "no run waits for a subscriber");
    let log = events(&host.runs, "acme", &run_id);
    let reported = json!({"runId": run_id, "workspaceId": "acme", "event": log.last()});
    let mut deliveries = Vec::new();
    for pause in [Some(1000), Some(5000), Some(30_000), None] {
        let deliverer = host.runs.clone();
        let deliverer = tokio::spawn(async move { deliverer.webhooks().keep_delivering().await });
        let got = received.recv().await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&got.body).unwrap(), reported);
        assert_eq!(got.headers["host"], format!("{NAME}:{}", address.port()));
        assert_eq!(got.headers["x-openwop-timestamp"], (clock.now_ms() / 1000).to_string(), "signed anew");
        assert_eq!(got.headers["x-openwop-signature"], signature(secret, &got));
        deliveries.push(got.headers["x-openwop-delivery-id"].clone());
        let due = pause.map(|pause| Timestamp(clock.now_ms() + pause));
        // The reply is on its way; its result is recorded.
        while host.store.next_delivery().await.unwrap() != due {
            tokio::task::yield_now().await;
        }
        // Ended before the clock moves, because two deliverers would deliver twice.
        deliverer.abort();
        let _ = deliverer.await;
        clock.advance(pause.unwrap_or_default());
    }
    deliveries.dedup();
    assert_eq!(deliveries.len(), 1, "one delivery, whatever it took");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_prove_its_identity_receives_nothing() {
    let (address, mut received) = server(&[200]).await;
    let inside = |reach| Client::new(reach).resolving(Arc::new(Leading(address)));
    let cases = [
        ("an untrusted authority", inside(Reach::Loopback), NAME, "Tls"),
        (
            "the certificate of another name",
            inside(Reach::Loopback).trusting(authority()),
            "other.example.com",
            "Tls",
        ),
        ("no authority is trusted", inside(Reach::Loopback).trusting(Vec::new()), NAME, "Tls"),
        // The certificate is valid and the name is right, but the address is not allowed.
        ("an address inside", inside(Reach::Public).trusting(authority()), NAME, "Forbidden"),
    ];
    for (name, outbound, host, expected) in cases {
        let target = outbound.check(&format!("https://{host}:{}/", address.port()));
        let refused = match target {
            Ok(target) => post(&outbound, &target, &[], b"{}").await.unwrap_err(),
            Err(error) => CallError::Target(error),
        };
        let CallError::Connect(refused) = refused else { panic!("{name}: {refused}") };
        let shown = format!("{refused:?}");
        assert_eq!(shown.split('(').next(), Some(expected), "{name}: {shown}");
    }
    assert!(received.try_recv().is_err(), "nothing was delivered");
    let good = inside(Reach::Loopback).trusting(authority());
    let target = good.check(&format!("https://{NAME}:{}/", address.port())).unwrap();
    post(&good, &target, &[], b"{}").await.unwrap();
    assert!(received.recv().await.is_some());
}
