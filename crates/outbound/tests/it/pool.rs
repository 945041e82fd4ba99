//! Connections are reused, and no request is sent twice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use outbound::{CallError, Client, ConnectError, Lookup, Names, Reach};
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use crate::server::{OK, Server};
use crate::{LIMITS, post, send};

#[tokio::test]
async fn a_connection_is_used_again() {
    let replies = [
        OK,
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        // Errors and redirects are normal replies.
        "HTTP/1.1 302 Lookup\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\nok",
    ];
    for reply in replies {
        let server = Server::answering(reply).await;
        let client = Client::new(Reach::Loopback);
        for _ in 0..3 {
            assert_eq!(post(&client, &server.url()).await.unwrap(), b"ok", "{reply}");
        }
        assert_eq!(server.accepted(), 1, "{reply}");
        // Clones share the pool; another client has its own.
        post(&client.clone(), &server.url()).await.unwrap();
        assert_eq!(server.accepted(), 1, "{reply}");
        post(&Client::new(Reach::Loopback), &server.url()).await.unwrap();
        assert_eq!(server.accepted(), 2, "{reply}");
    }
}

#[tokio::test]
async fn busy_connections_are_not_shared() {
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await;
    let client = Client::new(Reach::Loopback);
    let first = send(&client, Method::GET, &server.url(), LIMITS).await.unwrap();
    let second = send(&client, Method::GET, &server.url(), LIMITS).await.unwrap();
    assert_eq!((first.status, second.status, server.accepted()), (200, 200, 2));
}

#[tokio::test]
async fn unread_replies_close_their_connection() {
    let (closed, mut on_close) = unbounded_channel();
    let server = Server::start(move |mut peer| {
        let closed = closed.clone();
        async move {
            peer.request().await.unwrap();
            peer.reply("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nbegun").await;
            assert_eq!(peer.request().await, None, "nothing more is sent on this connection");
            closed.send(()).unwrap();
        }
    })
    .await;
    let client = Client::new(Reach::Loopback);
    for accepted in 1..=2 {
        drop(send(&client, Method::POST, &server.url(), LIMITS).await.unwrap());
        on_close.recv().await.unwrap();
        assert_eq!(server.accepted(), accepted);
    }
}

#[tokio::test]
async fn discarded_replies_return_their_connection() {
    let (begun, mut on_begun) = unbounded_channel();
    let (outcome, mut on_outcome) = unbounded_channel();
    let finish = Arc::new(Notify::new());
    let finished = Arc::clone(&finish);
    let server = Server::start(move |mut peer| {
        let (begun, outcome, finished) = (begun.clone(), outcome.clone(), Arc::clone(&finished));
        async move {
            peer.request().await.unwrap();
            peer.reply("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await;
            begun.send(()).unwrap();
            finished.notified().await;
            peer.reply("ok").await;
            outcome.send(peer.request().await.is_some()).unwrap();
        }
    })
    .await;
    let client = Client::new(Reach::Loopback);
    // The rest of a body is read in the background, so the next call may not find the connection idle yet.
    let mut calls = Vec::new();
    let reused = loop {
        let url = server.url();
        let call = send(&client, Method::POST, &url, LIMITS);
        tokio::select! {
            biased;
            reused = on_outcome.recv() => break reused,
            reply = call => reply.unwrap().discard(),
        }
        calls.push(on_begun.recv().await);
        finish.notify_one();
        assert!(calls.len() < 100, "no connection was ever reused");
    };
    assert_eq!(reused, Some(true), "the connection was closed");
}

#[tokio::test]
async fn a_closed_idle_connection_is_replaced() {
    for announced in [true, false] {
        let (closed, mut on_close) = unbounded_channel();
        let server = Server::start(move |mut peer| {
            let closed = closed.clone();
            async move {
                peer.request().await.unwrap();
                let header = if announced { "connection: close\r\n" } else { "" };
                peer.reply(&format!("HTTP/1.1 200 OK\r\n{header}content-length: 2\r\n\r\nok")).await;
                peer.close().await;
                closed.send(()).unwrap();
            }
        })
        .await;
        let client = Client::new(Reach::Loopback);
        for accepted in 1..=3 {
            assert_eq!(post(&client, &server.url()).await.unwrap(), b"ok");
            on_close.recv().await.unwrap();
            assert_eq!(server.accepted(), accepted, "announced: {announced}");
        }
    }
}

/// A request that may have been read is never sent again, whatever its method: only the caller knows whether that is
/// safe.
#[tokio::test]
async fn sent_requests_are_not_repeated() {
    for method in [Method::POST, Method::GET] {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let server = Server::start(move |mut peer| {
            let counted = Arc::clone(&counted);
            async move {
                for reply in [Some(OK), None] {
                    peer.request().await.unwrap();
                    counted.fetch_add(1, Ordering::SeqCst);
                    match reply {
                        Some(reply) => peer.reply(reply).await,
                        None => return,
                    }
                }
            }
        })
        .await;
        let client = Client::new(Reach::Loopback);
        let call = async || send(&client, method.clone(), &server.url(), LIMITS).await?.bytes().await;
        assert_eq!(call().await.unwrap(), b"ok");
        let error = call().await.unwrap_err();
        assert!(matches!(error, CallError::Reply(_)), "{error:?}");
        assert_eq!((requests.load(Ordering::SeqCst), server.accepted()), (2, 1), "{method}");
        // The pool still works.
        assert_eq!(call().await.unwrap(), b"ok");
    }
}

/// A name that resolves to a private address after the first lookup.
#[derive(Default)]
struct Moving(AtomicBool);

impl Names for Moving {
    fn look_up<'a>(&'a self, _: &'a str, port: u16) -> Lookup<'a> {
        let inside = if self.0.swap(true, Ordering::SeqCst) { [10, 0, 0, 1] } else { [127, 0, 0, 1] };
        Box::pin(async move { Ok(vec![SocketAddr::from((inside, port))]) })
    }
}

#[tokio::test]
async fn every_new_connection_is_checked() {
    let (closed, mut on_close) = unbounded_channel();
    let server = Server::start(move |mut peer| {
        let closed = closed.clone();
        async move {
            for _ in 0..2 {
                peer.request().await.unwrap();
                peer.reply(OK).await;
            }
            peer.close().await;
            closed.send(()).unwrap();
        }
    })
    .await;
    let client = Client::new(Reach::Loopback).resolving(Arc::new(Moving::default()));
    // All spellings of a name are the same origin.
    for host in ["localhost", "LocalHost."] {
        let url = format!("http://{host}:{}/", server.port);
        let client = client.clone();
        let target = Client::new(Reach::Anywhere).check(&url).unwrap();
        let call = outbound::Call {
            method: Method::POST,
            target: &target,
            headers: &[],
            body: "".into(),
            limits: LIMITS,
        };
        assert_eq!(client.send(call).await.unwrap().bytes().await.unwrap(), b"ok", "{host}");
    }
    assert_eq!(server.accepted(), 1, "the second call resolved nothing");
    on_close.recv().await.unwrap();
    let error = post(&client, &format!("http://localhost:{}/", server.port)).await.unwrap_err();
    let CallError::Connect(refused) = error else { panic!("{error:?}") };
    assert!(matches!(*refused, ConnectError::Forbidden), "{refused:?}");
}
