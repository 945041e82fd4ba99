//! Webhook subscriptions and their deliveries.

use canon::time::Timestamp;
use flow::id::{SubscriptionId, Tenant};

use super::{Bytes, ReadFuture};

/// Reads subscriptions and deliveries.
pub trait Webhooks {
    /// The subscriptions of a tenant, as JSON, in the order of their ids.
    fn webhooks(&self, tenant: &Tenant) -> ReadFuture<'_, Vec<(SubscriptionId, Bytes)>>;

    /// A subscription of any tenant, with its tenant. For deliveries.
    fn webhook(&self, webhook_id: &SubscriptionId) -> ReadFuture<'_, Option<(Tenant, Bytes)>>;

    /// The deliveries that are due at a time, earliest first.
    fn due_deliveries(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Delivery>>;

    /// When the earliest delivery is due.
    fn next_delivery(&self) -> ReadFuture<'_, Option<Timestamp>>;

    /// The abandoned deliveries of a subscription with the reason of each, newest first.
    fn abandoned_deliveries(
        &self,
        webhook_id: &SubscriptionId,
        limit: usize,
    ) -> ReadFuture<'_, Vec<(Delivery, String)>>;
}

/// A delivery to a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub delivery_id: String,
    pub webhook_id: SubscriptionId,
    pub due: Timestamp,
    /// Attempts so far.
    pub attempts: u32,
    /// The request body, as JSON.
    pub body: Bytes,
}
