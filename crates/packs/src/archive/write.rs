//! Writes deterministic archives.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use crate::path::EntryPath;

#[derive(Debug, thiserror::Error)]
#[error("cannot write the archive")]
pub struct WriteError(#[from] std::io::Error);

/// Writes files as an archive: in path order, without times, owners or machine names, with one mode for files and one
/// for executables. The same files always give the same bytes.
///
/// # Errors
/// Errors of the compression library; none are known for in-memory data.
pub fn write(files: &BTreeMap<EntryPath, (&[u8], bool)>) -> Result<Vec<u8>, WriteError> {
    // The gzip header has no time, and `unknown` as the operating system on every system.
    let packed = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::new(6));
    let mut tar = tar::Builder::new(packed);
    tar.mode(tar::HeaderMode::Deterministic);
    for (path, (content, executable)) in files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(if *executable { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        tar.append_data(&mut header, path.as_str(), *content)?;
    }
    let mut packed = tar.into_inner()?;
    packed.flush()?;
    Ok(packed.finish()?)
}
