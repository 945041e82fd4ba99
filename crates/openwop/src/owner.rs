//! People and programs. Version 1 names a principal, version 2 a subject with its issuer.

use serde_json::{Map, Value, json};

/// The issuer of subjects that were recorded before subjects existed.
pub const LEGACY_ISSUER: &str = "urn:openwop:legacy";

/// The subject of a principal in a log of era 2.
pub fn subject(tenant: &str, principal: &str) -> Value {
    json!({
        "issuer": LEGACY_ISSUER, "kind": "user", "lane": "api-key", "subjectId": escaped(principal), "tenant": tenant,
    })
}

/// The principal of a subject. `None` if it is not a subject.
pub fn principal(subject: &Value) -> Option<String> {
    unescaped(subject.get("subjectId")?.as_str()?)
}

/// The owner of a run.
pub fn to_v2(owner: &Map<String, Value>) -> Value {
    let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    json!({"subject": subject(text("tenant"), text("principal")), "tenant": text("tenant")})
}

/// The owner of a run, from the form of version 2.
pub fn to_v1(owner: &Value) -> Option<Value> {
    Some(json!({"principal": principal(owner.get("subject")?)?, "tenant": owner.get("tenant")?}))
}

/// A subject id has neither white space nor slashes, and is not empty.
fn escaped(principal: &str) -> String {
    let mut text = String::with_capacity(principal.len());
    for found in principal.chars() {
        if found.is_whitespace() || matches!(found, '/' | '%') {
            let mut bytes = [0; 4];
            for byte in found.encode_utf8(&mut bytes).bytes() {
                text.push_str(&format!("%{byte:02X}"));
            }
        } else {
            text.push(found);
        }
    }
    if text.is_empty() { "%".to_owned() } else { text }
}

fn unescaped(text: &str) -> Option<String> {
    if text == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_principal_comes_back_and_its_subject_id_is_valid(name in r"\PC{0,40}[ /%]?\PC{0,3}") {
            let subject = subject("acme", &name);
            let id = subject["subjectId"].as_str().unwrap();
            proptest::prop_assert!(!id.is_empty() && !id.contains('/') && !id.contains(char::is_whitespace));
            proptest::prop_assert_eq!(principal(&subject), Some(name));
        }
    }
}
