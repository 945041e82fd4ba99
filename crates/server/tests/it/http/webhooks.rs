//! Webhook subscriptions.

use serde_json::json;

use super::service::{Host, KEY, OTHER, READER};

#[tokio::test]
async fn a_webhook_is_registered_listed_without_its_secret_and_deleted() {
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

#[tokio::test]
async fn dead_letters_and_rotation_are_for_the_owner_of_a_webhook() {
    let host = Host::start().await;
    let body = json!({"url": "https://example.com/hook", "events": ["run.completed"]});
    let made = host.post("/v1/webhooks", &body).await.expect(201);
    assert!(made.get("signatureAlgorithms").is_none(), "only if the request has it");
    let path = format!("/v1/webhooks/{}", made["webhookId"].as_str().unwrap());
    assert_eq!(
        host.get("/v1/webhooks").await.expect(200)["webhooks"][0]["signatureAlgorithms"],
        json!(["v1"])
    );
    assert_eq!(host.get(&format!("{path}/dead-letters")).await.expect(200), json!({"deliveries": []}));
    host.get(&format!("{path}/dead-letters?limit=0")).await.refused(400, "validation_error");
    host.get_as(OTHER, &format!("{path}/dead-letters")).await.refused(404, "subscription_not_found");
    host.get("/v1/webhooks/none/dead-letters").await.refused(404, "subscription_not_found");
    let redeliver = format!("{path}/dead-letters/whk_1:evt_run_1_3:redeliver");
    host.post(&redeliver, &json!({})).await.refused(404, "not_found");
    host.get_as(READER, &format!("{path}/dead-letters")).await.refused(403, "forbidden");

    let rotate = format!("{path}/rotate-secret");
    let secret = json!({"secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="});
    host.post(&rotate, &secret).await.refused(400, "validation_error");
    host.post(&format!("{rotate}?tenantId=b"), &secret).await.refused(403, "forbidden");
    host.post("/v1/webhooks/none/rotate-secret", &secret).await.refused(404, "subscription_not_found");
    let mut asked = body.clone();
    asked["signatureAlgorithms"] = json!(["v1", "standard-webhooks-1"]);
    host.post("/v1/webhooks", &asked).await.refused(400, "validation_error");
    let said = host.get("/.well-known/openwop").await.expect(200);
    assert_eq!(said["webhooks"]["signatureAlgorithms"], json!(["v1", "standard-webhooks-1"]));
    assert_eq!(said["webhooks"]["secretRotation"], json!({"overlapSeconds": 86400}));
}
