//! Secrets: a type that cannot leak its value, and the port that provides secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::manifest::vocabulary::closed;
use crate::manifest::{Credential, CredentialKind};

/// A secret value. It is wiped from memory on drop, does not implement `Serialize`, and prints
/// `[redacted:NAME]`.
#[derive(Clone)]
pub struct Secret {
    name: String,
    value: Zeroizing<String>,
}

impl Secret {
    /// A secret with its public name.
    pub fn new(name: impl Into<String>, value: Zeroizing<String>) -> Self {
        Self { name: name.into(), value }
    }

    /// A value assembled from parts, some of which are secrets: the whole is a secret.
    pub(super) fn joined<'a>(
        credentials: &[&str],
        variable: &str,
        parts: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        // Exact capacity: a growing string would leave unwiped copies.
        let mut value = Zeroizing::new(String::with_capacity(parts.clone().map(str::len).sum()));
        parts.for_each(|part| value.push_str(part));
        let name = if credentials.is_empty() { variable.to_owned() } else { credentials.join(",") };
        Self { name, value }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value. The caller is responsible for where it goes.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[redacted:{}]", self.name)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

closed! {
    /// Why a secret is not available.
    Reason {
        NotFound => "not-found",
        Denied => "denied",
        Timeout => "timeout",
        BadSourceRef => "bad-source-ref",
        Upstream => "upstream",
    }
}

/// A missing credential.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// Its name in the manifest.
    pub name: String,
    pub kind: CredentialKind,
    /// Its source reference.
    pub source_ref: String,
    pub required: bool,
    pub reason: Reason,
}

impl Missing {
    /// As JSON.
    pub fn details(&self) -> Value {
        json!({
            "name": self.name,
            "kind": self.kind,
            "sourceRef": self.source_ref,
            "required": self.required,
            "reason": self.reason,
        })
    }
}

/// Provides secrets. The kind selects the provider: a gateway, a code host, a secrets service, a
/// wallet.
///
/// # Contract
/// * Only the source interprets `source_ref`.
/// * Secrets are never stored, and errors reveal nothing about them.
/// * A call may block: it is abandoned after a timeout, and its later result is wiped.
pub trait SecretSource: Send + Sync {
    /// Fetches a secret.
    ///
    /// # Errors
    /// Why it is not available.
    fn fetch(&self, kind: CredentialKind, source_ref: &str) -> Result<Zeroizing<String>, Reason>;
}

/// The fetched credentials by name, and the missing ones, sorted by name.
pub(super) struct Fetched {
    pub(super) secrets: BTreeMap<String, Secret>,
    pub(super) missing: Vec<Missing>,
}

/// A source that is queried once for all its credentials.
type SourceKey = (CredentialKind, String);
type FetchResult = Result<Zeroizing<String>, Reason>;

/// Fetches all credentials in parallel, each source once. A call that exceeds `timeout` is
/// abandoned with its thread: a hanging source must not block the report.
pub(super) fn fetch_all(
    source: &Arc<dyn SecretSource>,
    credentials: &[Credential],
    timeout: Duration,
) -> Fetched {
    let place = |credential: &Credential| (credential.kind, credential.source_ref.clone());
    let sources: BTreeSet<SourceKey> = credentials.iter().map(place).collect();
    let answers = ask(source, sources, timeout);
    let mut fetched = Fetched { secrets: BTreeMap::new(), missing: Vec::new() };
    for credential in credentials {
        let Credential { name, kind, source_ref, required } = credential;
        let reason = match answers.get(&place(credential)) {
            Some(Ok(value)) => {
                fetched.secrets.insert(name.clone(), Secret::new(name.clone(), value.clone()));
                continue;
            }
            Some(Err(reason)) => *reason,
            None => Reason::Upstream,
        };
        let (name, source_ref) = (name.clone(), source_ref.clone());
        fetched.missing.push(Missing { name, kind: *kind, source_ref, required: *required, reason });
    }
    fetched.missing.sort_by(|one, other| one.name.cmp(&other.name));
    fetched
}

/// A manifest declares few enough to fetch all at once, so that a hanging source delays only the
/// report.
fn ask(
    source: &Arc<dyn SecretSource>,
    sources: BTreeSet<SourceKey>,
    timeout: Duration,
) -> BTreeMap<SourceKey, FetchResult> {
    let deadline = Instant::now() + timeout;
    let (send, receive) = mpsc::channel::<(SourceKey, FetchResult)>();
    let mut answers = BTreeMap::new();
    let mut waiting = 0;
    for place in sources {
        let (source, send, asked) = (Arc::clone(source), send.clone(), place.clone());
        let started = thread::Builder::new().name("secret".to_owned()).spawn(move || {
            let call = AssertUnwindSafe(|| source.fetch(asked.0, &asked.1));
            let answer = catch_unwind(call).unwrap_or(Err(Reason::Upstream));
            // After the timeout there is no receiver; the value is wiped.
            let _ = send.send((asked, answer.and_then(usable)));
        });
        if started.is_ok() {
            waiting += 1;
            answers.insert(place, Err(Reason::Timeout));
        } else {
            answers.insert(place, Err(Reason::Upstream));
        }
    }
    while waiting > 0 {
        match receive.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((place, answer)) => {
                answers.insert(place, answer);
                waiting -= 1;
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    answers
}

/// A variable must not be empty and cannot contain NUL.
fn usable(value: Zeroizing<String>) -> FetchResult {
    if value.is_empty() {
        Err(Reason::NotFound)
    } else if value.contains('\0') {
        Err(Reason::Upstream)
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Stuck(Mutex<mpsc::Receiver<()>>);

    impl SecretSource for Stuck {
        fn fetch(&self, _: CredentialKind, source_ref: &str) -> Result<Zeroizing<String>, Reason> {
            match source_ref {
                // Until the test ends and drops the sender.
                "hangs" => {
                    let _ = self.0.lock().map(|receiver| receiver.recv());
                    Ok(Zeroizing::new("too late".to_owned()))
                }
                "panics" => panic!("a source that is broken"),
                "nul" => Ok(Zeroizing::new("a\0b".to_owned())),
                _ => Ok(Zeroizing::new("value".to_owned())),
            }
        }
    }

    #[test]
    fn a_hanging_or_panicking_source_is_reported_with_the_others() {
        let (sender, receiver) = mpsc::channel();
        let source: Arc<dyn SecretSource> = Arc::new(Stuck(Mutex::new(receiver)));
        let credentials: Vec<Credential> = ["hangs", "panics", "nul", "fine"]
            .map(|source_ref| Credential {
                name: source_ref.to_owned(),
                kind: CredentialKind::GenericSecret,
                source_ref: source_ref.to_owned(),
                required: true,
            })
            .into();
        // Long enough for the others on any machine, and short enough to wait for.
        let fetched = fetch_all(&source, &credentials, Duration::from_secs(1));
        assert_eq!(fetched.secrets.keys().collect::<Vec<_>>(), ["fine"]);
        let missing: Vec<(&str, Reason)> =
            fetched.missing.iter().map(|missing| (missing.name.as_str(), missing.reason)).collect();
        let expected = [("hangs", Reason::Timeout), ("nul", Reason::Upstream), ("panics", Reason::Upstream)];
        assert_eq!(missing, expected);
        drop(sender);
    }
}
