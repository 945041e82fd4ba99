//! What is with consumers of this process, and what was answered under identities.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use async_nats::jetstream;
use serde_json::Value;

use crate::args::refuse;
use crate::call::Tenant;
use crate::error::SurfaceError;

/// How many deliveries, and how many answers, are remembered. Of more, the oldest are forgotten.
const MOST: usize = 20_000;

/// A message that is with a consumer.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) tenant: Tenant,
    pub(super) subject: String,
    pub(super) id: String,
    pub(super) message: Arc<jetstream::Message>,
}

pub(super) enum Found {
    Held(Held),
    Unknown,
    /// The message was handed over again.
    Expired,
}

#[derive(Default)]
pub(super) struct Deliveries {
    held: HashMap<String, Held>,
    /// When each message came first, and its tokens, the newest last.
    messages: HashMap<String, (u64, Vec<String>)>,
    order: BTreeMap<u64, String>,
    count: u64,
    answers: HashMap<(Tenant, String), (&'static str, Value)>,
    answered: VecDeque<(Tenant, String)>,
    /// How often a message came before it may be handed over.
    early: HashMap<String, u64>,
    /// What was acknowledged last.
    settled: HashSet<String>,
    settled_in_order: VecDeque<String>,
}

impl Deliveries {
    pub(super) fn hold(&mut self, token: &str, held: Held) {
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

    pub(super) fn find(&self, tenant: &Tenant, token: &str) -> Found {
        match self.held.get(token).filter(|held| held.tenant == *tenant) {
            None => Found::Unknown,
            Some(held) if self.is_newest(held, token) => Found::Held(held.clone()),
            Some(_) => Found::Expired,
        }
    }

    /// The delivery under that token, if nobody has got the message since.
    pub(super) fn current(&self, token: &str) -> Option<Held> {
        self.held.get(token).filter(|held| self.is_newest(held, token)).cloned()
    }

    fn is_newest(&self, held: &Held, token: &str) -> bool {
        self.messages
            .get(&held.id)
            .and_then(|(_, tokens)| tokens.last())
            .is_some_and(|newest| newest == token)
    }

    /// The message is done with, or back.
    pub(super) fn forget(&mut self, id: &str) {
        if let Some((place, tokens)) = self.messages.remove(id) {
            self.order.remove(&place);
            for token in tokens {
                self.held.remove(&token);
            }
        }
    }

    /// The message came too early, and was sent back.
    pub(super) fn too_early(&mut self, id: &str) {
        if self.early.len() >= MOST {
            self.early.clear();
        }
        *self.early.entry(id.to_owned()).or_default() += 1;
    }

    /// How often that was.
    pub(super) fn times_early(&self, id: &str) -> u64 {
        self.early.get(id).copied().unwrap_or(0)
    }

    /// The message was acknowledged, and never comes back.
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
                "the effect `{effect}` was made by {by}, and {op} cannot have it too; use another identity"
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
