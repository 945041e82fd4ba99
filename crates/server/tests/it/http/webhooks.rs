//! Subscriptions.

use serde_json::json;

use super::service::{Host, KEY, OTHER};

#[tokio::test]
async fn a_subscription_is_made_shown_without_its_secret_and_ended() {
    let host = Host::start().await;
    let body = json!({"url": "https://example.com/hook", "events": ["run.completed"]});
    let made = host.post("/v1/webhooks", &body).await.expect(201);
    let id = made["webhookId"].as_str().unwrap();
    assert_eq!(made["subscriptionId"], id);
    let secret = made["secret"].as_str().unwrap();
    let listed = host.get("/v1/webhooks").await;
    assert_eq!(listed.expect(200)["webhooks"][0]["webhookId"], id);
    assert!(!listed.text().contains(secret));
    let delete = async |key: &str, query: &str| {
        let key = format!("Bearer {key}");
        host.send("DELETE", &format!("/v1/webhooks/{id}{query}"), &[("authorization", &key)], None).await
    };
    delete(OTHER, "").await.refused(404, "subscription_not_found");
    delete(KEY, "?tenantId=b").await.refused(403, "forbidden");
    let deleted = delete(KEY, "?tenantId=a").await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    delete(KEY, "").await.refused(404, "subscription_not_found");
}

#[tokio::test]
async fn addresses_inside_are_not_called() {
    let host = Host::start().await;
    for url in [
        "http://example.com/",
        "https://localhost/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "ftp://example.com",
        "nothing",
    ] {
        let refused = host.post("/v1/webhooks", &json!({"url": url, "events": ["run.completed"]})).await;
        refused.refused(400, "webhook_url_rejected");
    }
    let url = "https://example.com/";
    for body in [json!({}), json!({"url": url}), json!({"url": url, "events": []}), json!([])] {
        host.post("/v1/webhooks", &body).await.refused(400, "validation_error");
    }
}
