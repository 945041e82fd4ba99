//! Describes what is wrong with an artifact that the engine reads, in the caller's terms.

use serde_json::{Map, Value};

/// How many characters of a caller's text a message repeats.
const QUOTED: usize = 60;

/// One member of an artifact.
pub(super) struct Member {
    name: &'static str,
    /// The allowed values; empty for any text.
    allowed: &'static [&'static str],
    is_required: bool,
}

impl Member {
    /// A required text.
    pub(super) const fn text(name: &'static str) -> Self {
        Self { name, allowed: &[], is_required: true }
    }

    /// One of some values, required.
    pub(super) const fn choice(name: &'static str, allowed: &'static [&'static str]) -> Self {
        Self { name, allowed, is_required: true }
    }

    pub(super) const fn optional(self) -> Self {
        Self { is_required: false, ..self }
    }

    /// What the value must be.
    fn rule(&self) -> String {
        if self.allowed.is_empty() {
            return "it must be a string".to_owned();
        }
        let quoted: Vec<String> = self.allowed.iter().map(|one| format!("{one:?}")).collect();
        format!("it must be {}", quoted.join(" or "))
    }
}

/// The first fault of an artifact; its `kind` is not checked.
pub(super) fn fault(artifact: &Map<String, Value>, members: &[Member]) -> String {
    for member in members {
        let (name, rule) = (member.name, member.rule());
        match artifact.get(name) {
            None if member.is_required => return format!("`{name}` is missing; {rule}"),
            None => {}
            Some(Value::String(text))
                if member.allowed.is_empty() || member.allowed.contains(&text.as_str()) => {}
            Some(Value::String(text)) => {
                let shown: String = text.chars().take(QUOTED).collect();
                return format!("`{name}` is {shown:?}; {rule}");
            }
            Some(_) => return format!("`{name}` has the wrong type; {rule}"),
        }
    }
    let is_known = |key: &str| key == "kind" || members.iter().any(|member| member.name == key);
    artifact.keys().find(|key| !is_known(key)).map_or_else(
        || "a field has the wrong type".to_owned(),
        |key| format!("`{}` is an unknown field", key.chars().take(QUOTED).collect::<String>()),
    )
}
