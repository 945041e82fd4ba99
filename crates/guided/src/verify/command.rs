//! Runs one command with a timeout, an output limit and its own process group.

use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use canon::digest::Digest;
use guide::verification::{CommandEnd, CommandOutcome, OUTPUT_TAIL_BYTES};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use sha2::{Digest as _, Sha256};

use super::{AllowedCommand, Verifier};

/// The environment variables of this process that commands and agents inherit. None of them contains a secret.
pub const INHERITED: [&str; 9] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"];
/// How often the command is polled for its exit.
const GLANCE: Duration = Duration::from_millis(5);
/// How long to wait for the remaining output after the command has exited. At that point only a process that left the
/// process group can still hold the pipe open.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// The output so far. The digest covers all of it; `tail` has the last part.
#[derive(Default)]
struct Captured {
    hash: Sha256,
    bytes: u64,
    tail: Vec<u8>,
}

/// Runs a command in a directory until it exits or exceeds a limit.
pub(super) fn run(
    verifier: &Verifier,
    allowed: &AllowedCommand,
    root: &Path,
    composed: &BTreeMap<String, String>,
) -> CommandOutcome {
    try_run(verifier, allowed, root, composed).unwrap_or_else(|reason| CommandOutcome::NotStarted { reason })
}

fn try_run(
    verifier: &Verifier,
    allowed: &AllowedCommand,
    root: &Path,
    composed: &BTreeMap<String, String>,
) -> Result<CommandOutcome, String> {
    let (program, arguments) = allowed.argv.split_first().ok_or("`argv` is empty")?;
    let failed = |cause: std::io::Error| format!("its output cannot be read ({cause})");
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).env_clear();
    for name in INHERITED.iter().copied().chain(allowed.env.iter().map(String::as_str)) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(composed.iter().filter(|(name, _)| allowed.env.contains(name)));
    command.env("INTERLOCK_WORKSPACE", root);
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    // A separate process group, so that the command's children can be killed with it.
    command.process_group(0);
    let begun = Instant::now();
    let spawned = command.spawn();
    // The command holds the write ends of the pipe, which would keep the reader from seeing the end of the output.
    drop(command);
    let mut child = spawned.map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("`{program}` was not found"),
        _ => format!("`{program}` cannot be started ({error})"),
    })?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("it has no process id")?;
    let may_run = verifier.note(group);
    let (captured, ended) = capture(reader, allowed.max_output);
    let limit = if may_run { wait(group, begun + allowed.timeout, &ended) } else { Some(Limit::Stopped) };
    // The process ID cannot be reused before the command is reaped, so it is safe to signal the group.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait();
    verifier.forget(group);
    let duration = begun.elapsed();
    let wrote_too_much = limit == Some(Limit::Output) || {
        limit.is_none() && matches!(ended.recv_timeout(AFTER_THE_END), Ok(OutputEnd::TooMuch))
    };
    let status = status.map_err(|cause| format!("it was lost ({cause})"))?;
    let end = if wrote_too_much {
        CommandEnd::OutputLimit { limit_bytes: allowed.max_output }
    } else if limit == Some(Limit::Time) {
        CommandEnd::TimedOut { limit_ms: milliseconds(allowed.timeout) }
    } else {
        end_of(status)
    };
    let captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(CommandOutcome::Ran {
        argv: allowed.argv.clone(),
        ended: end,
        duration_ms: milliseconds(duration),
        output_sha256: Digest::from_bytes(captured.hash.clone().finalize().into()),
        output_bytes: captured.bytes,
        output_tail: readable(&captured.tail),
    })
}

/// Why a command is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    Time,
    Output,
    Stopped,
}

/// Waits until a command has exited or exceeds a limit. Does not reap it.
fn wait(command: Pid, deadline: Instant, output: &mpsc::Receiver<OutputEnd>) -> Option<Limit> {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(command), options) {
            Ok(None) => {}
            // It exited, or its status is unavailable. Reaping it returns the exit status.
            Ok(Some(_)) | Err(_) => return None,
        }
        if Instant::now() >= deadline {
            return Some(Limit::Time);
        }
        match output.recv_timeout(GLANCE) {
            Ok(OutputEnd::TooMuch) => return Some(Limit::Output),
            // It closed its output but may still run.
            Ok(OutputEnd::Closed) | Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(GLANCE),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Why reading the output stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputEnd {
    Closed,
    TooMuch,
}

/// Reads the output on a background thread, up to the limit plus one byte.
fn capture(mut from: PipeReader, most: u64) -> (Arc<Mutex<Captured>>, mpsc::Receiver<OutputEnd>) {
    let captured = Arc::new(Mutex::new(Captured::default()));
    let (sender, receiver) = mpsc::sync_channel(1);
    let shared = Arc::clone(&captured);
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        let end = loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => break OutputEnd::Closed,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break OutputEnd::Closed,
            };
            let mut captured = shared.lock().unwrap_or_else(PoisonError::into_inner);
            captured.add(&buffer[..read]);
            if captured.bytes > most {
                break OutputEnd::TooMuch;
            }
        };
        // The receiver is gone if the command was abandoned.
        let _ = sender.send(end);
    });
    (captured, receiver)
}

impl Captured {
    fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        let excess = self.tail.len().saturating_sub(OUTPUT_TAIL_BYTES);
        self.tail.drain(..excess);
    }
}

/// Converts the tail to text without control characters. It is truncated again, because an invalid byte becomes three
/// bytes.
fn readable(tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let plain: String = text
        .chars()
        .filter(|character| !character.is_control() || matches!(character, '\n' | '\t'))
        .collect();
    let from = plain.len().saturating_sub(OUTPUT_TAIL_BYTES);
    let from = (from..=plain.len()).find(|at| plain.is_char_boundary(*at)).unwrap_or(plain.len());
    plain[from..].to_owned()
}

fn end_of(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Exited { code },
        (None, signal) => CommandEnd::Signalled { signal: signal.unwrap_or_default() },
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::Workspaces;
    use super::*;

    fn allowed(argv: &[&str]) -> AllowedCommand {
        AllowedCommand {
            argv: argv.iter().map(|part| (*part).to_owned()).collect(),
            timeout: Duration::from_secs(60),
            max_output: 64 << 10,
            env: Vec::new(),
        }
    }

    fn ran(allowed: &AllowedCommand, root: &Path) -> (CommandEnd, u64, String, Digest) {
        ran_with(allowed, root, &[])
    }

    fn ran_with(
        allowed: &AllowedCommand,
        root: &Path,
        composed: &[(&str, &str)],
    ) -> (CommandEnd, u64, String, Digest) {
        let verifier = Verifier::new(BTreeMap::new(), Workspaces::Any);
        let composed = composed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        match run(&verifier, allowed, root, &composed.collect()) {
            CommandOutcome::Ran { ended, output_bytes, output_tail, output_sha256, .. } => {
                assert!(verifier.running.lock().unwrap().groups.is_empty());
                (ended, output_bytes, output_tail, output_sha256)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_runs_in_the_workspace_without_a_shell_and_is_recorded_whole() {
        let root = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(root.path()).unwrap();
        std::fs::write(root.join("a file"), "x").unwrap();
        let (ended, bytes, tail, sha256) = ran(&allowed(&["ls", "--", "a file"]), &root);
        assert_eq!((ended, tail.as_str()), (CommandEnd::Exited { code: 0 }, "a file\n"));
        assert_eq!((bytes, sha256), (7, Digest::of_bytes(b"a file\n")));
        let (_, _, tail, _) = ran(&allowed(&["echo", "$HOME;", "`id`"]), &root);
        assert_eq!(tail, "$HOME; `id`\n", "no shell reads it");
        let both = allowed(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
        let (ended, _, tail, _) = ran(&both, &root);
        assert_eq!((ended, tail.as_str()), (CommandEnd::Exited { code: 3 }, "out\nerr\n"));
        let (ended, ..) = ran(&allowed(&["sh", "-c", "kill -TERM $$"]), &root);
        assert_eq!(ended, CommandEnd::Signalled { signal: 15 });
        let (ended, bytes, tail, _) = ran(&allowed(&["sh", "-c", "printf '\\033[31mred\\377'"]), &root);
        assert_eq!((ended, bytes, tail.as_str()), (CommandEnd::Exited { code: 0 }, 9, "[31mred\u{fffd}"));
    }

    /// Commands do not inherit the environment of the process, except for variables that the operator names.
    #[test]
    fn a_command_gets_a_bare_environment() {
        let root = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(root.path()).unwrap();
        let (_, _, bare, _) = ran(&allowed(&["env"]), &root);
        let named = |text: &str, name: &str| text.lines().any(|line| line.starts_with(&format!("{name}=")));
        // Cargo sets this variable for every test.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert!(!named(&bare, "CARGO_MANIFEST_DIR"), "{bare}");
        assert!(bare.contains(&format!("INTERLOCK_WORKSPACE={}", root.display())), "{bare}");
        for line in bare.lines().filter(|line| !line.starts_with("INTERLOCK_WORKSPACE=")) {
            let name = line.split('=').next().unwrap();
            assert!(INHERITED.contains(&name), "{name}");
        }
        let wide = AllowedCommand { env: vec!["CARGO_MANIFEST_DIR".to_owned()], ..allowed(&["env"]) };
        assert!(named(&ran(&wide, &root).2, "CARGO_MANIFEST_DIR"));
        // The manifest of a workspace can set only the variables that the operator names.
        let composed = [("CARGO_MANIFEST_DIR", "composed"), ("LD_AUDIT", "evil")];
        let (_, _, shown, _) = ran_with(&wide, &root, &composed);
        assert!(shown.contains("CARGO_MANIFEST_DIR=composed\n") && !named(&shown, "LD_AUDIT"), "{shown}");
    }

    #[test]
    fn a_command_that_cannot_be_started_says_why() {
        let root = tempfile::tempdir().unwrap();
        let verifier = Verifier::new(BTreeMap::new(), Workspaces::Any);
        let outcome = run(&verifier, &allowed(&["no-such-program-here"]), root.path(), &BTreeMap::new());
        let reason = "`no-such-program-here` was not found".to_owned();
        assert_eq!(outcome, CommandOutcome::NotStarted { reason });
    }

    /// A limit kills the whole process group, including a child that ignores SIGTERM.
    #[test]
    fn limits_kill_the_command_and_what_it_started() {
        let root = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(root.path()).unwrap();
        let script = "trap '' TERM HUP; sleep 600 & echo $! > child; wait; sleep 600";
        let slow = AllowedCommand { timeout: Duration::from_millis(500), ..allowed(&["sh", "-c", script]) };
        let (ended, ..) = ran(&slow, &root);
        assert_eq!(ended, CommandEnd::TimedOut { limit_ms: 500 });
        assert_gone(&root);

        let loud = AllowedCommand {
            max_output: 10_000,
            ..allowed(&["sh", "-c", "sleep 600 & echo $! > child; yes"])
        };
        let (ended, bytes, tail, _) = ran(&loud, &root);
        assert_eq!(ended, CommandEnd::OutputLimit { limit_bytes: 10_000 });
        assert!((10_001..=10_000 + 16 * 1024).contains(&bytes), "{bytes}");
        assert!(tail.len() <= OUTPUT_TAIL_BYTES);
        assert_gone(&root);

        let left = allowed(&["sh", "-c", "sleep 600 & echo $! > child; echo done"]);
        let (ended, _, tail, _) = ran(&left, &root);
        assert_eq!(
            (ended, tail.as_str()),
            (CommandEnd::Exited { code: 0 }, "done\n"),
            "what it left is ended too"
        );
        assert_gone(&root);
    }

    /// Waits until the process whose ID a script wrote is gone. It was killed, and another process reaps it.
    fn assert_gone(root: &Path) {
        let child: i32 = std::fs::read_to_string(root.join("child")).unwrap().trim().parse().unwrap();
        let status = format!("/proc/{child}/stat");
        let is_gone = || match std::fs::read_to_string(&status) {
            Err(_) => true,
            // A zombie no longer runs.
            Ok(text) => text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_gone() {
            assert!(Instant::now() < deadline, "{child} still runs");
            thread::yield_now();
        }
        std::fs::remove_file(root.join("child")).unwrap();
    }

    #[test]
    fn a_verifier_that_was_stopped_ends_what_runs_and_runs_nothing_more() {
        let root = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(root.path()).unwrap();
        let verifier = Verifier::new(BTreeMap::new(), Workspaces::Any);
        let outcome = thread::scope(|scope| {
            let running =
                scope.spawn(|| run(&verifier, &allowed(&["sleep", "600"]), &root, &BTreeMap::new()));
            while verifier.running.lock().unwrap().groups.is_empty() {
                thread::yield_now();
            }
            verifier.stop();
            running.join().unwrap()
        });
        let killed = |outcome: &CommandOutcome| {
            matches!(outcome, CommandOutcome::Ran { ended: CommandEnd::Signalled { signal: 9 }, .. })
        };
        assert!(killed(&outcome), "{outcome:?}");
        let outcome = run(&verifier, &allowed(&["sleep", "600"]), &root, &BTreeMap::new());
        assert!(killed(&outcome), "{outcome:?}");
    }
}
