//! Tags: help a caller who knows the task to find a workflow.

use super::workflows::{BundledWorkflow, bundled};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The id, as used in filters.
    pub id: &'static str,
    pub display_name: &'static str,
    /// Situations in which a workflow with this tag is useful.
    pub when: &'static [&'static str],
}

impl Tag {
    /// The bundled workflows with this tag, sorted by id.
    pub fn workflows(&self) -> impl Iterator<Item = &'static BundledWorkflow> {
        let id = self.id;
        bundled().iter().filter(move |workflow| workflow.tags.contains(&id))
    }
}

const TAGS: [Tag; 9] = [
    Tag {
        id: "coding",
        display_name: "Coding",
        when: &[
            "you are about to change code and want it planned, tested and handed over",
            "a change is too large or too risky to make in one go",
            "the structure or the tests of code have to get better",
        ],
    },
    Tag {
        id: "review_audit",
        display_name: "Review and audit",
        when: &[
            "a diff, a branch or a pull request needs a verdict",
            "you want to know what a change breaks",
            "an architecture or a user interface needs a verdict",
        ],
    },
    Tag {
        id: "investigation",
        display_name: "Investigation",
        when: &[
            "something fails and the reason is not known",
            "users are affected and the damage has to be limited",
            "a question or a claim has to be settled with evidence",
        ],
    },
    Tag {
        id: "design",
        display_name: "Design",
        when: &["there are several ways to build it", "a decision will be expensive to reverse"],
    },
    Tag {
        id: "documentation",
        display_name: "Documentation",
        when: &[
            "readers need a guide, a reference or an explanation",
            "existing documents no longer match the code",
        ],
    },
    Tag {
        id: "tickets",
        display_name: "Tickets",
        when: &["a vague request has to become work that can be picked up"],
    },
    Tag {
        id: "learning",
        display_name: "Learning",
        when: &["you are new to a codebase, or to a part of it"],
    },
    Tag {
        id: "routines",
        display_name: "Routines",
        when: &["you want one piece of a larger workflow, for instance to hand it to another agent"],
    },
    Tag { id: "authoring", display_name: "Authoring", when: &["you want to write or improve a workflow"] },
];

/// All tags, in display order.
pub const fn tags() -> &'static [Tag] {
    &TAGS
}

/// The tag of an id such as `review_audit`.
pub fn tag(id: &str) -> Option<&'static Tag> {
    TAGS.iter().find(|tag| tag.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_leads_to_a_workflow_and_every_workflow_has_a_known_tag() {
        for each in tags() {
            assert!(each.workflows().next().is_some(), "nothing carries {}", each.id);
            assert!(!each.when.is_empty(), "{}", each.id);
        }
        for workflow in bundled() {
            assert!(!workflow.tags.is_empty(), "{}", workflow.id);
            for id in workflow.tags {
                assert!(tag(id).is_some(), "{} carries the unknown tag {id}", workflow.id);
            }
        }
    }
}
