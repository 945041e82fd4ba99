//! Cookies: a signed reference to a key, and the token of forms that belongs to it.
//!
//! A cookie holds the hash that a key is kept under, when it ends, and a signature. The key itself is in it nowhere, and whether it is
//! still good is asked of the store with each request, so taking a key back ends its sessions at once.

use std::sync::Arc;

use canon::digest::Digest;
use flow::event::Millis;
use hmac::{Hmac, KeyInit as _, Mac as _};
use host::system::Entropy;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// How long a session is good, in milliseconds.
const LIFETIME_MS: u64 = 12 * 60 * 60 * 1000;
/// How long somebody may take to sign in, in milliseconds.
const VISIT_MS: u64 = 60 * 60 * 1000;

/// Makes sessions, and knows them again.
pub(crate) struct Sessions {
    secrets: Vec<[u8; 32]>,
    https: bool,
    entropy: Arc<dyn Entropy>,
}

/// Somebody who is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// What their key is kept under.
    pub(crate) key: Digest,
    /// The token that their forms have to hold.
    pub(crate) csrf: String,
}

/// What a cookie is for: one never passes for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Session,
    Visit,
}

impl Sessions {
    pub(crate) fn new(secrets: Vec<[u8; 32]>, https: bool, entropy: Arc<dyn Entropy>) -> Self {
        Self { secrets, https, entropy }
    }

    /// Who is signed in.
    pub(crate) fn session(&self, headers: &HeaderMap, now: Millis) -> Option<Session> {
        let cookie = self.cookie(headers, Purpose::Session)?;
        let reference = self.verified(Purpose::Session, cookie, now)?;
        let key = Digest::parse(&format!("{}{reference}", Digest::PREFIX)).ok()?;
        Some(Session { key, csrf: self.csrf(cookie)? })
    }

    /// The cookie of a new session of a key.
    pub(crate) fn begin(&self, key: Digest, now: Millis) -> Option<HeaderValue> {
        self.set(Purpose::Session, &key.to_hex(), LIFETIME_MS, now).map(|(header, _)| header)
    }

    /// The cookie that ends a session.
    pub(crate) fn end(&self) -> Option<HeaderValue> {
        let attributes = self.attributes();
        HeaderValue::from_str(&format!("{}=; Max-Age=0; {attributes}", self.name(Purpose::Session))).ok()
    }

    /// The token of the sign-in form, and the cookie that it belongs to where there is none yet.
    pub(crate) fn visit(&self, headers: &HeaderMap, now: Millis) -> Option<(String, Option<HeaderValue>)> {
        if let Some(cookie) = self.cookie(headers, Purpose::Visit)
            && self.verified(Purpose::Visit, cookie, now).is_some()
        {
            return Some((self.csrf(cookie)?, None));
        }
        let mut random = [0; 16];
        self.entropy.fill(&mut random).ok()?;
        let (header, cookie) = self.set(Purpose::Visit, &hex(&random), VISIT_MS, now)?;
        Some((self.csrf(&cookie)?, Some(header)))
    }

    /// Whether a token belongs to the visit of these headers.
    pub(crate) fn is_visit(&self, headers: &HeaderMap, token: &str, now: Millis) -> bool {
        let cookie = self.cookie(headers, Purpose::Visit);
        let known = cookie.filter(|cookie| self.verified(Purpose::Visit, cookie, now).is_some());
        known.and_then(|cookie| self.csrf(cookie)).is_some_and(|expected| is_same(&expected, token))
    }

    fn set(
        &self,
        purpose: Purpose,
        reference: &str,
        lifetime: u64,
        now: Millis,
    ) -> Option<(HeaderValue, String)> {
        let ends = now.plus(lifetime).0;
        let secret = self.secrets.first()?;
        let signature = mac(secret, &[purpose.as_str(), reference, &ends.to_string()]);
        let value = format!("{reference}.{ends}.{}", hex(&signature));
        let name = self.name(purpose);
        let text = format!("{name}={value}; Max-Age={}; {}", lifetime / 1000, self.attributes());
        Some((HeaderValue::from_str(&text).ok()?, value))
    }

    /// What a cookie refers to, where its signature and its time are good.
    fn verified<'c>(&self, purpose: Purpose, cookie: &'c str, now: Millis) -> Option<&'c str> {
        let mut parts = cookie.split('.');
        let (reference, ends, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let is_signed = self
            .secrets
            .iter()
            .any(|secret| is_same(&hex(&mac(secret, &[purpose.as_str(), reference, ends])), signature));
        let is_in_time = ends.parse::<u64>().is_ok_and(|ends| now.0 < ends);
        (parts.next().is_none() && is_signed && is_in_time).then_some(reference)
    }

    /// The token that belongs to a cookie.
    fn csrf(&self, cookie: &str) -> Option<String> {
        // Of the secret that signed it or of the current one: a rotation in between costs one form.
        Some(hex(&mac(self.secrets.first()?, &["csrf", cookie])))
    }

    fn cookie<'h>(&self, headers: &'h HeaderMap, purpose: Purpose) -> Option<&'h str> {
        let name = self.name(purpose);
        let all = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Over https the prefix makes browsers insist on `Secure` and on this host alone.
    const fn name(&self, purpose: Purpose) -> &'static str {
        match (purpose, self.https) {
            (Purpose::Session, true) => "__Host-interlock-session",
            (Purpose::Session, false) => "interlock-session",
            (Purpose::Visit, true) => "__Host-interlock-visit",
            (Purpose::Visit, false) => "interlock-visit",
        }
    }

    const fn attributes(&self) -> &'static str {
        if self.https {
            "Path=/; HttpOnly; SameSite=Strict; Secure"
        } else {
            "Path=/; HttpOnly; SameSite=Strict"
        }
    }
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Visit => "visit",
        }
    }
}

/// Whether two texts are the same, in a time that says nothing about where they differ.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

fn mac(secret: &[u8; 32], parts: &[&str]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    for part in parts {
        // None of them holds a zero byte, so no two lists give the same text.
        mac.update(part.as_bytes());
        mac.update(&[0]);
    }
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Session {
    /// Whether a form holds the token of this session.
    pub(crate) fn owns(&self, token: &str) -> bool {
        is_same(&self.csrf, token)
    }
}

#[cfg(test)]
mod tests {
    use host::system::SystemEntropy;

    use super::*;

    fn sessions(secrets: &[u8], https: bool) -> Sessions {
        Sessions::new(secrets.iter().map(|byte| [*byte; 32]).collect(), https, Arc::new(SystemEntropy))
    }

    fn sent(set: &HeaderValue) -> HeaderMap {
        let pair = set.to_str().unwrap().split(';').next().unwrap().to_owned();
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(&format!("other=1; {pair}")).unwrap())])
    }

    #[test]
    fn a_session_is_known_until_it_ends_and_by_nobody_else() {
        let (key, now) = (Digest::of_bytes(b"key"), Millis(1_000));
        let ours = sessions(&[1], false);
        let headers = sent(&ours.begin(key, now).unwrap());
        let session = ours.session(&headers, now).unwrap();
        assert_eq!(session.key, key);
        assert!(session.owns(&session.csrf.clone()) && !session.owns("") && !session.owns(&"0".repeat(64)));
        assert!(ours.session(&headers, now.plus(LIFETIME_MS - 1)).is_some());
        assert_eq!(ours.session(&headers, now.plus(LIFETIME_MS)), None, "it ends");
        assert_eq!(sessions(&[2], false).session(&headers, now), None, "another host");
        assert!(sessions(&[2, 1], false).session(&headers, now).is_some(), "the secret was rotated");
    }

    #[test]
    fn cookies_that_are_not_ours() {
        let ours = sessions(&[1], false);
        let good = ours.begin(Digest::of_bytes(b"key"), Millis(0)).unwrap();
        let good = good.to_str().unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
        let (visit, cookie) = ours.visit(&HeaderMap::new(), Millis(0)).unwrap();
        let visit_cookie = cookie.unwrap().to_str().unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
        let cases = [
            String::new(),
            "..".to_owned(),
            good.replacen('.', "x.", 1),
            good.replace(|found: char| found.is_ascii_digit(), "0"),
            format!("{good}.x"),
            good[..good.len() - 1].to_owned(),
            visit_cookie,
        ];
        for cookie in cases {
            let value = HeaderValue::from_str(&format!("interlock-session={cookie}")).unwrap();
            let headers = HeaderMap::from_iter([(COOKIE, value)]);
            assert_eq!(ours.session(&headers, Millis(1)), None, "{cookie}");
        }
        assert!(!ours.is_visit(&HeaderMap::new(), &visit, Millis(0)), "a token without its cookie");
    }

    #[test]
    fn cookies_are_for_this_host_and_no_script() {
        let set = |https| sessions(&[1], https).begin(Digest::of_bytes(b"k"), Millis(0)).unwrap();
        let plain = set(false).to_str().unwrap().to_owned();
        assert!(plain.ends_with("Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"), "{plain}");
        let secure = set(true).to_str().unwrap().to_owned();
        assert!(secure.starts_with("__Host-interlock-session=") && secure.ends_with("; Secure"), "{secure}");
    }
}
