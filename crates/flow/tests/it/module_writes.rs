//! Channel writes of nodes that the host executes.

use flow::engine::{ActivityRequest, Input, Reported};
use flow::event::EventKind;
use flow::id::NodeId;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{PACK_TYPE, World, report, workflow};

/// A run whose node `n` is of a pack, with these channels. Its effect is requested and has no result yet.
fn world(channels: Value) -> World {
    let mut document = workflow("w", &[("n", PACK_TYPE, json!({}))], &[]);
    document["channels"] = channels;
    let mut world = World::new(&[document]);
    world.create("w");
    world
}

fn write_report(channel: &str, value: &Value) -> Reported {
    report(EventKind::ChannelWritten, &json!({"channel": channel, "value": value}))
}

fn done(world: &mut World, reports: Vec<Reported>) {
    let outcome = Ok(json!({"output": 1}));
    world.give("r", Input::ActivityDone { node_id: NodeId::new("n"), ordinal: 0, reports, outcome }).unwrap();
}

#[test]
fn writes_are_recorded_through_the_declared_reducer_before_the_node_completes() {
    let mut world = world(json!({
        "log": {"reducer": "append", "schemaVersion": 2, "maxSize": 2},
        "total": {"reducer": "counter", "default": 1},
    }));
    // The engine sets the reducer and the time, whatever the host reports.
    let lies = json!({"channel": "total", "value": 5, "reducer": "replace", "writtenAt": "never", "schemaVersion": 9});
    let reports = vec![
        write_report("log", &json!("a")),
        report(EventKind::ChannelWritten, &lies),
        write_report("log", &json!("b")),
        write_report("log", &json!("c")),
    ];
    done(&mut world, reports);
    assert_eq!(world.status(), RunStatus::Completed);
    let shown = &world.snapshot("r")["channels"];
    assert_eq!(*shown, json!({"log": ["b", "c"], "total": 6}));
    let writes = world.find(EventKind::ChannelWritten);
    let facts = writes.iter().map(|event| {
        let payload = event.payload();
        json!([payload["channel"], payload["reducer"], payload["schemaVersion"]])
    });
    assert_eq!(
        facts.collect::<Vec<_>>(),
        [
            json!(["log", "append", 2]),
            json!(["total", "counter", 1]),
            json!(["log", "append", 2]),
            json!(["log", "append", 2])
        ]
    );
    assert!(
        writes
            .iter()
            .all(|event| event.payload()["writtenAt"] != "never" && event.payload()["nodeId"] == "n")
    );
    assert_eq!(
        world.kinds(),
        [
            "run.started",
            "node.started",
            "channel.written",
            "channel.written",
            "channel.written",
            "channel.written",
            "node.completed",
            "run.completed",
        ]
    );
}

#[test]
fn a_refused_write_fails_the_node_and_no_write_is_recorded() {
    let channels = || {
        json!({
            "open": {"reducer": "append"},
            "closed": {"reducer": "append", "access": "private"},
            "total": {"reducer": "counter"},
            "small": {"reducer": "votes", "maxSize": 1},
            "typed": {"reducer": "append", "schema": {"maxItems": 1}},
        })
    };
    let rows = [
        ("closed", vec![write_report("closed", &json!(1))], "channel_access_denied"),
        ("nowhere", vec![write_report("nowhere", &json!(1))], "channel_access_denied"),
        ("no number", vec![write_report("total", &json!("one"))], "validation_error"),
        (
            "one vote too many",
            vec![
                write_report("small", &json!({"userId": "a"})),
                write_report("small", &json!({"userId": "b"})),
            ],
            "validation_error",
        ),
        (
            "together not as the schema says",
            vec![write_report("typed", &json!(1)), write_report("typed", &json!(2))],
            "validation_error",
        ),
    ];
    for (what, refused, code) in rows {
        let mut world = world(channels());
        let mut reports = vec![
            write_report("open", &json!("first")),
            report(EventKind::VariableChanged, &json!({"name": "seen", "next": true})),
            report(EventKind::LogAppended, &json!({"level": "info", "message": "logged"})),
        ];
        reports.extend(refused);
        done(&mut world, reports);
        assert_eq!(world.status(), RunStatus::Failed, "{what}");
        assert_eq!(world.snapshot("r")["error"]["code"], code, "{what}");
        assert_eq!(
            world.kinds(),
            ["run.started", "node.started", "log.appended", "node.failed", "run.failed"],
            "{what}"
        );
    }
}

#[test]
fn an_effect_sees_the_channels_as_they_are_when_it_is_requested() {
    let mut document = workflow(
        "w",
        &[
            ("write", "core.channelWrite", json!({"channelName": "log", "value": 1})),
            ("n", PACK_TYPE, json!({})),
        ],
        &[("write", "n")],
    );
    document["channels"] = json!({"log": {"reducer": "append"}, "closed": {"reducer": "replace", "default": 1, "access": "private"}});
    let mut world = World::new(&[document]);
    world.create("w");
    let ActivityRequest::Call(call) = &world.activities.last().unwrap().request else { panic!("a call") };
    assert_eq!(call.channels.read("log"), Some(json!([1])));
    assert_eq!((call.channels.read("closed"), call.channels.hides("closed")), (None, true));
    assert!(call.channels.declares("closed") && !call.channels.declares("other"));
}

/// A run in which `core.channelWrite` writes `before`, and then a module or a conversation starts.
fn shown(channel: Value, before: &Value, after: (&str, &str, Value)) -> World {
    let write = json!({"channelName": "conversation", "value": before});
    let mut document =
        workflow("w", &[("write", "core.channelWrite", write), after.clone()], &[("write", after.0)]);
    document["channels"] = json!({"conversation": channel});
    let mut world = World::new(&[document]);
    world.create("w");
    world
}

#[test]
fn the_variable_copy_of_a_channel_follows_the_writes_of_a_module() {
    let rows = [
        ("append", json!({"reducer": "append"}), json!(1), json!([1, 2, 3])),
        ("bounded", json!({"reducer": "append", "maxSize": 2}), json!(1), json!([2, 3])),
        ("counter", json!({"reducer": "counter"}), json!(1), json!(6)),
        ("replace", json!({"reducer": "replace"}), json!(1), json!(3)),
    ];
    for (name, channel, before, expected) in rows {
        let mut world = shown(channel, &before, ("n", PACK_TYPE, json!({})));
        world.pass(5);
        done(
            &mut world,
            vec![write_report("conversation", &json!(2)), write_report("conversation", &json!(3))],
        );
        let snapshot = world.snapshot("r");
        assert_eq!(snapshot["channels"]["conversation"], expected, "{name}");
        let state = &world.run().state;
        let entries = match &state.channels["conversation"].value {
            Value::Array(_) => state.channels["conversation"].entries(),
            value => value.clone(),
        };
        assert_eq!(state.variables["conversation"], entries, "{name}");
        assert_eq!(snapshot["variables"]["conversation"], entries, "{name}");
    }
}

#[test]
fn the_variable_copy_of_a_channel_follows_the_writes_of_a_conversation() {
    let gate = json!({"prompt": "Well?"});
    let world =
        shown(json!({"reducer": "append"}), &json!("before"), ("talk", "core.conversationGate", gate));
    let state = &world.run().state;
    assert_eq!(state.channels["conversation"].size(), 2);
    assert_eq!(state.variables["conversation"], state.channels["conversation"].entries());
}

#[test]
fn a_channel_that_only_a_module_wrote_has_no_variable_copy() {
    let mut world = world(json!({"log": {"reducer": "append"}}));
    done(&mut world, vec![write_report("log", &json!(1))]);
    assert_eq!(world.run().state.variables.get("log"), None);
}
