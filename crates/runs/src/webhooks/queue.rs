//! Queues deliveries, in the same commit as the events.

use flow::definition::Definition;
use flow::event::{Event, event_id};
use flow::id::{NodeId, SubscriptionId};
use flow::mask::Mask;
use flow::run::{ForkMode, Genesis};
use flow::state::RunState;
use ports::runs::Change;
use serde_json::json;
use system::causes;

use super::{Subscriptions, Webhook, Webhooks};
use crate::states::shown;

/// The reserved subscription id for a run's callback address. No subscription has it.
pub(super) const CALLBACK: &str = "callback";

impl Webhooks {
    /// The subscribers to the events of a run. A replay has none: its events were delivered when they happened.
    pub(crate) async fn subscribers(&self, genesis: &Genesis) -> Subscriptions {
        if is_replay(genesis) {
            return Subscriptions::default();
        }
        match self.subscriptions(&genesis.tenant).await {
            Ok(subscriptions) => subscriptions,
            // This is not a reason to stop a run, but subscribers miss these events.
            Err(refusal) => {
                let (run_id, cause) = (&genesis.run_id, causes(&refusal));
                tracing::error!(
                    run.id = run_id.as_str(),
                    cause,
                    "events were not queued: the subscriptions could not be read"
                );
                Subscriptions::default()
            }
        }
    }

    /// Wakes the loop that delivers, because a delivery was committed.
    pub(crate) fn notify_queued(&self) {
        self.queued.notify_one();
    }

    /// Adds the deliveries for events to a commit.
    pub(crate) fn queue(
        &self,
        definition: &Definition,
        genesis: &Genesis,
        subscribers: &Subscriptions,
        (events, texts): (&[Event], &[String]),
        changes: &mut Vec<Change>,
    ) {
        if subscribers.is_empty() {
            return;
        }
        let mask = Mask::of(definition);
        for (webhook_id, webhook) in subscribers.iter().filter(|(_, webhook)| webhook.wants(&genesis.tags)) {
            for (event, text) in events.iter().zip(texts) {
                if !webhook.events.iter().any(|wanted| wanted == event.data.name()) {
                    continue;
                }
                // Subscribers get the event as every reader sees it: the stored bytes if nothing in it is hidden.
                let shown = shown(mask.as_ref(), &genesis.run_id, text.as_str().into());
                let Some(shown) = shown else { continue };
                let head = json!({"runId": genesis.run_id, "workspaceId": genesis.tenant}).to_string();
                let body = format!("{},\"event\":{shown}}}", head.trim_end_matches('}'));
                changes.push(Change::PutDelivery {
                    delivery_id: format!("{webhook_id}:{}", event_id(&genesis.run_id, event.sequence)),
                    webhook_id: webhook_id.clone(),
                    due: self.records.now(),
                    attempts: 0,
                    body: body.into_bytes().into(),
                });
            }
        }
    }

    /// Adds a delivery to the run's callback address to a commit, because the run waits for a person.
    pub(crate) fn queue_callback(&self, state: &RunState, node_id: &NodeId, changes: &mut Vec<Change>) {
        let genesis = &state.genesis;
        let interrupt = state.interrupts.get(node_id);
        if let (Some(interrupt), Some(_), false) = (interrupt, &genesis.callback_url, is_replay(genesis)) {
            // The token is created when the request is sent. It is not stored.
            let body = json!({"runId": genesis.run_id, "nodeId": node_id, "interruptId": interrupt.id});
            changes.push(Change::PutDelivery {
                delivery_id: format!("{CALLBACK}:{}", interrupt.id),
                webhook_id: SubscriptionId::new(CALLBACK),
                due: self.records.now(),
                attempts: 0,
                body: body.to_string().into_bytes().into(),
            });
        }
    }
}

fn is_replay(genesis: &Genesis) -> bool {
    genesis.fork.as_ref().is_some_and(|fork| fork.mode == ForkMode::Replay)
}

impl Webhook {
    /// Whether the subscription matches runs with these tags.
    fn wants(&self, tags: &[String]) -> bool {
        !self.failed && (self.tags.is_empty() || self.tags.iter().any(|tag| tags.contains(tag)))
    }
}
