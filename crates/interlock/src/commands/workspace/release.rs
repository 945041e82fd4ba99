//! `interlock workspace release`.

use system::{Clock as _, SystemClock};
use workspace::apply::Applier;

use super::{lease, root, scope_in_words};
use crate::arguments::WorkspaceRelease;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Layout, clean};

pub(super) fn run(arguments: &WorkspaceRelease) -> Result<ExitStatus, Failure> {
    let root = root(&arguments.root)?;
    let held = lease(&root)?;
    let released = Applier::below(root)?.release(&held.apply_id, held.generation, SystemClock.now_ms())?;
    if arguments.answering.json {
        output::json(&released, Layout::Compact)?;
    } else {
        output::text(&format!(
            "Released {}, which was held for {}. The files are kept.",
            arguments.root.display(),
            clean(&scope_in_words(&released.scope))
        ))?;
    }
    Ok(ExitStatus::Success)
}
