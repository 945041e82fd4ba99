//! Subscriptions.

use std::borrow::Cow;

use canon::time::Timestamp;
use flow::id::SubscriptionId;
use host::runs::webhooks::{NewWebhook, RegisteredWebhook, WebhookView};
use host::runs::{Caller, Refusal};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use super::fields::{Field, List, Text, inline_schema};
use super::problem::Problem;
use super::{body, check_tenant};

/// How long a secret of the caller's own may be, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

/// A secret of the caller's own. An empty one is none.
pub(in crate::http) struct Secret(Option<String>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Field for Secret {
    fn expected() -> Cow<'static, str> {
        let (least, most) = (SECRET_BYTES.start(), SECRET_BYTES.end());
        format!("a text of {least} to {most} bytes; leave it out to have one made").into()
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
        /// Where deliveries are posted to.
        #[schemars(extend("format" = "uri", "maxLength" = 2048))]
        url = "url": Text,
        /// The kinds of events, such as `run.completed`.
        events = "events": List<Text<1, 256>, 1, 200>; "name kinds of events, such as run.completed",
        /// Only events of runs with one of these tags.
        tags = "tags": Option<List<Text<1, 256>, 0, 200>>,
        secret = "secret": Option<Secret>,
        tenant_id = "tenantId": Option<Text>,
    }
}

impl Subscribe {
    pub(in crate::http) fn into_new(self, caller: &Caller) -> Result<NewWebhook, Refusal> {
        check_tenant(caller, self.tenant_id.as_ref().map(|tenant| tenant.0.as_str()))?;
        let names = |names: Vec<Text<1, 256>>| names.into_iter().map(|name| name.0).collect();
        Ok(NewWebhook {
            url: self.url.0,
            events: names(self.events.0),
            tags: self.tags.map(|tags| names(tags.0)).unwrap_or_default(),
            secret: self.secret.and_then(|secret| secret.0),
        })
    }
}

/// A new subscription, with its secret. `url`, `eventTypes` and `createdAt` are not in the text of the protocol, but clients of it read
/// them.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Subscribed<'w> {
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    event_types: &'w [String],
    secret: &'w str,
    secret_fingerprint: &'w str,
    #[schemars(extend("const" = "v1"))]
    signature_algorithm: &'static str,
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
            secret: &webhook.secret,
            secret_fingerprint: &webhook.fingerprint,
            signature_algorithm: "v1",
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
            status: if webhook.failed { WebhookStatus::Failed } else { WebhookStatus::Active },
            tags: webhook.tags,
            url: webhook.url,
            webhook_id: webhook.id,
        };
        Self { webhooks: webhooks.into_iter().map(shown).collect() }
    }
}

#[cfg(test)]
mod tests {
    use host::runs::ApiCode;
    use serde_json::json;

    use super::super::read;
    use super::*;

    #[test]
    fn a_wrong_subscription_names_the_member() {
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
        let other = json!({"url": url, "events": ["run.completed"], "tenantId": "other"});
        let caller = Caller {
            tenant: flow::id::Tenant::new("acme"),
            principal: flow::id::Principal::new("key"),
            scopes: Vec::new(),
            test: false,
        };
        let refused = read::<Subscribe>(other).unwrap().into_new(&caller).err().unwrap();
        assert_eq!(refused.code, ApiCode::Forbidden);
        for secret in [json!(null), json!("")] {
            let request = json!({"url": url, "events": ["run.completed"], "secret": secret, "more": 1});
            assert!(read::<Subscribe>(request).unwrap().secret.is_none_or(|secret| secret.0.is_none()));
        }
    }
}
