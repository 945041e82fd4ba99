//! The granted slots and their modes.

use std::collections::BTreeMap;

use super::{Draft, Grant, Problems, Stage, not_writable, unknown_slot};
use crate::plan::Source;
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

/// Collects the grants: those given, or those in the plan's renderer parameters; then the
/// platform's slots; then those with entries. The result is in table order.
pub(super) fn settle(
    given: Option<&[(String, Mode)]>,
    drafts: &[Draft<'_>],
    problems: &mut Problems,
) -> Vec<Grant> {
    let mut granted = BTreeMap::new();
    if let Some(given) = given {
        for (path, mode) in given {
            if let Err((_, problem)) = grant(&mut granted, path, *mode) {
                problems.of_plan.push(problem);
            }
        }
    } else if let Some((index, params)) = drafts.iter().find_map(|draft| match &draft.source {
        Some(Source::RenderedAgentsMd(params)) => Some((draft.index, params)),
        _ => None,
    }) {
        for mount in &params.mounts {
            if let Err((stage, problem)) = grant(&mut granted, &mount.mount, mount.mode) {
                problems.add(index, stage, problem);
            }
        }
    }
    for slot in Slot::ALL.into_iter().filter(|slot| !slot.is_declarable()) {
        granted.entry(slot).or_insert(slot.default_mode());
    }

    let mut besides: BTreeMap<Slot, Mode> = BTreeMap::new();
    for draft in drafts {
        let (Some(slot), Some(mode)) = (draft.slot, draft.mode) else { continue };
        match granted.get(&slot) {
            // A writable file in a read-only slot would be reported as drift.
            Some(Mode::ReadOnly) if mode == Mode::ReadWrite => {
                let message = format!("the slot `{slot}` is granted read-only, but the entry is read-write");
                let problem = Error::new(Code::PlanModeNotAllowed, message).detail("slot", slot.path());
                problems.add(draft.index, Stage::Mode, problem);
            }
            Some(_) => {}
            None => {
                let widest = besides.entry(slot).or_insert(mode);
                *widest = mode.max(*widest);
            }
        }
    }
    granted.extend(besides);
    granted.into_iter().map(|(slot, mode)| Grant { slot, mode }).collect()
}

fn grant(granted: &mut BTreeMap<Slot, Mode>, path: &str, mode: Mode) -> Result<(), (Stage, Error)> {
    let slot = Slot::from_path(path).ok_or_else(|| (Stage::Slot, unknown_slot(path)))?;
    if !slot.allows(mode) {
        return Err((Stage::Mode, not_writable(slot)));
    }
    if *granted.entry(slot).or_insert(mode) != mode {
        let message = format!("the slot `{slot}` is granted twice, as read-only and as read-write");
        return Err((Stage::Mode, Error::new(Code::PlanModeNotAllowed, message).detail("slot", slot.path())));
    }
    Ok(())
}
