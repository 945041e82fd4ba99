//! Messages held by consumers of this process, and results by effect id.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use async_nats::jetstream;
use serde_json::Value;

use crate::args::refuse;
use crate::call::Tenant;
use crate::error::SurfaceError;

/// The maximum number of remembered deliveries and of results. The oldest are dropped.
const MOST: usize = 20_000;

/// A message held by a consumer.
#[derive(Clone)]
pub(super) struct HeldMessage {
    pub(super) tenant: Tenant,
    pub(super) subject: String,
    pub(super) id: String,
    pub(super) message: Arc<jetstream::Message>,
}

pub(super) enum DeliveryLookup {
    HeldMessage(HeldMessage),
    Unknown,
    /// The message was delivered again.
    Expired,
}

#[derive(Default)]
pub(super) struct Deliveries {
    held: HashMap<String, HeldMessage>,
    /// The first delivery time and the tokens of each message, the newest last.
    messages: HashMap<String, (u64, Vec<String>)>,
    order: BTreeMap<u64, String>,
    count: u64,
    answers: HashMap<(Tenant, String), (&'static str, Value)>,
    answered: VecDeque<(Tenant, String)>,
    /// How often a message arrived too early.
    early: HashMap<String, u64>,
    /// Recently acknowledged messages.
    settled: HashSet<String>,
    settled_in_order: VecDeque<String>,
}

impl Deliveries {
    pub(super) fn hold(&mut self, token: &str, held: HeldMessage) {
        self.count += 1;
        let count = self.count;
        let (place, tokens) = self.messages.entry(held.id.clone()).or_insert_with(|| (count, Vec::new()));
        self.order.insert(*place, held.id.clone());
        tokens.retain(|other| other != token);
        tokens.push(token.to_owned());
        self.held.insert(token.to_owned(), held);
        if self.messages.len() > MOST
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.forget(&oldest);
        }
    }

    pub(super) fn find(&self, tenant: &Tenant, token: &str) -> DeliveryLookup {
        match self.held.get(token).filter(|held| held.tenant == *tenant) {
            None => DeliveryLookup::Unknown,
            Some(held) if self.is_newest(held, token) => DeliveryLookup::HeldMessage(held.clone()),
            Some(_) => DeliveryLookup::Expired,
        }
    }

    /// The delivery of that token, if it is the newest.
    pub(super) fn current(&self, token: &str) -> Option<HeldMessage> {
        self.held.get(token).filter(|held| self.is_newest(held, token)).cloned()
    }

    fn is_newest(&self, held: &HeldMessage, token: &str) -> bool {
        self.messages
            .get(&held.id)
            .and_then(|(_, tokens)| tokens.last())
            .is_some_and(|newest| newest == token)
    }

    /// The message was settled or returned.
    pub(super) fn forget(&mut self, id: &str) {
        if let Some((place, tokens)) = self.messages.remove(id) {
            self.order.remove(&place);
            for token in tokens {
                self.held.remove(&token);
            }
        }
    }

    /// Counts an early arrival.
    pub(super) fn too_early(&mut self, id: &str) {
        if self.early.len() >= MOST {
            self.early.clear();
        }
        *self.early.entry(id.to_owned()).or_default() += 1;
    }

    pub(super) fn times_early(&self, id: &str) -> u64 {
        self.early.get(id).copied().unwrap_or(0)
    }

    /// Records an acknowledgement; the message must not return.
    pub(super) fn settle(&mut self, id: &str) {
        self.early.remove(id);
        if self.settled.insert(id.to_owned()) {
            self.settled_in_order.push_back(id.to_owned());
        }
        if self.settled_in_order.len() > MOST
            && let Some(oldest) = self.settled_in_order.pop_front()
        {
            self.settled.remove(&oldest);
        }
    }

    pub(super) fn is_settled(&self, id: &str) -> bool {
        self.settled.contains(id)
    }

    pub(super) fn answered(
        &self,
        tenant: &Tenant,
        effect: &str,
        op: &str,
    ) -> Result<Option<Value>, SurfaceError> {
        crate::sql::check_effect(effect)?;
        match self.answers.get(&(tenant.clone(), effect.to_owned())) {
            None => Ok(None),
            Some((by, answer)) if *by == op => Ok(Some(answer.clone())),
            Some((by, _)) => Err(refuse(format!(
                "effect id `{effect}` was already used by {by}; use a different id for {op}"
            ))),
        }
    }

    pub(super) fn answer(&mut self, tenant: &Tenant, effect: &str, op: &'static str, answer: Value) {
        let key = (tenant.clone(), effect.to_owned());
        if self.answers.insert(key.clone(), (op, answer)).is_none() {
            self.answered.push_back(key);
        }
        if self.answered.len() > MOST
            && let Some(oldest) = self.answered.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }
}
