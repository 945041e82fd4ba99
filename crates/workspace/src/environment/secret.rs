//! Secrets: a type that does not tell, and the port through which they come.

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

/// A value that is not told. It is wiped from memory when it is dropped, has no `Serialize`, and prints
/// `[redacted:NAME]`.
#[derive(Clone)]
pub struct Secret {
    name: String,
    value: Zeroizing<String>,
}

impl Secret {
    /// A secret under the name that may be told.
    pub fn new(name: impl Into<String>, value: Zeroizing<String>) -> Self {
        Self { name: name.into(), value }
    }

    /// A value put together from parts, some of which are secrets: all of it is one then.
    pub(super) fn joined<'a>(
        credentials: &[&str],
        variable: &str,
        parts: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        // Of the exact size: a string that grows leaves its shorter copies behind, unwiped.
        let mut value = Zeroizing::new(String::with_capacity(parts.clone().map(str::len).sum()));
        parts.for_each(|part| value.push_str(part));
        let name = if credentials.is_empty() { variable.to_owned() } else { credentials.join(",") };
        Self { name, value }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value. Whoever calls this answers for where it goes.
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
    /// Why a secret could not be had.
    Reason {
        NotFound => "not-found",
        Denied => "denied",
        Timeout => "timeout",
        BadSourceRef => "bad-source-ref",
        Upstream => "upstream",
    }
}

/// A credential that could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// What the manifest calls it.
    pub name: String,
    /// What it opens.
    pub kind: CredentialKind,
    /// Where it was looked for.
    pub source_ref: String,
    /// Whether nothing starts without it.
    pub required: bool,
    /// Why.
    pub reason: Reason,
}

impl Missing {
    /// The same as JSON.
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

/// Where secrets come from. The kind says who is asked: a gateway, a code host, a secrets service, a wallet.
///
/// # Contract
/// * `source_ref` is understood by the source alone.
/// * A secret is written nowhere, and a refusal tells nothing of it.
/// * A call may take long: it is abandoned after a time-out, and what it returns later is wiped.
pub trait SecretSource: Send + Sync {
    /// The secret at that place.
    ///
    /// # Errors
    /// Why there is none.
    fn fetch(&self, kind: CredentialKind, source_ref: &str) -> Result<Zeroizing<String>, Reason>;
}

/// What was fetched, by the name of the credential, and what was not, sorted by name.
pub(super) struct Fetched {
    pub(super) secrets: BTreeMap<String, Secret>,
    pub(super) missing: Vec<Missing>,
}

/// A place that is asked once, however many credentials are there.
type Place = (CredentialKind, String);
type Answer = Result<Zeroizing<String>, Reason>;

/// Asks for every credential, in parallel and each place once. A call that takes longer than `timeout` is
/// abandoned with its thread: a source that hangs must not keep an agent from being told so.
pub(super) fn fetch_all(
    source: &Arc<dyn SecretSource>,
    credentials: &[Credential],
    timeout: Duration,
) -> Fetched {
    let place = |credential: &Credential| (credential.kind, credential.source_ref.clone());
    let places: BTreeSet<Place> = credentials.iter().map(place).collect();
    let answers = ask(source, places, timeout);
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

/// A manifest declares few enough to ask for all at once, so that one that hangs delays nothing but the report.
fn ask(
    source: &Arc<dyn SecretSource>,
    places: BTreeSet<Place>,
    timeout: Duration,
) -> BTreeMap<Place, Answer> {
    let deadline = Instant::now() + timeout;
    let (send, receive) = mpsc::channel::<(Place, Answer)>();
    let mut answers = BTreeMap::new();
    let mut waiting = 0;
    for place in places {
        let (source, send, asked) = (Arc::clone(source), send.clone(), place.clone());
        let started = thread::Builder::new().name("secret".to_owned()).spawn(move || {
            let call = AssertUnwindSafe(|| source.fetch(asked.0, &asked.1));
            let answer = catch_unwind(call).unwrap_or(Err(Reason::Upstream));
            // Nobody listens after the time-out; the value is wiped then.
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

/// A variable is never set empty, and none can hold NUL.
fn usable(value: Zeroizing<String>) -> Answer {
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
    fn a_source_that_hangs_or_panics_is_reported_beside_the_others() {
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
        // Long enough for the others on any machine, short enough to wait for.
        let fetched = fetch_all(&source, &credentials, Duration::from_secs(1));
        assert_eq!(fetched.secrets.keys().collect::<Vec<_>>(), ["fine"]);
        let missing: Vec<(&str, Reason)> =
            fetched.missing.iter().map(|missing| (missing.name.as_str(), missing.reason)).collect();
        let expected = [("hangs", Reason::Timeout), ("nul", Reason::Upstream), ("panics", Reason::Upstream)];
        assert_eq!(missing, expected);
        drop(sender);
    }
}
