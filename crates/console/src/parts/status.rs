//! The state of a run or a node: a colour, and always a word.

use maud::{Markup, html};

/// A state as it is shown.
pub(crate) fn status(state: &str) -> Markup {
    html! { span class={ "status " (tone(state)) } { (status_word(state)) } }
}

/// The word for a state.
pub(crate) fn status_word(state: &str) -> String {
    state.replace(['-', '_'], " ")
}

/// The class of a state: a closed set, whatever the state says.
pub(crate) fn tone(state: &str) -> &'static str {
    match state {
        "completed" | "ready" | "complete" | "valid" | "clean" | "passed" => "good",
        "failed" | "error" | "invalid" | "damaged" | "broken" | "critical" => "bad",
        "running" | "cancelling" | "active" | "in_progress" => "busy",
        "waiting-approval" | "waiting-input" | "waiting-external" | "suspended" | "blocked"
        | "needsConfiguration" | "unauthorized" | "complete_with_gaps" | "gap" | "open" | "changed"
        | "added" | "removed" | "dirty" | "warning" | "after restart" => "wait",
        "paused" | "readOnly" => "held",
        _ => "calm",
    }
}
