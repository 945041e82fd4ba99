//! Packs snapshots.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::listing::{Excluded, Listing, Type};
use super::survey::{BUFFER, changed, copy_exactly, survey};
use super::{MAX_LISTING_BYTES, MAX_PACKED_BYTES, check_ratio, tar};
use crate::plan::Grant;
use crate::rooted::Dir;
use crate::{Code, Error};

/// How often a workspace is scanned again because a file keeps changing.
const TRIES: u32 = 3;

/// The zstd level: most of the gain at the speed of a disk.
const LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The applied plan.
    pub apply_id: &'a str,
    pub plan_digest: &'a str,
    /// The current time as a string. It is stored, but not interpreted.
    pub created_at: &'a str,
    /// The granted slots. The persistent read-write ones are packed.
    pub grants: &'a [Grant],
    /// Paths that the manifest wants to keep. Those outside a packed slot are listed as excluded,
    /// because an agent cannot have written there.
    pub persistence: &'a [String],
    /// Paths below the root that are excluded with everything below.
    pub excludes: &'a [String],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// SHA-256 of the packed bytes, 64 hexadecimal digits.
    pub sha256: String,
    pub bytes: u64,
    pub files: u64,
    pub unpacked: u64,
    pub excluded: Vec<Excluded>,
    /// How many more were excluded than listed.
    pub more_excluded: u64,
}

/// Packs into a file, with its hash in a second file ([`sidecar`]). Both appear atomically, the
/// hash last, and replace existing files.
///
/// # Errors
/// As [`pack`].
pub fn save(root: &Dir, request: &Request<'_>, path: &Path) -> Result<Packed, Error> {
    let failed = |error: io::Error| unwritable(&error).detail("path", path.display().to_string());
    let beside = sidecar(path);
    let [partial, partial_beside] = [path, &beside].map(|path| with_ending(path, ".partial"));
    let mut file = File::create(&partial).map_err(failed)?;
    let saved = pack(root, request, &mut file).and_then(|packed| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        file.sync_all()
            .and_then(|()| fs::write(&partial_beside, format!("{}  {name}\n", packed.sha256)))
            .and_then(|()| fs::rename(&partial, path))
            .and_then(|()| fs::rename(&partial_beside, &beside))
            .map_err(failed)?;
        Ok(packed)
    });
    if saved.is_err() {
        let _ = fs::remove_file(&partial);
        let _ = fs::remove_file(&partial_beside);
    }
    saved
}

/// The path of the hash: with the suffix `.sha256`, in the format of `sha256sum -c`.
pub fn sidecar(path: &Path) -> PathBuf {
    with_ending(path, ".sha256")
}

/// Packs into an empty file. The same tree and request give the same bytes.
///
/// # Errors
/// `SNAPSHOT_FILE_CHANGED` if a file keeps changing, `LIMIT_EXCEEDED` if a limit is exceeded, and
/// disk errors.
pub fn pack(root: &Dir, request: &Request<'_>, file: &mut File) -> Result<Packed, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let packed = survey(root, request).and_then(|listing| {
            file.rewind().and_then(|()| file.set_len(0)).map_err(|error| unwritable(&error))?;
            write(root, &listing, file)
        });
        match packed {
            Err(error) if error.code() == Code::SnapshotFileChanged && tries < TRIES => {}
            other => return other,
        }
    }
}

fn write(root: &Dir, listing: &Listing, file: &mut File) -> Result<Packed, Error> {
    let failed = |error: io::Error| unwritable(&error);
    let text = serde_json::to_vec(listing).map_err(|error| failed(error.into()))?;
    let length = text.len() as u64;
    if length > MAX_LISTING_BYTES {
        return Err(Error::limit("bytes of the listing of a snapshot", MAX_LISTING_BYTES, length));
    }
    let output = Counted { output: BufWriter::with_capacity(BUFFER, file), hasher: Sha256::new(), bytes: 0 };
    let mut archive = zstd::Encoder::new(output, LEVEL).map_err(failed)?;
    archive.write_all(&tar::listing_header(length)).map_err(failed)?;
    archive.write_all(&text).map_err(failed)?;
    pad(&mut archive, length).map_err(failed)?;
    let mut unpacked = 0;
    for member in &listing.files {
        archive.write_all(&tar::member_header(member)).map_err(failed)?;
        if member.kind == Type::File {
            let mut hasher = Sha256::new();
            copy_exactly(root, &member.path, &member.path, member.size, |bytes| {
                hasher.update(bytes);
                archive.write_all(bytes).map_err(failed)
            })?;
            // It may have changed since it was listed, or while it was read.
            if canon::encoding::hex(&hasher.finalize()) != member.sha256 {
                return Err(changed(&member.path));
            }
            pad(&mut archive, member.size).map_err(failed)?;
            unpacked += member.size;
        }
        if archive.get_ref().bytes > MAX_PACKED_BYTES {
            return Err(Error::limit(
                "bytes of a packed snapshot",
                MAX_PACKED_BYTES,
                archive.get_ref().bytes,
            ));
        }
    }
    archive.write_all(&tar::END).map_err(failed)?;
    let mut output = archive.finish().map_err(failed)?;
    output.output.flush().map_err(failed)?;
    // Refuse now what could not be unpacked later.
    check_ratio(output.bytes, listing.unpacked().saturating_add(length))?;
    Ok(Packed {
        sha256: canon::encoding::hex(&output.hasher.finalize()),
        bytes: output.bytes,
        files: listing.files.iter().filter(|member| member.kind != Type::Dir).count() as u64,
        unpacked,
        excluded: listing.excluded.clone(),
        more_excluded: listing.more_excluded,
    })
}

fn pad(output: &mut impl Write, size: u64) -> io::Result<()> {
    output.write_all(&[0; tar::BLOCK][..tar::padding(size)])
}

/// Counts and hashes written bytes.
struct Counted<W> {
    output: W,
    hasher: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn unwritable(error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::ApplyNoSpace,
        _ => Code::ApplyIo,
    };
    Error::new(code, format!("cannot write the snapshot: {error}"))
}
