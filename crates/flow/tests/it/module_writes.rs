//! What the work of a node writes to channels.

use flow::engine::{ActivityRequest, Input, Reported};
use flow::event::EventKind;
use flow::id::NodeId;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{PACK_TYPE, World, told, workflow};

/// A run whose node `n` is of a pack, with these channels. It asked the host for its work, and nothing came of that yet.
fn world(channels: Value) -> World {
    let mut document = workflow("w", &[("n", PACK_TYPE, json!({}))], &[]);
    document["channels"] = channels;
    let mut world = World::new(&[document]);
    world.create("w");
    world
}

fn wrote(channel: &str, value: &Value) -> Reported {
    told(EventKind::ChannelWritten, &json!({"channel": channel, "value": value}))
}

fn done(world: &mut World, told: Vec<Reported>) {
    let outcome = Ok(json!({"output": 1}));
    world.give("r", Input::ActivityDone { node_id: NodeId::new("n"), ordinal: 0, reports: told, outcome }).unwrap();
}

#[test]
fn writes_are_recorded_through_the_declared_reducer_before_the_node_completes() {
    let mut world = world(json!({
        "log": {"reducer": "append", "schemaVersion": 2, "maxSize": 2},
        "total": {"reducer": "counter", "default": 1},
    }));
    // Whatever else the host says of a write, how it is combined and when it was written is the run's to say.
    let lies = json!({"channel": "total", "value": 5, "reducer": "replace", "writtenAt": "never", "schemaVersion": 9});
    let told = vec![
        wrote("log", &json!("a")),
        told(EventKind::ChannelWritten, &lies),
        wrote("log", &json!("b")),
        wrote("log", &json!("c")),
    ];
    done(&mut world, told);
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
fn one_write_that_is_refused_fails_the_node_and_none_is_recorded() {
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
        ("closed", vec![wrote("closed", &json!(1))], "channel_access_denied"),
        ("nowhere", vec![wrote("nowhere", &json!(1))], "channel_access_denied"),
        ("no number", vec![wrote("total", &json!("one"))], "validation_error"),
        (
            "one vote too many",
            vec![wrote("small", &json!({"userId": "a"})), wrote("small", &json!({"userId": "b"}))],
            "validation_error",
        ),
        (
            "together not as the schema says",
            vec![wrote("typed", &json!(1)), wrote("typed", &json!(2))],
            "validation_error",
        ),
    ];
    for (what, refused, code) in rows {
        let mut world = world(channels());
        let mut told = vec![
            wrote("open", &json!("first")),
            told(EventKind::VariableChanged, &json!({"name": "seen", "next": true})),
            told(EventKind::LogAppended, &json!({"level": "info", "message": "told"})),
        ];
        told.extend(refused);
        done(&mut world, told);
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
fn work_finds_the_channels_as_they_are_when_it_is_asked_for() {
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

/// A run in which `core.channelWrite` writes `before` and then a module or a conversation is asked for something.
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
fn a_variable_that_shows_a_channel_shows_what_a_module_writes_too() {
    let rows = [
        ("append", json!({"reducer": "append"}), json!(1), json!([1, 2, 3])),
        ("bounded", json!({"reducer": "append", "maxSize": 2}), json!(1), json!([2, 3])),
        ("counter", json!({"reducer": "counter"}), json!(1), json!(6)),
        ("replace", json!({"reducer": "replace"}), json!(1), json!(3)),
    ];
    for (name, channel, before, expected) in rows {
        let mut world = shown(channel, &before, ("n", PACK_TYPE, json!({})));
        world.pass(5);
        done(&mut world, vec![wrote("conversation", &json!(2)), wrote("conversation", &json!(3))]);
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
fn a_variable_that_shows_a_channel_shows_what_a_conversation_writes_too() {
    let gate = json!({"prompt": "Well?"});
    let world =
        shown(json!({"reducer": "append"}), &json!("before"), ("talk", "core.conversationGate", gate));
    let state = &world.run().state;
    assert_eq!(state.channels["conversation"].size(), 2);
    assert_eq!(state.variables["conversation"], state.channels["conversation"].entries());
}

#[test]
fn a_channel_that_only_a_module_wrote_is_not_shown_as_a_variable() {
    let mut world = world(json!({"log": {"reducer": "append"}}));
    done(&mut world, vec![wrote("log", &json!(1))]);
    assert_eq!(world.run().state.variables.get("log"), None);
}
