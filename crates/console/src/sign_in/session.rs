//! Session cookies, and the CSRF token of each session.
//!
//! A cookie holds the hash of the key, a random session id, an expiry time and a signature, but
//! never the key. Each request checks whether the key is valid and whether the session was ended.
//! Revoking a key therefore ends its sessions at once, and signing out ends one session including
//! every copy of its cookie.

use std::sync::Arc;

use system::Entropy;

use canon::digest::Digest;
use canon::encoding::hex;
use canon::time::Timestamp;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::sign_in::ended::{EndedSessions, LIFETIME_MS, SessionName};

/// How long the sign-in form is valid, in milliseconds.
const VISIT_MS: u64 = 60 * 60 * 1000;

/// Creates and verifies sessions.
pub(crate) struct Sessions {
    secrets: Vec<[u8; 32]>,
    https: bool,
    entropy: Arc<dyn Entropy>,
    pub(crate) ended: EndedSessions,
}

/// A signed-in user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The hash of their key.
    pub(crate) key: Digest,
    /// Distinguishes the sessions of one key.
    pub(crate) name: SessionName,
    /// The CSRF token of the session.
    pub(crate) csrf: String,
}

/// The purpose of a cookie. It is part of the signature, so one kind cannot be used as the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Session,
    Visit,
}

impl Sessions {
    pub(crate) fn new(
        secrets: Vec<[u8; 32]>,
        https: bool,
        entropy: Arc<dyn Entropy>,
        ended: EndedSessions,
    ) -> Self {
        Self { secrets, https, entropy, ended }
    }

    /// The session of a request, if it is valid.
    pub(crate) fn session(&self, headers: &HeaderMap, now: Timestamp) -> Option<Session> {
        let cookie = self.cookie(headers, Purpose::Session)?;
        let (reference, ends) = self.verified(Purpose::Session, cookie, now)?;
        // Cookies from earlier versions contain only the hash.
        let hash = reference.split_once('-').map_or(reference, |(hash, _)| hash);
        let key = Digest::parse(&format!("{}{hash}", Digest::PREFIX)).ok()?;
        let began = Timestamp(ends.0.saturating_sub(LIFETIME_MS));
        let name = SessionName { key, cookie: Digest::of_bytes(cookie.as_bytes()), began, ends };
        (!self.ended.contains(&name)).then_some(())?;
        Some(Session { key, name, csrf: self.csrf(cookie)? })
    }

    /// The cookie for a new session of a key.
    pub(crate) fn begin(&self, key: Digest, now: Timestamp) -> Option<HeaderValue> {
        let reference = format!("{}-{}", key.to_hex(), self.random()?);
        self.set(Purpose::Session, &reference, LIFETIME_MS, now).map(|(header, _)| header)
    }

    /// The cookie that ends a session.
    pub(crate) fn end(&self) -> Option<HeaderValue> {
        let attributes = self.attributes();
        HeaderValue::from_str(&format!("{}=; Max-Age=0; {attributes}", self.name(Purpose::Session))).ok()
    }

    /// The CSRF token of the sign-in form, and a new cookie for it if the browser has none.
    pub(crate) fn visit(&self, headers: &HeaderMap, now: Timestamp) -> Option<(String, Option<HeaderValue>)> {
        if let Some(cookie) = self.cookie(headers, Purpose::Visit)
            && self.verified(Purpose::Visit, cookie, now).is_some()
        {
            return Some((self.csrf(cookie)?, None));
        }
        let (header, cookie) = self.set(Purpose::Visit, &self.random()?, VISIT_MS, now)?;
        Some((self.csrf(&cookie)?, Some(header)))
    }

    fn random(&self) -> Option<String> {
        let mut random = [0; 16];
        self.entropy.fill(&mut random).ok()?;
        Some(hex(&random))
    }

    /// Whether a token belongs to the sign-in cookie of these headers.
    pub(crate) fn is_visit(&self, headers: &HeaderMap, token: &str, now: Timestamp) -> bool {
        let cookie = self.cookie(headers, Purpose::Visit);
        let known = cookie.filter(|cookie| self.verified(Purpose::Visit, cookie, now).is_some());
        known.and_then(|cookie| self.csrf(cookie)).is_some_and(|expected| is_same(&expected, token))
    }

    fn set(
        &self,
        purpose: Purpose,
        reference: &str,
        lifetime: u64,
        now: Timestamp,
    ) -> Option<(HeaderValue, String)> {
        let ends = now.plus(lifetime).0;
        let secret = self.secrets.first()?;
        let signature = mac(secret, &[purpose.as_str(), reference, &ends.to_string()]);
        let value = format!("{reference}.{ends}.{}", hex(&signature));
        let name = self.name(purpose);
        let text = format!("{name}={value}; Max-Age={}; {}", lifetime / 1000, self.attributes());
        Some((HeaderValue::from_str(&text).ok()?, value))
    }

    /// The content and expiry of a cookie, if its signature and time are valid.
    fn verified<'c>(
        &self,
        purpose: Purpose,
        cookie: &'c str,
        now: Timestamp,
    ) -> Option<(&'c str, Timestamp)> {
        let mut parts = cookie.split('.');
        let (reference, ends, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let is_signed = self
            .secrets
            .iter()
            .any(|secret| is_same(&hex(&mac(secret, &[purpose.as_str(), reference, ends])), signature));
        let ends = Timestamp(ends.parse().ok()?);
        (parts.next().is_none() && is_signed && now < ends).then_some((reference, ends))
    }

    /// The CSRF token for a cookie.
    fn csrf(&self, cookie: &str) -> Option<String> {
        // Derive it from the secret that signed the cookie or from the current one: a rotation in
        // between invalidates one form at most.
        Some(hex(&mac(self.secrets.first()?, &["csrf", cookie])))
    }

    fn cookie<'h>(&self, headers: &'h HeaderMap, purpose: Purpose) -> Option<&'h str> {
        let name = self.name(purpose);
        let all = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Over https, the `__Host-` prefix makes browsers require `Secure` and this host.
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

/// Compares two strings in constant time.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

fn mac(secret: &[u8; 32], parts: &[&str]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    for part in parts {
        // No part contains a zero byte, so different lists never give the same input.
        mac.update(part.as_bytes());
        mac.update(&[0]);
    }
    mac.finalize().into_bytes().into()
}

impl Session {
    /// Whether a form holds the CSRF token of this session.
    pub(crate) fn owns(&self, token: &str) -> bool {
        is_same(&self.csrf, token)
    }
}

#[cfg(test)]
mod tests {
    use system::SystemEntropy;

    use super::*;

    fn sessions(secrets: &[u8], https: bool) -> Sessions {
        let secrets = secrets.iter().map(|byte| [*byte; 32]).collect();
        Sessions::new(secrets, https, Arc::new(SystemEntropy), EndedSessions::in_memory())
    }

    fn sent(set: &HeaderValue) -> HeaderMap {
        let pair = set.to_str().unwrap().split(';').next().unwrap().to_owned();
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(&format!("other=1; {pair}")).unwrap())])
    }

    #[test]
    fn a_session_is_valid_until_it_expires_and_only_with_its_secret() {
        let (key, now) = (Digest::of_bytes(b"key"), Timestamp(1_000));
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
    fn a_cookie_of_an_earlier_version_is_a_session_that_can_be_ended() {
        let (ours, key, now) = (sessions(&[1], false), Digest::of_bytes(b"key"), Timestamp(1_000));
        let (set, _) = ours.set(Purpose::Session, &key.to_hex(), LIFETIME_MS, now).unwrap();
        let session = ours.session(&sent(&set), now).unwrap();
        assert_eq!(session.key, key);
        ours.ended.end(session.name, now).unwrap();
        assert_eq!(ours.session(&sent(&set), now), None);
    }

    #[test]
    fn two_sessions_of_one_key_end_separately() {
        let (ours, key, now) = (sessions(&[1], false), Digest::of_bytes(b"key"), Timestamp(1_000));
        let [one, two] = [(); 2].map(|()| sent(&ours.begin(key, now).unwrap()));
        ours.ended.end(ours.session(&one, now).unwrap().name, now).unwrap();
        assert!(ours.session(&one, now).is_none() && ours.session(&two, now).is_some());
    }

    #[test]
    fn forged_cookies_are_rejected() {
        let ours = sessions(&[1], false);
        let good = ours.begin(Digest::of_bytes(b"key"), Timestamp(0)).unwrap();
        let good = good.to_str().unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
        let (visit, cookie) = ours.visit(&HeaderMap::new(), Timestamp(0)).unwrap();
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
            assert_eq!(ours.session(&headers, Timestamp(1)), None, "{cookie}");
        }
        assert!(!ours.is_visit(&HeaderMap::new(), &visit, Timestamp(0)), "a token without its cookie");
    }

    #[test]
    fn cookies_are_http_only_and_for_this_host() {
        let set = |https| sessions(&[1], https).begin(Digest::of_bytes(b"k"), Timestamp(0)).unwrap();
        let plain = set(false).to_str().unwrap().to_owned();
        assert!(plain.ends_with("Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"), "{plain}");
        let secure = set(true).to_str().unwrap().to_owned();
        assert!(secure.starts_with("__Host-interlock-session=") && secure.ends_with("; Secure"), "{secure}");
    }
}
