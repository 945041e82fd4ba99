//! References to prompts: `prompt:<id>[@<version>]`, or the object form.

use std::fmt;

use serde_json::{Map, Value};

use super::version::is_version;

#[derive(Clone, Debug, PartialEq)]
pub struct PromptRef {
    /// The library, if two have a prompt with the same name.
    pub library_id: Option<String>,
    pub template_id: String,
    /// The version; the latest if `None`.
    pub version: Option<String>,
    /// Values that take precedence over all others.
    pub overrides: Map<String, Value>,
}

impl PromptRef {
    /// Reads a reference in either form; `None` if invalid.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Object(members) => {
                let known = ["libraryId", "templateId", "version", "variableOverrides"];
                if members.keys().any(|name| !known.contains(&name.as_str())) {
                    return None;
                }
                let text = |name: &str, fits: fn(&str) -> bool| match members.get(name) {
                    None => Some(None),
                    Some(value) => value.as_str().filter(|text| fits(text)).map(|text| Some(text.to_owned())),
                };
                Some(Self {
                    library_id: text("libraryId", is_id)?,
                    template_id: text("templateId", is_id)??,
                    version: text("version", is_version)?,
                    overrides: match members.get("variableOverrides") {
                        None => Map::new(),
                        Some(overrides) => overrides.as_object()?.clone(),
                    },
                })
            }
            _ => None,
        }
    }

    /// Reads the string form.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("prompt:")?;
        let (template_id, version) =
            rest.split_once('@').map_or((rest, None), |(id, version)| (id, Some(version)));
        let fits = is_id(template_id) && version.is_none_or(is_version);
        fits.then(|| Self {
            library_id: None,
            template_id: template_id.to_owned(),
            version: version.map(ToOwned::to_owned),
            overrides: Map::new(),
        })
    }
}

impl fmt::Display for PromptRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "prompt:{}", self.template_id)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(formatter, "@{version}"))
    }
}

/// Whether a string is a valid prompt or library id.
pub(crate) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    (1..=128).contains(&bytes.len())
        && plain(bytes[0])
        && bytes.iter().all(|byte| plain(*byte) || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_both_forms() {
        let cases = [
            (json!("prompt:writer"), Some("prompt:writer")),
            (json!("prompt:vendor.acme.writer@1.2.0-rc.1"), Some("prompt:vendor.acme.writer@1.2.0-rc.1")),
            (
                json!({"templateId": "w", "version": "1.0.0", "libraryId": "lib", "variableOverrides": {"a": 1}}),
                Some("prompt:w@1.0.0"),
            ),
            (json!("writer"), None),
            (json!("prompt:Writer"), None),
            (json!("prompt:w@1"), None),
            (json!("prompt:"), None),
            (json!({"version": "1.0.0"}), None),
            (json!({"templateId": "w", "extra": 1}), None),
            (json!({"templateId": "w", "version": 1}), None),
            (json!(7), None),
        ];
        for (value, expected) in cases {
            assert_eq!(PromptRef::read(&value).map(|read| read.to_string()).as_deref(), expected, "{value}");
        }
    }
}
