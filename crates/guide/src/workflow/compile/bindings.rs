//! Bindings: what a workspace puts into the slots of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use canon::json::{self, Limits};
use serde_json::Value;

use super::{
    Pass,
    draft::{Context, Node, each_step},
    tokens::{is_reserved, replace_tokens, tokens},
};
use crate::workflow::problem::{Problem, ProblemCode as Code, item, member, quoted};

/// The maximum size of a bindings file, in bytes.
pub const MAX_BINDINGS_BYTES: usize = 262_144;

const PREFIX: &str = "wr.bindings.";

/// The bindings of one workflow: slot to routine or workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings(pub BTreeMap<String, String>);

impl Bindings {
    /// Reads `{workflowId: {slotId: routineId}}`, and keeps the entries of one workflow.
    ///
    /// # Errors
    /// The file is not such an object. The entries of other workflows are checked when those are compiled.
    pub fn parse(bytes: &[u8], workflow_id: &str) -> Result<Self, Vec<Problem>> {
        let limits = Limits::default().max_bytes(MAX_BINDINGS_BYTES).max_depth(8);
        let fix = "Write {\"workflowId\": {\"slotId\": \"routineId\"}}.";
        let value = json::read(bytes, &limits)
            .map_err(|error| vec![Problem::new("", Code::Unreadable, error.to_string(), fix)])?;
        let wrong = |path: &str, what: &str| vec![Problem::new(path, Code::WrongType, what, fix)];
        let Value::Object(workflows) = value else { return Err(wrong("", "bindings must be an object")) };
        let mut slots = BTreeMap::new();
        match workflows.get(workflow_id) {
            None => {}
            Some(Value::Object(members)) => {
                for (slot, value) in members {
                    let path = member(&member("", workflow_id), slot);
                    let Value::String(target) = value else {
                        return Err(wrong(&path, "a binding must be a string"));
                    };
                    slots.insert(slot.clone(), target.clone());
                }
            }
            Some(_) => {
                return Err(wrong(&member("", workflow_id), "the bindings of a workflow must be an object"));
            }
        }
        Ok(Self(slots))
    }
}

/// Replaces the tokens of slots by their values.
pub(super) fn resolve(context: &mut Context<'_>, nodes: &mut [Node], bindings: &Bindings) {
    let known: Vec<String> = context.slots.keys().cloned().collect();
    for (slot, target) in &bindings.0 {
        let path = member("bindings", slot);
        if !context.slots.contains_key(slot) {
            context.unknown(&path, Code::UnknownSlot, "slot", slot, &known);
        }
        if !is_target(target) {
            let message = format!("{:?} is not the id of a routine or workflow", quoted(target));
            context.problem(&path, Code::InvalidName, message, "Write the id of a routine or a workflow.");
        }
    }
    let defaults: Vec<(String, String)> = context
        .slots
        .iter()
        .filter(|(_, slot)| !is_target(&slot.value))
        .map(|(_, slot)| (slot.path.clone(), slot.value.clone()))
        .collect();
    for (path, value) in defaults {
        let message = format!("{:?} is not the id of a routine or workflow", quoted(&value));
        context.problem(
            &member(&path, "default"),
            Code::InvalidName,
            message,
            "Write the id of a routine or a workflow.",
        );
    }
    context.bindings = context
        .slots
        .iter()
        .map(|(slot, default)| (slot.clone(), bindings.0.get(slot).unwrap_or(&default.value).clone()))
        .collect();

    each_step(nodes, &mut |draft| {
        let mut used = BTreeSet::new();
        let mut strangers = BTreeSet::new();
        let values = &context.bindings;
        draft.texts_mut(&mut |name, text| {
            // Fragments are selected when a prompt is rendered, and are not replaced here.
            if name == "promptFragments" {
                return;
            }
            let replaced = replace_tokens(text, |token| {
                let slot = token.strip_prefix(PREFIX)?;
                let value = values.get(slot).cloned();
                match value {
                    Some(_) => used.insert(slot.to_owned()),
                    None => strangers.insert((name, slot.to_owned())),
                };
                // An unknown slot is reported here, and must not be reported again by the next pass.
                Some(value.unwrap_or_default())
            });
            if let Some(replaced) = replaced {
                *text = replaced;
            }
        });
        for (name, slot) in strangers {
            context.unknown(&member(&draft.path, name), Code::UnknownSlot, "slot", &slot, &known);
        }
        for slot in used {
            let note = format!("`{}` fills the slot", context.bindings[&slot]);
            context.note(Pass::Bindings, &draft.step.id, Some(&format!("{PREFIX}{slot}")), note);
        }
    });
    let mut guidance = std::mem::take(&mut context.meta_guidance);
    for text in &mut guidance {
        let values = &context.bindings;
        if let Some(replaced) = replace_tokens(text, |token| values.get(token.strip_prefix(PREFIX)?).cloned())
        {
            *text = replaced;
        }
    }
    context.meta_guidance = guidance;
}

/// Checks that no reserved token is left.
pub(super) fn sentinels(context: &mut Context<'_>, nodes: &mut [Node]) {
    let mut found = BTreeSet::new();
    each_step(nodes, &mut |draft| {
        let path = draft.path.clone();
        draft.texts_mut(&mut |name, text| {
            for (_, token) in tokens(text).into_iter().filter(|(_, token)| is_reserved(token)) {
                found.insert((member(&path, name), token.to_owned()));
            }
        });
    });
    for (index, text) in context.meta_guidance.iter().enumerate() {
        for (_, token) in tokens(text).into_iter().filter(|(_, token)| is_reserved(token)) {
            found.insert((item("metaGuidance", index), token.to_owned()));
        }
    }
    for (path, token) in found {
        let message = format!("`{{{{{token}}}}}` is not replaced here");
        let fix = "Use {{wr.bindings.…}} in a prompt, a ref in `promptBlocks`, or another name.";
        context.problem(&path, Code::ReservedToken, message, fix);
    }
}

/// Whether a string can be the id of a routine or a workflow.
fn is_target(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.'))
}
