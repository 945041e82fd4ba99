//! Texts that prompt blocks cite by id.

/// A text that a prompt block may cite as `{"kind": "ref", "refId": …}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceText {
    /// The id, `wr.refs.…`.
    pub id: &'static str,
    pub text: &'static str,
}

const REFERENCES: [ReferenceText; 7] = [
    ReferenceText {
        id: "wr.refs.adversarial_challenge_rules",
        text: "Challenge the leading answer as if you wanted it to be wrong. State the strongest case against it, \
               the observation that would refute it, and the cheapest way to make that observation; then make it. \
               Attack the evidence, not the wording. A challenge counts when it names a file, an input, a run or \
               a measurement; \"could be a problem\" does not count. End with one of: refuted, weakened (say how \
               far), or survived (say what was tried).",
    },
    ReferenceText {
        id: "wr.refs.memory_query",
        text: "Before you explore, ask the memory you have (project notes, a memory tool, earlier session notes) \
               two questions: what is known about this part of the code, and what was decided about it. Search by \
               the names that occur in the task: modules, error texts, ticket ids. Treat an answer as a lead: \
               check it against the current files before you rely on it, and say where it came from.",
    },
    ReferenceText {
        id: "wr.refs.memory_store",
        text: "Store what the next person would otherwise have to find out again: a decision with its reason, a \
               constraint that the code does not show, a command that works, a trap and how it shows. One fact \
               each, with the path or id it is about and the date. Store nothing secret, nothing that a look at \
               the code answers, and nothing you have not verified.",
    },
    ReferenceText {
        id: "wr.refs.memory_usage",
        text: "If this client has a memory (a memory tool, or notes kept in the repository), query it before \
               exploring and store what was learnt before handing off. Memory is a lead, not a proof: confirm it \
               in the current files. If there is no memory, go on without it and say so once.",
    },
    ReferenceText {
        id: "wr.refs.notes_first_durability",
        text: "The notes of a step are what survives: this conversation may end after any call, and whoever \
               resumes sees the notes and nothing else. Write what was found, what was decided and why, and what \
               is left open, with paths, commands and their results. Notes belong to this step alone; do not \
               repeat earlier ones. If it is not in the notes, it did not happen.",
    },
    ReferenceText {
        id: "wr.refs.parallelize_cognition_serialize_synthesis",
        text: "Independent looks at a question may run side by side; conclusions may not. Give each helper the \
               same facts, one question, and the form of the answer, and let none see another's answer. Then one \
               reader, you, takes the answers one at a time, checks the claims that matter against the source, \
               and writes the single conclusion. Never paste answers together, and never take a vote.",
    },
    ReferenceText {
        id: "wr.refs.synthesis_under_disagreement",
        text: "When sources or helpers disagree, do not average and do not pick the most confident. Write down \
               the exact point of difference, the evidence each side has, and what would decide it; then go and \
               look. If it cannot be decided now, keep both answers, say which one you act on and why, and what \
               it would cost if that is wrong. Agreement without evidence is one opinion, however many share it.",
    },
];

/// All reference texts, sorted by id.
pub const fn references() -> &'static [ReferenceText] {
    &REFERENCES
}

/// The ids of all reference texts, sorted.
pub fn reference_ids() -> impl Iterator<Item = &'static str> {
    REFERENCES.iter().map(|reference| reference.id)
}

/// The text of an id such as `wr.refs.memory_usage`.
pub fn reference_text(id: &str) -> Option<&'static str> {
    REFERENCES.iter().find(|reference| reference.id == id).map(|reference| reference.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::registry::SNIPPET_BYTES;

    #[test]
    fn references_are_sorted_one_paragraph_each_and_within_their_budget() {
        assert!(REFERENCES.is_sorted_by(|one, other| one.id < other.id));
        for ReferenceText { id, text } in REFERENCES {
            assert!(id.starts_with("wr.refs."), "{id}");
            assert!(!text.is_empty() && text.len() <= SNIPPET_BYTES, "{id} has {} bytes", text.len());
            assert!(!text.contains(['\n', '{']), "{id} is one paragraph, and cites nothing itself");
            assert_eq!(reference_text(id), Some(text));
        }
        assert_eq!(reference_ids().count(), REFERENCES.len());
        assert_eq!(reference_text("wr.refs.unheard_of"), None);
    }
}
