//! Interrupts, resolved by key and by token.

use canon::time::Timestamp;
use flow::id::{InterruptId, NodeId, Principal, RunId};
use flow::token::{Intent, InterruptToken};
use serde_json::{Value, json};

use super::client::{Answer, OpenStream};
use super::service::{Host, KEY, READER, TESTER, gate, workflow};

/// A token to resolve an interrupt, as earlier versions issued it: without a holder.
fn anonymous_token(run_id: &str, interrupt: &Value) -> String {
    let text = |name: &str| interrupt[name].as_str().unwrap().to_owned();
    let token = InterruptToken {
        run_id: RunId::new(run_id),
        node_id: NodeId::new(text("nodeId")),
        interrupt_id: InterruptId::new(text("interruptId")),
        expires_at: u64::MAX >> 12,
        intent: Intent::Resolve,
        holder: None,
    };
    token.sign(&[7; 32])
}

/// The token that a key sees in a waiting run.
async fn token_of(host: &Host, key: &str, run_id: &str) -> String {
    let bearer = format!("Bearer {key}");
    let path = format!("/v1/runs/{run_id}");
    let run = host.send("GET", &path, &[("authorization", &bearer)], None).await.expect(200);
    run["interrupt"]["interruptToken"].as_str().unwrap().to_owned()
}

/// Resolves an interrupt by token, without a key.
async fn answer_by_token(host: &Host, token: &str) -> Answer {
    let body = accept().to_string();
    host.send("POST", &format!("/v1/interrupts/{token}"), &[], Some(body.as_bytes())).await
}

fn accept() -> Value {
    json!({"resumeValue": {"action": "accept"}})
}

#[tokio::test]
async fn an_interrupt_is_resolved_once() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let read = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    assert_eq!((&read["status"], &read["currentNodeId"]), (&json!("waiting-approval"), &json!("gate")));
    let path = format!("/v1/runs/{run_id}/interrupts/gate");
    host.post(&path, &json!({})).await.refused(400, "validation_error");
    host.post(&path, &json!([])).await.refused(400, "validation_error");
    let wrong = host.post(&path, &json!({"resumeValue": {"action": "dance"}})).await;
    assert!(matches!(wrong.status, 400 | 422), "{}", wrong.text());
    host.post(&format!("/v1/runs/{run_id}/interrupts/none"), &accept())
        .await
        .refused(404, "interrupt_not_found");
    let answered = host.post(&path, &accept()).await.expect(200);
    assert_eq!((&answered["runId"], &answered["nodeId"]), (&json!(run_id), &json!("gate")));
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    host.post(&path, &accept()).await.refused(409, "interrupt_already_resolved");
}

#[tokio::test]
async fn of_two_concurrent_answers_one_is_accepted() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let path = format!("/v1/runs/{run_id}/interrupts/gate");
    let (one, two) = (accept(), accept());
    let (one, two) = tokio::join!(host.post(&path, &one), host.post(&path, &two));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

#[tokio::test]
async fn the_old_path_takes_the_answer_as_its_body() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let path = format!("/v1/runs/{run_id}/approvals/gate");
    host.post(&path, &json!({"action": "accept"})).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
}

#[tokio::test]
async fn a_token_is_enough_to_look_and_to_answer_once() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let read = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    let token = read["interrupt"]["interruptToken"].as_str().unwrap();
    assert_eq!(read["interrupt"]["callbackUrl"], format!("http://host.test/v1/interrupts/{token}"));
    let path = format!("/v1/interrupts/{token}");
    let open = async |method: &str, path: &str, body: Option<Value>| {
        let body = body.map(|body| body.to_string().into_bytes());
        host.send(method, path, &[], body.as_deref()).await
    };
    let looked = open("GET", &path, None).await.expect(200);
    assert_eq!((&looked["kind"], &looked["resolved"]), (&json!("approval"), &json!(false)));
    open("POST", &path, Some(json!({}))).await.refused(400, "validation_error");
    open("POST", &path, Some(accept())).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    open("POST", &path, Some(accept())).await.refused(409, "interrupt_already_resolved");
    open("GET", &path, None).await.refused(409, "interrupt_already_resolved");
    for wrong in ["x", "a.b", &format!("{token}x"), &"a".repeat(4000)] {
        open("GET", &format!("/v1/interrupts/{wrong}"), None).await.refused(404, "interrupt_not_found");
        open("POST", &format!("/v1/interrupts/{wrong}"), Some(accept()))
            .await
            .refused(404, "interrupt_not_found");
    }
}

#[tokio::test]
async fn a_token_is_valid_for_its_purpose_until_it_expires() {
    let host = Host::start().await;
    let timed = json!({"title": "Quick", "timeoutMs": 60_000});
    host.register(&workflow("timed", &[("gate", "core.approvalGate", timed)], &json!([]))).await;
    let run_id = host.create("timed").await;
    let interrupt = host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["interrupt"].clone();
    let token = interrupt["interruptToken"].as_str().unwrap();
    let open = async |method: &str, token: &str| {
        let body = accept().to_string();
        host.send(method, &format!("/v1/interrupts/{token}"), &[], Some(body.as_bytes())).await
    };
    let looked = open("GET", token).await.expect(200);
    assert_eq!(looked["expiresAt"], interrupt["deadline"], "not after the deadline of the interrupt");
    for member in ["kind", "key", "resumeSchema", "data", "expiresAt", "resolved"] {
        assert!(looked.get(member).is_some(), "{member}");
    }
    let made = |intent: Intent, expires_at: u64, secret: u8| {
        let (run_id, node_id) = (RunId::new(run_id.as_str()), NodeId::new("gate"));
        let interrupt_id = InterruptId::new(interrupt["interruptId"].as_str().unwrap());
        InterruptToken { run_id, node_id, interrupt_id, expires_at, intent, holder: None }.sign(&[secret; 32])
    };
    let never = u64::MAX >> 12;
    open("GET", &made(Intent::Inspect, never, 7)).await.expect(200);
    open("POST", &made(Intent::Inspect, never, 7)).await.refused(403, "forbidden");
    for method in ["GET", "POST"] {
        open(method, &made(Intent::Resolve, 1, 7)).await.refused(410, "interrupt_expired");
        open(method, &made(Intent::Resolve, never, 8)).await.refused(404, "interrupt_not_found");
    }
    assert_eq!(host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"], "waiting-approval");
    host.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).await.expect(200);
    for method in ["GET", "POST"] {
        open(method, token).await.refused(409, "interrupt_already_resolved");
    }
}

#[tokio::test]
async fn a_token_is_answered_once_for_a_key_and_the_token_is_kept_nowhere() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let read = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    let path = format!("/v1/interrupts/{}", read["interrupt"]["interruptToken"].as_str().unwrap());
    let body = accept().to_string();
    let post = async || host.send("POST", &path, &[("idempotency-key", "k")], Some(body.as_bytes())).await;
    let first = post().await;
    let again = post().await;
    assert_eq!(first.expect(200), again.expect(200));
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
}

#[tokio::test]
async fn questions_are_answered_and_cancelled_runs_are_removed() {
    let host = Host::start().await;
    let config = json!({"questions": [{"id": "q1", "question": "Which colour?"}]});
    host.register(&workflow("ask", &[("ask", "core.clarificationGate", config)], &json!([]))).await;
    let run_id = host.create("ask").await;
    assert_eq!(host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"], "waiting-input");
    let path = format!("/v1/runs/{run_id}/interrupts/ask");
    let missing = host.post(&path, &json!({"resumeValue": {"answers": {}}})).await;
    assert!(matches!(missing.status, 400 | 422), "{}", missing.text());
    let answers = json!({"resumeValue": {"answers": {"q1": "blue"}}});
    let reader = format!("Bearer {READER}");
    host.post_with(&path, &[("authorization", &reader)], &answers).await.refused(403, "forbidden");
    host.post(&path, &answers).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");

    let run_id = host.create("ask").await;
    host.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).await.expect(200);
    let gone = host.post(&format!("/v1/runs/{run_id}/interrupts/ask"), &answers).await;
    gone.refused(410, "interrupt_gone");
}

#[tokio::test]
async fn a_concurrent_answer_and_cancel_have_exactly_one_winner() {
    let host = Host::start().await;
    host.register(&gate()).await;
    for _ in 0..5 {
        let run_id = host.create("gate").await;
        let (resolve, cancel) =
            (format!("/v1/runs/{run_id}/approvals/gate"), format!("/v1/runs/{run_id}/cancel"));
        let (action, nothing) = (json!({"action": "accept"}), json!({}));
        let (resolved, cancelled) = tokio::join!(host.post(&resolve, &action), host.post(&cancel, &nothing));
        assert_eq!(cancelled.status, 200, "{}", cancelled.text());
        let ended = host.end_of(&run_id).await;
        let expected = if resolved.status == 200 { "completed" } else { "cancelled" };
        assert_eq!(ended["status"], expected, "{}", resolved.text());
        assert!(matches!(resolved.status, 200 | 404 | 409 | 410), "{}", resolved.text());
    }
}

#[tokio::test]
async fn an_event_delivered_twice_with_a_key_gets_the_same_reply_and_a_different_one_a_conflict() {
    let host = Host::start().await;
    let data = json!({"eventType": "shop.paid", "correlation": {"order": 7}});
    for profile in [None, Some("openwop-interrupt-auth-required")] {
        let config = json!({"kind": "external-event", "data": data, "profile": profile});
        let id = if profile.is_some() { "strict" } else { "expecting" };
        host.register(&workflow(id, &[("wait", "core.interrupt", config)], &json!([]))).await;
        let run_id = host.create(id).await;
        let run = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
        assert_eq!(run["status"], "waiting-external");
        let by_run = format!("/v1/runs/{run_id}/interrupts/wait");
        // If a key is required, no token is issued that can resolve; earlier versions issued one.
        let by_token = match profile {
            None => run["interrupt"]["interruptToken"].as_str().unwrap().to_owned(),
            Some(_) => anonymous_token(&run_id, &run["interrupt"]),
        };
        let by_token = format!("/v1/interrupts/{by_token}");
        let event = json!({"resumeValue": {"order": 7, "paid": true}});
        let first = host.post(&by_run, &event).await.expect(200);
        let ended = host.end_of(&run_id).await;
        assert_eq!(host.post(&by_run, &event).await.expect(200), first);
        let token = host.send("POST", &by_token, &[], Some(event.to_string().as_bytes())).await;
        token.refused(409, "interrupt_already_resolved");
        let other = json!({"resumeValue": {"order": 7, "paid": false}});
        host.post(&by_run, &other).await.refused(409, "interrupt_already_resolved");
        host.get(&by_token).await.refused(409, "interrupt_already_resolved");
        assert_eq!(host.get(&format!("/v1/runs/{run_id}")).await.expect(200), ended);
    }
}

/// The scenario interrupt-token-matrix: a token can be used once. A client that repeats the request with its `Idempotency-Key` gets
/// the recorded reply.
#[tokio::test]
async fn a_resolved_token_is_a_conflict_except_for_the_same_idempotency_key() {
    let host = Host::start().await;
    let data = json!({"eventType": "shop.paid", "correlation": {"order": 7}});
    let config = json!({"kind": "external-event", "data": data});
    host.register(&workflow("expecting", &[("wait", "core.interrupt", config)], &json!([]))).await;
    let run_id = host.create("expecting").await;
    let path = format!("/v1/interrupts/{}", token_of(&host, KEY, &run_id).await);
    let event = json!({"resumeValue": {"order": 7, "paid": true}}).to_string();
    let send = async |key: Option<&str>| {
        let headers: Vec<_> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
        host.send("POST", &path, &headers, Some(event.as_bytes())).await
    };
    let first = send(Some("once")).await;
    first.expect(200);
    host.end_of(&run_id).await;
    let again = send(Some("once")).await;
    assert_eq!((again.expect(200), again.header("openwop-idempotent-replay")), (first.json(), Some("true")));
    send(None).await.refused(409, "interrupt_already_resolved");
    send(Some("other")).await.refused(409, "interrupt_already_resolved");
}

/// The scenario interrupt-token-matrix: the token is checked before the body.
#[tokio::test]
async fn an_unknown_token_is_not_found_whatever_comes_with_it() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let known = token_of(&host, KEY, &run_id).await;
    for (body, of_known) in [
        (&b"{\"correlation\": {}}"[..], 400),
        (b"{\"resumeValue\": {\"action\": \"accept\"}}", 200),
        (b"not JSON", 400),
        (b"", 400),
    ] {
        for token in ["tok_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "!!!not-a-valid-token!!!"] {
            let unknown = host.send("POST", &format!("/v1/interrupts/{token}"), &[], Some(body)).await;
            unknown.refused(404, "interrupt_not_found");
        }
        if of_known == 400 {
            let path = format!("/v1/interrupts/{known}");
            host.send("POST", &path, &[], Some(body)).await.refused(400, "validation_error");
        }
    }
    answer_by_token(&host, &known).await.expect(200);
}

/// Finding H1: a caller that may only read a run cannot approve with what a read returns.
#[tokio::test]
async fn a_key_without_the_approval_scope_sees_no_answer_token() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let token = token_of(&host, READER, &run_id).await;
    host.send("GET", &format!("/v1/interrupts/{token}"), &[], None).await.expect(200);
    answer_by_token(&host, &token).await.refused(403, "forbidden");
    let bearer = format!("Bearer {READER}");
    let stream = format!("/v1/runs/{run_id}/events?streamMode=values");
    let mut streamed = OpenStream::get(host.address, &stream, &[("authorization", &bearer)]).await;
    let shown = streamed.until("waiting-approval").await;
    assert!(!shown.contains(&token_of(&host, KEY, &run_id).await), "{shown}");
    drop(streamed);
    assert_eq!(host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"], "waiting-approval");

    answer_by_token(&host, &token_of(&host, KEY, &run_id).await).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    let polled = host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
    let decided: Vec<&Value> = polled["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["payload"].get("decidedBy"))
        .collect();
    assert_eq!(decided, [&json!("full")], "the record names who decided");
}

/// Finding H1: one principal casts one vote, by token or by key; a token of an earlier version is never a second vote.
#[tokio::test]
async fn a_quorum_of_two_needs_two_principals() {
    let host = Host::start().await;
    let config = json!({"requiredApprovals": 2});
    host.register(&workflow("two", &[("gate", "core.approvalGate", config)], &json!([]))).await;
    let by_key = async |key: &str, run_id: &str| {
        let (bearer, path) = (format!("Bearer {key}"), format!("/v1/runs/{run_id}/interrupts/gate"));
        host.post_with(&path, &[("authorization", &bearer)], &accept()).await.expect(200)["status"].clone()
    };
    for anonymous in [false, true] {
        let run_id = host.create("two").await;
        let token = if anonymous {
            let run = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
            anonymous_token(&run_id, &run["interrupt"])
        } else {
            token_of(&host, KEY, &run_id).await
        };
        for _ in 0..2 {
            let voted = answer_by_token(&host, &token).await.expect(200);
            assert_eq!(voted["status"], "waiting-approval", "anonymous: {anonymous}");
        }
        assert_eq!(by_key(KEY, &run_id).await, "waiting-approval", "anonymous: {anonymous}");
        let again = answer_by_token(&host, &token).await.expect(200);
        assert_eq!(again["status"], "waiting-approval", "anonymous: {anonymous}");
        assert_eq!(by_key(TESTER, &run_id).await, "completed", "anonymous: {anonymous}");
    }
}

/// Finding H1: a token is valid only as long as the key that it was issued to.
#[tokio::test]
async fn a_token_ends_with_the_key_that_it_was_issued_to() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let token = token_of(&host, TESTER, &run_id).await;
    let full = host.runs.keys().authenticate(KEY).await.unwrap();
    host.runs.keys().revoke(&full, "tester").await.unwrap();
    answer_by_token(&host, &token).await.refused(403, "forbidden");
    assert_eq!(host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"], "waiting-approval");
}

/// Finding H1: no token is issued that would be refused.
#[tokio::test]
async fn tokens_are_issued_for_what_they_can_do() {
    let host = Host::start().await;
    let governance = "core.openwop.governance.approvalGate";
    let cases = [
        ("open", "core.approvalGate", json!({}), "resolve"),
        ("listed", "core.approvalGate", json!({"approversList": ["full"]}), "resolve"),
        ("not-listed", "core.approvalGate", json!({"approversList": ["ann"]}), "inspect"),
        ("strict", "core.approvalGate", json!({"profile": "openwop-interrupt-auth-required"}), "inspect"),
        ("governed", governance, json!({"requiredScope": "approvals:respond"}), "inspect"),
        (
            "question",
            "core.clarificationGate",
            json!({"questions": [{"id": "q", "question": "?"}]}),
            "resolve",
        ),
    ];
    for (id, type_id, config, intent) in cases {
        host.register(&workflow(id, &[("gate", type_id, config)], &json!([]))).await;
        let run_id = host.create(id).await;
        let token = token_of(&host, KEY, &run_id).await;
        let token = InterruptToken::verify(&token, &[[7; 32]], Timestamp(0)).unwrap();
        assert_eq!(serde_json::to_value(token.intent).unwrap(), intent, "{id}");
        assert_eq!(token.holder, Some(Principal::new("full")), "{id}");
    }
}
