//! Values as people read them, never larger than a page can be.

use canon::budget;
use maud::{Markup, Render as _, html};
use serde_json::Value;

/// What is shown of one value, in bytes.
const MAX_SHOWN: usize = 4 << 10;
/// What is shown of a value that the page is about, in bytes.
const MAX_WHOLE: usize = 48 << 10;

/// What is shown of a value that says again what the page is about, in bytes.
const MAX_BESIDE: usize = 16 << 10;

/// A value, indented. A long one is cut, and says so.
pub(crate) fn json(value: &Value) -> Markup {
    cut(value, MAX_SHOWN)
}

/// A value that the page is about, indented.
pub(crate) fn json_whole(value: &Value) -> Markup {
    cut(value, MAX_WHOLE)
}

/// A value beside what the page is about, indented.
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

/// The beginning of a text, of at most `max` bytes, and of at most half as many more once it is escaped.
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

/// A value in one line, short.
pub(crate) fn json_line(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    super::cut(&text, 120)
}
