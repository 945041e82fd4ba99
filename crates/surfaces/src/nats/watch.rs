//! Telling of what is published, by whomever.

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use tokio::sync::broadcast;

use super::names;
use crate::queue::Topic;

/// Tells of every message until the connection is closed.
pub(super) async fn tell(mut published: Subscriber, topics: broadcast::Sender<Topic>) {
    while let Some(message) = published.next().await {
        if let Some(topic) = names::topic(&message) {
            // Nobody may be there.
            let _ = topics.send(topic);
        }
    }
}
