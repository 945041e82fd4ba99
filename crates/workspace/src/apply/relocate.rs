//! Copies a staged tree into slots that are mount points, because nothing can be moved into another
//! mount.

use std::io;

use crate::rooted::{Dir, Kind};

/// The staging name inside a slot that is a mount point.
pub(super) const INSIDE: &str = ".interlock-staging";

pub(super) fn copy_file(from: &Dir, path: &str, to: &Dir, new: &str, mode: u32) -> io::Result<()> {
    let mut input = from.open_file(path)?;
    let mut output = to.create_file(new, mode)?;
    io::copy(&mut input, &mut output)?;
    Ok(())
}

/// Copies a directory tree to a new path. Directories are created with 0755; those with a stricter
/// mode are returned, deepest last.
pub(super) fn copy_tree(from: &Dir, path: &str, to: &Dir, new: &str) -> io::Result<Vec<(String, u32)>> {
    let mut restricted = Vec::new();
    let mut waiting = vec![(path.to_owned(), new.to_owned())];
    while let Some((path, new)) = waiting.pop() {
        to.make_dirs(&new, 0o755)?;
        let directory = from.open_dir(&path)?;
        for (name, _) in directory.names()? {
            let Some(stat) = directory.stat(&name.0)? else { continue };
            // All staged names are UTF-8.
            let name = name.0.to_string_lossy();
            let (source, target) = (format!("{path}/{name}"), format!("{new}/{name}"));
            match stat.kind {
                Kind::Dir => {
                    if stat.mode != 0o755 {
                        restricted.push((target.clone(), stat.mode));
                    }
                    waiting.push((source, target));
                }
                Kind::File => copy_file(from, &source, to, &target, stat.mode)?,
                Kind::Link => {
                    let link = directory.read_link(&*name)?;
                    to.symlink(&link.to_string_lossy(), &target)?;
                }
                Kind::Other => {}
            }
        }
    }
    Ok(restricted)
}
