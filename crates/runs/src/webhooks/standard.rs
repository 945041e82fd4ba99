//! Standard Webhooks 1.0.0 (RFC 0201), for subscriptions that request it: signatures that common libraries verify, an id that
//! is the same for every attempt, and a verification that the receiver wants the deliveries.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use canon::digest::Digest;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use super::Webhooks;
use crate::{ApiCode, Refusal};

/// How a delivery is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// The scheme of the protocol. Every delivery has this signature.
    V1,
    /// Standard Webhooks, in addition to `v1`.
    StandardWebhooks1,
}

impl SignatureAlgorithm {
    pub const ALL: [Self; 2] = [Self::V1, Self::StandardWebhooks1];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::StandardWebhooks1 => "standard-webhooks-1",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }

    /// The algorithms of a subscription.
    pub const fn of(standard: bool) -> &'static [Self] {
        if standard { &Self::ALL } else { &[Self::V1] }
    }
}

/// The allowed sizes of a decoded secret, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The limits of a verification request. The response only repeats a challenge.
const LIMITS: outbound::Limits =
    outbound::Limits { head: Duration::from_secs(10), whole: Some(Duration::from_secs(10)), body: 64 << 10 };

/// Decodes base64 like the libraries of receivers: padding is optional, and trailing bits are ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The key that a secret `whsec_<base64>` encodes.
fn key(secret: &str) -> Option<Vec<u8>> {
    let key = LENIENT.decode(secret.strip_prefix("whsec_")?).ok()?;
    KEY_BYTES.contains(&key.len()).then_some(key)
}

/// Refuses a secret that cannot sign with this scheme.
pub(super) fn check_secret(secret: Option<&str>) -> Result<(), Refusal> {
    if secret.is_some_and(|secret| key(secret).is_some()) {
        return Ok(());
    }
    let (least, most) = (KEY_BYTES.start(), KEY_BYTES.end());
    let message = format!("`secret` must be `whsec_` and the base64 of {least} to {most} random bytes");
    Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "secret"))
}

/// The message id of a delivery: the same for every attempt, and unique for each subscription and event.
pub(super) fn message_id(delivery_id: &str) -> String {
    format!("msg_{}", &Digest::of_bytes(delivery_id.as_bytes()).to_hex()[..32])
}

/// The headers of a message, with a signature for each secret.
pub(super) fn headers(
    id: String,
    seconds: u64,
    body: &[u8],
    secrets: &[&str],
) -> Vec<(&'static str, String)> {
    let signatures: Vec<String> = secrets
        .iter()
        .filter_map(|secret| {
            let mut mac =
                Hmac::<Sha256>::new_from_slice(&key(secret)?).expect("HMAC takes keys of any length");
            mac.update(format!("{id}.{seconds}.").as_bytes());
            mac.update(body);
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        })
        .collect();
    vec![
        ("webhook-id", id),
        ("webhook-timestamp", seconds.to_string()),
        ("webhook-signature", signatures.join(" ")),
    ]
}

impl Webhooks {
    /// Verifies once that a receiver wants deliveries: it must repeat a challenge.
    ///
    /// # Errors
    /// `webhook_endpoint_unverified`, with the reason and no part of the response.
    pub(super) async fn verify_endpoint(&self, url: &str, secret: &str) -> Result<(), Refusal> {
        let challenge = self.records.new_id("")?;
        let body = json!({"type": "openwop.webhook.verification", "challenge": challenge}).to_string();
        let id = self.records.new_id("msg_")?;
        let signed = headers(id, self.records.now().0 / 1000, body.as_bytes(), &[secret]);
        let mut all = vec![("user-agent", super::deliver::AGENT), ("content-type", "application/json")];
        all.extend(signed.iter().map(|(name, value)| (*name, value.as_str())));
        let unverified = |why: &str| {
            let message = format!(
                "the endpoint was not verified: {why}; it must answer the verification request with a 2xx status and the JSON \
                 `{{\"challenge\": …}}` that it was sent"
            );
            Refusal::new(ApiCode::WebhookEndpointUnverified, message).detail("field", "url")
        };
        let outbound = &self.outbound;
        let target = outbound.check(url).map_err(|error| unverified(&error.to_string()))?;
        let call = outbound::Call {
            method: Method::POST,
            target: &target,
            headers: &all,
            body: body.into(),
            limits: LIMITS,
        };
        let replied = async { outbound.send(call).await?.success()?.bytes().await }.await;
        let replied = replied.map_err(|error| unverified(&error.to_string()))?;
        let replied: Value = serde_json::from_slice(&replied).unwrap_or_default();
        match replied.get("challenge").and_then(Value::as_str) {
            Some(repeated) if repeated == challenge => Ok(()),
            Some(_) => Err(unverified("its reply has a different challenge")),
            None => Err(unverified("its reply has no challenge")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_of_the_published_example() {
        // The example of the reference libraries of the specification.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let headers = headers("msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(), 1_614_265_330, body, &[secret]);
        assert_eq!(headers[2].1, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_have_a_prefix_and_24_to_64_bytes() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for secret in [of(24), of(64)] {
            assert_eq!(check_secret(Some(&secret)), Ok(()));
        }
        let plain = STANDARD.encode([7; 24]);
        for secret in [None, Some(of(8)), Some(of(23)), Some(of(65)), Some(plain), Some("whsec_!".to_owned())]
        {
            let refused = check_secret(secret.as_deref()).unwrap_err();
            assert_eq!(
                (refused.code, &refused.details["field"]),
                (ApiCode::ValidationError, &json!("secret"))
            );
        }
    }

    #[test]
    fn ids_are_stable_and_have_no_dot() {
        let id = message_id("whk_1:evt_run_1_3");
        assert_eq!(id, message_id("whk_1:evt_run_1_3"));
        assert_ne!(id, message_id("whk_2:evt_run_1_3"));
        assert!(
            (16..=128).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        );
    }
}
