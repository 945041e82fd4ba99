//! `spec.mounts`.

use super::reader::{Credentials, Reader};
use crate::manifest::bind::project;
use crate::manifest::model::{Expression, Mount};
use crate::manifest::node::{Node, Tree};
use crate::manifest::problem::{At, quoted};
use crate::slot::{Mode, Slot};

pub(super) fn read(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<(Slot, Mount)> {
    let Some(fields) = reader.open_fields(node, at) else { return Vec::new() };
    let mut mounts = Vec::new();
    for member in fields.members() {
        let at = at.member(&member.key);
        match Slot::from_key(&member.key) {
            Some(slot) if slot.is_declarable() => {
                if let Some(mount) = mount(reader, &member.value, &at, slot) {
                    mounts.push((slot, mount));
                }
            }
            Some(slot) => {
                let message = format_args!("the platform fills `{slot}` for every agent; remove it");
                reader.problems.add(&at, member.position, message);
            }
            None => {
                let known = Slot::ALL.into_iter().filter(|slot| slot.is_declarable()).map(Slot::key);
                let known: Vec<&str> = known.collect();
                let message =
                    format_args!("{} is not a slot; use one of: {}", quoted(&member.key), known.join(", "));
                reader.problems.add(&at, member.position, message);
            }
        }
    }
    mounts
}

fn mount(reader: &mut Reader<'_>, node: &Node, at: &At<'_>, slot: Slot) -> Option<Mount> {
    let place = reader.problems.place(at, node.position);
    let mut mount = Mount { enabled: true, mode: None, config: Vec::new(), place };
    if let Tree::Boolean(enabled) = node.tree {
        mount.enabled = enabled;
        return Some(mount);
    }
    if !matches!(node.tree, Tree::Object(_)) {
        reader.problem(
            node,
            at,
            format_args!("must be `true`, `false` or an object, but is {}", node.kind()),
        );
        return None;
    }
    let fields = reader.open_fields(node, at)?;
    let mut whole = true;
    for member in fields.members() {
        let (node, at) = (&member.value, at.member(&member.key));
        match member.key.as_str() {
            "enabled" => mount.enabled = reader.boolean(node, &at)?,
            "mode" => match reader.text(node, &at)? {
                "read-only" => mount.mode = Some(Mode::ReadOnly),
                "read-write" if slot.allows(Mode::ReadWrite) => mount.mode = Some(Mode::ReadWrite),
                "read-write" => {
                    let message = format_args!("`{slot}` is always `read-only`");
                    reader.problem(node, &at, message);
                }
                other => {
                    let message =
                        format_args!("{} is invalid; use one of: read-only, read-write", quoted(other));
                    reader.problem(node, &at, message);
                }
            },
            key => match reader.expression(node, &at, Credentials::Refused) {
                Some(value) => {
                    // The known configuration is checked here, unless it contains a token.
                    if let Expression::Plain(plain) = &value
                        && let Err(reason) = project::check(slot, key, plain)
                    {
                        reader.problem(node, &at, reason);
                    }
                    mount.config.push((key.to_owned(), value));
                }
                None => whole = false,
            },
        }
    }
    whole.then_some(mount)
}
