//! Names of credentials. A workflow never contains the credential itself.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialRef(String);

impl CredentialRef {
    /// Parses `secret:<id>` or `<id>`. An id consists of letters, digits and `._/-`. Text that looks like a credential
    /// is rejected.
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.strip_prefix("secret:").unwrap_or(text);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        let named =
            (1..=128).contains(&id.len()) && id.as_bytes()[0].is_ascii_alphabetic() && id.bytes().all(plain);
        (named && !looks_like_a_credential(id)).then(|| Self(id.to_owned()))
    }

    /// The name without `secret:`.
    pub fn id(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CredentialRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "secret:{}", self.0)
    }
}

/// Recognizes prefixes of widely used credentials, so that a credential is rejected before it is stored by mistake.
fn looks_like_a_credential(id: &str) -> bool {
    let beginnings = [
        "sk-",
        "pk-",
        "ghp_",
        "gho_",
        "github_pat_",
        "AKIA",
        "ASIA",
        "AIza",
        "xoxb-",
        "xoxp-",
        "eyJ",
        "ilk_",
    ];
    beginnings.iter().any(|beginning| id.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_text_that_looks_like_a_credential() {
        for text in ["secret:model-key", "model-key", "team/openai.key"] {
            assert!(CredentialRef::parse(text).is_some(), "{text}");
        }
        for text in
            ["", "secret:", "sk-proj-abcdef", "secret:sk-ant-abc", "eyJhbGciOi", "a b", "9lives", "../x"]
        {
            assert!(CredentialRef::parse(text).is_none(), "{text}");
        }
    }
}
