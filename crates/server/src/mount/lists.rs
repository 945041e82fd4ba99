//! What there is to use, page by page, in the order of the names.

use std::collections::BTreeMap;
use std::ops::Bound;

use host::runs::exposed::{Exposed, Exposure};
use serde_json::{Value, json};

/// How many a page has at most.
const PAGE: usize = 200;

/// `tools/list`
pub(super) fn tools(exposed: &Exposed, cursor: Option<&str>) -> Value {
    page("tools", &exposed.tools, cursor, |name, tool| {
        let mut shown =
            json!({"name": name, "title": tool.workflow.name, "inputSchema": tool.input_schema()});
        if let Some(description) = tool.text("description") {
            shown["description"] = description.into();
        }
        shown
    })
}

/// `resources/list`
pub(super) fn resources(exposed: &Exposed, cursor: Option<&str>) -> Value {
    page("resources", &exposed.resources, cursor, |uri, resource| named(json!({"uri": uri}), resource))
}

/// `resources/templates/list`
pub(super) fn templates(exposed: &Exposed, cursor: Option<&str>) -> Value {
    page("resourceTemplates", &exposed.templates, cursor, |uri, (_, resource)| {
        named(json!({"uriTemplate": uri}), resource)
    })
}

/// `prompts/list`
pub(super) fn prompts(exposed: &Exposed, cursor: Option<&str>) -> Value {
    page("prompts", &exposed.prompts, cursor, |name, prompt| {
        let mut shown = json!({"name": name, "title": prompt.workflow.name});
        if let Some(arguments) = prompt.config.get("arguments") {
            shown["arguments"] = arguments.clone();
        }
        shown
    })
}

fn named(mut shown: Value, resource: &Exposure) -> Value {
    shown["name"] = resource.text("name").unwrap_or(&resource.workflow.name).into();
    if let Some(media) = resource.text("mimeType") {
        shown["mimeType"] = media.into();
    }
    shown
}

fn page<T>(
    of: &str,
    all: &BTreeMap<String, T>,
    cursor: Option<&str>,
    show: impl Fn(&str, &T) -> Value,
) -> Value {
    let from = cursor.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = all.range::<str, _>((from, Bound::Unbounded));
    let shown: Vec<(&str, Value)> =
        rest.by_ref().take(PAGE).map(|(name, item)| (name.as_str(), show(name, item))).collect();
    // Names of the caller's own workflows are nothing to hide: the last one says where the next page begins.
    let next = shown.last().map(|(name, _)| *name).filter(|_| rest.next().is_some());
    let mut answer = json!({of: shown.iter().map(|(_, item)| item.clone()).collect::<Vec<_>>()});
    if let Some(next) = next {
        answer["nextCursor"] = next.into();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_everything_once() {
        for many in [0, 1, PAGE, PAGE + 1, 3 * PAGE] {
            let all: BTreeMap<String, usize> =
                (0..many).map(|place| (format!("{place:06}"), place)).collect();
            let (mut found, mut cursor) = (Vec::new(), None::<String>);
            loop {
                let shown = page("items", &all, cursor.as_deref(), |_, place| (*place).into());
                found.extend(shown["items"].as_array().unwrap().iter().map(|place| place.as_u64().unwrap()));
                match shown["nextCursor"].as_str() {
                    Some(next) => cursor = Some(next.to_owned()),
                    None => break,
                }
            }
            assert_eq!(found, (0..many as u64).collect::<Vec<_>>());
        }
    }
}
