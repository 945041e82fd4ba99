//! Variables, ports, channels and masking.

use flow::event::EventKind;
use flow::event::wire::RawEvent;
use flow::mask::Mask;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, rewrite, workflow};

#[test]
fn the_sources_of_inputs() {
    let cases = [
        (json!({"type": "static", "value": [1]}), Some(json!([1]))),
        (json!({"type": "variable", "variableName": "v"}), Some(json!(7))),
        (json!({"type": "variable", "variableName": "none", "optional": true}), None),
        (json!({"type": "expression", "expression": "v == 7"}), Some(json!(true))),
        (json!({"type": "connection", "nodeId": "a", "outputKey": "value"}), Some(json!("of a"))),
        (json!({"type": "connection", "nodeId": "a", "outputKey": "none", "optional": true}), None),
    ];
    let document = |port: &Value| {
        let nodes =
            [("a", "core.setVariable", json!({"name": "x", "value": "of a"})), ("b", "core.end", json!({}))];
        let mut document = workflow("w", &nodes, &[("a", "b")]);
        document["variables"] = json!([{"name": "v", "type": "number", "defaultValue": 7}]);
        document["nodes"][1]["inputs"] = json!({"port": port});
        document
    };
    for (port, expected) in cases {
        let mut world = World::new(&[document(&port)]);
        let run = world.create("w");
        assert_eq!(run.state.status, RunStatus::Completed, "{port}");
        assert_eq!(run.state.node(1).outputs.get("port"), expected.as_ref(), "{port}");
    }
    for port in [
        json!({"type": "variable", "variableName": "none"}),
        json!({"type": "connection", "nodeId": "a", "outputKey": "none"}),
    ] {
        let mut world = World::new(&[document(&port)]);
        world.create("w");
        assert_eq!(world.snapshot("r")["error"]["code"], "input_missing", "{port}");
    }
}

#[test]
fn variables_and_their_changes() {
    let nodes = [
        ("a", "core.setVariable", json!({"name": "x", "value": 1})),
        ("b", "core.setVariable", json!({"variableName": "x", "value": 2})),
        ("c", "core.getVariable", json!({"name": "x"})),
    ];
    let mut world = World::new(&[workflow("w", &nodes, &[("a", "b"), ("b", "c")])]);
    world.create("w");
    let changes: Vec<(Option<Value>, Value)> = world
        .find(EventKind::VariableChanged)
        .iter()
        .map(|event| (event.payload().get("previous").cloned(), event.payload()["next"].clone()))
        .collect();
    assert_eq!(changes, [(None, json!(1)), (Some(json!(1)), json!(2))]);
    assert_eq!(world.run().state.node(2).outputs["value"], 2);
}

/// Writes to a declared channel, ten milliseconds apart, and returns its value or the error code.
fn written(channel: Value, writes: &[Value]) -> Result<Value, String> {
    let mut nodes = Vec::new();
    let ids: Vec<String> = (0..writes.len() * 2).map(|place| format!("n{place:02}")).collect();
    for (place, value) in writes.iter().enumerate() {
        nodes.push((
            ids[place * 2].as_str(),
            "core.channelWrite",
            json!({"channelName": "c", "value": value}),
        ));
        nodes.push((ids[place * 2 + 1].as_str(), "core.delay", json!({"ms": 10})));
    }
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let mut document = workflow("w", &nodes, &edges);
    document["channels"] = json!({"c": channel});
    let mut world = World::new(&[document]);
    world.create("w");
    world.pass(1000);
    let snapshot = world.snapshot("r");
    match snapshot["error"]["code"].as_str() {
        Some(code) => Err(code.to_owned()),
        None => Ok(world.run().state.channels["c"].value.clone()),
    }
}

/// The time of the first write of [`written`].
const START_TEXT: &str = "2026-10-26T07:33:20.000Z";

#[test]
fn reducers() {
    let cases = [
        (json!({"reducer": "replace"}), vec![json!(1), json!("two")], Ok(json!("two"))),
        (json!({"reducer": "append"}), vec![json!(1), json!(2)], Ok(json!([1, 2]))),
        (json!({"reducer": "append", "maxSize": 2}), vec![json!(1), json!(2), json!(3)], Ok(json!([2, 3]))),
        (json!({"reducer": "append", "ttlMs": 15}), vec![json!(1), json!(2), json!(3)], Ok(json!([2, 3]))),
        (json!({"reducer": "append", "default": [0]}), vec![json!(1)], Ok(json!([0, 1]))),
        (
            json!({"reducer": "merge"}),
            vec![json!({"a": 1, "b": 1}), json!({"b": 2})],
            Ok(json!({"a": 1, "b": 2})),
        ),
        (json!({"reducer": "counter", "default": 5}), vec![json!(2), json!(-1)], Ok(json!(6))),
        (json!({"reducer": "counter"}), vec![json!(0.5), json!(0.25)], Ok(json!(0.75))),
        (
            json!({"reducer": "votes"}),
            vec![
                json!({"userId": "a", "action": "no"}),
                json!({"userId": "b", "action": "yes"}),
                json!({"userId": "a", "action": "yes"}),
            ],
            Ok(json!([{"userId": "b", "action": "yes"}, {"userId": "a", "action": "yes"}])),
        ),
        (
            json!({"reducer": "message"}),
            vec![json!({"messageId": 1, "x": 1}), json!({"messageId": 1, "x": 2}), json!({"messageId": 2})],
            Ok(json!([{"messageId": 1, "x": 1}, {"messageId": 2}])),
        ),
        (
            json!({"reducer": "append", "maxSize": 2, "ttlMs": 15}),
            vec![json!(1), json!(2), json!(3), json!(4)],
            Ok(json!([3, 4])),
        ),
        (
            json!({"reducer": "append", "maxSize": 1, "ttlMs": 15}),
            vec![json!(1), json!(2), json!(3), json!(4)],
            Ok(json!([4])),
        ),
        (
            json!({"reducer": "feedback"}),
            vec![json!("shorter"), json!({"feedback": "better", "timestamp": "t", "iteration": 7})],
            Ok(json!([
                {"feedback": "shorter", "timestamp": START_TEXT, "iteration": 1},
                {"feedback": "better", "timestamp": "t", "iteration": 7},
            ])),
        ),
        (json!({"reducer": "vendor.acme.max"}), vec![json!(1), json!(2)], Ok(json!(2))),
        (json!({"reducer": "merge"}), vec![json!(1)], Err("validation_error".into())),
        (json!({"reducer": "counter"}), vec![json!("1")], Err("validation_error".into())),
        (
            json!({"reducer": "merge", "maxSize": 1}),
            vec![json!({"a": 1}), json!({"b": 1})],
            Err("validation_error".into()),
        ),
        (
            json!({"reducer": "replace", "schema": {"type": "string"}}),
            vec![json!(1)],
            Err("validation_error".into()),
        ),
        (json!({"reducer": "append", "schema": {"type": "array"}}), vec![json!(1)], Ok(json!([1]))),
        (
            json!({"reducer": "replace", "access": "private"}),
            vec![json!(1)],
            Err("channel_access_denied".into()),
        ),
        (
            json!({"reducer": "replace", "access": {"writers": ["other"]}}),
            vec![json!(1)],
            Err("channel_access_denied".into()),
        ),
        (
            json!({"reducer": "replace", "access": {"writers": ["core.channel*"]}}),
            vec![json!(1)],
            Ok(json!(1)),
        ),
        (json!({"reducer": "replace", "access": {"writers": ["n00"]}}), vec![json!(1)], Ok(json!(1))),
    ];
    for (channel, writes, expected) in cases {
        assert_eq!(written(channel.clone(), &writes), expected, "{channel}");
    }
}

#[test]
fn the_error_of_a_restricted_channel_names_the_allowed_side() {
    let writes = ("core.channelWrite", json!({"channelName": "c", "value": 1}));
    let reads = ("core.getVariable", json!({"name": "c"}));
    for ((kind, config), access, side) in [
        (writes.clone(), json!({"writers": ["other"], "readers": ["n"]}), Some("writers")),
        (reads.clone(), json!({"writers": ["n"], "readers": ["other"]}), Some("readers")),
        (writes.clone(), json!("private"), Some("writers")),
        (reads.clone(), json!("private"), Some("readers")),
        (writes, json!({"readers": []}), None),
        (reads, json!({"writers": []}), None),
    ] {
        let mut document = workflow("w", &[("n", kind, config)], &[]);
        document["channels"] = json!({"c": {"reducer": "replace", "access": access}});
        let mut world = World::new(&[document]);
        world.create("w");
        let error = &world.snapshot("r")["error"];
        let expected = side.map(
            |side| json!({"channel": "c", "requestedBy": {"nodeId": "n", "typeId": kind}, "allowed": side}),
        );
        assert_eq!(error.get("details"), expected.as_ref(), "{kind} {access}: {error}");
        assert_eq!(error.get("code").is_some(), side.is_some());
    }
}

#[test]
fn the_reducer_of_the_event_applies_and_the_original_write_is_recorded() {
    let nodes = [
        ("a", "core.channelWrite", json!({"channelName": "c", "value": {"x": 1}})),
        ("b", "core.channelWrite", json!({"channelName": "c", "value": {"y": 2}})),
    ];
    let mut document = workflow("w", &nodes, &[("a", "b")]);
    document["channels"] = json!({"c": {"reducer": "merge"}});
    let mut world = World::new(&[document]);
    world.create("w");
    assert_eq!(world.snapshot("r")["channels"]["c"], json!({"x": 1, "y": 2}));
    let second = world.find(EventKind::ChannelWritten)[1];
    assert_eq!(
        (&second.payload()["value"], &second.payload()["reducer"]),
        (&json!({"y": 2}), &json!("merge")),
        "the written value, not the reduced one"
    );
    for (reducer, after) in
        [("replace", json!({"y": 2})), ("append", json!([{"y": 2}])), ("vendor.acme.deep", json!({"y": 2}))]
    {
        let mut events = world.run().events.clone();
        let place = events.iter().rposition(|event| event.kind() == EventKind::ChannelWritten).unwrap();
        rewrite(&mut events[place], "reducer", reducer.into());
        let run = world.run();
        let folded = flow::state::RunState::fold(&run.definition, run.genesis.clone(), &events).unwrap();
        assert_eq!(folded.channels["c"].value, after, "{reducer}");
    }
}

#[test]
fn a_channel_cannot_be_set_as_a_variable() {
    for (kind, config) in
        [("core.setVariable", json!({"name": "c", "value": 1})), ("core.identity", json!({}))]
    {
        let mut document = workflow("w", &[("a", kind, config)], &[]);
        document["channels"] = json!({"c": {"reducer": "replace"}});
        document["nodes"][0]["inputs"] = json!({"c": {"type": "static", "value": 1}});
        let mut world = World::new(&[document]);
        world.create("w");
        assert_eq!(world.snapshot("r")["error"]["code"], "validation_error", "{kind}");
    }
}

#[test]
fn sensitive_values_are_masked_everywhere() {
    let hashed = "sha256:45927c047588610b0b3ac2314a5207f0a2d608beaf140e34c003521acf2825a1";
    let modes = [
        ("mask", Some(json!("[REDACTED]"))),
        ("omit", None),
        ("hash", Some(json!(hashed))),
        ("passthrough", Some(json!("open sesame"))),
    ];
    for (mode, shown) in modes {
        let nodes = [
            ("a", "core.setVariable", json!({"name": "word", "value": "open sesame"})),
            ("b", "core.channelWrite", json!({"channelName": "c", "value": "open sesame"})),
        ];
        let mut document = workflow("w", &nodes, &[("a", "b")]);
        document["variables"] = json!([{"name": "word", "type": "string", "sensitive": true}]);
        document["channels"] = json!({"c": {"reducer": "replace", "sensitive": true}});
        document["nodes"][0]["outputSensitivity"] = json!({"value": true, "output": true});
        document["metadata"] = json!({"complianceConfig": {"maskingMode": mode}});
        let mut world = World::new(&[document]);
        world.create_with("w", json!({"word": "open sesame"}), json!({}));
        let snapshot = world.snapshot("r");
        assert_eq!(snapshot["variables"].get("word"), shown.as_ref(), "{mode}");
        assert_eq!(snapshot["channels"].get("c"), shown.as_ref(), "{mode}");
        assert_eq!(snapshot["inputs"].get("word"), shown.as_ref(), "{mode}");
        assert_eq!(world.run().state.variables["word"], "open sesame", "nodes see it");
        let run = world.run();
        let mask = Mask::of(&run.definition);
        let shown = run.events.iter().map(|event| match &mask {
            Some(mask) => format!("{:?}", mask.shown(event)),
            None => format!("{event:?}"),
        });
        let shown: String = shown.collect();
        assert_eq!(shown.contains("open sesame"), mode == "passthrough", "{mode}");
        assert_eq!(snapshot.to_string().contains("open sesame"), mode == "passthrough", "{mode}");
    }
}

#[test]
fn answers_that_become_sensitive_outputs_are_masked_in_the_log() {
    let questions = json!({"questions": [{"id": "q", "question": "The word?"}]});
    let gate = json!({"actions": ["accept", "edit-accept"]});
    let edited = json!({"action": "edit-accept", "editedArtifactData": {"word": "open sesame"}, "comment": "open sesame"});
    for (type_id, config, answer) in [
        ("core.clarificationGate", questions, json!({"answers": {"q": "open sesame"}})),
        ("core.approvalGate", gate, edited),
        ("core.interrupt", json!({"kind": "custom", "data": {"customKind": "x"}}), json!("open sesame")),
    ] {
        for (outputs, hidden) in [(json!({}), false), (json!({"output": true}), true)] {
            let mut document = workflow("w", &[("n", type_id, config.clone())], &[]);
            document["nodes"][0]["outputSensitivity"] = outputs;
            let mut world = World::new(&[document]);
            world.create("w");
            world.resolve("n", answer.clone()).unwrap();
            assert_eq!(world.status(), RunStatus::Completed);
            let run = world.run();
            let mask = Mask::of(&run.definition);
            assert_eq!(mask.is_some(), hidden);
            let answered = [
                EventKind::InterruptResolved,
                EventKind::NodeResumed,
                EventKind::ClarificationResolved,
                EventKind::ApprovalReceived,
            ];
            for event in run.events.iter().filter(|event| answered.contains(&event.kind())) {
                let shown = mask.as_ref().map_or_else(|| RawEvent::from(event), |mask| mask.shown(event));
                crate::schemas::check_shown(&shown);
                assert_ne!(
                    format!("{shown:?}").contains("open sesame"),
                    hidden,
                    "{type_id}: {}",
                    event.kind()
                );
            }
        }
    }
}

#[test]
fn credential_references_are_not_shown() {
    let mut world = World::new(&[workflow("w", &[("a", "core.noop", json!({}))], &[])]);
    world.create_with(
        "w",
        json!({}),
        json!({"ai": {"provider": "p", "credentialRef": "sk-1"}, "ai.credentialRef": "sk-2"}),
    );
    assert_eq!(world.snapshot("r")["configurable"], json!({"ai": {"provider": "p"}}));
}

#[test]
fn the_variable_copy_of_a_channel_is_updated() {
    let ids: Vec<String> = (0..6).map(|place| format!("n{place}")).collect();
    let write = |place: usize| json!({"channelName": "c", "value": place, "ttlMs": 25});
    let delay = || json!({"ms": 20});
    let nodes: Vec<(&str, &str, Value)> = (0..6)
        .map(|place| match place % 2 {
            0 => (ids[place].as_str(), "core.channelWrite", write(place)),
            _ => (ids[place].as_str(), "core.delay", delay()),
        })
        .collect();
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let mut world = World::new(&[workflow("w", &nodes, &edges)]);
    world.create("w");
    world.pass(1000);
    let state = &world.run().state;
    assert_eq!(state.variables["c"], state.channels["c"].entries());
    assert_eq!(state.channels["c"].value, json!([2, 4]));
}
