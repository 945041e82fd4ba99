//! Webhooks: subscriptions, their secrets and their dead letters.

use std::borrow::Cow;

use canon::time::Timestamp;
use flow::id::{RunId, SubscriptionId};
use openwop::Major;
use runs::webhooks::dead_letters::DeadLetter;
use runs::webhooks::rotate::RotatedSecret;
use runs::webhooks::{NewWebhook, RegisteredWebhook, SignatureAlgorithm, WebhookView};
use runs::{ApiCode, Caller, Refusal};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use super::fields::{Field, List, Text, inline_schema};
use super::problem::Problem;
use super::{body, check_tenant};

/// The length of a secret that the caller chose, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

/// A secret that the caller chose. An empty string means none.
pub(in crate::http) struct Secret(Option<String>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Field for Secret {
    fn expected() -> Cow<'static, str> {
        let (least, most) = (SECRET_BYTES.start(), SECRET_BYTES.end());
        format!("a string of {least} to {most} bytes; without it the host generates one").into()
    }

    fn read(value: Value) -> Result<Self, Problem> {
        match value {
            Value::String(secret) if secret.is_empty() => Ok(Self(None)),
            Value::String(secret) if SECRET_BYTES.contains(&secret.len()) => Ok(Self(Some(secret))),
            _ => Err(Problem::wrong(Self::expected())),
        }
    }
}

inline_schema!(Secret, _generator => {
    json_schema!({"type": "string", "minLength": SECRET_BYTES.start(), "maxLength": SECRET_BYTES.end()})
});

body! {
    /// A subscription to create.
    #[schemars(rename = "WebhookRequest")]
    open Subscribe {
        /// The URL that deliveries are posted to.
        #[schemars(extend("format" = "uri", "maxLength" = 2048))]
        url = "url": Text,
        /// Event types, such as `run.completed`.
        events = "events": List<Text<1, 256>, 1, 200>; "list event types, such as run.completed",
        /// Only events of runs with one of these tags.
        tags = "tags": Option<List<Text<1, 256>, 0, 200>>,
        secret = "secret": Option<Secret>,
        /// How deliveries are signed: `v1`, and `standard-webhooks-1` beside it if it is listed.
        algorithms = "signatureAlgorithms": Option<List<Text<1, 64>, 1, 2>>; "it must contain v1, and may \
                      contain standard-webhooks-1",
        tenant_id = "tenantId": Option<Text>,
    }
}

impl Subscribe {
    pub(in crate::http) fn into_new(self, caller: &Caller, major: Major) -> Result<NewWebhook, Refusal> {
        check_tenant(caller, self.tenant_id.as_ref().map(|tenant| tenant.0.as_str()))?;
        let names = |names: Vec<Text<1, 256>>| names.into_iter().map(|name| name.0).collect();
        let algorithms = self.algorithms.map(|listed| algorithms(&listed.0)).transpose()?;
        Ok(NewWebhook {
            url: self.url.0,
            events: names(self.events.0),
            tags: self.tags.map(|tags| names(tags.0)).unwrap_or_default(),
            secret: self.secret.and_then(|secret| secret.0),
            algorithms,
            major,
        })
    }
}

/// The algorithms of a list: `v1` is one of them, and none is repeated.
fn algorithms(listed: &[Text<1, 64>]) -> Result<Vec<SignatureAlgorithm>, Refusal> {
    let parsed: Option<Vec<_>> = listed.iter().map(|name| SignatureAlgorithm::parse(&name.0)).collect();
    let is_once = |all: &Vec<SignatureAlgorithm>| all.len() == 1 || all.first() != all.last();
    parsed.filter(|all| all.contains(&SignatureAlgorithm::V1) && is_once(all)).ok_or_else(|| {
        let known = SignatureAlgorithm::ALL.map(SignatureAlgorithm::as_str);
        let message =
            format!("`signatureAlgorithms` must contain v1 and no duplicates; allowed: {}", known.join(", "));
        Refusal::new(ApiCode::ValidationError, message).detail("field", "signatureAlgorithms")
    })
}

body! {
    /// A new secret.
    #[schemars(rename = "WebhookSecret")]
    closed Rotate {
        /// `whsec_` and the base64 of 24 to 64 random bytes.
        secret = "secret": Secret,
    }
}

impl Rotate {
    pub(in crate::http) fn into_secret(self) -> String {
        self.secret.0.unwrap_or_default()
    }
}

/// A secret that was replaced.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RotatedWebhookSecret")]
pub(in crate::http) struct Rotated {
    #[schemars(extend("format" = "date-time"))]
    previous_secret_expires_at: String,
    #[schemars(extend("format" = "date-time"))]
    rotated_at: String,
}

impl From<RotatedSecret> for Rotated {
    fn from(rotated: RotatedSecret) -> Self {
        Self {
            previous_secret_expires_at: rotated.previous_expires_at.to_rfc3339(),
            rotated_at: rotated.rotated_at.to_rfc3339(),
        }
    }
}

/// The deliveries of a webhook that were given up, newest first.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct DeadLetters {
    deliveries: Vec<GivenUp>,
}

/// A delivery that was given up, without its content.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeadLetter")]
struct GivenUp {
    attempts: u32,
    #[schemars(extend("format" = "date-time"))]
    dead_lettered_at: String,
    delivery_id: String,
    event_id: String,
    event_type: String,
    /// Why the last attempt failed.
    message: String,
    #[schemars(extend("const" = "retries_exhausted"))]
    reason: &'static str,
    #[schemars(with = "String")]
    run_id: RunId,
    #[schemars(with = "String")]
    webhook_id: SubscriptionId,
}

impl DeadLetters {
    pub(in crate::http) fn of(webhook_id: &SubscriptionId, letters: Vec<DeadLetter>) -> Self {
        let shown = |letter: DeadLetter| GivenUp {
            attempts: letter.attempts,
            dead_lettered_at: letter.at.to_rfc3339(),
            delivery_id: letter.delivery_id,
            event_id: letter.event_id,
            event_type: letter.event_type,
            message: letter.reason,
            reason: "retries_exhausted",
            run_id: letter.run_id,
            webhook_id: webhook_id.clone(),
        };
        Self { deliveries: letters.into_iter().map(shown).collect() }
    }
}

/// A dead letter that was queued again.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Requeued<'d> {
    pub(in crate::http) delivery_id: &'d str,
    #[schemars(with = "String")]
    pub(in crate::http) webhook_id: &'d SubscriptionId,
}

/// A new subscription, with its secret. `url`, `eventTypes` and `createdAt` are not in the text of the protocol, but its clients read
/// them.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Subscribed<'w> {
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    event_types: &'w [String],
    /// Not if it is a secret for Standard Webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'w str>,
    secret_fingerprint: &'w str,
    #[schemars(extend("const" = "v1"))]
    signature_algorithm: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature_algorithms: Option<Vec<&'static str>>,
    #[schemars(with = "String")]
    subscription_id: &'w SubscriptionId,
    url: &'w str,
    #[schemars(with = "String")]
    webhook_id: &'w SubscriptionId,
}

impl<'w> Subscribed<'w> {
    pub(in crate::http) fn of(webhook: &'w RegisteredWebhook) -> Self {
        Self {
            created_at: Timestamp::to_rfc3339(webhook.created_at),
            event_types: &webhook.events,
            secret: webhook.secret.as_deref(),
            secret_fingerprint: &webhook.fingerprint,
            signature_algorithm: "v1",
            signature_algorithms: webhook.algorithms.as_deref().map(names),
            subscription_id: &webhook.id,
            url: &webhook.url,
            webhook_id: &webhook.id,
        }
    }
}

/// The subscriptions of a tenant.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct Webhooks {
    webhooks: Vec<Webhook>,
}

/// A subscription, without its secret.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    events: Vec<String>,
    secret_fingerprint: String,
    signature_algorithms: Vec<&'static str>,
    status: WebhookStatus,
    tags: Vec<String>,
    url: String,
    #[schemars(with = "String")]
    webhook_id: SubscriptionId,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum WebhookStatus {
    Active,
    Failed,
}

impl Webhooks {
    pub(in crate::http) fn of(webhooks: Vec<WebhookView>) -> Self {
        let shown = |webhook: WebhookView| Webhook {
            events: webhook.events,
            secret_fingerprint: webhook.fingerprint,
            signature_algorithms: names(webhook.algorithms),
            status: if webhook.failed { WebhookStatus::Failed } else { WebhookStatus::Active },
            tags: webhook.tags,
            url: webhook.url,
            webhook_id: webhook.id,
        };
        Self { webhooks: webhooks.into_iter().map(shown).collect() }
    }
}

fn names(algorithms: &[SignatureAlgorithm]) -> Vec<&'static str> {
    algorithms.iter().map(|algorithm| algorithm.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::read;
    use super::*;

    #[test]
    fn an_invalid_subscription_names_the_field() {
        let url = "https://example.com/";
        for (request, field) in [
            (json!(null), "body"),
            (json!([]), "body"),
            (json!({}), "url"),
            (json!({"url": url, "events": "run.completed"}), "events"),
            (json!({"url": url, "events": [1]}), "events"),
            (json!({"events": ["run.completed"]}), "url"),
            (json!({"url": 1, "events": ["run.completed"]}), "url"),
            (json!({"url": url}), "events"),
            (json!({"url": url, "events": []}), "events"),
            (json!({"url": url, "events": [""]}), "events"),
            (json!({"url": url, "events": vec!["run.completed"; 201]}), "events"),
            (json!({"url": url, "events": ["run.completed"], "tags": "t"}), "tags"),
            (json!({"url": url, "events": ["run.completed"], "secret": "short"}), "secret"),
            (json!({"url": url, "events": ["run.completed"], "secret": "x".repeat(257)}), "secret"),
        ] {
            let refused = read::<Subscribe>(request.clone()).unwrap_err();
            assert_eq!(
                (refused.code, &refused.details["field"]),
                (ApiCode::ValidationError, &json!(field)),
                "{request}"
            );
        }
        let listing = |algorithms: Value| json!({"url": url, "events": ["run.completed"], "signatureAlgorithms": algorithms});
        let other = json!({"url": url, "events": ["run.completed"], "tenantId": "other"});
        let caller = Caller {
            tenant: flow::id::Tenant::new("acme"),
            principal: flow::id::Principal::new("key"),
            scopes: Vec::new(),
            test: false,
        };
        let refused = read::<Subscribe>(other).unwrap().into_new(&caller, Major::V1).err().unwrap();
        assert_eq!(refused.code, ApiCode::Forbidden);
        for wrong in
            [json!(["standard-webhooks-1"]), json!(["v1", "v1"]), json!(["v1", "v2"]), json!([]), json!("v1")]
        {
            let refused = read::<Subscribe>(listing(wrong.clone()))
                .and_then(|read| read.into_new(&caller, Major::V1).map(drop));
            let refused = refused.unwrap_err();
            assert_eq!(
                (refused.code, &refused.details["field"]),
                (ApiCode::ValidationError, &json!("signatureAlgorithms")),
                "{wrong}"
            );
        }
        let both = read::<Subscribe>(listing(json!(["v1", "standard-webhooks-1"])))
            .unwrap()
            .into_new(&caller, Major::V1)
            .unwrap();
        assert_eq!(both.algorithms.as_deref(), Some(&SignatureAlgorithm::ALL[..]));
        for secret in [json!(null), json!("")] {
            let request = json!({"url": url, "events": ["run.completed"], "secret": secret, "more": 1});
            assert!(read::<Subscribe>(request).unwrap().secret.is_none_or(|secret| secret.0.is_none()));
        }
    }
}
