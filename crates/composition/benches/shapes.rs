//! The shapes of input that the kernel is measured and tested on: one large workspace as it
//! might really be, and six that were made to hurt.
//!
//! Every shape takes its size, and the same size gives the same bytes.

use serde_json::{Map, Value, json};

/// A way to make an input of any size.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// What tables call it.
    pub(crate) name: &'static str,
    /// The size at which it is measured.
    pub(crate) full: usize,
    /// Makes an input with that many contributions or operations, whichever the shape is about.
    pub(crate) build: fn(usize) -> Value,
}

/// All shapes, the realistic one first.
pub(crate) const ALL: [Shape; 7] = [
    Shape { name: "realistic", full: 100_000, build: realistic },
    Shape { name: "shared-claim", full: 100_000, build: shared_claim },
    Shape { name: "shared-path", full: 100_000, build: shared_path },
    Shape { name: "reversed-chain", full: 10_000, build: reversed_chain },
    Shape { name: "one-replacement", full: 10_000, build: one_replacement },
    Shape { name: "equal-operation-ids", full: 10_000, build: equal_operation_ids },
    Shape { name: "bad-local-ids", full: 100_000, build: bad_local_ids },
];

/// How many contributions one owner declares.
const PER_OWNER: usize = 100;

/// A tenth as many valid operations as contributions, all kinds of both, modules of every status.
pub(crate) fn realistic(contributions: usize) -> Value {
    let owners = contributions.div_ceil(PER_OWNER);
    let (mut builtins, mut modules) = (Vec::new(), Vec::new());
    let (mut overrides, mut others) = (Vec::new(), Vec::new());
    for index in 0..owners {
        let member = Member::new(index);
        // Each owner declares two renderers of one claim, which conflict unless one is chosen.
        if member.is_shown() {
            overrides.push(member.override_shared_claim());
            others.extend(member.operations());
        } else {
            others.push(member.move_fallback());
        }
        let declared = member.contributions(PER_OWNER.min(contributions - index * PER_OWNER));
        match member.status {
            None => builtins.push(builtin(&member.id, declared)),
            Some(status) => modules.push(module(&member.id, status, declared)),
        }
    }
    // The order of an input means nothing, so it should not happen to be the order of the output.
    shuffle(&mut modules);
    shuffle(&mut others);
    let mut operations = overrides;
    let wanted = (contributions / 10).saturating_sub(operations.len());
    others.truncate(wanted);
    operations.extend(others);
    shuffle(&mut operations);
    input(builtins, modules, operations)
}

/// One claim that `count` renderers have.
pub(crate) fn shared_claim(count: usize) -> Value {
    owned(count, "toolRenderers", |index| {
        let id = format!("renderer-{index:06}");
        json!({"id": id, "claim": "tool:web.search", "renderHandle": handle("tool", &id)})
    })
}

/// One path that `count` routes answer.
pub(crate) fn shared_path(count: usize) -> Value {
    owned(count, "routes", |index| {
        let id = format!("route-{index:06}");
        json!({"id": id, "path": "/projects/:projectId/runs", "renderHandle": handle("page", &id)})
    })
}

/// `count` operations that put each sidebar item before the one it follows, which turns the sidebar around.
pub(crate) fn reversed_chain(count: usize) -> Value {
    let items = (0..=count).map(|index| json!({"id": item(index), "label": "Item"})).collect();
    let operations = (0..count).map(|index| {
        json!({
            "id": format!("move-{index:06}"),
            "kind": "reorder",
            "target": format!("builtin-console:sidebar-items/{}", item(index + 1)),
            "position": "before",
            "anchor": format!("builtin-console:sidebar-items/{}", item(index)),
        })
    });
    console("sidebarItems", items, operations.collect())
}

/// `count` operations that replace as many surfaces by the same one.
pub(crate) fn one_replacement(count: usize) -> Value {
    let operations = (1..=count).map(|index| {
        json!({
            "id": format!("replace-{index:06}"),
            "kind": "replace",
            "target": format!("builtin-console:configuration-surfaces/{}", item(index)),
            "replacement": format!("builtin-console:configuration-surfaces/{}", item(0)),
        })
    });
    console("configurationSurfaces", (0..=count).map(surface).collect(), operations.collect())
}

/// `count` operations with one id, each of which would be in order by itself.
pub(crate) fn equal_operation_ids(count: usize) -> Value {
    let operations = (0..count).map(|index| {
        json!({
            "id": "same",
            "kind": "hide",
            "target": format!("builtin-console:configuration-surfaces/{}", item(index)),
        })
    });
    console("configurationSurfaces", (0..count).map(surface).collect(), operations.collect())
}

/// `count` contributions with invalid ids.
pub(crate) fn bad_local_ids(count: usize) -> Value {
    owned(count, "routes", |index| {
        let id = format!("Route_{index:06}");
        json!({"id": id, "path": format!("/r/{index}"), "renderHandle": handle("page", &id)})
    })
}

/// The id of the item at `index`; ids sort as their indexes do.
pub(crate) fn item(index: usize) -> String {
    format!("item-{index:06}")
}

/// One owner of the realistic workspace.
struct Member {
    index: usize,
    id: String,
    /// Built-ins have none.
    status: Option<&'static str>,
}

/// How many of each kind an owner with [`PER_OWNER`] contributions declares.
const MIX: [(&str, usize); 9] = [
    ("toolRenderers", 12),
    ("sidebarItems", 20),
    ("routes", 25),
    ("configurationSurfaces", 8),
    ("integrationSurfaces", 7),
    ("messageRenderers", 10),
    ("messageAppenders", 8),
    ("activityRenderers", 5),
    ("fallbackSurfaces", 5),
];

impl Member {
    fn new(index: usize) -> Self {
        const NAMES: [&str; 7] =
            ["data-lab", "review", "billing", "incident-desk", "notes", "release-train", "search"];
        let name = NAMES[index % NAMES.len()];
        if index.is_multiple_of(50) {
            return Self { index, id: format!("builtin-{name}-{index}"), status: None };
        }
        let status = match index % 10 {
            0..=6 => "ready",
            7 => "readOnly",
            8 => "needsConfiguration",
            _ => ["unauthorized", "disabled", "error"][index / 10 % 3],
        };
        Self { index, id: format!("{name}-{index}"), status: Some(status) }
    }

    fn is_shown(&self) -> bool {
        matches!(self.status, None | Some("ready"))
    }

    fn contributions(&self, count: usize) -> Map<String, Value> {
        let mut left = count;
        let mut collections = Map::new();
        for (collection, share) in MIX {
            let taken = share.min(left);
            left -= taken;
            let mut descriptors: Vec<Value> =
                (0..taken).map(|nth| self.descriptor(collection, nth)).collect();
            shuffle(&mut descriptors);
            collections.insert(collection.to_owned(), descriptors.into());
        }
        collections
    }

    fn descriptor(&self, collection: &str, nth: usize) -> Value {
        let index = self.index;
        let mut descriptor = json!({"id": format!("entry-{nth}")});
        let mut set = |name: &str, value: Value| descriptor[name] = value;
        match collection {
            "routes" => set("path", format!("/{}/section-{nth}/:entryId", self.id).into()),
            "sidebarItems" => {
                set("label", format!("Section {nth}").into());
                if nth % 5 != 4 {
                    set("section", "work".into());
                    set("routeKey", self.key("routes", nth).into());
                }
            }
            "configurationSurfaces" | "integrationSurfaces" => {
                set("purpose", "account".into());
                set("label", format!("Settings {nth}").into());
            }
            "messageRenderers" => set("claim", format!("message:{}.kind-{nth}", self.id).into()),
            // The first two share a claim.
            "toolRenderers" => set("claim", format!("tool:{}.call-{}", self.id, nth.max(1)).into()),
            "activityRenderers" => set("claim", format!("activity:{}.step-{nth}", self.id).into()),
            "messageAppenders" => {
                set("targetMessageType", ["assistant", "user", "notice"][nth % 3].into());
                set("position", ["before", "after"][nth % 2].into());
            }
            _ => {
                const STATUSES: [&str; 5] =
                    ["anyNonReady", "readOnly", "needsConfiguration", "unauthorized", "error"];
                set("status", STATUSES[nth % STATUSES.len()].into());
            }
        }
        if collection != "sidebarItems" {
            // Neighbours share a handle; some handles say more.
            let mut shared = handle("component", &format!("{collection}-{}", nth / 2));
            if nth % 10 < 2 {
                shared["data"] =
                    json!({"chunk": format!("c{index}"), "lines": nth, "lazy": true, "ratio": 0.5});
            }
            set("renderHandle", shared);
        }
        if nth.is_multiple_of(3) {
            set("metadata", json!({"since": "1.4", "tags": ["team", "beta"], "weight": nth}));
        }
        if nth % 8 == 7 && collection != "fallbackSurfaces" {
            set("activeWhen", json!(["ready"]));
        }
        descriptor
    }

    fn key(&self, kind: &str, nth: usize) -> String {
        format!("{}:{kind}/entry-{nth}", self.id)
    }

    fn operation(&self, verb: &str, nth: usize, rest: Value) -> Value {
        let mut operation = json!({"id": format!("{verb}-{}-{nth}", self.id), "kind": verb});
        let members = operation.as_object_mut().expect("written as an object just above");
        if let Value::Object(rest) = rest {
            members.extend(rest);
        }
        operation
    }

    fn override_shared_claim(&self) -> Value {
        let claim = format!("tool:{}.call-1", self.id);
        self.operation(
            "rendererOverride",
            0,
            json!({"claim": claim, "use": self.key("tool-renderers", self.index % 2)}),
        )
    }

    fn move_fallback(&self) -> Value {
        // A disabled module has a status too, so its `anyNonReady` fallback is there to be moved.
        let target = self.key("fallback-surfaces", 0);
        self.operation("reorder", 0, json!({"target": target, "position": "first"}))
    }

    /// Operations that get along with each other, and with those of every other owner.
    fn operations(&self) -> Vec<Value> {
        let items = |nth| self.key("sidebar-items", nth);
        let surfaces = |nth| self.key("configuration-surfaces", nth);
        let relative = |nth, target: String, position: &str, anchor: String| {
            self.operation("reorder", nth, json!({"target": target, "position": position, "anchor": anchor}))
        };
        let alias = |nth| {
            let path = format!("/{}/:entryId/moved-{nth}", self.id);
            self.operation("pathAlias", nth, json!({"target": self.key("routes", nth), "path": path}))
        };
        let replace = |nth, kind: &str| {
            let operands = json!({"target": self.key(kind, 2), "replacement": self.key(kind, 3)});
            self.operation("replace", nth, operands)
        };
        let hide = |nth, target: String| self.operation("hide", nth, json!({"target": target}));
        vec![
            relative(0, items(1), "before", items(0)),
            relative(1, items(3), "before", items(2)),
            relative(2, items(5), "after", items(6)),
            relative(3, surfaces(1), "before", surfaces(0)),
            relative(4, self.key("message-appenders", 3), "after", self.key("message-appenders", 4)),
            self.operation("reorder", 5, json!({"target": items(7), "position": "last"})),
            alias(0),
            alias(1),
            alias(2),
            replace(0, "tool-renderers"),
            replace(1, "message-renderers"),
            hide(0, surfaces(5)),
            hide(1, items(8)),
            hide(2, self.key("activity-renderers", 4)),
        ]
    }
}

fn input(builtins: Vec<Value>, modules: Vec<Value>, operations: Vec<Value>) -> Value {
    let policy = object([("policySchemaVersion", "0.1".into()), ("operations", operations.into())]);
    object([
        ("compositionSchemaVersion", "0.1".into()),
        ("builtins", builtins.into()),
        ("modules", modules.into()),
        ("policy", policy),
    ])
}

/// One collection of `count` descriptors, dealt out to ready modules of [`PER_OWNER`] each.
fn owned(count: usize, collection: &str, descriptor: impl Fn(usize) -> Value) -> Value {
    let modules = (0..count.div_ceil(PER_OWNER)).map(|owner| {
        let end = count.min((owner + 1) * PER_OWNER);
        let descriptors: Vec<Value> = (owner * PER_OWNER..end).map(&descriptor).collect();
        module(
            &format!("lab-{owner}"),
            "ready",
            Map::from_iter([(collection.to_owned(), descriptors.into())]),
        )
    });
    input(Vec::new(), modules.collect(), Vec::new())
}

/// One collection of one built-in, with operations on it.
fn console(collection: &str, mut descriptors: Vec<Value>, mut operations: Vec<Value>) -> Value {
    shuffle(&mut descriptors);
    shuffle(&mut operations);
    let contributions = Map::from_iter([(collection.to_owned(), descriptors.into())]);
    input(vec![builtin("builtin-console", contributions)], Vec::new(), operations)
}

fn builtin(id: &str, contributions: Map<String, Value>) -> Value {
    let owner = json!({
        "ownerKind": "builtin",
        "ownerId": id,
        "packageId": "@interlock/console",
        "packageVersion": "1.0.0",
    });
    object([("owner", owner), ("contributions", contributions.into())])
}

fn module(id: &str, status: &str, contributions: Map<String, Value>) -> Value {
    let mut runtime = json!({
        "instanceId": id,
        "status": status,
        "grants": ["files.read", "runs.start"],
        "missing": [],
        "actions": [],
    });
    if status != "ready" {
        runtime["message"] = "The account is not connected.".into();
        runtime["missing"] = json!(["mail.send"]);
        runtime["actions"] = json!([{"id": "connect", "label": "Connect", "kind": "authorize"}]);
    }
    object([
        ("packageId", format!("@modules/{id}").into()),
        ("packageVersion", "2.3.1".into()),
        ("moduleApiVersion", "0.1".into()),
        ("instanceId", id.into()),
        ("runtime", runtime),
        ("contributions", contributions.into()),
    ])
}

/// As `json!` would, without copying what may be large.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

fn surface(index: usize) -> Value {
    let id = item(index);
    json!({"id": id, "purpose": "account", "renderHandle": handle("component", &id)})
}

fn handle(kind: &str, id: &str) -> Value {
    json!({"renderHandleVersion": "0.1", "kind": kind, "id": id})
}

/// Puts values into an arbitrary order, the same on every run.
fn shuffle(values: &mut [Value]) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for end in (1..values.len()).rev() {
        // Knuth's 64-bit linear congruential generator; only its upper bits are worth using.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bound = u64::try_from(end + 1).expect("a length fits in 64 bits");
        let other = usize::try_from((state >> 33) % bound).expect("smaller than a length");
        values.swap(end, other);
    }
}
