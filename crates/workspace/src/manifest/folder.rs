//! Base manifests in a folder: `manifests/<slug>@<version>.yaml`, `.yml` or `.json`.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::{BaseFile, Bases, Format, MAX_BYTES};
use crate::rooted::Dir;
use crate::{Code, Error};

/// The bases of a folder, such as a library. Only this part of the module reads the disk.
#[derive(Debug)]
pub struct FolderBases {
    root: Dir,
}

impl FolderBases {
    /// The bases below a folder.
    ///
    /// # Errors
    /// `MANIFEST_BASE_NOT_FOUND` if the folder does not exist or cannot be read.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let root = Dir::open_root(folder).map_err(|error| {
            let message = format!("cannot open the folder {}: {error}", folder.display());
            Error::new(Code::ManifestBaseNotFound, message)
        })?;
        Ok(Self { root })
    }
}

impl Bases for FolderBases {
    fn find(&self, slug: &str, version: &str) -> Result<Option<BaseFile>, Error> {
        for extension in ["yaml", "yml", "json"] {
            let name = format!("manifests/{slug}@{version}.{extension}");
            let refuse = |error: std::io::Error| {
                Error::new(Code::ManifestBaseInvalid, format!("cannot read {name}: {error}"))
            };
            let file = match self.root.open_file(&name) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(refuse(error)),
            };
            let mut bytes = Vec::new();
            // One byte over the limit detects a file that is too large.
            file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(refuse)?;
            let format = Format::of_name(&name);
            return Ok(Some(BaseFile { name, bytes, format }));
        }
        Ok(None)
    }
}
