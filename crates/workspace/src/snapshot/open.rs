//! Unpacking.

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

/// How much of the past a decoder keeps, as a power of two: 8 MiB. Level 3 needs 2 MiB; an archive that asks for more
/// was not written here.
const WINDOW_LOG: u32 = 23;

/// The largest file that is handed out from memory.
const MAX_IN_MEMORY: u64 = 8 << 20;

/// A snapshot whose bytes are those that were packed, as far as its hash says.
#[derive(Debug)]
pub struct Snapshot {
    file: File,
    bytes: u64,
    sha256: String,
    listing: Listing,
}

/// Something out of a snapshot.
#[derive(Debug)]
pub struct Member {
    /// The path below the root: safe, in one of the slots of the snapshot, after that of its directory.
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    /// When the bytes of a file changed, in seconds since 1970.
    pub mtime: Option<i64>,
    /// What it is. The bytes of a file are those that were packed.
    pub content: Content,
}

impl Snapshot {
    /// Opens a snapshot, with the hash that is beside it.
    ///
    /// # Errors
    /// `SNAPSHOT_CORRUPT` when there is no hash, when it is another, or when the listing is not as it has to be;
    /// `LIMIT_EXCEEDED` when there is more in it than may be; `SNAPSHOT_RESTORE_FAILED` when it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let beside = pack::sidecar(path);
        let mut text = String::new();
        let read = File::open(&beside).and_then(|file| file.take(4096).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                return Err(corrupt(format_args!("there is no hash of it at {}", beside.display())));
            }
            Err(error) => return Err(unreadable(&error)),
        }
        let hash = text.split_whitespace().next().unwrap_or_default();
        Self::from_file(File::open(path).map_err(|error| unreadable(&error))?, hash)
    }

    /// The same, for whoever keeps snapshots and their hashes elsewhere.
    ///
    /// # Errors
    /// As [`Snapshot::open`].
    pub fn from_file(file: File, sha256: &str) -> Result<Self, Error> {
        let metadata = file.metadata().map_err(|error| unreadable(&error))?;
        let bytes = metadata.len();
        if !metadata.is_file() {
            return Err(corrupt("it is no regular file"));
        }
        if bytes > MAX_PACKED_BYTES {
            return Err(Error::limit("bytes of a packed snapshot", MAX_PACKED_BYTES, bytes));
        }
        let seen = hash(At::new(&file, bytes)).map_err(|error| unreadable(&error))?;
        if seen != sha256 {
            return Err(corrupt("its bytes are not those that the hash beside it is of"));
        }
        let (listing, _) = Archive::new(&file, bytes)?.listing(bytes)?;
        Ok(Self { file, bytes, sha256: seen, listing })
    }

    /// What is in it.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// SHA-256 of the packed bytes.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Hands out every member, directories before what is in them. `slots` are those that may be written to. When this
    /// fails, what was handed out must not be used.
    ///
    /// # Errors
    /// Those of `put`; `SNAPSHOT_CORRUPT` when the snapshot has another slot, or when it is not as it
    /// has to be; `SNAPSHOT_RESTORE_FAILED` when it cannot be read.
    pub fn unpack(
        &self,
        slots: &[Slot],
        put: &mut dyn FnMut(Member) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(slot) = self.listing.slots().into_iter().find(|slot| !slots.contains(slot)) {
            return Err(corrupt(format_args!("it has `{slot}`, which is no read-write slot here")));
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

/// Reads a file from its beginning without moving its position, so that many can do so at once.
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

/// An archive that is being read.
struct Archive<'f> {
    decoder: zstd::Decoder<'static, BufReader<At<'f>>>,
}

impl<'f> Archive<'f> {
    fn new(file: &'f File, bytes: u64) -> Result<Self, Error> {
        let input = BufReader::with_capacity(BUFFER, At::new(file, bytes));
        let decoder = zstd::Decoder::with_buffer(input).and_then(|mut decoder| {
            decoder.window_log_max(WINDOW_LOG)?;
            // A second frame would be bytes after the end.
            Ok(decoder.single_frame())
        });
        Ok(Self { decoder: decoder.map_err(|error| broken(&error))? })
    }

    /// The listing, and how many bytes its text has. The zeros after it come next.
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
        // Memory is taken as bytes arrive, whatever the header says.
        let read = (&mut self.decoder).take(length).read_to_end(&mut text).map_err(|error| broken(&error))?;
        if read as u64 != length {
            return Err(corrupt("it was cut off"));
        }
        let listing = Listing::parse(&text)?;
        check_ratio(packed, listing.unpacked().saturating_add(length))?;
        Ok((listing, length))
    }

    /// One member, its bytes checked.
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
            return Err(corrupt(format_args!("{:?} has other bytes than were packed", member.path)));
        }
        self.expect(&vec![0; tar::padding(member.size)], &member.path)?;
        Ok(content)
    }

    /// Puts the bytes of a large file into one that has no name: they are not known to be right until the last was read.
    fn spool(&mut self, size: u64, hasher: &mut Sha256) -> Result<File, Error> {
        let failed = |error: &io::Error| {
            Error::new(Code::SnapshotRestoreFailed, format!("a large file cannot be put aside: {error}"))
        };
        let mut file = nameless().map_err(|error| failed(&error))?;
        let mut buffer = vec![0; BUFFER];
        let mut left = size;
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER);
            let read = self.decoder.read(&mut buffer[..room]).map_err(|error| broken(&error))?;
            if read == 0 {
                return Err(corrupt("it was cut off"));
            }
            hasher.update(&buffer[..read]);
            file.write_all(&buffer[..read]).map_err(|error| failed(&error))?;
            left -= read as u64;
        }
        file.rewind().map_err(|error| failed(&error))?;
        Ok(file)
    }

    /// Reads bytes that are known.
    fn expect(&mut self, expected: &[u8], of: &str) -> Result<(), Error> {
        let mut seen = vec![0; expected.len()];
        self.decoder.read_exact(&mut seen).map_err(|error| broken(&error))?;
        if seen != expected {
            return Err(corrupt(format_args!("the archive is not as listed at {of:?}")));
        }
        Ok(())
    }

    /// Reads the end, after which nothing may follow.
    fn end(mut self) -> Result<(), Error> {
        self.expect(&tar::END, "its end")?;
        let more = self.decoder.read(&mut [0]).map_err(|error| broken(&error))?;
        let after = self.decoder.finish().fill_buf().map(<[u8]>::len).map_err(|error| unreadable(&error))?;
        if more > 0 || after > 0 {
            return Err(corrupt("something follows its end"));
        }
        Ok(())
    }
}

/// SHA-256 of everything that can be read, as text.
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

/// A file that nobody else can open, in the place for such files.
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

/// What a decoder says of bytes that are no archive. An error of the disk is told apart.
fn broken(error: &io::Error) -> Error {
    match rustix::io::Errno::from_io_error(error) {
        Some(_) => unreadable(error),
        None => corrupt(format_args!("it cannot be unpacked: {error}")),
    }
}
