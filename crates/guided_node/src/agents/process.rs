//! One agent process: started behind a gate, signalled, and reaped.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use canon::time::Timestamp;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::sync::oneshot;

use super::GRACE;
use super::launch::Launch;
use super::output::OutputLog;
use super::record::{ProcessEnd, RecordedProcess};

/// Waits for a line on standard input before it executes the agent. If the host dies first, `read` fails and nothing is
/// started. The arguments are parameters of the script, so the shell does not interpret them. The input after the line is
/// the standard input of the agent.
const GATE: &str = "IFS= read -r gate && exec \"$0\" \"$@\"";
const SHELL: &str = "/bin/sh";
/// The exit codes of a shell that cannot execute a program.
const NOT_STARTED: [i32; 2] = [126, 127];
/// How long to wait for the remaining output after the process has exited. At that point only a process that left the
/// process group can still hold the pipe open.
const AFTER_THE_END: Duration = Duration::from_secs(1);
/// How often a process that is not a child of this process is polled for its exit.
const GLANCE: Duration = Duration::from_millis(50);

/// A process that runs, or still waits behind its gate.
pub(super) struct Running {
    pub(super) process: RecordedProcess,
    /// Receives how the process exited.
    pub(super) ended: oneshot::Receiver<ProcessEnd>,
    /// Receives a message when the output exceeds its limit.
    pub(super) wrote_too_much: oneshot::Receiver<()>,
    gate: Option<ChildStdin>,
    group: Group,
}

/// The process group of a child. It is safe to signal until the child is reaped, because its process ID cannot be reused
/// before.
#[derive(Clone)]
pub(super) struct Group {
    id: Pid,
    is_reaped: Arc<Mutex<bool>>,
}

impl Group {
    pub(super) fn signal(&self, signal: Signal) {
        let is_reaped = self.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_reaped {
            let _ = kill_process_group(self.id, signal);
        }
    }
}

impl Running {
    /// Starts the agent, with `prompt` as its standard input.
    pub(super) fn open_gate(&mut self, prompt: &str) -> io::Result<()> {
        let Some(mut gate) = self.gate.take() else { return Ok(()) };
        match gate.write_all(format!("\n{prompt}").as_bytes()) {
            // It exited before it read its input. Its exit status says why.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    pub(super) fn group(&self) -> Group {
        self.group.clone()
    }
}

/// Starts a process behind its gate. Its output is written to `output`, and so is a note when it exits.
pub(super) fn start(
    launch: &Launch,
    max_output: u64,
    mut output: OutputLog,
    data_dir: &Path,
    now: Timestamp,
) -> io::Result<Running> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(SHELL);
    command.arg("-c").arg(GATE).args(&launch.argv).current_dir(&launch.root).env_clear();
    for (name, value) in &launch.env {
        command.env(name, value.expose());
    }
    command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
    // A separate process group: children are killed with the process, and signals to the host do not reach it.
    command.process_group(0);
    let spawned = command.spawn();
    // The command holds the write ends of the pipe, which would keep the reader from seeing the end of the output.
    drop(command);
    let mut child = spawned?;
    let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        let _ = child.kill();
        return Err(io::Error::other("the process has no id"));
    };
    let process = RecordedProcess {
        pid: child.id(),
        identity: identity(child.id()),
        data_dir: data_dir.to_owned(),
        started_at: now,
    };
    let group = Group { id, is_reaped: Arc::default() };
    let gate = child.stdin.take();
    let (too_much, wrote_too_much) = oneshot::channel();
    let (drained, all_read) = mpsc::sync_channel(1);
    let mut reader = reader;
    thread::spawn(move || {
        let mut too_much = Some(too_much);
        let (mut buffer, mut seen) = ([0; 16 * 1024], 0_u64);
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            seen = seen.saturating_add(read as u64);
            if seen <= max_output {
                // A full disk must not stop the agent.
                let _ = output.add(&buffer[..read]);
            } else if let Some(too_much) = too_much.take() {
                // The rest is read and discarded, so that the process does not block on a full pipe until it is killed.
                let _ = too_much.send(());
            }
        }
        let _ = output.finish();
        // The receiver is gone if the process was already reaped.
        let _ = drained.send(());
    });
    let (exit, ended) = oneshot::channel();
    let own = group.clone();
    thread::spawn(move || {
        let end = reap(child, &own, &all_read);
        // The supervisor is gone if the runtime was shut down.
        let _ = exit.send(end);
    });
    Ok(Running { process, ended, wrote_too_much, gate, group })
}

/// Waits for a process to exit, kills the rest of its group, and reaps it.
fn reap(mut child: Child, group: &Group, all_read: &mpsc::Receiver<()>) -> ProcessEnd {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    // Retry if a signal interrupts the wait.
    while matches!(waitid(WaitId::Pid(group.id), options), Err(rustix::io::Errno::INTR)) {}
    let status = {
        let mut is_reaped = group.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = kill_process_group(group.id, Signal::KILL);
        *is_reaped = true;
        child.wait()
    };
    let _ = all_read.recv_timeout(AFTER_THE_END);
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ProcessEnd::Exited { code },
            (None, signal) => ProcessEnd::Signalled { signal: signal.unwrap_or_default() },
        },
        Err(_) => ProcessEnd::Unseen,
    }
}

/// Whether the program could not be executed, so that a restart is pointless.
pub(super) fn is_not_started(end: &ProcessEnd) -> bool {
    matches!(end, ProcessEnd::Exited { code } if NOT_STARTED.contains(code))
}

/// Whether a recorded process, or a member of its group, is still running.
pub(super) fn is_alive(process: &RecordedProcess) -> bool {
    let Some(group) = group_of(process) else { return false };
    match (identity(process.pid), &process.identity) {
        // The process ID belongs to the recorded process, or was reused.
        (Some(now), Some(then)) => now == *then,
        // The leader exited, or cannot be identified. Its group may still have members, and as long as it has, its ID is
        // not reused.
        (None, _) | (_, None) => same_boot(process) && has_members(group),
    }
}

/// Kills a recorded process that is not a child of this process: SIGTERM first, then SIGKILL. Waits until it has exited.
pub(super) fn kill_recorded(process: &RecordedProcess) {
    let Some(group) = group_of(process) else { return };
    for (signal, wait) in [(Signal::TERM, GRACE), (Signal::KILL, GRACE)] {
        if !is_alive(process) {
            return;
        }
        let _ = kill_process_group(group, signal);
        let deadline = Instant::now() + wait;
        while is_alive(process) && Instant::now() < deadline {
            thread::sleep(GLANCE);
        }
    }
}

fn group_of(process: &RecordedProcess) -> Option<Pid> {
    // 0 would signal the group of this process, and 1 every process.
    i32::try_from(process.pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)
}

/// Identifies a process among later ones with the same process ID, by the boot and the start time. `None` if the process
/// does not exist or is a zombie.
#[cfg(target_os = "linux")]
fn identity(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name, in parentheses, may contain any character. The other fields are numbers and one letter.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let started = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| format!("{}/{started}", boot().unwrap_or_default()))
}

#[cfg(target_os = "linux")]
fn boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Whether the machine has not been rebooted since a process was recorded.
#[cfg(target_os = "linux")]
fn same_boot(process: &RecordedProcess) -> bool {
    match (&process.identity, boot()) {
        (Some(identity), Some(boot)) => identity.starts_with(&boot),
        (None, _) | (_, None) => true,
    }
}

/// Whether a process group has a running member. Zombies do not count, because they may never be reaped.
#[cfg(target_os = "linux")]
fn has_members(group: Pid) -> bool {
    // Without `/proc`, ask the system directly. Its answer includes zombies.
    let Ok(processes) = std::fs::read_dir("/proc") else { return test_kill_process_group(group).is_ok() };
    let group = group.as_raw_nonzero().to_string();
    processes.filter_map(Result::ok).any(|process| {
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { return false };
        let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
        let mut fields = fields.split(' ');
        let (state, of_group) = (fields.next(), fields.nth(1));
        of_group == Some(group.as_str()) && !matches!(state, Some("Z" | "X"))
    })
}

#[cfg(not(target_os = "linux"))]
fn has_members(group: Pid) -> bool {
    test_kill_process_group(group).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn identity(pid: u32) -> Option<String> {
    let output = Command::new("ps").args(["-o", "lstart=", "-p", &pid.to_string()]).output().ok()?;
    let started = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!started.is_empty()).then_some(started)
}

#[cfg(not(target_os = "linux"))]
const fn same_boot(_process: &RecordedProcess) -> bool {
    true
}
