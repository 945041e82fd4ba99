//! The output of an agent: bounded, without control characters, and without secrets.

use std::io;
use std::sync::Arc;

use storage::disk::{Disk, DiskPath};
use workspace::environment::Scrubber;

/// The file with the newest output, in the folder of the session.
pub(super) const FILE: &str = "output.log";
/// The file with the output before that.
const EARLIER: &str = "output.1.log";
/// The size at which the output is rotated, in bytes. At most twice as much is kept.
const FILE_BYTES: u64 = 256 << 10;
/// The maximum length of a stored line, in bytes.
const LINE_BYTES: usize = 8 << 10;
/// How much of a line is searched for secrets, in bytes. A secret that begins in the stored part ends within this.
const SEARCHED_BYTES: usize = 64 << 10;
const CUT: &str = " [line truncated]";

/// The stored output of a session's agent.
pub(super) struct OutputLog {
    disk: Arc<dyn Disk>,
    folder: DiskPath,
    scrubber: Scrubber,
    /// The current incomplete line.
    line: Vec<u8>,
    /// The size of the newest file, in bytes.
    stored: u64,
}

impl OutputLog {
    pub(super) fn open(disk: Arc<dyn Disk>, folder: DiskPath, scrubber: Scrubber) -> io::Result<Self> {
        let stored = disk.stat(&folder.join(FILE))?.map_or(0, |stat| stat.len);
        Ok(Self { disk, folder, scrubber, line: Vec::new(), stored })
    }

    /// Appends a line of the host.
    pub(super) fn note(&mut self, line: &str) -> io::Result<()> {
        self.finish()?;
        self.store(&format!("[interlock] {line}\n"))
    }

    /// Appends output of the agent.
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut complete = String::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Longer lines are truncated, so the rest can be dropped.
            let room = SEARCHED_BYTES.saturating_sub(self.line.len());
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if part.ends_with(b"\n") {
                complete.push_str(&self.take_line());
            }
        }
        if complete.is_empty() { Ok(()) } else { self.store(&complete) }
    }

    /// Appends the last line, which has no line end.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        let line = self.take_line();
        self.store(&line)
    }

    fn take_line(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        // Remove control characters, because terminals interpret them.
        let plain: String =
            text.chars().filter(|character| !character.is_control() || *character == '\t').collect();
        let scrubbed = self.scrubber.scrub(&plain);
        let end = (0..=LINE_BYTES.min(scrubbed.len())).rev().find(|at| scrubbed.is_char_boundary(*at));
        let kept = &scrubbed[..end.unwrap_or(0)];
        let cut = if kept.len() < scrubbed.len() { CUT } else { "" };
        format!("{kept}{cut}\n")
    }

    fn store(&mut self, text: &str) -> io::Result<()> {
        let file = self.folder.join(FILE);
        if self.stored > 0 && self.stored + text.len() as u64 > FILE_BYTES {
            self.disk.rename(&file, &self.folder.join(EARLIER))?;
            self.stored = 0;
        }
        // Not synced: the output is only informative, and nothing depends on it.
        self.disk.append(&file, text.as_bytes()).map(drop)?;
        self.stored += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use storage::disk::MemoryDisk;
    use workspace::environment::Secret;
    use zeroize::Zeroizing;

    use super::*;

    fn log(secret: &str) -> (Arc<MemoryDisk>, OutputLog) {
        let disk = Arc::new(MemoryDisk::default());
        let folder = DiskPath::root("agents");
        disk.create_dir(&folder).unwrap();
        let secret = Secret::new("session key", Zeroizing::new(secret.to_owned()));
        let log = OutputLog::open(Arc::clone(&disk) as _, folder, Scrubber::new([&secret])).unwrap();
        (disk, log)
    }

    fn text(disk: &MemoryDisk, file: &str) -> String {
        let bytes = disk.read_from(&DiskPath::root("agents").join(file), 0, 1 << 20).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn secrets_are_removed_also_when_they_arrive_in_parts() {
        let (disk, mut log) = log("ilk_session_abcdef");
        for part in ["my key is ilk_ses", "sion_abcdef, \x1b[31mred", "\n", "no end"] {
            log.add(part.as_bytes()).unwrap();
        }
        log.add(b" \xff").unwrap();
        log.finish().unwrap();
        log.note("it exited with code 0").unwrap();
        let wanted =
            "my key is [redacted:session key], [31mred\nno end \u{fffd}\n[interlock] it exited with code 0\n";
        assert_eq!(text(&disk, FILE), wanted);
    }

    #[test]
    fn long_lines_are_truncated_after_the_search_for_secrets() {
        let (disk, mut log) = log("ilk_session_abcdef");
        // The secret crosses the maximum length of a stored line.
        log.add("x".repeat(LINE_BYTES - 4).as_bytes()).unwrap();
        log.add(b"ilk_session_abcdef").unwrap();
        log.add("y".repeat(2 * SEARCHED_BYTES).as_bytes()).unwrap();
        log.add(b"\nnext\n").unwrap();
        let stored = text(&disk, FILE);
        assert!(stored.ends_with(&format!("[red{CUT}\nnext\n")), "{}", &stored[stored.len() - 60..]);
        assert!(!stored.contains("ilk_") && stored.len() < LINE_BYTES + 64);
    }

    #[test]
    fn the_newest_output_is_kept_within_two_files() {
        let (disk, mut log) = log("ilk_session_abcdef");
        let line = format!("{}\n", "z".repeat(999));
        for _ in 0..2000 {
            log.add(line.as_bytes()).unwrap();
        }
        log.add(b"the last line\n").unwrap();
        let (newest, earlier) = (text(&disk, FILE), text(&disk, EARLIER));
        assert!(newest.ends_with("the last line\n"));
        for part in [newest, earlier] {
            assert!(part.len() as u64 <= FILE_BYTES, "{}", part.len());
        }
    }
}
