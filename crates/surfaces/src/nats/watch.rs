//! Watches publications of all clients.

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use tokio::sync::broadcast;

use super::names;
use crate::queue::Topic;

/// Forwards every publication until the connection is closed.
pub(super) async fn forward(mut published: Subscriber, topics: broadcast::Sender<Topic>) {
    while let Some(message) = published.next().await {
        if let Some(topic) = names::topic(&message) {
            // There may be no watcher.
            let _ = topics.send(topic);
        }
    }
}
