//! Workflows: registered, listed, read.

use serde_json::json;

use super::service::{Host, noop, workflow};

#[tokio::test]
async fn a_workflow_is_read_as_it_was_registered_and_the_same_again_is_no_change() {
    let host = Host::start().await;
    let first = host.post("/v1/workflows", &noop()).await.expect(201);
    assert_eq!(first["workflowId"], "noop");
    assert_eq!(host.post("/v1/workflows", &noop()).await.expect(200), first);
    assert_eq!(host.get("/v1/workflows/noop").await.expect(200), noop());
    let listed = json!({"workflows": [{"workflowId": "noop", "digest": first["digest"]}]});
    assert_eq!(host.get("/v1/workflows").await.expect(200), listed);
    host.get("/v1/workflows/none").await.refused(404, "workflow_not_found");
}

#[tokio::test]
async fn a_document_that_is_no_workflow_is_refused_with_the_places_that_are_wrong() {
    let host = Host::start().await;
    let mut dangling = noop();
    dangling["edges"] = json!([{"id": "e", "sourceNodeId": "only", "targetNodeId": "none"}]);
    let gated = workflow("mine", &[("agent", "core.conformance.mock-agent", json!({}))], &json!([]));
    for document in [json!({}), json!([]), json!("x"), dangling] {
        let refused = host.post("/v1/workflows", &document).await.refused(400, "validation_error");
        assert!(
            refused["details"]["fields"].as_array().is_some_and(|fields| !fields.is_empty()),
            "{refused}"
        );
    }
    host.post("/v1/workflows", &gated).await.refused(400, "capability_required");
    let keyed = [("idempotency-key", "k")];
    let first = host.post_with("/v1/workflows", &keyed, &noop()).await;
    first.expect(201);
    assert_eq!(first.header("openwop-idempotent-replay"), Some("false"));
    let again = host.post_with("/v1/workflows", &keyed, &noop()).await;
    again.expect(201);
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
    host.post_with("/v1/workflows", &keyed, &gated).await.refused(409, "idempotency_key_mismatch");
}
