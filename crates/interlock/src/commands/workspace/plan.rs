//! `interlock workspace plan`.

use std::fmt::Write as _;

use workspace::apply::LeaseScope;
use workspace::plan::ValidPlan;

use super::composed::{Composed, from_manifest, from_request};
use super::{library, scope_in_words, tree};
use crate::arguments::WorkspacePlan;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, DIM, HEADING, Layout, Overwrite, WARNING, clean};

pub(super) fn run(arguments: &WorkspacePlan) -> Result<ExitStatus, Failure> {
    let library_path = arguments.library.as_deref();
    let opened = library_path.map(library).transpose()?;
    let composed = match (&arguments.request, &arguments.input) {
        (Some(request), _) => from_request(request, opened.as_ref())?,
        (None, Some(input)) => from_manifest(input, opened.as_ref().zip(library_path))?.composed,
        // clap requires one of the two.
        (None, None) => return Ok(ExitStatus::Negative),
    };
    if let Some(path) = &arguments.output {
        let overwrite = if arguments.force {
            Overwrite::Replace
        } else {
            Overwrite::Refuse { advice: "Choose another name, or overwrite it with --force." }
        };
        let mut plan = serde_json::to_vec(&composed.plan)
            .map_err(|cause| Failure::unwritable(Some(path), cause.into()))?;
        plan.push(b'\n');
        output::write_file(path, &plan, overwrite)?;
    }
    if arguments.answering.json {
        output::json(&composed.plan, Layout::Compact)?;
    } else {
        output::text(&words(&composed, arguments))?;
    }
    Ok(ExitStatus::Success)
}

fn words(composed: &Composed, arguments: &WorkspacePlan) -> String {
    let plan = &composed.plan;
    let mut out = format!("{HEADING}applyId{HEADING:#} {}\n", plan.apply_id);
    let valid = ValidPlan::check(&plan.to_value(), None, false);
    if let Ok(valid) = &valid {
        let scope = LeaseScope::of(valid, 0);
        let _ = writeln!(out, "{HEADING}for{HEADING:#}     {}", clean(&scope_in_words(&scope)));
    }
    let _ = write!(out, "\n{}", tree::of(plan));
    for warning in &composed.warnings {
        let _ = writeln!(out, "\n{WARNING}warning{WARNING:#}: {}", clean(&warning.to_string()));
    }
    if let Err(refusal) = &valid {
        let _ = writeln!(
            out,
            "\n{WARNING}apply would reject this plan{WARNING:#}: {}",
            clean(&refusal.to_string())
        );
        for cause in refusal.causes().iter().take(20) {
            let _ = writeln!(out, "  also: {}", clean(&cause.to_string()));
        }
    }
    match &arguments.output {
        Some(path) => {
            let _ = writeln!(out, "\n{DIM}Wrote the plan to {}.{DIM:#}", path.display());
        }
        None => {
            let _ = writeln!(
                out,
                "\n{DIM}Nothing was written. Save the plan for `workspace apply` with -o FILE.{DIM:#}"
            );
        }
    }
    out
}
