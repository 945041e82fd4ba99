//! `spec.agent`, `skills`, `toolSelection` and `permissions`.

use serde_json::Value;

use super::reader::{Credentials, Fields, Reader};
use crate::manifest::model::{Agent, Permissions, Skill, SubAgent, ToolSelection};
use crate::manifest::node::{Node, Tree};
use crate::manifest::problem::{At, quoted};
use crate::manifest::vocabulary::{SelectionKind, ToolKey};

/// The longest name of an external item, in bytes.
const MAX_NAME: usize = 128;
const MAX_VERSION: usize = 64;

pub(super) fn read(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Option<Agent> {
    let members = ["slug", "stage", "phase", "role", "deliverableSpecRef", "defaultModel", "subAgents"];
    let fields = reader.fields(node, at, &members)?;
    let slug = reader.name(&fields, at, "slug", MAX_NAME);
    // One documented variant uses `phase`.
    let stage = match (fields.get("stage"), fields.get("phase")) {
        (Some(_), Some(phase)) => {
            reader.problem(phase, &at.member("phase"), "`stage` and `phase` are the same; use `stage`");
            None
        }
        (None, Some(_)) => reader.name(&fields, at, "phase", MAX_NAME),
        (_, None) => reader.name(&fields, at, "stage", MAX_NAME),
    };
    let role = reader.required_choice(&fields, at, "role");
    let deliverable_spec_ref = fields.get("deliverableSpecRef").and_then(|node| {
        let at = at.member("deliverableSpecRef");
        reader.bounded_text(node, &at, MAX_NAME)?;
        reader.expression(node, &at, Credentials::Refused)
    });
    let default_model = model(reader, &fields, at);
    let mut sub_agents: Vec<SubAgent> = Vec::new();
    if let Some(node) = fields.get("subAgents") {
        let list_at = at.member("subAgents");
        for (at, item) in reader.items(node, &list_at) {
            let Some(fields) = reader.fields(item, &at, &["slug", "alias", "defaultModel"]) else { continue };
            let slug = reader.name(&fields, &at, "slug", MAX_NAME);
            let alias = reader.optional_text(&fields, &at, "alias", MAX_NAME).map(str::to_owned);
            let default_model = model(reader, &fields, &at);
            if let Some(slug) = slug {
                if sub_agents.iter().any(|other| other.slug == slug) {
                    reader.problem(item, &at, format_args!("{} occurs twice", quoted(slug)));
                }
                sub_agents.push(SubAgent { slug: slug.to_owned(), alias, default_model });
            }
        }
    }
    Some(Agent {
        slug: slug?.to_owned(),
        group_key: stage?.to_owned(),
        role: role?,
        deliverable_spec_ref,
        default_model,
        sub_agents,
    })
}

/// `defaultModel`: the name of a model, or a selection.
fn model(reader: &mut Reader<'_>, fields: &Fields<'_>, at: &At<'_>) -> Option<Value> {
    let node = fields.get("defaultModel")?;
    let at = at.member("defaultModel");
    if let Tree::Object(_) = node.tree {
        let known = ["kind", "modelClass", "modelId", "providerSlug", "temperature"];
        let fields = reader.fields(node, &at, &known)?;
        let (kind, kind_node) = reader.required_text(&fields, &at, "kind")?;
        match kind {
            "strategy" => {
                const CLASSES: [&str; 5] = ["coding", "review", "creative", "planning", "utility"];
                let (class, node) = reader.required_text(&fields, &at, "modelClass")?;
                if !CLASSES.contains(&class) {
                    let message =
                        format_args!("{} is invalid; use one of: {}", quoted(class), CLASSES.join(", "));
                    reader.problem(node, &at.member("modelClass"), message);
                }
            }
            "concrete" => {
                reader.name(&fields, &at, "modelId", MAX_NAME);
                reader.optional_text(&fields, &at, "providerSlug", MAX_NAME);
            }
            other => {
                let message = format_args!("{} is invalid; use one of: strategy, concrete", quoted(other));
                reader.problem(kind_node, &at.member("kind"), message);
            }
        }
        if let Some(node) = fields.get("temperature") {
            reader.number(node, &at.member("temperature"));
        }
        return Some(node.value());
    }
    reader.bounded_text(node, &at, MAX_NAME).map(Value::from)
}

pub(super) fn skills(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<Skill> {
    let mut skills = Vec::new();
    for (at, item) in reader.items(node, at) {
        let Some(fields) = reader.fields(item, &at, &["slug", "version"]) else { continue };
        let version = reader.optional_text(&fields, &at, "version", MAX_VERSION).map(str::to_owned);
        let Some((slug, node)) = reader.required_text(&fields, &at, "slug") else { continue };
        if !is_skill_key(slug) {
            let message = format_args!(
                "{} is not a valid skill: use 1 to 4 words of lower-case letters, digits and `-`, joined by `/`",
                quoted(slug)
            );
            reader.problem(node, &at.member("slug"), message);
            continue;
        }
        skills.push(Skill { slug: slug.to_owned(), version });
    }
    skills
}

fn is_skill_key(text: &str) -> bool {
    let segment = |segment: &str| {
        let mut bytes = segment.bytes();
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        segment.len() <= 64 && bytes.next().is_some_and(word) && bytes.all(|byte| word(byte) || byte == b'-')
    };
    text.split('/').count() <= 4 && text.split('/').all(segment)
}

pub(super) fn tool_selection(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<ToolSelection> {
    let mut selections = Vec::new();
    for (at, item) in reader.items(node, at) {
        let members = ["kind", "providerKind", "resourceId", "toolName"];
        let Some(fields) = reader.fields(item, &at, &members) else { continue };
        let kind: Option<SelectionKind> = reader.required_choice(&fields, &at, "kind");
        let provider_kind = reader.required_choice(&fields, &at, "providerKind");
        let resource_id = reader.name(&fields, &at, "resourceId", MAX_NAME);
        let tool_name = match (kind, fields.get("toolName")) {
            (Some(SelectionKind::Tool), _) => reader.name(&fields, &at, "toolName", MAX_NAME),
            (Some(SelectionKind::Provider), Some(node)) => {
                reader.problem(
                    node,
                    &at.member("toolName"),
                    "a provider is selected as a whole; use `kind: tool` for a single tool",
                );
                None
            }
            (None, _) | (_, None) => None,
        };
        if let (Some(kind), Some(provider_kind), Some(resource_id)) = (kind, provider_kind, resource_id) {
            let (resource_id, tool_name) = (resource_id.to_owned(), tool_name.map(str::to_owned));
            selections.push(ToolSelection { kind, provider_kind, resource_id, tool_name });
        }
    }
    selections
}

pub(super) fn permissions(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Option<Permissions> {
    let fields = reader.fields(node, at, &["tools"])?;
    let Some(tools) = fields.get("tools") else { return Some(Permissions::default()) };
    let at = at.member("tools");
    let fields = reader.fields(tools, &at, &["allow", "deny"])?;
    let mut keys = |key: &str| {
        let node = fields.get(key)?;
        let at = at.member(key);
        let mut keys: Vec<ToolKey> = Vec::new();
        for (at, item) in reader.items(node, &at) {
            keys.extend(reader.choice::<ToolKey>(item, &at));
        }
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    };
    Some(Permissions { allow: keys("allow"), deny: keys("deny").unwrap_or_default() })
}
