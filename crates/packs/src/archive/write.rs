//! Writing an archive whose every byte follows from its files.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use crate::path::EntryPath;

/// The archive could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the archive cannot be written")]
pub struct WriteError(#[from] std::io::Error);

/// Writes files as an archive: in the order of their paths, without times, owners or names of the machine, with one mode for
/// files and another for those that may be run. The same files always give the same bytes.
///
/// # Errors
/// Those of the packing library; none are known for bytes in memory.
pub fn write(files: &BTreeMap<EntryPath, (&[u8], bool)>) -> Result<Vec<u8>, WriteError> {
    // The header of gzip has no time and says `unknown` for the system, whatever this one is.
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
