//! Runs `git` with time and size limits, and without user or system configuration.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::library::limits::REPO_BYTES;
use crate::{Code, Error};

/// The timeout of a checkout.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);
/// How long to wait for the output of a command that has ended.
const AFTER_THE_END: Duration = Duration::from_secs(2);
/// The polling interval of a running command.
const GLANCE: Duration = Duration::from_millis(5);
/// How many polls between checks of the fetched size, which read a directory.
const GLANCES_PER_MEASURE: u32 = 20;
/// The limit of the error output.
const MAX_COMPLAINT: u64 = 4096;

/// Settings that override those of a repository. User and system settings are not read, so there
/// are no filters, credential helpers or rewritten URLs.
const SETTINGS: [&str; 14] = [
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "core.logAllRefUpdates=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "protocol.https.allow=always",
    // Only the host in `repos.toml` is contacted.
    "http.followRedirects=false",
    "submodule.recurse=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
];

/// The passed environment variables: program paths, network and certificates.
const ENVIRONMENT: [&str; 11] = [
    "PATH",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    // Developer tools on macOS.
    "DEVELOPER_DIR",
];

/// The folder of the repository in the private folder.
pub(super) const FOLDER: &str = "repository";

/// `git` in a folder, with a deadline.
pub(super) struct Git<'a> {
    /// The private folder: home, working directory, and ceiling of searches.
    pub(super) folder: &'a Path,
    pub(super) deadline: Instant,
    /// Whether the command should stop.
    pub(super) stop: &'a dyn Fn() -> Result<(), Error>,
}

impl Git<'_> {
    /// Runs a command in the repository and returns at most `most` bytes of output.
    pub(super) fn within(&self, arguments: &[&str], most: u64) -> Result<Vec<u8>, Error> {
        // An explicit path, so that git does not search upwards.
        let place = ["-C", FOLDER, "--git-dir=.git", "--work-tree=."];
        self.run(&[&place, arguments].concat(), most)
    }

    /// Runs a command in the private folder and returns at most `most` bytes of output.
    pub(super) fn run(&self, arguments: &[&str], most: u64) -> Result<Vec<u8>, Error> {
        let mut command = self.command();
        command.args(arguments);
        self.finish(command, most)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        command.env_clear();
        for name in ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.folder).env("GIT_CEILING_DIRECTORIES", self.folder);
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1");
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "true").env("SSH_ASKPASS", "true");
        command.env("GIT_LFS_SKIP_SMUDGE", "1").env("GIT_NO_REPLACE_OBJECTS", "1").env("LC_ALL", "C");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false"]);
        command.current_dir(self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A separate process group, so that child processes are ended too.
        command.process_group(0);
        command
    }

    fn finish(&self, mut command: Command, most: u64) -> Result<Vec<u8>, Error> {
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => upstream("`git` is not installed; repositories are fetched with it"),
            _ => upstream(&format!("`git` cannot be started: {error}")),
        })?;
        let mut running = Running { child };
        let output = collect(running.child.stdout.take(), most);
        let complaint = collect(running.child.stderr.take(), MAX_COMPLAINT);
        let status = self.wait(&mut running)?;
        // A helper that outlives its command keeps the pipes open; then use what has arrived.
        let complaint = complaint.recv_timeout(AFTER_THE_END).unwrap_or_default();
        let output =
            output.recv_timeout(AFTER_THE_END).map_err(|_| upstream("`git` did not close its output"))?;
        if output.len() as u64 > most {
            return Err(Error::limit("bytes of a listing of a repository", most, output.len() as u64));
        }
        if status.success() { Ok(output) } else { Err(failure(&complaint)) }
    }

    fn wait(&self, running: &mut Running) -> Result<ExitStatus, Error> {
        let mut glances = 0_u32;
        loop {
            match running.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(upstream(&format!("lost track of `git`: {error}"))),
            }
            (self.stop)()?;
            if Instant::now() >= self.deadline {
                let message = format!("`git` took longer than {} seconds", TIMEOUT.as_secs());
                return Err(Error::new(Code::ResolveTimeout, message));
            }
            glances += 1;
            if glances.is_multiple_of(GLANCES_PER_MEASURE) {
                // The size of a transfer is not announced, so it is measured while it arrives.
                REPO_BYTES.check(arrived(self.folder))?;
            }
            thread::sleep(GLANCE);
        }
    }
}

/// The bytes of packs written so far.
fn arrived(folder: &Path) -> u64 {
    let Ok(packs) = fs::read_dir(folder.join(FOLDER).join(".git/objects/pack")) else { return 0 };
    packs.flatten().filter_map(|entry| entry.metadata().ok()).map(|facts| facts.len()).sum()
}

/// A command that is ended with all its children, on every path.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads in the background, so that a full pipe never blocks `git`. Beyond the limit the pipe is
/// closed, which ends a command that writes forever.
fn collect(from: Option<impl Read + Send + 'static>, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            let _ = from.take(most + 1).read_to_end(&mut bytes);
        }
        // After the deadline there is no receiver.
        let _ = sender.send(bytes);
    });
    receiver
}

fn upstream(message: &str) -> Error {
    Error::new(Code::ResolveUpstream, message)
}

/// The error output of `git`, with a code that tells whether a retry can help.
fn failure(complaint: &[u8]) -> Error {
    const ABSENT: [&str; 6] = [
        "couldn't find remote ref",
        "not our ref",
        "does not appear to be a git repository",
        "repository not found",
        "not found: did you run git update-server-info",
        "no such remote ref",
    ];
    const DENIED: [&str; 6] = [
        "authentication failed",
        "could not read username",
        "could not read password",
        "dubious ownership",
        "permission denied",
        "not allowed",
    ];
    let text = String::from_utf8_lossy(complaint);
    let lower = text.to_lowercase();
    let said = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let status = lower.split_once("returned error: ").map(|(_, rest)| rest.get(..3).unwrap_or_default());
    let code = if said(&DENIED) || matches!(status, Some("301" | "302" | "307" | "308" | "401" | "403")) {
        Code::ResolveDenied
    } else if said(&ABSENT) || status == Some("404") || lower.contains("' not found") {
        Code::ResolveNotFound
    } else {
        Code::ResolveUpstream
    };
    let line = text.lines().find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    let line =
        line.or_else(|| text.lines().rfind(|line| !line.trim().is_empty())).unwrap_or("no error message");
    let line: String = line.chars().filter(|character| !character.is_control()).take(300).collect();
    Error::new(code, format!("`git` failed: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git<'a>(folder: &'a Path, deadline: Instant, stop: &'a dyn Fn() -> Result<(), Error>) -> Git<'a> {
        Git { folder, deadline, stop }
    }

    #[test]
    fn a_command_is_killed_after_its_timeout() {
        let folder = std::env::temp_dir();
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let refused = git(&folder, Instant::now(), &|| Ok(())).finish(command, 0).unwrap_err();
        assert_eq!(refused.code(), Code::ResolveTimeout);
    }

    #[test]
    fn a_command_is_killed_when_cancelled() {
        let folder = std::env::temp_dir();
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let stop = || Err(Error::new(Code::ApplyIo, "another mount failed"));
        let refused = git(&folder, Instant::now() + TIMEOUT, &stop).finish(command, 0).unwrap_err();
        assert_eq!(refused.code(), Code::ApplyIo);
    }

    #[test]
    fn a_command_with_endless_output_is_killed() {
        let folder = std::env::temp_dir();
        let mut command = Command::new("yes");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let refused = git(&folder, Instant::now() + TIMEOUT, &|| Ok(())).finish(command, 1000).unwrap_err();
        assert_eq!(refused.code(), Code::LimitExceeded);
    }

    #[test]
    fn user_and_system_settings_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let settings = "[core]\n\tsshCommand = touch canary\n";
        fs::write(folder.path().join(".gitconfig"), settings).unwrap();
        fs::create_dir_all(folder.path().join(".config/git")).unwrap();
        fs::write(folder.path().join(".config/git/config"), settings).unwrap();
        let git = git(folder.path(), Instant::now() + TIMEOUT, &|| Ok(()));
        let read = git.run(&["config", "--list", "--show-origin"], 1 << 16).unwrap();
        let read = String::from_utf8(read).unwrap();
        assert!(read.lines().count() >= SETTINGS.len(), "{read}");
        assert!(read.lines().all(|line| line.starts_with("command line:")), "{read}");
    }

    #[test]
    fn git_errors_map_to_codes() {
        #[rustfmt::skip]
        let cases = [
            ("fatal: couldn't find remote ref nope",                                     Code::ResolveNotFound),
            ("fatal: remote error: upload-pack: not our ref 0123",                       Code::ResolveNotFound),
            ("fatal: '/x' does not appear to be a git repository\nfatal: Could not read", Code::ResolveNotFound),
            ("fatal: repository 'https://example.org/a/' not found",                     Code::ResolveNotFound),
            ("fatal: could not read Username for 'https://example.org': No such device", Code::ResolveDenied),
            ("fatal: detected dubious ownership in repository at '/x'",                  Code::ResolveDenied),
            ("fatal: transport 'ssh' not allowed",                                       Code::ResolveDenied),
            ("fatal: unable to access 'x': The requested URL returned error: 301",       Code::ResolveDenied),
            ("fatal: unable to access 'x': The requested URL returned error: 404",       Code::ResolveNotFound),
            ("fatal: unable to access 'x': The requested URL returned error: 503",       Code::ResolveUpstream),
            ("fatal: unable to access 'https://example.org/': Could not resolve host",   Code::ResolveUpstream),
            ("",                                                                         Code::ResolveUpstream),
        ];
        for (said, code) in cases {
            assert_eq!(failure(said.as_bytes()).code(), code, "{said}");
        }
    }
}
