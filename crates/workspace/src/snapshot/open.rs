//! Unpacks snapshots.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::listing::{Listed, Listing, Type};
use super::survey::BUFFER;
use super::{MAX_LISTING_BYTES, MAX_PACKED_BYTES, check_ratio, corrupt, pack, tar, unreadable};
use crate::resolve::Content;
use crate::slot::Slot;
use crate::{Code, Error};

/// The decoder window as a power of two: 8 MiB. Level 3 needs 2 MiB; an archive that needs more was
/// not written by this program.
const WINDOW_LOG: u32 = 23;

/// The largest file returned from memory.
const MAX_IN_MEMORY: u64 = 8 << 20;

/// A snapshot with a verified hash.
#[derive(Debug)]
pub struct Snapshot {
    file: File,
    bytes: u64,
    sha256: String,
    listing: Listing,
}

#[derive(Debug)]
pub struct Member {
    /// The path below the root: safe, in one of the snapshot's slots, after that of its directory.
    pub path: String,
    pub mode: u32,
    /// The mtime of a file, in seconds since 1970.
    pub mtime: Option<i64>,
    /// Its content, verified.
    pub content: Content,
}

impl Snapshot {
    /// Opens a snapshot, with the hash in the file next to it.
    ///
    /// # Errors
    /// `SNAPSHOT_CORRUPT` if the hash is missing or wrong, or the listing is invalid;
    /// `LIMIT_EXCEEDED` if it is too large; `SNAPSHOT_RESTORE_FAILED` if it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let beside = pack::sidecar(path);
        let mut text = String::new();
        let read = File::open(&beside).and_then(|file| file.take(4096).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                return Err(corrupt(format_args!("its hash file {} is missing", beside.display())));
            }
            Err(error) => return Err(unreadable(&error)),
        }
        let hash = text.split_whitespace().next().unwrap_or_default();
        Self::from_file(File::open(path).map_err(|error| unreadable(&error))?, hash)
    }

    /// The same, with a hash that is stored elsewhere.
    ///
    /// # Errors
    /// As [`Snapshot::open`].
    pub fn from_file(file: File, sha256: &str) -> Result<Self, Error> {
        let metadata = file.metadata().map_err(|error| unreadable(&error))?;
        let bytes = metadata.len();
        if !metadata.is_file() {
            return Err(corrupt("it is not a regular file"));
        }
        if bytes > MAX_PACKED_BYTES {
            return Err(Error::limit("bytes of a packed snapshot", MAX_PACKED_BYTES, bytes));
        }
        let seen = hash(At::new(&file, bytes)).map_err(|error| unreadable(&error))?;
        if seen != sha256 {
            return Err(corrupt("its bytes do not match its hash"));
        }
        let (listing, _) = Archive::new(&file, bytes)?.listing(bytes)?;
        Ok(Self { file, bytes, sha256: seen, listing })
    }

    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// SHA-256 of the packed bytes.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Passes every member to `put`, directories before their contents. `slots` are the writable
    /// ones. On failure, members that were passed before must not be used.
    ///
    /// # Errors
    /// Errors of `put`; `SNAPSHOT_CORRUPT` if the snapshot has another slot or is invalid;
    /// `SNAPSHOT_RESTORE_FAILED` if it cannot be read.
    pub fn unpack(
        &self,
        slots: &[Slot],
        put: &mut dyn FnMut(Member) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(slot) = self.listing.slots().into_iter().find(|slot| !slots.contains(slot)) {
            return Err(corrupt(format_args!("it contains `{slot}`, which is not a read-write slot here")));
        }
        let mut archive = Archive::new(&self.file, self.bytes)?;
        let (listing, length) = archive.listing(self.bytes)?;
        if listing != self.listing {
            return Err(corrupt("it changed while it was read"));
        }
        archive.expect(&vec![0; tar::padding(length)], "the listing")?;
        for member in &self.listing.files {
            put(archive.member(member)?)?;
        }
        archive.end()?;
        Ok(())
    }
}

/// Reads a file from its beginning without moving its position, so that several readers can share
/// it.
struct At<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl<'f> At<'f> {
    fn new(file: &'f File, end: u64) -> Self {
        Self { file, at: 0, end }
    }
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

struct Archive<'f> {
    decoder: zstd::Decoder<'static, BufReader<At<'f>>>,
}

impl<'f> Archive<'f> {
    fn new(file: &'f File, bytes: u64) -> Result<Self, Error> {
        let input = BufReader::with_capacity(BUFFER, At::new(file, bytes));
        let decoder = zstd::Decoder::with_buffer(input).and_then(|mut decoder| {
            decoder.window_log_max(WINDOW_LOG)?;
            // A second frame would be trailing data.
            Ok(decoder.single_frame())
        });
        Ok(Self { decoder: decoder.map_err(|error| broken(&error))? })
    }

    /// The listing and the length of its text. Its padding follows.
    fn listing(&mut self, packed: u64) -> Result<(Listing, u64), Error> {
        let mut header = [0; tar::BLOCK];
        self.decoder.read_exact(&mut header).map_err(|error| broken(&error))?;
        let length =
            tar::listing_size(&header).ok_or_else(|| corrupt("it does not start with its listing"))?;
        if tar::listing_header(length) != header {
            return Err(corrupt("it does not start with its listing"));
        }
        if length > MAX_LISTING_BYTES {
            return Err(Error::limit("bytes of the listing of a snapshot", MAX_LISTING_BYTES, length));
        }
        check_ratio(packed, length)?;
        let mut text = Vec::new();
        // Memory is allocated as bytes arrive, whatever the header says.
        let read = (&mut self.decoder).take(length).read_to_end(&mut text).map_err(|error| broken(&error))?;
        if read as u64 != length {
            return Err(corrupt("it is truncated"));
        }
        let listing = Listing::parse(&text)?;
        check_ratio(packed, listing.unpacked().saturating_add(length))?;
        Ok((listing, length))
    }

    /// One member with verified bytes.
    fn member(&mut self, member: &Listed) -> Result<Member, Error> {
        self.expect(&tar::member_header(member), &member.path)?;
        let content = match (member.kind, &member.target) {
            (Type::Dir, _) => Content::Directory,
            (Type::Link, target) => Content::Link(target.clone().unwrap_or_default()),
            (Type::File, _) => self.content(member)?,
        };
        let mtime = (member.kind == Type::File).then(|| i64::try_from(member.mtime).unwrap_or(0));
        Ok(Member { path: member.path.clone(), mode: member.mode, mtime, content })
    }

    fn content(&mut self, member: &Listed) -> Result<Content, Error> {
        let mut hasher = Sha256::new();
        let content = if member.size <= MAX_IN_MEMORY {
            let mut bytes = vec![0; usize::try_from(member.size).unwrap_or(0)];
            self.decoder.read_exact(&mut bytes).map_err(|error| broken(&error))?;
            hasher.update(&bytes);
            Content::Bytes(bytes)
        } else {
            Content::File(self.spool(member.size, &mut hasher)?)
        };
        if canon::encoding::hex(&hasher.finalize()) != member.sha256 {
            return Err(corrupt(format_args!("the contents of {:?} do not match the listing", member.path)));
        }
        self.expect(&vec![0; tar::padding(member.size)], &member.path)?;
        Ok(content)
    }

    /// Spools the bytes of a large file into an unnamed file: they are verified only after the last
    /// was read.
    fn spool(&mut self, size: u64, hasher: &mut Sha256) -> Result<File, Error> {
        let failed = |error: &io::Error| {
            Error::new(
                Code::SnapshotRestoreFailed,
                format!("cannot create a temporary file for a large member: {error}"),
            )
        };
        let mut file = nameless().map_err(|error| failed(&error))?;
        let mut buffer = vec![0; BUFFER];
        let mut left = size;
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER);
            let read = self.decoder.read(&mut buffer[..room]).map_err(|error| broken(&error))?;
            if read == 0 {
                return Err(corrupt("it is truncated"));
            }
            hasher.update(&buffer[..read]);
            file.write_all(&buffer[..read]).map_err(|error| failed(&error))?;
            left -= read as u64;
        }
        file.rewind().map_err(|error| failed(&error))?;
        Ok(file)
    }

    /// Reads expected bytes.
    fn expect(&mut self, expected: &[u8], of: &str) -> Result<(), Error> {
        let mut seen = vec![0; expected.len()];
        self.decoder.read_exact(&mut seen).map_err(|error| broken(&error))?;
        if seen != expected {
            return Err(corrupt(format_args!("the archive does not match its listing at {of:?}")));
        }
        Ok(())
    }

    /// Reads the end, after which nothing may follow.
    fn end(mut self) -> Result<(), Error> {
        self.expect(&tar::END, "its end")?;
        let more = self.decoder.read(&mut [0]).map_err(|error| broken(&error))?;
        let after = self.decoder.finish().fill_buf().map(<[u8]>::len).map_err(|error| unreadable(&error))?;
        if more > 0 || after > 0 {
            return Err(corrupt("there is data after its end"));
        }
        Ok(())
    }
}

/// SHA-256 of a stream, in hexadecimal.
fn hash(mut input: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(canon::encoding::hex(&hasher.finalize())),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// An unnamed private file in the temporary folder.
fn nameless() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let place = std::env::temp_dir();
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    if let Ok(fd) = rustix::fs::open(&place, flags | OFlags::TMPFILE, Mode::from_raw_mode(0o600)) {
        return Ok(File::from(fd));
    }
    let path = place.join(format!("interlock-{}-{:p}", std::process::id(), &place));
    let file = File::from(rustix::fs::open(
        &path,
        flags | OFlags::CREATE | OFlags::EXCL,
        Mode::from_raw_mode(0o600),
    )?);
    fs::remove_file(&path)?;
    Ok(file)
}

/// A decoder error. Disk errors are distinguished.
fn broken(error: &io::Error) -> Error {
    match rustix::io::Errno::from_io_error(error) {
        Some(_) => unreadable(error),
        None => corrupt(format_args!("it cannot be unpacked: {error}")),
    }
}
