//! What a step needs that whoever does it cannot give: the user's answer.
//!
//! An author says so with `userDependencies` and `requireConfirmation`. Both mean the same thing to a
//! run: the step is not taken before the answer is there, unless the run never stops, which then
//! discloses what it went on without.

use serde_json::{Map, Value, json};

use super::compiled::{ConfirmationKind, Step};
use super::condition;
use crate::placeholder;
use crate::record::{Autonomy, NonAssumableChoiceKind, UserOnlyDependency};

/// The kind of the artifact that answers a need.
pub const ANSWER_KIND: &str = "wr.user_answer";
/// The id of the need that `requireConfirmation` makes.
pub const CONFIRMATION: &str = "confirmation";

/// One thing that a step needs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'s> {
    /// What an answer calls it.
    pub id: &'s str,
    /// What kind of thing it is.
    pub reason: UserOnlyDependency,
    /// Why a choice is the user's.
    pub choice_kind: Option<NonAssumableChoiceKind>,
    /// What to ask for; may cite the context.
    pub what: &'s str,
    /// Who can give it.
    pub giver: Giver,
}

/// Who can give what a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giver {
    /// The user, and nobody else.
    User,
    /// Whoever coordinates the run, or the user.
    Coordinator,
}

impl Need<'_> {
    /// Whether a run of this autonomy stops for it.
    ///
    /// A guided run stops for every need. One that stops only where the user alone can help
    /// coordinates itself, and so goes on without an evaluation that its coordinator may give.
    pub const fn stops(&self, autonomy: Autonomy) -> bool {
        match autonomy {
            Autonomy::Guided => true,
            Autonomy::FullAutoStopOnUserDeps => matches!(self.giver, Giver::User),
            Autonomy::FullAutoNeverStop => false,
        }
    }

    /// What kind of thing it is, in words.
    pub const fn kind(&self) -> &'static str {
        match (self.reason, self.choice_kind) {
            (UserOnlyDependency::NeedsUserSecretOrToken, _) => "a secret or token",
            (UserOnlyDependency::NeedsUserAccountAccess, _) => "access to an account",
            (UserOnlyDependency::NeedsUserArtifact, _) => "a file or other artifact",
            (UserOnlyDependency::NeedsUserApproval, _) => "approval",
            (UserOnlyDependency::NeedsUserEnvironmentAction, _) => "something done on the user's machine",
            (UserOnlyDependency::NeedsUserChoice, None) => "a choice",
            (UserOnlyDependency::NeedsUserChoice, Some(kind)) => match kind {
                NonAssumableChoiceKind::PreferenceTradeoff => "a choice between trade-offs",
                NonAssumableChoiceKind::ScopeBoundary => "a choice about the scope",
                NonAssumableChoiceKind::IrreversibleAction => "a choice about what cannot be taken back",
                NonAssumableChoiceKind::ExternalSideEffect => "a choice about what others will see",
                NonAssumableChoiceKind::PolicyOrCompliance => "a choice about policy or compliance",
            },
        }
    }

    /// Whether the decision alone does not answer it.
    pub const fn needs_words(&self) -> bool {
        match self.reason {
            UserOnlyDependency::NeedsUserApproval | UserOnlyDependency::NeedsUserEnvironmentAction => false,
            UserOnlyDependency::NeedsUserSecretOrToken
            | UserOnlyDependency::NeedsUserAccountAccess
            | UserOnlyDependency::NeedsUserArtifact
            | UserOnlyDependency::NeedsUserChoice => true,
        }
    }

    /// What a person has to keep in mind who answers it themselves.
    pub const fn caution_for_people(&self) -> &'static str {
        match self.reason {
            UserOnlyDependency::NeedsUserSecretOrToken => {
                "Do not type the secret itself: say where the agent finds it. The answer is recorded."
            }
            UserOnlyDependency::NeedsUserAccountAccess
            | UserOnlyDependency::NeedsUserArtifact
            | UserOnlyDependency::NeedsUserApproval
            | UserOnlyDependency::NeedsUserEnvironmentAction
            | UserOnlyDependency::NeedsUserChoice => "",
        }
    }

    /// What has to be kept in mind when asking for it.
    pub const fn caution(&self) -> &'static str {
        match self.reason {
            UserOnlyDependency::NeedsUserSecretOrToken => {
                "Never send the secret itself: the answer says where it is. "
            }
            _ => "",
        }
    }

    /// An answer, for pasting; its words are still to be filled in.
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
/// A condition that cannot be evaluated counts as one that holds: a lock fails shut.
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
            ConfirmationKind::HumanApproval => {
                (Giver::User, "an explicit yes to what this step comes to, before it counts as done.")
            }
            ConfirmationKind::CoordinatorEval => (
                Giver::Coordinator,
                "an explicit yes of whoever coordinates the run, or of the user, to what this step comes to.",
            ),
        };
        let reason = UserOnlyDependency::NeedsUserApproval;
        Need { id: CONFIRMATION, reason, choice_kind: None, what, giver }
    });
    asked.chain(confirmation).collect()
}
