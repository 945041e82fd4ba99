//! JSON values in readable form, with bounded size.

use canon::budget;
use maud::{Markup, Render as _, html};
use serde_json::Value;

/// The default limit, in bytes.
const MAX_SHOWN: usize = 4 << 10;
/// The limit for the main value of a page, in bytes.
const MAX_WHOLE: usize = 48 << 10;

/// The limit for a value that repeats the main value of a page, in bytes.
const MAX_BESIDE: usize = 16 << 10;

/// An indented value, truncated with a note if it is long.
pub(crate) fn json(value: &Value) -> Markup {
    cut(value, MAX_SHOWN)
}

/// The main value of a page, indented.
pub(crate) fn json_whole(value: &Value) -> Markup {
    cut(value, MAX_WHOLE)
}

/// A secondary value, indented.
pub(crate) fn json_beside(value: &Value) -> Markup {
    cut(value, MAX_BESIDE)
}

fn cut(value: &Value, max: usize) -> Markup {
    let text = match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    html! { pre.json tabindex="0" { (excerpt(&text, max)) } }
}

/// The beginning of a text: at most `max` bytes, and at most half as many more after escaping.
pub(crate) fn excerpt(text: &str, max: usize) -> Markup {
    let mut kept = max;
    loop {
        let shown = budget::truncate(text, kept).render();
        if shown.0.len() <= max + max / 2 || kept < 64 {
            return shown;
        }
        kept /= 2;
    }
}

/// A value in one short line.
pub(crate) fn json_line(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    super::cut(&text, 120)
}
