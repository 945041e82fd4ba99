//! Reads channels.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::fields::Fields;
use crate::definition::channel::Reducer;
use crate::definition::schema::compiled;
use crate::definition::{Channel, Problem};

/// The maximum lifetime of an entry, in milliseconds: one year.
const MAX_TTL_MS: u64 = 31_536_000_000;

pub(super) fn channels(value: Option<&Value>, problems: &mut Vec<Problem>) -> BTreeMap<String, Channel> {
    let Some(value) = value else { return BTreeMap::new() };
    let Value::Object(object) = value else {
        problems.push(Problem::at("/channels", "expected an object"));
        return BTreeMap::new();
    };
    let mut channels = BTreeMap::new();
    for (name, value) in object {
        let Some(mut fields) = Fields::of(value, format!("/channels/{name}"), problems) else { continue };
        if let Some(channel) = channel(&mut fields) {
            channels.insert(name.clone(), channel);
        }
    }
    channels
}

fn channel(fields: &mut Fields<'_, '_>) -> Option<Channel> {
    let reducer = fields.text("reducer", 1, 256).and_then(|name| {
        let reducer = Reducer::parse(&name);
        if reducer.is_none() {
            let names =
                "must be one of replace, append, merge, counter, votes, feedback, message, or vendor.<org>.<name>";
            fields.problem("reducer", names);
        }
        reducer
    });
    let max_size = fields.optional_integer("maxSize", 1, u64::MAX);
    let ttl_ms = fields.optional_integer("ttlMs", 1, MAX_TTL_MS);
    if let (Some(reducer), Some(_)) = (&reducer, ttl_ms)
        && !reducer.ages()
    {
        fields.problem(
            "ttlMs",
            "allowed only for the reducers append, votes and feedback, whose entries expire",
        );
    }
    let schema_version = fields.optional_integer("schemaVersion", 1, u64::MAX).unwrap_or(1);
    let compatible = fields.value("compatibleWith").and_then(Value::as_array).into_iter().flatten();
    let compatible_with = compatible.filter_map(Value::as_u64).collect();
    let schema = match fields.value("schema").map(compiled) {
        None => None,
        Some(Ok(schema)) => Some(Arc::new(schema)),
        Some(Err(message)) => {
            fields.problem("schema", message);
            None
        }
    };
    let (readers, writers) = access(fields);
    let default = fields.value("default").cloned();
    let sensitive = fields.flag("sensitive", false);
    fields.only(&[
        "reducer",
        "schema",
        "schemaVersion",
        "compatibleWith",
        "default",
        "maxSize",
        "ttlMs",
        "options",
        "access",
        "sensitive",
    ]);
    Some(Channel {
        reducer: reducer?,
        default,
        max_size,
        ttl_ms,
        schema_version,
        compatible_with,
        schema,
        readers,
        writers,
        sensitive,
    })
}

/// The readers and the writers; `None` means all nodes.
type Access = (Option<Vec<String>>, Option<Vec<String>>);

fn access(fields: &mut Fields<'_, '_>) -> Access {
    match fields.value("access") {
        None => (None, None),
        Some(Value::String(word)) if word == "public" => (None, None),
        Some(Value::String(word)) if word == "private" => (Some(Vec::new()), Some(Vec::new())),
        Some(Value::Object(sides)) => {
            if let Some(name) = sides.keys().find(|name| !["readers", "writers"].contains(&name.as_str())) {
                fields.problem(&format!("access/{name}"), "unknown; use `readers` and `writers`");
            }
            let mut side = |name: &str| {
                let list = sides.get(name)?;
                let names =
                    list.as_array().map(|list| list.iter().map(|name| name.as_str().map(str::to_owned)));
                let names = names.and_then(Iterator::collect::<Option<Vec<_>>>);
                if names.is_none() {
                    fields.problem(
                        &format!("access/{name}"),
                        "must be a list of node ids and node types; a `*` at the end matches any suffix",
                    );
                }
                // An invalid list admits no node.
                Some(names.unwrap_or_default())
            };
            (side("readers"), side("writers"))
        }
        Some(_) => {
            fields
                .problem("access", "must be `public`, `private`, or an object with `readers` and `writers`");
            (Some(Vec::new()), Some(Vec::new()))
        }
    }
}
