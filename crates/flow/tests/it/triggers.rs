//! Message triggers: which are valid, and what their runs get.

use flow::definition::{Capabilities, Definition, ServedSurfaces, SourceKind};
use flow::engine::Input;
use flow::event::EventKind;
use flow::id::NodeId;
use flow::run::Triggered;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::driver::World;

const SERVED: Capabilities = Capabilities { surfaces: ServedSurfaces::ALL, ..Capabilities::OURS };

fn node(id: &str, type_id: &str, config: &Value, inputs: &Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": inputs})
}

fn workflow(triggers: &Value) -> Value {
    let payload = json!({"type": "connection", "nodeId": "take", "outputKey": "payload"});
    let mut take = json!({"topic": "orders"});
    if triggers
        .as_array()
        .unwrap()
        .iter()
        .any(|trigger| trigger["type"] == "event" && trigger["nodeId"] == "take")
    {
        take["consumerGroup"] = json!("all");
    }
    json!({
        "id": "listens", "name": "Listens", "version": "1",
        "nodes": [
            node("take", "core.messaging.consume", &take, &json!({})),
            node("follow", "core.messaging.stream-subscribe", &json!({"stream": "log", "fromBeginning": true}), &json!({})),
            node("end", "core.end", &json!({}), &json!({"payload": payload})),
        ],
        "edges": [{"id": "e", "sourceNodeId": "take", "targetNodeId": "end"}, {"id": "f", "sourceNodeId": "follow", "targetNodeId": "end"}],
        "triggers": triggers,
        "variables": [{"name": "n", "type": "number"}, {"name": "s", "type": "string"}],
        "metadata": {}, "settings": {},
    })
}

fn queue(config: &Value) -> Value {
    json!({"id": "t", "type": "event", "eventType": "queue.message", "config": config})
}

#[test]
fn a_trigger_or_its_node_names_the_source() {
    let stream = json!({"stream": "log", "fromBeginning": true, "maxAttempts": 2, "retryDelayMs": 5});
    let triggers = json!([
        {"id": "a", "type": "event", "nodeId": "take"},
        {"id": "b", "type": "event", "eventType": "stream.record", "nodeId": "follow", "enabled": false},
        {"id": "c", "type": "event", "eventType": "queue.message", "config": {"topic": "other", "inputs": {"n": "/payload/count"}}},
        {"id": "d", "type": "event", "eventType": "stream.record", "config": stream},
        {"id": "e", "type": "event", "eventType": "acme.other"},
        {"id": "f", "type": "manual", "nodeId": "take"},
    ]);
    let definition = Definition::check(&workflow(&triggers), &SERVED).unwrap();
    let read = definition.triggers.iter().map(|trigger| {
        (
            trigger.id.as_str(),
            trigger.kind,
            trigger.source.as_str(),
            trigger.consumer.as_str(),
            trigger.enabled,
        )
    });
    let read: Vec<_> = read.collect();
    assert_eq!(
        read,
        [
            ("a", SourceKind::Queue, "orders", "all", true),
            ("b", SourceKind::Stream, "log", "b", false),
            ("c", SourceKind::Queue, "other", "c", true),
            ("d", SourceKind::Stream, "log", "d", true),
        ]
    );
    let beginnings: Vec<_> = definition.triggers.iter().map(|trigger| trigger.from_beginning).collect();
    assert_eq!(beginnings, [false, true, false, true]);
    let attempts: Vec<_> = definition.triggers.iter().map(|trigger| trigger.max_attempts).collect();
    assert_eq!(attempts, [5, 5, 5, 2]);
}

#[test]
fn only_the_node_of_a_trigger_can_have_a_consumer_group() {
    let cases = [("core.messaging.consume", "topic"), ("core.messaging.stream-subscribe", "stream")];
    for (type_id, named_by) in cases {
        let mut document = workflow(&json!([]));
        document["nodes"][1] =
            node("follow", type_id, &json!({named_by: "log", "consumerGroup": "g"}), &json!({}));
        for triggers in [json!([]), json!([{"id": "m", "type": "manual", "nodeId": "follow"}])] {
            document["triggers"] = triggers;
            let problems = Definition::check(&document, &SERVED).unwrap_err();
            let messages: Vec<_> = problems.iter().map(ToString::to_string).collect();
            assert!(
                messages.len() == 1
                    && messages[0].starts_with("/nodes/1/config/consumerGroup: only a trigger"),
                "{messages:?}"
            );
        }
        document["triggers"] = json!([{"id": "t", "type": "event", "nodeId": "follow", "enabled": false}]);
        let definition = Definition::check(&document, &SERVED).unwrap();
        assert_eq!(definition.triggers[0].consumer, "g", "{type_id}");
    }
}

#[test]
fn a_message_trigger_requires_only_the_queue_surface() {
    let triggers =
        json!([{"id": "t", "type": "event", "eventType": "stream.record", "config": {"stream": "s"}}]);
    let mut document = workflow(&triggers);
    document["nodes"] = json!([node("n", "core.noop", &json!({}), &json!({}))]);
    document["edges"] = json!([]);
    let with = |names: &[&str]| Capabilities {
        surfaces: ServedSurfaces::of(names.iter().copied()),
        ..Capabilities::OURS
    };
    assert!(Definition::check(&document, &with(&["queueBus"])).is_ok());
    let problems = Definition::check(&document, &with(&["kv", "sql", "unknown"])).unwrap_err();
    assert_eq!(problems[0].required_capability, Some("queueBus.stream.supported"));
}

/// Finding 2 of the current suite: triggers that the host does not support were registered and silently never fired.
#[test]
fn an_unsupported_trigger_is_refused_unless_it_is_disabled_or_was_registered_before() {
    let cases = [
        ("schedule", json!({"cron": "* * * * *"}), "scheduling.supported"),
        ("webhook", json!({}), "triggerBridge.supported"),
    ];
    for (kind, config, capability) in cases {
        let with = |enabled: Option<bool>| {
            let mut trigger = json!({"id": "t", "type": kind, "config": config});
            if let Some(enabled) = enabled {
                trigger["enabled"] = enabled.into();
            }
            workflow(&json!([{"id": "m", "type": "manual"}, trigger]))
        };
        for enabled in [None, Some(true)] {
            let problems = Definition::check(&with(enabled), &SERVED).unwrap_err();
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert_eq!(
                (problem.path.as_str(), problem.required_capability),
                ("/triggers/1/type", Some(capability))
            );
            assert!(problem.message.contains("set `enabled` to false"), "{}", problem.message);
            let before = Definition::check(&with(enabled), &Capabilities::EVERYTHING).unwrap();
            let silent: Vec<_> = before
                .unserved_triggers
                .iter()
                .map(|trigger| (trigger.id.as_str(), trigger.kind.as_str()))
                .collect();
            assert_eq!(silent, [("t", kind)]);
        }
        let disabled = Definition::check(&with(Some(false)), &SERVED).unwrap();
        assert_eq!(disabled.unserved_triggers, []);
    }
}

#[test]
fn an_inactive_workflow_does_not_listen() {
    for (member, value) in
        [("status", json!("draft")), ("status", json!("archived")), ("isActive", json!(false))]
    {
        let mut document = workflow(&json!([{"id": "a", "type": "event", "nodeId": "take"}]));
        document[member] = value;
        let definition = Definition::check(&document, &SERVED).unwrap();
        assert!(definition.triggers.iter().all(|trigger| !trigger.enabled), "{member}");
    }
}

#[test]
fn problems_of_triggers_are_reported_with_their_location() {
    let long = "q".repeat(253);
    let cases: [(Value, &str); 17] = [
        (json!([queue(&json!({}))]), "/triggers/0/config/topic: required"),
        (
            json!([{"id": "t", "type": "event", "eventType": "queue.message"}]),
            "/triggers/0/config/topic: required",
        ),
        (
            json!([queue(&json!({"topic": ""}))]),
            "/triggers/0/config/topic: must be a string of 1 to 252 characters",
        ),
        (
            json!([queue(&json!({"topic": long}))]),
            "/triggers/0/config/topic: must be a string of 1 to 252 characters",
        ),
        (
            json!([queue(&json!({"topic": "ü".repeat(200)}))]),
            "/triggers/0/config/topic: must have 1 to 252 bytes, but has 400",
        ),
        (
            json!([queue(&json!({"topic": "a\u{0}b"}))]),
            "/triggers/0/config/topic: must not contain control characters, but contains U+0000",
        ),
        (
            json!([queue(&json!({"topic": "a", "tpic": "b"}))]),
            "/triggers/0/config/tpic: unknown; did you mean `topic`?",
        ),
        (
            json!([queue(&json!({"topic": "a", "fromBeginning": true}))]),
            "/triggers/0/config/fromBeginning: unknown",
        ),
        (
            json!([queue(&json!({"topic": "a", "maxAttempts": 0}))]),
            "/triggers/0/config/maxAttempts: must be an integer from 1 to 100",
        ),
        (
            json!([queue(&json!({"topic": "a", "inputs": {"z": "/payload"}}))]),
            "/triggers/0/config/inputs/z: no variable has this name",
        ),
        (
            json!([queue(&json!({"topic": "a", "inputs": {"n": "/record/n"}}))]),
            "/triggers/0/config/inputs/n: must be a JSON pointer that starts with `/payload` or is `/messageId`",
        ),
        (json!([queue(&json!([]))]), "/triggers/0/config: expected an object"),
        (
            json!([{"id": "t", "type": "event", "nodeId": "take", "config": {"topic": "a"}}]),
            "/triggers/0/config/topic: already set in the node of the trigger; remove it here",
        ),
        (
            json!([{"id": "t", "type": "event", "eventType": "queue.message", "nodeId": "end"}]),
            "/triggers/0/nodeId: the node of a `queue.message` trigger must be a `core.messaging.consume`",
        ),
        (
            json!([{"id": "t", "type": "event", "eventType": "stream.record", "nodeId": "take"}]),
            "/triggers/0/nodeId: the node of a `stream.record` trigger must be a `core.messaging.stream-subscribe`",
        ),
        (
            json!([queue(&json!({"topic": "a", "consumerGroup": "one"})), {
                "id": "u", "type": "event", "eventType": "stream.record", "config": {"stream": "b", "consumerGroup": "one"},
            }]),
            "/triggers/1/config/consumerGroup: another trigger of this workflow has this consumer name",
        ),
        (
            json!([queue(&json!({"topic": "orders"})), {"id": "u", "type": "event", "nodeId": "take"}]),
            "/triggers/1/config/topic: another trigger of this workflow listens to this queue",
        ),
    ];
    for (triggers, expected) in cases {
        let problems = Definition::check(&workflow(&triggers), &SERVED).unwrap_err();
        let is_reported =
            problems.iter().map(ToString::to_string).any(|problem| problem.starts_with(expected));
        assert!(is_reported, "{expected}: {problems:?}");
    }
    let one = |n: usize| json!({"id": format!("t{n}"), "type": "event", "eventType": "queue.message", "config": {"topic": format!("q{n}")}});
    let sixteen: Vec<_> = (0..16).map(one).collect();
    assert!(Definition::check(&workflow(&json!(sixteen)), &SERVED).is_ok());
    let seventeen: Vec<_> = (0..17).map(one).collect();
    let problems = Definition::check(&workflow(&json!(seventeen)), &SERVED).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "/triggers/16/type: at most 16 triggers of a workflow can listen for messages"
    );
}

#[test]
fn a_message_trigger_is_refused_without_a_queue() {
    for (kind, config, flag) in [
        ("queue.message", json!({"topic": "a"}), "queueBus.supported"),
        ("stream.record", json!({"stream": "a"}), "queueBus.stream.supported"),
    ] {
        let mut document =
            workflow(&json!([{"id": "t", "type": "event", "eventType": kind, "config": config}]));
        document["nodes"] = json!([node("end", "core.end", &json!({}), &json!({}))]);
        document["edges"] = json!([]);
        let problems = Definition::check(&document, &Capabilities::OURS).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(
            (problems[0].required_capability, problems[0].path.as_str()),
            (Some(flag), "/triggers/0/eventType")
        );
        assert!(Definition::check(&document, &SERVED).is_ok());
    }
}

fn inputs(config: &Value, payload: Value) -> Value {
    let definition = Definition::check(&workflow(&json!([queue(config)])), &SERVED).unwrap();
    let trigger = &definition.triggers[0];
    Value::Object(trigger.inputs(&definition, &trigger.data("id-1", payload)))
}

#[test]
fn inputs_come_from_the_mapping_or_from_variables_in_the_message() {
    let plain = json!({"topic": "a"});
    assert_eq!(inputs(&plain, json!({"n": 1, "s": "x", "other": true})), json!({"n": 1, "s": "x"}));
    assert_eq!(inputs(&plain, json!("text")), json!({}));
    let mapped = json!({"topic": "a", "inputs": {"n": "/payload/a~1b/1", "s": "/messageId"}});
    assert_eq!(inputs(&mapped, json!({"a/b": [5, 6], "n": 9})), json!({"n": 6, "s": "id-1"}));
    assert_eq!(inputs(&mapped, json!([])), json!({"s": "id-1"}), "what is not there is left out");
    let whole = json!({"topic": "a", "inputs": {"n": "/payload"}});
    assert_eq!(inputs(&whole, json!(7)), json!({"n": 7}));
}

proptest! {
    /// Delays grow up to their maximum.
    #[test]
    fn a_refused_message_waits_longer_after_each_attempt(delay in 1_u64..=600_000, attempts in 0_u64..=200) {
        let config = json!({"topic": "a", "retryDelayMs": delay});
        let definition = Definition::check(&workflow(&json!([queue(&config)])), &SERVED).unwrap();
        let trigger = &definition.triggers[0];
        let (now, next) = (trigger.retry_after_ms(attempts), trigger.retry_after_ms(attempts + 1));
        prop_assert!(delay <= now && now <= next && next <= 600_000);
    }
}

#[test]
fn the_node_of_the_trigger_outputs_the_message_and_the_run_records_its_trigger() {
    let mut document = workflow(&json!([{"id": "t", "type": "event", "nodeId": "take"}]));
    document["nodes"].as_array_mut().unwrap().remove(1);
    document["edges"].as_array_mut().unwrap().remove(1);
    let mut world = World::new(&[document]);
    let mut genesis = world.genesis("r", "listens", json!({}), json!({}));
    genesis.trigger = Some(Triggered {
        trigger_id: "t".into(),
        event_type: "queue.message".into(),
        source: "orders".into(),
        message_id: "m-7".into(),
        node_id: Some(NodeId::new("take")),
        data: Map::from_iter([
            ("payload".to_owned(), json!({"total": 5})),
            ("messageId".to_owned(), json!("m-7")),
        ]),
    });
    let text = serde_json::to_string(&genesis).unwrap();
    assert_eq!(
        serde_json::from_str::<flow::run::Genesis>(&text).unwrap(),
        genesis,
        "it is recorded with the run"
    );
    world.put(genesis);
    world.give("r", Input::Create).unwrap();
    let events = &world.run().events;
    let started = &events[0];
    assert_eq!((started.kind(), started.causation_id.as_deref()), (EventKind::RunStarted, Some("m-7")));
    assert_eq!(
        started.payload()["trigger"],
        json!({"id": "t", "eventType": "queue.message", "source": "orders", "messageId": "m-7"})
    );
    let ended = events.last().unwrap();
    assert_eq!(ended.kind(), EventKind::RunCompleted, "the message needs no effect");
    assert_eq!(ended.payload()["outputs"], json!({"payload": {"total": 5}}));
}
