//! Validates answers to interrupts and decides what follows from them.
//!
//! These functions are pure: [`judge`] reads the open interrupt and the answer, and returns what the engine records.

mod approval;
mod clarification;
mod conversation;
mod kind;

use serde_json::{Value, json};

pub use self::kind::InterruptKind;
use crate::definition::config::GovernanceGateConfig;
use crate::definition::decision::is_decision;
use crate::definition::exposed::form;
use crate::definition::{ExposedType, Node, NodeConfig, NodeType};
use crate::engine::Refusal;
use crate::state::{Interrupt, ResolutionOutcome};

/// The profile of interrupts that cannot be answered with a signed token.
pub const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// An answer to an interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The resume value.
    pub value: &'a Value,
    /// The principal who answered.
    pub by: &'a str,
    /// The roles and scopes of the principal.
    pub grants: &'a [String],
    /// How the answer reached the host.
    pub via: Via,
}

/// How an answer reached the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// With an API key that may respond. The answer may name the represented person in `voter`.
    Key,
    /// With a signed token. The answer counts as the answer of the token's holder, whatever `voter` says.
    Token,
    /// From the log of a replayed run. The recorded decision is kept.
    Log {
        /// Whether this answer closed the interrupt.
        closes: bool,
    },
}

/// The principal of answers with a token that names no holder, which earlier versions issued.
///
/// The vote of such a token is never added to other votes, because the same person may have cast them. It decides a gate only if one vote
/// is enough.
pub const ANONYMOUS: &str = "token";

/// The result of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// The answer is a question to the author of the request; the interrupt stays open.
    Asked,
    /// The answer is one of several votes; the interrupt stays open.
    Voted(Ballot),
    /// The answer is one turn of a conversation; the interrupt stays open.
    Exchanged(Value),
    /// The answer closes the interrupt.
    Decided(Decided),
}

/// How an interrupt was closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The recorded answer.
    pub value: Value,
    /// How it ended.
    pub outcome: ResolutionOutcome,
    /// The principal who decided.
    pub by: String,
    /// The deciding vote, if the gate counts votes.
    pub ballot: Option<Ballot>,
    /// The last turn of a conversation, if the answer contains one.
    pub turn: Option<Value>,
}

/// A vote, and the state of the count including it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ballot {
    pub voter: String,
    pub action: String,
    /// The current number of approvals.
    pub granted: u32,
    /// The required number of approvals.
    pub required: u32,
    /// The reason, if the voter gave one.
    pub reason: Option<String>,
}

/// Validates an answer to an open interrupt.
///
/// # Errors
/// The answer is invalid, or its author is not allowed to give it.
pub fn judge(node: &Node, interrupt: &Interrupt, reply: &Reply<'_>) -> Result<Judgement, Refusal> {
    if reply.via == Via::Token && !takes_tokens(node) {
        return Err(Refusal::Forbidden {
            message:
                "this interrupt cannot be answered with a token; use an API key with `approvals:respond`"
                    .into(),
        });
    }
    if let Some(schema) = &interrupt.resume_schema {
        matches_schema(schema, reply.value)?;
    }
    let decided = |value: Value| {
        Judgement::Decided(Decided {
            value,
            outcome: ResolutionOutcome::Accepted,
            by: reply.by.to_owned(),
            ballot: None,
            turn: None,
        })
    };
    match interrupt.kind {
        InterruptKind::Approval => match AnswerRules::of(node) {
            AnswerRules::Governance(config) => approval::governed(config, interrupt, reply),
            AnswerRules::Common | AnswerRules::Elicitation | AnswerRules::Session => {
                approval::judge(interrupt, reply)
            }
        },
        InterruptKind::Clarification => match AnswerRules::of(node) {
            // The resume schema has validated the answer.
            AnswerRules::Elicitation => Ok(decided(form::recorded_answer(reply.value))),
            AnswerRules::Common | AnswerRules::Governance(_) | AnswerRules::Session => {
                clarification::judge(interrupt, reply.value).map(decided)
            }
        },
        InterruptKind::ExternalEvent => {
            correlates(interrupt, reply.value).map(|()| decided(reply.value.clone()))
        }
        InterruptKind::LowConfidence => low_confidence(node, reply),
        InterruptKind::ConversationExchange => conversation::judge(node, interrupt, reply),
        InterruptKind::Custom | InterruptKind::ConversationStart | InterruptKind::ConversationClose => {
            Ok(decided(reply.value.clone()))
        }
    }
}

/// Whether the interrupts of a node can be answered with a signed token.
pub const fn takes_tokens(node: &Node) -> bool {
    !node.requires_key
}

/// Whether the holder of a token could answer this interrupt with it. The host issues no token that it would refuse.
pub fn answerable_by_token(node: &Node, interrupt: &Interrupt, holder: &str) -> bool {
    match AnswerRules::of(node) {
        AnswerRules::Session => false,
        // A token proves neither a role nor a scope.
        AnswerRules::Governance(config) => takes_tokens(node) && approval::is_open_to_all(config),
        AnswerRules::Common | AnswerRules::Elicitation => {
            takes_tokens(node) && approval::is_listed(interrupt, holder)
        }
    }
}

/// The rules for answers to the interrupts of a node.
enum AnswerRules<'a> {
    /// The rules of the kind of interrupt.
    Common,
    /// A role or a scope decides who may answer.
    Governance(&'a GovernanceGateConfig),
    /// The form of an MCP elicitation defines valid answers.
    Elicitation,
    /// Only the guided session of an agent can answer.
    Session,
}

impl<'a> AnswerRules<'a> {
    fn of(node: &'a Node) -> Self {
        match &node.config {
            NodeConfig::GovernanceGate(config) => Self::Governance(config),
            NodeConfig::Guided(_) => Self::Session,
            NodeConfig::Exposed(config) => match config.kind() {
                ExposedType::Elicitation => Self::Elicitation,
                ExposedType::ServerTrigger
                | ExposedType::Tool
                | ExposedType::Resource
                | ExposedType::ResourceTemplate
                | ExposedType::Prompt
                | ExposedType::Sampling
                | ExposedType::Roots => Self::Common,
            },
            NodeConfig::Conditional(_)
            | NodeConfig::Loop(_)
            | NodeConfig::Delay(_)
            | NodeConfig::SetVariable(_)
            | NodeConfig::GetVariable(_)
            | NodeConfig::Fail(_)
            | NodeConfig::ChannelWrite(_)
            | NodeConfig::Interrupt(_)
            | NodeConfig::ApprovalGate(_)
            | NodeConfig::ClarificationGate(_)
            | NodeConfig::ConversationGate(_)
            | NodeConfig::SubWorkflow(_)
            | NodeConfig::Supervisor(_)
            | NodeConfig::Dispatch(_)
            | NodeConfig::MockAgent(_)
            | NodeConfig::SecretEcho(_)
            | NodeConfig::CostEmit(_)
            | NodeConfig::ArtifactEmit(_)
            | NodeConfig::Start
            | NodeConfig::End
            | NodeConfig::Noop
            | NodeConfig::Parallel
            | NodeConfig::Merge
            | NodeConfig::SideEffect
            | NodeConfig::RequiresMissing
            | NodeConfig::ModelCapabilityInsufficient
            | NodeConfig::Identity(_)
            | NodeConfig::HttpRequest(_)
            | NodeConfig::Called(_)
            | NodeConfig::Pack => Self::Common,
        }
    }
}

/// An operator accepts the decision, replaces it, or rejects it.
fn low_confidence(node: &Node, reply: &Reply<'_>) -> Result<Judgement, Refusal> {
    let action = reply.value.get("action").or_else(|| reply.value.get("decision")).and_then(Value::as_str);
    let rejected = matches!(action, Some("reject" | "rejected"));
    // A replacement is recorded as a decision of the supervisor, so it must be a valid one.
    let other = reply.value.get("decision").filter(|decision| !decision.is_string() && !decision.is_null());
    if node.kind == NodeType::Supervisor && !rejected && other.is_some_and(|other| !is_decision(other)) {
        let message = "`decision` must be a next-worker, ask-user or terminate decision, with only the members of that kind";
        return Err(invalid_answer(message, json!({"path": "/decision"})));
    }
    Ok(Judgement::Decided(Decided {
        value: reply.value.clone(),
        outcome: if rejected { ResolutionOutcome::Rejected } else { ResolutionOutcome::Accepted },
        by: reply.by.to_owned(),
        ballot: None,
        turn: None,
    }))
}

/// Checks that the event contains every member of the correlation, with the same value.
fn correlates(interrupt: &Interrupt, value: &Value) -> Result<(), Refusal> {
    let event = value.get("eventPayload").unwrap_or(value);
    let wanted = interrupt.data.get("correlation").and_then(Value::as_object);
    let missing: Vec<&String> = wanted
        .into_iter()
        .flatten()
        .filter(|(name, wanted)| event.get(name.as_str()) != Some(wanted))
        .map(|(name, _)| name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::BadAnswer {
        message: "the event does not match the `correlation` of the interrupt".into(),
        details: json!({"mismatched": missing}),
        semantic: true,
    })
}

/// Validates a value against a schema of the workflow.
fn matches_schema(schema: &Value, value: &Value) -> Result<(), Refusal> {
    // An unusable schema was accepted by an older version. It is ignored, because otherwise no answer would be valid.
    let Ok(validator) = crate::definition::schema::compiled(schema) else { return Ok(()) };
    match validator.iter_errors(value).next() {
        None => Ok(()),
        Some(error) => Err(invalid_answer(
            "the answer does not match its schema",
            json!({"path": error.instance_path().to_string(), "problem": error.to_string()}),
        )),
    }
}

fn invalid_answer(message: impl Into<String>, details: Value) -> Refusal {
    Refusal::BadAnswer { message: message.into(), details, semantic: false }
}
