//! `interlock workspace snapshot`.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use canon::error::Envelope;
use canon::time::Timestamp;
use serde_json::json;
use workspace::snapshot::{Packed, Request, save, sidecar};

use super::{lease, root, word};
use crate::arguments::WorkspaceSnapshot;
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout, clean};
use crate::progress::Waiting;

pub(super) fn run(arguments: &WorkspaceSnapshot) -> Result<ExitStatus, Failure> {
    let file = &arguments.output;
    for taken in [file.clone(), sidecar(file)] {
        if !arguments.force && taken.symlink_metadata().is_ok() {
            let message = format!("{} already exists.", taken.display());
            return Err(Envelope::new(CommandErrorCode::OutputExists, message)
                .suggest("Choose another name, or overwrite it with --force. Nothing was written.")
                .detail("file", taken.display().to_string())
                .into());
        }
    }
    let root = root(&arguments.root)?;
    if is_inside(file, &arguments.root) {
        // The snapshot would contain itself.
        let cause = io::Error::other("the file is inside the workspace");
        return Err(Failure::unwritable(Some(file), cause));
    }
    let lease = lease(&root)?;
    let request = Request {
        apply_id: &lease.apply_id,
        plan_digest: &lease.plan_digest,
        // The lease's time, not the current time, so that two snapshots of one state have the same
        // bytes.
        created_at: &Timestamp(lease.created_at).to_rfc3339_seconds(),
        grants: &lease.grants(),
        persistence: &[],
        excludes: &arguments.exclude,
    };
    let waiting = Waiting::on("packing");
    let packed = save(&root, &request, file)?;
    drop(waiting);
    if arguments.answering.json {
        let document = json!({
            "file": file.display().to_string(),
            "sha256": packed.sha256,
            "bytes": packed.bytes,
            "files": packed.files,
            "unpackedBytes": packed.unpacked,
            "excluded": packed.excluded,
            "moreExcluded": packed.more_excluded,
        });
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&words(&packed, arguments))?;
    }
    Ok(ExitStatus::Success)
}

/// Whether a file would be inside a folder, with links resolved.
fn is_inside(file: &Path, folder: &Path) -> bool {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (parent.canonicalize(), folder.canonicalize()) {
        (Ok(parent), Ok(folder)) => parent.starts_with(folder),
        _ => false,
    }
}

fn words(packed: &Packed, arguments: &WorkspaceSnapshot) -> String {
    let file = arguments.output.display();
    let mut out = format!(
        "{file}: {} files, {} bytes compressed from {}.\nsha256 {}, in {}\n",
        packed.files,
        packed.bytes,
        packed.unpacked,
        packed.sha256,
        sidecar(&arguments.output).display()
    );
    for item in &packed.excluded {
        let _ = writeln!(out, "excluded: {} ({})", clean(&item.path), word(&item.why));
    }
    if packed.more_excluded > 0 {
        let _ = writeln!(out, "and {} more excluded", packed.more_excluded);
    }
    out
}
