//! Large and slow replies stay within their limits.

use std::time::Duration;

use http::Method;
use outbound::{CallError, Client, Limits, MAX_HEAD_BYTES, Reach};

use crate::server::{OK, Server};
use crate::{LIMITS, chain, send};

/// Replies of more than ten bytes, with and without a declared length.
const LARGE: [&str; 3] = [
    "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n01234567890",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n67890\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n01234567890",
];

#[tokio::test]
async fn a_body_is_read_up_to_its_limit() {
    for reply in LARGE {
        let server = Server::start(move |mut peer| async move {
            while peer.request().await.is_some() {
                peer.reply(reply).await;
                if reply.contains("close") {
                    return;
                }
            }
        })
        .await;
        let client = Client::new(Reach::Loopback);
        let read = async |body: usize| {
            let limits = Limits { body, ..LIMITS };
            send(&client, Method::GET, &server.url(), limits).await?.bytes().await
        };
        assert_eq!(read(11).await.unwrap(), b"01234567890", "{reply}");
        let refused = read(10).await.unwrap_err();
        assert!(matches!(refused, CallError::TooLarge(10)), "{reply}: {refused:?}");
        // The limit applies only if the body is read.
        let limits = Limits { body: 0, ..LIMITS };
        assert_eq!(send(&client, Method::GET, &server.url(), limits).await.unwrap().status, 200);
        let mut widened = send(&client, Method::GET, &server.url(), limits).await.unwrap();
        widened.limit_body(11);
        assert_eq!(widened.bytes().await.unwrap().len(), 11, "{reply}");
    }
}

#[tokio::test]
async fn a_head_is_read_up_to_its_limit() {
    for (filler, fits) in [(MAX_HEAD_BYTES / 2, true), (4 * MAX_HEAD_BYTES, false)] {
        let server = Server::start(move |mut peer| async move {
            peer.request().await.unwrap();
            peer.reply("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-filler: ").await;
            peer.reply(&"a".repeat(filler)).await;
            peer.reply("\r\n\r\nok").await;
            peer.close().await;
        })
        .await;
        match send(&Client::new(Reach::Loopback), Method::GET, &server.url(), LIMITS).await {
            Ok(mut reply) => assert_eq!((reply.bytes().await.unwrap(), fits), (b"ok".to_vec(), true)),
            Err(error) => {
                assert!(!fits, "{error:?}");
                let chain = chain(&error);
                assert!(chain.iter().any(|line| line.contains("message head is too large")), "{chain:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_slow_head_and_a_slow_body_end_in_time() {
    let never = Server::start(|mut peer| async move {
        peer.request().await;
        std::future::pending::<()>().await;
    })
    .await;
    let half = Server::start(|mut peer| async move {
        peer.request().await;
        peer.reply(&OK[..OK.len() - 1]).await;
        std::future::pending::<()>().await;
    })
    .await;
    let client = Client::new(Reach::Loopback);
    let short = Duration::from_millis(50);
    let minute = Duration::from_secs(60);
    for limits in [
        Limits { head: short, whole: None, ..LIMITS },
        // The total time includes the head.
        Limits { head: minute, whole: Some(short), ..LIMITS },
    ] {
        let late = send(&client, Method::POST, &never.url(), limits).await.unwrap_err();
        assert!(matches!(late, CallError::HeadTimeout(limit) if limit == short), "{late:?}");
        assert_eq!(late.to_string(), "no reply within 50ms");
    }
    // Long enough for the head on a busy machine.
    let whole = Duration::from_secs(1);
    let limits = Limits { head: minute, whole: Some(whole), ..LIMITS };
    let mut begun = send(&client, Method::POST, &half.url(), limits).await.unwrap();
    let late = begun.bytes().await.unwrap_err();
    assert!(matches!(late, CallError::BodyTimeout(limit) if limit == whole), "{late:?}");
    assert_eq!(late.to_string(), "the reply was not complete within 1s");
}
