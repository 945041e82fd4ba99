//! Which addresses may be called, and what errors report.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Method;
use outbound::{Call, CallError, Client, ConnectError, Lookup, Names, Reach};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::server::{OK, Server};
use crate::{LIMITS, chain, post};

/// A name server controlled by an attacker.
struct HostileNames(Vec<SocketAddr>);

impl Names for HostileNames {
    fn look_up<'a>(&'a self, _: &'a str, _: u16) -> Lookup<'a> {
        Box::pin(async move { Ok(self.0.clone()) })
    }
}

struct BrokenNames;

impl Names for BrokenNames {
    fn look_up<'a>(&'a self, _: &'a str, _: u16) -> Lookup<'a> {
        Box::pin(async { Err(io::Error::other("the name server is on fire")) })
    }
}

fn refusal(error: CallError) -> Arc<ConnectError> {
    match error {
        CallError::Connect(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_private_address_rejects_the_name() {
    let public: SocketAddr = "93.184.216.34:443".parse().unwrap();
    for inside in
        ["127.0.0.1:443", "10.1.2.3:443", "169.254.169.254:443", "[::1]:443", "[::ffff:10.0.0.1]:443"]
    {
        let inside: SocketAddr = inside.parse().unwrap();
        for found in [vec![inside], vec![public, inside], vec![inside, public]] {
            let client = Client::new(Reach::Public).resolving(Arc::new(HostileNames(found.clone())));
            let refused = refusal(post(&client, "https://example.com/").await.unwrap_err());
            assert!(matches!(*refused, ConnectError::Forbidden), "{found:?}: {refused:?}");
        }
    }
    // Another port is another service.
    let client = Client::new(Reach::Public)
        .resolving(Arc::new(HostileNames(vec!["93.184.216.34:22".parse().unwrap()])));
    let refused = refusal(post(&client, "https://example.com/").await.unwrap_err());
    assert!(matches!(*refused, ConnectError::Forbidden), "{refused:?}");
}

/// Names are judged by their addresses: private ones must be in the range, and only those are called without TLS.
#[tokio::test]
async fn a_private_range_allows_its_addresses_and_no_others() {
    let server = Server::answering(OK).await;
    let allowed = || Client::new(Reach::public_and(["127.0.0.1/32".parse().unwrap()]));
    assert_eq!(post(&allowed(), &server.url()).await.unwrap(), b"ok");
    let named = |found: &[&str]| {
        let found = found.iter().map(|address| format!("{address}:{}", server.port).parse().unwrap());
        allowed().resolving(Arc::new(HostileNames(found.collect())))
    };
    let url = format!("http://receiver.internal:{}/", server.port);
    assert_eq!(post(&named(&["127.0.0.1"]), &url).await.unwrap(), b"ok");
    for found in [
        &["127.0.0.2"][..],
        &["10.0.0.1"],
        &["93.184.216.34"],
        &["127.0.0.1", "93.184.216.34"],
        &["127.0.0.1", "10.0.0.1"],
    ] {
        let refused = refusal(post(&named(found), &url).await.unwrap_err());
        assert!(matches!(*refused, ConnectError::Forbidden), "{found:?}: {refused:?}");
    }
    let refused = post(&Client::new(Reach::Public), &server.url()).await.unwrap_err();
    assert!(matches!(refused, CallError::Target(_)), "off by default: {refused:?}");
    assert_eq!(server.accepted(), 2);
}

/// A target carries no permission: the client that connects checks again.
#[tokio::test]
async fn targets_do_not_widen_the_reach() {
    let server = Server::answering(OK).await;
    let target = Client::new(Reach::Anywhere).check(&server.url()).unwrap();
    let call = Call { method: Method::POST, target: &target, headers: &[], body: "".into(), limits: LIMITS };
    Client::new(Reach::Anywhere).send(call.clone()).await.unwrap();
    let refused = refusal(Client::new(Reach::Public).send(call).await.unwrap_err());
    assert!(matches!(*refused, ConnectError::Target(_)), "{refused:?}");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn unresponsive_addresses_leave_time_for_others() {
    let server = Server::answering(OK).await;
    let gone = closed_port().await;
    let found = vec![gone, SocketAddr::from(([127, 0, 0, 1], gone.port()))];
    let client = Client::new(Reach::Loopback).resolving(Arc::new(HostileNames(found)));
    refusal(post(&client, &format!("http://localhost:{}/", gone.port())).await.unwrap_err());
    let found = vec![
        SocketAddr::from(([127, 0, 0, 2], server.port)),
        SocketAddr::from(([127, 0, 0, 1], server.port)),
    ];
    let client = Client::new(Reach::Loopback).resolving(Arc::new(HostileNames(found)));
    let reply = post(&client, &format!("http://localhost:{}/", server.port)).await;
    assert_eq!(reply.unwrap(), b"ok", "nothing listens on the first address");
}

async fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn errors_keep_their_sources() {
    let garbage = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let garbage_at = garbage.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = garbage.accept().await.unwrap();
            let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        }
    });
    let malformed = Server::answering("HTTP/1.1 what\r\n\r\n").await;
    let silent = Server::start(|mut peer| async move {
        peer.request().await;
    })
    .await;
    let local = Client::new(Reach::Loopback);
    let cases = [
        (local.clone(), format!("http://{}/", closed_port().await), "cannot connect", "refused"),
        (
            local.clone(),
            format!("https://{garbage_at}/"),
            "the server's certificate is not trusted",
            "corrupt message",
        ),
        (local.clone(), malformed.url(), "no valid HTTP reply", "invalid HTTP status-code parsed"),
        (local.clone(), silent.url(), "no valid HTTP reply", "connection closed before message completed"),
        (
            Client::new(Reach::Public).resolving(Arc::new(BrokenNames)),
            "https://example.com/".to_owned(),
            "cannot resolve",
            "the name server is on fire",
        ),
        (
            Client::new(Reach::Public).resolving(Arc::new(HostileNames(Vec::new()))),
            "https://example.com/".to_owned(),
            "cannot resolve",
            "the name has no address",
        ),
    ];
    for (client, url, said, cause) in cases {
        let chain = chain(&post(&client, &url).await.unwrap_err());
        assert!(chain[0].contains(said), "{url}: {chain:?}");
        assert!(!chain[0].contains(cause), "the message itself is for people: {chain:?}");
        assert!(chain.iter().any(|line| line.contains(cause)), "{url}: {chain:?}");
    }
}

#[tokio::test]
async fn invalid_headers_are_rejected() {
    let server = Server::answering(OK).await;
    let client = Client::new(Reach::Loopback);
    let target = client.check(&server.url()).unwrap();
    for headers in [("x-a", "b\r\nx-c: d"), ("x a", "b"), ("", "b"), ("x-a", "\u{0}")] {
        let headers = &[headers];
        let call = Call { method: Method::POST, target: &target, headers, body: "".into(), limits: LIMITS };
        let refused = client.send(call).await.unwrap_err();
        assert!(matches!(refused, CallError::Request(_)), "{headers:?}: {refused:?}");
    }
    assert_eq!(server.accepted(), 0);
}
