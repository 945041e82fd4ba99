//! Inputs for the property tests: small, rich in collisions, mostly valid, and broken on purpose.
//!
//! The strategies are boxed: their value trees are large, and an unoptimised test has little stack.

mod damage;
mod permute;
mod policy;

use std::collections::BTreeSet;

use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Map, Value, json};

pub(crate) use damage::{any_json, broken_input};
pub(crate) use permute::permuted;

use policy::{policy_sketch, resolve_policy};

const COLLECTIONS: [(&str, &str); 9] = [
    ("routes", "routes"),
    ("sidebarItems", "sidebar-items"),
    ("configurationSurfaces", "configuration-surfaces"),
    ("integrationSurfaces", "integration-surfaces"),
    ("messageRenderers", "message-renderers"),
    ("messageAppenders", "message-appenders"),
    ("toolRenderers", "tool-renderers"),
    ("activityRenderers", "activity-renderers"),
    ("fallbackSurfaces", "fallback-surfaces"),
];

const STATUSES: [&str; 6] = ["ready", "readOnly", "needsConfiguration", "unauthorized", "disabled", "error"];

/// A sidebar item that is to name an existing route says which one by number, until all routes are known.
const ROUTE_BY_NUMBER: &str = "@";

/// What a sample is about: everything, or few kinds with operations that meet each other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Focus {
    Everything,
    /// Any kind, while the operations crowd on few targets.
    Conflicts,
    /// Ordered kinds and reorder operations.
    Order,
    /// Surfaces and renderers, with operations that remove.
    Removal,
}

/// Up to three built-in sets and three modules over tiny pools, with a policy about keys that mostly exist.
pub(crate) fn small_input() -> BoxedStrategy<Value> {
    prop_oneof![
        5 => focused_input(Focus::Everything),
        1 => focused_input(Focus::Conflicts),
        1 => focused_input(Focus::Order),
        1 => focused_input(Focus::Removal),
    ]
    .boxed()
}

fn focused_input(focus: Focus) -> BoxedStrategy<Value> {
    (
        vec(builtin(focus), 0..=3),
        vec(module(focus), 0..=3),
        rarely(12),
        (rarely(60), any::<u8>()),
        policy_sketch(focus),
        composition_version(),
        supported_versions(),
    )
        .prop_map(|(builtins, modules, untidy, (drop_handle, nth), sketch, composition, supported)| {
            let mut input = json!({"builtins": builtins, "modules": modules});
            if !untidy {
                tidy(&mut input);
            }
            point_sidebars(&mut input);
            if let Some(policy) = resolve_policy(&sketch, &input) {
                input["policy"] = policy;
            }
            if drop_handle {
                remove_handle(&mut input, usize::from(nth));
            }
            if let Some(version) = composition {
                input["compositionSchemaVersion"] = version;
            }
            if let Some(versions) = supported {
                input["supportedVersions"] = versions;
            }
            input
        })
        .boxed()
}

/// True once in `often` draws.
fn rarely(often: u32) -> impl Strategy<Value = bool> {
    prop_oneof![often - 1 => Just(false), 1 => Just(true)]
}

/// Mostly out of the first pool, once in `often` draws out of the second.
fn mostly(
    often: u32,
    usual: &'static [&'static str],
    odd: &'static [&'static str],
) -> impl Strategy<Value = &'static str> {
    prop_oneof![often - 1 => select(usual), 1 => select(odd)]
}

fn builtin(focus: Focus) -> BoxedStrategy<Value> {
    let id = mostly(40, &["builtin-a", "builtin-a-2", "builtin-b"], &["claude", "builtin-", "builtin-A", ""]);
    let kind = mostly(100, &["builtin"], &["module", "host"]);
    (id, kind, rarely(20), contributions(focus))
        .prop_map(|(id, kind, stranger, contributions)| {
            let mut owner = json!({"ownerKind": kind, "ownerId": id});
            // Sets of one owner agree on its package, unless there is a stranger among them.
            if id == "builtin-b" {
                owner["packageId"] = json!("@maya/b");
            }
            if stranger {
                owner["packageVersion"] = json!("0.2.0");
            }
            json!({"owner": owner, "contributions": contributions})
        })
        .boxed()
}

fn module(focus: Focus) -> BoxedStrategy<Value> {
    let id = mostly(50, &["lab", "lab-2", "data", "0"], &["Lab", "builtin-a", "builtin-lab", "", "lab_2"]);
    let package = select(&["@maya/lab", "@maya/data"][..]);
    let package_version = option::of(select(&["0.1.0", "0.2.0"][..]));
    let api = mostly(60, &["0.1"], &["0.2", "0.1.0"]);
    (id, package, package_version, api, runtime(), contributions(focus))
        .prop_map(|(id, package, package_version, api, mut runtime, contributions)| {
            runtime["instanceId"] = json!(id);
            let mut module = json!({
                "packageId": package,
                "moduleApiVersion": api,
                "instanceId": id,
                "runtime": runtime,
                "contributions": contributions,
            });
            if let Some(version) = package_version {
                module["packageVersion"] = json!(version);
            }
            module
        })
        .boxed()
}

fn runtime() -> BoxedStrategy<Value> {
    let status = prop_oneof![5 => Just("ready"), 4 => select(&STATUSES[1..])];
    let names = || vec(select(&["query", "write", "query"][..]), 0..=2);
    let kind = select(&["configure", "authorize", "retry", "open", "custom"][..]);
    let action = (kind, option::of(data())).prop_map(|(kind, data)| {
        let mut action = json!({"id": kind, "label": "Do", "kind": kind, "unknown": true});
        if let Some(data) = data {
            action["data"] = data;
        }
        action
    });
    let message = option::weighted(0.2, select(&["", "Backend unreachable"][..]));
    (status, names(), names(), vec(action, 0..=2), message, option::weighted(0.2, data()))
        .prop_map(|(status, grants, missing, actions, message, data)| {
            let mut runtime =
                json!({"status": status, "grants": grants, "missing": missing, "actions": actions});
            if let Some(message) = message {
                runtime["message"] = json!(message);
            }
            if let Some(data) = data {
                runtime["data"] = data;
            }
            runtime
        })
        .boxed()
}

/// Opaque data; the numbers are written in ways that mean the same.
fn data() -> impl Strategy<Value = Value> {
    select(vec![
        json!({}),
        json!({"n": 1}),
        json!({"n": 1.0}),
        json!({"z": [1.5, -0.0], "a": {"€": "é\n", "\u{1F600}": null}}),
        json!({"a": {"\u{1F600}": null, "€": "é\n"}, "z": [1.5, 0]}),
        json!({"big": 1e21, "small": 1e-7}),
    ])
}

fn contributions(focus: Focus) -> BoxedStrategy<Value> {
    let unknown = rarely(120);
    (vec(contribution(focus), 0..=6), unknown)
        .prop_map(|(items, unknown)| {
            let mut contributions = Map::new();
            for (collection, item) in items {
                let list = contributions.entry(collection).or_insert_with(|| json!([]));
                list.as_array_mut().expect("made as an array").push(item);
            }
            if unknown {
                contributions.insert("themes".to_owned(), json!([]));
            }
            Value::Object(contributions)
        })
        .boxed()
}

fn contribution(focus: Focus) -> impl Strategy<Value = (&'static str, Value)> {
    let id = mostly(150, &["a", "a-2", "b", "c", "home"], &["Home Page", "", "-a", "é"]);
    let common = (
        id,
        option::weighted(0.3, select(&["Label", ""][..])),
        option::weighted(0.2, data()),
        option::weighted(0.2, active_when()),
    );
    (common, body(focus)).prop_map(|((id, label, metadata, active_when), (collection, mut item))| {
        item["id"] = json!(id);
        if let Some(label) = label.filter(|label| collection != "sidebarItems" || !label.is_empty()) {
            item["label"] = json!(label);
        }
        if let Some(metadata) = metadata {
            item["metadata"] = metadata;
        }
        if let Some(statuses) = active_when.filter(|_| collection != "fallbackSurfaces") {
            item["activeWhen"] = statuses;
        }
        (collection, item)
    })
}

fn active_when() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => vec(select(&STATUSES[..]), 1..=4).prop_map(|mut statuses| {
            // Items that are never active when ready would starve the policy of targets.
            statuses.push("ready");
            json!(statuses)
        }),
        2 => vec(select(&STATUSES[..]), 0..=3).prop_map(|statuses| json!(statuses)),
    ]
}

/// What belongs to one kind, and its collection.
fn body(focus: Focus) -> BoxedStrategy<(&'static str, Value)> {
    let of = |collection: &'static str, item: BoxedStrategy<Value>| {
        item.prop_map(move |item| (collection, item)).boxed()
    };
    let routes = of("routes", route().boxed());
    let sidebar_items = of("sidebarItems", sidebar_item().boxed());
    let configuration = of("configurationSurfaces", surface().boxed());
    let integration = of("integrationSurfaces", surface().boxed());
    let messages = renderer(&["message:x", "message:x.y", "message:X", "message:user.text"]);
    let messages = of("messageRenderers", messages.boxed());
    let appenders = of("messageAppenders", appender().boxed());
    let tools = of("toolRenderers", renderer(&["tool:q", "tool:q-2", "tool:q.r"]).boxed());
    let activities = of("activityRenderers", renderer(&["activity:run", "activity:run_2"]).boxed());
    let fallbacks = of("fallbackSurfaces", fallback().boxed());
    match focus {
        Focus::Everything | Focus::Conflicts => prop_oneof![
            4 => routes,
            4 => sidebar_items,
            3 => configuration,
            2 => integration,
            2 => messages,
            2 => appenders,
            2 => tools,
            1 => activities,
            3 => fallbacks,
        ]
        .boxed(),
        Focus::Order => prop_oneof![3 => sidebar_items, 2 => appenders, 3 => fallbacks].boxed(),
        Focus::Removal => prop_oneof![4 => configuration, 1 => tools, 1 => routes].boxed(),
    }
}

fn handle() -> impl Strategy<Value = Value> {
    let version = mostly(200, &["0.1"], &["0.2", ""]);
    let kind = select(&["route", "surface"][..]);
    let id = select(&["lab.a", "lab.b", "lab"][..]);
    (version, kind, id, option::weighted(0.3, data()), rarely(10)).prop_map(
        |(version, kind, id, data, unknown)| {
            let mut handle = json!({"renderHandleVersion": version, "kind": kind, "id": id});
            if let Some(data) = data {
                handle["data"] = data;
            }
            if unknown {
                handle["unknown"] = json!(1);
            }
            handle
        },
    )
}

const PATHS: &[&str] = &[
    "/",
    "/a",
    "/a/b",
    "/b",
    "/c",
    "/c-2",
    "/d",
    "/p/new",
    "/p/:id",
    "/p/:projectId",
    "/q/:a/:b",
    "/q/:b/:a",
];

/// One per reason of the path grammar.
const BAD_PATHS: &[&str] = &[
    "",
    "a",
    "/a?b",
    "/a#b",
    "/a/",
    "//",
    "/a//b",
    "/a/../b",
    "/./a",
    "/:A",
    "/:",
    "/a b",
    "/a:b",
    "/é",
    "/:a/:a",
    "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31/32/33",
];

fn route() -> impl Strategy<Value = Value> {
    (mostly(60, PATHS, BAD_PATHS), handle())
        .prop_map(|(path, handle)| json!({"path": path, "renderHandle": handle}))
}

fn sidebar_item() -> impl Strategy<Value = Value> {
    let dangling = &["lab:routes/gone", "data:routes/a", "lab:sidebar-items/a", "/a", "Lab:routes/a", ""][..];
    let route_key = prop_oneof![
        8 => Just(None),
        16 => any::<u8>().prop_map(|number| Some(format!("{ROUTE_BY_NUMBER}{number}"))),
        1 => select(dangling).prop_map(|key| Some(key.to_owned())),
    ];
    (route_key, option::of(select(&["top", ""][..]))).prop_map(|(route_key, section)| {
        let mut item = json!({"label": "Item"});
        if let Some(key) = route_key {
            item["routeKey"] = json!(key);
        }
        if let Some(section) = section {
            item["section"] = json!(section);
        }
        item
    })
}

fn surface() -> impl Strategy<Value = Value> {
    (select(&["settings", "connect"][..]), handle())
        .prop_map(|(purpose, handle)| json!({"purpose": purpose, "renderHandle": handle}))
}

/// The last claim of a pool may be one that a module must not declare.
fn renderer(claims: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let odd = &["", "x", "image:x", "message:", "tool:.a", "activity:a..b", "message:user", "tool:a b"];
    let usual = &claims[..claims.len() - 1];
    let claim = prop_oneof![40 => select(usual), 2 => select(claims), 1 => select(&odd[..])];
    (claim, handle()).prop_map(|(claim, handle)| json!({"claim": claim, "renderHandle": handle}))
}

fn appender() -> impl Strategy<Value = Value> {
    let message_type = select(&["assistant", "tool", "user"][..]);
    let position = select(&["before", "after"][..]);
    (message_type, position, handle()).prop_map(|(message_type, position, handle)| {
        json!({"targetMessageType": message_type, "position": position, "renderHandle": handle})
    })
}

fn fallback() -> impl Strategy<Value = Value> {
    let status = prop_oneof![2 => select(&STATUSES[1..]), 1 => Just("anyNonReady")];
    (status, handle()).prop_map(|(status, handle)| json!({"status": status, "renderHandle": handle}))
}

fn composition_version() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        70 => Just(None),
        28 => Just(Some(json!("0.1"))),
        2 => select(vec![json!("9.9"), json!(null), json!(0.1), json!("")]).prop_map(Some),
    ]
}

fn supported_versions() -> impl Strategy<Value = Option<Value>> {
    const LISTS: [&str; 4] =
        ["compositionSchemaVersions", "moduleApiVersions", "renderHandleVersions", "policySchemaVersions"];
    let full = || {
        let mut versions = Map::new();
        for list in LISTS {
            versions.insert(list.to_owned(), json!(["0.1", "9.9"]));
        }
        Value::Object(versions)
    };
    let odd =
        select(vec![json!([]), json!(["9.9"]), json!([1, "0.1"]), json!([1]), json!(null), json!("0.1")]);
    prop_oneof![
        86 => Just(None),
        10 => Just(Some(full())),
        4 => (select(&LISTS[..]), odd).prop_map(move |(list, value)| {
            let mut versions = full();
            versions[list] = value;
            Some(versions)
        }),
    ]
}

/// Calls `visit` with the owner id, the collection and the entries of every contribution array.
fn each_collection(input: &mut Value, mut visit: impl FnMut(&str, &'static str, &mut Vec<Value>)) {
    for (sources, owner_id) in [("builtins", "/owner/ownerId"), ("modules", "/instanceId")] {
        for source in input[sources].as_array_mut().into_iter().flatten() {
            let owner = source.pointer(owner_id).and_then(Value::as_str).unwrap_or_default().to_owned();
            for (collection, _) in COLLECTIONS {
                if let Some(entries) =
                    source["contributions"].get_mut(collection).and_then(Value::as_array_mut)
                {
                    visit(&owner, collection, entries);
                }
            }
        }
    }
}

/// Drops what would collide on an id before anything interesting is reached.
fn tidy(input: &mut Value) {
    let mut instances: BTreeSet<String> = BTreeSet::new();
    if let Some(modules) = input["modules"].as_array_mut() {
        modules.retain(|module| instances.insert(module["instanceId"].to_string()));
    }
    let mut keys: BTreeSet<(String, &str, String)> = BTreeSet::new();
    each_collection(input, |owner, collection, entries| {
        entries.retain(|entry| keys.insert((owner.to_owned(), collection, entry["id"].to_string())));
    });
}

/// Takes the handle from one of the contributions that have one, rather from one that the policy selects.
fn remove_handle(input: &mut Value, nth: usize) {
    let operations =
        input.pointer("/policy/operations").and_then(Value::as_array).cloned().unwrap_or_default();
    let selects = |owner: &str, collection: &str, entry: &Value| {
        let id = entry["id"].as_str().unwrap_or_default();
        let kind = COLLECTIONS.iter().find(|(name, _)| *name == collection).map_or("", |(_, kind)| kind);
        let key = json!(format!("{owner}:{kind}/{id}"));
        operations.iter().any(|operation| operation["replacement"] == key || operation["use"] == key)
    };
    let (mut all, mut selected) = (0, 0);
    each_collection(input, |owner, collection, entries| {
        for entry in entries.iter().filter(|entry| entry.get("renderHandle").is_some()) {
            all += 1;
            selected += usize::from(selects(owner, collection, entry));
        }
    });
    let mut index = 0;
    each_collection(input, |owner, collection, entries| {
        for entry in entries {
            if entry.get("renderHandle").is_none() || (selected > 0 && !selects(owner, collection, entry)) {
                continue;
            }
            let count = if selected > 0 { selected } else { all };
            if index == nth % count
                && let Some(members) = entry.as_object_mut()
            {
                members.remove("renderHandle");
            }
            index += 1;
        }
    });
}

/// Turns route numbers into keys of routes that exist; without any route the item points nowhere.
fn point_sidebars(input: &mut Value) {
    let mut routes: Vec<String> = Vec::new();
    each_collection(input, |owner, collection, entries| {
        if collection == "routes" {
            let ids = entries.iter().filter_map(|entry| entry["id"].as_str());
            routes.extend(ids.map(|id| format!("{owner}:routes/{id}")));
        }
    });
    each_collection(input, |_, _, entries| {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            let number = entry
                .get("routeKey")
                .and_then(Value::as_str)
                .and_then(|key| key.strip_prefix(ROUTE_BY_NUMBER))
                .and_then(|number| number.parse::<usize>().ok());
            let Some(number) = number else { continue };
            if routes.is_empty() {
                entry.remove("routeKey");
            } else {
                entry.insert("routeKey".to_owned(), json!(routes[number % routes.len()]));
            }
        }
    });
}
