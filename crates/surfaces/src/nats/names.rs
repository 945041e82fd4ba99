//! Names on the server.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::call::Tenant;
use crate::queue::Topic;

/// All our subjects.
pub(super) const EVERYTHING: &str = "interlock.>";

const TENANT: &str = "Interlock-Tenant";
const NAME: &str = "Interlock-Name";
const STREAM: &str = "Interlock-Stream";

/// The server-side name of a tenant's queue or stream.
pub(super) struct Name {
    /// The JetStream stream name.
    pub(super) stream: String,
    pub(super) subject: String,
    topic: Topic,
}

impl Name {
    pub(super) fn queue(tenant: &Tenant, name: &str) -> Self {
        Self::of(tenant, name, false)
    }

    pub(super) fn stream(tenant: &Tenant, name: &str) -> Self {
        Self::of(tenant, name, true)
    }

    fn of(tenant: &Tenant, name: &str, is_stream: bool) -> Self {
        // Tenant names do not contain NUL, so the concatenation is unambiguous.
        let mut digest = Sha256::new();
        digest.update(tenant.as_str());
        digest.update([0]);
        digest.update(name);
        let digest: [u8; 32] = digest.finalize().into();
        let digest = URL_SAFE_NO_PAD.encode(digest);
        let kind = if is_stream { "s" } else { "q" };
        let topic = Topic { tenant: tenant.clone(), name: name.to_owned(), is_stream };
        Self {
            stream: format!("interlock-{kind}-{digest}"),
            subject: format!("interlock.{kind}.{digest}"),
            topic,
        }
    }

    /// Headers that identify tenant and name, encoded for headers.
    pub(super) fn headers(&self) -> [(&'static str, String); 3] {
        let text = |text: &str| URL_SAFE_NO_PAD.encode(text);
        [
            (TENANT, text(self.topic.tenant.as_str())),
            (NAME, text(&self.topic.name)),
            (STREAM, self.topic.is_stream.to_string()),
        ]
    }
}

/// The header with the due time of a delayed message, in milliseconds since 1970.
pub(super) const NOT_BEFORE: &str = "Interlock-Not-Before";

pub(super) fn topic(message: &async_nats::Message) -> Option<Topic> {
    let headers = message.headers.as_ref()?;
    let text = |name: &str| String::from_utf8(URL_SAFE_NO_PAD.decode(headers.get(name)?.as_str()).ok()?).ok();
    let tenant = Tenant::new(&text(TENANT)?).ok()?;
    Some(Topic { tenant, name: text(NAME)?, is_stream: headers.get(STREAM)?.as_str() == "true" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_unique() {
        let tenants = ["a", "b", "a:b"].map(|name| Tenant::new(name).unwrap());
        let names = ["jobs", "jobs.>", "*", "a b\n", "", "ü"];
        let mut seen = std::collections::BTreeSet::new();
        for tenant in &tenants {
            for name in names {
                for made in [Name::queue(tenant, name), Name::stream(tenant, name)] {
                    let legal = |text: &str| {
                        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                    };
                    assert!(legal(&made.stream) && made.subject.split('.').all(legal), "{}", made.stream);
                    assert!(seen.insert(made.stream) && seen.insert(made.subject));
                }
            }
        }
    }
}
