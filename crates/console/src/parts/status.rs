//! The status of a run or node: a colour and always a word.

use maud::{Markup, html};

pub(crate) fn status(state: &str) -> Markup {
    html! { span class={ "status " (tone(state)) } { (status_word(state)) } }
}

pub(crate) fn status_word(state: &str) -> String {
    state.replace(['-', '_'], " ")
}

/// The CSS class of a status, from a closed set for any input.
pub(crate) fn tone(state: &str) -> &'static str {
    match state {
        "completed" | "ready" | "complete" | "valid" | "clean" | "passed" | "verified" => "good",
        "failed" | "error" | "invalid" | "refuted" | "damaged" | "broken" | "critical" => "bad",
        "running" | "cancelling" | "active" | "in_progress" => "busy",
        "waiting-approval" | "waiting-input" | "waiting-external" | "suspended" | "blocked"
        | "needsConfiguration" | "unauthorized" | "complete_with_gaps" | "gap" | "open" | "changed"
        | "added" | "removed" | "dirty" | "warning" | "after restart" => "wait",
        "paused" | "readOnly" => "held",
        _ => "calm",
    }
}
