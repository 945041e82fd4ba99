//! Approvals by one person, or by the votes of several.

use serde_json::{Map, Value, json};

use super::{ANONYMOUS, Ballot, Decided, Judgement, Reply, Via, invalid_answer};
use crate::definition::config::{GovernanceGateConfig, RejectionPolicy, whole_number};
use crate::engine::Refusal;
use crate::state::{Interrupt, ResolutionOutcome};

pub(super) fn judge(interrupt: &Interrupt, reply: &Reply<'_>) -> Result<Judgement, Refusal> {
    let mut value = with_action(reply.value)?;
    if reply.via == Via::Token {
        // A token proves the identity of its holder only, so it cannot vote for another person.
        value.remove("voter");
    }
    let action = value.get("action").and_then(Value::as_str).unwrap_or_default().to_owned();
    let allowed = strings(&interrupt.data, "actions");
    if !allowed.contains(&action) {
        return Err(invalid_answer(
            format!("`action` must be one of {}", allowed.join(", ")),
            json!({"field": "resumeValue.action", "allowed": allowed}),
        ));
    }
    let has_scope = |feedback: &Value| {
        matches!(feedback.get("scope").and_then(Value::as_str), Some("whole" | "section" | "items"))
    };
    match action.as_str() {
        "ask" => return Ok(Judgement::Asked),
        "refine" if !value.get("refineFeedback").is_some_and(has_scope) => {
            return Err(missing_field("refineFeedback", "an object with `scope`: whole, section or items"));
        }
        "edit-accept" if !value.contains_key("editedArtifactData") => {
            return Err(missing_field("editedArtifactData", "the edited artifact"));
        }
        _ => {}
    }
    let voter = voter(&value, reply.by);
    if !is_listed(interrupt, &voter) {
        return Err(Refusal::Forbidden { message: "only approvers on the gate's list may decide".into() });
    }
    let required = required_approvals(&interrupt.data);
    let veto = match RejectionPolicy::recorded(&interrupt.data) {
        RejectionPolicy::SingleVeto => 1,
        RejectionPolicy::Majority => required / 2 + 1,
    };
    let outcome_of = |votes: Tally| {
        if action == "refine" || votes.granted >= required {
            Some(ResolutionOutcome::Accepted)
        } else if votes.rejected >= veto {
            Some(ResolutionOutcome::Rejected)
        } else {
            None
        }
    };
    let (votes, outcome) = count_vote(interrupt, &voter, &action, reply.via, outcome_of);
    let ballot = Ballot { voter, action, granted: votes.granted, required, reason: reason(&value) };
    Ok(match outcome {
        Some(outcome) => decided(Value::Object(value), outcome, ballot),
        None => Judgement::Voted(ballot),
    })
}

/// A governance gate: approving requires a role or a scope, and another role may override.
pub(super) fn governed(
    config: &GovernanceGateConfig,
    interrupt: &Interrupt,
    reply: &Reply<'_>,
) -> Result<Judgement, Refusal> {
    let value = with_action(reply.value)?;
    let action = value.get("action").and_then(Value::as_str).unwrap_or_default().to_owned();
    let has_grant = |name: &str| reply.grants.iter().any(|grant| grant == name);
    let of_gate = [config.required_role.as_deref(), config.required_scope.as_deref()];
    let needed = match action.as_str() {
        "accept" | "reject" => of_gate,
        // An override without a role requires the grants of the gate. It is not open to every caller.
        "override" if config.r#override.is_some() => match config.overriding_role() {
            None => of_gate,
            role => [role, None],
        },
        _ => {
            let allowed = json!({"field": "resumeValue.action", "allowed": ["accept", "reject", "override"]});
            return Err(invalid_answer(
                "`action` must be accept, reject or, if configured, override",
                allowed,
            ));
        }
    };
    if needed.iter().flatten().any(|needed| !has_grant(needed)) {
        return Err(Refusal::Forbidden {
            message: "this gate requires a role or scope that you do not have".into(),
        });
    }
    if action == "override" && reason(&value).is_none() {
        return Err(missing_field("reason", "why you override the gate"));
    }
    let required = at_least_one(config.quorum);
    // The voter is the authenticated principal: a `voter` in the body proves no role.
    let bypasses = config.override_bypasses_quorum == Some(true);
    let outcome_of = |votes: Tally| {
        if votes.granted >= required || (action == "override" && bypasses) {
            Some(ResolutionOutcome::Accepted)
        } else if votes.rejected > 0 {
            Some(ResolutionOutcome::Rejected)
        } else {
            None
        }
    };
    let counts_as = if action == "override" { "accept" } else { &action };
    let (votes, outcome) = count_vote(interrupt, reply.by, counts_as, reply.via, outcome_of);
    let (voter, reason) = (reply.by.to_owned(), reason(&value));
    let ballot = Ballot { voter, action, granted: votes.granted, required, reason };
    Ok(match outcome {
        Some(outcome) => decided(Value::Object(value), outcome, ballot),
        None => Judgement::Voted(ballot),
    })
}

/// Whether a governance gate requires neither a role nor a scope.
pub(super) const fn is_open_to_all(config: &GovernanceGateConfig) -> bool {
    config.required_role.is_none() && config.required_scope.is_none()
}

/// Whether the voter is on the gate's list of approvers. A gate without a list accepts everyone.
pub(super) fn is_listed(interrupt: &Interrupt, voter: &str) -> bool {
    let approvers = strings(&interrupt.data, "approversList");
    approvers.is_empty() || approvers.iter().any(|name| name == voter)
}

fn decided(value: Value, outcome: ResolutionOutcome, ballot: Ballot) -> Judgement {
    Judgement::Decided(Decided { value, outcome, by: ballot.voter.clone(), ballot: Some(ballot), turn: None })
}

/// The members of an answer, with an `action`. Older clients send `decision` instead, which is converted.
fn with_action(value: &Value) -> Result<Map<String, Value>, Refusal> {
    let Value::Object(members) = value else {
        return Err(invalid_answer(
            "an answer must be an object with `action`",
            json!({"field": "resumeValue"}),
        ));
    };
    let mut members = members.clone();
    if members.get("action").is_some_and(Value::is_string) {
        return Ok(members);
    }
    let feedback = members.get("feedback").and_then(Value::as_str).map(str::to_owned);
    let action = match (members.get("decision").and_then(Value::as_str), feedback) {
        (Some("approved"), _) => "accept",
        (Some("rejected"), Some(text)) => {
            members.insert("refineFeedback".into(), json!({"scope": "whole", "text": text}));
            "refine"
        }
        (Some("rejected"), None) => "reject",
        _ => {
            let details = json!({"field": "resumeValue.action"});
            return Err(invalid_answer("an answer must be an object with `action`", details));
        }
    };
    members.insert("action".into(), action.into());
    Ok(members)
}

fn voter(value: &Map<String, Value>, by: &str) -> String {
    let named = value.get("voter").and_then(Value::as_str).filter(|voter| !voter.is_empty());
    named.unwrap_or(by).to_owned()
}

fn reason(value: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("reason").or_else(|| text("comment")).or_else(|| text("feedback")).map(str::to_owned)
}

/// The number of approvals that the data of an interrupt requires. `2.0` is the same number as `2`.
fn required_approvals(data: &Value) -> u32 {
    let number = data.get("requiredApprovals").and_then(Value::as_number);
    at_least_one(number.and_then(whole_number))
}

fn at_least_one(number: Option<u64>) -> u32 {
    number.map_or(1, |number| u32::try_from(number).unwrap_or(u32::MAX)).max(1)
}

/// The numbers of approvals and rejections.
#[derive(Clone, Copy)]
struct Tally {
    granted: u32,
    rejected: u32,
}

/// The votes including a new one, and the resulting outcome.
///
/// Earlier versions added the votes of anonymous tokens to others. If the log says that such a vote closed a gate, it still does.
fn count_vote(
    interrupt: &Interrupt,
    voter: &str,
    action: &str,
    via: Via,
    outcome_of: impl Fn(Tally) -> Option<ResolutionOutcome>,
) -> (Tally, Option<ResolutionOutcome>) {
    let votes = Votes::with(interrupt, voter, action);
    let now = votes.named.with_at_most_one(votes.anonymous);
    match (outcome_of(now), via) {
        (None, Via::Log { closes: true }) => {
            let then = votes.named.plus(votes.anonymous);
            (then, outcome_of(then))
        }
        (outcome, Via::Key | Via::Token | Via::Log { .. }) => (now, outcome),
    }
}

/// The votes of identified people, and those of anonymous tokens.
struct Votes {
    named: Tally,
    anonymous: Tally,
}

impl Votes {
    /// All votes including a new one, which replaces an earlier vote of the same voter.
    fn with(interrupt: &Interrupt, voter: &str, action: &str) -> Self {
        let others = interrupt.votes.iter().filter(|vote| vote.voter != voter);
        let all = others.map(|vote| (vote.voter.as_str(), vote.action.as_str())).chain([(voter, action)]);
        let mut votes =
            Self { named: Tally { granted: 0, rejected: 0 }, anonymous: Tally { granted: 0, rejected: 0 } };
        for (voter, action) in all {
            let tally = if voter == ANONYMOUS { &mut votes.anonymous } else { &mut votes.named };
            match action {
                "accept" | "edit-accept" => tally.granted += 1,
                "reject" => tally.rejected += 1,
                _ => {}
            }
        }
        votes
    }
}

impl Tally {
    /// Anonymous votes count as at most one vote, and only if there is no other: the same person may have cast all of them.
    fn with_at_most_one(self, anonymous: Self) -> Self {
        Self {
            granted: self.granted.max(anonymous.granted.min(1)),
            rejected: self.rejected.max(anonymous.rejected.min(1)),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self { granted: self.granted + other.granted, rejected: self.rejected + other.rejected }
    }
}

fn strings(data: &Value, member: &str) -> Vec<String> {
    let list = data.get(member).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

fn missing_field(field: &str, expected: &str) -> Refusal {
    invalid_answer(
        format!("this action requires `{field}`: {expected}"),
        json!({"field": format!("resumeValue.{field}")}),
    )
}
