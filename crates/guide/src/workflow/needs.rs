//! What a step needs from the user or the coordinator.
//!
//! An author declares it with `userDependencies` and `requireConfirmation`. Both have the same effect: the
//! step is not accepted without the answer. A run that never stops continues without it and discloses a gap.

use serde_json::{Map, Value, json};

use super::compiled::{ConfirmationKind, Step};
use super::condition;
use crate::placeholder;
use crate::record::{Autonomy, NonAssumableChoiceKind, UserOnlyDependency};

/// The kind of the artifact that answers a need.
pub const ANSWER_KIND: &str = "wr.user_answer";

/// Whether an artifact is an answer of the user.
pub fn is_answer(artifact: &Value) -> bool {
    artifact.get("kind").and_then(Value::as_str) == Some(ANSWER_KIND)
}
/// The id of the need of `requireConfirmation`.
pub const CONFIRMATION: &str = "confirmation";

/// One thing that a step needs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'s> {
    /// The id that answers refer to.
    pub id: &'s str,
    pub reason: UserOnlyDependency,
    /// Why the user must choose.
    pub choice_kind: Option<NonAssumableChoiceKind>,
    /// What to ask for; may contain context placeholders.
    pub what: &'s str,
    pub giver: Giver,
}

/// Who can give what a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giver {
    /// Only the user.
    User,
    /// The coordinator of the run, or the user.
    Coordinator,
}

impl Need<'_> {
    /// Whether a run with this autonomy stops for it.
    ///
    /// A guided run stops for every need. A run that stops only for the user coordinates itself, so it
    /// continues without an evaluation that its coordinator may give.
    pub const fn stops(&self, autonomy: Autonomy) -> bool {
        match autonomy {
            Autonomy::Guided => true,
            Autonomy::FullAutoStopOnUserDeps => matches!(self.giver, Giver::User),
            Autonomy::FullAutoNeverStop => false,
        }
    }

    /// A description of the kind of need.
    pub const fn kind(&self) -> &'static str {
        match (self.reason, self.choice_kind) {
            (UserOnlyDependency::NeedsUserSecretOrToken, _) => "a secret or token",
            (UserOnlyDependency::NeedsUserAccountAccess, _) => "access to an account",
            (UserOnlyDependency::NeedsUserArtifact, _) => "a file or other artifact",
            (UserOnlyDependency::NeedsUserApproval, _) => "approval",
            (UserOnlyDependency::NeedsUserEnvironmentAction, _) => "an action on the user's machine",
            (UserOnlyDependency::NeedsUserChoice, None) => "a choice",
            (UserOnlyDependency::NeedsUserChoice, Some(kind)) => match kind {
                NonAssumableChoiceKind::PreferenceTradeoff => "a choice between trade-offs",
                NonAssumableChoiceKind::ScopeBoundary => "a choice about the scope",
                NonAssumableChoiceKind::IrreversibleAction => "a choice about an irreversible action",
                NonAssumableChoiceKind::ExternalSideEffect => "a choice about an effect that others see",
                NonAssumableChoiceKind::PolicyOrCompliance => "a choice about policy or compliance",
            },
        }
    }

    /// Whether the answer approves what the step did, in contrast to giving what it needs.
    pub const fn is_approval(&self) -> bool {
        matches!(self.reason, UserOnlyDependency::NeedsUserApproval)
    }

    /// Whether the answer needs words in addition to the decision.
    pub const fn needs_words(&self) -> bool {
        match self.reason {
            UserOnlyDependency::NeedsUserApproval | UserOnlyDependency::NeedsUserEnvironmentAction => false,
            UserOnlyDependency::NeedsUserSecretOrToken
            | UserOnlyDependency::NeedsUserAccountAccess
            | UserOnlyDependency::NeedsUserArtifact
            | UserOnlyDependency::NeedsUserChoice => true,
        }
    }

    /// A note for a person who answers directly.
    pub const fn caution_for_people(&self) -> &'static str {
        match self.reason {
            UserOnlyDependency::NeedsUserSecretOrToken => {
                "Do not enter the secret itself. Describe where the agent can find it. The answer is recorded."
            }
            UserOnlyDependency::NeedsUserAccountAccess
            | UserOnlyDependency::NeedsUserArtifact
            | UserOnlyDependency::NeedsUserApproval
            | UserOnlyDependency::NeedsUserEnvironmentAction
            | UserOnlyDependency::NeedsUserChoice => "",
        }
    }

    /// A note for the agent that asks.
    pub const fn caution(&self) -> &'static str {
        match self.reason {
            UserOnlyDependency::NeedsUserSecretOrToken => {
                "Never send the secret itself. The answer says where it is stored. "
            }
            _ => "",
        }
    }

    /// An example answer, with a placeholder for its words.
    pub fn example(&self) -> String {
        let by = match self.giver {
            Giver::User => "user",
            Giver::Coordinator => "coordinator",
        };
        canon::canonical::string_of(&json!({
            "kind": ANSWER_KIND, "dependencyId": self.id, "answeredBy": by, "outcome": "given",
            "answer": placeholder::ANSWER,
        }))
    }
}

/// What a step needs in this context, in the author's order, the confirmation last.
///
/// A condition that cannot be evaluated counts as one that holds, so that errors do not disable an approval.
pub fn needs<'s>(step: &'s Step, context: &Map<String, Value>) -> Vec<Need<'s>> {
    let holds = |when: &Option<_>| {
        when.as_ref().is_none_or(|condition| condition::evaluate(condition, context).unwrap_or(true))
    };
    let asked = step.user_dependencies.iter().filter(|dependency| holds(&dependency.condition));
    let asked = asked.map(|dependency| Need {
        id: &dependency.id,
        reason: dependency.reason,
        choice_kind: dependency.choice_kind,
        what: &dependency.what,
        giver: Giver::User,
    });
    let confirmation = step.require_confirmation.as_ref().filter(|needed| holds(&needed.condition));
    let confirmation = confirmation.map(|needed| {
        let (giver, what) = match needed.kind {
            ConfirmationKind::HumanApproval => (Giver::User, "explicit approval of this step's result."),
            ConfirmationKind::CoordinatorEval => (
                Giver::Coordinator,
                "explicit approval of this step's result by the coordinator or the user.",
            ),
        };
        let reason = UserOnlyDependency::NeedsUserApproval;
        Need { id: CONFIRMATION, reason, choice_kind: None, what, giver }
    });
    asked.chain(confirmation).collect()
}
