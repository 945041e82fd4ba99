//! The rules of the table, in both directions.

use serde_json::{Map, Value, json};

use super::members::{self, ABSENT};
use super::types::{ACTIONS, DefaultValue, EventType, Extra, Rule};
use super::{Question, Unprojectable, by_v1, by_v2};
use crate::{error, id, owner};

/// The interrupt id of version 1, beside that of version 2.
const KEY: &str = "x-interlock-key";

impl Rule {
    /// Whether the rule needs the open question of the node.
    pub(super) fn needs_question(self) -> bool {
        matches!(self, Self::Question | Self::Announcement(_) | Self::Asked(..))
    }
}

/// One event, without its payload.
pub(super) struct Scope<'s> {
    pub(super) row: &'static EventType,
    pub(super) tenant: &'s str,
    pub(super) run_id: &'s str,
    pub(super) node: &'s str,
    pub(super) timestamp: &'s str,
    pub(super) question: Option<&'s Question>,
}

type Members = Map<String, Value>;

impl Scope<'_> {
    pub(super) fn payload_to_v2(&self, mut left: Members) -> Result<Members, Unprojectable> {
        let Some(known) = self.row.members else { return Ok(left) };
        let mut made = Members::new();
        let mut absent: Vec<&str> = Vec::new();
        for rule in self.row.rules {
            self.apply(*rule, &mut left, &mut made, &mut absent)?;
        }
        for (name, value) in left {
            if known.contains(&name.as_str()) || self.row.extra == Extra::Open {
                made.entry(name).or_insert(value);
            } else if self.row.extra == Extra::Hatch {
                // An extension of another vendor keeps its name. One of ours in version 1 would be mistaken for a translation.
                let keeps = members::is_extension(&name) && members::member(&name).is_none();
                made.insert(if keeps { name } else { members::extension(&name) }, value);
            } else {
                return Err(self.no_place_for(&name));
            }
        }
        if !absent.is_empty() {
            made.insert(ABSENT.to_owned(), json!(absent));
        }
        Ok(made)
    }

    fn apply(
        &self,
        rule: Rule,
        left: &mut Members,
        made: &mut Members,
        absent: &mut Vec<&str>,
    ) -> Result<(), Unprojectable> {
        match rule {
            Rule::Run(name) => {
                if let Some(Value::String(run_id)) = left.get_mut(name) {
                    *run_id = id::bind(self.tenant, run_id);
                }
            }
            Rule::Runs(name) => {
                for run_id in left.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Value::String(run_id) = run_id {
                        *run_id = id::bind(self.tenant, run_id);
                    }
                }
            }
            Rule::Interrupt(name) => {
                if let Some(Value::String(interrupt)) = left.remove(name) {
                    made.insert(name.to_owned(), id::interrupt(self.tenant, &interrupt).into());
                    made.insert(KEY.to_owned(), interrupt.into());
                }
            }
            Rule::Subject(name, other) => {
                if let Some(Value::String(principal)) = left.remove(name) {
                    made.insert(other.to_owned(), owner::subject(self.tenant, &principal));
                }
            }
            Rule::Owner(name) => {
                if let Some(Value::Object(members)) = left.get(name) {
                    let translated = owner::to_v2(members);
                    left.insert(name.to_owned(), translated);
                }
            }
            Rule::Error(name) => {
                if let Some(Value::Object(members)) = left.remove(name) {
                    left.insert(name.to_owned(), error::failure_to_v2(members).into());
                }
            }
            Rule::Renamed(name, other) => {
                if let Some(value) = left.remove(name) {
                    made.insert(other.to_owned(), value);
                }
            }
            Rule::Below(name, parent, child) => {
                if let Some(value) = left.remove(name) {
                    made.insert(parent.to_owned(), json!({child: value}));
                }
            }
            Rule::Same(name, other) => match (left.get(name), left.get(other)) {
                (Some(value), Some(equal)) if value == equal => drop(left.remove(name)),
                (None, Some(_)) => absent.push(name),
                _ => {}
            },
            Rule::SameAgent(name, other) => match (left.get(name), left.get(other)) {
                (Some(value), Some(agent)) if *value == json!({"agentId": agent}) => drop(left.remove(name)),
                (None, Some(_)) => absent.push(name),
                _ => {}
            },
            Rule::Default(name, DefaultValue::EmptyObject) => {
                if !left.contains_key(name) {
                    made.insert(name.to_owned(), json!({}));
                    absent.push(name);
                }
            }
            Rule::AtLeastOne(name) => extend_unless(left, made, name, |value| *value != json!(0)),
            Rule::AtMost(name, limit) => extend_unless(left, made, name, |value| {
                value.as_str().is_some_and(|text| (1..=limit).contains(&text.chars().count()))
            }),
            Rule::OneOf(name, texts) => {
                extend_unless(left, made, name, |value| {
                    value.as_str().is_some_and(|text| texts.contains(&text))
                });
            }
            Rule::TypeName(name) => rename_type(left, name, |text| by_v1(text).map(|row| row.v2)),
            Rule::Reducer(name) => {
                if left.get(name).is_some_and(|reducer| reducer == "message") {
                    left.insert(name.to_owned(), "append".into());
                }
            }
            Rule::Question => {
                for derived in ["interruptId", "nodeId", "runId", "requestedAt"] {
                    left.remove(derived);
                }
            }
            Rule::Announcement(kind) => {
                let question = self.question()?;
                let mut data = std::mem::take(left);
                for derived in ["interruptId", "nodeId", "contentTrust"] {
                    data.remove(derived);
                }
                made.insert("kind".to_owned(), kind.into());
                made.insert("key".to_owned(), question.key.as_str().into());
                made.insert("data".to_owned(), data.into());
            }
            Rule::Asked(kind, decision) => {
                let question = self.question()?;
                made.insert(
                    "interruptId".to_owned(),
                    id::interrupt(self.tenant, &question.interrupt_id).into(),
                );
                made.insert(KEY.to_owned(), question.interrupt_id.as_str().into());
                made.insert("kind".to_owned(), kind.into());
                if let Some(decision) = decision {
                    made.insert("decision".to_owned(), decision.into());
                }
            }
            Rule::Decision => {
                if left.get("kind").is_some_and(|kind| kind == "approval") {
                    let (action, decision) = decided(left);
                    made.insert("action".to_owned(), action.into());
                    made.insert("decision".to_owned(), decision.into());
                }
            }
        }
        Ok(())
    }

    pub(super) fn payload_to_v1(&self, mut left: Members) -> Result<Members, Unprojectable> {
        if self.row.members.is_none() {
            return Ok(left);
        }
        let absent = left.remove(ABSENT);
        let mut made = Members::new();
        for rule in self.row.rules {
            self.undo(*rule, &mut left, &mut made, absent.as_ref())?;
        }
        for (name, value) in left {
            let name = match self.row.extra {
                Extra::Hatch => members::member(&name).unwrap_or(name),
                Extra::Closed | Extra::Open => name,
            };
            made.entry(name).or_insert(value);
        }
        // Derived from members that have their names of version 1 only now.
        for rule in self.row.rules {
            let (name, other, is_agent) = match *rule {
                Rule::Same(name, other) => (name, other, false),
                Rule::SameAgent(name, other) => (name, other, true),
                _ => continue,
            };
            if made.contains_key(name) || members::lists(absent.as_ref(), name) {
                continue;
            }
            if let Some(value) = made.get(other).cloned() {
                made.insert(name.to_owned(), if is_agent { json!({"agentId": value}) } else { value });
            }
        }
        Ok(made)
    }

    fn undo(
        &self,
        rule: Rule,
        left: &mut Members,
        made: &mut Members,
        absent: Option<&Value>,
    ) -> Result<(), Unprojectable> {
        match rule {
            Rule::Run(name) => {
                if let Some(Value::String(run_id)) = left.get_mut(name) {
                    *run_id = own_part(run_id);
                }
            }
            Rule::Runs(name) => {
                for run_id in left.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Value::String(run_id) = run_id {
                        *run_id = own_part(run_id);
                    }
                }
            }
            Rule::Interrupt(name) => {
                let (bound, key) = (left.remove(name), left.remove(KEY));
                let own = bound.as_ref().and_then(Value::as_str).map(own_part).map(Value::String);
                if let Some(interrupt) = key.or(own) {
                    made.insert(name.to_owned(), interrupt);
                }
            }
            Rule::Subject(name, other) => {
                if let Some(subject) = left.remove(other) {
                    let principal = owner::principal(&subject).ok_or_else(|| self.no_place_for(other))?;
                    made.insert(name.to_owned(), principal.into());
                }
            }
            Rule::Owner(name) => {
                if let Some(value) = left.remove(name) {
                    let owner = owner::to_v1(&value).ok_or_else(|| self.no_place_for(name))?;
                    made.insert(name.to_owned(), owner);
                }
            }
            Rule::Error(name) => {
                if let Some(Value::Object(members)) = left.remove(name) {
                    left.insert(name.to_owned(), error::failure_to_v1(members).into());
                }
            }
            Rule::Renamed(name, other) => {
                if let Some(value) = left.remove(other) {
                    made.insert(name.to_owned(), value);
                }
            }
            Rule::Below(name, parent, child) => {
                if let Some(Value::Object(mut members)) = left.remove(parent)
                    && let Some(value) = members.remove(child)
                {
                    made.insert(name.to_owned(), value);
                }
            }
            Rule::Default(name, DefaultValue::EmptyObject) => {
                if members::lists(absent, name) {
                    left.remove(name);
                }
            }
            Rule::TypeName(name) => rename_type(left, name, |text| by_v2(text).map(|row| row.v1)),
            Rule::Question => {
                let question = self.question()?;
                made.insert("interruptId".to_owned(), question.interrupt_id.as_str().into());
                made.insert("nodeId".to_owned(), self.node.into());
                made.insert("runId".to_owned(), self.run_id.into());
                made.insert("requestedAt".to_owned(), self.timestamp.into());
            }
            Rule::Announcement(_) => {
                let question = self.question()?;
                left.remove("kind");
                left.remove("key");
                if let Some(Value::Object(data)) = left.remove("data") {
                    *made = data;
                }
                made.insert("interruptId".to_owned(), question.interrupt_id.as_str().into());
                made.insert("nodeId".to_owned(), self.node.into());
                if let Some(trust) = &question.content_trust {
                    made.insert("contentTrust".to_owned(), trust.clone());
                }
            }
            Rule::Asked(..) => {
                for derived in ["interruptId", KEY, "kind", "decision"] {
                    left.remove(derived);
                }
            }
            Rule::Decision => {
                for derived in ["action", "decision"] {
                    left.remove(derived);
                }
            }
            // An extension member has the value of version 1, and the general rule finds it.
            Rule::Same(..)
            | Rule::SameAgent(..)
            | Rule::AtLeastOne(_)
            | Rule::AtMost(..)
            | Rule::OneOf(..)
            | Rule::Reducer(_) => {}
        }
        Ok(())
    }

    fn question(&self) -> Result<&Question, Unprojectable> {
        self.question.ok_or_else(|| Unprojectable::Question {
            kind: self.row.v1.to_owned(),
            node: self.node.to_owned(),
        })
    }

    fn no_place_for(&self, member: &str) -> Unprojectable {
        Unprojectable::Member { kind: self.row.v1.to_owned(), member: member.to_owned() }
    }
}

fn own_part(bound: &str) -> String {
    id::split(bound).map_or(bound, |(_, own)| own).to_owned()
}

/// Moves a member to an extension member if its value is not valid in version 2.
fn extend_unless(left: &mut Members, made: &mut Members, name: &str, is_valid: impl FnOnce(&Value) -> bool) {
    if left.get(name).is_some_and(|value| !is_valid(value))
        && let Some(value) = left.remove(name)
    {
        made.insert(members::extension(name), value);
    }
}

fn rename_type(left: &mut Members, name: &str, rename: impl FnOnce(&str) -> Option<&'static str>) {
    if let Some(other) = left.get(name).and_then(Value::as_str).and_then(rename) {
        left.insert(name.to_owned(), other.into());
    }
}

/// The action and the decision of a resolved approval.
fn decided(resolved: &Members) -> (&'static str, &'static str) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_accepted = text(resolved.get("outcome")) == "accepted";
    let action = text(resolved.get("resumeValue").and_then(|value| value.get("action")));
    let is_override = action == "override";
    let action = match ACTIONS.iter().find(|known| **known == action) {
        _ if text(resolved.get("reason")) == "timeout" => "timeout",
        Some(action) => action,
        None if is_accepted => "accept",
        None => "reject",
    };
    let decision = match is_accepted {
        true if is_override => "overridden",
        true => "granted",
        false => "rejected",
    };
    (action, decision)
}
