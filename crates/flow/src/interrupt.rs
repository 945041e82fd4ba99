//! Whether an answer to an interrupt is one that was asked for, and what follows from it.
//!
//! Nothing here changes anything: [`judge`] reads the open interrupt and the answer, and says what the engine is to record.

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
use crate::state::{Interrupt, Outcome};

/// The profile of an interrupt that takes no answer by a signed token.
pub const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// Somebody's answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The answer.
    pub value: &'a Value,
    /// Who gave it, an opaque name.
    pub by: &'a str,
    /// The roles and scopes that they have.
    pub grants: &'a [String],
    /// How it came.
    pub via: Via,
}

/// How an answer came to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// With a key that may respond. It may name the person it speaks for, in `voter`.
    Key,
    /// With a signed token. It is the answer of the token's holder, whatever the answer says of itself.
    Token,
    /// From the log of a run that is replayed. What was decided then stays decided.
    Log {
        /// Whether the interrupt was over with it.
        closes: bool,
    },
}

/// Who answers with a token that names no holder, as tokens of earlier versions do not.
///
/// Such a vote is never added to another: its voter may have cast that one too. It decides where one vote is enough.
pub const ANONYMOUS: &str = "token";

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// It is a question back; the interrupt stays open.
    Asked,
    /// It is one vote of several; the interrupt stays open.
    Voted(Ballot),
    /// It is one turn of a conversation; the interrupt stays open.
    Exchanged(Value),
    /// The interrupt is over.
    Decided(Decided),
}

/// How an interrupt is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The answer, as it is recorded.
    pub value: Value,
    /// How it ended.
    pub outcome: Outcome,
    /// Who decided.
    pub by: String,
    /// The vote that decided it, where people vote.
    pub ballot: Option<Ballot>,
    /// The last turn of a conversation, where the answer holds one.
    pub turn: Option<Value>,
}

/// One vote, and how they stand with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ballot {
    pub voter: String,
    pub action: String,
    /// How many are for it now.
    pub granted: u32,
    /// How many have to be.
    pub required: u32,
    /// Why, where they say so.
    pub reason: Option<String>,
}

/// Judges an answer to an open interrupt.
///
/// # Errors
/// When it is not one that was asked for, or not from somebody who may give it.
pub fn judge(node: &Node, interrupt: &Interrupt, reply: &Reply<'_>) -> Result<Judgement, Refusal> {
    if reply.via == Via::Token && !takes_tokens(node) {
        return Err(Refusal::Forbidden {
            message:
                "this interrupt takes no answer by a token; answer with a key that has `approvals:respond`"
                    .into(),
        });
    }
    if let Some(schema) = &interrupt.resume_schema {
        conforms(schema, reply.value)?;
    }
    let decided = |value: Value| {
        Judgement::Decided(Decided {
            value,
            outcome: Outcome::Accepted,
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
            AnswerRules::Elicitation => Ok(decided(form::answered(reply.value))),
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

/// Whether the interrupts of a node take answers by a signed token.
pub const fn takes_tokens(node: &Node) -> bool {
    !node.requires_key
}

/// Whether the holder of a token could answer this interrupt with it. A token that would be refused need not be issued.
pub fn answerable_by_token(node: &Node, interrupt: &Interrupt, holder: &str) -> bool {
    match AnswerRules::of(node) {
        AnswerRules::Session => false,
        // A token proves no role and no scope.
        AnswerRules::Governance(config) => takes_tokens(node) && approval::is_open_to_all(config),
        AnswerRules::Common | AnswerRules::Elicitation => {
            takes_tokens(node) && approval::is_listed(interrupt, holder)
        }
    }
}

/// The rules for answers to the interrupts of a node.
enum AnswerRules<'a> {
    /// Those of the kind of interrupt.
    Common,
    /// A role or a scope decides who may answer.
    Governance(&'a GovernanceGateConfig),
    /// The form of an MCP client decides what an answer is.
    Elicitation,
    /// Only the session of an agent answers.
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
            | NodeConfig::Called(_)
            | NodeConfig::Pack => Self::Common,
        }
    }
}

/// An operator lets the decision stand, puts another in its place, or rejects it.
fn low_confidence(node: &Node, reply: &Reply<'_>) -> Result<Judgement, Refusal> {
    let action = reply.value.get("action").or_else(|| reply.value.get("decision")).and_then(Value::as_str);
    let rejected = matches!(action, Some("reject" | "rejected"));
    // It is recorded as a decision of the supervisor, so it has the form of one.
    let other = reply.value.get("decision").filter(|decision| !decision.is_string() && !decision.is_null());
    if node.kind == NodeType::Supervisor && !rejected && other.is_some_and(|other| !is_decision(other)) {
        let message = "`decision` is one of next-worker, ask-user and terminate, with the members of that kind and no others";
        return Err(bad(message, json!({"path": "/decision"})));
    }
    Ok(Judgement::Decided(Decided {
        value: reply.value.clone(),
        outcome: if rejected { Outcome::Rejected } else { Outcome::Accepted },
        by: reply.by.to_owned(),
        ballot: None,
        turn: None,
    }))
}

/// Every member of the correlation has to be in the event, with the same value.
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
        message: "the event does not match what the run waits for".into(),
        details: json!({"mismatched": missing}),
        semantic: true,
    })
}

/// Checks a value against a schema that came with a workflow.
fn conforms(schema: &Value, value: &Value) -> Result<(), Refusal> {
    // A schema that cannot be used was let through by an older version: it then binds nobody.
    let Ok(validator) = crate::definition::schema::compiled(schema) else { return Ok(()) };
    match validator.iter_errors(value).next() {
        None => Ok(()),
        Some(error) => Err(bad(
            "the answer is not what its schema says",
            json!({"path": error.instance_path().to_string(), "problem": error.to_string()}),
        )),
    }
}

fn bad(message: impl Into<String>, details: Value) -> Refusal {
    Refusal::BadAnswer { message: message.into(), details, semantic: false }
}
