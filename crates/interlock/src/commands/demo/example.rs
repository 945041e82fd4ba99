//! The example's files, embedded so that the demo runs without the repository.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

macro_rules! example {
    ($($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("../../../../../examples/release-review/", $path)))),+]
    };
}

const FILES: [(&str, &str); 6] = example![
    "release-review.yaml",
    "review-steps.yaml",
    "workspace/manifest.yaml",
    "workspace/library/agents/release/reviewer.md",
    "workspace/library/deliverable-specs/release-notes/spec.json",
    "workspace/library/kb/handbook/release.md",
];

pub(super) fn write(folder: &Path) -> Result<(), Failure> {
    for (path, text) in FILES {
        let path = folder.join(path);
        let written =
            fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(&path, text));
        written.map_err(|cause| Failure::Unwritable { name: path.display().to_string(), cause })?;
    }
    Ok(())
}
