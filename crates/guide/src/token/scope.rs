//! Two workflows in one conversation: the error that sorts their tokens out.
//!
//! An agent that follows two workflows at once sooner or later sends the state of one with the
//! acknowledgement of the other. "Mismatch" alone would leave it guessing; so the error names
//! both runs in words, and hands back the exact call to make for each.

use canon::{budget, canonical, error::Envelope};
use serde_json::{Value, json};

use super::TokenErrorCode;

/// The most bytes of a workflow's name in the message.
const NAME_BYTES: usize = 120;
/// The most bytes of a goal in the message. It is there to be recognised, not to be read.
const GOAL_BYTES: usize = 240;
/// The most canonical bytes of a call that is handed back: more cannot be the call we would make.
const CALL_BYTES: usize = 3072;

/// A run in words, and the call that goes on with it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDescription {
    /// What the workflow is called.
    pub workflow: String,
    /// What the run is for.
    pub goal: String,
    /// The pending step, from 1.
    pub step: u32,
    /// How many steps there are.
    pub steps: u32,
    /// The exact call, for example
    /// `{"tool": "continue_workflow", "params": {"continueToken": "ct_…", "intent": "advance"}}`.
    pub call: Value,
}

impl RunDescription {
    /// The run in words: `"Review a change" (goal: check the parser), step 2 of 5`.
    pub fn words(&self) -> String {
        let workflow = line(&self.workflow, NAME_BYTES);
        let goal = line(&self.goal, GOAL_BYTES);
        format!("\"{workflow}\" (goal: {goal}), step {} of {}", self.step, self.steps)
    }

    /// The call, unless somebody made it larger than a call is.
    fn call(&self) -> Option<(String, &Value)> {
        let shallow = canon::json::within_depth(&self.call, canon::error::MAX_DETAIL_DEPTH - 1);
        let text = shallow.then(|| canonical::string_of(&self.call))?;
        (text.len() <= CALL_BYTES).then_some((text, &self.call))
    }

    fn detail(&self) -> Value {
        json!({
            "workflow": line(&self.workflow, NAME_BYTES),
            "goal": line(&self.goal, GOAL_BYTES),
            "step": self.step,
            "steps": self.steps,
            "call": self.call().map(|(_, call)| call),
        })
    }
}

/// The error for tokens of two runs in one call.
///
/// The calls are in the suggestion, for models, and in `details.first.call` and
/// `details.second.call`, for programs.
pub fn scope_mismatch(first: &RunDescription, second: &RunDescription) -> Envelope {
    let message = format!(
        "The tokens of this call belong to two runs. The first belongs to {}. The second belongs to {}. \
         Nothing was changed.",
        first.words(),
        second.words()
    );
    let call = |run: &RunDescription| match run.call() {
        Some((text, _)) => text,
        None => "`resume_session`, to get a fresh token".to_owned(),
    };
    let suggestion = format!(
        "Never mix tokens of two replies. To go on with the first run call {}\nTo go on with the second run call {}",
        call(first),
        call(second)
    );
    Envelope::new(TokenErrorCode::ScopeMismatch, message)
        .suggest(suggestion)
        .detail("first", first.detail())
        .detail("second", second.detail())
}

/// `text` on one line, within a budget.
fn line(text: &str, max_bytes: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() <= max_bytes {
        return text;
    }
    // A mark for one line; the usual one has line ends.
    let cut = budget::truncate(&text, max_bytes);
    format!("{}…", cut.strip_suffix(budget::TRUNCATION_MARKER).unwrap_or(&cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(workflow: &str, token: &str) -> RunDescription {
        RunDescription {
            workflow: workflow.into(),
            goal: "check the\nparser".into(),
            step: 2,
            steps: 5,
            call: json!({"tool": "continue_workflow", "params": {"continueToken": token, "intent": "advance"}}),
        }
    }

    #[test]
    fn both_runs_are_named_and_both_calls_are_handed_back() {
        let (first, second) = (run("Review a change", "ct_one"), run("Write documentation", "ct_two"));
        let envelope = scope_mismatch(&first, &second);
        assert_eq!(envelope.code(), "TOKEN_SCOPE_MISMATCH");
        assert_eq!(
            envelope.message(),
            "The tokens of this call belong to two runs. The first belongs to \"Review a change\" (goal: \
             check the parser), step 2 of 5. The second belongs to \"Write documentation\" (goal: check the \
             parser), step 2 of 5. Nothing was changed."
        );
        for run in [&first, &second] {
            assert!(envelope.suggestion().contains(&canonical::string_of(&run.call)), "{envelope}");
        }
        assert_eq!(envelope.details()["first"]["call"], first.call);
        assert_eq!(envelope.details()["second"]["call"], second.call);
    }

    #[test]
    fn a_giant_description_still_gives_both_runs() {
        let mut first = run(&"wide ".repeat(10_000), "ct_one");
        first.goal = "é".repeat(10_000);
        let mut second = run("Small", "ct_two");
        second.call = json!({"tool": "x".repeat(10_000)});
        let envelope = scope_mismatch(&first, &second);
        assert_eq!(envelope.details()["first"]["call"], first.call);
        assert_eq!(envelope.details()["second"]["call"], Value::Null);
        assert!(envelope.suggestion().contains("resume_session"), "{envelope}");
        assert!(envelope.message().contains("\"Small\""), "{envelope}");
    }
}
