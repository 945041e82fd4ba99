//! The error for tokens of two different runs, or of two positions of one run, in one call.
//!
//! An agent that follows two workflows at once may send the state token of one with the acknowledgement token
//! of the other. So the error describes both runs and contains the exact next call for each.

use canon::{budget, canonical, error::Envelope};
use serde_json::{Value, json};

use super::TokenErrorCode;

/// The maximum bytes of a workflow's name in the message.
const NAME_BYTES: usize = 120;
/// The maximum bytes of a goal in the message: enough to recognize it.
const GOAL_BYTES: usize = 240;
/// The maximum canonical bytes of a returned call. A larger one cannot be a call that this program would
/// create.
const CALL_BYTES: usize = 3072;

/// A run and the call that continues it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDescription {
    /// The name of the workflow.
    pub workflow: String,
    pub goal: String,
    /// The one-based number of the pending step.
    pub step: u32,
    /// The number of steps.
    pub steps: u32,
    /// The exact call, for example
    /// `{"tool": "continue_workflow", "params": {"continueToken": "ct_…", "intent": "advance"}}`.
    pub call: Value,
}

impl RunDescription {
    /// A description of the run: `"Review a change" (goal: check the parser), step 2 of 5`.
    pub fn words(&self) -> String {
        format!("{}, step {} of {}", self.title(), self.step, self.steps)
    }

    /// The workflow and the goal: `"Review a change" (goal: check the parser)`.
    fn title(&self) -> String {
        let workflow = line(&self.workflow, NAME_BYTES);
        let goal = line(&self.goal, GOAL_BYTES);
        format!("\"{workflow}\" (goal: {goal})")
    }

    fn position(&self) -> Value {
        json!({"step": self.step, "steps": self.steps})
    }

    /// The call, unless it is too large.
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
/// The calls are in the suggestion, for models, and in `details.first.call` and `details.second.call`, for
/// programs.
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
        "Never mix tokens of two replies. To continue the first run, call {}\nTo continue the second run, call {}",
        call(first),
        call(second)
    );
    Envelope::new(TokenErrorCode::ScopeMismatch, message)
        .suggest(suggestion)
        .detail("first", first.detail())
        .detail("second", second.detail())
}

/// The error for tokens of two positions of one run in one call. The call returns the latest position of the run: to
/// advance from either of the two would start another branch.
pub fn position_mismatch(first: &RunDescription, second: &RunDescription, latest: &Value) -> Envelope {
    let at = |run: &RunDescription| format!("step {} of {}", run.step, run.steps);
    let message = format!(
        "The tokens of this call belong to two positions of one run, {}: the first to {}, the second to {}. Nothing was \
         changed.",
        first.title(),
        at(first),
        at(second)
    );
    let suggestion = format!(
        "Send the tokens of one reply together. To get the latest step of the run with new tokens, call {}",
        canonical::string_of(latest)
    );
    Envelope::new(TokenErrorCode::ScopeMismatch, message)
        .suggest(suggestion)
        .detail("first", first.position())
        .detail("second", second.position())
        .detail("nextCall", latest.clone())
}

/// `text` on one line, within a budget.
fn line(text: &str, max_bytes: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() <= max_bytes {
        return text;
    }
    // A one-line marker; the usual one contains line ends.
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
    fn both_runs_are_described_with_their_calls() {
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

    /// Bug 8: tokens of one run are not called tokens of two, and no call that forks is offered.
    #[test]
    fn two_positions_of_one_run_are_described_with_the_call_to_its_latest() {
        let (first, second) = (
            run("Review a change", "ct_one"),
            RunDescription { step: 4, ..run("Review a change", "ct_two") },
        );
        let latest = json!({"tool": "continue_workflow", "params": {"continueToken": "ct_now", "intent": "rehydrate"}});
        let envelope = position_mismatch(&first, &second, &latest);
        assert_eq!(envelope.code(), "TOKEN_SCOPE_MISMATCH");
        assert_eq!(
            envelope.message(),
            "The tokens of this call belong to two positions of one run, \"Review a change\" (goal: check the parser): the \
             first to step 2 of 5, the second to step 4 of 5. Nothing was changed."
        );
        assert!(envelope.suggestion().ends_with(&canonical::string_of(&latest)), "{envelope}");
        assert!(!envelope.to_string().contains("advance"), "{envelope}");
        assert_eq!(envelope.details()["nextCall"], latest);
        assert_eq!(envelope.details()["second"], json!({"step": 4, "steps": 5}));
    }

    #[test]
    fn a_very_long_description_still_shows_both_runs() {
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
