//! Checks of the whole manifest: unknown tokens, and files in slots that are not enabled.

use std::collections::{BTreeMap, BTreeSet};

use super::bind::input;
use super::model::{Document, Expression, Input, SeedSource};
use super::problem::{MAX_PROBLEMS, Warning, quoted};
use super::read::below_workspace;
use super::token::{Piece, Text};
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

/// Checks a merged document; adds to `errors` and returns the warnings.
pub(super) fn document(document: &Document, errors: &mut Vec<Error>) -> Vec<Warning> {
    let spec = &document.spec;
    let mut check = Check {
        inputs: spec.inputs.iter().map(|(name, input)| (name.as_str(), input)).collect(),
        credentials: spec.credentials.iter().map(|credential| credential.name.as_str()).collect(),
        errors,
    };
    for (_, mount) in &spec.mounts {
        for (_, value) in &mount.config {
            check.expression(value);
        }
    }
    if let Some(value) = document.agent.as_ref().and_then(|agent| agent.deliverable_spec_ref.as_ref()) {
        check.expression(value);
    }
    let mode_of = |slot: Slot| {
        let mount = spec.mounts.iter().find(|(known, mount)| *known == slot && mount.enabled);
        match mount {
            Some((slot, mount)) => Some(mount.effective_mode(*slot)),
            // It is always available without a declaration.
            None => (slot == Slot::Tmp).then_some(slot.default_mode()),
        }
    };
    let mut warnings = Vec::new();
    for seed in &spec.seed_files {
        check.expression(&seed.path);
        match &seed.source {
            SeedSource::Content(content) => check.expression(content),
            SeedSource::Template { vars, .. } => check.expression(vars),
        }
        if mode_of(seed.slot).is_none() {
            let message = format!(
                "the seed file is in `{}`, which is not enabled and not shown to the agent; add it to `mounts`",
                seed.slot
            );
            warnings.push(Warning { place: seed.place.clone(), message });
        }
    }
    for item in &spec.env {
        check.expression(&item.value);
    }
    for file in &spec.working_files {
        check.expression(&file.source_ref);
        let first = below_workspace(&file.path).split_once('/').map(|(first, _)| first);
        let slot = first.and_then(|first| Slot::ALL.into_iter().find(|slot| slot.relative() == first));
        let problem = match slot.map(|slot| (slot, mode_of(slot))) {
            None => {
                format!(
                    "{} is not in a slot; start the path with one, such as `deliverables/`",
                    quoted(&file.path)
                )
            }
            Some((slot, None)) => format!("`{slot}` is not enabled; add it to `mounts`"),
            Some((slot, Some(Mode::ReadOnly))) if file.sync_direction.is_up() => {
                format!("`{slot}` is read-only, but `{}` requires `read-write`", file.sync_direction)
            }
            Some((_, Some(_))) => continue,
        };
        check.add(|| file.place.refuse(Code::ValidationError, problem));
    }
    warnings
}

struct Check<'a> {
    inputs: BTreeMap<&'a str, &'a Input>,
    credentials: BTreeSet<&'a str>,
    errors: &'a mut Vec<Error>,
}

impl Check<'_> {
    fn add(&mut self, error: impl FnOnce() -> Error) {
        if self.errors.len() < MAX_PROBLEMS {
            self.errors.push(error());
        }
    }

    /// Recursive: a document has bounded depth.
    fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Plain(_) => {}
            Expression::Text(text) => self.text(text),
            Expression::List(items) => items.iter().for_each(|item| self.expression(item)),
            Expression::Object(members) => members.iter().for_each(|(_, value)| self.expression(value)),
        }
    }

    fn text(&mut self, text: &Text) {
        for piece in &text.pieces {
            if self.errors.len() >= MAX_PROBLEMS {
                return;
            }
            if let Some(problem) = self.problem(piece) {
                self.errors.push(text.place.refuse(Code::ValidationError, problem));
            }
        }
    }

    fn problem(&self, piece: &Piece) -> Option<String> {
        match piece {
            Piece::Literal(_) => None,
            Piece::Input { name, default } => {
                let Some(input) = self.inputs.get(name.as_str()) else {
                    let hint = match canon::nearest::nearest(name, self.inputs.keys(), 1).first() {
                        Some(near) => format!("; did you mean `{near}`?"),
                        None => "; declare it in `spec.inputs`".to_owned(),
                    };
                    return Some(format!("unknown input {}{hint}", quoted(name)));
                };
                let reason = input::check(input, default.as_ref()?).err()?;
                Some(format!("the default of {} {reason}", quoted(name)))
            }
            Piece::Credential { name } => (!self.credentials.contains(name.as_str()))
                .then(|| format!("unknown credential {}; declare it in `spec.credentials`", quoted(name))),
        }
    }
}
