//! Replaces generated values by names in the order of their appearance, so that two runs can be compared.

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde_json::Value;

/// Members that only say when something happened, or how long it took.
const TIMES: [&str; 8] = [
    "startedAt",
    "completedAt",
    "requestedAt",
    "timestamp",
    "deadline",
    "durationMs",
    "latencyMs",
    "expiresAt",
];
/// The shortest run of hexadecimal digits that is taken for a generated id.
const ID_DIGITS: usize = 16;

/// The names that were given, by generated id.
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    pub(super) fn new(run_id: &str) -> Self {
        Self(BTreeMap::from([(run_id.to_owned(), "‹run›".to_owned())]))
    }

    /// Replaces ids and times everywhere in a document.
    pub(super) fn replace(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    if TIMES.contains(&name.as_str()) && !member.is_null() {
                        *member = "‹time›".into();
                    } else {
                        self.replace(member);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::String(text) => {
                if Timestamp::parse(text).is_some() {
                    "‹time›".clone_into(text);
                } else {
                    *text = self.replaced(text);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A text with its ids replaced: `prefix_` and hexadecimal digits, or a UUID.
    fn replaced(&mut self, text: &str) -> String {
        let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            replaced.push_str(&rest[..start]);
            let word = &rest[start..];
            let end = word.find(|character| !is_part(character)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            replaced.push_str(&if is_generated(word) { self.name(word) } else { word.to_owned() });
            rest = after;
        }
        replaced.push_str(rest);
        replaced
    }

    fn name(&mut self, id: &str) -> String {
        let next = self.0.len();
        let kind = id.split_once('_').map_or("id", |(kind, _)| kind);
        self.0.entry(id.to_owned()).or_insert_with(|| format!("‹{kind} {next}›")).clone()
    }
}

/// Whether a word has the form of a generated id.
fn is_generated(word: &str) -> bool {
    let digits = word.rsplit_once('_').map_or(word, |(_, digits)| digits);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let plain =
        digits.len() >= ID_DIGITS && is_hex(digits) && digits.bytes().any(|byte| byte.is_ascii_digit());
    let uuid = word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    plain || uuid && is_hex(&word.replace('-', ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_id_gets_the_same_name() {
        let mut value = json!({
            "child": "run_0aa1e48d4cdd1a8726240ecea203eaf0",
            "text": "see run_0aa1e48d4cdd1a8726240ecea203eaf0, not art_1111111111111111.",
            "uuid": "01932f3c-7f5e-7a3b-8a3c-0123456789ab",
            "plain": "deadbeef and a-normal-word and effaceeffaceeffaceeffaced",
            "startedAt": "2026-11-16T13:02:11.204Z",
            "when": "2026-11-16T13:02:11.204Z",
        });
        Names::new("run_x").replace(&mut value);
        assert_eq!(
            value,
            json!({
                "child": "‹run 1›",
                "text": "see ‹run 1›, not ‹art 2›.",
                "uuid": "‹id 3›",
                "plain": "deadbeef and a-normal-word and effaceeffaceeffaceeffaced",
                "startedAt": "‹time›",
                "when": "‹time›",
            })
        );
    }
}
