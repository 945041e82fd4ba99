//! Version 2 of the protocol. Tests are named after the scenarios of the conformance suite that they cover.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::client::{Answer, OpenStream};
use super::service::{Host, KEY, OTHER, gate, noop, protocol_file, short, slow};

const VERSION: (&str, &str) = ("openwop-version", "2.0");

/// A key as long as version 2 requires.
const LONG_KEY: &str = "0123456789abcdefABCDEF";

async fn get(host: &Host, path: &str) -> Answer {
    host.send("GET", path, &[("authorization", &format!("Bearer {KEY}")), VERSION], None).await
}

async fn post(host: &Host, path: &str, body: &Value) -> Answer {
    host.post_with(path, &[VERSION], body).await
}

/// Creates a run under version 2 and returns its bound id and the id in paths.
async fn create(host: &Host, workflow: &str) -> (String, String) {
    let created = post(host, "/runs", &json!({"workflowId": workflow})).await.expect(201);
    let bound = created["runId"].as_str().unwrap().to_owned();
    let path = bound.replace('/', "~2F");
    (bound, path)
}

/// The events of a run, once it has ended.
async fn events_of(host: &Host, path: &str) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    let mut query = String::new();
    loop {
        let page = get(host, &format!("/runs/{path}/events/poll?timeout=20{query}")).await.expect(200);
        let members: BTreeSet<&str> = page.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, BTreeSet::from(["events", "isTerminal", "lastSequence", "runId", "status"]));
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        if page["isTerminal"] == true {
            return events;
        }
        query = format!("&afterSequence={}", page["lastSequence"]);
    }
}

#[tokio::test]
async fn v2_version_header_honored() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let (_, path) = create(&host, "noop").await;
    for (target, version, status, replied) in [
        (format!("/runs/{path}"), Some("2"), 200, "2.0"),
        (format!("/runs/{path}"), None, 200, "2.0"),
        ("/runs".to_owned(), Some("1.0"), 200, "1.0"),
        ("/runs".to_owned(), Some("3"), 406, "2.0"),
        ("/runs/none".to_owned(), Some("2.0"), 404, "2.0"),
        ("/prompts".to_owned(), Some("2.0"), 404, "2.0"),
        ("/v1/runs".to_owned(), Some("2.0"), 400, "1.0"),
        ("/v1/runs".to_owned(), None, 200, "1.0"),
        ("/openapi.json".to_owned(), Some("2.0"), 200, "2.0"),
        ("/.well-known/openwop".to_owned(), None, 200, "1.0"),
        ("/.well-known/openwop".to_owned(), Some("2.0"), 200, "2.0"),
    ] {
        let key = format!("Bearer {KEY}");
        let mut headers = vec![("authorization", key.as_str())];
        headers.extend(version.map(|version| ("openwop-version", version)));
        let answer = host.send("GET", &target, &headers, None).await;
        assert_eq!(answer.status, status, "{target} {version:?}: {}", answer.text());
        assert_eq!(answer.header("openwop-version"), Some(replied), "{target} {version:?}");
        if status == 406 {
            let body = answer.refused(406, "protocol_version_unsupported");
            assert_eq!(body["details"]["protocolVersions"], json!(["1.0", "2.0"]));
        }
    }
    // Without a key, and with a revoked one.
    let answer = host.send("GET", "/runs", &[VERSION], None).await;
    answer.refused(401, "unauthenticated");
    assert_eq!(answer.header("openwop-version"), Some("2.0"));
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
}

#[tokio::test]
async fn v2_dual_stack_negotiation() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let own = host.create("noop").await;
    host.end_of(&own).await;
    // A run made under version 1 is `<tenant>/<id>` under version 2, by each spelling of its id.
    for spelled in [own.clone(), format!("a~2F{own}"), format!("a%2F{own}")] {
        let run = get(&host, &format!("/runs/{spelled}")).await.expect(200);
        assert_eq!(run["runId"], format!("a/{own}"), "{spelled}");
    }
    let foreign = get(&host, &format!("/runs/other~2F{own}")).await;
    foreign.refused(403, "id_tenant_mismatch");
    get(&host, "/runs/a~2Frun_none").await.refused(404, "not_found");
    get(&host, "/runs/a~2").await.refused(400, "validation_error");
    let key = format!("Bearer {OTHER}");
    let answer = host.send("GET", &format!("/runs/{own}"), &[("authorization", &key), VERSION], None).await;
    answer.refused(404, "not_found");
    // The entity tags of the two versions differ, and each is honoured.
    let (one, two) = (host.get(&format!("/v1/runs/{own}")).await, get(&host, &format!("/runs/{own}")).await);
    let tags = [one.header("etag").unwrap().to_owned(), two.header("etag").unwrap().to_owned()];
    assert_ne!(tags[0], tags[1]);
    let key = format!("Bearer {KEY}");
    let headers = [("authorization", key.as_str()), VERSION, ("if-none-match", tags[1].as_str())];
    let answer = host.send("GET", &format!("/runs/{own}"), &headers, None).await;
    assert_eq!((answer.status, answer.header("openwop-version")), (304, Some("2.0")));
}

#[tokio::test]
async fn v2_event_type_closed() {
    let host = Host::start().await;
    host.register(&noop()).await;
    host.register(&gate()).await;
    let (bound, path) = create(&host, "gate").await;
    let run = loop {
        let run = get(&host, &format!("/runs/{path}")).await.expect(200);
        if run["status"] == "waiting-approval" {
            break run;
        }
        get(&host, &format!("/runs/{path}/events/poll?timeout=1&afterSequence=2")).await.expect(200);
    };
    assert_eq!(run["owner"]["subject"]["kind"], "user");
    let interrupt = &run["nodeStates"]["gate"]["interrupt"];
    assert!(interrupt["interruptId"].as_str().unwrap().starts_with("a/int_"), "{interrupt}");
    let answer = json!({"resumeValue": {"action": "accept"}});
    let answered = post(&host, &format!("/runs/{path}/interrupts/gate"), &answer).await.expect(200);
    assert_eq!(answered["runId"], bound);
    let events = events_of(&host, &path).await;
    let members: BTreeSet<&str> = BTreeSet::from([
        "causationId",
        "eventId",
        "nodeId",
        "payload",
        "runId",
        "schemaVersion",
        "sequence",
        "timestamp",
        "type",
    ]);
    for (place, event) in events.iter().enumerate() {
        assert_eq!(event["sequence"], place);
        assert_eq!(event["schemaVersion"], 1);
        assert_eq!(event["runId"], bound.as_str());
        assert!(event.as_object().unwrap().keys().all(|name| members.contains(name.as_str())), "{event}");
        assert!(openwop::event::by_v2(event["type"].as_str().unwrap()).is_some(), "{event}");
    }
    let of = |kind: &str| {
        events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("{kind} in {events:?}"))
    };
    assert_eq!(of("interrupt.resolved")["payload"]["decision"], "granted");
    assert_eq!(of("interrupt.resolved")["payload"]["action"], "accept");
    assert_eq!(of("approval.received")["payload"]["interruptId"], interrupt["interruptId"]);
    assert_eq!(of("run.completed")["payload"]["outputs"]["gate"]["action"], "accept");
    // A reader that begins after the question gets the same events.
    let asked = of("interrupt.requested")["sequence"].as_u64().unwrap();
    let rest = get(&host, &format!("/runs/{path}/events/poll?afterSequence={asked}")).await.expect(200);
    assert_eq!(rest["events"].as_array().unwrap()[..], events[usize::try_from(asked).unwrap() + 1..]);
    // The log under version 1 is unchanged.
    let own = bound.split_once('/').unwrap().1;
    let v1 = host.get(&format!("/v1/runs/{own}/events/poll")).await.expect(200);
    assert_eq!(v1["events"].as_array().unwrap().len(), events.len());
    assert_eq!(v1["events"][0]["runId"], own);
}

#[tokio::test]
async fn v2_poll_cursor_v2() {
    let host = Host::start().await;
    host.register(&short()).await;
    let (bound, path) = create(&host, "short").await;
    let events = events_of(&host, &path).await;
    let last = events.len() - 1;
    let beyond = get(&host, &format!("/runs/{path}/events/poll?afterSequence=100000")).await.expect(200);
    assert_eq!(
        beyond,
        json!({"events": [], "isTerminal": true, "lastSequence": last, "runId": bound, "status": "completed"})
    );
    get(&host, &format!("/runs/{path}/events/poll?timeout=0")).await.refused(400, "validation_error");
    get(&host, &format!("/runs/{path}/events/poll?afterSequence=x")).await.refused(400, "validation_error");
}

#[tokio::test]
async fn v2_sse_last_event_id() {
    let host = Host::start().await;
    host.register(&short()).await;
    let (bound, path) = create(&host, "short").await;
    let key = format!("Bearer {KEY}");
    let base = [("authorization", key.as_str()), VERSION, ("accept", "text/event-stream")];
    let target = format!("/runs/{path}/events?streamMode=debug");
    let all = OpenStream::get(host.address, &target, &base).await.read_to_end().await;
    let ids = |text: &str| {
        text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse::<u64>().ok()).collect::<Vec<_>>()
    };
    let whole = ids(&all);
    assert!(whole.len() > 4 && all.contains(&format!("\"runId\":\"{bound}\"")), "{all}");
    let mut headers = base.to_vec();
    headers.push(("last-event-id", "2"));
    let rest = OpenStream::get(host.address, &target, &headers).await.read_to_end().await;
    assert_eq!(ids(&rest)[..], whole[3..]);
    // v2-sse-last-event-id-cursor: past the end of an ended run the stream closes at once.
    headers.pop();
    headers.push(("last-event-id", "9999"));
    let rest = OpenStream::get(host.address, &target, &headers).await.read_to_end().await;
    assert_eq!(ids(&rest), Vec::<u64>::new());
    headers.pop();
    headers.push(("last-event-id", "abc"));
    host.send("GET", &target, &headers, None).await.refused(400, "validation_error");
    host.send("GET", &format!("/runs/{path}/events?streamMode=nonsense"), &base, None)
        .await
        .refused(400, "unsupported_stream_mode");
}

#[tokio::test]
async fn v2_run_cancel() {
    let host = Host::start().await;
    host.register(&slow()).await;
    let (bound, path) = create(&host, "slow").await;
    let key = [VERSION, ("idempotency-key", LONG_KEY)];
    let cancel = format!("/runs/{path}/cancel");
    let first = host.post_with(&cancel, &key, &json!({"reason": "test"})).await.expect(200);
    assert_eq!(first, json!({"runId": bound, "status": "cancelled"}));
    post(&host, &cancel, &json!({})).await.refused(409, "run_terminal");
    // The same request gets its recorded reply, although the run has ended by now.
    let again = host.post_with(&cancel, &key, &json!({"reason": "test"})).await;
    assert_eq!(again.expect(200), first);
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
    assert_eq!(events_of(&host, &path).await.last().unwrap()["type"], "run.cancelled");
    // Version 1 keeps its answer.
    let own = bound.split_once('/').unwrap().1;
    host.post(&format!("/v1/runs/{own}/cancel"), &json!({})).await.expect(200);
}

#[tokio::test]
async fn v2_run_bulk_cancel() {
    let host = Host::start().await;
    host.register(&slow()).await;
    host.register(&noop()).await;
    let (bound, _) = create(&host, "slow").await;
    let (ended, path) = create(&host, "noop").await;
    events_of(&host, &path).await;
    let ids = json!([bound, "a/run_none", ended, "other/run_1", 7]);
    let results = post(&host, "/runs:bulk-cancel", &json!({"runIds": ids})).await.expect(200);
    let results = results["results"].as_array().unwrap();
    assert_eq!(
        results.iter().map(|result| result["runId"].clone()).collect::<Vec<_>>(),
        *ids.as_array().unwrap()
    );
    let codes: Vec<&str> =
        results.iter().map(|result| result["error"]["error"].as_str().unwrap_or("ok")).collect();
    assert_eq!(codes, ["ok", "not_found", "run_terminal", "id_tenant_mismatch", "validation_error"]);
    assert_eq!(results[0]["status"], "cancelled");
    let many: Vec<String> = (0..101).map(|place| format!("a/run_{place}")).collect();
    let refused = post(&host, "/runs:bulk-cancel", &json!({"runIds": many})).await;
    assert_eq!(refused.refused(400, "validation_error")["details"]["maxRunIds"], 100);
}

#[tokio::test]
async fn v2_run_pause_resume() {
    let host = Host::start().await;
    host.register(&slow()).await;
    host.register(&noop()).await;
    let (bound, path) = create(&host, "slow").await;
    let pause = json!({"drainPolicy": "immediate"});
    let paused = post(&host, &format!("/runs/{path}:pause"), &pause).await.expect(202);
    assert_eq!((&paused["runId"], &paused["status"]), (&json!(bound), &json!("paused")));
    let again = post(&host, &format!("/runs/{path}:pause"), &pause).await.refused(409, "run_state_conflict");
    assert_eq!(again["details"]["runStatus"], "paused");
    let resumed = post(&host, &format!("/runs/{path}:resume"), &json!({})).await.expect(202);
    assert_eq!(resumed["status"], "running");
    post(&host, &format!("/runs/{path}:resume"), &json!({})).await.refused(409, "run_state_conflict");
    let (_, ended) = create(&host, "noop").await;
    events_of(&host, &ended).await;
    for action in ["pause", "resume"] {
        post(&host, &format!("/runs/{ended}:{action}"), &json!({})).await.refused(409, "run_terminal");
    }
}

#[tokio::test]
async fn v2_run_options_limits() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let tags: Vec<String> = (0..101).map(|place| place.to_string()).collect();
    for (body, code, status) in [
        (json!({"workflowId": "noop", "tags": tags}), "validation_error", 400),
        (json!({"workflowId": "noop", "tags": ["x".repeat(257)]}), "validation_error", 400),
        (json!({"workflowId": "noop", "unknown": 1}), "validation_error", 400),
        (json!({"workflowId": "noop", "configurable": {"recursionLimit": 5}}), "validation_error", 400),
        (
            json!({"workflowId": "noop", "configurable": {"version": 1, "run": {"ai": 1}}}),
            "validation_error",
            400,
        ),
        (json!({"workflowId": "none"}), "not_found", 404),
        (json!({"workflowId": "noop", "mode": "eval"}), "capability_not_provided", 422),
    ] {
        post(&host, "/runs", &body).await.refused(status, code);
    }
    let options = json!({"version": 1, "run": {"recursionLimit": 50}});
    let body = json!({
        "workflowId": "noop", "tags": ["odd tag/ü"], "metadata": {"free": {"form": 1}}, "configurable": options,
    });
    let created = post(&host, "/runs", &body).await.expect(201);
    let path = created["runId"].as_str().unwrap().replace('/', "~2F");
    assert!(created["eventsUrl"].as_str().unwrap().ends_with(&format!("/runs/{path}/events")), "{created}");
    let run = get(&host, &format!("/runs/{path}")).await.expect(200);
    assert_eq!(run["tags"], body["tags"]);
    assert_eq!(run["metadata"], body["metadata"]);
    assert_eq!(run["configurable"], options);
}

#[tokio::test]
async fn v2_idempotency_key_grammar() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let body = json!({"workflowId": "noop"});
    host.post_with("/runs", &[VERSION, ("idempotency-key", "short")], &body)
        .await
        .refused(400, "idempotency_key_invalid");
    let key = [VERSION, ("idempotency-key", LONG_KEY)];
    let first = host.post_with("/runs", &key, &body).await.expect(201);
    assert_eq!(host.post_with("/runs", &key, &body).await.expect(201), first);
    // The other version would return a reply in the wrong form.
    host.post_with("/v1/runs", &[("idempotency-key", LONG_KEY)], &body)
        .await
        .refused(409, "idempotency_key_mismatch");
    host.post_with("/v1/runs", &[("idempotency-key", "short")], &body).await.expect(201);
}

#[tokio::test]
async fn v2_interrupt_token_scheme() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let (bound, path) = create(&host, "gate").await;
    let link = loop {
        let run = get(&host, &format!("/runs/{path}")).await.expect(200);
        if let Some(link) = run.pointer("/nodeStates/gate/interrupt/callbackUrl").and_then(Value::as_str) {
            break link.to_owned();
        }
        get(&host, &format!("/runs/{path}/events/poll?timeout=1&afterSequence=2")).await.expect(200);
    };
    let token = link.split_once("/interrupts/").unwrap().1;
    assert!(token.starts_with("ow2.hs256.") && token.split('.').count() == 5, "{token}");
    let inspected = host.send("GET", &format!("/interrupts/{token}"), &[VERSION], None).await.expect(200);
    let members: BTreeSet<&str> = inspected.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, BTreeSet::from(["data", "key", "kind"]));
    let mut parts: Vec<&str> = token.split('.').collect();
    parts[2] = "unknown0";
    for wrong in [parts.join("."), "nonsense".to_owned(), token.replace("hs256", "none")] {
        let answer = host.send("GET", &format!("/interrupts/{wrong}"), &[VERSION], None).await;
        answer.refused(401, "interrupt_token_invalid");
    }
    let answer = json!({"resumeValue": {"action": "accept"}}).to_string();
    let headers = [VERSION, ("content-type", "application/json")];
    let target = format!("/interrupts/{token}");
    let resolved = host.send("POST", &target, &headers, Some(answer.as_bytes())).await.expect(200);
    assert_eq!(resolved["runId"], bound);
    // v2-interrupt-resolve-terminal
    host.send("POST", &target, &headers, Some(answer.as_bytes()))
        .await
        .refused(409, "interrupt_already_resolved");
}

#[tokio::test]
async fn forks_comparisons_and_notes_have_bound_ids() {
    let host = Host::start().await;
    host.register(&short()).await;
    let (bound, path) = create(&host, "short").await;
    events_of(&host, &path).await;
    let fork = json!({"mode": "branch", "fromSeq": 2});
    let forked = post(&host, &format!("/runs/{path}:fork"), &fork).await.expect(201);
    assert_eq!(forked["sourceRunId"], bound);
    let copy = forked["runId"].as_str().unwrap();
    assert!(copy.starts_with("a/run_"), "{forked}");
    let run = get(&host, &format!("/runs/{}", copy.replace('/', "~2F"))).await.expect(200);
    assert_eq!(run["parentRunId"], bound);
    let beyond =
        post(&host, &format!("/runs/{path}:fork"), &json!({"mode": "branch", "fromSeq": 9999})).await;
    beyond.refused(422, "fork_point_invalid");
    let diff =
        get(&host, &format!("/runs/{path}:diff?against={}", copy.replace('/', "%2F"))).await.expect(200);
    assert_eq!((&diff["a"], &diff["b"]), (&json!(bound), &json!(copy)));
    let note = json!({"signal": {"kind": "rating", "rating": 5}});
    let noted = post(&host, &format!("/runs/{path}/annotations"), &note).await.expect(201);
    assert_eq!(noted["target"]["runId"], bound);
    let notes = get(&host, &format!("/runs/{path}/annotations")).await.expect(200);
    assert_eq!(notes["annotations"][0]["target"]["runId"], bound);
    let ancestry = get(&host, &format!("/runs/{path}/ancestry")).await.expect(200);
    assert_eq!((&ancestry["runId"], &ancestry["parent"]), (&json!(bound), &Value::Null));
    let list = get(&host, "/runs?workflowId=short&limit=1").await.expect(200);
    assert_eq!(list["runs"].as_array().unwrap().len(), 1);
    assert!(list["runs"][0]["runId"].as_str().unwrap().starts_with("a/"));
}

/// The root is closed, and every family has how it is verified.
#[tokio::test]
async fn v2_capabilities_root_closed() {
    let host = Host::start().await;
    let answer = host.send("GET", "/.well-known/openwop", &[VERSION], None).await;
    assert!(answer.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("vary") && value.eq_ignore_ascii_case("openwop-version")
    }));
    let root = answer.expect(200);
    let metadata = [
        "protocolVersions",
        "preferredVersion",
        "implementation",
        "engineVersion",
        "eventLogSchemaVersion",
        "testing",
        "conformance",
        "fixtures",
        "observability",
    ];
    let families = protocol_file("v2/families.json");
    for (name, family) in root.as_object().unwrap() {
        if metadata.contains(&name.as_str()) {
            continue;
        }
        for required in ["status", "since", "witness"] {
            assert!(family[required].is_string(), "{name} has no {required}");
        }
        assert!(!family.to_string().contains("\"supported\""), "{name}");
        assert_eq!(family.get("until").is_some(), family["status"] != "stable", "{name}");
        let Some(families) = &families else { continue };
        let known = &families["families"][name.as_str()];
        assert_eq!(family["witness"], known["witness"], "{name}");
        assert_ne!(known["witness"], "unverified", "{name}");
        let facets: Vec<&str> = known["facets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|facet| facet.as_str().unwrap().split('{').next().unwrap())
            .collect();
        for facet in family.as_object().unwrap().keys() {
            assert!(
                ["status", "since", "witness", "until"].contains(&facet.as_str())
                    || facets.contains(&facet.as_str()),
                "{name}.{facet}"
            );
        }
    }
    for floor in ["interrupt", "replay", "webhooks", "eventLog"] {
        assert!(root[floor].is_object(), "{floor}");
    }
    // v2-preferred-version-default
    let preferred = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    assert_eq!(preferred["preferredVersion"], "1.0");
    assert_eq!(preferred["protocolVersions"], json!(["1.0", "2.0"]));
    assert!(preferred["capabilities"].is_object(), "the representation of version 1");
}

/// Every operation of the manifest is served, or answers 404 in version 2 as in version 1.
#[tokio::test]
async fn v2_unadvertised_operation_not_found() {
    let host = Host::start().await;
    let paths = [
        "/agents",
        "/agents/org-chart",
        "/agents/roster",
        "/audit/verify?fromSeq=0&toSeq=0",
        "/content/pages",
        "/content/settings",
        "/host/effect-seams",
        "/host/events",
        "/openapi.json",
        "/prompts",
        "/runs",
        "/tools",
        "/proposals",
        "/connection-providers",
    ];
    for path in paths {
        let (one, two) = (host.get(&format!("/v1{path}")).await, get(&host, path).await);
        assert!(two.status != 404 || one.status == 404, "{path}: {} and {}", one.status, two.status);
        assert_eq!(two.header("openwop-version"), Some("2.0"), "{path}");
        if two.status == 404 {
            two.refused(404, "not_found");
        }
    }
    let tools = get(&host, "/tools").await.expect(200);
    assert!(tools.is_array(), "{tools}");
    let answer =
        host.send("DELETE", "/runs", &[("authorization", &format!("Bearer {KEY}")), VERSION], None).await;
    answer.refused(404, "not_found");
    assert_eq!(answer.header("allow"), Some("GET, POST, HEAD"));
}

#[tokio::test]
async fn v2_webhooks_have_bound_ids_and_names_of_version_2() {
    let host = Host::start().await;
    let url = "https://example.com/hook";
    let body = json!({"url": url, "events": ["agent.tool-called", "run.completed"]});
    let made = post(&host, "/webhooks", &body).await.expect(201);
    assert_eq!(made["eventTypes"], body["events"]);
    assert_eq!(made["webhookId"], made["subscriptionId"]);
    assert!(made["webhookId"].as_str().unwrap().starts_with("a/whk_"), "{made}");
    assert!(made["secret"].is_string(), "v2-webhook-generated-secret");
    let supplied = json!({"url": url, "events": ["run.completed"], "secret": "0123456789abcdef"});
    let kept = post(&host, "/webhooks", &supplied).await.expect(201);
    assert_eq!(kept.get("secret"), None);
    let v1_name = json!({"url": url, "events": ["agent.toolCalled"]});
    post(&host, "/webhooks", &v1_name).await.refused(400, "validation_error");
    let path = made["webhookId"].as_str().unwrap().replace('/', "~2F");
    let letters = get(&host, &format!("/webhooks/{path}/dead-letters")).await.expect(200);
    assert_eq!(letters["deliveries"], json!([]));
    let headers = [("authorization", format!("Bearer {KEY}")), ("openwop-version", "2.0".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(host.send("DELETE", &format!("/webhooks/{path}"), &headers, None).await.status, 204);
    let gone = host.send("DELETE", &format!("/webhooks/{path}"), &headers, None).await;
    gone.refused(404, "not_found");
    let foreign = path.replace("a~2F", "other~2F");
    let answer = host.send("DELETE", &format!("/webhooks/{foreign}"), &headers, None).await;
    answer.refused(403, "id_tenant_mismatch");
}
