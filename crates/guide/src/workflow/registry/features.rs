//! Features: working rules that a workflow enables for all of its steps.

/// A set of working rules. The compiler adds its items to the blocks of every step with prompt blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The id, `wr.features.…`.
    pub id: &'static str,
    /// A description for authors.
    pub summary: &'static str,
    /// What it adds to `constraints`.
    pub constraints: &'static [FeatureItem],
    /// What it adds to `procedure`.
    pub procedure: &'static [FeatureItem],
    /// What it adds to `verify`.
    pub verify: &'static [FeatureItem],
}

/// What a feature adds to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureItem {
    Text(&'static str),
    /// The reference text of this id.
    Ref(&'static str),
}

impl Feature {
    /// Everything it adds, block by block.
    pub fn items(&self) -> impl Iterator<Item = FeatureItem> {
        [self.constraints, self.procedure, self.verify].into_iter().flatten().copied()
    }
}

use FeatureItem::{Ref, Text};

const FEATURES: [Feature; 6] = [
    Feature {
        id: "wr.features.capabilities",
        summary: "Test optional capabilities before relying on them, continue without them openly, and record why.",
        constraints: &[Text(
            "An ability you have not tried in this session (starting other agents, reading the web) is unknown, \
             not available.",
        )],
        procedure: &[Text(
            "Where the step would be better with such an ability, try it once. If it fails, do the work without it, \
             and add an artifact of kind `wr.capability_observation` that says what was tried and what came back.",
        )],
        verify: &[Text("What could not be done for want of an ability is named in the notes.")],
    },
    Feature {
        id: "wr.features.durable_recap_guidance",
        summary: "Notes that another agent can continue from.",
        constraints: &[Ref("wr.refs.notes_first_durability")],
        procedure: &[],
        verify: &[Text(
            "A reader of the notes alone could tell what was found, what was decided, and what comes next.",
        )],
    },
    Feature {
        id: "wr.features.memory_context",
        summary: "Query the client's memory first, and store what was learned.",
        constraints: &[],
        procedure: &[Ref("wr.refs.memory_usage")],
        verify: &[],
    },
    Feature {
        id: "wr.features.mode_guidance",
        summary: "Follow the autonomy of the run: when to ask, when to continue.",
        constraints: &[Text(
            "Follow the autonomy shown with this step. `guided`: ask the user when a choice is theirs, and wait. \
             `full_auto_stop_on_user_deps`: decide yourself, and stop only for what nobody but the user has. \
             `full_auto_never_stop`: do not wait; take the choice that is easiest to undo, and write down what \
             was assumed and what it would change.",
        )],
        procedure: &[],
        verify: &[],
    },
    Feature {
        id: "wr.features.output_contracts",
        summary: "Artifacts in the form that their contract requires, filled from evidence.",
        constraints: &[Text(
            "Where the step asks for an artifact, it goes into `output.artifacts` as a JSON object with exactly \
             the members of its contract; prose goes into the notes.",
        )],
        procedure: &[],
        verify: &[Text("Every value of the artifact is backed by something in the notes.")],
    },
    Feature {
        id: "wr.features.subagent_guidance",
        summary: "Helpers gather; the main caller concludes.",
        constraints: &[Text(
            "You own the conclusion of this step. What a helper reports is evidence to check, and a helper never \
             calls the tools of this run.",
        )],
        procedure: &[Text(
            "If you hand out work: start the helpers in one go, give each the facts it needs, one question and the \
             form of the answer, and read every answer before you conclude.",
        )],
        verify: &[Text("Claims of helpers that the result rests on were checked against their source.")],
    },
];

/// All features, sorted by id.
pub const fn features() -> &'static [Feature] {
    &FEATURES
}

/// The feature of an id such as `wr.features.capabilities`.
pub fn feature(id: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::registry::{SNIPPET_BYTES, reference_text};

    #[test]
    fn features_are_sorted_and_their_items_resolve_within_budget() {
        assert!(FEATURES.is_sorted_by(|one, other| one.id < other.id));
        for each in features() {
            assert!(each.id.starts_with("wr.features."), "{}", each.id);
            assert_eq!(feature(each.id), Some(each));
            assert!(each.items().next().is_some(), "{} adds nothing", each.id);
            let texts = each.items().map(|item| match item {
                Text(text) => text,
                Ref(id) => reference_text(id).unwrap_or_else(|| panic!("{} cites {id}", each.id)),
            });
            let bytes: usize = texts.map(str::len).sum();
            assert!(bytes <= SNIPPET_BYTES, "{} adds {bytes} bytes to every step", each.id);
        }
        assert_eq!(feature("wr.features.unheard_of"), None);
    }
}
