//! Removes secrets from the metadata of a module.
//!
//! This must happen before composition, because the kernel copies the runtime unchanged.

use serde_json::{Map, Value, json};

use super::Finding;

const MAX_MESSAGE: usize = 500;
/// The limit for `data`, in bytes of JSON.
const MAX_DATA: usize = 16 << 10;
const MAX_ACTIONS: usize = 8;
/// The replacement for secrets.
const MARK: &str = "[redacted]";

/// Substrings of names that hold secrets.
const SECRET_NAMES: &[&str] = &[
    "secret",
    "token",
    "password",
    "authorization",
    "cookie",
    "apikey",
    "api-key",
    "api_key",
    "credential",
    "privatekey",
    "private-key",
    "private_key",
];

/// The message without secrets, truncated to the limit.
pub(super) fn text(text: &str) -> String {
    let clean = clean(text).unwrap_or_else(|| text.to_owned());
    match clean.char_indices().nth(MAX_MESSAGE) {
        None => clean,
        Some((end, _)) => format!("{}…", &clean[..end]),
    }
}

pub(super) fn message(module: &str, message: &str, findings: &mut Vec<Finding>) -> String {
    if clean(message).is_some() {
        findings.push(Finding::unredacted(module, "runtime.message", "value"));
    }
    text(message)
}

pub(super) fn data(module: &str, data: &Value, findings: &mut Vec<Finding>) -> Value {
    let mut data = data.clone();
    if let Some(rule) = scrub(&mut data) {
        findings.push(Finding::unredacted(module, "runtime.data", rule));
    }
    let is_small = serde_json::to_vec(&data).is_ok_and(|bytes| bytes.len() <= MAX_DATA);
    if is_small { data } else { json!({"truncated": true}) }
}

/// The actions that are safe to show. `open` may target a route or an address that cannot run code.
pub(super) fn actions(module: &str, declared: Option<&Value>, findings: &mut Vec<Finding>) -> Vec<Value> {
    let Some(list) = declared.and_then(Value::as_array) else { return Vec::new() };
    let mut kept = Vec::new();
    for action in list.iter().take(MAX_ACTIONS) {
        let href = action.pointer("/data/href");
        if href.is_some_and(|href| !href.as_str().is_some_and(is_safe_href)) {
            let id = action.get("id").and_then(Value::as_str).unwrap_or("without an id");
            findings.push(Finding::unsafe_action(module, id));
            continue;
        }
        let mut action = action.clone();
        if let Some(rule) = scrub(&mut action) {
            findings.push(Finding::unredacted(module, "runtime.actions", rule));
        }
        kept.push(action);
    }
    kept
}

/// Whether an address is safe as a link: https, or a path of this host.
pub(crate) fn is_safe_href(href: &str) -> bool {
    let is_plain = !href.chars().any(|found| found.is_control() || found.is_whitespace() || found == '\\');
    let is_path = href.starts_with('/') && !href.starts_with("//");
    is_plain && (is_path || href.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")))
}

/// Redacts secrets and reports which rule matched.
fn scrub(value: &mut Value) -> Option<&'static str> {
    let mut found = None;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(string) => {
                if let Some(clean) = clean(string) {
                    *string = clean;
                    found = Some("value");
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                let before = members.len();
                let kept: Map<String, Value> =
                    std::mem::take(members).into_iter().filter(|(name, _)| !is_secret_name(name)).collect();
                if kept.len() < before {
                    found = Some("name");
                }
                *members = kept;
                open.extend(members.values_mut());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// The text with secrets redacted; `None` if it had none.
fn clean(text: &str) -> Option<String> {
    let looks_like_a_key = text.contains("-----BEGIN ");
    let bearer = text.to_lowercase().find("bearer ").is_some_and(|at| {
        text.get(at + 7..).is_some_and(|rest| rest.chars().take_while(|c| !c.is_whitespace()).count() >= 8)
    });
    if looks_like_a_key || bearer {
        return Some(MARK.to_owned());
    }
    let without = flow::redact::text(text).replace(flow::redact::MARK, MARK);
    let plain: Vec<String> = without.split(' ').map(plain_address).collect();
    let clean = plain.join(" ");
    (clean != text).then_some(clean)
}

/// The URL without user, password and query, which often carry secrets.
fn plain_address(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{authority}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_by_name_and_by_shape() {
        let mut findings = Vec::new();
        let given = json!({
            "apiKey": "x", "nested": [{"Authorization": "y", "kept": 1}],
            "text": "Bearer abcdefghijkl", "address": "see https://me:pw@host.example/path?key=1#x now",
        });
        let shown = data("lab", &given, &mut findings);
        let expected = json!({
            "nested": [{"kept": 1}], "text": "[redacted]", "address": "see https://host.example/path now",
        });
        assert_eq!(shown, expected);
        assert_eq!(findings.len(), 1);
        assert_eq!(data("lab", &json!({"a": "plain words"}), &mut findings), json!({"a": "plain words"}));
        assert_eq!(findings.len(), 1, "nothing was found the second time");
        assert_eq!(data("lab", &json!({"a": "x".repeat(20_000)}), &mut findings), json!({"truncated": true}));
    }

    #[test]
    fn long_messages_are_truncated() {
        assert_eq!(message("lab", &"é".repeat(501), &mut Vec::new()).chars().count(), 501);
    }

    #[test]
    fn actions_with_unsafe_targets_are_removed() {
        let cases = [
            ("https://example.org/x", true),
            ("/runs", true),
            ("//example.org", false),
            ("/\\example.org", false),
            ("javascript:alert(1)", false),
            ("JaVaScRiPt:alert(1)", false),
            ("data:text/html,x", false),
            ("http://example.org", false),
            (" https://example.org", false),
            ("https://example.org\n", false),
            ("", false),
        ];
        for (href, is_kept) in cases {
            let mut findings = Vec::new();
            let declared = json!([{"id": "open", "label": "Open", "kind": "open", "data": {"href": href}}]);
            let kept = actions("lab", Some(&declared), &mut findings);
            assert_eq!((kept.len() == 1, findings.is_empty()), (is_kept, is_kept), "{href}");
        }
    }
}
