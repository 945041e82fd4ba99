//! The words of a diagnostic. Never compared, never sorted on.

use std::fmt::Write;

use super::{
    Details, Expected, MAX_MESSAGE_CHARACTERS, PolicyFault, PolicyReason, ReferenceReason, StructureReason,
};

/// The message, cut to its bound.
pub(super) fn of(details: &Details<'_>) -> String {
    let mut message = String::with_capacity(96);
    write_details(&mut message, details).expect("writing to a string does not fail");
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
            write!(out, "the instance id {instance_id} starts with {prefix}, which is kept for built-ins")
        }
        Details::InvalidLocalId { contribution_kind, local_id, pattern } => {
            write!(out, "the {contribution_kind} id {local_id:?} does not match {pattern} within 128 bytes")
        }
        Details::DuplicateInstanceId { count, instance_id } => {
            write!(out, "{count} modules have the instance id {instance_id}")
        }
        Details::OwnerConflict { fields, owner_id } => {
            write!(out, "the sets of {owner_id} disagree about {}", fields.join(" and "))
        }
        Details::DuplicateCanonicalKey { count, key } => write!(out, "{key} is declared {count} times"),
        Details::InvalidPath { path, policy_id, reason } => {
            write!(out, "{path:?} is no route path: {reason}")?;
            policy_id.map_or(Ok(()), |id| write!(out, " (in operation {id:?})"))
        }
        Details::DuplicatePath { keys, path, .. } => {
            write!(out, "{} routes answer {path}: {}", keys.len(), Names(keys))
        }
        Details::InvalidClaim { claim, reason } => {
            write!(out, "{claim:?} is no claim for this collection: {reason}")
        }
        Details::DefaultProtected { claim } => {
            write!(out, "{claim} is ordinary text, which no module renders")
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
                ReferenceReason::MalformedKey => "is no canonical key",
                ReferenceReason::WrongKind => "names something that is no route",
                ReferenceReason::MissingTarget => "names a route that nobody declares",
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
            write!(out, "{field}: expected {expected}, found nothing")
        }
        StructureReason::UnsupportedField => write!(out, "{field}: not allowed here"),
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
        PolicyReason::ReorderCycle => "the order it asks for contradicts itself",
        PolicyReason::MissingTarget => "nobody declares what it names",
        PolicyReason::InactiveTarget => "what it names is declared, and not active",
        PolicyReason::MissingUse => "nobody declares the renderer it selects",
        PolicyReason::InactiveUse => "the renderer it selects is not active",
        PolicyReason::InvalidUseKind => "the renderer it selects does not serve the claim",
        PolicyReason::MissingRenderHandle => "what it selects has no render handle",
        PolicyReason::InvalidKind => "it does not apply to this kind of contribution",
        PolicyReason::PolicyCreatedDanglingReference => "it removes what something else still refers to",
        PolicyReason::DefaultRendererProtected => "the rendering of ordinary text cannot be changed",
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
        write!(out, ", needed by {from}")?;
    }
    if let Some(related) = related_policy_ids.as_ref().filter(|ids| ids.iter().any(|id| id != policy_id)) {
        write!(out, " (operations {})", Names(related))?;
    }
    Ok(())
}

/// The first few of a list, and how many more there are.
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
