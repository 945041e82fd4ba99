//! Why something is shown, or not.
//!
//! ```
//! use composition::declare::{Contributions, Handle, Module, Route, Runtime, Workspace};
//! use composition::{Input, RuntimeStatus, explain};
//!
//! let contributions = Contributions::new().route(Route::new("home", "/lab", Handle::new("page", "lab")));
//! let runtime = Runtime::new(RuntimeStatus::Unauthorized);
//! let workspace = Workspace::new().module(Module::new("lab", "@example/lab", runtime, contributions));
//! let input = Input::declare(&workspace)?;
//!
//! let explanation = explain(&input, "lab:routes/home");
//! assert_eq!(
//!     explanation.to_string(),
//!     "lab:routes/home is not shown: its owner is unauthorized, and it is active only when ready\n  \
//!      declared by module \"lab\", @example/lab, as routes \"home\"\n  \
//!      status unauthorized; active when ready, the default of its kind",
//! );
//! # Ok::<(), composition::TooDeep>(())
//! ```

mod words;

use canon::nearest::nearest;
use serde::Serialize;

use crate::catalogue::{Catalogue, Rank};
use crate::compose::{Progress, run};
use crate::composition::ComposeOutcome;
use crate::contribution::{Activation, Body};
use crate::diagnostic::{Details, Diagnostic, Subject};
use crate::effect::Effect;
use crate::input::Input;
use crate::steps::s01_shape::{Operation, OperationKind};
use crate::steps::s07_gate::{self, Candidates};
use crate::vocabulary::{FallbackStatus, Key, RuntimeStatus, StatusSet};

/// The number of suggestions for an undeclared key.
const SIMILAR_KEYS: usize = 3;

/// Everything that decides whether a key is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation<'i> {
    pub key: &'i str,
    /// Whether the composition shows it.
    pub shown: bool,
    /// The main reason.
    pub verdict: Verdict<'i>,
    /// The declarations and their activation.
    pub declarations: Vec<Declaration<'i>>,
    /// The operations that name it, by id.
    pub operations: Vec<Mention<'i>>,
    /// The diagnostics about it.
    pub diagnostics: Vec<Diagnostic<'i>>,
}

/// Why a key is shown or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Verdict<'i> {
    /// It is shown at this position of its collection.
    Shown {
        collection: &'static str,
        /// The one-based position.
        place: usize,
        count: usize,
    },
    /// The runtime status of its module makes it inactive.
    Gated {
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<RuntimeStatus>,
    },
    /// An operation hides it.
    Hidden { policy_id: &'i str },
    /// An operation replaces it.
    Replaced { policy_id: &'i str, replacement: Key<'i> },
    /// An operation assigns its claim to another renderer.
    Overridden { policy_id: &'i str, selected: Key<'i> },
    /// Nothing is shown, because the input is invalid.
    Blocked {
        /// The number of diagnostics, including those about this key.
        diagnostics: usize,
    },
    /// It is not declared.
    Undeclared {
        /// Similar declared keys.
        similar: Vec<String>,
    },
    /// It is not a canonical key.
    NotAKey,
}

/// One declaration of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Declaration<'i> {
    /// The declaring owner and the contribution.
    pub subject: Subject<'i>,
    /// Its activation, if all declarations are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateFacts>,
}

/// The facts that decide whether a declaration is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateFacts {
    /// The status of the module; `None` for a built-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RuntimeStatus>,
    /// The statuses in which it is active; only for modules' contributions other than fallbacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_when: Option<StatusSet>,
    /// Whether the author set them, instead of the default of its kind.
    pub explicit: bool,
    /// The status that a fallback matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_for: Option<FallbackStatus>,
    /// Whether it is active.
    pub active: bool,
}

/// An operation that names a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mention<'i> {
    pub policy_id: &'i str,
    pub kind: &'static str,
    /// Its role: `target`, `anchor`, `replacement`, `use`, or `claim` for a renderer whose claim is reassigned.
    pub role: &'static str,
    /// Whether the operation had an effect.
    pub applied: bool,
}

/// Explains why `key` is shown in the composition of `input`, or not.
pub fn explain<'i>(input: &'i Input, key: &'i str) -> Explanation<'i> {
    let (outcome, reached) = run(input);
    let diagnostics: Vec<Diagnostic<'i>> =
        outcome.diagnostics.iter().filter(|diagnostic| concerns(diagnostic, key)).cloned().collect();
    let mut explanation = Explanation {
        key,
        shown: false,
        verdict: Verdict::NotAKey,
        declarations: Vec::new(),
        operations: mentions(&reached, key, &outcome.policy_effects),
        diagnostics,
    };
    let Some(parsed) = Key::parse(key) else { return explanation };
    explanation.declarations = declarations(&reached, parsed);
    explanation.verdict = verdict(&outcome, &reached, parsed, &explanation.declarations);
    explanation.shown = matches!(explanation.verdict, Verdict::Shown { .. });
    explanation
}

fn verdict<'i>(
    outcome: &ComposeOutcome<'i>,
    reached: &Progress<'i>,
    key: Key<'i>,
    declarations: &[Declaration<'i>],
) -> Verdict<'i> {
    if matches!(reached, Progress::Nothing) {
        return Verdict::Blocked { diagnostics: outcome.diagnostics.len() };
    }
    let Some(declaration) = declarations.first() else {
        return Verdict::Undeclared { similar: similar(reached, key) };
    };
    let Some(composition) = &outcome.composition else {
        return Verdict::Blocked { diagnostics: outcome.diagnostics.len() };
    };
    if let Some((index, _)) = composition.find(key) {
        let (collection, count) = (key.kind().collection(), composition.count(key.kind()));
        return Verdict::Shown { collection, place: index + 1, count };
    }
    let removed = outcome.policy_effects.iter().find_map(|effect| match effect {
        Effect::Hide { policy_id, target, .. } if *target == key => Some(Verdict::Hidden { policy_id }),
        Effect::Replace { policy_id, target, replacement } if *target == key => {
            Some(Verdict::Replaced { policy_id, replacement: *replacement })
        }
        Effect::RendererOverride { policy_id, selected, overridden, .. } if overridden.contains(&key) => {
            Some(Verdict::Overridden { policy_id, selected: *selected })
        }
        _ => None,
    });
    removed.unwrap_or(Verdict::Gated { status: declaration.gate.and_then(|gate| gate.status) })
}

fn declarations<'i>(reached: &Progress<'i>, key: Key<'i>) -> Vec<Declaration<'i>> {
    match reached {
        Progress::Nothing => Vec::new(),
        Progress::Declarations { sources, drafts, .. } => drafts
            .iter()
            .filter(|draft| draft.key == Some(key))
            .map(|draft| Declaration { subject: draft.subject(sources[draft.source].subject), gate: None })
            .collect(),
        Progress::Candidates { catalogue, candidates, .. } => catalogue
            .rank(key)
            .map(|rank| Declaration {
                subject: catalogue.subject(rank),
                gate: Some(gate_facts(catalogue, candidates, rank)),
            })
            .into_iter()
            .collect(),
    }
}

fn gate_facts(catalogue: &Catalogue<'_>, candidates: &Candidates, rank: Rank) -> GateFacts {
    let contribution = catalogue.get(rank);
    let status = catalogue.source(rank).runtime.as_ref().map(|runtime| runtime.status);
    let fallback_for = match contribution.body {
        Body::Fallback { status, .. } => Some(status),
        _ => None,
    };
    GateFacts {
        status,
        active_when: status.filter(|_| fallback_for.is_none()).map(|_| s07_gate::active_when(contribution)),
        explicit: matches!(contribution.activation, Activation::Explicit(_)),
        fallback_for,
        active: candidates.is_active(rank),
    }
}

/// The operations that name the key or reassign its claim.
fn mentions<'i>(reached: &Progress<'i>, key: &'i str, effects: &[Effect<'i>]) -> Vec<Mention<'i>> {
    let (operations, claim) = match reached {
        Progress::Nothing => return Vec::new(),
        Progress::Declarations { drafts, operations, .. } => {
            let drafts = || drafts.iter().filter(|draft| draft.kind.renderer_kind().is_some());
            let claim = Key::parse(key).and_then(|key| drafts().find(|draft| draft.key == Some(key))?.judged);
            (operations, claim)
        }
        Progress::Candidates { catalogue, operations, .. } => {
            let rank = Key::parse(key).and_then(|key| catalogue.rank(key));
            (operations, rank.and_then(|rank| catalogue.get(rank).body.claim()))
        }
    };
    let mut mentions: Vec<Mention<'i>> = operations
        .iter()
        .flat_map(|operation| {
            roles(operation, key, claim).into_iter().flatten().map(|(kind, role)| Mention {
                policy_id: operation.id,
                kind,
                role,
                applied: effects.iter().any(|effect| effect.policy_id() == operation.id),
            })
        })
        .collect();
    mentions.sort_unstable_by_key(|mention| (mention.policy_id, mention.role));
    mentions
}

fn roles(
    operation: &Operation<'_>,
    key: &str,
    claim: Option<&str>,
) -> [Option<(&'static str, &'static str)>; 2] {
    let named = |text: &str, kind, role| (text == key).then_some((kind, role));
    match operation.kind {
        OperationKind::Hide { target } => [named(target, "hide", "target"), None],
        OperationKind::PathAlias { target, .. } => [named(target, "pathAlias", "target"), None],
        OperationKind::Replace { target, replacement } => {
            [named(target, "replace", "target"), named(replacement, "replace", "replacement")]
        }
        OperationKind::Reorder { target, place } => [
            named(target, "reorder", "target"),
            place.anchor().and_then(|anchor| named(anchor, "reorder", "anchor")),
        ],
        OperationKind::RendererOverride { claim: overridden, used } => {
            const KIND: &str = "rendererOverride";
            let given_away = claim == Some(overridden) && used != key;
            [named(used, KIND, "use"), given_away.then_some((KIND, "claim"))]
        }
    }
}

/// Whether a diagnostic has the key in its subjects or facts.
fn concerns(diagnostic: &Diagnostic<'_>, key: &str) -> bool {
    let names = |text: &str| text == key;
    let written = |other: &Key<'_>| Key::parse(key).is_some_and(|key| key == *other);
    diagnostic.subjects().iter().filter_map(|subject| subject.key.as_ref()).any(written)
        || match diagnostic.details() {
            Details::Policy(fault) => names(&fault.target) || fault.used.is_some_and(names),
            Details::Reference { reference, .. } => names(reference),
            _ => false,
        }
}

fn similar(reached: &Progress<'_>, key: Key<'_>) -> Vec<String> {
    let declared: Vec<Key<'_>> = match reached {
        Progress::Nothing => Vec::new(),
        Progress::Declarations { drafts, .. } => drafts.iter().filter_map(|draft| draft.key).collect(),
        Progress::Candidates { catalogue, .. } => {
            catalogue.iter().map(|contribution| contribution.key).collect()
        }
    };
    // Keys with the same kind or owner are the most likely intention.
    let related =
        declared.iter().filter(|other| other.kind() == key.kind() || other.owner_id() == key.owner_id());
    nearest(&key.to_string(), related.map(Key::to_string), SIMILAR_KEYS)
}
