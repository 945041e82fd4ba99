//! The lists of tools, resources and prompts: paged, and sorted by name.

use std::collections::BTreeMap;
use std::ops::Bound;

use canon::digest::Digest;
use runs::exposed::{Exposed, Exposure};
use runs::{Caller, Refusal, Runs, Scope};
use serde_json::{Value, json};

/// The maximum number of entries per page.
const PAGE: usize = 200;

/// `tools/list`
pub(super) fn tools(exposed: &Exposed, cursor: Option<&str>) -> Value {
    page("tools", &exposed.tools, cursor, |name, tool| {
        let mut shown =
            json!({"name": name, "title": tool.workflow.name, "inputSchema": tool.input_schema()});
        // The host protocol requires one for every tool.
        shown["description"] = tool.text("description").unwrap_or(&tool.workflow.name).into();
        if let Some(schema) = tool.config.get("outputSchema") {
            shown["outputSchema"] = schema.clone();
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
        let about = &prompt.workflow.name;
        let mut shown = json!({"name": name, "title": about, "description": about});
        if let Some(arguments) = prompt.config.get("arguments") {
            shown["arguments"] = arguments.clone();
            // The protocol returns values one argument at a time, with `completion/complete`.
            let arguments = shown["arguments"].as_array_mut().into_iter().flatten();
            for argument in arguments.filter_map(Value::as_object_mut) {
                argument.remove("values");
            }
        }
        shown
    })
}

/// Digests of all lists, to detect changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    tools: Digest,
    resources: Digest,
    prompts: Digest,
}

impl Lists {
    /// The lists that a caller sees.
    pub(crate) async fn of(runs: &Runs, caller: &Caller) -> Result<Self, Refusal> {
        if !caller.may(Scope::ManifestRead) {
            return Ok(Self::read(&Exposed::default()));
        }
        Ok(Self::read(&*runs.definitions().exposed(&caller.tenant).await?))
    }

    fn read(exposed: &Exposed) -> Self {
        Self {
            tools: digest(exposed, &[tools]),
            resources: digest(exposed, &[resources, templates]),
            prompts: digest(exposed, &[prompts]),
        }
    }

    pub(crate) fn changed(&self, now: &Self) -> Vec<&'static str> {
        let all = [
            ("tools", self.tools != now.tools),
            ("resources", self.resources != now.resources),
            ("prompts", self.prompts != now.prompts),
        ];
        all.into_iter().filter(|(_, changed)| *changed).map(|(of, _)| of).collect()
    }
}

/// The digest of all pages of some lists.
fn digest(exposed: &Exposed, lists: &[fn(&Exposed, Option<&str>) -> Value]) -> Digest {
    let mut all = String::new();
    for list in lists {
        let mut cursor = None;
        loop {
            let page = list(exposed, cursor.as_deref());
            all += &page.to_string();
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
    }
    Digest::of_bytes(all.as_bytes())
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
    // The names of the caller's own workflows are not secret, so the cursor is the last name of a page.
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
