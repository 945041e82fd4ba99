//! The few things that `git` is asked, each within a time and a size.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long fetching one repository may take, everything included.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// How long is waited for the last words of a command that has ended.
const AFTER_THE_END: Duration = Duration::from_secs(2);
/// How much of what `git` complains about is kept.
const MAX_COMPLAINT: u64 = 4096;
/// How long a listing may be.
const MAX_LISTING: u64 = 4 << 20;

/// A file of a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) length: u64,
    /// Neither a link nor a submodule nor a folder.
    pub(super) regular: bool,
}

/// `git`, until a moment.
pub(super) struct Git {
    deadline: Instant,
}

impl Git {
    pub(super) const fn until(deadline: Instant) -> Self {
        Self { deadline }
    }

    /// The newest commit of a branch, without a work tree and without a history.
    pub(super) fn clone_bare(&self, url: &str, branch: Option<&str>, target: &Path) -> Result<(), String> {
        let mut command = command();
        // The program's own folder: a process may have been started in one that somebody else prepared.
        let work = target.parent().unwrap_or(target);
        command.current_dir(work).env("GIT_CEILING_DIRECTORIES", work.parent().unwrap_or(work));
        command.args([
            "clone",
            "--quiet",
            "--bare",
            "--depth=1",
            "--single-branch",
            "--no-tags",
            "--no-local",
        ]);
        command.args(["--template=", "--no-recurse-submodules"]);
        if let Some(branch) = branch {
            command.arg(format!("--branch={branch}"));
        }
        command.arg("--").arg(url).arg(target);
        self.run(command, 0).map(drop)
    }

    /// The commit of a clone.
    pub(super) fn head(&self, bare: &Path) -> Result<String, String> {
        let output = self.run(within(bare, &["rev-parse", "--verify", "HEAD^{commit}"]), 256)?;
        let commit = String::from_utf8_lossy(&output).trim().to_owned();
        let hex = matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if hex { Ok(commit) } else { Err("it has no commit".to_owned()) }
    }

    /// The files of a folder of a clone.
    pub(super) fn list(&self, bare: &Path, folder: &str) -> Result<Vec<Blob>, String> {
        let path = format!("{folder}/");
        let output = self.run(within(bare, &["ls-tree", "-z", "-l", "HEAD", "--", &path]), MAX_LISTING)?;
        Ok(output.split(|byte| *byte == 0).filter_map(|line| blob(line, &path)).collect())
    }

    /// The bytes of a file of a clone.
    pub(super) fn blob(&self, bare: &Path, id: &str, length: u64) -> Result<Vec<u8>, String> {
        self.run(within(bare, &["cat-file", "blob", id]), length)
    }

    /// Runs a command to its end, and gives what it wrote: at most `most` bytes.
    fn run(&self, mut command: Command, most: u64) -> Result<Vec<u8>, String> {
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "`git` is not installed".to_owned(),
            _ => format!("`git` cannot be started ({error})"),
        })?;
        let output = collect(child.stdout.take(), most);
        let complaint = collect(child.stderr.take(), MAX_COMPLAINT);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < self.deadline => thread::sleep(Duration::from_millis(5)),
                Ok(None) => {
                    end(&mut child);
                    return Err(format!("`git` took longer than {} seconds", TIMEOUT.as_secs()));
                }
                Err(error) => {
                    end(&mut child);
                    return Err(format!("`git` was lost ({error})"));
                }
            }
        };
        // A connection that `ssh` keeps for later holds on to the pipes: whatever came is enough then.
        let complaint = complaint.recv_timeout(AFTER_THE_END).unwrap_or_default();
        if !status.success() {
            let text = String::from_utf8_lossy(&complaint);
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            let last: String = last.chars().filter(|character| !character.is_control()).take(300).collect();
            return Err(format!("`git` failed: {}", without_password(&last)));
        }
        output.recv_timeout(AFTER_THE_END).map_err(|_| "`git` never ended what it wrote".to_owned())
    }
}

/// A command that asks nobody anything, and runs nothing that a repository brings along.
fn command() -> Command {
    let mut command = Command::new("git");
    command.args([
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "protocol.ext.allow=never",
    ]);
    command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "true").env("SSH_ASKPASS", "true");
    command.env("GIT_LFS_SKIP_SMUDGE", "1").env("LC_ALL", "C");
    // Whoever started this process may have been a hook of another repository.
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: what `git` starts is ended with it.
    command.process_group(0);
    command
}

fn within(bare: &Path, arguments: &[&str]) -> Command {
    let mut command = command();
    command.current_dir(bare).arg("--git-dir=.").args(arguments);
    command
}

/// Reads in the background, so that a full pipe never keeps `git` waiting. What is beyond the bound is thrown away.
fn collect(from: Option<impl Read + Send + 'static>, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(most).read_to_end(&mut bytes);
            let _ = io::copy(&mut from, &mut io::sink());
        }
        // Nobody waits any more when the time is over.
        let _ = sender.send(bytes);
    });
    receiver
}

/// Ends a command and what it started.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A line of `ls-tree -l -z`: mode, type, id, length, a tab, and the path.
fn blob(line: &[u8], folder: &str) -> Option<Blob> {
    let line = std::str::from_utf8(line).ok()?;
    let (facts, path) = line.split_once('\t')?;
    let mut facts = facts.split_ascii_whitespace();
    let (mode, kind, id, length) = (facts.next()?, facts.next()?, facts.next()?, facts.next()?);
    Some(Blob {
        name: path.strip_prefix(folder)?.to_owned(),
        id: id.to_owned(),
        length: length.parse().unwrap_or_default(),
        regular: kind == "blob" && matches!(mode, "100644" | "100755"),
    })
}

/// `git` repeats addresses in what it complains about.
fn without_password(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_listing() {
        let id = "a".repeat(40);
        let blob_of = |mode: &str, kind: &str, length: &str, path: &str| {
            blob(format!("{mode} {kind} {id} {length}\t{path}").as_bytes(), "workflows/")
        };
        let file = blob_of("100644", "blob", "     12", "workflows/a b.json").unwrap();
        assert_eq!((file.name.as_str(), file.length, file.regular), ("a b.json", 12, true));
        assert!(!blob_of("120000", "blob", "12", "workflows/link.json").unwrap().regular);
        assert!(!blob_of("040000", "tree", "-", "workflows/below").unwrap().regular);
        assert_eq!(blob_of("100644", "blob", "12", "elsewhere/x.json"), None);
        assert_eq!(blob(b"\xff\xfe", "workflows/"), None);
        assert_eq!(blob(b"", "workflows/"), None);
    }

    #[test]
    fn complaints_have_no_passwords() {
        let text = "fatal: unable to access 'https://me:secret@example.org/a.git/': no";
        assert_eq!(without_password(text), "fatal: unable to access 'https://example.org/a.git/': no");
    }
}
