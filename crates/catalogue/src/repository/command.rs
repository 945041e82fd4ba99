//! The `git` commands that are executed, each with a timeout and an output limit.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The timeout for fetching one repository, including all commands.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the remaining output after a command has exited.
const AFTER_THE_END: Duration = Duration::from_secs(2);
/// The maximum size of error output that is kept, in bytes.
const MAX_COMPLAINT: u64 = 4096;
/// The maximum size of a file listing, in bytes.
const MAX_LISTING: u64 = 4 << 20;

/// A file of a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) length: u64,
    /// Whether it is a regular file, as opposed to a link, a submodule or a folder.
    pub(super) regular: bool,
}

/// Runs `git` until a deadline.
pub(super) struct Git {
    deadline: Instant,
}

impl Git {
    pub(super) const fn until(deadline: Instant) -> Self {
        Self { deadline }
    }

    /// Clones the newest commit of a branch, shallow and bare.
    pub(super) fn clone_bare(&self, url: &str, branch: Option<&str>, target: &Path) -> Result<(), String> {
        let mut command = command();
        // Run in the program's own folder, because the current folder may be controlled by another user.
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

    /// The `HEAD` commit of a clone.
    pub(super) fn head(&self, bare: &Path) -> Result<String, String> {
        let output = self.run(within(bare, &["rev-parse", "--verify", "HEAD^{commit}"]), 256)?;
        let commit = String::from_utf8_lossy(&output).trim().to_owned();
        let hex = matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if hex { Ok(commit) } else { Err("it has no commit".to_owned()) }
    }

    /// Lists the files in a folder of a clone.
    pub(super) fn list(&self, bare: &Path, folder: &str) -> Result<Vec<Blob>, String> {
        let path = format!("{folder}/");
        let output = self.run(within(bare, &["ls-tree", "-z", "-l", "HEAD", "--", &path]), MAX_LISTING)?;
        Ok(output.split(|byte| *byte == 0).filter_map(|line| blob(line, &path)).collect())
    }

    /// Reads a file of a clone.
    pub(super) fn blob(&self, bare: &Path, id: &str, length: u64) -> Result<Vec<u8>, String> {
        self.run(within(bare, &["cat-file", "blob", id]), length)
    }

    /// Runs a command until it exits, and returns its output, at most `most` bytes.
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
                    return Err(format!("the `git` process was lost ({error})"));
                }
            }
        };
        // A connection that `ssh` keeps open can hold the pipes open. In that case use the output so far.
        let complaint = complaint.recv_timeout(AFTER_THE_END).unwrap_or_default();
        if !status.success() {
            let text = String::from_utf8_lossy(&complaint);
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed no message");
            let last: String = last.chars().filter(|character| !character.is_control()).take(300).collect();
            return Err(format!("`git` failed: {}", without_password(&last)));
        }
        output.recv_timeout(AFTER_THE_END).map_err(|_| "the output of `git` did not end".to_owned())
    }
}

/// A non-interactive command that runs nothing from the repository itself.
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
    // This process may have been started by a hook of another repository, which sets these variables.
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
    // A separate process group, so that the children of `git` can be killed with it.
    command.process_group(0);
    command
}

fn within(bare: &Path, arguments: &[&str]) -> Command {
    let mut command = command();
    command.current_dir(bare).arg("--git-dir=.").args(arguments);
    command
}

/// Reads on a background thread, so that a full pipe does not block `git`. Output beyond the limit is discarded.
fn collect(from: Option<impl Read + Send + 'static>, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(most).read_to_end(&mut bytes);
            let _ = io::copy(&mut from, &mut io::sink());
        }
        // The receiver is gone after a timeout.
        let _ = sender.send(bytes);
    });
    receiver
}

/// Kills a command and its children.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Parses a line of `ls-tree -l -z`: mode, type, id, length, a tab, and the path.
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

/// Removes passwords from error output, because `git` repeats URLs.
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
