//! Diagnostic messages. They are not part of any order or comparison.

use std::fmt::Write;

use super::{
    Details, Expected, MAX_MESSAGE_CHARACTERS, PolicyFault, PolicyReason, ReferenceReason, StructureReason,
};

/// The message, truncated to its limit.
pub(super) fn of(details: &Details<'_>) -> String {
    let mut message = String::with_capacity(96);
    write_details(&mut message, details).expect("writing to a string cannot fail");
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARACTERS) {
        let shortened = message[..end].char_indices().next_back().map_or(0, |(last, _)| last);
        message.truncate(shortened);
        message.push('…');
    }
    message
}

fn write_details(out: &mut String, details: &Details<'_>) -> std::fmt::Result {
    match details {
        Details::Structure { expected, field, reason, received } => {
            write_structure(out, *expected, field, *reason, received)
        }
        Details::Version { field, received, supported } => {
            write!(out, "{field} is {received}; supported: ")?;
            if supported.is_empty() { out.write_str("none") } else { out.write_str(&supported.join(", ")) }
        }
        Details::InvalidInstanceId { instance_id, pattern } => {
            write!(out, "the instance id {instance_id:?} does not match {pattern} within 128 bytes")
        }
        Details::InvalidOwnerId { owner_id, pattern } => {
            write!(out, "the built-in owner id {owner_id:?} does not match {pattern} within 128 bytes")
        }
        Details::ReservedOwnerId { instance_id, prefix } => {
            write!(
                out,
                "the instance id {instance_id} starts with {prefix}, which is reserved for \
                built-ins"
            )
        }
        Details::InvalidLocalId { contribution_kind, local_id, pattern } => {
            write!(out, "the {contribution_kind} id {local_id:?} does not match {pattern} within 128 bytes")
        }
        Details::DuplicateInstanceId { count, instance_id } => {
            write!(out, "{count} modules have the instance id {instance_id}")
        }
        Details::OwnerConflict { fields, owner_id } => {
            write!(out, "the sets of {owner_id} have different values for {}", fields.join(" and "))
        }
        Details::DuplicateCanonicalKey { count, key } => write!(out, "{key} is declared {count} times"),
        Details::InvalidPath { path, policy_id, reason } => {
            write!(out, "{path:?} is not a valid route path: {reason}")?;
            policy_id.map_or(Ok(()), |id| write!(out, " (in operation {id:?})"))
        }
        Details::DuplicatePath { keys, path, .. } => {
            write!(out, "{} routes have the path {path}: {}", keys.len(), Names(keys))
        }
        Details::InvalidClaim { claim, reason } => {
            write!(out, "{claim:?} is not a valid claim for this collection: {reason}")
        }
        Details::DefaultProtected { claim } => {
            write!(out, "{claim} is ordinary text, which modules cannot claim")
        }
        Details::DuplicateClaim { claim, keys, renderer_kind } => {
            write!(out, "{} {renderer_kind} renderers claim {claim}: {}", keys.len(), Names(keys))
        }
        Details::Reference { field, from, reason, reference } => {
            match from {
                Some(from) => write!(out, "the {field} of {from} ")?,
                None => write!(out, "a {field} ")?,
            }
            out.write_str(match reason {
                ReferenceReason::MalformedKey => "is not a canonical key",
                ReferenceReason::WrongKind => "does not name a route",
                ReferenceReason::MissingTarget => "names a route that is not declared",
                ReferenceReason::InactiveTarget => "names a route that is not shown",
            })?;
            write!(out, ": {reference:?}")
        }
        Details::Policy(fault) => write_policy(out, fault),
    }
}

fn write_structure(
    out: &mut String,
    expected: Expected,
    field: &str,
    reason: StructureReason,
    received: &str,
) -> std::fmt::Result {
    let expected = match expected {
        Expected::Token(token) => token.to_owned(),
        Expected::OneOf(values) => format!("one of {}", values.join(", ")),
    };
    match reason {
        StructureReason::MissingRequiredField | StructureReason::MissingRuntime => {
            write!(out, "{field}: required, expected {expected}")
        }
        StructureReason::UnsupportedField => write!(out, "{field}: not allowed"),
        StructureReason::InvalidInputShape
        | StructureReason::InvalidCollection
        | StructureReason::InvalidFieldType => write!(out, "{field}: expected {expected}, found {received}"),
        StructureReason::InvalidFieldValue | StructureReason::InvalidRuntimeStatus => {
            write!(out, "{field}: expected {expected}, found {received:?}")
        }
    }
}

fn write_policy(out: &mut String, fault: &PolicyFault<'_>) -> std::fmt::Result {
    let PolicyFault { field, from, policy_id, reason, related_policy_ids, target, used } = fault;
    write!(out, "operation {policy_id:?}: ")?;
    out.write_str(match reason {
        PolicyReason::DuplicateOperationId => "several operations have this id",
        PolicyReason::DuplicateHideTarget => "another operation hides the same target",
        PolicyReason::DuplicateReorderTarget => "another operation reorders the same target",
        PolicyReason::DuplicateReplaceTarget => "another operation replaces the same target",
        PolicyReason::DuplicatePathAliasTarget => "another operation gives the same route an alias",
        PolicyReason::DuplicateRendererOverrideClaim => "another operation overrides the same claim",
        PolicyReason::HideReplaceSameTarget => "the target is both hidden and replaced",
        PolicyReason::ReplaceCycle => "the replacements form a cycle",
        PolicyReason::ReorderCycle => "the requested order is contradictory",
        PolicyReason::MissingTarget => "the contribution that it names is not declared",
        PolicyReason::InactiveTarget => "the contribution that it names is not active",
        PolicyReason::MissingUse => "the renderer that it selects is not declared",
        PolicyReason::InactiveUse => "the renderer that it selects is not active",
        PolicyReason::InvalidUseKind => "the renderer that it selects does not have the claim",
        PolicyReason::MissingRenderHandle => "the contribution that it selects has no render handle",
        PolicyReason::InvalidKind => "it does not apply to this kind of contribution",
        PolicyReason::PolicyCreatedDanglingReference => {
            "it removes a contribution that is still \
            referenced"
        }
        PolicyReason::DefaultRendererProtected => "the renderer of ordinary text cannot be changed",
    })?;
    write!(out, ": ")?;
    if let Some(field) = field {
        write!(out, "{field} ")?;
    }
    out.write_str(target)?;
    if let Some(used) = used {
        write!(out, ", use {used}")?;
    }
    if let Some(from) = from {
        write!(out, ", required by {from}")?;
    }
    if let Some(related) = related_policy_ids.as_ref().filter(|ids| ids.iter().any(|id| id != policy_id)) {
        write!(out, " (operations {})", Names(related))?;
    }
    Ok(())
}

/// The first few items of a list, and the number of the others.
struct Names<'a, T>(&'a [T]);

impl<T: std::fmt::Display> std::fmt::Display for Names<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 4;
        for (index, name) in self.0.iter().take(SHOWN).enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{name}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}
